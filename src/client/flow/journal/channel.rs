//! `ChannelRecord`: what the journal knows of a payment channel. Every total that was ever signed is explained by it.

use serde::{Deserialize, Serialize};

use crate::{
    client::{
        PurchaseId,
        payer::{SettledFunds, stored_channel},
    },
    protocol::{Amount, ChainTime, channel::ChannelConfig},
};

/// A channel of this payer. A total that is signed is what was charged so far, and the price of the one request that is open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ChannelRecord {
    #[serde(with = "stored_channel::config")]
    pub(crate) config: ChannelConfig,
    /// Where its last answer was bought, without the query: the seller is asked there for what is left.
    pub(crate) url: String,
    /// How that was asked for.
    pub(crate) method: String,
    /// All that was deposited and did not come back, as far as is known.
    pub(crate) deposited: Amount,
    /// The highest total that was signed.
    pub(crate) signed: Amount,
    /// What answers have confirmed as charged, in all.
    pub(crate) charged: Amount,
    /// The highest total that a seller was shown for a purchase that was given up: it may have been charged.
    pub(crate) doubtful: Amount,
    /// The one request that is open.
    pub(crate) open: Option<OpenRequest>,
    /// The purchase whose charge was counted last.
    pub(crate) counted: Option<PurchaseId>,
    /// The purchases that carried a deposit, oldest first.
    pub(crate) deposits: Vec<PurchaseId>,
    /// What came back, by the chain.
    pub(crate) refunded: Amount,
    pub(crate) phase: ChannelPhase,
    /// Its seller said of it what cannot be true: no other channel is opened there before this one is closed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_distrusted: bool,
    /// A deposit that was signed, and is not known to be made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) due: Option<DueDeposit>,
}

/// A deposit that a seller may yet make.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DueDeposit {
    /// The moment before which it can be made, by the chain's time.
    pub(crate) until: ChainTime,
    /// What the channel holds at least, once it is made.
    pub(crate) balance: Amount,
}

/// The request that a voucher was signed for, and whose charge is not known yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OpenRequest {
    pub(crate) purchase: PurchaseId,
    pub(crate) total: Amount,
}

