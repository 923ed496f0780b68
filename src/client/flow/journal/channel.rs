//! `ChannelRecord`: the journal's record of a payment channel. It explains every total that was ever signed.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{
    client::{
        PurchaseId,
        payer::{SettledFunds, stored_channel},
    },
    protocol::{Amount, ChainTime, channel::ChannelConfig},
};

/// A channel of this payer. A signed total is the amount charged so far plus the price of the one open request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ChannelRecord {
    #[serde(with = "stored_channel::config")]
    pub(crate) config: ChannelConfig,
    /// The address of its last bought answer, without the query. The refund is requested there.
    pub(crate) url: String,
    /// The HTTP method of that request.
    pub(crate) method: String,
    /// The total of all deposits that did not come back, as far as known.
    pub(crate) deposited: Amount,
    /// The highest total that was signed.
    pub(crate) signed: Amount,
    /// The total charge that answers have confirmed.
    pub(crate) charged: Amount,
    /// The highest total shown for an abandoned purchase: it may have been charged.
    pub(crate) doubtful: Amount,
    /// The one request that is open.
    pub(crate) open: Option<OpenRequest>,
    /// The purchase whose charge was counted last.
    pub(crate) counted: Option<PurchaseId>,
    /// The purchases that carried a deposit, oldest first.
    pub(crate) deposits: Vec<PurchaseId>,
    /// What came back according to the chain.
    pub(crate) refunded: Amount,
    pub(crate) phase: ChannelPhase,
    /// Whether its seller made an impossible statement about it: no other channel is opened at that seller until this
    /// one is closed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_distrusted: bool,
    /// Whether it was adopted after its journal was lost, and its count is not known yet: more may be signed than this
    /// record says.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_adopted: bool,
    /// How many answers in a row were sold and lost.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) lost: u8,
    /// A signed deposit that is not known to be made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) due: Option<DueDeposit>,
    /// Totals above the charge, oldest first, that were shown by requests that ended without a charge or with a lower
    /// one. One voucher serves every request with its total.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) shown: Vec<Amount>,
    /// The last total that its seller treats as public. It is not stored, so another process asks once more.
    #[serde(skip)]
    pub(crate) public: Option<Amount>,
}

/// A deposit that a seller may still make.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DueDeposit {
    /// The deadline for making it, in the chain's time.
    pub(crate) until: ChainTime,
    /// The least that the channel holds once it is made.
    pub(crate) balance: Amount,
}

/// After this many lost answers in a row, the channel buys nothing more.
const MOST_LOST: u8 = 3;
/// How many shown totals are kept.
const MOST_SHOWN: usize = 8;
/// A journal keeps every younger purchase, whatever its clock.
const SURELY_KEPT: Duration = Duration::from_secs(60 * 60);

fn is_zero(count: &u8) -> bool {
    *count == 0
}

/// The request of a signed voucher whose charge is not known yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OpenRequest {
    pub(crate) purchase: PurchaseId,
    pub(crate) total: Amount,
    /// When its purchase began.
    #[serde(default)]
    pub(crate) at: ChainTime,
    /// Whether it carries a deposit, in which case `due_before` is the deposit that was due before.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) deposits: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) due_before: Option<DueDeposit>,
}

/// The phase of a payment channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum ChannelPhase {
    /// The channel pays.
    Open,
    /// Its seller made an impossible statement about it: it pays nothing more.
    Broken,
    /// Its seller was asked for a refund of the rest.
    Closing,
    /// A withdrawal without the seller has begun, and can be completed from this time on.
    Withdrawing(ChainTime),
    /// The channel is empty.
    Closed,
}

impl ChannelRecord {
    pub(crate) fn new(config: ChannelConfig) -> Self {
        let [deposited, signed, charged, doubtful, refunded] = [Amount::ZERO; 5];
        let (url, method, deposits) = Default::default();
        let (open, counted, due, phase) = (None, None, None, ChannelPhase::Open);
        Self {
            config,
            url,
            method,
            deposited,
            signed,
            charged,
            doubtful,
            open,
            counted,
            deposits,
            refunded,
            phase,
            is_distrusted: false,
            is_adopted: false,
            lost: 0,
            due,
            shown: Vec::new(),
            public: None,
        }
    }

