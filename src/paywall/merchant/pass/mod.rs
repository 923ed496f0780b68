//! `Pass`: many calls for one payment.

mod issue;

use std::{sync::Arc, time::Duration};

use tower_layer::Layer as _;

pub use issue::PassIssuer;

use crate::ledger::{Account, ClosedAccount, LedgerError, accounts_of};
use crate::paywall::{
    error::BuildError,
    layer::X402Layer,
    merchant::Merchant,
    seller::{
        pass::terms::{Holds, PassTerms},
        pricing::PriceTag,
        redelivery::Redelivery,
        text,
    },
    service::X402,
};

/// How long the answer with a pass is kept: the longest that any answer can be.
const KEPT: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// A pass: its holder pays once and calls many times, without a transaction or a signature for each call.
///
/// Created by [`Merchant::pass`]. It is bought like any other answer, by every way to pay, at its own route, its
/// [`service`](Self::service). It counts on the routes that [accept](X402Layer::accept_pass) it, in the header `x402-pass`.
///
/// One call is reserved before the handler runs, and charged before its answer leaves. A call that is not sold by the rule of its
/// route costs nothing.
///
/// ```
/// # use std::time::Duration;
/// # use tower_x402::{BuildError, Merchant, Pass};
/// # fn passes(merchant: &Merchant) -> Result<(), BuildError> {
/// let ten = merchant.pass("ten", "3.90 USDC")?.calls(10)?.label("Ten answers")?.at("/pass")?;
/// let day = merchant.pass("day", "5 USDC")?.lasting(Duration::from_secs(86_400))?; // any number of calls
/// let purse = merchant.pass("purse", "4.50 USDC")?.worth("5 USDC")?;               // prices draw it down
///
/// let layer = merchant.charge("demand-insights", "0.49 USDC")?.accept_pass(&ten)?.accept_pass(&purse)?;
/// let sells_it = ten.service()?; // axum: `.route_service("/pass", ten.service()?)`
/// # let _ = (day, layer, sells_it);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Pass {
    merchant: Merchant,
    terms: PassTerms,
    layer: X402Layer,
    /// Whether the seller set what it holds.
    holds: bool,
}

impl Merchant {
    /// Defines a pass at a fixed price. It holds one call, unless its methods set something else. It is sold as the resource of this name.
    ///
    /// # Errors
    /// [`BuildError::NoAccounts`] if the ledger has no [accounts](crate::ledger::Ledger::accounts); otherwise as
    /// [`charge`](Self::charge).
    pub fn pass(&self, name: &str, price: impl Into<PriceTag>) -> Result<Pass, BuildError> {
        if self.inner.ledger.accounts().is_none() {
            return Err(BuildError::NoAccounts);
        }
        let price = price.into();
        let amount = price.amount(self.inner.decimals(), self.inner.symbol())?;
        let layer = self.charge(name, price)?;
        Ok(Pass {
            merchant: self.clone(),
            terms: PassTerms::new(&self.inner.keys, &self.inner.realm, name, amount),
            layer,
            holds: false,
        })
    }
}

impl Pass {
    /// Sets how many calls it holds.
    ///
    /// # Errors
    /// [`BuildError::OutOfRange`] for zero.
    pub fn calls(self, calls: u64) -> Result<Self, BuildError> {
        if calls == 0 {
            return Err(BuildError::OutOfRange { what: "calls" });
        }
        Ok(self.holding(Holds::Calls(calls)))
    }

    /// Lets the pass hold an amount, such as `"5 USDC"`. Each call draws it down by the price of its route, or by the charge of a metered
    /// one.
    ///
    /// # Errors
    /// [`BuildError`] for an invalid amount.
    pub fn worth(self, amount: impl Into<PriceTag>) -> Result<Self, BuildError> {
        let inner = self.merchant.inner();
        let amount = amount.into().amount(inner.decimals(), inner.symbol())?;
        Ok(self.holding(Holds::Worth(amount)))
    }

    /// Lets the pass expire this long after its sale, at least one second. Without [`calls`](Self::calls) and [`worth`](Self::worth) it
    /// then holds any number of calls, at most 64 at the same time.
    ///
    /// # Errors
    /// [`BuildError::OutOfRange`] for less than a second.
    pub fn lasting(mut self, lasts: Duration) -> Result<Self, BuildError> {
        if lasts < Duration::from_secs(1) {
            return Err(BuildError::OutOfRange { what: "lasting" });
        }
        self.terms.lasts = Some(lasts);
        if !self.holds {
            self.terms.holds = Holds::Time;
        }
        Ok(self)
    }

    fn holding(mut self, holds: Holds) -> Self {
        (self.terms.holds, self.holds) = (holds, true);
        self
    }

