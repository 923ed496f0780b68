//! Which of the ways to pay that a bill names is taken: what the budget and the payer allow, the cheaper one first.

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

    /// What it takes of the budget: the price, or what is deposited.
    pub(crate) fn spends(&self) -> Amount {
        match self {
            Self::Channel(_, _, plan) => plan.deposited(),
            way => way.quote().amount,
        }
    }
}

/// The request: where it goes, and whether it goes there in the open.
#[derive(Clone, Copy)]
pub(crate) struct Asking<'a> {
    pub(crate) inner: &'a ClientInner,
    pub(crate) identity: &'a RequestIdentity,
    pub(crate) plain_http: bool,
    /// The most that the request may cost.
    pub(crate) max_price: Option<Amount>,
    /// Whether it has an `Authorization` of its own.
    pub(crate) is_authorized: bool,
}

impl Asking<'_> {
    /// The budget's decision about a quote: the permitted ways to pay.
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

    /// Chooses a way: the cheapest that the payer has the money for; of equal ones that which may cost less, then the preferred method, in the
    /// seller's order.
    ///
    /// # Errors
    /// Why the first one is not taken, where none is; a missing allowance for Permit2 before all else, which the payer can make.
    pub(crate) async fn choose<'b>(&self, bill: &'b Bill) -> Result<Way<'b>, Failure> {
        // What was paid before is still redeemed there.
        if self.inner.registry.distrusts(&self.identity.host, &self.inner.budget) {
            return Err(Denial::Mischarged.into());
        }
        let mut refusal = None;
        let mut offers = self.admitted(bill, &mut refusal);
        let settings = &self.inner.settings;
        // What the budget admits has its decimals: the amounts are prices in one unit.
        offers.sort_by_key(|(offer, _)| {
            let place = settings.standards.iter().position(|standard| Some(*standard) == offer.standard());
            (offer.quote().amount, !offer.is_metered(), offer.rank(settings.prefer), place)
        });
        let mut domains = Domains::new(&*self.inner.payer);
        let last = offers.len().saturating_sub(1);
        for (index, (offer, assets)) in offers.into_iter().enumerate() {
            let way = match offer {
                // Preparing a transfer asks the same, so the last way is taken without a question.
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

    /// The offers that the budget allows, with the permitted assets of each.
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

    /// The permitted assets of an offer that the layer and the request leave room for.
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

    /// The transfer, in those of the assets that the payer has enough of.
    async fn affordable<'b>(&self, terms: &'b TransferTerms, assets: Vec<Asset>) -> Result<Way<'b>, Failure> {
        let mut held = Vec::new();
        for asset in assets {
            if self.inner.payer.can_transfer(&asset, terms.quote.amount).await? {
                held.push(asset);
            }
        }
        if held.is_empty() { Err(HOLDS_TOO_LITTLE.into()) } else { Ok(Way::Transfer(terms, held)) }
    }

    /// A channel that covers the price, or can be topped up.
    async fn vouched<'b>(&self, terms: &'b ChannelTerms, assets: Vec<Asset>) -> Result<Way<'b>, Failure> {
        let asset = assets.into_iter().next().ok_or(Denial::Asset)?;
        // Boxed, so that the other ways do not carry its state.
        let plan = Box::pin(plan(self.inner, self.identity, terms, &asset)).await?;
        Ok(Way::Channel(terms, asset, plan))
    }

    /// The permit, if the account has so much, and allows Permit2 to move it. Nothing is signed.
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

    /// Whether it may cost less than its amount.
    const fn is_metered(&self) -> bool {
        match self {
            Self::Permit(terms) => terms.facilitator().is_some(),
            // The seller charges what the answer costs.
            Self::Channel(_) => true,
            Self::Transfer(_) | Self::Authorization(_) => false,
        }
    }

    /// Its place among offers of one price: the preferred method, then what costs the payer no gas, then transfers.
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

/// The authorization, if the payer would sign it. Nothing is signed.
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
