//! `Budget`: what may be spent, on whom and in what, decided before anything is signed.

use std::{fmt, future::Future, pin::Pin, sync::Arc};

use super::PurchaseId;
use crate::protocol::{Address, Amount, Asset, Network, Quote};

/// For how long a payment counts against the limits per host and per day, in seconds.
pub(super) const DAY: u64 = 24 * 60 * 60;

/// What may be spent. There is no paying layer without one, and no budget without limits.
///
/// Amounts are decimals of the assets' unit, `"0.50"` of USDC. A day is the last 24 hours. What the chain takes for the
/// transaction itself is not counted here: see [`WalletPayer`](super::WalletPayer).
///
/// ```
/// use tower_x402::{client::Budget, protocol::Asset};
/// let budget = Budget::in_assets([Asset::USDC_BASE])
///     .per_payment("0.50")
///     .per_host("2.00")
///     .per_day("10.00")
///     .build()?;
/// # Ok::<(), tower_x402::client::BudgetError>(())
/// ```
#[derive(Clone)]
pub struct Budget {
    assets: Vec<Asset>,
    decimals: u8,
    per_payment: Amount,
    per_host: Amount,
    per_day: Amount,
    recipients: Option<Vec<Address>>,
    plain_http: bool,
    approval: Option<Arc<Approval>>,
}

type Approval = dyn Fn(Proposal) -> Pin<Box<dyn Future<Output = bool> + Send>> + Send + Sync;

/// A payment that is asked for, as the approval hook sees it. The texts are the seller's own: show them escaped.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Proposal {
    /// Its name in the journal.
    pub purchase: PurchaseId,
    /// Whom the request goes to: host and port.
    pub host: String,
    /// What for, in the seller's words.
    pub label: String,
    /// Who is to be paid.
    pub recipient: Address,
    /// On which chain.
    pub network: Network,
    /// How much, in base units.
    pub amount: Amount,
    /// The decimals of the amount.
    pub decimals: u8,
    /// What may be paid with: of what the budget allows, what the seller accepts.
    pub assets: Vec<Asset>,
}

/// Why a budget cannot be built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BudgetError {
    /// No asset to pay with.
    #[error("a budget names at least one asset to pay with")]
    NoAsset,
    /// One limit means the same in all assets only if they have the same decimals.
    #[error("all assets of a budget have the same decimals")]
    MixedDecimals,
    /// A limit that must be there is not.
    #[error("a budget has a limit `{0}`")]
    Missing(&'static str),
    /// A limit is no amount of the assets.
    #[error("the limit `{0}` is no amount of the budget's assets, such as 0.50")]
    Malformed(&'static str),
}

/// Why a payment was not made. Nothing was signed, nothing was spent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Declined {
    /// The price is above the limit for one payment.
    #[error("{price} is more than the {limit} that one payment may cost")]
    PerPayment {
        /// What is asked, as a decimal.
        price: String,
        /// What one payment may cost, as a decimal.
        limit: String,
    },
    /// With this payment, the host would have had more in one day than it may.
    #[error("{price} and the {spent} of the last day are more than the {limit} that one host may have in a day")]
    PerHost {
        /// What is asked, as a decimal.
        price: String,
        /// What the host had in the last day, as a decimal.
        spent: String,
        /// What it may have, as a decimal.
        limit: String,
    },
    /// With this payment, more would be spent in one day than may be.
    #[error("{price} and the {spent} of the last day are more than the {limit} that may be spent in a day")]
    PerDay {
        /// What is asked, as a decimal.
        price: String,
        /// What was spent in the last day, as a decimal.
        spent: String,
        /// What may be spent, as a decimal.
        limit: String,
    },
    /// The recipient is not among those that may be paid.
    #[error("{0} is not among the recipients that may be paid")]
    Recipient(Address),
    /// The payment is due on a chain of which the budget has no asset.
    #[error("nothing may be spent on {0}")]
    Network(Network),
    /// The seller accepts no asset of the budget, or states other decimals than it has.
    #[error("the seller accepts no asset that may be paid with")]
    Asset,
    /// The quote asks for nothing: a transfer of nothing pays nobody, and costs its fee.
    #[error("the quote asks for nothing")]
    Zero,
    /// Another purchase, which is not finished, was paid for the same intent: two transfers that say the same could not be
    /// told apart.
    #[error("the seller gave an intent that another unfinished purchase is paid for: finish that one first")]
    IntentReused,
    /// The quote says that it is over already.
    #[error("the quote has expired: is the clock right?")]
    Expired,
    /// Over plain HTTP, anybody on the way can put his own address into the quote.
    #[error("the quote came over plain HTTP, where anybody on the way can change whom it pays: use https")]
    PlainHttp,
    /// The approval hook said no.
    #[error("the payment was not approved")]
    NotApproved,
}

/// What was spent in the last day, the payments under way included.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spent {
    pub(super) by_host: Amount,
    pub(super) in_all: Amount,
}

impl Budget {
    /// A budget in these assets: tokens and chains at once.
    pub fn in_assets(assets: impl IntoIterator<Item = Asset>) -> BudgetBuilder {
        BudgetBuilder { assets: assets.into_iter().collect(), ..BudgetBuilder::default() }
    }

