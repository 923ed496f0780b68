//! `Budget`: what may be spent, on whom and in what, decided before anything is signed.

use std::{collections::HashMap, fmt, future::Future, pin::Pin, sync::Arc};

use http::Method;

use super::{PurchaseId, host};
use crate::protocol::{Address, Amount, Asset, Network, Quote};

/// For how long a payment counts against the limits per host and per day, in seconds.
pub(super) const DAY: u64 = 24 * 60 * 60;

/// What may be spent. There is no paying layer without one, and no budget without limits.
///
/// Amounts are decimals of the assets' unit, `"0.50"` of USDC. A day is the last 24 hours. A payment counts from the
/// moment it is decided on until 24 hours after its transfer was found in a block, or found impossible: that a transfer
/// came to nothing is a node's word, and frees nothing before its day is over. What the chain takes for the transaction
/// itself is not counted here: see [`WalletPayer`](super::WalletPayer).
///
/// **Hosts.** A host is a name or an address, however it is spelled, whatever its port. Each subdomain is a host of its
/// own, because nobody can tell by the name alone who shares a domain; [`group_subdomains`](BudgetBuilder::group_subdomains)
/// says where they are one.
///
/// **Who is paid.** A quote is the word of whoever answers the request. A shop in between can pass on the quote of
/// another seller, let you pay that seller, and keep the answer for itself: no limit tells this from an honest quote.
/// Where you know whom a host should be paid for, say so: [`recipient_for`](BudgetBuilder::recipient_for).
///
/// ```
/// use tower_x402::{client::Budget, protocol::{Address, Asset}};
/// let seller: Address = "0xd1220a0cf47c7b9be7a2e6ba89f429762e7b9adb".parse()?;
/// let budget = Budget::in_assets([Asset::USDC_BASE])
///     .per_payment("0.50")
///     .per_host("2.00")
///     .per_day("10.00")
///     .recipient_for("seller.example", seller)
///     .build()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Budget {
    assets: Vec<Asset>,
    decimals: u8,
    per_payment: Amount,
    per_host: Amount,
    per_day: Amount,
    recipients: Option<Vec<Address>>,
    recipients_for: HashMap<String, Vec<Address>>,
    domains: Vec<String>,
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
    /// Whom the request goes to: host, and port where it is not the usual one.
    pub host: String,
    /// The request's method.
    pub method: Method,
    /// The request's path, without the query, which may hold secrets.
    pub path: String,
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
    /// What names a host does not.
    #[error("`{0}` names something that is no host, such as seller.example")]
    Host(&'static str),
}

