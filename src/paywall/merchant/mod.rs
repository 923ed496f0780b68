//! `Merchant`: the seller, and the layers that sell for it.

mod at_once;
pub(crate) mod builder;
pub(crate) mod chain;
mod claim_order;
mod claim_turn;
pub(crate) mod claimed;
pub(crate) mod claimer;
mod claiming;
mod debts;
mod discovery;
pub(crate) mod open_channels;
pub(crate) mod pass;
mod replay;
pub(crate) mod restored;
mod restored_channels;
#[cfg(feature = "mcp")]
mod tools;
mod unclaimed;
pub(crate) mod unredeemed;

use std::{future::Future, sync::Arc};

use bytes::Bytes;
use http::request::Parts;

use crate::{
    paywall::{
        error::{BuildError, HealthError},
        layer::X402Layer,
        seller::{
            catalog::Listed,
            inner::MerchantInner,
            pricing::{AsyncClosure, Price, PriceTag, Prices, Pricing},
            route::Route,
            text,
        },
    },
    protocol::{Address, Amount, Asset, Network},
};

/// A seller: the address that is paid, the network and the tokens, the verifier of payments and the ledger of sales.
///
/// It makes the [`X402Layer`]s of its routes. A clone is the same merchant.
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
    pub(super) inner: Arc<MerchantInner>,
}

impl Merchant {
    /// Returns a layer that charges a fixed price, such as `"0.49 USDC"`, for the resource of that name.
    ///
    /// The name is chosen by the seller, has 1 to 100 characters, and is never taken from a URL. Routes of one name sell the same
    /// thing.
    ///
    /// # Errors
    /// [`BuildError`] for an invalid price or name, and for a name that has another price already.
    pub fn charge(&self, resource: &str, price: impl Into<PriceTag>) -> Result<X402Layer, BuildError> {
        let amount = self.amount(price)?;
        self.layer(resource, Prices::Fixed(amount))
    }

    /// Returns a layer that charges what the handler says, up to a maximum such as `"0.10 USDC"`, for the resource of that name.
    ///
    /// The payer allows the maximum by a signature (the scheme `upto` of the x402 standard); the handler puts a
    /// [`Charge`](crate::Charge) into its response, and only that is settled. It needs a settler that takes such permits. Transfers and
    /// payments of fixed amounts are not offered, unless the layer says [`or_fixed`](X402Layer::or_fixed). See the guide
    /// [`metered`](crate::guide::metered).
    ///
    /// # Errors
    /// As [`charge`](Self::charge).
    pub fn charge_up_to(&self, resource: &str, maximum: impl Into<PriceTag>) -> Result<X402Layer, BuildError> {
        let maximum = self.amount(maximum)?;
        self.layer(resource, Prices::UpTo(maximum))
    }

    /// Returns a price such as `"0.05 USDC"` in base units of the merchant's tokens, for the closures and types that compute prices. By this
    /// way, no program has to know how many decimals the tokens have.
    ///
    /// # Errors
    /// [`BuildError`] for a price that cannot be read, names another currency or has more digits than the tokens.
    pub fn amount(&self, price: impl Into<PriceTag>) -> Result<Amount, BuildError> {
        price.into().amount(self.inner.decimals(), self.inner.symbol())
    }

    /// Returns a layer with a closure that computes the price from the request's head and body.
    ///
    /// The closure runs for the quote and again for each redemption; see [`Pricing`] for the details. An intent that was quoted at
    /// less than the present price is honoured only for the request that was quoted: the same method, path, query, content type
    /// and encoding, and body. The price may depend on these and on the headers listed with
    /// [`bind_headers`](X402Layer::bind_headers), and on nothing else of the request.
    ///
    /// The closure sees the body as it was sent. A body whose type is JSON is empty or JSON in UTF-8 here, and neither it nor a form is
    /// compressed: other requests are refused. Bodies of other types may be compressed, and a price by length counts their bytes as sent.
    ///
    /// ```
    /// # use tower_x402::{BuildError, Merchant, X402Layer};
    /// use tower_x402::Price;
    ///
    /// # fn layer(merchant: &Merchant) -> Result<X402Layer, BuildError> {
    /// // One cent for each kilobyte or part of it.
    /// let cent = merchant.amount("0.01 USDC")?;
    /// merchant.price_with("summary", move |_head, body| match body.len() {
    ///     0 => Price::Free,
    ///     bytes => Price::Charge(cent.times(bytes.div_ceil(1024) as u64)),
    /// })
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`BuildError`] for an invalid name, and for a name that is taken: clone the layer to use it for several routes.
    pub fn price_with(
        &self,
        resource: &str,
        price: impl Fn(&Parts, &Bytes) -> Price + Send + Sync + 'static,
    ) -> Result<X402Layer, BuildError> {
        self.layer(resource, Prices::Now(Arc::new(price)))
    }

    /// Returns a layer as [`price_with`](Self::price_with) does, for an async closure.
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

    /// Returns a layer as [`price_with`](Self::price_with) does, for a type that implements [`Pricing`].
    ///
    /// # Errors
    /// As [`price_with`](Self::price_with).
    pub fn price_by(&self, resource: &str, pricing: impl Pricing) -> Result<X402Layer, BuildError> {
        self.layer(resource, Prices::Later(Arc::new(pricing)))
    }

    fn layer(&self, resource: &str, prices: Prices) -> Result<X402Layer, BuildError> {
        text::check("a resource", resource)?;
        let resource = Arc::from(resource);
        let listing = self.inner.catalog.enter(&resource, Listed::of(&prices))?;
        Ok(X402Layer::new(Route::new(Arc::clone(&self.inner), resource, listing, prices)))
    }

    pub(crate) fn inner(&self) -> &Arc<MerchantInner> {
        &self.inner
    }

    /// Returns the address that is paid.
    #[must_use]
    pub fn recipient(&self) -> Address {
        self.inner.recipient()
    }

    /// Returns the network that the header `Pay` of its quotes names: the first of its [`networks`](Self::networks).
    #[must_use]
    pub fn network(&self) -> Network {
        self.inner.first().network
    }

    /// Returns all networks on which it is paid, in the order in which quotes name them.
    pub fn networks(&self) -> impl Iterator<Item = Network> {
        self.inner.chains.iter().map(|chain| chain.network)
    }

    /// Returns the tokens that quotes name on the first network. The first one is the currency of prices.
    #[must_use]
    pub fn assets(&self) -> &[Asset] {
        &self.inner.first().assets
    }

    /// Checks that sales can be made right now, on all networks: that the verifiers answer, and that the ledger can be written to. With
    /// channels, it also fails while a payer who withdraws could take back what was sold.
    ///
    /// It starts a merchant that [has not started yet](crate::MerchantBuilder::start_lazily).
    ///
    /// # Errors
    /// [`HealthError`] names the backend that does not answer. With several networks, that is the first one that cannot sell: the others
    /// may.
    pub async fn health(&self) -> Result<(), HealthError> {
        let inner = &self.inner;
        let mut failed = Ok(());
        // Every chain is checked: one that has not started starts, whatever the others do.
        for chain in inner.chains.iter() {
            let health = chain.health().await.map_err(|error| inner.of_network(chain.network, error));
            failed = failed.and(health);
        }
        failed?;
        inner.ledger.health().await?;
        self.claimer().health().await
    }
}
