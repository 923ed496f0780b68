//! The page as the hook's implementation, and the short way to set it on a route or on a merchant.

use bytes::Bytes;
use http::{Response, request::Parts};

use super::{
    data, document,
    settings::{Needs, Page},
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
        // It has no script.
        let needs = Needs { passes: false, readers: false };
        Some(self.sent(document::refusal(self, head, shown, problem), needs))
    }

    fn detail(&self, head: &Parts, code: ProblemCode) -> Option<String> {
        Some(self.words(self.language(&head.headers), Text::of_error(code.as_str())?).to_owned())
    }

    fn redelivery(&self) -> Option<Redelivery> {
        Some(Redelivery::default())
    }
}

impl X402Layer {
    /// Answers browsers with this page instead of the quote's JSON, as [`quote_page`](Self::quote_page) does.
    ///
    /// Answers are then kept for fifteen minutes, because a browser loses them easily, unless
    /// [`redeliver`](Self::redeliver) says otherwise: [`Redelivery::lasting`] zero keeps none.
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
