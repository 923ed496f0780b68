//! The page as a `QuotePage`, and short setters for a route and for a merchant.

use bytes::Bytes;
use http::{HeaderValue, Response, header, request::Parts};

use super::{
    data, document, qr,
    settings::{Needs, Page, READERS},
    text::Text,
};
use crate::{
    MerchantBuilder, Offer, QuotePage, Redelivery, X402Layer,
    protocol::{ProblemCode, Redemption},
};

impl QuotePage for Page {
    fn quote(&self, head: &Parts, offer: &Offer) -> Option<Response<Bytes>> {
        let needs = Needs { passes: data::has_passes(offer), readers: !offer.answers_json };
        Some(self.sent(document::quote(self, self.script(needs), head, offer), needs))
    }

    fn refusal(&self, head: &Parts, shown: Option<&Redemption>, problem: &Response<Bytes>) -> Option<Response<Bytes>> {
        // This page has no script.
        let needs = Needs { passes: false, readers: false };
        Some(self.sent(document::refusal(self, head, shown, problem), needs))
    }

    fn detail(&self, head: &Parts, code: ProblemCode) -> Option<String> {
        // The script asks again by itself after these.
        let text = match code {
            ProblemCode::TxNotConfirmed => Text::Waiting,
            ProblemCode::RedemptionInProgress => Text::BeingServed,
            _ => Text::of_error(code.as_str())?,
        };
        Some(self.words(self.language(&head.headers), text).to_owned())
    }

    fn part(&self, name: &str, url: &str) -> Option<Response<Bytes>> {
        match name {
            "readers" => Some(part("text/javascript; charset=utf-8", READERS)),
            // The page's own address: a phone opens the page there, next to its wallet.
            "code" => Some(part("image/bmp", qr::bitmap(url)?)),
            _ => None,
        }
    }

    fn redelivery(&self) -> Option<Redelivery> {
        Some(Redelivery::default())
    }
}

/// Returns a part that the script requests, with this media type.
fn part(media_type: &'static str, content: impl Into<Bytes>) -> Response<Bytes> {
    let mut response = Response::new(content.into());
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

impl X402Layer {
    /// Answers browsers with this page instead of the quote's JSON, as [`quote_page`](Self::quote_page) does.
    ///
    /// Answers are then kept for fifteen minutes, because a browser loses them easily, unless
    /// [`redeliver`](Self::redeliver) is called: a [`Redelivery::lasting`] of zero keeps none.
    pub fn page(self, page: Page) -> Self {
        self.quote_page(page)
    }
}

impl MerchantBuilder {
    /// Sets this page for all routes, as [`quote_page`](Self::quote_page) does. Answers are kept as
    /// [`X402Layer::page`] says.
    pub fn page(self, page: Page) -> Self {
        self.quote_page(page)
    }
}
