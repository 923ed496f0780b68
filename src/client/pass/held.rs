//! `HeldPass` and `PassError`: a pass as its holder sees it, and the errors of a pass layer.

use std::{collections::BTreeSet, fmt, io};

use serde::{Deserialize, Serialize};

use super::promise::Promise;
use crate::protocol::Amount;

/// A pass in a [`PassLayer`](super::PassLayer).
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct HeldPass {
    /// Where it was bought.
    pub url: String,
    /// The seller's name for it, if a quote gave one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The token. Anyone who has it can spend the calls.
    pub token: String,
    /// What was left at the last answer, in the seller's words: calls, or an amount. `None` if it was not used yet, or
    /// counts nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remaining: Option<String>,
    /// When it expires, in Unix seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<u64>,
    /// The amount that it was sold with, if it holds one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) worth: Option<String>,
    /// Whether it counts nothing, and lasts for a time.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_timed: bool,
    /// The smallest known charge of a call, if it holds an amount.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) least: Option<Amount>,
    /// Methods and paths where the seller took it.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(super) taken: BTreeSet<String>,
    /// How many calls it paid for that were answered.
    #[serde(default)]
    pub(super) calls: u64,
    /// Whether a call with it had no answer. In the file: or may have none, if no call was answered before.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) has_failed: bool,
    /// When it was refused on a route that took it before, in Unix seconds, if no answer by it came since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) refused_at: Option<u64>,
    /// The promise of the quote by which it was paid for. Without a token: the promise for the next pass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) promise: Option<Promise>,
    /// Only without a token: a sold pass was unusable, and no other is bought until this time, in Unix seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) unusable_until: Option<u64>,
    /// Only without a token: a purchase has begun there, and may have been paid without an answer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_unfinished: bool,
    /// Only without a token: whether the unfinished purchase has recorded a payment of its own. Otherwise an earlier purchase paid for the
    /// pass that is fetched there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_paid: bool,
}

impl HeldPass {
    pub(super) const fn new(url: String, name: Option<String>, token: String) -> Self {
        Self {
            url,
            name,
            token,
            remaining: None,
            expires: None,
            worth: None,
            least: None,
            is_timed: false,
            taken: BTreeSet::new(),
            calls: 0,
            has_failed: false,
            refused_at: None,
            promise: None,
            unusable_until: None,
            is_unfinished: false,
            is_paid: false,
        }
    }

    /// Returns whether it is worse than its quote promised, if it ends at `now` after `calls` calls. A quote counts
    /// calls at its own price, so an amount charged on several routes is not judged.
    pub(super) fn breaks_its_promise(&self, calls: u64, now: u64) -> bool {
        let is_counted = self.worth.is_none() || self.taken.len() <= 1;
        is_counted && self.promise.is_some_and(|promise| promise.is_broken(calls, now))
    }
}

/// Omits the token.
impl fmt::Debug for HeldPass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeldPass")
            .field("url", &self.url)
            .field("name", &self.name)
            .field("remaining", &self.remaining)
            .field("expires", &self.expires)
            .finish_non_exhaustive()
    }
}

/// The error of building a [`PassLayer`](super::PassLayer).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PassError {
    /// The address of a pass is not an absolute `https` URL, nor an `http` URL of this machine.
    #[error("the address of a pass is an absolute https URL, or an http URL of this machine")]
    Url,
    /// Two passes have the same origin.
    #[error("two passes for one shop: name one address for each scheme, host and port")]
    ShopTwice,
    /// The file of passes cannot be read or written.
    #[error("the file of passes cannot be used: {0}")]
    File(#[from] io::Error),
}
