//! `PassLayer`: the layer that shows passes.

use std::{fmt, path::Path};

use tower_layer::Layer;

use super::{
    address::Address,
    held::{HeldPass, PassError},
    offered::Wanted,
    purse::{Purse, SharedPurse},
    service::UsePass,
};
use crate::client::PurchaseId;

/// A client layer that shows a pass with each request to a shop, and buys one where it has none.
///
/// Put it outside a [`PayLayer`](crate::client::PayLayer), which pays for the passes, within its budget, and for each request that no pass
/// covers. Which passes are bought:
///
/// | | |
/// |---|---|
/// | [`buying`](Self::buying) | those of an address that you know |
/// | [`expecting`](Self::expecting) | those that a seller's quote names, where that many calls cost less with them |
/// | [`preferring`](Self::preferring) | those of a name, where a seller's quote names them |
///
/// A pass is bought before the first request to an origin, and again once it is over. Buying follows these rules:
///
/// - An origin has one pass at a time, and one purchase at a time, whichever address its quotes name. A purchase that was interrupted is
///   finished before another one begins: the seller answers with the same pass. While its payment is open, no other pass is bought there. A
///   later process knows of it by the [file](Self::kept_in).
/// - A pass that a quote names is bought by a new quote each time, and costs no more than that says. What was paid for before is fetched first,
///   whatever a later quote says, the budget has left, and the request allows: for 30 days, as long as sellers keep it. No other request uses
///   that payment.
/// - The request's [`MaxPrice`](crate::client::MaxPrice) holds for its pass and its answer together. Its
///   [`Deadline`](crate::client::Deadline) covers quote, pass and answer together. Where they stand in the way, other requests still buy one.
/// - After an attempt that failed, none is bought for a minute, and requests go on without one.
/// - After a payment that bought nothing of use, none is bought at that origin for a day: the seller refused the payment for good, or sold what is
///   no pass, is over by this machine's clock, or ends after calls of which none was answered. While its first calls are under way, no other is
///   bought. The same holds for a pass of a quote that ends before the time that the quote named, after fewer answers than half of what its
///   price would have bought singly; by [`expecting`](Self::expecting), which is to save money, for one that ends at any time after fewer
///   answers than all of that. Calls that are under way when it ends count as answered until they end, too. A pass of an amount that was charged
///   on several routes is not judged by that.
/// - A page of some proxy in place of a pass bars none: the payment, if there is one, stays good for the pass. What was paid for is fetched also
///   while nothing new is bought. A new pass closes its purchase, with a word about the payment or without.
/// - The purchase is closed once the pass is in memory and in its [file](Self::kept_in). Where the file cannot be written it stays open, so that a
///   later process gets the same pass.
///
/// The layer gives a pass up on its seller's clear words alone: nothing is left and no other call is under way, a quote says `used_up` or
/// `expired`, or it is refused where it was taken before, and again after ten minutes or more without an answer by it. "Where" is a route: a
/// method and a path. Once a call ended without an answer, in this process or perhaps in an earlier one, what is left may come back: then
/// only a refusal or a quote ends the pass. Where it is refused otherwise, or the route asks for money without a word about the pass, the
/// request is sent again without it, and the pass is kept for other routes: on that route it is shown again after ten minutes. So is a pass of an amount at a price above what is left of it: it is over where
/// it does not cover the least that a call was charged, or fails twice on a route that it has covered. A request whose body can be sent once
/// gets the bill that ends a pass, and the next request buys another.
///
/// A request that was paid for and has no answer yet is finished by its payment. A pass that it shows, or that [`buying`](Self::buying) has bought
/// for it, stays as it is. A request with a payment of its own in a header is sent as it is. What is left may be held by other calls at the
/// same time (`pass_busy`): such a request waits, up to half a minute.
///
/// ```
/// # #[cfg(feature = "reqwest")]
/// # fn client(pay: tower_x402::client::PayLayer) -> Result<(), Box<dyn std::error::Error>> {
/// use tower::ServiceBuilder;
/// use tower_x402::client::{PassLayer, ReqwestClient};
///
/// let passes = PassLayer::new().buying("https://shop.example/pass")?;
/// let client = ServiceBuilder::new().layer(passes).layer(pay).service(ReqwestClient::new(reqwest::Client::builder())?);
/// # drop(client);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
#[must_use]
pub struct PassLayer {
    /// Locked to build it, and to write its file.
    purse: SharedPurse,
}

impl PassLayer {
    /// Creates a layer without passes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Buys passes at this address, for all requests to its origin.
    ///
    /// # Errors
    /// [`PassError::Url`] and [`PassError::ShopTwice`].
    pub fn buying(self, url: &str) -> Result<Self, PassError> {
        self.with(|purse| purse.add(Address::new(url, None)?))
    }

    /// Buys a pass that a quote names, if so many calls cost less with passes of its kind than at the quote's price: of several, the cheapest.
    ///
    /// For this, the first request to an address asks for the price alone, and is then sent again. Where it fails before the seller names a price,
    /// it is not sent again: it may have acted. A pass is bought at the origin of the request only. Call it before [`kept_in`](Self::kept_in).
    pub fn expecting(self, calls: u64) -> Self {
        self.purse.lock().wanted = Some(Wanted::Calls(calls));
        self
    }

    /// Buys the pass of this name where a quote names it, whatever single answers cost. Otherwise as [`expecting`](Self::expecting).
    pub fn preferring(self, name: &str) -> Self {
        self.purse.lock().wanted = Some(Wanted::Named(name.into()));
        self
    }

    /// Reads the passes in this file, if it is there, and keeps them in it from now on, readable by its owner alone on Unix. Call it after
    /// [`buying`](Self::buying), [`expecting`](Self::expecting) or [`preferring`](Self::preferring): without the latter two, passes of other
    /// addresses are dropped. One process uses the file at a time.
    ///
    /// # Errors
    /// [`PassError::File`] if it cannot be read or written, or is not such a file.
    pub fn kept_in(self, path: impl AsRef<Path>) -> Result<Self, PassError> {
        self.with(|purse| purse.keep_in(path.as_ref()))
    }

    /// Returns the passes that are held.
    #[must_use]
    pub fn passes(&self) -> Vec<HeldPass> {
        self.purse.lock().held()
    }

    /// Returns the purchases of passes since this layer was made. What they bought is kept, in the file if there is one: where the caller
    /// [acknowledges](crate::client::PayLayerBuilder::acknowledged_by_caller) purchases, it can close them.
    #[must_use]
    pub fn purchases(&self) -> Vec<PurchaseId> {
        self.purse.lock().bought.clone()
    }

    fn with(self, change: impl FnOnce(&mut Purse) -> Result<(), PassError>) -> Result<Self, PassError> {
        change(&mut self.purse.lock())?;
        Ok(self)
    }
}

impl<S> Layer<S> for PassLayer {
    type Service = UsePass<S>;

    fn layer(&self, service: S) -> UsePass<S> {
        UsePass::new(service, self.purse.clone())
    }
}

impl fmt::Debug for PassLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PassLayer").field("passes", &self.passes()).finish()
    }
}