    /// Stops signing in it, because its seller made an impossible statement.
    pub(crate) fn mark_broken(&mut self) {
        (self.phase, self.is_distrusted) = (ChannelPhase::Broken, true);
    }

    /// Returns whether no other channel may be opened at its seller.
    pub(crate) fn keeps_others_shut(&self) -> bool {
        self.is_distrusted && self.phase != ChannelPhase::Closed
    }

    /// Returns how long a withdrawal without its seller takes.
    pub(crate) const fn withdraw_delay(&self) -> Duration {
        Duration::from_secs(self.config.withdraw_delay as u64)
    }

    /// Returns when the begun withdrawal can be completed.
    pub(crate) const fn withdrawing_until(&self) -> Option<ChainTime> {
        if let ChannelPhase::Withdrawing(ready) = self.phase { Some(ready) } else { None }
    }

    /// Returns what is left for answers, as far as known.
    pub(crate) fn left(&self) -> Amount {
        self.deposited.checked_sub(self.charged.max(self.doubtful)).unwrap_or(Amount::ZERO)
    }

    /// Opens a request at this price, or continues it under another total; returns the total to sign, or `None` on
    /// overflow.
    pub(crate) fn begin(&mut self, purchase: PurchaseId, at: ChainTime, price: Amount) -> Option<Amount> {
        let total = self.charged.checked_add(price)?;
        self.open = Some(OpenRequest { purchase, total, at, deposits: false, due_before: None });
        self.signed = self.signed.max(total);
        Some(total)
    }

    /// Counts the open request as charged. `charged` is the channel's new total, `deposit` the deposit made with it.
    pub(crate) fn charge(&mut self, purchase: PurchaseId, charged: Amount, deposit: Amount) {
        let Some(open) = self.open.filter(|open| open.purchase == purchase) else { return };
        (self.charged, self.is_adopted, self.lost) = (charged, false, 0);
        self.deposited = self.deposited.checked_add(deposit).unwrap_or(Amount::MAX);
        (self.open, self.counted, self.doubtful) = (None, Some(purchase), Amount::ZERO);
        // The voucher allows more than was charged. If it is shown again, the difference may be charged.
        self.remember(open.total);
        self.shown.retain(|total| *total > charged);
    }

    /// Ends the open request without a charge, according to the seller.
    pub(crate) fn decline(&mut self, purchase: PurchaseId) {
        if self.is_open_for(purchase) {
            self.open = None;
        }
    }

    /// Ends it without a charge, but remembers its shown total, because the seller may still claim the charge.
    pub(crate) fn refuse(&mut self, purchase: PurchaseId) {
        if let Some(open) = self.open.filter(|open| open.purchase == purchase) {
            self.open = None;
            self.remember(open.total);
        }
    }

    /// Gives up the open request: its total may have been charged.
    pub(crate) fn give_up(&mut self) {
        if let Some(open) = self.open.take() {
            self.doubtful = self.doubtful.max(open.total);
            self.remember(open.total);
        }
    }

    fn remember(&mut self, shown: Amount) {
        self.shown.retain(|total| *total != shown);
        self.shown.push(shown);
        let more = self.shown.len().saturating_sub(MOST_SHOWN);
        self.shown.drain(..more);
    }

    /// Adopts the total of an abandoned purchase that its seller has charged.
    pub(crate) fn correct(&mut self, charged: Amount) {
        (self.charged, self.doubtful, self.is_adopted) = (charged, Amount::ZERO, false);
        self.signed = self.signed.max(charged);
        self.shown.retain(|total| *total > charged);
    }

    pub(crate) fn is_open_for(&self, purchase: PurchaseId) -> bool {
        self.open.is_some_and(|open| open.purchase == purchase)
    }

    /// Records a deposit that is about to be shown, and can be made before `until`.
    pub(crate) fn expect_deposit(&mut self, deposit: Amount, purchase: PurchaseId, until: ChainTime) {
        let (before, earlier) = self.due.map_or((self.deposited, until), |due| (due.balance, due.until));
        let balance = before.checked_add(deposit).unwrap_or(Amount::MAX);
        if let Some(open) = self.open.as_mut().filter(|open| open.purchase == purchase) {
            (open.deposits, open.due_before) = (true, self.due);
        }
        self.due = Some(DueDeposit { until: until.max(earlier), balance });
        self.deposits.push(purchase);
    }

