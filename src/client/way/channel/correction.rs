//! Decides whether to believe a seller's other count: only if it shows a voucher of this payer, or asks for less.

use http::HeaderMap;

use crate::{
    client::{
        ChannelFunds, ChannelRecord, Failure, PayerError, inner::ClientInner, payer::PreparedVoucher,
        way::channel::plan::DISPUTED,
    },
    protocol::{
        Amount,
        channel::{ChannelState, Voucher, VoucherState},
        v2::{PaymentOption, PaymentRequired},
    },
};

/// The longest `PAYMENT-REQUIRED` that is read.
const HEADER_MAX: usize = 64 * 1024;

const LAGS: PayerError = PayerError::Unavailable("the chain does not show the deposit yet by which the seller sold");

/// What follows from a believed claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Believed {
    /// This total was charged before the open request: the next voucher builds on it.
    Before(Amount),
    /// The open request itself was charged, up to this total. Its answer is lost, and the next voucher builds on it.
    Sold(Amount),
}

/// The claim of a corrective 402.
pub(crate) struct Correction {
    state: ChannelState,
    voucher: Option<VoucherState>,
}

impl Correction {
    /// Reads the claim about this voucher's channel.
    pub(crate) fn read(headers: &HeaderMap, vouched: &PreparedVoucher) -> Option<Self> {
        let required = PaymentRequired::from_headers_up_to(HEADER_MAX, headers).ok()??;
        let config = vouched.config();
        let claim = |option: PaymentOption| {
            let PaymentOption::Channel(offer) = option else { return None };
            let is_it = (offer.network, offer.asset, offer.pay_to) == (vouched.network, config.token, config.receiver);
            let state = offer.channel_state().filter(|_| is_it)?;
            Some(Self { state, voucher: offer.voucher_state() })
        };
        required.accepts.into_iter().find_map(claim)
    }

    /// Returns whether the chain shows a higher claim than the stated charge.
    fn is_below(&self, claimed: Amount) -> bool {
        self.state.charged_cumulative_amount.is_some_and(|charged| charged < claimed)
    }

    /// Returns what follows from the claim, if it is believed. It asks the chain for the claimed amount.
    ///
    /// # Errors
    /// If the chain does not answer, its nodes disagree, or it does not show the necessary deposit yet.
    pub(crate) async fn believed(
        &self,
        inner: &ClientInner,
        vouched: &PreparedVoucher,
        record: &ChannelRecord,
    ) -> Result<Option<Believed>, Failure> {
        let signer = inner.channel_signer()?;
        let (network, config) = (vouched.network, vouched.config());
        let shown = self.voucher.as_ref().map(|shown| {
            let voucher = Voucher::new(vouched.channel(), shown.signed_max_claimable, shown.signature.clone());
            (shown.signed_max_claimable, signer.signed_voucher(network, config, &voucher))
        });
        let mut funds = signer.channel_funds(network, vouched.channel()).await?;
        if self.is_below(funds.claimed) {
            funds.claimed = signer.settled_funds(network, vouched.channel()).await?.claimed;
            if !self.is_below(funds.claimed) {
                return Err(DISPUTED.into());
            }
        }
        let believed = judge(record, vouched, &self.state, shown, &funds);
        match believed {
            // If it were counted now, another deposit would follow. So wait for one that can still be made.
            Some(Believed::Sold(charged))
                if funds.balance < charged || record.waits_for(funds.balance, inner.now()) =>
            {
                Err(LAGS.into())
            }
            believed => Ok(believed),
        }
    }
}

