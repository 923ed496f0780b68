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

/// A client layer that shows a pass with each request to a shop, and buys one if it has none.
///
/// Put it outside a [`PayLayer`](crate::client::PayLayer), which pays for the passes within its budget, and for each
/// request that no pass covers. It buys these passes:
///
/// | | |
/// |---|---|
/// | [`buying`](Self::buying) | those of an address that you know |
/// | [`expecting`](Self::expecting) | those that a seller's quote names, if that many calls cost less with them |
/// | [`preferring`](Self::preferring) | those of a name, if a seller's quote names them |
///
/// It buys a pass before the first request to an origin, and again once the pass is over. Buying follows these rules:
///
/// - An origin has one pass at a time and one purchase at a time, whichever address its quotes name. An interrupted
///   purchase is finished before another one begins: the seller answers with the same pass. While its payment is open,
///   no other pass is bought there. A later process knows of it through the [file](Self::kept_in).
/// - A pass named by a quote is bought by a new quote each time, and costs no more than that quote says. A pass that
///   was already paid for is fetched first, whatever a later quote says, the budget has left, or the request allows:
///   for 30 days, as long as sellers keep it. No other request uses that payment.
/// - The request's [`MaxPrice`](crate::client::MaxPrice) limits its pass and its answer together. Its
///   [`Deadline`](crate::client::Deadline) covers quote, pass and answer together. If they prevent a purchase, other
///   requests may still buy.
/// - After a failed attempt, none is bought for a minute, and requests go on without one. An attempt counts as failed
///   if its caller left before it paid or found an earlier payment, or while it fetched a paid pass. It fetches for
///   half a minute at most.
/// - A request waits half a minute at most for another that buys a pass, and five seconds for one that fetches a paid
///   pass. Then it goes on without one. If it has a deadline, each of these takes at most half of the remaining time.
/// - After a payment that bought nothing useful, none is bought at that origin for a day. That is so if the seller
///   refused the payment for good, or sold something that is not a pass, has expired by this machine's clock, or ends
///   after calls none of which was answered. While its first calls are in progress, no other is bought. The same
///   applies to a pass of a quote that ends before the quoted time, after fewer answers than half of what its price
///   would have bought singly. With [`expecting`](Self::expecting), whose purpose is to save money, it applies to one
///   that ends at any time after fewer answers than all of that. Calls in progress when it ends count as answered until
///   they end. A pass of an amount that was charged on several routes is not judged by that.
/// - A seller may sell again a pass whose purchase an earlier process left open. Only the file tells whether the pass
///   was used there. Without a file, such a pass counts as useless if it has expired or is refused.
/// - A proxy's page in place of a pass blocks nothing: a payment, if there is one, remains usable for the pass. A paid
///   pass is fetched even while nothing new is bought. A new pass closes its purchase, with or without a confirmation
///   of the payment.
/// - The purchase is closed once the pass is in memory and in its [file](Self::kept_in). If the file cannot be written,
///   the purchase stays open, so that a later process gets the same pass.
///
/// The layer gives up a pass only on its seller's clear statements: nothing is left and no other call is in progress; a
/// quote says `used_up` or `expired`; or it is refused on a route that took it before, and again after ten minutes or
/// more without an answer by it. A route is a method and a path. Once a call ended without an answer, in this process
/// or perhaps in an earlier one, what is left may come back: then only a refusal or a quote ends the pass. If it is
/// refused otherwise, or the route asks for money without mentioning the pass, the request is sent again without it.
/// The pass is kept for other routes, and is shown on that route again after ten minutes. The same applies to a pass of
/// an amount at a price above what is left: it is over if it does not cover the smallest known charge, or fails twice
/// on a route that it has covered. A request whose body can be sent once gets the bill that ends a pass, and the next
/// request buys another.
///
/// A request that was paid for and has no answer yet is finished by its payment. A pass that it shows, or that
/// [`buying`](Self::buying) has bought for it, stays unchanged. A request with its own payment in a header is sent
/// unchanged. Concurrent calls may hold what is left (`pass_busy`): such a request waits, up to half a minute.
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
    /// Locked to build it and to write its file.
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

    /// Buys a pass that a quote names, if `calls` calls cost less with such passes than at the quote's price; of
    /// several, the cheapest.
    ///
    /// For this, the first request to an address asks for the price alone, and is then sent again. If it fails before
    /// the seller names a price, it is not sent again, because it may have acted. A pass is bought only at the origin
    /// of the request. Call it before [`kept_in`](Self::kept_in).
    pub fn expecting(self, calls: u64) -> Self {
        self.purse.lock().wanted = Some(Wanted::Calls(calls));
        self
    }

    /// Buys the pass of this name if a quote names it, whatever single answers cost. Otherwise like
    /// [`expecting`](Self::expecting).
    pub fn preferring(self, name: &str) -> Self {
        self.purse.lock().wanted = Some(Wanted::Named(name.into()));
        self
    }

    /// Reads the passes in this file, if it exists, and keeps them there from now on; on Unix, only the owner can read
    /// the file. Call it after [`buying`](Self::buying), [`expecting`](Self::expecting) or
    /// [`preferring`](Self::preferring): without the latter two, passes of other addresses are dropped. One layer,
    /// with its clones, uses the file at a time.
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

    /// Returns the purchases of passes since this layer was created whose passes are kept, in the file if there is one.
    /// A caller that [acknowledges](crate::client::PayLayerBuilder::acknowledged_by_caller) purchases itself can close
    /// them.
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
