//! Whether a seller is believed that counts otherwise: only where it shows a voucher of this payer's own, or asks for less.

use http::HeaderMap;

use crate::{
    client::{ChannelFunds, ChannelRecord, Failure, inner::ClientInner, payer::PreparedVoucher},
    protocol::{
        Amount,
        channel::{ChannelId, ChannelState, Voucher, VoucherState},
        v2::{PaymentOption, PaymentRequired},
    },
};

/// The longest `PAYMENT-REQUIRED` that is read.
const HEADER_MAX: usize = 64 * 1024;

/// What a corrective 402 claims.
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

    /// Returns what was charged so far, if the claim is believed: the chain is asked what was claimed.
    ///
    /// # Errors
    /// If the chain does not say.
    pub(crate) async fn believed(
        &self,
        inner: &ClientInner,
        vouched: &PreparedVoucher,
        record: &ChannelRecord,
    ) -> Result<Option<Amount>, Failure> {
        let signer = inner.channel_signer()?;
        let (network, config) = (vouched.network, vouched.config());
        let shown = self.voucher.as_ref().map(|shown| {
            let voucher = Voucher::new(vouched.channel(), shown.signed_max_claimable, shown.signature.clone());
            (shown.signed_max_claimable, signer.signed_voucher(network, config, &voucher))
        });
        let funds = signer.channel_funds(network, vouched.channel()).await?;
        Ok(judge(record, vouched.channel(), &self.state, shown, &funds))
    }
}

/// What was charged so far, as far as the claim and the record agree. `shown`: a voucher's total, and whether this payer signed it.
fn judge(
    record: &ChannelRecord,
    channel: ChannelId,
    state: &ChannelState,
    shown: Option<(u128, bool)>,
    funds: &ChannelFunds,
) -> Option<Amount> {
    let charged = state.charged_cumulative_amount.filter(|_| state.channel_id == channel)?;
    if funds.claimed > charged {
        return None;
    }
    if charged < record.charged {
        // It has forgotten some of what was charged.
        return Some(charged);
    }
    let (total, is_own) = shown?;
    let total = Amount::from_base_units(total);
    let is_explained = charged > record.charged && charged <= record.doubtful;
    (is_own && is_explained && charged <= total && total <= record.signed).then_some(charged)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        client::PurchaseId,
        protocol::{Address, Network, channel::ChannelConfig},
    };

    fn units(units: u128) -> Amount {
        Amount::from_base_units(units)
    }

    #[test]
    fn a_seller_is_believed_as_far_as_the_record_explains_what_it_says() {
        let [payer, receiver, token] = [1, 2, 3].map(|byte| Address::new([byte; 20]));
        let config = ChannelConfig::new(payer, receiver, token);
        let id = config.id(Network::BASE);
        // 100 were charged; a request over 200 was given up, and one over 200 is open.
        let mut record = ChannelRecord::new(config);
        record.begin(PurchaseId::new([1; 16]), units(100));
        record.charge(PurchaseId::new([1; 16]), units(100), units(1_000));
        record.begin(PurchaseId::new([2; 16]), units(100));
        record.give_up();
        record.begin(PurchaseId::new([3; 16]), units(150));
        let other = ChannelId::new([9; 32]);
        for (name, channel, claimed, shown, on_chain, believed) in [
            ("what was given up was charged", id, Some(200), Some((200, true)), 0, Some(200)),
            ("a part of it was", id, Some(150), Some((200, true)), 0, Some(150)),
            ("without a voucher", id, Some(200), None, 0, None),
            ("another's voucher", id, Some(200), Some((200, false)), 0, None),
            ("a voucher over less", id, Some(200), Some((150, true)), 0, None),
            ("above what was given up", id, Some(250), Some((250, true)), 0, None),
            ("above all that was signed", id, Some(251), Some((251, true)), 0, None),
            ("the same as here", id, Some(100), Some((200, true)), 0, None),
            ("less than here", id, Some(40), None, 40, Some(40)),
            ("less than the chain shows", id, Some(40), None, 41, None),
            ("less than the chain shows, signed", id, Some(200), Some((200, true)), 201, None),
            ("of another channel", other, Some(200), Some((200, true)), 0, None),
            ("nothing", id, None, Some((200, true)), 0, None),
        ] {
            let mut state = ChannelState::new(channel, units(1_000), units(on_chain));
            state.charged_cumulative_amount = claimed.map(units);
            let funds = ChannelFunds::new(units(1_000), units(on_chain));
            assert_eq!(judge(&record, id, &state, shown, &funds), believed.map(units), "{name}");
        }
    }
}
