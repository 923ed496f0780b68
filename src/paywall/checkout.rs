//! The checkout: what was presented decides between a quote, a refusal and a sale.

use std::{
    future::{Future, poll_fn},
    pin::Pin,
    sync::Arc,
};

use bytes::Bytes;
use http::{Method, Request, Response, request::Parts};
use http_body::Body;
use tower_service::Service;
use tracing::Instrument as _;

use super::{
    body::{RequestBody, ResponseBody},
    extract::{Look, Plan, is_identity},
    layer::Route,
    order::{Order, refused},
    pricing::Price,
    redeem::{admit, refuse, unpriced},
    respond::without_bill,
    sale::sell,
};
use crate::protocol::{InvalidRedemption, ProblemCode, Proof, RedeemBy};

pub(crate) type Answer<ResB, E> = Result<Response<ResponseBody<ResB>>, E>;
/// What the head, or head and body, show of a proof.
pub(crate) type Presented = Result<Option<Proof>, InvalidRedemption>;

/// One priced request on its way through the door, with the service that answers it.
pub(crate) struct Checkout<S> {
    pub(crate) order: Order,
    pub(crate) inner: S,
    /// Whether `inner` was polled ready: then it is let go before anything is waited for.
    polled: bool,
}

/// What is to be done with the body first.
pub(crate) enum Incoming {
    /// It is read, beside what the header showed.
    Read(Plan, Option<Proof>),
    Decided(Presented),
}

/// What is to be done next.
pub(crate) enum Step<ResB> {
    Answered(Response<ResponseBody<ResB>>),
    Errand(Errand),
}

/// What may have to wait, and is boxed for it.
pub(crate) enum Errand {
    /// The handler answers, for nothing.
    Serve,
    /// A quote whose price must be waited for, or whose merchant has not started yet.
    Quote,
    /// A request with a proof, in part or whole.
    Present(Proof),
}

/// An errand under way.
pub(crate) type Boxed<ResB, E> = Pin<Box<dyn Future<Output = Answer<ResB, E>> + Send>>;

impl<S> Checkout<S> {
    pub(crate) fn new(route: Arc<Route>, polled: S, parts: Parts) -> Self {
        Self { order: Order::new(route, parts), inner: polled, polled: true }
    }

    /// Decides from the head where a proof is looked for, and whether the body is needed for anything else.
    pub(crate) fn incoming<B: Body<Data = Bytes>>(&self, body: &B) -> Incoming {
        let (route, headers) = (&self.order.route, &self.order.parts.headers);
        let header = Proof::from_headers(headers);
        let look = match header {
            Ok(None) if !route.header_only => Look::at(self.order.media),
            _ => Look::Never,
        };
        let whole = header.is_ok() && (route.binds() || self.comes_first(&header, body));
        if !whole && (look == Look::Never || body.is_end_stream()) {
            return Incoming::Decided(header);
        }
        let plan =
            Plan { look, whole, identity: is_identity(headers), limit: route.body_limit, timeout: route.body_timeout };
        Incoming::Read(plan, header.unwrap_or_default())
    }

    /// The body is too long for a proof to be looked for in it, and shows none: a quote says where one belongs.
    ///
    /// Nothing is ever served without its body by this: it comes about at a fixed price only.
    pub(crate) fn too_long(&mut self) {
        self.order.redeem_by = RedeemBy::Header;
    }

    /// Whether a body that nobody looks at is read all the same before anything is reserved: a redemption's, where it is
    /// announced and small. Otherwise whoever sends it slowly holds a payment meanwhile, his own or another's.
    fn comes_first<B: Body>(&self, header: &Presented, body: &B) -> bool {
        let announced = body.size_hint().upper().and_then(|most| usize::try_from(most).ok());
        matches!(header, Ok(Some(Proof::Redemption { .. })))
            && !body.is_end_stream()
            && announced.is_some_and(|most| most <= self.order.route.body_limit)
    }

    /// What was presented decides. Most answers are quotes: one that need not wait is made on the spot, and nothing is moved
    /// for it.
    pub(crate) fn decide<ResB>(&self, presented: Presented) -> Step<ResB> {
        let order = &self.order;
        match presented {
            Ok(Some(proof)) if order.parts.method != Method::HEAD => Step::Errand(Errand::Present(proof)),
            Err(InvalidRedemption) | Ok(Some(_)) => Step::Answered(order.problem(ProblemCode::InvalidRedemption)),
            Ok(None) if order.query_shows_proof() => Step::Answered(order.problem(ProblemCode::InvalidRedemption)),
            Ok(None) if !order.route.merchant.start.is_done() => Step::Errand(Errand::Quote),
            Ok(None) => match order.price_now() {
                None => Step::Errand(Errand::Quote),
                Some(price) => match order.quoted(price) {
                    Some(answer) => Step::Answered(answer),
                    None => Step::Errand(Errand::Serve),
                },
            },
        }
    }
}

