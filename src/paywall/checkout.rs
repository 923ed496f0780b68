//! The checkout: decides, by what a request shows, between a quote, a refusal and a sale.

use std::{
    future::{Future, poll_fn},
    pin::Pin,
    sync::Arc,
};

use bytes::Bytes;
use http::{Method, Response, request::Parts};
use http_body::Body;
use tracing::{Instrument as _, Span, instrument::Instrumented};

use crate::{
    metrics,
    paywall::{
        body::ResponseBody,
        dialect::{
            client_submitted::redemption_in,
            mpp::{self, proof_in},
            outcome::mark_sold,
            version_1::tell_outcome,
        },
        door::{
            body_reader::{BodyReader, Read, ReadPlan, ScanPolicy, is_identity},
            delivery::write_delivery,
            format::ReplyFormat,
            free::{AnswerFilter, sold_before, without_bill},
            page::{FormPage, ScriptPage, part_of_page},
            quote::{quote, quote_when_ready},
            refuse::{deny, turn_away},
        },
        inner_service::InnerService,
        priced_request::PricedRequest,
        refusal::{Problem, Rejection},
        sale::{
            call::deliver_call,
            deliver::{Delivery, deliver},
        },
        seller::route::Route,
        way::{
            pass::{self, PassShown},
            reserve,
            transfer::unless_consumed,
        },
    },
    protocol::{InvalidRedemption, Media, ProblemCode, Proof, RedeemBy, Redemption, has_foreign_charset},
};

pub(crate) type Answer<ResB, E> = Result<Response<ResponseBody<ResB>>, E>;
/// A boxed future, for work that may have to wait. The span is outside the box: the future is large, and each wrapping moves it.
pub(crate) type Running<ResB, E> = Instrumented<Pin<Box<dyn Future<Output = Answer<ResB, E>> + Send>>>;
/// The proof that the head, or head and body, show.
type Shown = Result<Option<Proof>, InvalidRedemption>;

/// One priced request on its way through the paywall, with the service that answers it.
pub(crate) struct Checkout<S, B> {
    request: PricedRequest,
    /// The body for the handler, if it need not be read before.
    unread: Option<B>,
    inner: S,
    /// Whether `inner` is the instance that was polled ready. It is then dropped before anything is awaited.
    polled: bool,
    /// The proof in the head, if an answer may be kept for it: that answer is delivered regardless of the body.
    may_be_sold: Option<Box<Redemption>>,
}

/// The first step of a checkout.
#[expect(clippy::large_enum_variant, reason = "it is moved on at once, and a box would be an allocation for each body")]
pub(crate) enum Next<S, B, ResB, E> {
    /// Read the body, and hand it to [`Checkout::body_read`].
    ReadBody(BodyReader<B>, Checkout<S, B>),
    Decided(Decided<ResB, E>),
}

/// The step of a checkout once it is known what the request shows.
pub(crate) enum Decided<ResB, E> {
    Answer(Response<ResponseBody<ResB>>),
    Run(Running<ResB, E>),
}

impl<S, B> Checkout<S, B> {
    pub(crate) fn new(route: Arc<Route>, polled: S, parts: Parts) -> Self {
        Self { request: PricedRequest::new(route, parts), unread: None, inner: polled, polled: true, may_be_sold: None }
    }

    /// Whether another layer, outside this one, sold this request already.
    pub(crate) fn is_paid_already(&self) -> bool {
        self.request.is_paid_already()
    }

    /// Refuses the request before any payment was considered.
    pub(crate) fn turn_away<ResB>(&self, rejection: impl Into<Rejection>) -> Response<ResponseBody<ResB>> {
        turn_away(&self.request, rejection)
    }
}

impl<S: Clone, B> Checkout<S, B> {
    /// Drops the instance that was polled ready: idle, it would keep its readiness from its clones.
    pub(crate) fn drop_readiness(&mut self) {
        if std::mem::take(&mut self.polled) {
            self.inner = self.inner.clone();
        }
    }
}

