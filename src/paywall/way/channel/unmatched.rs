//! A voucher that is for no offer of this route. It is billed anew only if it certainly bought nothing: its route may have another name now, or
//! its quote a key that was dropped, and a new bill would be a second charge for one answer.

use super::{
    shown::{channel, is_signed},
    units::{busy, units},
};
use crate::{
    ledger::{Account, accounts_of},
    paywall::{
        priced_request::PricedRequest,
        refusal::{ASK_AGAIN, Problem, Rejection},
        seller::{
            chain::SellingChain,
            channels::{Channel, Channels, record::ChannelMemo},
            pricing::Cost,
            time_limits::ledger_in_time,
        },
    },
    protocol::{
        Amount, Network, ProblemCode,
        channel::{ChannelPayload, Voucher},
        v2::{PaymentPayload, Reason},
    },
};

/// Returns the reply: a bill at the present price, unless the voucher is sold, or may be under way. `reason` says what differs.
pub(super) async fn refuse(
    request: &PricedRequest,
    (chain, channels): (&SellingChain, &Channels),
    (payload, reason): (&PaymentPayload, Reason),
    now: Cost,
) -> Rejection {
    let shown = channel(payload).ok();
    let payer = shown.map(|(_, shown)| shown.config().payer);
    let bill = || request.requote(now).refuse(reason, chain.network, payer);
    match shown {
        // It buys nothing, whatever was charged.
        None | Some((_, ChannelPayload::Refund { .. })) => bill(),
        Some((accepted, shown)) => {
            let of = (accepted.network, Channel::new(*shown.config(), accepted.network));
            match unless_counted(request, channels, of, shown.voucher()).await {
                Ok(()) => bill(),
                Err(problem) => problem.into(),
            }
        }
    }
}

/// The ledger is asked before the signature is checked: a contract account's word is the settler's to get. Nothing is told without it.
async fn unless_counted(
    request: &PricedRequest,
    channels: &Channels,
    (network, channel): (Network, Channel),
    voucher: &Voucher,
) -> Result<(), Problem> {
    let ledger = &*request.route.merchant.ledger;
    if voucher.channel != channel.id {
        return Ok(());
    }
    let account = ledger_in_time(async { accounts_of(ledger)?.account(channel.account).await }).await;
    let account = account.map_err(|_| Problem::after(ProblemCode::LedgerUnavailable, ASK_AGAIN))?;
    let Some(counted) = account.and_then(|account| counted(&account, voucher.max_claimable)) else { return Ok(()) };
    if is_signed(channels, network, &channel, voucher).await? { Err(counted) } else { Ok(()) }
}

/// What the account of a channel says of a voucher over this total; `None` where that bought nothing.
fn counted(account: &Account, total: u128) -> Option<Problem> {
    // A metered answer may cost less than its voucher.
    let last = || ChannelMemo::read(&account.memo).and_then(|memo| memo.last);
    let is_last = || last().is_some_and(|last| last.total == total && last.charge > 0);
    match () {
        () if total > 0 && total <= units(account.spent) || is_last() => Some(Problem::voucher_is_counted()),
        () if account.held > Amount::ZERO => Some(busy()),
        () => None,
    }
}
