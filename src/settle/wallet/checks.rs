//! Checks a payment before the settler accepts it: for everything that would make its transaction fail, and for the
//! settler's own balance.

use alloy::primitives::U256;
use futures_util::future::try_join;
use tracing::warn;

use super::{
    core::Core,
    order::Order,
    trial::{self, Standing, Trial},
};
use crate::{
    evm::wallet::{account::Absurd, fees::Fees, node::Failure, token_domain::token_domain},
    protocol::{Address, Amount, Network, TokenDomain, v2::Reason},
    settle::{SettleError, SettleErrorKind, SignedPayment, Validity},
};

/// One whole coin.
pub(super) const WEI: U256 = U256::from_limbs([1_000_000_000_000_000_000, 0, 0, 0]);

impl From<Failure> for SettleError {
    fn from(_: Failure) -> Self {
        Self::unavailable()
    }
}

/// Checks whether a payment could be settled now. Checks without a node come first, then the cheapest questions.
pub(super) async fn verify(core: &Core, payment: &SignedPayment) -> Result<Validity, SettleError> {
    if let Some(reason) = misfit(core, payment) {
        return Ok(Validity::Refused(reason));
    }
    verified(core, &Order::of(payment), payment.promised).await
}

/// Checks the same for an order that matches its offer.
pub(super) async fn verified(core: &Core, order: &Order, promised: Amount) -> Result<Validity, SettleError> {
    match core.flights.are_by(order) {
        // It was presented again during its settlement: both calls get the outcome.
        Some(true) => return Ok(Validity::Valid),
        // It settles under another quote or with another signature: the caller must wait for the outcome.
        Some(false) => return Err(SettleError::unavailable()),
        None => {}
    }
    if let Some(reason) = known_refusal(core, order) {
        return Ok(Validity::Refused(reason));
    }
    let overloaded = || SettleError::new(SettleErrorKind::Overloaded);
    if core.flights.are_full() {
        return Err(overloaded());
    }
    let _place = core.inquiries.enter(order).await.ok_or_else(overloaded)?;
    let promised = promised.max(core.flights.owed(order, None));
    let validity = inquire(core, order, promised).await?;
    if let Validity::Refused(reason) = &validity {
        core.refusals.set(order.digest(), reason.clone());
    }
    Ok(validity)
}

/// Returns why a payment is refused without asking a node.
fn known_refusal(core: &Core, order: &Order) -> Option<Reason> {
    if order.is_undeployed || !order.is_by_key && !core.policy.contract_accounts {
        return Some(order.reasons().signature.clone());
    }
    if core.reverted.get(&order.payer).is_some() {
        return Some(Reason::INVALID_TRANSACTION_STATE);
    }
    core.refusals.get(&order.digest())
}

/// Returns whether the payer signed it and its nonce is used. Any node's report suffices, because a lagging node does
/// not know it yet.
pub(super) async fn is_made(core: &Core, order: &Order) -> Result<bool, SettleError> {
    let overloaded = || SettleError::new(SettleErrorKind::Overloaded);
    let _place = core.inquiries.enter(order).await.ok_or_else(overloaded)?;
    Ok(is_plausible(core, order).await?
        && trial::is_used_anywhere(core, order).await?
        && trial::is_signed(core, order).await?)
}

/// Asks the nodes, cheapest questions first. `promised` is the sum of other payments that the payer's balance must
/// cover.
async fn inquire(core: &Core, order: &Order, promised: Amount) -> Result<Validity, SettleError> {
    if !is_plausible(core, order).await? {
        return Ok(Validity::Refused(order.reasons().signature.clone()));
    }
    match trial::standing(core, order).await? {
        Standing::NoKeeper => return Ok(Validity::Refused(order.reasons().no_keeper.clone())),
        // Only the payer is told that a nonce is used.
        Standing::Used if trial::is_signed(core, order).await? => return Ok(Validity::Used),
        Standing::Used => return Ok(Validity::Refused(order.reasons().signature.clone())),
        Standing::Poor => return Ok(Validity::Refused(order.reasons().funds.clone())),
        Standing::Unused => {}
    }
    if cover(core, order, promised).await? == Cover::Later {
        return Err(SettleError::new(SettleErrorKind::Overloaded));
    }
    let fees = affords(core, order.gas_max).await?;
    Ok(match trial::tried(core, order, fees).await? {
        Trial::Settles { gas } => {
            is_worth_it(core, order, gas, fees)?;
            Validity::Valid
        }
        // It was unused a moment ago.
        Trial::Used => return Err(SettleError::unavailable()),
        Trial::Fails(reason) => Validity::Refused(reason),
    })
}

/// How a payer's balance covers one of its payments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cover {
    /// It covers this payment and those promised before it.
    All,
    /// It covers either this payment or the earlier promised ones, which settle first.
    Later,
    /// It does not cover this payment.
    Nothing,
}

