//! `BudgetBuilder`: sets the limits of a budget.

use std::{collections::HashMap, fmt, future::Future, sync::Arc, time::Duration};

use super::{Approval, Budget, COIN_DECIMALS, GasLimits, Proposal};
use crate::{
    client::http::host,
    protocol::{Address, Amount, Asset, Network},
};

/// The default limit of fees for one payment: a hundred times Base's usual fee.
const GAS_PER_PAYMENT: &str = "0.0002";
/// The default limit of fees for a day.
const GAS_PER_DAY: &str = "0.002";

/// The default limit for a channel's withdrawal delay: a day, which is also the sellers' default.
pub(super) const WITHDRAW_DELAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The error of [`BudgetBuilder::build`]. Its text names the setting, and says what to write instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(transparent)]
pub struct BudgetError(#[from] Fault);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum Fault {
    #[error("the budget has no asset: name at least one to pay with")]
    NoAsset,
    #[error("the assets have different decimals: use assets of the same decimals, or one budget for each")]
    MixedDecimals,
    #[error("the limit `{0}` is missing: set it, in decimals such as 0.50")]
    Missing(&'static str),
    #[error("the limit `{0}` is not an amount of the budget's assets: write decimals such as 0.50")]
    Malformed(&'static str),
    #[error("the limit `{0}` is not an amount of the chain's coin: write decimals of ether such as 0.0002")]
    Gas(&'static str),
    #[error("`{0}` was given something that is not a host: write a name such as seller.example")]
    Host(&'static str),
}

impl Budget {
    /// Returns a builder for a budget in these assets, which name both tokens and chains.
    pub fn in_assets(assets: impl IntoIterator<Item = Asset>) -> BudgetBuilder {
        BudgetBuilder { assets: assets.into_iter().collect(), ..BudgetBuilder::default() }
    }
}

/// Builds a [`Budget`].
///
/// ```
/// use tower_x402::{client::Budget, protocol::Asset};
///
/// let budget = Budget::in_assets([Asset::USDC_BASE])
///     .per_payment("0.50")
///     .per_day("10")
///     .group_subdomains(["seller.example"])
///     .approve(async |proposal| proposal.host == "api.seller.example")
///     .build()?;
/// assert_eq!(budget.decimals(), 6);
/// # Ok::<(), tower_x402::client::BudgetError>(())
/// ```
#[derive(Clone, Default)]
#[must_use]
pub struct BudgetBuilder {
    assets: Vec<Asset>,
    per_payment: Option<String>,
    per_host: Option<String>,
    per_day: Option<String>,
    per_deposit: Option<String>,
    withdraw_delay: Option<Duration>,
    gas_per_payment: Option<String>,
    gas_per_day: Option<String>,
    gas_on: Vec<(Network, String, String)>,
    recipients: Option<Vec<Address>>,
    recipients_for: Vec<(String, Address)>,
    domains: Vec<String>,
    plain_http: bool,
    approval: Option<Arc<Approval>>,
}

impl BudgetBuilder {
    /// Sets the limit for one payment. Required.
    pub fn per_payment(mut self, limit: impl Into<String>) -> Self {
        self.per_payment = Some(limit.into());
        self
    }

    /// Sets the limit for one host in a day. Default: the limit per day. For what counts as one host, see [`Budget`].
    pub fn per_host(mut self, limit: impl Into<String>) -> Self {
        self.per_host = Some(limit.into());
        self
    }

    /// Sets the limit for a day, over all hosts. Required.
    pub fn per_day(mut self, limit: impl Into<String>) -> Self {
        self.per_day = Some(limit.into());
        self
    }

    /// Sets the limit for one deposit into a payment channel. Default: the limit for one payment. A channel that needs a larger one is not
    /// opened.
    pub fn per_deposit(mut self, limit: impl Into<String>) -> Self {
        self.per_deposit = Some(limit.into());
        self
    }

    /// Sets the longest withdrawal delay, for which a channel's seller can lock a deposit without giving an answer.
    /// Default: a day. Sellers may ask for up to 30 days; nothing is deposited into a channel with a longer delay than
    /// this.
    pub const fn longest_withdraw_delay(mut self, limit: Duration) -> Self {
        self.withdraw_delay = Some(limit);
        self
    }

    /// Sets the limit for the network fee of one payment, in the chain's coin: `"0.0002"` ether by default, which is a
    /// hundred times what Base usually takes, and may be too little on Ethereum itself. The limit applies to the
    /// highest possible cost of the transaction, about three times its real cost.
    ///
    /// Authorizations cost the payer no fee. A rollup's extra charge for data is not counted.
    pub fn gas_per_payment(mut self, limit: impl Into<String>) -> Self {
        self.gas_per_payment = Some(limit.into());
        self
    }

    /// Sets the limit for the network fees of a day, in the chain's coin: `"0.002"` ether by default. A replaced
    /// transaction counts with the higher fee, because only one of the two is mined.
    pub fn gas_per_day(mut self, limit: impl Into<String>) -> Self {
        self.gas_per_day = Some(limit.into());
        self
    }

    /// Sets both fee limits on one network, in its coin. The defaults assume ether.
    ///
    /// ```
    /// use tower_x402::{client::Budget, protocol::{Asset, Network}};
    /// let polygon = Network::eip155(137);
    /// let usdc = Asset::new(polygon, "0x3c499c542cEF5E3811e1192ce70d8cC03d5c3359".parse()?, 6, "USDC");
    /// let budget = Budget::in_assets([Asset::USDC_BASE, usdc]).per_payment("0.50").per_day("10").gas_on(polygon, "0.05", "1").build()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn gas_on(mut self, network: Network, per_payment: impl Into<String>, per_day: impl Into<String>) -> Self {
        self.gas_on.push((network, per_payment.into(), per_day.into()));
        self
    }

    /// Allows only these recipients. Default: any recipient that a quote names.
    pub fn recipients(mut self, recipients: impl IntoIterator<Item = Address>) -> Self {
        self.recipients = Some(recipients.into_iter().collect());
        self
    }

    /// Allows this host to name this recipient only. Several calls for one host allow each recipient; other hosts are
    /// not affected. A host, with or without a port, covers all its ports. It covers its subdomains if they are
    /// [grouped](Self::group_subdomains) under it.
    ///
    /// This protects against a shop that passes on another seller's quote: you would pay that seller, and the shop
    /// would keep the answer.
    pub fn recipient_for(mut self, host: impl Into<String>, recipient: Address) -> Self {
        self.recipients_for.push((host.into(), recipient));
        self
    }

    /// Counts each of these domains and its subdomains as one host, for the limit per host. If anyone can have a
    /// subdomain of it (`github.io`, `co.uk`), they all share one limit.
    pub fn group_subdomains(mut self, domains: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.domains.extend(domains.into_iter().map(Into::into));
        self
    }

    /// Calls `approve` before each payment that the limits allow; nothing is paid unless it returns `true`. It may take
    /// long: the quote's expiry is checked again afterwards.
    pub fn approve<F>(mut self, approve: impl Fn(Proposal) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = bool> + Send + 'static,
    {
        self.approval = Some(Arc::new(move |proposal| Box::pin(approve(proposal))));
        self
    }

    /// Also allows quotes over plain HTTP from another machine, and quotes for requests that name no scheme (a path
    /// without `https://`). Use it on a private network, or if you know that the connection is encrypted: anyone on the
    /// path can replace the recipient.
    pub const fn allow_plain_http(mut self) -> Self {
        self.plain_http = true;
        self
    }

    /// Builds the budget.
    ///
    /// # Errors
    /// [`BudgetError`] if a limit or an asset is missing or not valid.
    pub fn build(self) -> Result<Budget, BudgetError> {
        let decimals = self.assets.first().ok_or(Fault::NoAsset)?.decimals();
        if self.assets.iter().any(|asset| asset.decimals() != decimals) {
            return Err(Fault::MixedDecimals.into());
        }
        let limit = |text: Option<&String>, name| {
            let text = text.ok_or(Fault::Missing(name))?;
            Amount::parse_decimal(text, decimals).map_err(|_| Fault::Malformed(name))
        };
        let gas = |text: &str, name| Amount::parse_decimal(text, COIN_DECIMALS).map_err(|_| Fault::Gas(name));
        let limits = |per_payment, per_day| {
            let per_payment = gas(per_payment, "gas_per_payment")?;
            Ok::<_, Fault>(GasLimits { per_payment, per_day: gas(per_day, "gas_per_day")? })
        };
        let (gas_per_payment, gas_per_day) = (self.gas_per_payment.as_deref(), self.gas_per_day.as_deref());
        let gas_on = self.gas_on.iter().map(|(network, payment, day)| Ok((*network, limits(payment, day)?)));
        let per_day = limit(self.per_day.as_ref(), "per_day")?;
        let per_payment = limit(self.per_payment.as_ref(), "per_payment")?;
        let per_deposit = self.per_deposit.as_ref().map_or(Ok(per_payment), |text| limit(Some(text), "per_deposit"))?;
        let mut recipients_for: HashMap<String, Vec<Address>> = HashMap::new();
        for (host, recipient) in &self.recipients_for {
            let host = host::without_port(host).ok_or(Fault::Host("recipient_for"))?;
            recipients_for.entry(host).or_default().push(recipient.to_owned());
        }
        let domain = |domain: &String| host::without_port(domain).ok_or(Fault::Host("group_subdomains"));
        Ok(Budget {
            decimals,
            per_payment,
            per_host: self.per_host.as_ref().map_or(Ok(per_day), |text| limit(Some(text), "per_host"))?,
            per_day,
            per_deposit,
            withdraw_delay: self.withdraw_delay.unwrap_or(WITHDRAW_DELAY),
            gas: limits(gas_per_payment.unwrap_or(GAS_PER_PAYMENT), gas_per_day.unwrap_or(GAS_PER_DAY))?,
            gas_on: gas_on.collect::<Result<_, Fault>>()?,
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
