//! `Budget`: limits of amounts, recipients and tokens, applied before anything is signed.

mod builder;
mod denial;
mod offer;
mod proposal;

use std::{collections::HashMap, fmt, future::Future, pin::Pin, sync::Arc, time::Duration};

pub use builder::{BudgetBuilder, BudgetError};
pub use denial::BudgetDenial;
pub(crate) use denial::Denial;
pub(crate) use offer::{Offer, is_in_time};
pub use proposal::Proposal;

use crate::{
    client::http::host,
    protocol::{Address, Amount, Asset, Network},
};

/// How long a payment counts against the limits per host and per day.
pub(crate) const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The decimals of ether, and of every coin in which an EVM chain takes its fees.
const COIN_DECIMALS: u8 = 18;

/// The limits of spending. Every paying layer has a budget, and every budget has limits.
///
/// Amounts are decimals of the assets' unit: `"0.50"` of USDC. A day is the last 24 hours. A payment counts from the
/// decision until 24 hours after its transfer was found in a block, or found impossible: a failure is only a node's
/// report, so it frees nothing before its day is over. A payment by authorization counts at least until a day after its
/// expiry, unless the transaction that used it is known. A payment by permit counts with its maximum while it is open,
/// and with the charge once the chain confirms that. A permit that was not used, and never can be, counts nothing.
///
/// **Channels.** A deposit into a payment channel counts like a payment until the chain shows that it came back.
/// Answers bought from the channel do not count again. One deposit is at most
/// [`per_deposit`](BudgetBuilder::per_deposit), and locked for at most
/// [`longest_withdraw_delay`](BudgetBuilder::longest_withdraw_delay). The price of each answer is limited by
/// [`per_payment`](BudgetBuilder::per_payment).
///
/// **Network fees.** The fees of transfers and cancellations have their own limits, in the chain's coin:
/// [`gas_per_payment`](BudgetBuilder::gas_per_payment) and [`gas_per_day`](BudgetBuilder::gas_per_day), which have
/// defaults. They apply to each network separately, because each chain has its own coin;
/// [`gas_on`](BudgetBuilder::gas_on) sets those of one network. They apply to payers that state what a transaction
/// [costs](crate::client::PreparedTransfer::costing), as [`WalletPayer`](crate::client::WalletPayer) does.
///
/// **Hosts.** A host is a name or an address, in any spelling and with any port. All names and addresses of this
/// machine (`localhost`, `127.0.0.1`, `[::1]`, `0.0.0.0`) are one host. Each subdomain is its own host, because a name
/// alone does not reveal the owner of a domain; [`group_subdomains`](BudgetBuilder::group_subdomains) counts them as
/// one.
///
/// **Recipients.** The answering server controls what a quote says. A shop in between can pass on another seller's
/// quote, let you pay that seller, and keep the answer: no limit distinguishes this from an honest quote. If you know
/// the recipient of a host, name it: [`recipient_for`](BudgetBuilder::recipient_for).
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
    per_deposit: Amount,
    withdraw_delay: Duration,
    gas: GasLimits,
    gas_on: HashMap<Network, GasLimits>,
    recipients: Option<Vec<Address>>,
    recipients_for: HashMap<String, Vec<Address>>,
    domains: Vec<String>,
    plain_http: bool,
    approval: Option<Arc<Approval>>,
}

type Approval = dyn Fn(Proposal) -> Pin<Box<dyn Future<Output = bool> + Send>> + Send + Sync;

/// The spending of the last day, including pending payments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spent {
    pub(crate) by_host: Amount,
    pub(crate) in_all: Amount,
}

/// The limits of network fees, in the smallest unit of a chain's coin.
#[derive(Clone, Copy, Debug)]
struct GasLimits {
    per_payment: Amount,
    per_day: Amount,
}