    /// Ends the open request, whose purchase is unknown, if it is young: nothing is shown before its purchase is
    /// recorded, so its seller was never shown it. An older request stays open, because the journal may have dropped its
    /// purchase.
    pub(crate) fn was_never_shown(&mut self, now: ChainTime) {
        let Some(open) = self.open.filter(|open| now < open.at.after(SURELY_KEPT)) else { return };
        self.open = None;
        if open.deposits {
            self.due = open.due_before;
            self.deposits.retain(|purchase| *purchase != open.purchase);
        }
    }

    /// Sets the deposit to the balance on the chain.
    pub(crate) fn set_balance(&mut self, balance: Amount) {
        self.deposited = balance;
    }

    /// Returns whether a shown deposit can still be made and is not in this balance.
    pub(crate) fn waits_for(&self, balance: Amount, now: ChainTime) -> bool {
        self.due.is_some_and(|due| balance < due.balance && now < due.until)
    }

    /// Returns whether everything that it can hold was charged, by the payer's own count.
    pub(crate) fn is_used_up(&self, settled: &SettledFunds) -> bool {
        self.due.is_none_or(|due| due.balance <= settled.least) && self.charged >= settled.balance
    }

    /// Returns whether a deposit was signed that no answer has confirmed: its seller may have made it, or may still
    /// make it.
    pub(crate) fn doubts_a_deposit(&self) -> bool {
        self.due.is_some_and(|due| self.deposited < due.balance)
    }

    /// Resolves that deposit; returns `false` if its outcome is unknown. It was made if all nodes show it, and never
    /// will be if none shows it in a block after its deadline.
    pub(crate) fn resolves(&mut self, settled: &SettledFunds) -> bool {
        let Some(due) = self.due else { return true };
        if self.phase != ChannelPhase::Open {
            self.begin_closing(settled);
            return !self.doubts_a_deposit();
        }
        if due.balance <= settled.least {
            self.deposited = self.deposited.max(settled.least);
            return true;
        }
        let is_void = settled.is_deep && due.until <= settled.time && settled.balance < due.balance;
        if is_void {
            (self.due, self.deposited) = (None, settled.balance);
        }
        is_void
    }

    /// Counts the open request as sold although its answer was lost. After `MOST_LOST` in a row, the channel breaks.
    pub(crate) fn lose(&mut self, purchase: PurchaseId, charged: Amount) {
        let lost = self.lost + 1;
        self.charge(purchase, charged, Amount::ZERO);
        self.lost = lost;
        if lost >= MOST_LOST {
            self.mark_broken();
        }
    }

    /// Begins or continues closing it: from now on it pays nothing.
    pub(crate) fn begin_closing(&mut self, settled: &SettledFunds) {
        if !matches!(self.phase, ChannelPhase::Withdrawing(_)) {
            self.phase = ChannelPhase::Closing;
        }
        // A deposit that the nodes show is no longer due. A deposit without an answer comes back, too.
        self.due = self.due.filter(|due| due.balance > settled.least);
        self.deposited = self.deposited.max(settled.least);
        self.gives_back(settled);
    }

