//! `Spendings`: what counts against the limits of a budget, and for how long.
//!
//! A payment counts from the reservation of its money until a day after its transfer was settled, without a gap. So a
//! payment that is approved late, or mined days after it was sent, counts on the day on which its money moves.

use std::{collections::HashMap, time::Duration};

use crate::{
    client::{
        Budget, Denial, JournalEntry, PurchaseId, PurchaseState,
        flow::{DAY, Spent},
        http::host,
    },
    protocol::{Amount, ChainTime, Network},
};

/// When a payment is dropped from memory: long after it stops counting, so that a momentarily wrong clock does not
/// erase the day's spending.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(30 * DAY.as_secs());

#[derive(Default)]
pub(super) struct Spendings(HashMap<PurchaseId, Spending>);

struct Spending {
    from: ChainTime,
    /// Whether its money may move at any time.
    is_under_way: bool,
    /// The host, without its port.
    host: String,
    amount: Amount,
    /// What came back of its deposit.
    returned: Amount,
    network: Network,
    /// The highest cost of its transactions, in the network's coin.
    gas: Amount,
    /// The hash of the MPP challenge for which an authorization was or is about to be signed.
    challenge: Option<[u8; 32]>,
}

impl Spendings {
    /// Counts a purchase from now on, whatever its outcome.
    pub(super) fn set_aside(&mut self, entry: &JournalEntry) {
        self.set_amount_aside(entry, entry.counted());
    }

    /// Counts this amount for a purchase whose price is not the amount paid.
    pub(super) fn set_amount_aside(&mut self, entry: &JournalEntry, amount: Amount) {
        let host = host::of_entry(&entry.host);
        let (from, gas) = (entry.counts_from(), entry.gas());
        let (returned, network) = (Amount::ZERO, entry.network);
        let spending = Spending { from, is_under_way: true, host, amount, returned, network, gas, challenge: None };
        self.0.insert(entry.id, spending);
    }

    /// Updates a purchase to its current state. Payments made elsewhere are not counted.
    pub(super) fn follow(&mut self, entry: &JournalEntry) {
        if let Some(spending) = self.0.get_mut(&entry.id) {
            spending.is_under_way = entry.state == PurchaseState::Paying && !entry.is_sold();
            spending.from = entry.counts_from();
            spending.amount = entry.counted();
            spending.gas = spending.gas.max(entry.gas());
            spending.challenge = entry.challenge_hash();
        }
    }

    /// Sets the total that came back of these purchases' deposits. It reduces the latest deposits first.
    pub(super) fn take_back(&mut self, deposits: &[PurchaseId], mut returned: Amount) {
        for id in deposits.iter().rev() {
            let Some(spending) = self.0.get_mut(id) else { continue };
            spending.returned = returned.min(spending.amount);
            returned = returned.checked_sub(spending.returned).unwrap_or(Amount::ZERO);
        }
    }

    /// Takes the challenge with that hash for a purchase with reserved money. Returns `false` if another known purchase
    /// has it, finished or not.
    pub(super) fn take_challenge(&mut self, challenge: [u8; 32], id: PurchaseId) -> bool {
        if self.0.iter().any(|(other, one)| *other != id && one.challenge == Some(challenge)) {
            return false;
        }
        self.0.get_mut(&id).map(|own| own.challenge = Some(challenge)).is_some()
    }

    /// Reserves the highest cost of a purchase's transactions, one of which is about to be recorded, atomically with
    /// the check of the other fees.
    pub(super) fn set_gas_aside(
        &mut self,
        id: PurchaseId,
        network: Network,
        gas: Amount,
        now: ChainTime,
        budget: &Budget,
    ) -> Result<(), Denial> {
        let others = self.counted(now).filter(|(other, one)| **other != id && one.network == network);
        let others = others.fold(Amount::ZERO, |sum, (_, one)| add(sum, one.gas));
        budget.affords_gas(network, gas, others)?;
        if let Some(spending) = self.0.get_mut(&id) {
            spending.gas = spending.gas.max(gas);
        }
        Ok(())
    }

    /// Stops counting a purchase that has sent no transaction, and can no longer send one.
    pub(super) fn give_back(&mut self, id: PurchaseId) {
        self.0.remove(&id);
    }

