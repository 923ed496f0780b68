//! The page as the hook's implementation, and the short way to set it on a route or on a merchant.

use bytes::Bytes;
use http::{Response, request::Parts};

use super::{data, document, settings::Page};
use crate::{MerchantBuilder, Offer, QuotePage, Redelivery, X402Layer, protocol::Redemption};

impl QuotePage for Page {
    fn quote(&self, head: &Parts, offer: &Offer) -> Option<Response<Bytes>> {
        let script = self.script(data::has_passes(offer));
        Some(self.sent(document::quote(self, script, head, offer), script))
    }

    fn refusal(&self, head: &Parts, shown: Option<&Redemption>, problem: &Response<Bytes>) -> Option<Response<Bytes>> {
        Some(self.sent(document::refusal(self, head, shown, problem), self.script(false)))
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
