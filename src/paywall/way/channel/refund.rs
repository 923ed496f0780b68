//! Gives what is left in a channel back to its payer, who asks for it with a voucher over the charged total. The handler does not run.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderValue, Response, header};
use tracing::Instrument as _;

use super::{
    channel_response,
    drawing::{Drawn, draw, follows_after_all},
    shown::Vouched,
    units::{busy, units},
};
use crate::{
    ledger::ErasedLedger,
    paywall::{
        priced_request::PricedRequest,
        refusal::{ASK_AGAIN, Problem, Rejection},
        sale::draw::{Charged, RenewedDraw},
        seller::{
            chain::SellingChain,
            channels::{Channel, Channels, record::ChannelMemo},
            pricing::Tariff,
            time_limits::verifier_in_time,
        },
    },
    protocol::{
        Amount, ChainTime, ProblemCode,
        channel::Voucher,
        headers::{NO_STORE, PAYMENT_RESPONSE, expose},
        v2::{Reason, SettleResponse},
    },
    settle::{ChannelOnChain, ChannelRefund, Settlement, TransactionRecorder},
};

/// Gives back what is left, or `asked` of it, and returns the reply.
pub(super) async fn give_back(
    request: &PricedRequest,
    (chain, channels): (&SellingChain, &Channels),
    (vouched, tariff): (&Vouched<'_>, Tariff),
    asked: Option<u128>,
) -> Rejection {
    match refunded(request, (chain, channels), (vouched, tariff), asked).await {
        Ok(response) => Rejection::GivenBack(Box::new(response)),
        Err(rejection) => rejection,
    }
}

async fn refunded(
    request: &PricedRequest,
    (chain, channels): (&SellingChain, &Channels),
    (vouched, tariff): (&Vouched<'_>, Tariff),
    asked: Option<u128>,
) -> Result<Response<Bytes>, Rejection> {
    let (ledger, channel) = (&request.route.merchant.ledger, &vouched.channel);
    let (network, payer) = (channels.network(), channel.config.payer);
    let refuse = |reason| vouched.requote(request, tariff).refuse(reason, network, Some(payer));
    let head = verifier_in_time(chain.view.head()).await.map_err(|_| unavailable())?;
    let state = channels.look(&**ledger, channel, head).await.map_err(Problem::from)?.state;
    // One of a few nodes may name a nonce that comes much later, or never. A note under that nonce would stand until then.
    if state.of_few {
        return Err(unavailable().into());
    }
    // A draw of nothing: the voucher's total is exactly what was charged.
    let nothing = vouched.payment.clone().with_amount(Amount::ZERO);
    let drawn = || draw(channels, ledger, channel, (vouched.voucher.max_claimable, &nothing), &state);
    let outcome = match drawn().await? {
        Drawn::Mismatch(account) if follows_after_all(vouched, &account, (nothing.amount, head), None).await? => {
            drawn().await?
        }
        outcome => outcome,
    };
    let (drawn, memo) = match outcome {
        Drawn::Granted(drawn, memo) => (drawn, memo),
        Drawn::Busy => return Err(busy().into()),
        Drawn::Mismatch(account) => {
            return Err(channel_response::correct(vouched.requote(request, tariff), channels, vouched, &account));
        }
        Drawn::Unsure => return Err(unavailable().into()),
        Drawn::TooLittle(_) | Drawn::Missing | Drawn::Public => {
            return Err(refuse(Reason::INVALID_BATCH_SETTLEMENT_EVM_REFUND_NO_BALANCE));
        }
    };
    let charged = vouched.voucher.max_claimable;
    let left = units(state.balance).saturating_sub(charged);
    let amount = asked.unwrap_or(left);
    // Each refund costs the seller a transaction, and with a claimed voucher anyone can ask for one. Such a refund must be of the whole
    // rest, so there is one for each deposit.
    let least = if channel_response::is_public(&memo, &state, charged) { left } else { left.div_ceil(10) };
    let wrong = match () {
        () if left == 0 => Some(Reason::INVALID_BATCH_SETTLEMENT_EVM_REFUND_NO_BALANCE),
        () if amount < least || amount > left => Some(Reason::INVALID_BATCH_SETTLEMENT_EVM_REFUND_AMOUNT_INVALID),
        () => None,
    };
    if let Some(reason) = wrong {
        drawn.release().await;
        return Err(refuse(reason));
    }
    let claim = memo.claim(channel.id).filter(|claim| claim.total_claimed > units(state.total_claimed));
    let refund = ChannelRefund::new(channel.config, amount, state.refund_nonce)
        .with_claim(claim.clone())
        .with_voucher(vouched.voucher.clone());
    // Of two refunds signed under one nonce, either may be made. A node that is behind names a nonce older than that of the note.
    let going_back = amount.max(memo.going_back(&state));
    let nonce = memo.refund.map_or(state.refund_nonce, |(noted, _)| noted.max(state.refund_nonce));
    let shown = claim.and_then(|claim| memo.once_shown(claim.voucher.max_claimable, units(state.claimed_at_most)));
    let memo = ChannelMemo { refund: Some((nonce, going_back)), ..shown.unwrap_or(*memo) };
    if !is_noted(drawn, &memo).await {
        return Err(Problem::after(ProblemCode::LedgerUnavailable, ASK_AGAIN).into());
    }
    let work = send(Arc::clone(ledger), channels.clone(), *channel, (refund, head));
    // Once the refund is signed, it goes on even if the client leaves.
    let sent = tokio::spawn(work.in_current_span()).await;
    let transaction = match sent {
        Ok(Settlement::Settled(transaction)) => transaction,
        Ok(Settlement::Refused(reason)) => return Err(refuse(reason)),
        Ok(Settlement::Unknown(_)) | Err(_) => {
            return Err(Problem::after(ProblemCode::OutcomeUnknown, ASK_AGAIN).into());
        }
    };
    tracing::info!(channel = %channel.id, %amount, %transaction, "given back");
    let state = channels.fresh_reading(channel).map_or(state, |known| known.state);
    let told = SettleResponse::settled(transaction, network)
        .with_payer(payer)
        .with_amount(Amount::from_base_units(amount))
        .with_channel_state(&channel_response::channel_state(channel, &state, charged));
    let mut response =
        Response::new(Bytes::from(format!(r#"{{"message":"Refund acknowledged","channelId":"{}"}}"#, channel.id)));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CACHE_CONTROL, NO_STORE);
    headers.insert(PAYMENT_RESPONSE, told.to_header());
    expose(headers);
    Ok(response)
}

/// Notes on the account, durably, that a refund is signed. From then on the channel covers that much less.
async fn is_noted(mut drawn: RenewedDraw, memo: &ChannelMemo) -> bool {
    let Some(memo) = memo.write() else { return false };
    matches!(drawn.guard.charge_part(Amount::ZERO, Some(&memo)).await, Charged::Done(_))
}

/// Makes a refund, and reads what is left.
async fn send(
    ledger: Arc<dyn ErasedLedger>,
    channels: Channels,
    channel: Channel,
    (refund, head): (ChannelRefund, ChainTime),
) -> Settlement {
    // Not recorded: a repeated request finds what is left by then, since the nonce of a refund counts once.
    let sent = channels.settler.refund(channels.network(), &refund, &TransactionRecorder::none()).await;
    let _ = channels.read(&*ledger, &channel, head).await;
    sent
}

/// Sends a refund again from time to time that is noted and not made. If it could not be sent when it was asked for, its note keeps its
/// payer from buying. It goes without the claim, whose voucher would first have to be noted as public. `charged` is the total charged.
pub(super) fn send_again(
    ledger: &Arc<dyn ErasedLedger>,
    channels: &Channels,
    (channel, memo, charged): (&Channel, &ChannelMemo, u128),
    (state, head): (&ChannelOnChain, ChainTime),
) {
    let is_left = |amount| charged.checked_add(amount).is_some_and(|needed| needed <= units(state.covers()));
    let is_next = |(nonce, amount): &(u64, u128)| !state.of_few && *nonce == state.refund_nonce && is_left(*amount);
    let Some((nonce, amount)) = memo.refund.filter(is_next) else { return };
    if !channels.begins_again(channel) {
        return;
    }
    let refund = ChannelRefund::new(channel.config, amount, nonce);
    // A facilitator could buy with a voucher over more than was charged.
    let voucher = memo.last.as_ref().filter(|last| last.total == last.charged);
    let refund = match voucher {
        Some(last) => refund.with_voucher(Voucher::new(channel.id, last.total, last.signature.clone())),
        None => refund,
    };
    tracing::info!(channel = %channel.id, %amount, "a refund that was signed is sent again");
    drop(tokio::spawn(send(Arc::clone(ledger), channels.clone(), *channel, (refund, head)).in_current_span()));
}

fn unavailable() -> Problem {
    Problem::after(ProblemCode::VerificationUnavailable, ASK_AGAIN)
}