/// Why a payment was not made. Nothing was signed, nothing was spent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Declined {
    /// The price is above the limit for one payment.
    #[error("nothing was paid: {price} is more than the budget's limit of {limit} for one payment")]
    PerPayment {
        /// What is asked, as a decimal.
        price: String,
        /// What one payment may cost, as a decimal.
        limit: String,
    },
    /// With this payment, the host would have had more in one day than it may.
    #[error(
        "nothing was paid: {price} and the {spent} of the last day are more than the budget's limit of {limit} for one host in a day"
    )]
    PerHost {
        /// What is asked, as a decimal.
        price: String,
        /// What the host had in the last day, as a decimal.
        spent: String,
        /// What it may have, as a decimal.
        limit: String,
    },
    /// With this payment, more would be spent in one day than may be.
    #[error(
        "nothing was paid: {price} and the {spent} of the last day are more than the budget's limit of {limit} for a day"
    )]
    PerDay {
        /// What is asked, as a decimal.
        price: String,
        /// What was spent in the last day, as a decimal.
        spent: String,
        /// What may be spent, as a decimal.
        limit: String,
    },
    /// The recipient is not among those that may be paid, or not the one that this host may name.
    #[error("nothing was paid: {0} is not among the recipients that the budget allows for this host")]
    Recipient(Address),
    /// The quote names the paying account itself, a token contract or the zero address as recipient: whoever is paid so
    /// is nobody who could sell.
    #[error("nothing was paid: {0} is the paying account, a token contract or the zero address, and sells nothing")]
    NoSeller(Address),
    /// The payment is due on a chain of which the budget has no asset.
    #[error("nothing was paid: the budget has nothing to spend on {0}")]
    Network(Network),
    /// The seller accepts no asset of the budget, or states other decimals than it has.
    #[error("nothing was paid: the seller accepts no asset of the budget")]
    Asset,
    /// The quote asks for nothing: a transfer of nothing pays nobody, and costs its fee.
    #[error("nothing was paid: the quote asks for nothing")]
    Zero,
    /// Another purchase, which is not finished, was paid for the same intent: two transfers that say the same could not be
    /// told apart.
    #[error(
        "nothing was paid: the seller gave an intent that another unfinished purchase is paid for; finish that one first"
    )]
    IntentReused,
    /// The quote says that it is over already.
    #[error("nothing was paid: the quote has expired (is the clock right?)")]
    Expired,
    /// The quote is over before a payment could be relied on to be in a block. See
    /// [`PayLayerBuilder::least_time_to_pay`](super::PayLayerBuilder::least_time_to_pay).
    #[error("nothing was paid: the quote expires in {left} s, and a payment takes {least} s at least")]
    ExpiresSoon {
        /// How many seconds are left.
        left: u64,
        /// How many there must be.
        least: u64,
    },
    /// Over plain HTTP, anybody on the way can put his own address into the quote. A request that does not say `https`
    /// counts as plain HTTP, unless it goes to this machine for certain.
    #[error(
        "nothing was paid: the quote came over plain HTTP, or the request does not say `https`, and anybody on the way can change whom a quote pays: use an absolute https address"
    )]
    PlainHttp,
    /// The request says neither in its address nor in its `Host` header which host it goes to, or says something that
    /// is none: limits and recipients per host would mean nothing.
    #[error("nothing was paid: the request does not name the host that it goes to; use an absolute https address")]
    NoHost,
    /// The approval hook said no.
    #[error("nothing was paid: the payment was not approved")]
    NotApproved,
}

/// What a budget is asked about a quote.
pub(super) struct Offer<'a> {
    pub(super) quote: &'a Quote,
    /// Host and port; empty where the request names none.
    pub(super) host: &'a str,
    pub(super) plain_http: bool,
    /// In Unix seconds.
    pub(super) now: u64,
    /// How many seconds there must be left.
    pub(super) least_time: u64,
}

