//! Finds how a voucher pays, once it is reserved.

use std::time::Duration;

use super::{
    charging::Charge,
    deposited::{deposited, may_show},
    drawing::{Drawn, draw, follows_after_all},
    found::{Found, IS_PUBLIC, Sale},
    refund,
    shown::Vouched,
    units::{busy, units},
};
use crate::{
    paywall::{
        refusal::{ASK_AGAIN, Problem},
        sale::reservation::LeaseGuard,
        seller::channels::Channels,
    },
    protocol::{ProblemCode, channel::ChannelDeposit, v2::Reason},
};

/// How long after its end a quote stays valid if a deposit was begun under it. A seller that died or failed can be asked again in that
/// time. Unlike a transfer, the deposit stays its payer's: for longer, the quote would be an option on the price.
const BEGUN_COUNTS: Duration = Duration::from_secs(3_600);

/// Finds how a reserved voucher pays.
///
/// # Errors
/// If the ledger or the chain does not answer, or the channel is busy.
pub(super) async fn find(
    vouched: &Vouched<'_>,
    channels: &Channels,
    deposit: Option<&ChannelDeposit>,
    sale: &Sale,
    guard: &LeaseGuard,
) -> Result<Found, Problem> {
    let (ledger, channel) = (&vouched.opened.route.merchant.ledger, &vouched.channel);
    let mut made = None;
    let mut state = match (channels.fresh_reading(channel), deposit) {
        (Some(known), None) => known.state,
        (_, None) => channels.look(&**ledger, channel, sale.head).await?.state,
        (_, Some(deposit)) => {
            // The deposit may have been made in the last block.
            let mirrored = channels.look_anew(&**ledger, channel, sale.head, guard.begun().is_some()).await?;
            match deposited(vouched, channels, (deposit, &mirrored), sale, guard).await? {
                Some(found) => return Ok(found),
                None => made = Some(deposit),
            }
            mirrored.state
        }
    };
    // A deposit begun under this quote in its time still pays for a while after the quote's end.
    let is_begun = made.is_some() && guard.begun().is_some() && !vouched.opened.aged_out() && is_begun_lately(vouched);
    let is_payable = sale.honoured && (is_begun || vouched.is_in_time());
    for is_last in [false, true] {
        let mut noted = None;
        let drawn = || draw(channels, ledger, channel, (vouched.voucher.max_claimable, &vouched.payment), &state);
        let outcome = match drawn().await? {
            Drawn::Mismatch(account)
                if follows_after_all(vouched, &account, (vouched.payment.amount, sale.head), Some(guard.intent()))
                    .await? =>
            {
                drawn().await?
            }
            outcome => outcome,
        };
        let too_little = match outcome {
            Drawn::Granted(drawn, memo) if is_payable => {
                return Ok(Found::Pays(Charge::Drawn(drawn, memo), state));
            }
            // Given back before the reply: the next voucher must not find the channel busy.
            Drawn::Granted(drawn, _) => {
                drawn.release().await;
                return Ok(Found::Refused(Reason::INVALID_PAYMENT_REQUIREMENTS));
            }
            Drawn::Busy => return Err(busy()),
            Drawn::Mismatch(account) => return Ok(Found::Corrected(account)),
            Drawn::TooLittle(memo) => {
                noted = memo;
                Some(Reason::INVALID_BATCH_SETTLEMENT_EVM_CUMULATIVE_EXCEEDS_BALANCE)
            }
            Drawn::Missing => Some(Reason::INVALID_BATCH_SETTLEMENT_EVM_CHANNEL_NOT_FOUND),
            Drawn::Unsure => None,
            Drawn::Public => return Ok(Found::Refused(IS_PUBLIC)),
        };
        if is_last || channels.is_just_read(channel) {
            return match too_little {
                // The nodes that report the channel's state may be behind the node that reported the deposit as made.
                Some(_) if made.is_some_and(|deposit| may_show(deposit, vouched, sale)) => {
                    Err(Problem::after(ProblemCode::OutcomeUnknown, ASK_AGAIN))
                }
                Some(reason) => {
                    if let Some(memo) = noted {
                        let charged = before(vouched);
                        refund::send_again(ledger, channels, (channel, &memo, charged), (&state, sale.head));
                    }
                    Ok(Found::Refused(reason))
                }
                None => Err(Problem::after(ProblemCode::VerificationUnavailable, ASK_AGAIN)),
            };
        }
        // A deposit may have been made since.
        state = channels.look(&**ledger, channel, sale.head).await?.state;
    }
    Err(Problem::after(ProblemCode::LedgerUnavailable, ASK_AGAIN))
}

/// Returns whether the quote is still valid for a deposit that was begun in its time.
fn is_begun_lately(vouched: &Vouched<'_>) -> bool {
    let until = vouched.opened.pay_until().after(BEGUN_COUNTS);
    vouched.opened.route.merchant.clock.unix() <= until.unix()
}

/// Returns the total charged before this voucher, if the voucher continues from it.
fn before(vouched: &Vouched<'_>) -> u128 {
    vouched.voucher.max_claimable.saturating_sub(units(vouched.payment.amount))
}