impl Budget {
    /// Returns a budget that allows no spending.
    pub(crate) fn nothing() -> Self {
        Self {
            assets: Vec::new(),
            decimals: 0,
            per_payment: Amount::ZERO,
            per_host: Amount::ZERO,
            per_day: Amount::ZERO,
            per_deposit: Amount::ZERO,
            withdraw_delay: Duration::ZERO,
            gas: GasLimits { per_payment: Amount::ZERO, per_day: Amount::ZERO },
            gas_on: HashMap::new(),
            recipients: None,
            recipients_for: HashMap::new(),
            domains: Vec::new(),
            plain_http: false,
            approval: None,
        }
    }

    /// Returns the decimals of all amounts.
    #[must_use]
    pub const fn decimals(&self) -> u8 {
        self.decimals
    }

    /// Returns a permitted token's details.
    pub(crate) fn asset(&self, network: Network, contract: Address) -> Option<&Asset> {
        self.assets.iter().find(|asset| (asset.network(), asset.contract()) == (network, contract))
    }

    /// Checks a quote without regard to past spending; returns the assets that may pay it.
    pub(crate) fn admit(&self, offer: &Offer<'_>) -> Result<Vec<Asset>, Denial> {
        let quote = offer.quote;
        if offer.host.is_empty() {
            return Err(Denial::NoHost);
        }
        if offer.plain_http && !self.plain_http {
            return Err(Denial::PlainHttp);
        }
        if !self.assets.iter().any(|asset| asset.network() == quote.network) {
            return Err(Denial::Network(quote.network));
        }
        self.allows_recipient(offer)?;
        let is_due = |asset: &Asset| asset.network() == quote.network && asset.decimals() == quote.decimals;
        let accepted = |asset: &&Asset| is_due(asset) && quote.contracts.contains(&asset.contract());
        let mut assets: Vec<Asset> = self.assets.iter().filter(accepted).cloned().collect();
        if assets.is_empty() {
            return Err(Denial::Asset);
        }
        // In the seller's order, without duplicates.
        assets.sort_by_key(|asset| quote.contracts.iter().position(|contract| *contract == asset.contract()));
        assets.dedup_by_key(|asset| asset.contract());
        offer.is_in_time()?;
        if quote.amount.is_zero() {
            return Err(Denial::Zero);
        }
        if quote.amount > self.per_payment {
            let (price, limit) = (self.shown(quote.amount), self.shown(self.per_payment));
            return Err(Denial::PerPayment { price, limit });
        }
        Ok(assets)
    }

    fn allows_recipient(&self, offer: &Offer<'_>) -> Result<(), Denial> {
        let recipient = offer.quote.recipient;
        let host = host::of_entry(offer.host);
        let of_host = self.recipients_for.get(&host).or_else(|| self.recipients_for.get(self.grouped(&host)));
        let allowed = [self.recipients.as_ref(), of_host];
        if allowed.into_iter().flatten().any(|allowed| !allowed.contains(&recipient)) {
            return Err(Denial::Recipient(recipient));
        }
        let is_token =
            offer.quote.contracts.contains(&recipient) || self.assets.iter().any(|asset| asset.contract() == recipient);
        if is_token || recipient == Address::new([0; 20]) { Err(Denial::NoSeller(recipient)) } else { Ok(()) }
    }

    /// Returns the name under which a host is counted: the domain that it is grouped under, or itself.
    pub(crate) fn grouped<'a>(&'a self, host: &'a str) -> &'a str {
        let is_under = |domain: &&String| {
            host.strip_suffix(domain.as_str()).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        };
        self.domains.iter().find(is_under).map_or(host, String::as_str)
    }

    /// Returns the same for the host of a request or a journal entry, which may have a port.
    pub(crate) fn counted_host(&self, host: &str) -> String {
        self.grouped(&host::of_entry(host)).to_owned()
    }

