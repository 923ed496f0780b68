//! Deposits: a facilitator checks and makes them.

use super::{asking, telling::Said};
use crate::{
    protocol::{
        channel::{ChannelConfig, ChannelDeposit, DepositAuthorization, Voucher},
        v2::Reason,
    },
    settle::{
        SettleError, Settlement, Validity, deposits,
        facilitator::{
            domains::domain_of,
            keeper::{Fact, Keeper, SEEN_WITHIN},
            settler::Inner,
        },
    },
};

/// The request about a deposit.
pub(super) struct Question<'a> {
    config: &'a ChannelConfig,
    deposit: &'a ChannelDeposit,
    body: String,
}

impl<'a> Question<'a> {
    /// Creates the request.
    ///
    /// # Errors
    /// The reason why the deposit could not be made.
    pub(super) fn new(
        (inner, keeper): (&Inner, &Keeper),
        config: &'a ChannelConfig,
        deposit: &'a ChannelDeposit,
        voucher: &Voucher,
    ) -> Result<Self, Reason> {
        if keeper.authorizer().is_some_and(|own| own != config.receiver_authorizer) {
            return Err(Reason::INVALID_BATCH_SETTLEMENT_EVM_RECEIVER_AUTHORIZER_MISMATCH);
        }
        if let Some(reason) = deposits::misfit(keeper.network, config, deposit) {
            return Err(reason);
        }
        let domain = domain_of(&inner.domains, keeper.network, config.token, None).ok().flatten();
        if domain.is_none() && matches!(deposit.authorization, DepositAuthorization::Erc3009(_)) {
            return Err(Reason::INVALID_BATCH_SETTLEMENT_EVM_MISSING_EIP712_DOMAIN);
        }
        let body = asking::deposit(keeper.network, (config, deposit), voucher, domain.as_ref());
        Ok(Self { config, deposit, body })
    }

    fn is_made(&self) -> Fact<'a> {
        Fact::Deposited(self.config, self.deposit)
    }
}

pub(super) async fn verify(inner: &Inner, keeper: &Keeper, question: &Question<'_>) -> Result<Validity, SettleError> {
    if keeper.is_so(&question.is_made()).await? {
        return Ok(Validity::Used);
    }
    let config = question.config;
    inner.asks(keeper.network, keeper.signing(config), config.payer, &question.body).await
}

pub(super) async fn make(inner: &Inner, keeper: &Keeper, question: &Question<'_>) -> Settlement {
    let is_made = question.is_made();
    // Another transaction made it, and its hash is not known.
    if !matches!(keeper.is_so(&is_made).await, Ok(false)) {
        return Settlement::Unknown(None);
    }
    match inner.tell(keeper.network, keeper.signing(question.config), &question.body).await.said {
        Said::Done(transaction) if keeper.becomes(&is_made, SEEN_WITHIN).await => Settlement::Settled(transaction),
        Said::Done(transaction) => Settlement::Unknown(Some(transaction)),
        // It may report a refusal for a deposit that it made, or is about to make.
        Said::Refused(_) if keeper.becomes(&is_made, SEEN_WITHIN).await => Settlement::Unknown(None),
        Said::Refused(reason) => match keeper.is_so(&is_made).await {
            Ok(false) => Settlement::Refused(reason),
            _ => Settlement::Unknown(None),
        },
        Said::Doubt(transaction) => Settlement::Unknown(transaction),
        // It may have been sent earlier.
        Said::Nothing => Settlement::Unknown(None),
    }
}
