//! Requests to a facilitator to act on a channel, and its replies. The chain decides whether a reply is true.

use tokio::time::timeout;

use super::super::{
    answers::{is_final, stated},
    call::FacilitatorAction,
    endpoint::Endpoint,
    settler::{Inner, SUPPORTED_AGE},
    transport::{Answer, Fault},
};
use crate::{
    protocol::{
        Address, Network, TxHash,
        v2::{Reason, SettleResponse, Supported, VerifyResponse},
    },
    settle::{SettleError, Validity},
};

/// A facilitator's reply to a request to act.
pub(super) enum Said {
    /// No facilitator could be reached: nothing was sent.
    Nothing,
    /// The action is done, by this transaction.
    Done(TxHash),
    /// Nothing was sent, for this reason.
    Refused(Reason),
    /// Any other reply: the action may be done.
    Doubt(Option<TxHash>),
}

/// A reply and the facilitator that gave it; none if none could be reached.
pub(super) struct Told<'a> {
    pub(super) said: Said,
    by: Option<&'a Endpoint>,
}

impl Told<'_> {
    /// Notes that the chain contradicts the reply: for a while, other facilitators are preferred.
    pub(super) fn is_wrong(&self) {
        if let Some(by) = self.by {
            by.rest();
        }
    }
}

impl Inner {
    /// Sends a request to the first facilitator that supports such channels. The next one is used only if the earlier
    /// ones could not be reached. One that gives no usable answer is used last for a while.
    ///
    /// `authorizer`: the account that must sign, if the facilitator signs.
    pub(super) async fn tell(&self, network: Network, authorizer: Option<Address>, body: &str) -> Told<'_> {
        for (_, endpoint) in self.order(None) {
            let supported = endpoint.supported(SUPPORTED_AGE, self.limits.supported).await;
            if !supported.is_ok_and(|supported| keeps(&supported, network, authorizer)) {
                continue;
            }
            let sent = endpoint.transport.send(FacilitatorAction::Settle, Some(body.to_owned()));
            let said = match timeout(self.limits.settle, sent).await {
                Ok(Ok(answer)) => said(&answer, network),
                Ok(Err(Fault::NotSent)) => {
                    endpoint.rest();
                    continue;
                }
                Ok(Err(Fault::Lost)) | Err(_) => Said::Doubt(None),
            };
            let told = Told { said, by: Some(endpoint) };
            if matches!(told.said, Said::Doubt(None)) {
                told.is_wrong();
            }
            return told;
        }
        Told { said: Said::Nothing, by: None }
    }

    /// Asks whether a deposit could be made.
    pub(super) async fn asks(
        &self,
        network: Network,
        authorizer: Option<Address>,
        payer: Address,
        body: &str,
    ) -> Result<Validity, SettleError> {
        for (_, endpoint) in self.order(None) {
            let supported = endpoint.supported(SUPPORTED_AGE, self.limits.supported).await;
            if !supported.is_ok_and(|supported| keeps(&supported, network, authorizer)) {
                continue;
            }
            let sent = endpoint.transport.send(FacilitatorAction::Verify, Some(body.to_owned()));
            let answer = timeout(self.limits.verify, sent).await.ok().and_then(Result::ok);
            if let Some(validity) = answer.and_then(|answer| validity(&answer, payer)) {
                endpoint.wake();
                return Ok(validity);
            }
            tracing::warn!("a facilitator gave no usable answer about a deposit");
            endpoint.rest();
        }
        Err(SettleError::unavailable())
    }
}

/// Returns whether a facilitator supports channels on that network, and signs with that account if required.
fn keeps(supported: &Supported, network: Network, authorizer: Option<Address>) -> bool {
    let signs = |authorizer| supported.receiver_authorizer(network) == Some(authorizer);
    supported.keeps_channels(network) && authorizer.is_none_or(signs)
}

/// Returns whether the reason is a failure of the facilitator's check, which says nothing about the deposit or action.
fn is_passing(reason: &Reason) -> bool {
    [
        Reason::INVALID_BATCH_SETTLEMENT_EVM_RPC_READ_FAILED,
        Reason::INVALID_BATCH_SETTLEMENT_EVM_VERIFICATION_STATE_UNAVAILABLE,
    ]
    .contains(reason)
}

fn validity(answer: &Answer, payer: Address) -> Option<Validity> {
    if answer.status.is_redirection() {
        return None;
    }
    let said = VerifyResponse::from_json(&answer.body).ok()?;
    match said.is_valid {
        false if said.invalid_reason.as_ref().is_some_and(is_passing) => None,
        true => (answer.status.is_success() && said.payer.is_none_or(|told| told == payer)).then_some(Validity::Valid),
        false => stated(said.invalid_reason).map(Validity::Refused),
    }
}

fn said(answer: &Answer, network: Network) -> Said {
    let said = match SettleResponse::from_json(&answer.body) {
        Ok(said) if !answer.status.is_redirection() => said,
        _ => return Said::Doubt(None),
    };
    let is_here = said.network.is_none_or(|told| told == network);
    match (said.transaction.filter(|_| is_here), said.error_reason) {
        (Some(transaction), _) if said.success && answer.status.is_success() => Said::Done(transaction),
        (None, Some(reason))
            if !said.success && said.transaction.is_none() && is_final(&reason) && !is_passing(&reason) =>
        {
            Said::Refused(reason)
        }
        (transaction, _) => Said::Doubt(transaction),
    }
}
