//! What is sent, what is read, and what is handed over: proofs in the header and in the body, requests that are not
//! ours to pay, and answers as they came.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use futures_util::stream;
use http::{HeaderMap, Method, Request, Response, header};
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::{BodyExt as _, Full, StreamBody};
use tower::{Layer as _, ServiceExt as _};
use tower_x402::{
    client::{
        AlreadyPaid, Body, FileJournal, Journal as _, MemoryJournal, PayErrorKind, PayLayer, ProofIn, Purchase,
        PurchaseState, ResumeOnly,
    },
    protocol::{ProblemCode, RetryRule, SealingKeys},
};

use super::{
    Market, question,
    rig::{AnyBody, Asked, Bill, Reply, Seller, any, ask, call, problem, reply, sold, text},
};
use crate::support::NOW;

async fn in_body(market: &Market) -> PayLayer {
    market.layer_with(|builder| builder.proof_in(ProofIn::Body)).await
}

fn typed(content_type: &str, body: &str) -> Request<Body> {
    Request::post("https://seller.example/answer")
        .header(header::CONTENT_TYPE, content_type)
        .body(Body::from(body.to_owned()))
        .unwrap()
}

/// The last request that the seller saw, which carried the proof.
fn redemption(seller: &Seller) -> Asked {
    seller.asked().pop().filter(|asked| asked.proof.is_some()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_proof_in_the_body_leaves_every_other_byte() {
    let bodies = [
        (r#"{"query":"why"}"#, r#","query":"why"}"#),
        (r#"{}"#, "}"),
        ("{ \n}", " \n}"),
        ("{ \"a\" : 1.50e+01 ,\"a\":2, \"\\u0061\":null } ", ", \"a\" : 1.50e+01 ,\"a\":2, \"\\u0061\":null } "),
        (
            r#"{"n":123456789012345678901234567890,"nested":{"intentId":1}}"#,
            r#","n":123456789012345678901234567890,"nested":{"intentId":1}}"#,
        ),
    ];
    for (body, rest) in bodies {
        let (market, seller) = (Market::open().await, Seller::honest());
        for content_type in ["application/json", "text/json; charset=utf-8", "application/Problem+JSON"] {
            ask(&in_body(&market).await, &seller, typed(content_type, body)).await.unwrap();
            let sent = redemption(&seller);
            let (intent, transaction, in_header) = sent.proof.unwrap();
            assert!(!in_header && !sent.headers.contains_key("content-length"));
            let whole = format!(r#"{{"intentId":"{intent}","txHash":"{transaction}"{rest}"#);
            assert_eq!(sent.body, whole, "{body}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn where_a_body_can_hold_no_proof_it_goes_in_the_header() {
    let requests = [
        ("application/json", "[1]"),
        ("application/json", "\"text\""),
        ("application/json", "not json"),
        ("application/json", ""),
        ("application/json", "\u{feff}{}"),
        ("application/json", "{} {}"),
        ("application/json", r#"{"intentId":null}"#),
        ("application/json", r#"{"intent\u0049d":null}"#),
        ("application/json", r#"{"txHash":""}"#),
        ("text/plain", "{}"),
    ];
    for (content_type, body) in requests {
        let (market, seller) = (Market::open().await, Seller::honest());
        ask(&in_body(&market).await, &seller, typed(content_type, body)).await.unwrap();
        let sent = redemption(&seller);
        assert!(sent.proof.unwrap().2, "{body}");
        assert_eq!(sent.body, body);
    }
    let (market, seller) = (Market::open().await, Seller::honest());
    let mut packed = typed("application/json", "{}");
    packed.headers_mut().insert(header::CONTENT_ENCODING, "gzip".parse().unwrap());
    ask(&in_body(&market).await, &seller, packed).await.unwrap();
    assert!(redemption(&seller).proof.unwrap().2);
}

#[tokio::test(start_paused = true)]
async fn where_the_seller_will_not_have_it_in_the_body_it_goes_in_the_header() {
    type Refusal = fn() -> Reply;
    let refusals: [Refusal; 4] = [
        || Bill::default().reply(),
        || reply(402, &[], ""),
        || problem(413, "body_too_large", &[]),
        || problem(415, "unsupported_encoding", &[]),
    ];
    for refusal in refusals {
        let market = Market::open().await;
        let seller = Seller::paid(move |asked| if asked.proof.as_ref().unwrap().2 { sold() } else { refusal() });
        let got = ask(&in_body(&market).await, &seller, question("{}")).await.unwrap();
        assert_eq!((got.text.as_str(), got.purchase.unwrap().attempts), ("the answer", 2));
        assert_eq!(market.wallet.transfers(), 1);
    }
    // A real route that takes proofs in the header only.
    let market = Market::open().await;
    let handler = |_: Request<tower_x402::RequestBody<Body>>| async {
        Ok::<_, std::convert::Infallible>(Response::new(text("sold")))
    };
    let seller = market.shop.layer().header_only().layer(tower::service_fn(handler));
    let got = call(&in_body(&market).await.layer(seller), question("{}")).await.unwrap();
    assert_eq!((got.text.as_str(), market.wallet.transfers()), ("sold", 1));
}

#[tokio::test(start_paused = true)]
async fn the_request_is_otherwise_the_same_each_time() {
    let (market, seller) = (Market::open().await, Seller::honest());
    for method in [Method::GET, Method::PUT, Method::DELETE, Method::OPTIONS] {
        let request = Request::builder()
            .method(method.clone())
            .uri("https://seller.example/answer?q=1")
            .header("authorization", "Bearer mine")
            .body(Body::from("the body"))
            .unwrap();
        ask(&market.layer().await, &seller, request).await.unwrap();
        let asked = seller.asked();
        for sent in &asked[asked.len() - 2..] {
            assert_eq!((&sent.method, sent.uri.to_string().as_str()), (&method, "https://seller.example/answer?q=1"));
            assert_eq!(
                (&sent.headers["authorization"], &*sent.body),
                (&"Bearer mine".parse().unwrap(), &b"the body"[..])
            );
        }
    }
}

/// HEAD asks for a price, and can never be redeemed.
#[tokio::test(start_paused = true)]
async fn head_is_told_the_price_and_pays_nothing() {
    let market = Market::open().await;
    let head = Request::head("https://seller.example/answer").body(Body::empty()).unwrap();
    let got = call(&market.layer().await.layer(market.seller()), head).await.unwrap();
    assert_eq!((got.status.as_u16(), got.purchase), (402, None));
    assert!(got.headers.contains_key("pay"));
    assert_eq!(market.wallet.prepared(), 0);
}

#[tokio::test(start_paused = true)]
async fn what_is_not_ours_to_pay_passes_through() {
    let (market, seller) = (Market::open().await, Seller::new(|_| reply(402, &[("x-other", "scheme")], "pay them")));
    let got = ask(&market.layer().await, &seller, question("{}")).await.unwrap();
    assert_eq!((got.status.as_u16(), got.text.as_str(), got.purchase), (402, "pay them", None));
    let quoting_200 = Seller::new(|_| reply(200, &[("pay", "{}")], "free"));
    let got = ask(&market.layer().await, &quoting_200, question("{}")).await.unwrap();
    assert_eq!((got.text.as_str(), got.purchase), ("free", None));
    // A proof of the caller's own, even one that is none: he pays for himself.
    for proof in ["{}", "", r#"{"intentId":"i","txHash":"0x1"}"#] {
        let seller = Seller::new(|_| Bill::default().reply());
        let mut request = question("{}");
        request.headers_mut().insert("x402-payment", proof.parse().unwrap());
        let got = ask(&market.layer().await, &seller, request).await.unwrap();
        assert_eq!((got.status.as_u16(), got.purchase, seller.asked().len()), (402, None, 1));
        assert_eq!(seller.asked()[0].headers["x402-payment"], proof);
    }
    assert_eq!((market.wallet.prepared(), market.journal.entries().len()), (0, 0));
}

fn streaming() -> Body {
    Body::once(StreamBody::new(stream::iter([Ok::<_, String>(Frame::data(Bytes::from("streamed")))])))
}

#[tokio::test(start_paused = true)]
async fn a_body_that_is_sent_once_reaches_what_is_free_and_pays_nothing() {
    let market = Market::open().await;
    let layer = market.layer().await;
    let post = |body| Request::post("https://seller.example/answer").body(body).unwrap();
    let free = Seller::new(|asked| reply(200, &[], String::from_utf8_lossy(&asked.body)));
    assert_eq!(ask(&layer, &free, post(streaming())).await.unwrap().text, "streamed");
    let priced = Seller::honest();
    let error = ask(&layer, &priced, post(streaming())).await.unwrap_err();
    assert!(error.kind() == PayErrorKind::NotReplayable, "{error}");
    assert_eq!((market.wallet.prepared(), priced.asked().len()), (0, 1));
    let made = || Body::from_factory("upload-1", streaming);
    let got = ask(&in_body(&market).await, &priced, post(made())).await.unwrap();
    assert_eq!(got.text, "the answer");
    assert!(redemption(&priced).proof.unwrap().2 && redemption(&priced).body == "streamed");
}

/// A body that could be had again when the money moved, and cannot now.
struct Fickle(Arc<std::sync::atomic::AtomicBool>);

impl http_body::Body for Fickle {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        std::task::Poll::Ready(None)
    }
}

impl tower_x402::client::ReplayBody for Fickle {
    fn replay(&self) -> Option<Self> {
        self.0.load(std::sync::atomic::Ordering::SeqCst).then(|| Self(Arc::clone(&self.0)))
    }

    fn bytes(&self) -> Option<Bytes> {
        None
    }

    fn name(&self) -> Option<&str> {
        Some("fickle")
    }

    fn from_bytes(_: Bytes) -> Option<Self> {
        None
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_is_gone_once_it_was_paid_for_names_the_payment() {
    let market = Market::open().await;
    let there = Arc::new(std::sync::atomic::AtomicBool::new(true));
    let seller = {
        tower::service_fn(move |_: Request<Fickle>| {
            let Reply::Answer(quote) = Bill::default().reply() else { unreachable!("it is one") };
            async move { Ok::<_, String>(quote) }
        })
    };
    let gone = Arc::clone(&there);
    let hook = Market::budget().approve(move |_| {
        gone.store(false, std::sync::atomic::Ordering::SeqCst);
        std::future::ready(true)
    });
    let builder = PayLayer::builder(market.wallet.clone(), hook.build().unwrap(), market.journal.clone());
    let layer = builder.clock(market.shop.clock.clone()).build().await.unwrap();
    let request = Request::post("https://seller.example/answer").body(Fickle(there)).unwrap();
    let error = layer.layer(seller).oneshot(request).await.unwrap_err();
    assert_eq!(market.wallet.transfers(), 1);
    assert!(error.transaction().is_some() && error.is_resumable(), "{error}");
    assert!(!error.to_string().contains("nothing was paid"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_payment_made_elsewhere_is_redeemed_and_not_repeated() {
    let market = Market::open().await;
    let (layer, paid) = (market.layer().await, market.shop.pay(490_000));
    let request = || {
        let mut request = question("{}");
        request.extensions_mut().insert(AlreadyPaid(paid));
        request
    };
    let got = call(&layer.layer(market.seller()), request()).await.unwrap();
    let purchase = got.purchase.unwrap();
    assert_eq!((purchase.transaction, purchase.payer, purchase.token, purchase.sent), (Some(paid), None, None, 0));
    let error = call(&layer.layer(market.seller()), request()).await.unwrap_err();
    assert!((error.kind(), error.reason()) == (PayErrorKind::Refused, Some("tx_already_used")), "{error}");
    assert_eq!((market.wallet.prepared(), layer.unfinished().len()), (0, 0));
}

/// A layer without a wallet redeems what it is told, and nothing else.
#[tokio::test(start_paused = true)]
async fn a_layer_that_only_redeems_pays_nothing() {
    let market = Market::open().await;
    let layer = PayLayer::redeem_only().clock(market.shop.clock.clone()).build().await.unwrap();
    let client = layer.layer(market.seller());
    let error = call(&client, question("{}")).await.unwrap_err();
    assert!(error.kind() == PayErrorKind::Declined && error.transaction().is_none(), "{error}");
    let mut request = question("{}");
    let paid = market.shop.pay(490_000);
    request.extensions_mut().insert(AlreadyPaid(paid));
    assert_eq!(call(&client, request).await.unwrap().purchase.unwrap().transaction, Some(paid));
    assert!(layer.unfinished().is_empty() && layer.spent().is_zero());
}

/// What cannot be finished is shown, and forgotten only by who says so twice: the money may be gone.
#[tokio::test]
async fn the_program_abandons_a_purchase_after_saying_what_that_means() {
    let (market, folder) = (Market::open().await, tempfile::tempdir().unwrap());
    let path = folder.path().join("purchases.jsonl");
    let builder = PayLayer::builder(market.wallet.clone(), Market::budget().build().unwrap(), MemoryJournal::new());
    let builder = builder.journal(FileJournal::open(&path).await.unwrap()).clock(market.shop.clock.clone());
    let layer = builder.build().await.unwrap();
    ask(&layer, &Seller::paid(|_| reply(303, &[], "")), question("{}")).await.unwrap_err();
    let id = layer.unfinished()[0].id.to_string();
    drop(layer);
    let program = async |flags: &[&str]| {
        let flags = [&["buy", "--journal", path.to_str().unwrap()], flags].concat();
        crate::buy::buy(flags.into_iter().map(Into::into)).await
    };
    let open = async || FileJournal::open(&path).await.unwrap().load().await.unwrap()[0].state.is_open();
    assert_eq!((program(&["--unfinished"]).await, open().await), (0, true));
    assert_eq!((program(&["--abandon", &id]).await, open().await), (1, true));
    assert_eq!((program(&["--abandon", &"00".repeat(16), "--yes"]).await, open().await), (1, true));
    assert_eq!((program(&["--abandon", &id, "--yes"]).await, open().await), (0, false));
    assert_eq!(program(&["--abandon", &id, "--yes"]).await, 1);
    assert_eq!(program(&[]).await, 2, "without it there is an address to name");
}

/// Named again, it is the same purchase: nothing is left open behind the one that is answered.
#[tokio::test(start_paused = true)]
async fn a_payment_made_elsewhere_is_one_purchase_however_often_it_is_named() {
    let market = Market::open().await;
    let layer = market.layer().await;
    let seller = Seller::paid(|asked| if asked.proofs < 2 { reply(303, &[], "") } else { sold() });
    for attempt in 1..=3 {
        let mut request = question("{}");
        request.extensions_mut().insert(AlreadyPaid(market.shop.chain.pay(
            crate::support::recipient(),
            tower_x402::protocol::Asset::USDC_BASE.contract(),
            crate::support::payer(),
            tower_x402::protocol::Amount::from_base_units(490_000),
            tower_x402::protocol::ChainTime::from_unix(NOW),
        )));
        let paid = *request.extensions().get::<AlreadyPaid>().unwrap();
        for _ in 0..3 {
            let mut again = question("{}");
            again.extensions_mut().insert(paid);
            if ask(&layer, &seller, again).await.is_ok() {
                break;
            }
        }
        assert!(layer.unfinished().is_empty(), "after payment {attempt}: {:?}", layer.unfinished());
    }
    assert_eq!(market.wallet.prepared(), 0);
}

#[tokio::test(start_paused = true)]
async fn who_only_resumes_begins_nothing() {
    let market = Market::open().await;
    let (layer, seller) =
        (market.layer().await, Seller::paid(|asked| if asked.proofs == 0 { reply(307, &[], "") } else { sold() }));
    let resume = || {
        let mut request = question("{}");
        request.extensions_mut().insert(ResumeOnly);
        request
    };
    assert!(ask(&layer, &seller, resume()).await.is_err_and(|error| error.kind() == PayErrorKind::NothingToResume));
    assert!(seller.asked().is_empty());
    ask(&layer, &seller, question("{}")).await.unwrap_err();
    assert_eq!(ask(&layer, &seller, resume()).await.unwrap().text, "the answer");
    assert!(ask(&layer, &seller, resume()).await.is_err_and(|error| error.kind() == PayErrorKind::NothingToResume));
    assert_eq!(market.wallet.transfers(), 1);
}

/// The service finds fault with a request that was paid for: the corrected one costs nothing more.
#[tokio::test(start_paused = true)]
async fn a_corrected_request_is_paid_with_what_was_not_spent() {
    let market = Market::open().await;
    let layer = market.layer().await;
    let client = layer.layer(market.seller_of(|request| {
        let declines = request.headers().contains_key("x-wrong");
        Response::builder()
            .status(if declines { 400 } else { 200 })
            .body(if declines { "wrong" } else { "right" }.into())
            .unwrap()
    }));
    let mut wrong = question(r#"{"query":"worng"}"#);
    wrong.headers_mut().insert("x-wrong", "1".parse().unwrap());
    let got = call(&client, wrong).await.unwrap();
    assert_eq!((got.status.as_u16(), got.text.as_str()), (400, "wrong"));
    let purchase = got.purchase.unwrap();
    assert_eq!((purchase.state, purchase.confirmed), (PurchaseState::Unspent, false));
    let got = call(&client, question(r#"{"query":"wrong"}"#)).await.unwrap();
    assert_eq!((got.text.as_str(), got.purchase.unwrap().id), ("right", purchase.id));
    assert_eq!((market.wallet.transfers(), market.journal.entries().len()), (1, 1));
    call(&client, question(r#"{"query":"wrong"}"#)).await.unwrap();
    assert_eq!(market.wallet.transfers(), 2);
}

/// So it is where the seller's layer finds the fault.
#[tokio::test(start_paused = true)]
async fn what_the_seller_could_not_read_is_not_spent_either() {
    for code in ProblemCode::ALL.iter().copied().filter(|code| code.retry() == RetryRule::Correct) {
        let market = Market::open().await;
        let wrong = move |asked: &Asked| {
            if asked.body == "{}" { problem(code.status().as_u16(), code.as_str(), &[]) } else { sold() }
        };
        let (layer, seller) = (market.layer().await, Seller::paid(wrong));
        let error = ask(&layer, &seller, question("{}")).await.unwrap_err();
        assert!(error.kind() == PayErrorKind::Misunderstood && error.is_resumable(), "{error}");
        assert_eq!(ask(&layer, &seller, question(r#"{"query":"why"}"#)).await.unwrap().text, "the answer");
        assert_eq!(market.wallet.transfers(), 1, "{code}");
    }
}

/// Nothing was taken for an answer that the seller withholds: asking again pays nothing, and asking for less uses the payment.
#[tokio::test(start_paused = true)]
async fn an_answer_too_large_to_sell_spends_nothing() {
    let market = Market::open().await;
    let layer = market.layer().await;
    let too_large = Seller::paid(|_| problem(502, "answer_too_large", &[]));
    for _ in 0..2 {
        let error = ask(&layer, &too_large, question("{}")).await.unwrap_err();
        assert!(error.kind() == PayErrorKind::Misunderstood && error.is_resumable(), "{error}");
    }
    let got = ask(&layer, &Seller::honest(), question("[2]")).await.unwrap();
    assert_eq!((got.text.as_str(), market.wallet.transfers()), ("the answer", 1));
    assert!(layer.unfinished().is_empty());
}

/// Of two requests that come at once one has it, and the other pays; a budget that is used up does not matter to the one.
#[tokio::test(start_paused = true)]
async fn what_was_not_spent_pays_for_one_request_only() {
    let market = Market::open().await;
    let layer = market.layer().await;
    ask(&layer, &Seller::paid(|_| reply(400, &[], "no")), question("{}")).await.unwrap();
    let seller = Seller::honest();
    let two = tokio::join!(ask(&layer, &seller, question("[1]")), ask(&layer, &seller, question("[2]")));
    assert!(two.0.is_ok() && two.1.is_ok());
    assert_eq!((market.wallet.transfers(), layer.unfinished().len()), (2, 0));

    let market = Market::open().await;
    let budget = tower_x402::client::Budget::in_assets([tower_x402::protocol::Asset::USDC_BASE]);
    let budget = budget.per_payment("0.49").per_day("0.49").build().unwrap();
    let builder = PayLayer::builder(market.wallet.clone(), budget, market.journal.clone());
    let layer = builder.clock(market.shop.clock.clone()).build().await.unwrap();
    ask(&layer, &Seller::paid(|_| reply(400, &[], "no")), question("{}")).await.unwrap();
    assert_eq!(ask(&layer, &seller, question("[1]")).await.unwrap().text, "the answer");
    assert!(ask(&layer, &seller, question("[1]")).await.is_err_and(|error| error.kind() == PayErrorKind::Declined));
    assert_eq!(market.wallet.transfers(), 1);
}

/// A payment that was left over is none of the next request's, if it turns out to be used up or too old.
#[tokio::test(start_paused = true)]
async fn what_was_not_spent_and_cannot_be_any_more_does_not_end_the_next_request() {
    let market = Market::open().await;
    let layer = market.layer().await;
    ask(&layer, &Seller::paid(|_| reply(400, &[], "no")), question("[1]")).await.unwrap();
    let left_over = market.journal.entries()[0].transaction.unwrap().to_string();
    let refuses_the_old = move |asked: &Asked| {
        let is_old = asked.proof.as_ref().is_some_and(|(_, transaction, _)| *transaction == left_over);
        if is_old { problem(422, "payment_too_old", &[]) } else { sold() }
    };
    let got = ask(&layer, &Seller::paid(refuses_the_old), question("[2]")).await.unwrap();
    assert_eq!((got.text.as_str(), market.wallet.transfers()), ("the answer", 2));
    let refused = market.journal.entries().iter().filter(|entry| entry.state == PurchaseState::Refused).count();
    assert_eq!((refused, layer.unfinished().len()), (1, 0));
}

/// A refusal closes a payment only under its own status: a service may say the same words of something else.
#[tokio::test(start_paused = true)]
async fn the_services_own_use_of_a_refusals_words_closes_no_payment() {
    let market = Market::open().await;
    let layer = market.layer().await;
    let seller = Seller::paid(|_| problem(400, "transfer_not_found", &[]));
    let got = ask(&layer, &seller, question("{}")).await.unwrap();
    assert_eq!((got.status.as_u16(), got.purchase.unwrap().state), (400, PurchaseState::Unspent));
    assert_eq!(ask(&layer, &Seller::honest(), question("{}")).await.unwrap().text, "the answer");
    assert_eq!(market.wallet.transfers(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_is_not_enough_or_for_another_is_not_used() {
    let others = [
        (Bill::of("490001"), "https://seller.example/other"),
        (
            Bill { recipient: "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC".into(), ..Bill::default() },
            "https://seller.example/other",
        ),
        (Bill::default(), "https://another.example/other"),
    ];
    for (bill, uri) in others {
        let market = Market::open().await;
        let (layer, declining) = (market.layer().await, Seller::paid(|_| reply(400, &[], "no")));
        ask(&layer, &declining, question("{}")).await.unwrap();
        let seller = Seller::new(move |asked| if asked.proof.is_some() { sold() } else { bill.reply() });
        ask(&layer, &seller, Request::get(uri).body(Body::empty()).unwrap()).await.unwrap();
        assert_eq!((market.wallet.transfers(), layer.unfinished().len()), (2, 1));
    }
}

/// The sealing key is another by the time that the payment is redeemed: the seller's fresh intent takes its place.
#[tokio::test(start_paused = true)]
async fn a_fresh_intent_is_redeemed_with_the_same_payment() {
    let market = Market::open().await;
    let other = market.shop.sibling(|builder| builder.sealing_keys(SealingKeys::new([8; 32]))).await;
    let handler = |_: Request<tower_x402::RequestBody<Body>>| async {
        Ok::<_, std::convert::Infallible>(Response::new(text("sold")))
    };
    let (before, after) = (
        market.shop.layer().layer(tower::service_fn(handler)),
        other.charge("answer", crate::support::PRICE).unwrap().layer(tower::service_fn(handler)),
    );
    let asked = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let rotating = tower::service_fn(move |request: Request<Body>| {
        let first = asked.fetch_add(1, std::sync::atomic::Ordering::SeqCst) == 0;
        let seller = if first { before.clone() } else { after.clone() };
        seller.oneshot(request)
    });
    let got = call(&market.layer().await.layer(rotating), question("{}")).await.unwrap();
    assert_eq!((got.text.as_str(), got.purchase.unwrap().attempts, market.wallet.transfers()), ("sold", 2, 1));
}

/// A cache gives two payers one quote. The second one's payment bought nothing, and buys its answer under another intent.
#[tokio::test(start_paused = true)]
async fn a_payment_for_an_intent_that_another_used_buys_its_own_answer() {
    let market = Market::open().await;
    let seller = market.seller();
    let quote: Arc<Mutex<Option<(http::response::Parts, Bytes)>>> = Arc::default();
    let cached = tower::service_fn(move |request: Request<Body>| {
        let (seller, quote) = (seller.clone(), Arc::clone(&quote));
        async move {
            let is_plain = !request.headers().contains_key("x402-payment");
            let (parts, body) = seller.oneshot(request).await.unwrap().into_parts();
            let answer = (parts, body.collect().await.unwrap().to_bytes());
            let (parts, body) = if is_plain { quote.lock().unwrap().get_or_insert(answer).clone() } else { answer };
            Ok::<_, Infallible>(Response::from_parts(parts, Full::new(body)))
        }
    });
    for attempts in [1, 3] {
        let journal = MemoryJournal::new();
        let builder = PayLayer::builder(market.wallet.clone(), Market::budget().build().unwrap(), journal.clone());
        let layer = builder.clock(market.shop.clock.clone()).build().await.unwrap();
        let got = call(&layer.layer(cached.clone()), question("{}")).await.unwrap();
        let purchase = got.purchase.unwrap();
        assert_eq!((got.text.as_str(), purchase.attempts, purchase.confirmed), ("the answer", attempts, true));
        assert_eq!(journal.entries()[0].state, PurchaseState::Answered);
    }
    assert_eq!((market.wallet.transfers(), market.runs.runs()), (2, 2));
}

/// The seller is asked for another intent once: what it says then ends the purchase, and nothing more is paid.
#[tokio::test(start_paused = true)]
async fn a_payment_is_put_under_another_intent_once() {
    let fresh = |number| problem(400, "intent_required", &[("x-price-intent", &format!("fresh-{number}"))]);
    let alone: [fn(usize) -> Reply; 4] =
        [fresh, |_| Bill::default().reply(), |_| reply(200, &[], "free"), |_| problem(409, "already_consumed", &[])];
    for (number, alone) in alone.into_iter().enumerate() {
        for after in ["already_consumed", "tx_already_used"] {
            let market = Market::open().await;
            let layer = market.layer().await;
            let seller = Seller::new(move |asked| match &asked.proof {
                Some((intent, ..)) if intent == "intent-1" => problem(409, "already_consumed", &[]),
                Some(_) => problem(409, after, &[]),
                None if asked.headers.contains_key("x402-payment") => alone(asked.before),
                None => Bill::default().reply(),
            });
            let error = ask(&layer, &seller, question("{}")).await.unwrap_err();
            let said = (error.kind(), error.reason());
            assert_eq!(said, (PayErrorKind::Refused, Some("already_consumed")), "{number}, {after}");
            let requests = if number == 0 { 4 } else { 3 };
            assert_eq!((seller.asked().len(), market.wallet.transfers()), (requests, 1), "{number}, {after}");
            assert_eq!(market.journal.entries()[0].state, PurchaseState::Refused);
        }
    }
}

/// The seller committed the sale, and its answer was lost on the way: that is said, and nothing more is paid.
#[tokio::test(start_paused = true)]
async fn an_answer_that_was_lost_is_not_bought_again_in_the_same_call() {
    let market = Market::open().await;
    let seller = market.seller();
    let losing = tower::service_fn(move |request: Request<Body>| {
        let seller = seller.clone();
        async move {
            let answer = seller.oneshot(request).await.unwrap();
            if answer.headers().contains_key("payment-response") { Err("lost") } else { Ok(answer) }
        }
    });
    let error = call(&market.layer().await.layer(losing), question("{}")).await.unwrap_err();
    assert!((error.kind(), error.reason()) == (PayErrorKind::Refused, Some("already_consumed")), "{error}");
    assert!(error.transaction().is_some() && !error.is_resumable());
    assert_eq!((market.wallet.transfers(), market.runs.runs()), (1, 1));
}

fn pieces(parts: &'static [&'static str], trailers: bool) -> AnyBody {
    let mut frames: Vec<Result<Frame<Bytes>, String>> =
        parts.iter().map(|part| Ok(Frame::data(Bytes::from_static(part.as_bytes())))).collect();
    if trailers {
        let mut map = HeaderMap::new();
        map.insert("x-sum", "1".parse().unwrap());
        frames.push(Ok(Frame::trailers(map)));
    }
    any(StreamBody::new(stream::iter(frames)))
}

#[tokio::test(start_paused = true)]
async fn answers_are_handed_over_as_they_came() {
    static LONG: &[&str] = &["{", "\"a\":\"", concat!("0123456789abcdef", "0123456789abcdef"), "\"}"];
    for (status, json) in [(200, true), (200, false), (400, true), (400, false)] {
        for trailers in [false, true] {
            let market = Market::open().await;
            let seller = Seller::paid(move |_| {
                let kind = if json { "application/json" } else { "text/plain" };
                let response = Response::builder().status(status).header("content-type", kind);
                Reply::Answer(response.body(pieces(LONG, trailers)).unwrap())
            });
            let answer = market.layer().await.layer(seller).oneshot(question("{}")).await.unwrap();
            assert!(answer.extensions().get::<Purchase>().is_some() && !answer.body().is_end_stream());
            let body = answer.into_body().collect().await.unwrap();
            assert_eq!(body.trailers().is_some(), trailers, "{status}, {json}");
            assert_eq!(body.to_bytes(), LONG.concat());
        }
    }
    // What was read ahead has its size, and its end is noticed without another poll.
    let market = Market::open().await;
    let seller = Seller::paid(|_| reply(400, &[("content-type", "application/json")], "[1]"));
    let mut body = market.layer().await.layer(seller).oneshot(question("{}")).await.unwrap().into_body();
    assert_eq!((body.size_hint().exact(), body.is_end_stream()), (Some(3), false));
    body.frame().await.unwrap().unwrap();
    assert_eq!((body.size_hint().exact(), body.is_end_stream()), (Some(0), true));
    assert!(body.frame().await.is_none());
    // Longer than what is read ahead.
    let long = "x".repeat(100_000);
    let expected = long.clone();
    let seller = Seller::paid(move |_| reply(400, &[("content-type", "application/json")], long.clone()));
    let body = market.layer().await.layer(seller).oneshot(question("{}")).await.unwrap().into_body();
    assert_eq!(SizeHint::exact(&body.size_hint()), Some(100_000));
    assert_eq!(body.collect().await.unwrap().to_bytes(), expected);
}

/// Settings without bounds are patience without end, not a panic.
#[tokio::test(start_paused = true)]
async fn settings_without_bounds_are_taken() {
    let market = Market::open().await;
    let max = Duration::MAX;
    let layer = market
        .layer_with(|builder| {
            builder
                .patience(max)
                .answer_timeout(max)
                .longest_pause(max)
                .bump_after(max)
                .poll_every(max)
                .confirmations(0)
        })
        .await;
    let after = [("retry-after", "18446744073709551615")];
    let seller = Seller::paid(
        move |asked| if asked.proofs == 0 { problem(409, "redemption_in_progress", &after) } else { sold() },
    );
    let error = ask(&layer, &seller, question("{}")).await.err();
    assert!(error.as_ref().is_none_or(|error| error.kind() == PayErrorKind::Unanswered), "{error:?}");
    assert_eq!(market.wallet.transfers(), 1);
}