impl<S, B, ResB> Checkout<S, B>
where
    S: InnerService<B, ResponseBody = ResB> + Clone,
    B: Body<Data = Bytes> + Send + 'static,
    ResB: Body<Data = Bytes> + Send + 'static,
{
    /// First asks whether the request is free, if that must be awaited. If it is not, continues with `price`.
    pub(crate) fn ask_bypass<F>(
        mut self,
        body: B,
        price: impl FnOnce(Self, B) -> F + Send + 'static,
    ) -> Running<ResB, S::Error>
    where
        F: Future<Output = Answer<ResB, S::Error>> + Send,
    {
        self.drop_readiness();
        let work = async move {
            match self.request.is_free().await {
                Ok(true) => {
                    let filter = AnswerFilter::free(
                        &self.request.route,
                        &self.request.parts.method,
                        &self.request.parts.headers,
                    );
                    self.unread = Some(body);
                    self.serve().await.map(|response| filter.apply(response))
                }
                Ok(false) => price(self, body).await,
                Err(problem) => Ok(self.turn_away(problem)),
            }
        };
        boxed(work, Span::none())
    }

    /// Decides from the head whether the body must be read first.
    #[inline]
    pub(crate) fn begin(mut self, body: B) -> Next<S, B, ResB, S::Error> {
        let shown = proof_in(&self.request.route.merchant, &self.request.parts.headers);
        if let Ok(Some(_)) = shown {
            self.request.proof_is_in_head();
        }
        if let Some(plan) = read_plan(&self.request, &shown, &body) {
            if let (Ok(Some(proof)), Some(_)) = (&shown, self.request.route.redelivery()) {
                self.may_be_sold = redemption_in(&self.request.route.merchant, proof).map(Box::new);
            }
            return Next::ReadBody(BodyReader::new(body, plan, shown.unwrap_or_default()), self);
        }
        self.unread = Some(body);
        Next::Decided(self.decide(shown))
    }

    /// Continues once the body was read.
    #[inline]
    pub(crate) fn body_read(mut self, read: Result<Read, ProblemCode>) -> Decided<ResB, S::Error> {
        match read {
            Ok(Read::Whole { data, trailers, proof }) => {
                self.request.set_body(data, trailers);
                self.decide(Ok(proof))
            }
            Ok(Read::PageForm(shown)) => {
                self.request.become_get();
                self.run(|checkout| checkout.redeem_by_form(shown))
            }
            // It shows no proof, and a quote says where one belongs. The handler never runs without the body here: this happens at a fixed
            // price only, and without a pass.
            Ok(Read::TooLong) => {
                self.request.redeem_by = RedeemBy::Header;
                self.decide(Ok(None))
            }
            Err(code) => match self.may_be_sold.take().filter(|_| self.request.parts.method != Method::HEAD) {
                None => Decided::Answer(self.refuse_body(code)),
                Some(redemption) => self.run(async move |checkout: Self| {
                    let problem = checkout.body_problem(code);
                    let rejection = unless_consumed(&checkout.request, &redemption, problem.into()).await;
                    Ok(deny(&checkout.request, rejection))
                }),
            },
        }
    }

    /// Decides by the proof. Most replies are quotes, and a quote that need not wait is made at once.
    #[inline]
    fn decide(self, shown: Shown) -> Decided<ResB, S::Error> {
        let request = &self.request;
        if matches!(shown, Ok(None))
            && let Some(part) = part_of_page(request)
        {
            return Decided::Answer(part);
        }
        match shown {
            Ok(Some(proof)) if request.parts.method != Method::HEAD => self.run(|checkout| checkout.redeem(proof)),
            Ok(Some(_)) | Err(InvalidRedemption) => {
                Decided::Answer(deny(&self.request, ProblemCode::InvalidRedemption))
            }
            Ok(None) if request.query_shows_proof() => {
                Decided::Answer(deny(&self.request, ProblemCode::InvalidRedemption))
            }
            Ok(None) if request.shows_pass() => self.run(Self::call_by_pass),
            Ok(None) if !request.route.merchant.first().start.is_done() => self.run(Self::quote),
            Ok(None) => match request.price_now().map(|price| quote(request, price)) {
                None => self.run(Self::quote),
                Some(Some(answer)) => Decided::Answer(answer),
                // Free. Nothing is awaited before the service is called.
                Some(None) => Decided::Run(boxed(self.serve(), Span::none())),
            },
        }
    }

    /// Boxes work that may have to wait.
    fn run<F>(mut self, work: impl FnOnce(Self) -> F) -> Decided<ResB, S::Error>
    where
        F: Future<Output = Answer<ResB, S::Error>> + Send + 'static,
    {
        self.drop_readiness();
        let span = tracing::info_span!("x402.checkout", resource = &*self.request.route.resource);
        Decided::Run(boxed(work(self), span))
    }

    /// Quotes a request without proof whose price must be awaited, or whose merchant has not started yet.
    async fn quote(self) -> Answer<ResB, S::Error> {
        match quote_when_ready(&self.request).await {
            Some(answer) => Ok(answer),
            None => self.serve().await,
        }
    }

    /// Answers a request that was paid for before, by a pass or with a ticket.
    async fn call_by_pass(mut self) -> Answer<ResB, S::Error> {
        let format = ReplyFormat::of_request(&self.request);
        let script = ScriptPage::of(&self.request);
        match pass::reserve(&self.request).await {
            Ok(PassShown::Call(call)) => {
                let route = Arc::clone(&self.request.route);
                let outcome = deliver_call(self.request, self.unread, self.inner, *call).await;
                let answer = write_delivery(Delivery { outcome, made: None, paid: false }, format, &route)?;
                Ok(match script {
                    Some(script) => script.tell(answer),
                    None => answer,
                })
            }
            Ok(PassShown::Ticket) => self.serve().await.map(|answer| sold_before(answer, format)),
            Ok(PassShown::Free) => self.serve().await.map(|answer| without_bill(answer, format)),
            Ok(PassShown::Spent(state)) => {
                self.request.pass_spent = Some(state);
                self.quote().await
            }
            Err(rejection) => Ok(self.turn_away(rejection)),
        }
    }

    /// Redeems a proof, partial or whole. Only a signed payment that is certainly unused is answered with a new quote.
    fn redeem(self, proof: Proof) -> impl Future<Output = Answer<ResB, S::Error>> {
        let script = ScriptPage::of(&self.request);
        let by_version_1 = matches!(proof, Proof::PaymentV1(_));
        let by_mpp = match &proof {
            Proof::Mpp(credential) => Some((credential.challenge.id.clone(), Arc::clone(&self.request.route))),
            _ => None,
        };
        let format = ReplyFormat::of_request(&self.request);
        async move {
            let mut answer = match reserve(&self.request, proof).await {
                Ok(Some(purchase)) => {
                    let route = Arc::clone(&self.request.route);
                    let delivery = deliver(self.request, self.unread, self.inner, purchase, mark_sold).await;
                    write_delivery(delivery, format, &route)?
                }
                Ok(None) => {
                    metrics::redeemed(&self.request.route.resource, "free");
                    without_bill(self.serve().await?, format)
                }
                Err(rejection) => deny(&self.request, rejection),
            };
            if by_version_1 {
                tell_outcome(answer.headers_mut());
            }
            if let Some((intent, route)) = by_mpp {
                mpp::tell_outcome(&mut answer, &intent, route.merchant.clock.unix());
            }
            Ok(match script {
                Some(script) => script.tell(answer),
                None => answer,
            })
        }
    }

    /// Redeems the proof in a page's form: a person reads the refusal.
    async fn redeem_by_form(self, shown: Redemption) -> Answer<ResB, S::Error> {
        let page = FormPage::of(&self.request, Some(shown.clone()));
        let answer = self.redeem(Proof::Redemption(shown)).await?;
        Ok(match page {
            Some(page) => page.dress(answer),
            None => answer,
        })
    }

    /// Returns what is wrong with a request's body, and what helps.
    fn body_problem(&self, code: ProblemCode) -> Problem {
        match code {
            ProblemCode::UnsupportedEncoding if is_identity(&self.request.parts.headers) => Problem::reads_utf_8_only(),
            ProblemCode::UnsupportedEncoding if self.request.route.prices.may_read_body() => {
                Problem::reads_uncompressed_only()
            }
            _ => code.into(),
        }
    }

    /// Refuses a request for its body. If that is a form on a route with a page, a person may read it.
    fn refuse_body(&self, code: ProblemCode) -> Response<ResponseBody<ResB>> {
        let problem = self.body_problem(code);
        let answer = match code {
            ProblemCode::InvalidRedemption => deny(&self.request, problem),
            _ => self.turn_away(problem),
        };
        match FormPage::of(&self.request, None).filter(|_| takes_form(&self.request)) {
            Some(page) => page.dress(answer),
            None => answer,
        }
    }

    /// Calls the handler, without the layer.
    async fn serve(self) -> Answer<ResB, S::Error> {
        let mut inner = self.inner;
        poll_fn(|cx| inner.poll_ready(cx)).await?;
        Ok(inner.call(self.request.into_request(self.unread)).await?.map(ResponseBody::streaming))
    }
}

