//! `BudgetBuilder`: sets the limits of a budget.

use std::{collections::HashMap, fmt, future::Future, sync::Arc};

use super::{Approval, Budget, Proposal};
use crate::{
    client::host,
    protocol::{Address, Amount, Asset},
};

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

impl Budget {
    /// A budget in these assets: tokens and chains at once.
    pub fn in_assets(assets: impl IntoIterator<Item = Asset>) -> BudgetBuilder {
        BudgetBuilder { assets: assets.into_iter().collect(), ..BudgetBuilder::default() }
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