impl Offer<'_> {
    /// Whether it can be paid in time.
    pub(super) fn is_in_time(&self) -> Result<(), Declined> {
        match self.quote.expiry.checked_sub(self.now) {
            None | Some(0) => Err(Declined::Expired),
            Some(left) if left < self.least_time => Err(Declined::ExpiresSoon { left, least: self.least_time }),
            Some(_) => Ok(()),
        }
    }
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

    /// The decimals of all amounts.
    #[must_use]
    pub const fn decimals(&self) -> u8 {
        self.decimals
    }

    /// Everything that can be said of a quote without knowing what was spent: gives what it may be paid with.
    pub(super) fn admit(&self, offer: &Offer<'_>) -> Result<Vec<Asset>, Declined> {
        let quote = offer.quote;
        if offer.host.is_empty() {
            return Err(Declined::NoHost);
        }
        if offer.plain_http && !self.plain_http {
            return Err(Declined::PlainHttp);
        }
        if !self.assets.iter().any(|asset| asset.network() == quote.network) {
            return Err(Declined::Network(quote.network));
        }
        self.allows_recipient(offer)?;
        let is_due = |asset: &Asset| asset.network() == quote.network && asset.decimals() == quote.decimals;
        let accepted = |asset: &&Asset| is_due(asset) && quote.contracts.contains(&asset.contract());
        let mut assets: Vec<Asset> = self.assets.iter().filter(accepted).cloned().collect();
        if assets.is_empty() {
            return Err(Declined::Asset);
        }
        // In the seller's order, each once, however often it is named.
        assets.sort_by_key(|asset| quote.contracts.iter().position(|contract| *contract == asset.contract()));
        assets.dedup_by_key(|asset| asset.contract());
        offer.is_in_time()?;
        if quote.amount.is_zero() {
            return Err(Declined::Zero);
        }
        if quote.amount > self.per_payment {
            let (price, limit) = (self.shown(quote.amount), self.shown(self.per_payment));
            return Err(Declined::PerPayment { price, limit });
        }
        Ok(assets)
    }

    fn allows_recipient(&self, offer: &Offer<'_>) -> Result<(), Declined> {
        let recipient = offer.quote.recipient;
        let host = host::of_entry(offer.host);
        let of_host = self.recipients_for.get(&host).or_else(|| self.recipients_for.get(self.grouped(&host)));
        let allowed = [self.recipients.as_ref(), of_host];
        if allowed.into_iter().flatten().any(|allowed| !allowed.contains(&recipient)) {
            return Err(Declined::Recipient(recipient));
        }
        let is_token =
            offer.quote.contracts.contains(&recipient) || self.assets.iter().any(|asset| asset.contract() == recipient);
        if is_token || recipient == Address::new([0; 20]) { Err(Declined::NoSeller(recipient)) } else { Ok(()) }
    }

    /// What stands for a host where hosts are counted: the domain that it is grouped under, else itself.
    pub(super) fn grouped<'a>(&'a self, host: &'a str) -> &'a str {
        let is_under = |domain: &&String| {
            host.strip_suffix(domain.as_str()).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        };
        self.domains.iter().find(is_under).map_or(host, String::as_str)
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

    /// What may still be spent, in all and on the host.
    pub(super) fn left(&self, spent: Spent) -> (Amount, Amount) {
        let left = |limit: Amount, spent: Amount| limit.checked_sub(spent).unwrap_or(Amount::ZERO);
        let in_all = left(self.per_day, spent.in_all);
        (in_all, in_all.min(left(self.per_host, spent.by_host)))
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
            .field("recipients_for", &self.recipients_for)
            .field("domains", &self.domains)
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
    recipients_for: Vec<(String, Address)>,
    domains: Vec<String>,
    plain_http: bool,
    approval: Option<Arc<Approval>>,
}

impl BudgetBuilder {
    /// The most that one payment may cost. Required.
    pub fn per_payment(mut self, limit: impl Into<String>) -> Self {
        self.per_payment = Some(limit.into());
        self
    }

    /// The most that one host may have in a day. Without it, the limit per day is the only one. What a host is:
    /// [`Budget`].
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

    /// Pays quotes of this host to this recipient only. Named several times, a host has several; hosts that are not
    /// named here are not affected. A host with a port, as well as one without, stands for all its ports; it stands for
    /// its subdomains where they are [grouped](Self::group_subdomains) under it.
    ///
    /// It is the remedy against a shop that passes on the quote of another seller: you would pay that seller, and the
    /// shop would have the answer.
    pub fn recipient_for(mut self, host: impl Into<String>, recipient: Address) -> Self {
        self.recipients_for.push((host.into(), recipient));
        self
    }

    /// Counts each of these domains and all its subdomains as one host, for the limit per host. For those who let
    /// everybody have a subdomain (`github.io`, `co.uk`) that is one limit for all of them together.
    pub fn group_subdomains(mut self, domains: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.domains.extend(domains.into_iter().map(Into::into));
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

    /// Also pays quotes that came over plain HTTP from elsewhere than this machine, and those for requests that do not
    /// say how they travel (a path without `https://`). Only where nobody else is on the way, or where you know that
    /// the connection is encrypted: whoever is on the way can change whom the quote pays.
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
        let mut recipients_for: HashMap<String, Vec<Address>> = HashMap::new();
        for (host, recipient) in &self.recipients_for {
            let host = host::without_port(host).ok_or(BudgetError::Host("recipient_for"))?;
            recipients_for.entry(host).or_default().push(recipient.to_owned());
        }
        let domain = |domain: &String| host::without_port(domain).ok_or(BudgetError::Host("group_subdomains"));
        Ok(Budget {
            decimals,
            per_payment: limit(self.per_payment.as_ref(), "per_payment")?,
            per_host: self.per_host.as_ref().map_or(Ok(per_day), |text| limit(Some(text), "per_host"))?,
            per_day,
            domains: self.domains.iter().map(domain).collect::<Result<_, _>>()?,
            recipients_for,
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