fn boxed<ResB, E>(work: impl Future<Output = Answer<ResB, E>> + Send + 'static, span: Span) -> Running<ResB, E> {
    let work: Pin<Box<dyn Future<Output = Answer<ResB, E>> + Send>> = Box::pin(work);
    work.instrument(span)
}

/// Returns whether a body may be the form of a page.
fn takes_form(request: &PricedRequest) -> bool {
    request.media == Media::Form && request.parts.method == Method::POST && request.route.page.is_some()
}

/// Returns how the body is read, if it must be: for a proof, for the price or a digest, or ahead of a redemption.
fn read_plan<B: Body>(request: &PricedRequest, shown: &Shown, body: &B) -> Option<ReadPlan> {
    let (route, headers) = (&request.route, &request.parts.headers);
    let scan = match shown {
        Ok(None) if route.header_only => ScanPolicy::Never,
        Ok(None) if takes_form(request) => ScanPolicy::PageForm,
        Ok(None) => ScanPolicy::of(request.media),
        _ => ScanPolicy::Never,
    };
    let whole = shown.is_ok() && (route.binds() || route.tickets.is_some() || reads_ahead(route, shown, body));
    if !whole && (scan == ScanPolicy::Never || body.is_end_stream()) {
        return None;
    }
    let identity = is_identity(headers);
    let is_priced = route.prices.may_read_body();
    let media = ScanPolicy::of(request.media);
    // A length is priced as it was sent; what JSON and forms say is priced as the handler reads it.
    let is_compressed = !identity && media != ScanPolicy::Guess;
    let is_foreign = (scan != ScanPolicy::Never || is_priced) && (is_compressed || has_foreign_charset(headers));
    Some(ReadPlan {
        scan,
        // A call by pass runs the handler, which needs all of what is begun here.
        whole: whole || request.shows_pass(),
        identity,
        foreign: if is_foreign { media } else { ScanPolicy::Never },
        demands_json: is_priced && scan == ScanPolicy::Never && media == ScanPolicy::Json,
        limit: route.body_limit,
        timeout: route.body_timeout,
    })
}

/// Returns whether to buffer a redemption's body before reserving: if its length is announced and within the limit. Otherwise a client that
/// sends it slowly would hold a payment meanwhile, its own or another's.
fn reads_ahead<B: Body>(route: &Route, shown: &Shown, body: &B) -> bool {
    let announced = body.size_hint().upper().and_then(|most| usize::try_from(most).ok());
    matches!(shown, Ok(Some(Proof::Redemption(_) | Proof::Payment(_) | Proof::PaymentV1(_) | Proof::Mpp(_))))
        && !body.is_end_stream()
        && announced.is_some_and(|most| most <= route.body_limit)
}
