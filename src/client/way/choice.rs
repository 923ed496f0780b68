//! Chooses among a bill's ways to pay: those that the budget and the payer allow, cheapest first.

mod domains;

use self::domains::{Domains, SIGNS_NONE};
use crate::{
    client::{
        Denial, Failure, PayerError, PaymentMethod, Standard,
        dialect::{AuthorizationTerms, Bill, ChannelTerms, PermitTerms, TransferTerms},
        flow,
        http::RequestIdentity,
        inner::ClientInner,
        way::{
            channel::plan::{ChannelPlan, plan},
            permit,
        },
    },
    protocol::{Amount, Asset, Quote, TokenDomain},
};

/// A way to pay that the budget and the payer allow.
pub(crate) enum Way<'a> {
    Transfer(&'a TransferTerms, Vec<Asset>),
    Authorization(&'a AuthorizationTerms, Asset, TokenDomain),
    Permit(&'a PermitTerms, Asset),
    Channel(&'a ChannelTerms, Asset, ChannelPlan),
}

impl Way<'_> {
    /// Returns the quote that is paid.
    pub(crate) const fn quote(&self) -> &Quote {
        match self {
            Self::Transfer(terms, _) => &terms.quote,
            Self::Authorization(terms, ..) => &terms.quote,
            Self::Permit(terms, _) => &terms.quote,
            Self::Channel(terms, ..) => &terms.quote,
        }
    }

    /// Returns what counts against the budget: the price, or the deposit.
    pub(crate) fn spends(&self) -> Amount {
        match self {
            Self::Channel(_, _, plan) => plan.deposited(),
            way => way.quote().amount,
        }
    }
}

/// The request's circumstances that matter for the choice.
#[derive(Clone, Copy)]
pub(crate) struct Asking<'a> {
    pub(crate) inner: &'a ClientInner,
    pub(crate) identity: &'a RequestIdentity,
    pub(crate) plain_http: bool,
    /// The most that the request may cost.
    pub(crate) max_price: Option<Amount>,
    /// Whether it has the caller's own `Authorization`.
    pub(crate) is_authorized: bool,
}

impl Asking<'_> {
    /// Returns the assets in which the request's limit and the budget allow a quote to be paid.
    pub(crate) fn admit(&self, quote: &Quote) -> Result<Vec<Asset>, Denial> {
        if let Some(limit) = self.max_price.filter(|limit| quote.amount > *limit) {
            let shown = |amount: Amount| amount.to_decimal(quote.decimals);
            return Err(Denial::MaxPrice { price: shown(quote.amount), limit: shown(limit) });
        }
        self.inner.budget.admit(&flow::Offer {
            quote,
            host: &self.identity.host,
            plain_http: self.plain_http,
            now: self.inner.now(),
            least_time: self.inner.settings.least_time_to_pay,
        })
    }

    /// Chooses the cheapest way for which the payer has the money. Among equal prices, one that may cost less comes
    /// first, then the preferred method, then the order of the layer's standards, then the seller's order.
    ///
    /// # Errors
    /// Why the first way was not taken, if none is. A missing allowance for Permit2 takes precedence, because the payer
    /// can make it.
    pub(crate) async fn choose<'b>(&self, bill: &'b Bill) -> Result<Way<'b>, Failure> {
        // Earlier payments can still be redeemed there.
        if self.inner.registry.distrusts(&self.identity.host, &self.inner.budget) {
            return Err(Denial::Mischarged.into());
        }
        let mut refusal = None;
        let mut offers = self.admitted(bill, &mut refusal);
        let settings = &self.inner.settings;
        // All admitted quotes have the budget's decimals, so their amounts are comparable.
        offers.sort_by_key(|(offer, _)| {
            let place = settings.standards.iter().position(|standard| Some(*standard) == offer.standard());
            (offer.quote().amount, !offer.is_metered(), offer.rank(settings.prefer), place)
        });
        let mut domains = Domains::new(&*self.inner.payer);
        let last = offers.len().saturating_sub(1);
        for (index, (offer, assets)) in offers.into_iter().enumerate() {
            let way = match offer {
                // Preparing a transfer checks the balance as well, so the last way needs no check.
                Offer::Transfer(terms) if index == last => Ok(Way::Transfer(terms, assets)),
                Offer::Transfer(terms) => self.affordable(terms, assets).await,
                Offer::Authorization(terms) => authorized(terms, assets, &mut domains).await,
                Offer::Permit(terms) => self.permitted(terms, assets).await,
                Offer::Channel(terms) => self.vouched(terms, assets).await,
            };
            match way {
                Ok(way) => return Ok(way),
                Err(error @ Failure::Payer(PayerError::Allowance(_))) => refusal = Some(error),
                Err(error) => {
                    refusal.get_or_insert(error);
                }
            }
        }
        Err(refusal.unwrap_or_else(|| SIGNS_NONE.into()))
    }

    /// Returns the offers that the budget allows, with the permitted assets of each.
    fn admitted<'b>(&self, bill: &'b Bill, refusal: &mut Option<Failure>) -> Vec<(Offer<'b>, Vec<Asset>)> {
        let transfers = bill.transfers.iter().map(Offer::Transfer);
        let authorizations = bill.authorizations.iter().map(Offer::Authorization);
        let (permits, channels) = (bill.permits.iter().map(Offer::Permit), bill.channels.iter().map(Offer::Channel));
        let offers = transfers.chain(authorizations).chain(permits).chain(channels);
        let admitted = offers.filter_map(|offer| match self.offered(offer) {
            Ok(assets) => Some((offer, assets)),
            Err(error) => {
                refusal.get_or_insert(error);
                None
            }
        });
        admitted.collect()
    }

    /// Returns the permitted assets of an offer that fits the layer's settings and the request.
    fn offered(&self, offer: Offer<'_>) -> Result<Vec<Asset>, Failure> {
        if offer.standard().is_some_and(|standard| !self.inner.settings.standards.contains(&standard)) {
            return Err(OTHER_STANDARD.into());
        }
        if matches!(offer, Offer::Channel(_)) && self.inner.settings.prefer != PaymentMethod::Channel {
            return Err(NO_CHANNELS.into());
        }
        let assets = self.admit(offer.quote())?;
        match offer {
            Offer::Authorization(terms) if self.is_authorized && terms.is_shown_in_authorization() => {
                Err(Failure::AuthorizationTaken { left: None })
            }
            _ => Ok(assets),
        }
    }

    /// Returns the transfer, in the assets of which the payer has enough.
    async fn affordable<'b>(&self, terms: &'b TransferTerms, assets: Vec<Asset>) -> Result<Way<'b>, Failure> {
        let mut held = Vec::new();
        for asset in assets {
            if self.inner.payer.can_transfer(&asset, terms.quote.amount).await? {
                held.push(asset);
            }
        }
        if held.is_empty() { Err(HOLDS_TOO_LITTLE.into()) } else { Ok(Way::Transfer(terms, held)) }
    }

    /// Returns a channel that covers the price or can be topped up.
    async fn vouched<'b>(&self, terms: &'b ChannelTerms, assets: Vec<Asset>) -> Result<Way<'b>, Failure> {
        let asset = assets.into_iter().next().ok_or(Denial::Asset)?;
        // Boxed, so that the other ways do not carry its state.
        let plan = Box::pin(plan(self.inner, self.identity, terms, &asset)).await?;
        Ok(Way::Channel(terms, asset, plan))
    }

    /// Returns the permit, if the account has this amount and allows Permit2 to move it. Nothing is signed.
    async fn permitted<'b>(&self, terms: &'b PermitTerms, assets: Vec<Asset>) -> Result<Way<'b>, Failure> {
        let asset = assets.into_iter().next().ok_or(Denial::Asset)?;
        permit::covers(self.inner, &asset, terms.quote.amount).await?;
        Ok(Way::Permit(terms, asset))
    }
}