    /// Everything that can be said of a quote without knowing what was spent: gives what it may be paid with.
    pub(super) fn admit(&self, quote: &Quote, plain_http: bool, now: u64) -> Result<Vec<Asset>, Declined> {
        if plain_http && !self.plain_http {
            return Err(Declined::PlainHttp);
        }
        if !self.assets.iter().any(|asset| asset.network() == quote.network) {
            return Err(Declined::Network(quote.network));
        }
        if self.recipients.as_ref().is_some_and(|allowed| !allowed.contains(&quote.recipient)) {
            return Err(Declined::Recipient(quote.recipient));
        }
        let is_due = |asset: &Asset| asset.network() == quote.network && asset.decimals() == quote.decimals;
        let allowed =
            |contract: &Address| self.assets.iter().find(|asset| asset.contract() == *contract && is_due(asset));
        let mut assets: Vec<Asset> = Vec::new();
        for asset in quote.contracts.iter().filter_map(allowed) {
            // A seller may name one token a thousand times.
            if !assets.contains(asset) {
                assets.push(asset.clone());
            }
        }
        if assets.is_empty() {
            return Err(Declined::Asset);
        }
        if quote.expiry <= now {
            return Err(Declined::Expired);
        }
        if quote.amount.is_zero() {
            return Err(Declined::Zero);
        }
        if quote.amount > self.per_payment {
            let (price, limit) = (self.shown(quote.amount), self.shown(self.per_payment));
            return Err(Declined::PerPayment { price, limit });
        }
        Ok(assets)
    }

    /// Whether `price` may be spent beside what was.
    pub(super) fn afford(&self, price: Amount, spent: Spent) -> Result<(), Declined> {
        let fits = |before: Amount, limit: Amount| before.checked_add(price).is_some_and(|sum| sum <= limit);
        let shown = |before: Amount, limit: Amount| (self.shown(price), self.shown(before), self.shown(limit));
        // The day first: where no limit per host was set, none is named.
        if !fits(spent.in_all, self.per_day) {
            let (price, spent, limit) = shown(spent.in_all, self.per_day);
            return Err(Declined::PerDay { price, spent, limit });
        }
        if !fits(spent.by_host, self.per_host) {
            let (price, spent, limit) = shown(spent.by_host, self.per_host);
            return Err(Declined::PerHost { price, spent, limit });
        }
        Ok(())
    }

    pub(super) async fn approve(&self, proposal: Proposal) -> Result<(), Declined> {
        match &self.approval {
            Some(approval) if !approval(proposal).await => Err(Declined::NotApproved),
            _ => Ok(()),
        }
    }

    fn shown(&self, amount: Amount) -> String {
        amount.to_decimal(self.decimals)
    }
}

impl fmt::Debug for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Budget")
            .field("assets", &self.assets)
            .field("per_payment", &self.shown(self.per_payment))
            .field("per_host", &self.shown(self.per_host))
            .field("per_day", &self.shown(self.per_day))
            .field("recipients", &self.recipients)
            .field("plain_http", &self.plain_http)
            .finish_non_exhaustive()
    }
}

/// Sets the limits of a [`Budget`].
#[derive(Clone, Default)]
#[must_use]
pub struct BudgetBuilder {
    assets: Vec<Asset>,
    per_payment: Option<String>,
    per_host: Option<String>,
    per_day: Option<String>,
    recipients: Option<Vec<Address>>,
    plain_http: bool,
    approval: Option<Arc<Approval>>,
}

impl BudgetBuilder {
    /// The most that one payment may cost. Required.
    pub fn per_payment(mut self, limit: impl Into<String>) -> Self {
        self.per_payment = Some(limit.into());
        self
    }

    /// The most that one host may have in a day. Without it, the limit per day is the only one.
    pub fn per_host(mut self, limit: impl Into<String>) -> Self {
        self.per_host = Some(limit.into());
        self
    }

    /// The most that may be spent in a day, on all hosts together. Required.
    pub fn per_day(mut self, limit: impl Into<String>) -> Self {
        self.per_day = Some(limit.into());
        self
    }

    /// Pays these recipients only. Without it, whoever a quote names.
    pub fn recipients(mut self, recipients: impl IntoIterator<Item = Address>) -> Self {
        self.recipients = Some(recipients.into_iter().collect());
        self
    }

    /// Asks `approve` before each payment that the limits allow; nothing is paid unless it says `true`. It may take its
    /// time: the quote's expiry is looked at again afterwards.
    pub fn approve<F>(mut self, approve: impl Fn(Proposal) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = bool> + Send + 'static,
    {
        self.approval = Some(Arc::new(move |proposal| Box::pin(approve(proposal))));
        self
    }

    /// Also pays quotes that came over plain HTTP from elsewhere than this machine. Only where nobody else is on the
    /// way: whoever is can change whom the quote pays.
    pub const fn allow_plain_http(mut self) -> Self {
        self.plain_http = true;
        self
    }

    /// The budget.
    ///
    /// # Errors
    /// [`BudgetError`] for a limit or an asset that is missing or makes no sense.
    pub fn build(self) -> Result<Budget, BudgetError> {
        let decimals = self.assets.first().ok_or(BudgetError::NoAsset)?.decimals();
        if self.assets.iter().any(|asset| asset.decimals() != decimals) {
            return Err(BudgetError::MixedDecimals);
        }
        let limit = |text: Option<&String>, name| {
            let text = text.ok_or(BudgetError::Missing(name))?;
            Amount::parse_decimal(text, decimals).map_err(|_| BudgetError::Malformed(name))
        };
        let per_day = limit(self.per_day.as_ref(), "per_day")?;
        Ok(Budget {
            decimals,
            per_payment: limit(self.per_payment.as_ref(), "per_payment")?,
            per_host: self.per_host.as_ref().map_or(Ok(per_day), |text| limit(Some(text), "per_host"))?,
            per_day,
            assets: self.assets,
            recipients: self.recipients,
            plain_http: self.plain_http,
            approval: self.approval,
        })
    }
}

impl fmt::Debug for BudgetBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BudgetBuilder").field("assets", &self.assets).finish_non_exhaustive()
    }
}
