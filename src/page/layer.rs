//! The short way to set a page on a route or on a merchant.

use super::settings::Page;
use crate::{MerchantBuilder, X402Layer};

impl X402Layer {
    /// Answers browsers with this page instead of the quote's JSON, as [`quote_page`](Self::quote_page) does.
    pub fn page(self, page: Page) -> Self {
        self.quote_page(page)
    }
}

impl MerchantBuilder {
    /// Sets this page for all routes, as [`quote_page`](Self::quote_page) does.
    pub fn page(self, page: Page) -> Self {
        self.quote_page(page)
    }
}
