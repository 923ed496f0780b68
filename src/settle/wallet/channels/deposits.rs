//! Deposits: the checks before a trial.

use super::orders;
use crate::{
    evm::wallet::{node::Failure, token_domain::token_domain},
    protocol::{
        Address, Amount, TokenDomain,
        channel::{ChannelConfig, ChannelDeposit, DepositAuthorization},
        v2::Reason,
    },
    settle::{
        SettleError, Validity, deposits,
        wallet::{checks, core::Core, order::Order, permits},
    },
};

/// Checks whether a deposit could be made now, or was made. A deposit that was made is never refused, neither because
/// it has expired since, nor for any other later change.
pub(super) async fn verify(
    core: &Core,
    config: &ChannelConfig,
    deposit: &ChannelDeposit,
) -> Result<Validity, SettleError> {
    let order = match ordered(core, config, deposit).await? {
        Ok(order) => order,
        Err(reason) => return Ok(Validity::Refused(reason)),
    };
    // A deposit in progress is valid, however little time is left.
    let mistimed = if core.flights.are_by(&order).is_none() { mistimed(core, &order).await? } else { None };
    let validity = match mistimed {
        Some(reason) => Validity::Refused(reason),
        None => checks::verified(core, &order, Amount::ZERO).await?,
    };
    match validity {
        Validity::Refused(_) if checks::is_made(core, &order).await? => Ok(Validity::Used),
        validity => Ok(validity),
    }
}

/// Returns the order of a deposit, or the reason why it cannot be made.
pub(super) async fn ordered(
    core: &Core,
    config: &ChannelConfig,
    deposit: &ChannelDeposit,
) -> Result<Result<Order, Reason>, Failure> {
    if let Some(reason) = misfit(core, config, deposit) {
        return Ok(Err(reason));
    }
    let domain = match &deposit.authorization {
        DepositAuthorization::Erc3009(_) => domain(core, config.token).await?,
        DepositAuthorization::Permit2(_) => None,
    };
    let order = orders::deposit(core.account.network, config, deposit, domain.as_ref());
    Ok(order.ok_or(Reason::INVALID_BATCH_SETTLEMENT_EVM_MISSING_EIP712_DOMAIN))
}

/// Returns the reason why the deposit is invalid, as far as a check without I/O shows.
fn misfit(core: &Core, config: &ChannelConfig, deposit: &ChannelDeposit) -> Option<Reason> {
    if config.receiver_authorizer != core.authorizer() {
        return Some(Reason::INVALID_BATCH_SETTLEMENT_EVM_RECEIVER_AUTHORIZER_MISMATCH);
    }
    deposits::misfit(core.account.network, config, deposit)
}

/// Returns whether it is too early or too late, by the time of the newest block.
async fn mistimed(core: &Core, order: &Order) -> Result<Option<Reason>, Failure> {
    let now = permits::head(core).await?;
    Ok(match () {
        () if order.expires <= now.after(permits::SPARE) => Some(order.reasons().expired.clone()),
        // For a permit this is zero, and it is valid from the start.
        () if order.valid_after >= now => Some(order.reasons().early.clone()),
        () => None,
    })
}

/// Returns the domain of a token's authorizations, from a cache or from the chain.
async fn domain(core: &Core, token: Address) -> Result<Option<TokenDomain>, Failure> {
    if let Some(known) = core.domains.get(&token) {
        return Ok(known);
    }
    let domain = token_domain(&core.account, token).await?;
    core.domains.set(token, domain.clone());
    Ok(domain)
}
