//! `Merchant`: who is paid, on which chain, in which tokens, and what remembers it.

mod builder;
mod catalog;
mod inner;
mod start;

use std::{future::Future, sync::Arc};

use bytes::Bytes;
use http::request::Parts;

pub use builder::MerchantBuilder;
pub(super) use catalog::Listing;
pub(super) use inner::MerchantInner;

use super::{
    error::{BuildError, HealthError},
    layer::X402Layer,
    pricing::{AsyncClosure, Price, PriceTag, Prices, Pricing},
    route::Route,
    text,
};
use crate::protocol::{Address, Amount, Asset, Network};

/// Who is paid, on which chain, in which tokens; what tells whether, and what remembers it. Makes the layers.
///
/// ```
/// # #[cfg(feature = "test-util")]
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// use tower_x402::{Merchant, ledger::MemoryLedger, protocol::{ChainTime, SealingKeys}, testing::ScriptedVerifier};
///
/// let merchant = Merchant::builder("0x70997970C51812dc3A010C7d01b50e0d17dc79C8".parse()?)
///     // In production: `EvmVerifier::connect([url]).await?`.
///     .verifier(ScriptedVerifier::new(ChainTime::from_unix(1_795_280_000)))
///     .ledger(MemoryLedger::new())
///     .sealing_keys(SealingKeys::random()?)
///     .build()
///     .await?;
/// let layer = merchant.charge("demand-insights", "0.49 USDC")?.label("Demand insights")?;
/// # let _ = layer;
/// // One name, one price.
/// assert!(merchant.charge("demand-insights", "0.50 USDC").is_err());
/// # Ok::<(), tower_x402::BuildError>(())
/// # }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Merchant {
    inner: Arc<MerchantInner>,
}

impl Merchant {
    /// A layer that charges a fixed price, such as `"0.49 USDC"`, for the resource of that name.
    ///
    /// The name is the seller's own, 1 to 100 characters, and never taken from a URL: routes that share one sell the same thing.
    ///
    /// # Errors
    /// [`BuildError`] for a price or name that cannot be, and for a name that has another price already.
    pub fn charge(&self, resource: &str, price: impl Into<PriceTag>) -> Result<X402Layer, BuildError> {
        let amount = price.into().amount(self.inner.decimals(), self.inner.symbol())?;
        self.layer(resource, Prices::Fixed(amount), Some(amount))
    }

    /// A layer whose price a closure tells from the request's head and body.
    ///
    /// It is asked when quoting and again for each redemption that is shown; see [`Pricing`] for when it runs. An intent quoted at less than the price is now honoured
    /// only for the request that was quoted, by method, path, query and body: a price may hang on these, and on the headers
    /// named by [`bind_headers`](X402Layer::bind_headers), and on nothing else of the request.
    ///
    /// # Errors
    /// [`BuildError`] for a name that cannot be, or that is taken: clone the layer to use it twice.
    pub fn price_with(
        &self,
        resource: &str,
        price: impl Fn(&Parts, &Bytes) -> Price + Send + Sync + 'static,
    ) -> Result<X402Layer, BuildError> {
        self.layer(resource, Prices::Now(Arc::new(price)), None)
    }

    /// As [`price_with`](Self::price_with), with an async closure.
    ///
    /// # Errors
    /// As [`price_with`](Self::price_with).
    pub fn price_with_async<F, Fut>(&self, resource: &str, price: F) -> Result<X402Layer, BuildError>
    where
        F: Fn(Parts, Bytes) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Price> + Send + 'static,
    {
        self.price_by(resource, AsyncClosure(price))
    }

    /// As [`price_with`](Self::price_with), with a [`Pricing`] of one's own.
    ///
    /// # Errors
    /// As [`price_with`](Self::price_with).
    pub fn price_by(&self, resource: &str, pricing: impl Pricing) -> Result<X402Layer, BuildError> {
        self.layer(resource, Prices::Later(Arc::new(pricing)), None)
    }

    fn layer(&self, resource: &str, prices: Prices, price: Option<Amount>) -> Result<X402Layer, BuildError> {
        text::check("a resource", resource)?;
        let resource = Arc::from(resource);
        let listing = self.inner.catalog.enter(&resource, price)?;
        Ok(X402Layer::new(Route::new(Arc::clone(&self.inner), resource, listing, prices)))
    }

    /// Who is paid.
    #[must_use]
    pub fn recipient(&self) -> Address {
        self.inner.recipient()
    }

    /// On which chain.
    #[must_use]
    pub fn network(&self) -> Network {
        self.inner.network
    }

    /// The tokens that quotes name, the first of which gives prices their currency.
    #[must_use]
    pub fn assets(&self) -> &[Asset] {
        &self.inner.assets
    }

    /// Whether sales can be made right now: the chain can be asked and the ledger written to. Where the merchant
    /// [has not started yet](MerchantBuilder::start_lazily), this starts it.
    ///
    /// # Errors
    /// [`HealthError`] names the one that does not answer.
    pub async fn health(&self) -> Result<(), HealthError> {
        self.inner.start.ensure().await?;
        self.inner.verifier.head().await?;
        self.inner.ledger.health().await?;
        Ok(())
    }
}
