//! The purchase of a pass.

use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body::Body;
use tokio::time::Instant;
use tower_service::Service;

use super::{
    address::Address,
    attempt::{Attempt, UnderWay},
    errand::{Errand, PATIENCE, read, within},
    order::{Ending, PassOrder},
    promise::Promise,
    purse::now,
    shop::Shop,
    showing::Showing,
    turn::{FOR_A_PURCHASE, FOR_AN_ANSWER},
    word::Sold,
};
use crate::{
    client::{Purchase, PurchaseId, ResumeOnly, box_error::BoxError},
    protocol::Amount,
};

/// A pass that a quote names: its address, its price, and what it promises.
pub(super) struct Offer {
    pub(super) address: Address,
    pub(super) price: Amount,
    pub(super) promise: Promise,
}

/// The outcome of an attempt to buy.
enum Bought {
    /// Something was sold and is held here, usable or not.
    Sold,
    /// The pass was already here: an unclosed purchase was resumed or refused, and is closed now.
    Again,
    /// Nothing was paid, and no payment is open.
    Nothing,
    /// A payment is open, or bought nothing: no other is made now.
    Stopped,
}

impl<S> Errand<S> {
    /// Buys a pass, unless another request just did, or this one may not pay the quoted price.
    pub(super) async fn buy<B, R>(&mut self, shop: &Arc<Shop>, offer: Option<Offer>) -> Option<Showing>
    where
        S: Service<Request<B>, Response = Response<R>> + Clone,
        B: Default,
        R: Body<Data = Bytes>,
        R::Error: Into<BoxError>,
    {
        self.idles();
        let turn = shop.turns.take(FOR_A_PURCHASE, self.limits.part(FOR_A_PURCHASE)).await?;
        // Fetch first a pass that was paid for meanwhile.
        turn.is_awaited_for(FOR_AN_ANSWER);
        if let Some(held) = self.fetched(shop).await {
            return Some(held);
        }
        turn.is_awaited_for(FOR_A_PURCHASE);
        let within_limits = self.limits.are_set();
        let is_too_dear = offer.as_ref().is_some_and(|offer| self.limits.exclude(offer.price));
        if is_too_dear || !shop.may_buy(now(), within_limits) {
            return None;
        }
        let (address, price, promise) = match offer {
            Some(offer) => (offer.address, Some(offer.price), Some(offer.promise)),
            None => (shop.address(), None, None),
        };
        let mut bought = Bought::Again;
        for _ in 0..2 {
            // The first attempt may have found something that forbids another.
            if matches!(bought, Bought::Again) && shop.may_buy(now(), within_limits) {
                shop.begins(address.clone(), now());
                // Save it before paying. If the file cannot be written, only a later process will not know of it.
                self.passes.lock().save();
                let attempt = Attempt { url: &address.url, price, promise, goes_on: false, until: None };
                bought = self.order(shop, &attempt).await;
            }
        }
        if !matches!(bought, Bought::Sold) {
            tracing::warn!(url = %address.url, "no pass was bought; requests go on without one");
            shop.pause(within_limits);
        }
        self.held(shop)
    }

    /// Begins to show the pass that is held there.
    pub(super) fn held(&self, shop: &Arc<Shop>) -> Option<Showing> {
        Showing::begin(shop, &self.passes)
    }

    /// Returns whether a pass was bought there that did not arrive, and may be fetched now.
    pub(super) fn may_fetch(&self, shop: &Shop) -> bool {
        shop.unfinished(now(), self.limits.are_set()).is_some()
    }

    /// Fetches a pass that was bought and did not arrive, without a new payment.
    pub(super) async fn fetch<B, R>(&mut self, shop: &Arc<Shop>) -> Option<Showing>
    where
        S: Service<Request<B>, Response = Response<R>> + Clone,
        B: Default,
        R: Body<Data = Bytes>,
        R::Error: Into<BoxError>,
    {
        self.idles();
        let _turn = shop.turns.take(FOR_AN_ANSWER, self.limits.part(FOR_A_PURCHASE)).await?;
        self.fetched(shop).await
    }