/// Judges the claim against the record. `shown`: a voucher's total, and whether this payer signed it.
fn judge(
    record: &ChannelRecord,
    vouched: &PreparedVoucher,
    state: &ChannelState,
    shown: Option<(u128, bool)>,
    funds: &ChannelFunds,
) -> Option<Believed> {
    let charged = state.charged_cumulative_amount.filter(|_| state.channel_id == vouched.channel())?;
    if funds.claimed > charged {
        return None;
    }
    if charged == record.charged && vouched.before != charged {
        // It was believed before and recorded for the channel, but the process died before the purchase had its next
        // voucher.
        return Some(Believed::Before(charged));
    }
    if charged < record.charged {
        // The seller has forgotten a part of the charges.
        return Some(Believed::Before(charged));
    }
    let (total, is_own) = shown?;
    let total = Amount::from_base_units(total);
    if !is_own || charged <= record.charged || charged > total {
        return None;
    }
    let sold = record.open.filter(|open| open.total == total).map(|_| Believed::Sold(charged));
    if record.is_adopted && sold.is_none() {
        // The seller has this voucher, so another one up to its total gives the seller nothing new.
        return Some(Believed::Before(charged));
    }
    if total > record.signed {
        return None;
    }
    if charged <= record.doubtful {
        return Some(Believed::Before(charged));
    }
    // Its last sale was by the voucher of the open request, and charged no more than that allows.
    sold
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        client::PurchaseId,
        protocol::{
            Address, ChainTime, Network, PaymentSignature,
            channel::{ChannelConfig, ChannelId, ChannelPayload},
        },
    };

    const BEGUN: ChainTime = ChainTime::from_unix(50);

    fn units(units: u128) -> Amount {
        Amount::from_base_units(units)
    }

    /// The refused voucher.
    fn vouched(channel_config: ChannelConfig, before: u128, price: u128) -> PreparedVoucher {
        let signature = PaymentSignature::new([7; 65]).unwrap();
        let voucher = Voucher::new(channel_config.id(Network::BASE), before + price, signature);
        let payload = ChannelPayload::Voucher { channel_config, voucher };
        PreparedVoucher { network: Network::BASE, before: units(before), payload, message: String::new() }
    }

    #[test]
    fn a_seller_is_believed_as_far_as_the_record_explains_what_it_says() {
        let [payer, receiver, token] = [1, 2, 3].map(|byte| Address::new([byte; 20]));
        let config = ChannelConfig::new(payer, receiver, token);
        let id = config.id(Network::BASE);
        // 100 were charged; a request over 200 was given up, and one over 250 is open.
        let mut record = ChannelRecord::new(config);
        record.begin(PurchaseId::new([1; 16]), BEGUN, units(100));
        record.charge(PurchaseId::new([1; 16]), units(100), units(1_000));
        record.begin(PurchaseId::new([2; 16]), BEGUN, units(100));
        record.give_up();
        record.begin(PurchaseId::new([3; 16]), BEGUN, units(150));
        let before = |total| Some(Believed::Before(units(total)));
        let sold = |total| Some(Believed::Sold(units(total)));
        let other = ChannelId::new([9; 32]);
        for (name, channel, claimed, shown, on_chain, believed) in [
            ("what was given up was charged", id, Some(200), Some((200, true)), 0, before(200)),
            ("a part of it was", id, Some(150), Some((200, true)), 0, before(150)),
            ("without a voucher", id, Some(200), None, 0, None),
            ("another's voucher", id, Some(200), Some((200, false)), 0, None),
            ("a voucher over less", id, Some(200), Some((150, true)), 0, None),
            ("what is open was charged", id, Some(250), Some((250, true)), 0, sold(250)),
            ("a part of what is open was", id, Some(210), Some((250, true)), 0, sold(210)),
            ("above what was given up, by a voucher that was", id, Some(201), Some((201, true)), 0, None),
            ("what is open, by another's voucher", id, Some(250), Some((250, false)), 0, None),
            ("what is open, below what the chain shows", id, Some(250), Some((250, true)), 251, None),
            ("above all that was signed", id, Some(251), Some((251, true)), 0, None),
            ("the same as here", id, Some(100), Some((200, true)), 0, None),
            ("less than here", id, Some(40), None, 40, before(40)),
            ("less than the chain shows", id, Some(40), None, 41, None),
            ("less than the chain shows, signed", id, Some(200), Some((200, true)), 201, None),
            ("of another channel", other, Some(200), Some((200, true)), 0, None),
            ("nothing", id, None, Some((200, true)), 0, None),
        ] {
            let mut state = ChannelState::new(channel, units(1_000), units(on_chain));
            state.charged_cumulative_amount = claimed.map(units);
            let funds = ChannelFunds::new(units(1_000), units(on_chain));
            assert_eq!(judge(&record, &vouched(config, 100, 150), &state, shown, &funds), believed, "{name}");
        }
    }

    /// The process died between the two records of a correction, so the purchase still has the refused voucher.
    #[test]
    fn what_was_believed_once_is_believed_again() {
        let [payer, receiver, token] = [1, 2, 3].map(|byte| Address::new([byte; 20]));
        let config = ChannelConfig::new(payer, receiver, token);
        let id = config.id(Network::BASE);
        let mut record = ChannelRecord { charged: units(200), ..ChannelRecord::new(config) };
        record.begin(PurchaseId::new([1; 16]), BEGUN, units(100));
        for (before, charged, on_chain, believed) in [
            (100, 200, 0, true),
            (300, 200, 0, true),
            (200, 200, 0, false),
            (100, 201, 0, false),
            (100, 200, 201, false),
        ] {
            let mut state = ChannelState::new(id, units(1_000), units(on_chain));
            state.charged_cumulative_amount = Some(units(charged));
            let funds = ChannelFunds::new(units(1_000), units(on_chain));
            let believed = believed.then_some(Believed::Before(units(charged)));
            let vouched = vouched(config, before, 100);
            assert_eq!(judge(&record, &vouched, &state, None, &funds), believed, "{before} {charged} {on_chain}");
        }
    }

    /// This payer's own voucher explains what a lost journal contained.
    #[test]
    fn of_a_channel_that_was_adopted_a_voucher_of_ones_own_is_enough() {
        let [payer, receiver, token] = [1, 2, 3].map(|byte| Address::new([byte; 20]));
        let config = ChannelConfig::new(payer, receiver, token);
        let id = config.id(Network::BASE);
        let mut record = ChannelRecord { is_adopted: true, charged: units(100), ..ChannelRecord::new(config) };
        record.begin(PurchaseId::new([1; 16]), BEGUN, units(100));
        for (charged, shown, on_chain, believed) in [
            (700, Some((700, true)), 100, Some(700)),
            (700, Some((750, true)), 100, Some(700)),
            (700, Some((699, true)), 100, None),
            (700, Some((700, false)), 100, None),
            (700, None, 100, None),
            (700, Some((700, true)), 701, None),
        ] {
            let mut state = ChannelState::new(id, units(1_000), units(on_chain));
            state.charged_cumulative_amount = Some(units(charged));
            let funds = ChannelFunds::new(units(1_000), units(on_chain));
            let believed = believed.map(|charged| Believed::Before(units(charged)));
            let vouched = vouched(config, 100, 100);
            assert_eq!(judge(&record, &vouched, &state, shown, &funds), believed, "{charged} {shown:?} {on_chain}");
        }
        // The voucher just shown does not indicate an earlier sale: its answer is lost, and not bought again.
        let mut state = ChannelState::new(id, units(1_000), units(100));
        state.charged_cumulative_amount = Some(units(200));
        let funds = ChannelFunds::new(units(1_000), units(100));
        let sold = Some(Believed::Sold(units(200)));
        assert_eq!(judge(&record, &vouched(config, 100, 100), &state, Some((200, true)), &funds), sold);
        // This works only once.
        record.correct(units(700));
        assert!(!record.is_adopted);
    }
}
