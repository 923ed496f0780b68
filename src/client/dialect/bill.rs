//! `Bill`: what a 402 asks for, in every dialect that is understood.

use bytes::Bytes;
use http::{HeaderMap, Response};
use http_body::Body;

use crate::{
    client::{Budget, JournalEntry, PayError, ResponseBody, dialect::AuthorizationTerms, http::Peek},
    protocol::{
        ChainTime, Media, Quote, QuoteError,
        headers::{PAY, PAYMENT_REQUIRED},
        v1,
    },
};

/// A 402 of the standard's first version says everything in its body; more than this is none.
const BODY_MAX: usize = 64 * 1024;

/// What a 402 asks for.
#[derive(Debug, Default)]
pub(crate) struct Bill {
    /// An ordinary transfer.
    pub(crate) transfer: Option<Quote>,
    /// A signed authorization, on one of these terms. Those that are settled after the answer come first.
    pub(crate) authorizations: Vec<AuthorizationTerms>,
}

impl Bill {
    /// Reads a 402; returns the response with the bill, or without one if all its demands are unknown.
    ///
    /// # Errors
    /// [`PayError::Quote`] where all that it asks is malformed, or [`PayError::Http`] where its body breaks off.
    pub(crate) async fn read<B>(
        response: Response<B>,
        budget: &Budget,
        now: ChainTime,
    ) -> Result<(Option<Self>, Response<ResponseBody<B>>), PayError>
    where
        B: Body<Data = Bytes>,
    {
        let headers = response.headers();
        if headers.contains_key(PAY) || headers.contains_key(PAYMENT_REQUIRED) {
            let bill = Self::of_headers(headers, budget, now)?;
            return Ok((Some(bill).filter(|bill| !bill.is_empty()), response.map(ResponseBody::untouched)));
        }
        if Media::of(headers) != Media::Json {
            return Ok((None, response.map(ResponseBody::untouched)));
        }
        let (parts, body) = response.into_parts();
        let mut beginning = Peek::of(body);
        let broke_off = |_| PayError::Http("the answer broke off".into());
        beginning.read(BODY_MAX).await.map_err(broke_off)?;
        let demands = beginning.whole().map_or(Ok(None), v1::demands).map_err(|_| QuoteError::Malformed("402 body"))?;
        let terms = demands.into_iter().flatten();
        let authorizations = terms.filter_map(|demand| AuthorizationTerms::of_v1(demand, budget, now)).collect();
        let bill = Self { transfer: None, authorizations };
        Ok((Some(bill).filter(|bill| !bill.is_empty()), Response::from_parts(parts, beginning.into_body())))
    }

    /// Reads what the headers ask for. Where one of the two dialects is malformed, the other counts.
    ///
    /// # Errors
    /// [`QuoteError`] of the one that is malformed, where there is no other.
    pub(crate) fn of_headers(headers: &HeaderMap, budget: &Budget, now: ChainTime) -> Result<Self, QuoteError> {
        let mut bill = Self::default();
        let mut malformed = None;
        if headers.contains_key(PAY) {
            bill.transfer = Quote::from_headers(headers).map_err(|error| malformed = Some(error)).ok();
        }
        match AuthorizationTerms::of_headers(headers, budget, now) {
            Ok(authorizations) => bill.authorizations = authorizations,
            Err(_) => malformed = malformed.or(Some(QuoteError::Malformed("PAYMENT-REQUIRED"))),
        }
        malformed.filter(|_| bill.is_empty()).map_or(Ok(bill), Err)
    }

    const fn is_empty(&self) -> bool {
        self.transfer.is_none() && self.authorizations.is_empty()
    }

    /// Returns the offers, one for each way to pay: the transfer first.
    pub(crate) fn quotes(&self) -> impl Iterator<Item = &Quote> {
        self.transfer.iter().chain(self.authorizations.iter().map(|terms| &terms.quote))
    }

    /// Returns the terms on which this purchase's authorization is still worth the same.
    pub(crate) fn terms_for(&self, entry: &JournalEntry) -> Option<&AuthorizationTerms> {
        self.authorizations.iter().find(|terms| terms.take(entry))
    }

    /// Returns the offer for this purchase, if the payment covers it.
    pub(crate) fn covered_by(&self, entry: &JournalEntry) -> Option<&Quote> {
        if let Some(terms) = self.terms_for(entry) {
            return Some(&terms.quote);
        }
        let redeemable = entry.authorization().is_none() || entry.transaction.is_some();
        self.transfer.as_ref().filter(|quote| redeemable && entry.covers(quote))
    }
}