    /// Returns the held pass, or fetches one that was bought and did not arrive. The caller has the shop's turn. While
    /// that payment is open, no other pass is bought.
    async fn fetched<B, R>(&mut self, shop: &Arc<Shop>) -> Option<Showing>
    where
        S: Service<Request<B>, Response = Response<R>> + Clone,
        B: Default,
        R: Body<Data = Bytes>,
        R::Error: Into<BoxError>,
    {
        // The held pass may have ended since this request began.
        if shop.ends(now()) {
            self.passes.lock().save();
        }
        let within_limits = self.limits.are_set();
        if let Some(begun) = shop.unfinished(now(), within_limits) {
            let until = Instant::now().checked_add(self.limits.part(PATIENCE));
            let attempt = Attempt { url: &begun, price: None, promise: None, goes_on: true, until };
            if matches!(self.order(shop, &attempt).await, Bought::Stopped) {
                tracing::warn!(url = %begun, "a pass that was bought does not come; requests go on without one");
                shop.pause(within_limits);
            }
        }
        self.held(shop)
    }

    /// Drops the polled instance: while idle, it would keep its readiness from its clones.
    fn idles(&mut self) {
        self.polled = None;
    }

    /// Sends one request for a pass, and keeps the pass before the purchase is closed.
    async fn order<B, R>(&mut self, shop: &Arc<Shop>, attempt: &Attempt<'_>) -> Bought
    where
        S: Service<Request<B>, Response = Response<R>> + Clone,
        B: Default,
        R: Body<Data = Bytes>,
        R::Error: Into<BoxError>,
    {
        let order = PassOrder::pass(self.limits.price(), attempt.noting(shop, &self.passes));
        let mut request = Request::new(B::default());
        (*request.method_mut(), *request.uri_mut()) = (Method::POST, attempt.url.clone());
        let extensions = request.extensions_mut();
        extensions.insert(order.clone());
        if let Some(most) = self.limits.price_of(attempt.price) {
            extensions.insert(most);
        }
        if attempt.goes_on {
            extensions.insert(ResumeOnly);
        }
        let mut under_way = UnderWay::begin(attempt, &order, shop, self.limits.are_set());
        let answer = self.asks(request, attempt.until, &mut under_way).await;
        under_way.may_have_paid();
        self.limits.extend(order.approving());
        let of_another = || answer.as_ref().map_or(Ending::Open(None), Ending::of_another);
        let ending = order.ending().unwrap_or_else(of_another);
        if let Some(paid) = order.paid().filter(|_| !matches!(ending, Ending::Unpaid)) {
            self.limits.spend(paid);
        }
        // A payment sells it whatever the status. A free pass needs status 200.
        let is_sold = |answer: &Response<R>| matches!(ending, Ending::Sold(_)) || answer.status() == StatusCode::OK;
        let Some(answer) = answer.and_then(Result::ok).filter(is_sold) else {
            under_way.ends();
            return self.unsold(shop, attempt, &order, &ending);
        };
        let purchase = answer.extensions().get::<Purchase>().map(|purchase| purchase.id);
        let body = within(attempt.until, read(answer.into_body())).await;
        under_way.ends();
        let Some(body) = body.flatten() else { return Bought::Stopped };
        self.keep(shop, attempt, (&order, ending), purchase, &body).await
    }

    /// Sends the request once the inner service is ready, which may be busy with other requests. Returns `None` if its readiness or the
    /// answer comes too late.
    async fn asks<B, R>(
        &mut self,
        request: Request<B>,
        until: Option<Instant>,
        under_way: &mut UnderWay<'_>,
    ) -> Option<Result<Response<R>, S::Error>>
    where
        S: Service<Request<B>, Response = Response<R>> + Clone,
    {
        let ready_by = until.or_else(|| Instant::now().checked_add(self.limits.part(PATIENCE)));
        match within(ready_by, self.ready()).await? {
            Ok(service) => {
                under_way.is_sent();
                within(until, self.send_by(service, request)).await
            }
            Err(error) => Some(Err(error)),
        }
    }

    /// Records what an attempt without a sale means for the next one.
    fn unsold(&self, shop: &Shop, attempt: &Attempt<'_>, order: &PassOrder, ending: &Ending) -> Bought {
        let bought = match ending {
            Ending::Open(_) | Ending::Sold(_) => return Bought::Stopped,
            Ending::Unpaid => Bought::Nothing,
            // Its pass arrived before; only its purchase stayed open.
            Ending::Lost if self.came_before(shop, attempt, order) => Bought::Again,
            Ending::Lost => {
                tracing::warn!(url = %attempt.url, "a pass was paid for, and its seller does not give it: no other is bought for a day");
                shop.set_aside(now());
                Bought::Stopped
            }
        };
        shop.is_finished();
        self.passes.lock().save();
        bought
    }

    /// Returns whether the attempt resumed a purchase whose pass is known to have arrived before, in this process or an earlier one. An
    /// earlier process is believed to have got it only if there is a file, which would list a paid pass that is still missing.
    fn came_before(&self, shop: &Shop, attempt: &Attempt<'_>, order: &PassOrder) -> bool {
        let Some(purchase) = order.resumed() else { return false };
        let purse = self.passes.lock();
        purse.bought.contains(&purchase) || purse.is_in_file() && is_earlier(shop, attempt, order)
    }

    /// Keeps what was sold. The purchase is closed only once that is in the file, so that after a crash the same
    /// request gets it again.
    async fn keep(
        &mut self,
        shop: &Shop,
        attempt: &Attempt<'_>,
        (order, ending): (&PassOrder, Ending),
        purchase: Option<PurchaseId>,
        body: &[u8],
    ) -> Bought {
        let sold = Sold::read(body);
        let is_known = sold.as_ref().is_some_and(|sold| shop.knows(&sold.pass));
        let is_pass = sold.is_some() && !is_known;
        let came_before = self.came_before(shop, attempt, order);
        // A proxy may have dropped the payment's confirmation. A new token proves that the payment was taken.
        let is_open = matches!(ending, Ending::Open(_)) && !is_pass;
        let (is_unsaid, is_unpaid) = (matches!(ending, Ending::Open(_)), matches!(ending, Ending::Unpaid));
        let sale = match ending {
            Ending::Sold(sale) | Ending::Open(sale) => sale.filter(|_| !is_open),
            Ending::Unpaid | Ending::Lost => None,
        };
        if !is_open {
            shop.is_finished();
        }
        if is_known && order.has_resumed() {
            if let Some(sale) = sale {
                sale.close().await;
            }
            return if is_open { Bought::Stopped } else { Bought::Again };
        }
        if let Some(sold) = sold.filter(|_| !is_known) {
            // If no attempt waits for it, an earlier one may have got it, by another quote.
            shop.hold(sold, !came_before && !is_earlier(shop, attempt, order), now());
        }
        let is_useless = !shop.holds_one(now());
        // The pass was here before and was used; a crash prevented closing its purchase.
        let is_old = is_pass && came_before;
        // A proxy's page blocks nothing: it was not paid for, or the payment remains usable for the pass.
        if is_useless && !is_open && !is_unpaid && !is_old {
            let purchase = purchase.map(tracing::field::display);
            tracing::warn!(url = %attempt.url, purchase, "what was sold as a pass is none, or is over by this clock: no other is bought for a day");
            shop.set_aside(now());
        }
        let is_saved = {
            let mut purse = self.passes.lock();
            let is_saved = purse.save();
            if is_saved && is_pass {
                purse.bought.extend(purchase);
            }
            is_saved
        };
        // A caller cannot close a purchase whose payment was not confirmed.
        if let Some(sale) = sale.filter(|sale| is_saved && (is_unsaid || !sale.is_callers)) {
            sale.close().await;
        }
        match is_useless {
            true if is_open => Bought::Stopped,
            true if is_unpaid => Bought::Nothing,
            true if is_old => Bought::Again,
            _ => Bought::Sold,
        }
    }
}

/// Returns whether the attempt resumed a purchase older than the one that the shop began. Then the latter has recorded no payment of its
/// own, however many attempts continue it.
fn is_earlier(shop: &Shop, attempt: &Attempt<'_>, order: &PassOrder) -> bool {
    order.has_resumed() && !(attempt.goes_on && shop.is_paid())
}
