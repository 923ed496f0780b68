//! What the account of a channel carries: its memo, which charges write, and its note, which readings of the chain write.

use crate::{
    ledger::AccountMemo,
    paywall::seller::byte_fields::take,
    protocol::{
        Address, Amount, ChainTime, IntentKey, Network, PaymentId, PaymentSignature,
        channel::{ChannelConfig, ChannelId, Voucher, VoucherClaim, VoucherPayment},
    },
    settle::ChannelOnChain,
};

/// The version of the memo's format, and the earlier ones. The second lacks `public`; the first lacks `pay_until` and `lost` as well.
const MEMO: u8 = 3;
const SECOND_MEMO: u8 = 2;
const FIRST_MEMO: u8 = 1;
/// How many totals that claims have shown are told apart.
const MOST_PUBLIC: usize = 4;
/// The version of the note's format.
const NOTE: u8 = 1;

/// The memo: the identity of a channel, and its last sale.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChannelMemo {
    pub(crate) network: Network,
    pub(crate) config: ChannelConfig,
    /// A signed refund: its nonce, and how much it gives back. Anyone who saw it can have it made until that nonce is used.
    pub(crate) refund: Option<(u64, u128)>,
    /// How much of what was charged is lost for good, by what the chain says. The loss was reported once.
    pub(crate) lost: u128,
    /// The totals of vouchers that claims have shown, above what the chain had as claimed by then. Anyone can show these vouchers here.
    pub(crate) public: Vec<u128>,
    /// `None` before the first sale.
    pub(crate) last: Option<LastSale>,
}

/// The last sale of a channel, and the voucher that covers it and all earlier ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LastSale {
    /// The voucher's total.
    pub(crate) total: u128,
    pub(crate) signature: PaymentSignature,
    /// The intent that was sold.
    pub(crate) intent: IntentKey,
    /// The digest of the request that was sold.
    pub(crate) request: [u8; 16],
    /// Until when that intent could be paid. Long after that, the ledger forgets that it was sold.
    pub(crate) pay_until: ChainTime,
    /// What this sale cost; also zero if its charge was taken back.
    pub(crate) charge: u128,
    /// What all sales cost, including this one.
    pub(crate) charged: u128,
}

impl ChannelMemo {
    /// Returns the memo of a channel without sales.
    pub(crate) const fn of(network: Network, config: ChannelConfig) -> Self {
        Self { network, config, refund: None, lost: 0, public: Vec::new(), last: None }
    }

    /// Returns whether a claim has shown a voucher over this total. No signature binds a voucher to a request, so anyone who read it in the
    /// claim could buy with what the payer signed and was not charged.
    pub(crate) fn is_public(&self, total: u128) -> bool {
        // Totals that are no longer told apart are lower than all that are.
        let is_below_all = || self.public.len() >= MOST_PUBLIC && self.public.iter().all(|public| total < *public);
        self.public.contains(&total) || is_below_all()
    }

    /// Returns whether the last charge was for this voucher and this quote, and was taken back. The text of the quote is on no chain, so
    /// only its payer can show both again.
    pub(crate) fn is_taken_back(&self, total: u128, intent: IntentKey) -> bool {
        self.last.as_ref().is_some_and(|last| last.charge == 0 && (last.total, last.intent) == (total, intent))
    }

    /// Returns the shown totals that still matter once the chain shows that `claimed` is claimed. A voucher over less buys nothing, and its
    /// client learns of no later one.
    pub(crate) fn public_above(&self, claimed: u128) -> Vec<u128> {
        self.public.iter().copied().filter(|total| *total > claimed).collect()
    }

    /// Returns the memo after a claim has shown a voucher over `total`; `None` if it says so already, or the chain shows that as much is
    /// `claimed`.
    pub(crate) fn once_shown(&self, total: u128, claimed: u128) -> Option<Self> {
        if total <= claimed || self.public.contains(&total) {
            return None;
        }
        let mut public = self.public_above(claimed);
        public.push(total);
        public.sort_unstable();
        // If there are too many to be told apart, all below the lowest that is kept count as public.
        let more = public.len().saturating_sub(MOST_PUBLIC);
        public.drain(..more);
        Some(Self { public, ..self.clone() })
    }