    /// Records how much came back, in a final block. While a deposit can still be made, nothing counts as returned;
    /// returns its deadline.
    pub(crate) fn gives_back(&mut self, settled: &SettledFunds) -> Option<ChainTime> {
        let due = self.due.filter(|due| settled.time < due.until);
        if due.is_none() && settled.is_deep {
            // A due deposit is in the balance by now, or never will be made.
            self.due = None;
            let back = self.deposited.checked_sub(settled.balance).unwrap_or(Amount::ZERO);
            self.refunded = self.refunded.checked_add(back).unwrap_or(Amount::MAX);
            self.deposited = self.deposited.min(settled.balance);
        }
        due.map(|due| due.until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Address;

    const FIRST: PurchaseId = PurchaseId::new([1; 16]);
    const SECOND: PurchaseId = PurchaseId::new([2; 16]);

    const BEGUN: ChainTime = ChainTime::from_unix(50);

    fn units(units: u128) -> Amount {
        Amount::from_base_units(units)
    }

    fn record() -> ChannelRecord {
        let [payer, receiver, token] = [1, 2, 3].map(|byte| Address::new([byte; 20]));
        ChannelRecord::new(ChannelConfig::new(payer, receiver, token))
    }

    #[test]
    fn a_seller_that_loses_one_answer_after_another_is_believed_no_more() {
        let mut channel = record();
        for (number, lost, phase) in [
            (1, true, ChannelPhase::Open),
            (2, true, ChannelPhase::Open),
            (3, false, ChannelPhase::Open),
            (4, true, ChannelPhase::Open),
            (5, true, ChannelPhase::Open),
            (6, true, ChannelPhase::Broken),
        ] {
            let purchase = PurchaseId::new([number; 16]);
            let total = channel.begin(purchase, BEGUN, units(10)).unwrap();
            if lost {
                channel.lose(purchase, total);
            } else {
                channel.charge(purchase, total, Amount::ZERO);
            }
            assert_eq!((channel.charged, channel.phase), (units(10 * u128::from(number)), phase), "{number}");
        }
    }

    /// The signed total never exceeds the charges plus one open request.
    #[test]
    fn a_total_is_what_was_charged_and_one_price() {
        let mut channel = record();
        assert_eq!(channel.begin(FIRST, BEGUN, units(100)), Some(units(100)));
        channel.charge(FIRST, units(40), units(1_000));
        assert_eq!((channel.charged, channel.left()), (units(40), units(960)));
        // A later report about a counted purchase changes nothing.
        channel.charge(FIRST, units(100), units(1_000));
        assert_eq!((channel.charged, channel.deposited), (units(40), units(1_000)));
        assert_eq!(channel.begin(SECOND, BEGUN, units(100)), Some(units(140)));
        channel.decline(FIRST);
        assert!(channel.is_open_for(SECOND));
        channel.decline(SECOND);
        assert_eq!((channel.begin(FIRST, BEGUN, units(50)), channel.signed), (Some(units(90)), units(140)));
    }

    #[test]
    fn what_was_given_up_may_have_been_charged_and_is_not_left() {
        let mut channel = record();
        channel.begin(FIRST, BEGUN, units(100));
        channel.give_up();
        channel.set_balance(units(500));
        assert_eq!((channel.doubtful, channel.left(), channel.open), (units(100), units(400), None));
        assert_eq!(channel.begin(SECOND, BEGUN, units(100)), Some(units(100)), "nothing more than before is signed");
        channel.correct(units(100));
        assert_eq!(channel.begin(SECOND, BEGUN, units(100)), Some(units(200)));
        channel.charge(SECOND, units(200), Amount::ZERO);
        assert_eq!((channel.doubtful, channel.left()), (Amount::ZERO, units(300)));
    }

    #[test]
    fn a_deposit_without_an_answer_is_known_to_be_made_or_void_before_another_follows() {
        let end = ChainTime::from_unix(100);
        let mut channel = record();
        channel.expect_deposit(units(500), FIRST, end);
        assert!(channel.doubts_a_deposit());
        let settled = |most, least, time| {
            SettledFunds::new(units(most), units(0), ChainTime::from_unix(time)).with_least(units(least))
        };
        // If nodes disagree, some lag.
        for (most, least, time) in [(0, 0, 99), (500, 0, 99), (500, 0, 500), (500, 499, 500)] {
            let mut channel = channel.clone();
            assert!(!channel.resolves(&settled(most, least, time)), "{most} {least} {time}");
            assert!(channel.doubts_a_deposit(), "{most} {least} {time}");
        }
        assert!(!channel.clone().resolves(&settled(0, 0, 500).of_a_young_chain()));
        let mut made = channel.clone();
        assert!(made.resolves(&settled(500, 500, 0)));
        assert_eq!((made.deposited, made.doubts_a_deposit()), (units(500), false));
        assert!(channel.resolves(&settled(499, 0, 100)));
        assert_eq!((channel.deposited, channel.due), (units(499), None));
    }

    /// A refund during closing counts as refunded, not as never deposited.
    #[test]
    fn a_doubtful_deposit_of_a_channel_that_closes_is_resolved_with_what_came_back() {
        let mut channel = record();
        channel.set_balance(units(500));
        channel.expect_deposit(units(700), FIRST, ChainTime::from_unix(100));
        channel.phase = ChannelPhase::Closing;
        let settled = |balance, time| SettledFunds::new(units(balance), units(0), ChainTime::from_unix(time));
        assert!(!channel.resolves(&settled(200, 99)));
        assert!(!channel.resolves(&settled(200, 100).of_a_young_chain()));
        assert!(channel.resolves(&settled(200, 100)));
        assert_eq!((channel.deposited, channel.refunded, channel.due), (units(200), units(300), None));
        assert_eq!(channel.phase, ChannelPhase::Closing);
    }

    #[test]
    fn a_request_that_was_never_shown_leaves_nothing_behind() {
        let mut channel = record();
        channel.begin(FIRST, BEGUN, units(100));
        channel.expect_deposit(units(500), FIRST, ChainTime::from_unix(100));
        channel.charge(FIRST, units(100), units(500));
        let before = channel.clone();
        channel.begin(SECOND, BEGUN, units(500));
        channel.expect_deposit(units(700), SECOND, ChainTime::from_unix(200));
        assert_eq!(channel.deposits, [FIRST, SECOND]);
        // At that age, its purchase may have been shown and dropped from the journal.
        let shown = channel.clone();
        channel.was_never_shown(BEGUN.after(SURELY_KEPT));
        assert_eq!(channel, shown);
        channel.was_never_shown(BEGUN);
        channel.give_up();
        assert_eq!(channel, ChannelRecord { signed: units(600), ..before.clone() });
        // A request without a deposit leaves the due deposit unchanged.
        channel.begin(SECOND, BEGUN, units(1));
        channel.was_never_shown(BEGUN);
        assert_eq!((channel.due, channel.open), (before.due, None));
    }

    #[test]
    fn on_a_chain_without_a_deep_block_nothing_came_back() {
        let mut channel = record();
        channel.set_balance(units(500));
        let settled = SettledFunds::new(units(100), units(0), ChainTime::from_unix(0));
        channel.begin_closing(&settled.of_a_young_chain());
        assert_eq!((channel.deposited, channel.refunded), (units(500), units(0)));
        channel.gives_back(&settled);
        assert_eq!((channel.deposited, channel.refunded), (units(100), units(400)));
    }

    #[test]
    fn what_was_shown_is_remembered_until_as_much_is_charged() {
        let mut channel = record();
        channel.begin(FIRST, BEGUN, units(300));
        channel.refuse(SECOND);
        assert!(channel.is_open_for(FIRST) && channel.shown.is_empty());
        channel.refuse(FIRST);
        channel.begin(SECOND, BEGUN, units(200));
        channel.give_up();
        assert_eq!((channel.open, channel.shown.as_slice()), (None, &[units(300), units(200)][..]));
        channel.begin(FIRST, BEGUN, units(250));
        channel.charge(FIRST, units(250), units(1_000));
        assert_eq!(channel.shown, [units(300)]);
        channel.begin(FIRST, BEGUN, units(10));
        channel.charge(FIRST, units(255), Amount::ZERO);
        assert_eq!(channel.shown, [units(300), units(260)]);
        channel.correct(units(300));
        assert!(channel.shown.is_empty());
        for price in 1..=20 {
            channel.begin(FIRST, BEGUN, units(price));
            channel.refuse(FIRST);
        }
        assert_eq!((channel.shown.len(), channel.shown.last()), (MOST_SHOWN, Some(&units(320))));
    }

    #[test]
    fn a_record_is_read_again() {
        let mut channel = record();
        channel.shown = vec![units(3)];
        channel.begin(FIRST, BEGUN, units(u128::MAX));
        channel.phase = ChannelPhase::Withdrawing(ChainTime::from_unix(9));
        channel.deposits = vec![FIRST];
        let written = serde_json::to_string(&channel).unwrap();
        assert_eq!(serde_json::from_str::<ChannelRecord>(&written).unwrap(), channel);
    }
}
