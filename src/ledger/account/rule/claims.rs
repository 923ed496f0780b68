//! Claimable accounts: their debts, and the effect of a reflection.

use crate::{
    ledger::account::{
        outcome::{Claims, ReflectOutcome},
        record::{AccountRecord, ClaimRecord},
        reflection::Reflection,
        time::AccountTime,
    },
    protocol::Amount,
};

impl AccountRecord {
    /// Ignores a reading of an earlier block than the last reflection. A reading without a block, after one with a
    /// block, only lowers the limit: it is the word of a few nodes, which can neither cover nor claim anything, and
    /// does not replace a better one.
    pub(super) fn reflect(&mut self, read: &Reflection, now: AccountTime) -> ReflectOutcome {
        let Some(last) = self.claims.as_ref().map(|claims| claims.as_of) else { return ReflectOutcome::Unknown };
        let order = last.zip(read.as_of).map(|(last, read)| read.cmp(&last));
        let is_surer = last.is_none() || read.as_of.is_some();
        if order.is_none_or(std::cmp::Ordering::is_ge) {
            if let Some(claimed) = read.claimed.filter(|_| is_surer) {
                self.claim(claimed, order.is_some_and(std::cmp::Ordering::is_gt), now);
            }
            if let Some(limit) = read.limit {
                self.lower_or_raise(if is_surer { limit } else { limit.min(self.limit) }, now);
            }
            if let Some(claims) = &mut self.claims {
                claims.as_of = read.as_of.or(last);
                if let Some(note) = read.note.as_ref().filter(|_| is_surer) {
                    claims.note = note.clone();
                }
            }
        }
        ReflectOutcome::Done(self.at(now))
    }

    /// Only a reading at a later block lowers the claimed amount: the chain has dropped a claim, and its amount is owed
    /// again.
    fn claim(&mut self, read: Amount, is_later: bool, now: AccountTime) {
        let Some(claims) = &mut self.claims else { return };
        let before = claims.claimed;
        claims.claimed = if is_later { read } else { read.max(before) };
        if claims.claimed > self.spent {
            // A claimed amount was charged, even if this ledger lost the charge. The reservations were granted against
            // a lower sum.
            self.spent = claims.claimed;
            self.held.clear();
        }
        claims.since = match claims.since {
            _ if claims.claimed == self.spent => None,
            Some(since) if claims.claimed <= before => Some(since),
            _ => Some(now.wall),
        };
    }

    /// Keeps live reservations. Expired ones lose amounts that are no longer covered, the oldest first.
    fn lower_or_raise(&mut self, limit: Amount, now: AccountTime) {
        self.limit = limit;
        while !self.is_covered()
            && let Some(place) = self.held.iter().position(|held| !held.is_live(now))
        {
            self.held.remove(place);
        }
    }

    /// Records since when there is a debt.
    pub(super) fn owe(&mut self, now: AccountTime) {
        if let Some(claims) = &mut self.claims
            && claims.claimed < self.spent
        {
            claims.since.get_or_insert(now.wall);
        }
    }

    /// Records that there is no debt any more, after a charge was taken back.
    pub(super) fn owe_less(&mut self) {
        if let Some(claims) = &mut self.claims
            && claims.claimed >= self.spent
        {
            claims.since = None;
        }
    }

    /// Lets a closed claimable account expire now, so that it may be forgotten once its debt is claimed.
    pub(super) fn end_claimable(&mut self, now: AccountTime) {
        if self.is_claimable() {
            self.expires = Some(self.expires.map_or(now.wall, |end| end.min(now.wall)));
        }
    }
}

impl ClaimRecord {
    pub(super) fn shown(&self) -> Claims {
        Claims {
            claimed: self.claimed,
            since: self.since.map(super::moment),
            note: self.note.clone(),
            as_of: self.as_of,
        }
    }
}

#[cfg(test)]
mod tests;