    /// Returns the memo as bytes; `None` if the signature is too long to be kept.
    pub(crate) fn write(&self) -> Option<AccountMemo> {
        let Self { network, config, refund, lost, public, last } = self;
        let (nonce, amount) = refund.unwrap_or_default();
        let mut memo = vec![MEMO];
        memo.extend_from_slice(&network.chain_id().to_be_bytes());
        let (authorizers, token) = ([config.payer_authorizer, config.receiver_authorizer], config.token);
        for party in [config.payer, config.receiver, token].iter().chain(&authorizers) {
            memo.extend_from_slice(party.as_bytes());
        }
        memo.extend_from_slice(&config.withdraw_delay.to_be_bytes());
        memo.extend_from_slice(&config.salt);
        memo.extend_from_slice(&nonce.to_be_bytes());
        memo.extend_from_slice(&amount.to_be_bytes());
        memo.extend_from_slice(&lost.to_be_bytes());
        memo.push(u8::try_from(public.len()).ok()?);
        for total in public {
            memo.extend_from_slice(&total.to_be_bytes());
        }
        if let Some(last) = last {
            for units in [last.total, last.charge, last.charged] {
                memo.extend_from_slice(&units.to_be_bytes());
            }
            memo.extend_from_slice(last.intent.as_bytes());
            memo.extend_from_slice(&last.request);
            memo.extend_from_slice(&last.pay_until.unix().to_be_bytes());
            memo.extend_from_slice(last.signature.as_bytes());
        }
        AccountMemo::new(memo)
    }

    /// Parses a memo; `None` for anything else.
    pub(crate) fn read(memo: &AccountMemo) -> Option<Self> {
        let rest = &mut memo.as_bytes();
        let [form] = take(rest)?;
        if ![MEMO, SECOND_MEMO, FIRST_MEMO].contains(&form) {
            return None;
        }
        let network = Network::eip155(u64::from_be_bytes(take(rest)?));
        let [payer, receiver, token] = [take(rest)?, take(rest)?, take(rest)?].map(Address::new);
        let config = ChannelConfig::new(payer, receiver, token)
            .with_payer_authorizer(Address::new(take(rest)?))
            .with_receiver_authorizer(Address::new(take(rest)?))
            .with_withdraw_delay(u32::from_be_bytes(take(rest)?))
            .with_salt(take(rest)?);
        let refund = (u64::from_be_bytes(take(rest)?), u128::from_be_bytes(take(rest)?));
        let refund = Some(refund).filter(|(_, amount)| *amount > 0);
        let lost = if form == FIRST_MEMO { 0 } else { u128::from_be_bytes(take(rest)?) };
        let [count] = if form == MEMO { take(rest)? } else { [0] };
        let public = (0..count).map(|_| Some(u128::from_be_bytes(take(rest)?))).collect::<Option<Vec<_>>>()?;
        let last = if rest.is_empty() { None } else { Some(LastSale::read(rest, form)?) };
        // Earlier formats did not note whether a claim had shown it.
        let public = match &last {
            Some(last) if form != MEMO && last.total > last.charged => vec![last.total],
            _ => public,
        };
        Some(Self { network, config, refund, lost, public, last })
    }

    /// Returns how much of the channel may go back by a signed refund that the chain does not show as made. What few nodes say does not
    /// show it.
    pub(crate) fn going_back(&self, state: &ChannelOnChain) -> u128 {
        let is_open = |(nonce, _): &(u64, u128)| state.of_few || *nonce >= state.refund_nonce;
        self.refund.filter(is_open).map_or(0, |(_, amount)| amount)
    }

    /// Returns the payment id of the last sale.
    pub(crate) fn payment_id(&self) -> Option<PaymentId> {
        let last = self.last.as_ref()?;
        Some(VoucherPayment::new(self.network, &self.config, last.total, last.intent).payment_id())
    }