/// One way to pay that a bill names.
#[derive(Clone, Copy)]
enum Offer<'a> {
    Transfer(&'a TransferTerms),
    Authorization(&'a AuthorizationTerms),
    Permit(&'a PermitTerms),
    Channel(&'a ChannelTerms),
}

impl Offer<'_> {
    const fn quote(&self) -> &Quote {
        match self {
            Self::Transfer(terms) => &terms.quote,
            Self::Authorization(terms) => &terms.quote,
            Self::Permit(terms) => &terms.quote,
            Self::Channel(terms) => &terms.quote,
        }
    }

    /// Returns whether it may cost less than its amount.
    const fn is_metered(&self) -> bool {
        match self {
            Self::Permit(terms) => terms.facilitator().is_some(),
            // The seller may charge less than the voucher adds.
            Self::Channel(_) => true,
            Self::Transfer(_) | Self::Authorization(_) => false,
        }
    }

    /// Returns its rank among offers of one price: the preferred method, then those without gas for the payer, then
    /// transfers.
    fn rank(&self, preferred: PaymentMethod) -> u8 {
        match self.method() {
            method if method == preferred => 0,
            PaymentMethod::Authorization => 1,
            PaymentMethod::Permit => 2,
            PaymentMethod::Channel => 3,
            PaymentMethod::Transfer => 4,
        }
    }

    const fn standard(&self) -> Option<Standard> {
        match self {
            Self::Transfer(_) => None,
            Self::Authorization(terms) => Some(terms.standard()),
            Self::Permit(_) | Self::Channel(_) => Some(Standard::X402),
        }
    }

    const fn method(&self) -> PaymentMethod {
        match self {
            Self::Transfer(_) => PaymentMethod::Transfer,
            Self::Authorization(_) => PaymentMethod::Authorization,
            Self::Permit(_) => PaymentMethod::Permit,
            Self::Channel(_) => PaymentMethod::Channel,
        }
    }
}

/// Returns the authorization, if the payer would sign it. Nothing is signed.
async fn authorized<'b>(
    terms: &'b AuthorizationTerms,
    assets: Vec<Asset>,
    domains: &mut Domains<'_>,
) -> Result<Way<'b>, Failure> {
    let asset = assets.into_iter().next().ok_or(Denial::Asset)?;
    let domain = domains.under(&asset, terms).await?;
    Ok(Way::Authorization(terms, asset, domain))
}

const OTHER_STANDARD: PayerError =
    PayerError::Refused("the layer's `standards` leave out the one in which the seller asks for an authorization");
const NO_CHANNELS: PayerError = PayerError::Refused(
    "the seller takes payment channels, and the layer opens none: `prefer(PaymentMethod::Channel)` lets it",
);
const HOLDS_TOO_LITTLE: PayerError =
    PayerError::Refused("the payer has too little of the accepted tokens, or nothing to pay the network's fee with");

impl From<PayerError> for Failure {
    fn from(error: PayerError) -> Self {
        Self::Payer(error)
    }
}
