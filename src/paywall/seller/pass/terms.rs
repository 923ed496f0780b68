//! `PassTerms`: what a pass costs and holds, and how its tokens are sealed.

use std::{fmt, sync::Arc, time::Duration};

use serde_json::{Value, json};

use crate::{
    ledger::{AccountId, Opening},
    paywall::seller::{pass::memo, pricing::Cost},
    protocol::{Amount, IntentKey, Payment, SealingKeys, TokenSeal},
};

/// The first characters of a pass.
const PREFIX: &str = "x402p_";
/// More calls than anyone makes.
const UNLIMITED: Amount = Amount::MAX;

/// What a pass holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holds {
    /// So many calls.
    Calls(u64),
    /// Any number of calls, until it expires.
    Time,
    /// An amount, which the prices of routes draw down.
    Worth(Amount),
}

impl Holds {
    /// Returns the kind of the account's units, which a token states. If a name is later sold under other terms, calls never become money.
    const fn kind(self) -> u8 {
        match self {
            Self::Calls(_) => 0,
            Self::Time => 1,
            Self::Worth(_) => 2,
        }
    }
}

/// The terms of one pass.
#[derive(Clone)]
pub(crate) struct PassTerms {
    pub(crate) name: Arc<str>,
    pub(crate) label: Option<Arc<str>>,
    pub(crate) price: Amount,
    pub(crate) holds: Holds,
    pub(crate) lasts: Option<Duration>,
    /// Where it is sold.
    pub(crate) url: Option<Arc<str>>,
    realm: Arc<str>,
    seal: TokenSeal,
}

impl PassTerms {
    pub(crate) fn new(keys: &SealingKeys, realm: &str, name: &str, price: Amount) -> Self {
        let seal = TokenSeal::new(keys, PREFIX, &[realm.as_bytes(), name.as_bytes()]);
        let (name, realm) = (Arc::from(name), Arc::from(realm));
        Self { name, label: None, price, holds: Holds::Calls(1), lasts: None, url: None, realm, seal }
    }

    /// Returns the account of the pass that this intent bought. An intent buys one answer, so each pass has an account of its own. A
    /// purchase that goes on under another kind of terms has another account.
    pub(crate) fn account(&self, intent: IntentKey) -> AccountId {
        let mut hasher = blake3::Hasher::new_derive_key("tower-x402 2026-11 account of a pass");
        for field in [self.realm.as_bytes(), self.name.as_bytes(), intent.as_bytes(), &[self.holds.kind()]] {
            hasher.update(&(field.len() as u64).to_be_bytes());
            hasher.update(field);
        }
        let mut id = [0; 16];
        id.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
        AccountId::new(id)
    }

    /// Returns the opening of the account for a payment.
    pub(crate) fn opening(&self, intent: IntentKey, payment: &Payment) -> Opening {
        let limit = match self.holds {
            Holds::Calls(calls) => Amount::from_base_units(calls.into()),
            Holds::Time => UNLIMITED,
            Holds::Worth(amount) => amount,
        };
        let opening = Opening::new(self.account(intent), limit).with_memo(memo::write(payment));
        match self.lasts {
            Some(lasts) => opening.lasting(lasts),
            None => opening,
        }
    }

    /// Returns the token of an account: the same one each time.
    pub(crate) fn token(&self, account: AccountId) -> String {
        let mut payload = [0; 17];
        let (kind, id) = payload.split_at_mut(1);
        kind.copy_from_slice(&[self.holds.kind()]);
        id.copy_from_slice(account.as_bytes());
        self.seal.seal(&payload)
    }

    /// Returns the account of a token; `None` if the token is not of this pass.
    pub(crate) fn open(&self, token: &str) -> Option<AccountId> {
        let [kind, id @ ..]: [u8; 17] = self.seal.open(token)?;
        (kind == self.holds.kind()).then(|| AccountId::new(id))
    }

    /// Returns the number of calls that the pass is sold with, if they are counted.
    pub(crate) const fn calls(&self) -> Option<u64> {
        match self.holds {
            Holds::Calls(calls) => Some(calls),
            Holds::Time | Holds::Worth(_) => None,
        }
    }

    /// Returns what a request at this price draws.
    pub(crate) fn draws(&self, price: Amount) -> Amount {
        match self.holds {
            Holds::Calls(_) | Holds::Time => Amount::from_base_units(1),
            Holds::Worth(_) => price,
        }
    }

    /// Returns whether the handler sets what a call at this cost draws.
    pub(crate) const fn is_charged(&self, cost: Cost) -> bool {
        matches!(self.holds, Holds::Worth(_)) && cost.tariff.is_metered()
    }

    /// Returns what is left as an answer states it; `None` if nothing is counted.
    pub(crate) fn remaining(&self, left: Amount, decimals: u8) -> Option<String> {
        match self.holds {
            Holds::Calls(_) => Some(left.to_string()),
            Holds::Time => None,
            Holds::Worth(_) => Some(left.to_decimal(decimals)),
        }
    }

    /// Returns the pass as quotes name it.
    pub(crate) fn described(&self, decimals: u8) -> Value {
        let mut described = json!({
            "name": &*self.name,
            "label": &**self.label.as_ref().unwrap_or(&self.name),
            "price": self.price.to_decimal(decimals),
            "calls": self.calls(),
            "seconds": self.lasts.map(|lasts| lasts.as_secs()),
            "url": self.url.as_deref(),
        });
        if let (Holds::Worth(amount), Some(members)) = (self.holds, described.as_object_mut()) {
            members.insert("worth".to_owned(), amount.to_decimal(decimals).into());
        }
        described
    }

    /// Returns whether the other pass is sold under the same terms.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let terms = |pass: &Self| (pass.price, pass.holds, pass.lasts, Arc::clone(&pass.realm));
        terms(self) == terms(other)
    }
}

impl fmt::Debug for PassTerms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PassTerms")
            .field("name", &self.name)
            .field("price", &self.price)
            .field("holds", &self.holds)
            .field("lasts", &self.lasts)
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}
