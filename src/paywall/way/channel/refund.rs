//! What is left in a channel goes back to its payer, who asks for it by a voucher over what was charged. The handler does not run.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderValue, Response, header};
use tracing::Instrument as _;

use super::{
    charging::{busy, units},
    drawing::{Drawn, draw},
    shown::Vouched,
    told,
};
use crate::{
    ledger::{ErasedLedger, ReflectOutcome, Reflection},
    paywall::{
        priced_request::PricedRequest,
        refusal::{ASK_AGAIN, Problem, Rejection},
        sale::draw::{RenewedDraw, accounts},
        seller::{
            chain::SellingChain,
            channels::{Channel, Channels, record::ChannelMemo},
            pricing::Tariff,
            time_limits::{ledger_in_time, verifier_in_time},
        },
    },
    protocol::{
        Amount, ChainTime, ProblemCode, TxHash,
        headers::{NO_STORE, PAYMENT_RESPONSE, expose},
        v2::{Reason, SettleResponse},
    },
    settle::{ChannelOnChain, ChannelRefund, Settlement, TransactionRecorder},
};

/// Gives back what is left, or `asked` of it, and tells so.
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
    let refuse = |reason| Rejection::from(vouched.requote(request, tariff).refuse(reason, network, Some(payer)));
    let head = verifier_in_time(chain.view.head()).await.map_err(|_| unavailable())?;
    let state = channels.read(&**ledger, channel, head).await?.state;
    // Of nothing: while it is held, no request of the channel can be sold.
    let nothing = vouched.payment.clone().with_amount(Amount::ZERO);
    let drawn = match draw(channels, ledger, channel, (vouched.voucher.max_claimable, &nothing)).await? {
        Drawn::Granted(drawn) => drawn,
        Drawn::Busy => return Err(busy().into()),
        Drawn::Mismatch(account) => {
            return Err(told::correct(vouched.requote(request, tariff), channels, channel, &account));
        }
        Drawn::TooLittle | Drawn::Missing => {
            return Err(refuse(Reason::INVALID_BATCH_SETTLEMENT_EVM_REFUND_NO_BALANCE));
        }
    };
    let charged = vouched.voucher.max_claimable;
    let left = units(state.balance).saturating_sub(charged);
    let amount = asked.unwrap_or(left);
    match () {
        () if left == 0 => return Err(refuse(Reason::INVALID_BATCH_SETTLEMENT_EVM_REFUND_NO_BALANCE)),
        () if amount == 0 || amount > left => {
            return Err(refuse(Reason::INVALID_BATCH_SETTLEMENT_EVM_REFUND_AMOUNT_INVALID));
        }
        () => {}
    }
    let memo = ChannelMemo::read(drawn.guard.memo());
    let claim =
        memo.and_then(|memo| memo.claim(channel.id)).filter(|claim| claim.total_claimed > units(state.total_claimed));
    let refund = ChannelRefund::new(channel.config, amount, state.refund_nonce).with_claim(claim);
    let work = send(Arc::clone(ledger), channels.clone(), *channel, (refund, state, head), drawn);
    // Once it is sent, the client may leave: nothing is sold until the account follows.
    let sent = tokio::spawn(work.in_current_span()).await;
    let (transaction, state) = match sent {
        Ok(Ok(sent)) => sent,
        Ok(Err(Unsent::Refused(reason))) => return Err(refuse(reason)),
        Ok(Err(Unsent::Unknown)) | Err(_) => return Err(Problem::after(ProblemCode::OutcomeUnknown, ASK_AGAIN).into()),
    };
    tracing::info!(channel = %channel.id, %amount, %transaction, "given back");
    let told = SettleResponse::settled(transaction, network)
        .with_payer(payer)
        .with_amount(Amount::from_base_units(amount))
        .with_channel_state(&told::channel_state(channel, &state, charged));
    let mut response =
        Response::new(Bytes::from(format!(r#"{{"message":"Refund acknowledged","channelId":"{}"}}"#, channel.id)));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CACHE_CONTROL, NO_STORE);
    headers.insert(PAYMENT_RESPONSE, told.to_header());
    expose(headers);
    Ok(response)
}

/// Why it is not known that anything was given back.
enum Unsent {
    Refused(Reason),
    Unknown,
}

/// Sends a refund, while the channel is held.
async fn send(
    ledger: Arc<dyn ErasedLedger>,
    channels: Channels,
    channel: Channel,
    (refund, state, head): (ChannelRefund, ChannelOnChain, ChainTime),
    drawn: RenewedDraw,
) -> Result<(TxHash, ChannelOnChain), Unsent> {
    // First: after a crash, what is on its way back covers nothing.
    let left = state.covers().checked_sub(Amount::from_base_units(refund.amount)).unwrap_or(Amount::ZERO);
    let lowered = Reflection::new(channel.account).limit(left);
    let lowered = ledger_in_time(async { accounts(&*ledger)?.reflect(&lowered).await }).await;
    if !matches!(lowered, Ok(ReflectOutcome::Done(_))) {
        return Err(Unsent::Unknown);
    }
    // Asked for again, it finds what is left by then: the nonce of a refund counts once.
    let recorder = TransactionRecorder::none();
    let settled = channels.settler.refund(channels.network(), &refund, &recorder).await;
    let sent = match settled {
        Settlement::Settled(transaction) => {
            let read = channels.read(&*ledger, &channel, head).await;
            Ok((transaction, read.map_or(state, |mirrored| mirrored.state)))
        }
        Settlement::Refused(reason) => {
            let _ = channels.read(&*ledger, &channel, head).await;
            Err(Unsent::Refused(reason))
        }
        // It may be mined any time: the account stays as it is.
        Settlement::Unknown(_) => Err(Unsent::Unknown),
    };
    drawn.release().await;
    sent
}

fn unavailable() -> Problem {
    Problem::after(ProblemCode::VerificationUnavailable, ASK_AGAIN)
}
