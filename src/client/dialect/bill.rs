//! `Bill`: what a 402 asks for, in every dialect that is understood.

use bytes::Bytes;
use http::{HeaderMap, Response};
use http_body::Body;

use crate::{
    client::{
        Budget, Failure, JournalEntry, ResponseBody,
        dialect::{AuthorizationTerms, ChannelTerms, PermitTerms, SignedTerms, TransferTerms, echo::Demanded},
        http::Peek,
    },
    protocol::{
        ChainTime, Media, Quote, QuoteError,
        headers::{PAY, PAYMENT_REQUIRED},
        mpp, v1,
        v2::PaymentRequired,
    },
};

/// The longest `PAYMENT-REQUIRED` that is read. Official servers describe their whole interface in it.
const HEADER_MAX: usize = 64 * 1024;

/// The longest body that is read: a 402 of x402 version 1 has everything in its body. A longer one is no demand.
const BODY_MAX: usize = 64 * 1024;

/// What a 402 asks for.
#[derive(Debug, Default)]
pub(crate) struct Bill {
    /// Ordinary transfers, one for each network; the one of `Pay` comes first.
    pub(crate) transfers: Vec<TransferTerms>,
    /// Offers to pay by authorization: x402 before MPP, and in x402 those that settle after the answer first.
    pub(crate) authorizations: Vec<AuthorizationTerms>,
    /// Offers to pay by permit.
    pub(crate) permits: Vec<PermitTerms>,
    /// Offers to pay by voucher.
    pub(crate) channels: Vec<ChannelTerms>,
}

impl Bill {
    /// Reads a 402; returns the response with the bill, or without one if all its demands are unknown.
    ///
    /// # Errors
    /// [`Failure::Quote`] if every demand is malformed, [`PayErrorKind::Http`] if the body breaks off.
    pub(crate) async fn read<B>(
        response: Response<B>,
        budget: &Budget,
        now: ChainTime,
    ) -> Result<(Option<Self>, Response<ResponseBody<B>>), Failure>
    where
        B: Body<Data = Bytes>,
    {
        let headers = response.headers();
        let said = Self::of_headers(headers, budget, now);
        let is_all = headers.contains_key(PAY) || headers.contains_key(PAYMENT_REQUIRED);
        if is_all || Media::of(headers) != Media::Json {
            return Ok((Some(said?).filter(|bill| !bill.is_empty()), response.map(ResponseBody::untouched)));
        }
        let (parts, body) = response.into_parts();
        let mut beginning = Peek::of(body);
        let broke_off = |_| Failure::Http("the answer broke off".into());
        beginning.read(BODY_MAX).await.map_err(broke_off)?;
        let demands = beginning.whole().map_or(Ok(None), v1::demands).map_err(|_| QuoteError::malformed("402 body"));
        let bill = Self::of_v1(demands, said, budget, now)?;
        Ok((Some(bill).filter(|bill| !bill.is_empty()), Response::from_parts(parts, beginning.into_body())))
    }

    /// Puts the demands of an x402 version 1 body before those of the headers. If one of the two is malformed, the
    /// other counts.
    fn of_v1(
        demands: Result<Option<Vec<v1::Demand>>, QuoteError>,
        said: Result<Self, QuoteError>,
        budget: &Budget,
        now: ChainTime,
    ) -> Result<Self, QuoteError> {
        let (mut bill, mut malformed) = said.map_or_else(|error| (Self::default(), Some(error)), |bill| (bill, None));
        let demands = demands.unwrap_or_else(|error| {
            malformed = Some(error);
            None
        });
        let terms = demands.into_iter().flatten();
        let terms = terms.filter_map(|demand| AuthorizationTerms::of_v1(demand, budget, now));
        bill.authorizations.splice(0..0, terms);
        malformed.filter(|_| bill.is_empty()).map_or(Ok(bill), Err)
    }

    /// Reads the demands of the headers. If one dialect is malformed, the others count.
    ///
    /// # Errors
    /// [`QuoteError`] of a malformed dialect, if there is no other offer.
    pub(crate) fn of_headers(headers: &HeaderMap, budget: &Budget, now: ChainTime) -> Result<Self, QuoteError> {
        let mut bill = Self::default();
        let mut malformed = None;
        let required = PaymentRequired::from_headers_up_to(HEADER_MAX, headers).unwrap_or_else(|_| {
            malformed = Some(QuoteError::malformed("PAYMENT-REQUIRED"));
            None
        });
        if headers.contains_key(PAY) {
            match Quote::from_headers(headers) {
                Ok(first) => bill.transfers = TransferTerms::of(first, required.as_ref(), budget),
                Err(error) => malformed = Some(error),
            }
        }
        let is_named = required.as_ref().is_some_and(|required| required.extensions.takes_purchase_name());
        if let Some(required) = required {
            let demanded = Demanded::of(headers, required);
            bill.authorizations = AuthorizationTerms::of(&demanded, budget, now);
            bill.permits = PermitTerms::of(&demanded, budget, now);
            bill.channels = ChannelTerms::of(&demanded, budget, now);
        }
        let (demands, is_malformed) = mpp::Demand::of_headers(headers);
        if is_malformed {
            malformed.get_or_insert(QuoteError::malformed("WWW-Authenticate"));
        }
        let intent = bill.transfers.first().map(|terms| &terms.quote.intent);
        let terms = |demand| AuthorizationTerms::of_mpp(demand, is_named, intent, budget, now);
        bill.authorizations.extend(demands.into_iter().map(terms));
        malformed.filter(|_| bill.is_empty()).map_or(Ok(bill), Err)
    }

    fn is_empty(&self) -> bool {
        self.transfers.is_empty()
            && self.authorizations.is_empty()
            && self.permits.is_empty()
            && self.channels.is_empty()
    }

    /// Returns all offers, one for each way to pay; transfers come first.
    pub(crate) fn quotes(&self) -> impl Iterator<Item = &Quote> {
        let authorizations = self.authorizations.iter().map(|terms| &terms.quote);
        let permits = self.permits.iter().map(|terms| &terms.quote);
        let channels = self.channels.iter().map(|terms| &terms.quote);
        self.transfers.iter().map(|terms| &terms.quote).chain(authorizations).chain(permits).chain(channels)
    }

    /// Returns the terms under which this purchase's signature still pays.
    pub(crate) fn terms_for(&self, entry: &JournalEntry) -> Option<SignedTerms<'_>> {
        let authorization = self.authorizations.iter().find(|terms| terms.take(entry)).map(SignedTerms::Authorization);
        let permit = || self.permits.iter().find(|terms| terms.take(entry)).map(SignedTerms::Permit);
        let channel = || self.channels.iter().find(|terms| terms.take(entry)).map(SignedTerms::Channel);
        authorization.or_else(permit).or_else(channel)
    }

    /// Returns the offer for this purchase, if the payment covers it.
    pub(crate) fn covered_by(&self, entry: &JournalEntry) -> Option<&Quote> {
        if let Some(terms) = self.terms_for(entry) {
            return Some(terms.quote());
        }
        self.transfer_of(entry).map(|terms| &terms.quote)
    }

    /// Returns the terms that this purchase's transaction meets.
    pub(crate) fn transfer_of(&self, entry: &JournalEntry) -> Option<&TransferTerms> {
        self.transfers.iter().find(|terms| terms.are_covered_by(entry))
    }
}
