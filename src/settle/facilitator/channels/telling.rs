//! Telling a facilitator to do something with a channel, and what it says of that. Whether it is so, the chain decides.

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

/// What a facilitator says of what it was told to do.
pub(super) enum Said {
    /// None could be reached: nothing was sent.
    Nothing,
    /// It is done, by this transaction.
    Done(TxHash),
    /// Nothing was sent, and why.
    Refused(Reason),
    /// Anything else: it may be done.
    Doubt(Option<TxHash>),
}

/// What was said, and by which facilitator; by none where none could be reached.
pub(super) struct Told<'a> {
    pub(super) said: Said,
    by: Option<&'a Endpoint>,
}

impl Told<'_> {
    /// The chain says otherwise: others are told first for a while.
    pub(super) fn is_wrong(&self) {
        if let Some(by) = self.by {
            by.rest();
        }
    }
}

impl Inner {
    /// Tells the first facilitator that keeps such channels. Another one is told only where none could be reached before; one that
    /// gives no usable answer is told last for a while.
    ///
    /// `authorizer`: the account that has to sign, where the facilitator does.
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

/// Whether a facilitator keeps channels there, and signs with that account, if it has to.
fn keeps(supported: &Supported, network: Network, authorizer: Option<Address>) -> bool {
    let signs = |authorizer| supported.receiver_authorizer(network) == Some(authorizer);
    supported.keeps_channels(network) && authorizer.is_none_or(signs)
}

/// Whether the facilitator could not look, which says nothing of what it was asked about.
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