/// Compares a payment with the payer's pending balance, and the payment plus the promised ones with the balance in the
/// newest block, because a node whose `pending` state equals its `latest` does not see pending transactions.
pub(super) async fn cover(core: &Core, order: &Order, promised: Amount) -> Result<Cover, Failure> {
    if promised.is_zero() {
        return Ok(Cover::All);
    }
    let value = order.value;
    let ask =
        async |node| try_join(trial::balance(order, node, "latest"), trial::balance(order, node, "pending")).await;
    let (latest, pending) = core.account.nodes.first(ask).await?;
    Ok(match latest {
        _ if pending.is_some_and(|balance| balance < value) => Cover::Nothing,
        Some(balance) if balance < value => Cover::Nothing,
        Some(balance) if promised.checked_add(value).is_none_or(|owed| balance < owed) => Cover::Later,
        // If a token reports no balance, the payment is tried.
        _ => Cover::All,
    })
}

/// Returns why a payment does not match its offer or this network. Needs no I/O.
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

/// Returns whether the signature can be the payer's: it is by the payer's key, or the payer is a contract that can be
/// asked.
pub(super) async fn is_plausible(core: &Core, order: &Order) -> Result<bool, Failure> {
    if !order.method.is_payers() {
        return Ok(true);
    }
    let only_keys = !core.policy.contract_accounts;
    match (order.is_by_key, order.is_undeployed) {
        // A key may delegate to a contract, which the token would then ask.
        (true, _) if only_keys => Ok(!has_code(core, order.payer).await?),
        (false, false) if !only_keys => has_code(core, order.payer).await,
        (is_by_key, _) => Ok(is_by_key),
    }
}

pub(super) async fn has_code(core: &Core, account: Address) -> Result<bool, Failure> {
    if let Some(known) = core.code.get(&account) {
        return Ok(known);
    }
    let has_code = core.account.nodes.first(|node| node.has_code(account)).await?;
    core.code.set(account, has_code);
    Ok(has_code)
}

/// Returns the fees of a transaction with this much gas, if the account can pay them.
pub(super) async fn affords(core: &Core, gas: u64) -> Result<Fees, SettleError> {
    let (fees, ether) = match core.outlay.get(&()) {
        Some(known) => known,
        None => {
            let read = try_join(core.account.fees(), core.account.ether()).await?;
            core.outlay.set((), read);
            read
        }
    };
    if fees.most > core.policy.max_fee_per_gas {
        warn!("nothing is settled: the chain's fees exceed `max_fee_per_gas`");
        return Err(SettleError::unavailable());
    }
    is_enough(core, ether, fees.most.saturating_mul(gas.into()))?;
    Ok(fees)
}

/// Checks that the gas of a payment costs at most its share of the payment, if the coin's price is known. For `upto`
/// the share is of the maximum, also at settling: by then the answer has been produced, and a charge that is not
/// settled would sell nothing.
///
/// The settling account's own orders always pass, because their caller decides when they are worth it.
pub(super) fn is_worth_it(core: &Core, order: &Order, gas: u64, fees: Fees) -> Result<(), SettleError> {
    let price = core.policy.coin_prices.get(&order.token).filter(|_| order.method.is_payers());
    let Some(coin) = price else { return Ok(()) };
    let [coin, value] = [*coin, order.signed].map(|amount| U256::from_be_bytes(amount.to_be_bytes()));
    let share = U256::from(core.policy.gas_share);
    let wei = U256::from(fees.expected()).saturating_mul(U256::from(gas));
    // wei / WEI * coin <= value * share / 100
    if wei.saturating_mul(coin).saturating_mul(U256::from(100)) <= value.saturating_mul(share).saturating_mul(WEI) {
        return Ok(());
    }
    warn!(payer = %order.payer, "a payment is not settled: its gas costs more than `max_gas_share` of it");
    Err(SettleError::new(SettleErrorKind::GasAbovePrice))
}

/// Returns the account's next nonce. The caller must have the account's turn.
pub(super) async fn next_nonce(core: &Core) -> Result<u64, SettleError> {
    let account = core.account.address;
    match core.account.next_nonce().await {
        Ok(Ok(nonce)) => Ok(nonce),
        Ok(Err(Absurd)) => {
            warn!(%account, "nothing is settled: the nodes' counts of the settling account's transactions are too far apart");
            Err(SettleError::unavailable())
        }
        Err(failure) => {
            warn!(%account, "nothing is settled: no node counts the settling account's transactions");
            Err(failure.into())
        }
    }
}

/// Checks that the account has this much ether, in wei.
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

/// Returns the domain of a token's authorizations, as its contract states it; `None` if the token has none.
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