    /// Returns the claim of all that was sold; `None` before the first sale.
    pub(crate) fn claim(&self, channel: ChannelId) -> Option<VoucherClaim> {
        let last = self.last.as_ref()?;
        let voucher = Voucher::new(channel, last.total, last.signature.clone());
        Some(VoucherClaim::new(self.config, voucher, last.charged))
    }
}

impl LastSale {
    fn read(rest: &mut &[u8], form: u8) -> Option<Self> {
        let [total, charge, charged] = [take(rest)?, take(rest)?, take(rest)?].map(u128::from_be_bytes);
        let (intent, request) = (IntentKey::new(take(rest)?), take(rest)?);
        let pay_until = if form == FIRST_MEMO { 0 } else { u64::from_be_bytes(take(rest)?) };
        let signature = PaymentSignature::new(std::mem::take(rest)).ok()?;
        Some(Self { total, signature, intent, request, pay_until: ChainTime::from_unix(pay_until), charge, charged })
    }
}

/// Writes the note: what the chain said last.
pub(crate) fn write_note(state: &ChannelOnChain) -> AccountMemo {
    let mut note = vec![NOTE];
    for amount in [state.balance, state.total_claimed, state.claimed_at_most, state.withdrawing] {
        note.extend_from_slice(&amount.to_be_bytes());
    }
    let requested = state.withdraw_requested_at.map_or(0, ChainTime::unix);
    for number in [requested, state.refund_nonce] {
        note.extend_from_slice(&number.to_be_bytes());
    }
    // The note has a fixed length, below the limit.
    AccountMemo::new(note).unwrap_or_default()
}