    /// Sets the description in quotes, 1 to 100 characters; the pass's name by default.
    ///
    /// # Errors
    /// As [`X402Layer::label`].
    pub fn label(mut self, label: &str) -> Result<Self, BuildError> {
        self.layer = self.layer.label(label)?;
        self.terms.label = Some(label.into());
        Ok(self)
    }

    /// Sets where it is sold, a URL or a path of at most 100 characters, for the quotes of the routes that accept it.
    ///
    /// # Errors
    /// [`BuildError::InvalidText`] for an empty text, a longer one, or one with control characters.
    pub fn at(mut self, url: &str) -> Result<Self, BuildError> {
        text::check("the URL of a pass", url)?;
        self.terms.url = Some(url.into());
        Ok(self)
    }

    /// Changes the layer that sells it: its page, its description for [`discovery`](crate::Merchant::discovery), its hook.
    pub fn sold_by(mut self, change: impl FnOnce(X402Layer) -> X402Layer) -> Self {
        self.layer = change(self.layer);
        self
    }

    /// Returns the service that sells the pass, to requests of any method, without a body. Its answer is JSON:
    /// `{"pass":"x402p_…","calls":10,"expires":null}`, with the number of calls if they are counted, and the expiry in Unix seconds if
    /// there is one.
    ///
    /// The token is made from the payment's intent, sealed with the merchant's keys, and leaves only once its sale is recorded. The answer
    /// is kept for 30 days, and the same payment gets it again, even a signed one, which is settled before the pass is issued.
    ///
    /// # Errors
    /// [`BuildError::ConflictingResource`] if a pass of this name has other terms.
    pub fn service(&self) -> Result<X402<PassIssuer>, BuildError> {
        let (inner, terms) = (self.merchant.inner(), self.registered()?);
        let layer = self.layer.clone().settle_first().redeliver(Redelivery::lasting(KEPT).up_to(4 * 1024));
        Ok(layer.selling(Arc::clone(&terms)).layer(PassIssuer::new(Arc::clone(inner), terms)))
    }

    /// Returns the state of a pass of this kind: what is left of it, and when it expires. `None` if the token is not of this pass, or the
    /// ledger does not know its account.
    ///
    /// # Errors
    /// [`LedgerError`] if the ledger does not answer.
    pub async fn account(&self, token: &str) -> Result<Option<Account>, LedgerError> {
        match self.terms.open(token) {
            Some(id) => accounts_of(&*self.merchant.inner().ledger)?.account(id).await,
            None => Ok(None),
        }
    }

    /// Closes a pass of this kind for good, such as one that was copied, or whose rest is refunded. Returns what is left. Calls that are
    /// under way may still be charged. `None` as for [`account`](Self::account).
    ///
    /// # Errors
    /// [`LedgerError`] if the ledger does not answer.
    pub async fn close(&self, token: &str) -> Result<Option<ClosedAccount>, LedgerError> {
        match self.terms.open(token) {
            Some(id) => accounts_of(&*self.merchant.inner().ledger)?.close_account(id).await,
            None => Ok(None),
        }
    }

    fn foreign(&self) -> BuildError {
        BuildError::ForeignPass { name: self.terms.name.to_string() }
    }

    fn registered(&self) -> Result<Arc<PassTerms>, BuildError> {
        let terms = Arc::new(self.terms.clone());
        self.merchant.inner().catalog.enter_pass(&terms)?;
        Ok(terms)
    }
}

impl X402Layer {
    /// Takes this pass in the header `x402-pass`, in place of a payment. Quotes name it, in the order of these calls.
    ///
    /// If a request shows a pass beside a payment, the payment pays, and the pass stays as it is. The handler sees no `x402-pass`; its
    /// [`Receipt`](crate::Receipt) is that of the payment which bought the pass, and [names it](crate::Receipt::pass).
    ///
    /// # Errors
    /// [`BuildError::ConflictingResource`] if a pass of this name has other terms; [`BuildError::ForeignPass`] if it is of another
    /// merchant.
    pub fn accept_pass(self, pass: &Pass) -> Result<Self, BuildError> {
        match self.is_of(pass.merchant.inner()) {
            true => Ok(self.taking(pass.registered()?)),
            false => Err(pass.foreign()),
        }
    }
}

#[cfg(feature = "mcp")]
impl crate::mcp::McpLayer {
    /// Takes this pass for calls of this tool, in the member `x402/pass` of their `_meta`, as [`X402Layer::accept_pass`] does in a header.
    /// The pass is sold at a route of its own, which bills name in `_meta["x402/passes"]`.
    ///
    /// # Errors
    /// As for a route; and [`BuildError::ConflictingResource`] for a tool without a price.
    pub fn accept_pass(self, tool: &str, pass: &Pass) -> Result<Self, BuildError> {
        match self.is_of(pass.merchant.inner()) {
            true => self.taking(tool, pass.registered()?),
            false => Err(pass.foreign()),
        }
    }
}
