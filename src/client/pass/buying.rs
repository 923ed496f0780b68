//! The purchase of a pass.

use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, Uri};
use http_body::Body;
use tower_service::Service;

use super::{
    address::Address,
    errand::{Errand, read},
    order::PassOrder,
    purse::now,
    shop::{Shop, Showing},
    word::Sold,
};
use crate::{
    client::{Purchase, PurchaseId, PurchaseState, ResumeOnly, box_error::BoxError},
    protocol::Amount,
};

/// A pass that a quote names: where it is sold, and at which price.
pub(super) struct Offer {
    pub(super) address: Address,
    pub(super) price: Amount,
}

/// What came of an attempt to buy.
enum Bought {
    /// What was sold is here, be it of use or not.
    Sold,
    /// It was here before: a purchase that was not closed went on, and is closed now.
    Again,
    /// An answer that sold nothing.
    Nothing,
    /// No whole answer.
    Unanswered { has_resumed: bool },
}

impl<S> Errand<S> {
    /// Buys a pass, unless another request just did, or this one may not pay what a quote asks for it.
    pub(super) async fn buy<B, R>(&mut self, shop: &Arc<Shop>, offer: Option<Offer>) -> Option<Showing>
    where
        S: Service<Request<B>, Response = Response<R>> + Clone,
        B: Default,
        R: Body<Data = Bytes>,
        R::Error: Into<BoxError>,
    {
        // Idle, it would keep its readiness from its clones.
        self.polled = None;
        let _turn = self.limits.in_time(shop.turn()).await?;
        if let Some(held) = shop.show(now()) {
            return Some(held);
        }
        let within_limits = self.limits.are_set();
        let is_too_dear = offer.as_ref().is_some_and(|offer| self.limits.exclude(offer.price));
        if is_too_dear || !shop.may_buy(now(), within_limits) {
            return None;
        }
        let (address, price) = match offer {
            Some(offer) => (offer.address, Some(offer.price)),
            None => (shop.address(), None),
        };
        let mut bought = match shop.unfinished_beside(&address.url) {
            Some(begun) => self.finish(shop, begun).await,
            None => Bought::Again,
        };
        for _ in 0..2 {
            if let Bought::Again = bought {
                shop.begins(address.clone());
                // Before it is paid for. Where the file cannot be written, only a later process does not know of it.
                self.passes.lock().save();
                bought = self.order(shop, &address.url, price, false).await;
            }
        }
        if !matches!(bought, Bought::Sold) {
            tracing::warn!(url = %address.url, "no pass was bought; requests go on without one");
            shop.pause(within_limits);
        }
        shop.show(now())
    }

    /// Goes on with what was begun at another address, and pays nothing new; `Again` where nothing is left of it.
    async fn finish<B, R>(&mut self, shop: &Arc<Shop>, begun: Uri) -> Bought
    where
        S: Service<Request<B>, Response = Response<R>> + Clone,
        B: Default,
        R: Body<Data = Bytes>,
        R::Error: Into<BoxError>,
    {
        match self.order(shop, &begun, None, true).await {
            Bought::Unanswered { has_resumed: false } | Bought::Nothing => Bought::Again,
            bought => bought,
        }
    }

    /// Sends one request for a pass, and keeps what it sells before the purchase is closed.
    async fn order<B, R>(&mut self, shop: &Arc<Shop>, url: &Uri, price: Option<Amount>, resumes: bool) -> Bought
    where
        S: Service<Request<B>, Response = Response<R>> + Clone,
        B: Default,
        R: Body<Data = Bytes>,
        R::Error: Into<BoxError>,
    {
        let order = PassOrder::pass();
        let mut request = Request::new(B::default());
        (*request.method_mut(), *request.uri_mut()) = (Method::POST, url.clone());
        let extensions = request.extensions_mut();
        extensions.insert(order.clone());
        if let Some(most) = self.limits.price_of(price) {
            extensions.insert(most);
        }
        if resumes {
            extensions.insert(ResumeOnly);
        }
        let answer = self.send(request).await;
        self.limits.extend(order.approving());
        let unanswered = Bought::Unanswered { has_resumed: order.has_resumed() };
        let Ok(answer) = answer else { return unanswered };
        let purchase = answer.extensions().get::<Purchase>().map(|purchase| (purchase.id, purchase.state));
        // The layer inside tells by which payment, whatever the status. Another one tells by the status alone.
        let is_sold = answer.status() == StatusCode::OK
            || order.sale().is_some()
            || purchase.is_some_and(|(_, state)| state == PurchaseState::Answered);
        if !is_sold {
            if purchase.is_none() {
                shop.is_finished();
                self.passes.lock().save();
            }
            return Bought::Nothing;
        }
        let Some(body) = read(answer.into_body()).await else { return unanswered };
        self.keep(shop, url, &order, purchase.map(|(id, _)| id), &body).await
    }

    /// Takes what was sold. The purchase is closed once that is in the file, so that a crash in between leaves it to the same request.
    async fn keep(
        &mut self,
        shop: &Shop,
        url: &Uri,
        order: &PassOrder,
        purchase: Option<PurchaseId>,
        body: &[u8],
    ) -> Bought {
        let sold = Sold::read(body);
        let is_known = sold.as_ref().is_some_and(|sold| shop.knows(&sold.pass));
        if is_known && order.has_resumed() {
            if let Some(sale) = order.sale() {
                sale.close().await;
            }
            return Bought::Again;
        }
        let is_pass = sold.is_some() && !is_known;
        if let Some(sold) = sold.filter(|_| !is_known) {
            shop.hold(sold, order.has_resumed());
        }
        shop.is_finished();
        if !shop.holds_one(now()) {
            let purchase = purchase.map(tracing::field::display);
            tracing::warn!(%url, purchase, "what was sold as a pass is none, or is over by this clock: no other is bought for a day");
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
        if let Some(sale) = order.sale().filter(|sale| is_saved && !sale.is_callers) {
            sale.close().await;
        }
        Bought::Sold
    }
}