    /// Checks whether the budget allows `price` on top of earlier spending.
    pub(crate) fn afford(&self, price: Amount, spent: Spent) -> Result<(), Denial> {
        let fits = |before: Amount, limit: Amount| before.checked_add(price).is_some_and(|sum| sum <= limit);
        let shown = |before: Amount, limit: Amount| (self.shown(price), self.shown(before), self.shown(limit));
        // Check the day first: without a limit per host, `per_host` equals it and must not be named.
        if !fits(spent.in_all, self.per_day) {
            let (price, spent, limit) = shown(spent.in_all, self.per_day);
            return Err(Denial::PerDay { price, spent, limit });
        }
        if !fits(spent.by_host, self.per_host) {
            let (price, spent, limit) = shown(spent.by_host, self.per_host);
            return Err(Denial::PerHost { price, spent, limit });
        }
        Ok(())
    }

    /// Returns the limit for one deposit.
    pub(crate) const fn deposit_limit(&self) -> Amount {
        self.per_deposit
    }

    /// Checks whether a deposit may be locked for this delay.
    pub(crate) fn allows_withdraw_delay(&self, delay: Duration) -> Result<(), Denial> {
        let limit = self.withdraw_delay;
        if delay > limit { Err(Denial::WithdrawDelay { delay, limit }) } else { Ok(()) }
    }

    /// Checks whether this amount may be deposited at once.
    pub(crate) fn allows_deposit(&self, deposit: Amount) -> Result<(), Denial> {
        if deposit > self.per_deposit {
            let (deposit, limit) = (self.shown(deposit), self.shown(self.per_deposit));
            return Err(Denial::PerDeposit { deposit, limit });
        }
        Ok(())
    }

    /// Checks whether a transaction may cost this fee, on top of the last day's fees on the same network.
    pub(crate) fn affords_gas(&self, network: Network, fee: Amount, spent: Amount) -> Result<(), Denial> {
        let limits = self.gas_on.get(&network).unwrap_or(&self.gas);
        if fee > limits.per_payment {
            let (fee, limit) = (coin(fee), coin(limits.per_payment));
            return Err(Denial::GasPerPayment { fee, limit });
        }
        if spent.checked_add(fee).is_none_or(|sum| sum > limits.per_day) {
            let (fee, spent, limit) = (coin(fee), coin(spent), coin(limits.per_day));
            return Err(Denial::GasPerDay { fee, spent, limit });
        }
        Ok(())
    }

    /// Returns what may still be spent: in all, and on the host.
    pub(crate) fn left(&self, spent: Spent) -> (Amount, Amount) {
        let left = |limit: Amount, spent: Amount| limit.checked_sub(spent).unwrap_or(Amount::ZERO);
        let in_all = left(self.per_day, spent.in_all);
        (in_all, in_all.min(left(self.per_host, spent.by_host)))
    }

    pub(crate) async fn approve(&self, proposal: Proposal) -> Result<(), Denial> {
        match &self.approval {
            Some(approval) if !approval(proposal).await => Err(Denial::NotApproved),
            _ => Ok(()),
        }
    }

    fn shown(&self, amount: Amount) -> String {
        amount.to_decimal(self.decimals)
    }
}

/// Formats a fee as a decimal of the chain's coin.
fn coin(fee: Amount) -> String {
    fee.to_decimal(COIN_DECIMALS)
}

impl fmt::Debug for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Budget")
            .field("assets", &self.assets)
            .field("per_payment", &self.shown(self.per_payment))
            .field("per_host", &self.shown(self.per_host))
            .field("per_day", &self.shown(self.per_day))
            .field("per_deposit", &self.shown(self.per_deposit))
            .field("gas_per_payment", &coin(self.gas.per_payment))
            .field("gas_per_day", &coin(self.gas.per_day))
            .field("recipients", &self.recipients)
            .field("recipients_for", &self.recipients_for)
            .field("domains", &self.domains)
            .field("plain_http", &self.plain_http)
            .finish_non_exhaustive()
    }
}
