//! Deposits: what is checked of one before it is tried.

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

/// Checks whether a deposit could be made now, or was made. One that was made is never refused: not because its time is over by now, nor
/// for anything else that came after it.
pub(super) async fn verify(
    core: &Core,
    config: &ChannelConfig,
    deposit: &ChannelDeposit,
) -> Result<Validity, SettleError> {
    let order = match ordered(core, config, deposit).await? {
        Ok(order) => order,
        Err(reason) => return Ok(Validity::Refused(reason)),
    };
    // One that is on its way is valid, however little time is left.
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

/// The order of a deposit, or why it is none.
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

/// What can be told without asking anybody.
fn misfit(core: &Core, config: &ChannelConfig, deposit: &ChannelDeposit) -> Option<Reason> {
    if config.receiver_authorizer != core.authorizer() {
        return Some(Reason::INVALID_BATCH_SETTLEMENT_EVM_RECEIVER_AUTHORIZER_MISMATCH);
    }
    deposits::misfit(core.account.network, config, deposit)
}

/// Whether it is too early or too late, by the newest block.
async fn mistimed(core: &Core, order: &Order) -> Result<Option<Reason>, Failure> {
    let now = permits::head(core).await?;
    Ok(match () {
        () if order.expires <= now.after(permits::SPARE) => Some(order.reasons().expired.clone()),
        // Of a permit, it is zero, from which on it is valid.
        () if order.valid_after >= now => Some(order.reasons().early.clone()),
        () => None,
    })
}

/// The domain under which authorizations of a token are signed, asked for once in a while.
async fn domain(core: &Core, token: Address) -> Result<Option<TokenDomain>, Failure> {
    if let Some(known) = core.domains.get(&token) {
        return Ok(known);
    }
    let domain = token_domain(&core.account, token).await?;
    core.domains.set(token, domain.clone());
    Ok(domain)
}