/// What is done with a payment channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum ChannelPhase {
    /// It pays.
    Open,
    /// Its seller said of it what cannot be true: it pays nothing more.
    Broken,
    /// Its seller was asked for the rest.
    Closing,
    /// A withdrawal without the seller was begun, which can be ended from that moment on.
    Withdrawing(ChainTime),
    /// Nothing is left in it.
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
            due,
        }
    }

    /// Signs nothing more in it: its seller said of it what cannot be true.
    pub(crate) fn breaks(&mut self) {
        (self.phase, self.is_distrusted) = (ChannelPhase::Broken, true);
    }

    /// Whether its seller is to have no other channel.
    pub(crate) fn keeps_others_shut(&self) -> bool {
        self.is_distrusted && self.phase != ChannelPhase::Closed
    }

    /// What is left for answers, as far as is known.
    pub(crate) fn left(&self) -> Amount {
        self.deposited.checked_sub(self.charged.max(self.doubtful)).unwrap_or(Amount::ZERO)
    }

    /// Opens a request at this price, or goes on with it under another total; returns the total to sign. `None` where that would be too large.
    pub(crate) fn begin(&mut self, purchase: PurchaseId, price: Amount) -> Option<Amount> {
        let total = self.charged.checked_add(price)?;
        self.open = Some(OpenRequest { purchase, total });
        self.signed = self.signed.max(total);
        Some(total)
    }

    /// Counts what the open request was charged, in all so far, and what was deposited with it.
    pub(crate) fn charge(&mut self, purchase: PurchaseId, charged: Amount, deposit: Amount) {
        if !self.is_open_for(purchase) {
            return;
        }
        self.charged = charged;
        self.deposited = self.deposited.checked_add(deposit).unwrap_or(Amount::MAX);
        (self.open, self.counted, self.doubtful) = (None, Some(purchase), Amount::ZERO);
    }

    /// Ends the open request without a charge, by the seller's word.
    pub(crate) fn decline(&mut self, purchase: PurchaseId) {
        if self.is_open_for(purchase) {
            self.open = None;
        }
    }

    /// Gives the open request up: its total may have been charged.
    pub(crate) fn give_up(&mut self) {
        if let Some(open) = self.open.take() {
            self.doubtful = self.doubtful.max(open.total);
        }
    }

    /// Takes over the total of a purchase that was given up, which its seller has charged.
    pub(crate) fn correct(&mut self, charged: Amount) {
        (self.charged, self.doubtful) = (charged, Amount::ZERO);
    }

    pub(crate) fn is_open_for(&self, purchase: PurchaseId) -> bool {
        self.open.is_some_and(|open| open.purchase == purchase)
    }

    /// Notes a deposit that is about to be shown, and can be made until then.
    pub(crate) fn awaits(&mut self, deposit: Amount, purchase: PurchaseId, until: ChainTime) {
        let (before, earlier) = self.due.map_or((self.deposited, until), |due| (due.balance, due.until));
        let balance = before.checked_add(deposit).unwrap_or(Amount::MAX);
        self.due = Some(DueDeposit { until: until.max(earlier), balance });
        self.deposits.push(purchase);
    }

    /// Takes over what the chain holds of it.
    pub(crate) fn holds(&mut self, balance: Amount) {
        self.deposited = balance;
    }

    /// Begins to close it, or goes on: from now on it pays nothing.
    pub(crate) fn closes(&mut self, settled: &SettledFunds) {
        if !matches!(self.phase, ChannelPhase::Withdrawing(_)) {
            self.phase = ChannelPhase::Closing;
        }
        // A deposit that most nodes show can be made no more. What was deposited without an answer comes back, too.
        self.due = self.due.filter(|due| due.balance > settled.least);
        self.deposited = self.deposited.max(settled.least);
        self.gives_back(settled);
    }

    /// Takes over how much came back. While a deposit can still be made, nothing did; returns until when that is.
    pub(crate) fn gives_back(&mut self, settled: &SettledFunds) -> Option<ChainTime> {
        let due = self.due.filter(|due| settled.time < due.until);
        if due.is_none() {
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

    fn units(units: u128) -> Amount {
        Amount::from_base_units(units)
    }

    fn record() -> ChannelRecord {
        let [payer, receiver, token] = [1, 2, 3].map(|byte| Address::new([byte; 20]));
        ChannelRecord::new(ChannelConfig::new(payer, receiver, token))
    }

    /// What is signed never exceeds what was charged and one open request.
    #[test]
    fn a_total_is_what_was_charged_and_one_price() {
        let mut channel = record();
        assert_eq!(channel.begin(FIRST, units(100)), Some(units(100)));
        channel.charge(FIRST, units(40), units(1_000));
        assert_eq!((channel.charged, channel.left()), (units(40), units(960)));
        // A later word about a purchase that was counted changes nothing.
        channel.charge(FIRST, units(100), units(1_000));
        assert_eq!((channel.charged, channel.deposited), (units(40), units(1_000)));
        assert_eq!(channel.begin(SECOND, units(100)), Some(units(140)));
        channel.decline(FIRST);
        assert!(channel.is_open_for(SECOND));
        channel.decline(SECOND);
        assert_eq!((channel.begin(FIRST, units(50)), channel.signed), (Some(units(90)), units(140)));
    }

    #[test]
    fn what_was_given_up_may_have_been_charged_and_is_not_left() {
        let mut channel = record();
        channel.begin(FIRST, units(100));
        channel.give_up();
        channel.holds(units(500));
        assert_eq!((channel.doubtful, channel.left(), channel.open), (units(100), units(400), None));
        assert_eq!(channel.begin(SECOND, units(100)), Some(units(100)), "nothing more than before is signed");
        channel.correct(units(100));
        assert_eq!(channel.begin(SECOND, units(100)), Some(units(200)));
        channel.charge(SECOND, units(200), Amount::ZERO);
        assert_eq!((channel.doubtful, channel.left()), (Amount::ZERO, units(300)));
    }

    #[test]
    fn a_record_is_read_again() {
        let mut channel = record();
        channel.begin(FIRST, units(u128::MAX));
        channel.phase = ChannelPhase::Withdrawing(ChainTime::from_unix(9));
        channel.deposits = vec![FIRST];
        let written = serde_json::to_string(&channel).unwrap();
        assert_eq!(serde_json::from_str::<ChannelRecord>(&written).unwrap(), channel);
    }
}
