//! Which of the ways to pay that a bill names is taken: what the budget and the payer allow, the cheaper one first.

mod domains;

use self::domains::{Domains, SIGNS_NONE};
use crate::{
    client::{
        BudgetDenial, PayError, PayerError, PaymentMethod,
        dialect::{AuthorizationTerms, Bill},
        flow::Offer,
        http::RequestIdentity,
        inner::ClientInner,
    },
    protocol::{Amount, Asset, Quote, TokenDomain},
};

/// A way to pay that the budget and the payer allow.
pub(crate) enum Way<'a> {
    Transfer(&'a Quote, Vec<Asset>),
    Authorization(&'a AuthorizationTerms, Asset, TokenDomain),
}

impl Way<'_> {
    /// Returns the quote that is paid.
    pub(crate) const fn quote(&self) -> &Quote {
        match self {
            Self::Transfer(quote, _) => quote,
            Self::Authorization(terms, ..) => &terms.quote,
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
}

impl Asking<'_> {
    /// The budget's decision about a quote: the permitted ways to pay.
    pub(crate) fn admit(&self, quote: &Quote) -> Result<Vec<Asset>, BudgetDenial> {
        if let Some(limit) = self.max_price.filter(|limit| quote.amount > *limit) {
            let shown = |amount: Amount| amount.to_decimal(quote.decimals);
            return Err(BudgetDenial::MaxPrice { price: shown(quote.amount), limit: shown(limit) });
        }
        self.inner.budget.admit(&Offer {
            quote,
            host: &self.identity.host,
            plain_http: self.plain_http,
            now: self.inner.now(),
            least_time: self.inner.settings.least_time_to_pay,
        })
    }

    /// Chooses a way.
    ///
    /// # Errors
    /// Why the first one is not taken, where none is.
    pub(crate) async fn choose<'b>(&self, bill: &'b Bill) -> Result<Way<'b>, PayError> {
        let mut refusal = None;
        let mut refused = |error: PayError| {
            refusal.get_or_insert(error);
        };
        let transfer = bill.transfer.as_ref().and_then(|quote| match self.admit(quote) {
            Ok(assets) => Some((quote, assets)),
            Err(denial) => {
                refused(denial.into());
                None
            }
        });
        let mut domains = Domains::new(&*self.inner.payer);
        for terms in &bill.authorizations {
            if transfer.as_ref().is_some_and(|(quote, _)| self.prefers_transfer(quote, &terms.quote)) {
                continue;
            }
            match self.authorized(terms, &mut domains).await {
                Ok((asset, domain)) => return Ok(Way::Authorization(terms, asset, domain)),
                Err(error) => refused(error),
            }
        }
        match (transfer, refusal) {
            (Some((quote, assets)), _) => Ok(Way::Transfer(quote, assets)),
            (None, Some(refusal)) => Err(refusal),
            (None, None) => Err(SIGNS_NONE.into()),
        }
    }

    /// Whether the transfer is the cheaper way, or as cheap and preferred.
    fn prefers_transfer(&self, transfer: &Quote, authorization: &Quote) -> bool {
        let prefers = self.inner.settings.prefer == PaymentMethod::Transfer;
        match (transfer.decimals == authorization.decimals, transfer.amount.cmp(&authorization.amount)) {
            (true, std::cmp::Ordering::Less) => true,
            (true, std::cmp::Ordering::Greater) => false,
            _ => prefers,
        }
    }

    /// Whether the budget and the payer allow these terms. Nothing is signed.
    async fn authorized(
        &self,
        terms: &AuthorizationTerms,
        domains: &mut Domains<'_>,
    ) -> Result<(Asset, TokenDomain), PayError> {
        let asset = self.admit(&terms.quote)?.into_iter().next().ok_or(BudgetDenial::Asset)?;
        let domain = domains.under(&asset, terms).await?;
        Ok((asset, domain))
    }
}

impl From<PayerError> for PayError {
    fn from(error: PayerError) -> Self {
        Self::Payer(error)
    }
}