/// Reads a note; `None` for anything else.
pub(crate) fn read_note(note: &AccountMemo) -> Option<ChannelOnChain> {
    let rest = &mut note.as_bytes();
    if take(rest)? != [NOTE] {
        return None;
    }
    let [balance, total_claimed, claimed_at_most, withdrawing] =
        [take(rest)?, take(rest)?, take(rest)?, take(rest)?].map(Amount::from_be_bytes);
    let [requested, refund_nonce] = [take(rest)?, take(rest)?].map(u64::from_be_bytes);
    let withdraw_requested_at = Some(ChainTime::from_unix(requested)).filter(|_| requested > 0);
    rest.is_empty().then_some(ChannelOnChain {
        balance,
        total_claimed,
        claimed_at_most,
        withdrawing,
        withdraw_requested_at,
        refund_nonce,
        refunds_differ: false,
        // The account itself has the block.
        as_of: None,
        of_few: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memo() -> ChannelMemo {
        let config = ChannelConfig::new(Address::new([1; 20]), Address::new([2; 20]), Address::new([3; 20]))
            .with_payer_authorizer(Address::new([4; 20]))
            .with_receiver_authorizer(Address::new([5; 20]))
            .with_withdraw_delay(86_400)
            .with_salt([6; 32]);
        ChannelMemo::of(Network::BASE, config)
    }

    fn sold(signature: usize) -> ChannelMemo {
        let signature = PaymentSignature::new(vec![7; signature]).unwrap();
        let (intent, request) = (IntentKey::new([8; 16]), [9; 16]);
        let pay_until = ChainTime::from_unix(5);
        let last = LastSale { total: u128::MAX, signature, intent, request, pay_until, charge: 3, charged: 4 };
        ChannelMemo { last: Some(last), ..memo() }
    }

    #[test]
    fn a_memo_is_read_as_it_was_written() {
        for memo in [
            memo(),
            sold(65),
            sold(600),
            ChannelMemo { refund: Some((3, 4)), lost: 5, public: vec![6; MOST_PUBLIC], ..sold(640) },
        ] {
            assert_eq!(ChannelMemo::read(&memo.write().unwrap()), Some(memo));
        }
        assert_eq!(sold(900).write(), None);
        let whole = sold(65).write().unwrap();
        let before_signature = whole.as_bytes().len() - 65;
        for length in (0..=before_signature).filter(|length| *length != memo().write().unwrap().as_bytes().len()) {
            assert!(ChannelMemo::read(&AccountMemo::new(&whole.as_bytes()[..length]).unwrap()).is_none(), "{length}");
        }
    }

    #[test]
    fn a_memo_of_an_earlier_form_is_read() {
        let whole = sold(65).write().unwrap().as_bytes().to_vec();
        let head = memo().write().unwrap().as_bytes().len();
        let mut second = [&whole[..head - 1], &whole[head..]].concat();
        second[0] = SECOND_MEMO;
        // The format did not note whether its voucher was shown.
        let mut expected = sold(65);
        expected.public = vec![u128::MAX];
        assert_eq!(ChannelMemo::read(&AccountMemo::new(second).unwrap()).as_ref(), Some(&expected));
        // Without `lost`, and without `pay_until`.
        let mut first = [&whole[..head - 17], &whole[head..head + 80], &whole[head + 88..]].concat();
        first[0] = FIRST_MEMO;
        expected.last.as_mut().unwrap().pay_until = ChainTime::from_unix(0);
        assert_eq!(ChannelMemo::read(&AccountMemo::new(first).unwrap()), Some(expected));
    }

    #[test]
    fn what_a_claim_showed_is_public_until_more_is_charged() {
        let with = |public: &[u128]| ChannelMemo { public: public.to_vec(), ..sold(65) };
        assert_eq!(with(&[]).once_shown(100, 100), None, "the chain shows it");
        let claimed = with(&[]).once_shown(100, 30).unwrap();
        assert_eq!([99, 100, 101].map(|total| claimed.is_public(total)), [false, true, false]);
        assert_eq!(claimed.once_shown(100, 30), None, "told once");
        assert_eq!((claimed.public_above(99), claimed.public_above(100)), (vec![100], vec![]));
        // A total that is claimed by then is dropped.
        assert_eq!(with(&[40, 100]).once_shown(140, 50).unwrap().public, [100, 140]);
        // Too many to be told apart: all below the kept ones are public.
        let many = with(&[10, 20, 30, 40]).once_shown(300, 5).unwrap();
        assert_eq!(many.public, [20, 30, 40, 300]);
        for (total, is_public) in
            [(6, true), (10, true), (20, true), (21, false), (299, false), (300, true), (301, false)]
        {
            assert_eq!(many.is_public(total), is_public, "{total}");
        }
        let lower = many.once_shown(10, 5).unwrap();
        assert!(lower.is_public(10) && lower.public == many.public);
        assert!(many.write().is_some());
    }

    #[test]
    fn a_note_is_read_as_it_was_written() {
        let state = ChannelOnChain::new(Amount::MAX, Amount::from_base_units(7));
        let withdrawing =
            state.with_withdrawal(Amount::from_base_units(1), ChainTime::from_unix(5)).with_refund_nonce(3);
        for state in [state, withdrawing] {
            assert_eq!(read_note(&write_note(&state)), Some(state));
        }
        assert_eq!(read_note(&AccountMemo::default()), None);
    }

    #[test]
    fn a_signed_refund_goes_back_until_its_nonce_is_used() {
        let memo = ChannelMemo { refund: Some((3, 40)), ..memo() };
        let state = ChannelOnChain::new(Amount::MAX, Amount::ZERO);
        let going = |nonce| memo.going_back(&state.with_refund_nonce(nonce));
        assert_eq!([2, 3, 4].map(going), [40, 40, 0]);
        assert_eq!(memo.going_back(&state.with_refund_nonce(4).of_few_nodes()), 40);
    }

    #[test]
    fn what_is_claimed_is_all_that_was_sold_and_not_what_was_signed() {
        let claim = sold(65).claim(ChannelId::new([0; 32])).unwrap();
        assert_eq!((claim.total_claimed, claim.voucher.max_claimable), (4, u128::MAX));
        assert_eq!(memo().claim(ChannelId::new([0; 32])), None);
    }
}
