//! What is checked before a payment is taken on: everything that would make its transaction fail, and whether one can be paid for.

use futures_util::future::{join, try_join};
use tracing::warn;

use super::{
    core::{Core, GAS_MAX},
    order::Order,
    trial::{self, Trial},
};
use crate::{
    evm::wallet::{node::Failure, token_domain::token_domain},
    protocol::{Address, Network, TokenDomain, v2::Reason},
    settle::{SettleError, SettleErrorKind, SignedPayment, Validity},
};

impl From<Failure> for SettleError {
    fn from(_: Failure) -> Self {
        Self::unavailable()
    }
}

/// Whether a payment could be settled now.
pub(super) async fn verify(core: &Core, payment: &SignedPayment) -> Result<Validity, SettleError> {
    if let Some(reason) = misfit(core, payment) {
        return Ok(Validity::Refused(reason));
    }
    let order = Order::of(payment);
    match core.flights.are_by(&order.name(), &order.input) {
        // Shown again while it is being settled: what comes of that is told to both.
        Some(true) => return Ok(Validity::Valid),
        // For another quote, or with another signature: what comes of it is to be awaited.
        Some(false) => return Err(SettleError::unavailable()),
        None => {}
    }
    if core.flights.are_full() {
        return Err(SettleError::new(SettleErrorKind::Overloaded));
    }
    if !is_plausible(core, &order).await? {
        return Ok(Validity::Refused(Reason::INVALID_EXACT_EVM_PAYLOAD_SIGNATURE));
    }
    let (tried, afforded) = join(trial::tried(core, &order), affords(core)).await;
    match tried? {
        Trial::Settles { .. } => {}
        // That a nonce is used is said to its payer only.
        Trial::Used if trial::is_signed(core, &order).await? => return Ok(Validity::Used),
        Trial::Used => return Ok(Validity::Refused(Reason::INVALID_EXACT_EVM_PAYLOAD_SIGNATURE)),
        Trial::Fails(reason) => return Ok(Validity::Refused(reason)),
    }
    afforded.map(|()| Validity::Valid)
}

/// What can be told without asking anybody.
pub(super) fn misfit(core: &Core, payment: &SignedPayment) -> Option<Reason> {
    let SignedPayment { authorization, requirements, domain, .. } = payment;
    let signed = &authorization.authorization;
    if requirements.network != core.account.network {
        Some(Reason::INVALID_NETWORK)
    } else if domain.token != requirements.asset {
        Some(Reason::INVALID_PAYMENT_REQUIREMENTS)
    } else if signed.to != requirements.pay_to {
        Some(Reason::INVALID_EXACT_EVM_PAYLOAD_RECIPIENT_MISMATCH)
    } else if signed.value != requirements.amount {
        Some(Reason::INVALID_EXACT_EVM_PAYLOAD_AUTHORIZATION_VALUE_MISMATCH)
    } else {
        None
    }
}

/// Whether anybody could take that for the payer's signature: it is by its key, or the payer is a contract that can be asked.
pub(super) async fn is_plausible(core: &Core, order: &Order) -> Result<bool, Failure> {
    if order.is_by_key || order.is_undeployed {
        return Ok(order.is_by_key);
    }
    core.account.nodes.first(|node| node.has_code(order.authorization.from)).await
}

/// Checks that a transaction can be paid for.
async fn affords(core: &Core) -> Result<(), SettleError> {
    let (fees, ether) = try_join(core.account.fees(), core.account.ether()).await?;
    if fees.most > core.policy.max_fee_per_gas {
        warn!("nothing is settled: the chain's fees exceed `max_fee_per_gas`");
        return Err(SettleError::unavailable());
    }
    is_enough(core, ether, fees.most.saturating_mul(GAS_MAX.into()))
}

/// Checks that the account has so much ether, in wei.
pub(super) async fn has_ether(core: &Core, wei: u128) -> Result<(), SettleError> {
    is_enough(core, core.account.ether().await?, wei)
}

fn is_enough(core: &Core, ether: u128, wei: u128) -> Result<(), SettleError> {
    if ether >= wei {
        return Ok(());
    }
    let account = core.account.address;
    warn!(%account, "the settling account has too little ether for gas: send it some");
    Err(SettleError::new(SettleErrorKind::OutOfGas { account }))
}

/// The domain under which authorizations of a token are signed, as its contract states it; `None` for one without them.
pub(super) async fn domain(
    core: &Core,
    network: Network,
    token: Address,
    stated: Option<&TokenDomain>,
) -> Result<Option<TokenDomain>, SettleError> {
    if network != core.account.network {
        return Err(SettleError::new(SettleErrorKind::WrongChain { network }));
    }
    let read = token_domain(&core.account, token).await?;
    match (&read, stated) {
        (Some(read), Some(stated)) if read != stated => Err(SettleError::new(SettleErrorKind::WrongDomain { token })),
        _ => Ok(read),
    }
}