    /// Returns whether the purchase is known.
    pub(super) fn has(&self, id: PurchaseId) -> bool {
        self.0.contains_key(&id)
    }

    pub(super) fn forget(&mut self, now: ChainTime) {
        let past = before(now, FORGOTTEN_AFTER);
        self.0.retain(|_, spending| spending.is_under_way || spending.from > past);
    }

    pub(super) fn at(&self, now: ChainTime, host: &str, budget: &Budget) -> Spent {
        let host = host::of_entry(host);
        let host = budget.grouped(&host);
        let mut spent = Spent { by_host: Amount::ZERO, in_all: Amount::ZERO };
        for (_, one) in self.counted(now) {
            let amount = one.amount.checked_sub(one.returned).unwrap_or(Amount::ZERO);
            spent.in_all = add(spent.in_all, amount);
            if budget.grouped(&one.host) == host {
                spent.by_host = add(spent.by_host, amount);
            }
        }
        spent
    }

    /// Returns the purchases that count now: those in progress, and those of the last day.
    fn counted(&self, now: ChainTime) -> impl Iterator<Item = (&PurchaseId, &Spending)> {
        let day_ago = before(now, DAY);
        self.0.iter().filter(move |(_, one)| one.is_under_way || one.from > day_ago)
    }
}

fn add(sum: Amount, one: Amount) -> Amount {
    sum.checked_add(one).unwrap_or(Amount::MAX)
}

/// Returns the time `span` earlier.
const fn before(moment: ChainTime, span: Duration) -> ChainTime {
    ChainTime::from_unix(moment.unix().saturating_sub(span.as_secs()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Asset;

    const NOW: ChainTime = ChainTime::from_unix(1_700_000_000);
    const ENTRY: &str = r#"{"version":1,"entry":{"id":"01010101010101010101010101010101","at":1700000000,"state":"paying","host":"api.example","request":"POST /v1","fingerprint":"00ff","intent":"intent","secret":null,"expiry":1700000060,"recipient":"0x0202020202020202020202020202020202020202","network":"eip155:8453","isElsewhere":false,"amount":"490000","decimals":6,"payment":"none","transaction":null,"settled":null,"delivered":false,"billed":0}}"#;

    fn budget() -> Budget {
        let budget = Budget::in_assets([Asset::USDC_BASE, Asset::USDC_BASE_SEPOLIA]).per_payment("1").per_day("10");
        let budget = budget.gas_per_payment("2").gas_per_day("3").gas_on(Network::BASE_SEPOLIA, "50", "70");
        budget.build().unwrap()
    }

    /// Network fees count only on their own network, in its coin.
    #[test]
    fn network_fees_count_on_their_network_alone() {
        let mut spendings = Spendings::default();
        let budget = budget();
        let mut pays = |id: u8, network, coins: &str| {
            let entry = JournalEntry::from_record(ENTRY).unwrap();
            let id = PurchaseId::new([id; 16]);
            spendings.set_aside(&JournalEntry { id, network, ..entry });
            let gas = Amount::parse_decimal(coins, 18).unwrap();
            let allowed = spendings.set_gas_aside(id, network, gas, NOW, &budget);
            if allowed.is_err() {
                spendings.give_back(id);
            }
            allowed
        };
        assert_eq!(pays(1, Network::BASE, "2"), Ok(()));
        assert_eq!(pays(2, Network::BASE_SEPOLIA, "50"), Ok(()));
        assert!(
            matches!(pays(3, Network::BASE_SEPOLIA, "51"), Err(Denial::GasPerPayment { limit, .. }) if limit == "50")
        );
        assert!(matches!(pays(4, Network::BASE, "1.1"), Err(Denial::GasPerDay { spent, .. }) if spent == "2"));
        assert_eq!(pays(5, Network::BASE, "1"), Ok(()));
        assert!(matches!(pays(6, Network::BASE_SEPOLIA, "21"), Err(Denial::GasPerDay { spent, .. }) if spent == "50"));
        assert_eq!(pays(7, Network::BASE_SEPOLIA, "20"), Ok(()));
        // All prices are in one unit, and count together.
        let spent = spendings.at(NOW, "api.example", &budget);
        assert_eq!(spent.in_all, Amount::from_base_units(4 * 490_000));
    }
}