impl<S: Clone> Checkout<S> {
    /// Lets the polled instance go: idle, it would keep its readiness from its clones.
    pub(crate) fn let_go(&mut self) {
        if std::mem::take(&mut self.polled) {
            self.inner = self.inner.clone();
        }
    }

    /// Sets out on an errand.
    pub(crate) fn run<B, ResB>(mut self, errand: Errand, body: RequestBody<B>) -> Boxed<ResB, S::Error>
    where
        S: Service<Request<RequestBody<B>>, Response = Response<ResB>> + Send + 'static,
        S::Future: Send,
        S::Error: Send,
        B: Body<Data = Bytes> + Send + 'static,
        ResB: Send + 'static,
    {
        let proof = match errand {
            // Nothing is waited for before it is called.
            Errand::Serve => return Box::pin(self.serve(body)),
            Errand::Quote => None,
            Errand::Present(proof) => Some(proof),
        };
        self.let_go();
        let span = tracing::info_span!("x402.checkout", resource = &*self.order.route.resource);
        match proof {
            None => Box::pin(self.quote_later(body).instrument(span)),
            Some(proof) => Box::pin(self.present(proof, body).instrument(span)),
        }
    }
}

impl<S> Checkout<S> {
    /// A quote whose price must be waited for, or whose merchant has not started yet.
    async fn quote_later<B, ResB>(self, body: RequestBody<B>) -> Answer<ResB, S::Error>
    where
        S: Service<Request<RequestBody<B>>, Response = Response<ResB>>,
    {
        let price = match self.order.price().await {
            Ok(price) => price,
            Err(problem) => return Ok(self.order.problem(problem)),
        };
        if matches!(price, Price::Charge(_) | Price::Labelled { .. })
            && let Err(problem) = self.order.route.merchant.started().await
        {
            return Ok(self.order.problem(problem));
        }
        match self.order.quoted(price) {
            Some(answer) => Ok(answer),
            None => self.serve(body).await,
        }
    }

    /// A request with a proof, in part or whole: never answered 402.
    async fn present<B, ResB>(self, proof: Proof, body: RequestBody<B>) -> Answer<ResB, S::Error>
    where
        S: Service<Request<RequestBody<B>>, Response = Response<ResB>>,
        B: Body<Data = Bytes>,
    {
        let order = &self.order;
        let price = match order.price().await {
            Ok(price) => price.bare(),
            Err(problem) => return Ok(order.problem(unpriced(order, &proof, problem).await)),
        };
        Ok(match (proof, price) {
            (_, Price::Free) => {
                let form = order.form();
                return self.serve(body).await.map(|answer| without_bill(answer, form));
            }
            (_, Price::Charge(amount)) if amount.is_zero() => order.mispriced(),
            // `bare` leaves none.
            (_, Price::Labelled { .. }) => order.mispriced(),
            (Proof::IntentOnly(_), Price::Charge(_)) => order.problem(ProblemCode::TxRequired),
            (Proof::TransactionOnly(_), Price::Charge(amount)) => {
                order.problem(order.fresh(ProblemCode::IntentRequired, amount))
            }
            (Proof::IntentOnly(_) | Proof::TransactionOnly(_), Price::Refuse(refusal)) => refused(refusal),
            (Proof::Redemption { intent, .. }, Price::Refuse(refusal)) => refuse(order, &intent, refusal).await,
            (Proof::Redemption { intent, transaction }, Price::Charge(now)) => {
                match admit(order, intent, transaction, now).await {
                    Ok((guard, receipt)) => return sell(self, body, guard, receipt).await,
                    Err(problem) => order.problem(problem),
                }
            }
        })
    }

    /// The handler, without the layer.
    pub(crate) async fn serve<B, ResB>(self, body: RequestBody<B>) -> Answer<ResB, S::Error>
    where
        S: Service<Request<RequestBody<B>>, Response = Response<ResB>>,
    {
        let mut inner = self.inner;
        poll_fn(|cx| inner.poll_ready(cx)).await?;
        Ok(inner.call(Request::from_parts(self.order.parts, body)).await?.map(ResponseBody::streaming))
    }
}
