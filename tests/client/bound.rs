//! Only the payer redeems: what is shown of a bound payment, and what is signed for it.

use std::error::Error as _;

use std::sync::{Arc, Mutex};

use http::header;
use serde_json::Value;
use tower::Layer as _;
use tower_x402::{
    Merchant,
    client::{
        AlreadyPaid, Body, PayError, PayErrorKind, PayLayer, Payer, PayerError, PreparedTransfer, ProofIn,
        PurchaseState, SubmitGuard, TransferRequest, TransferStatus,
    },
    protocol::{Address, IntentId, Network, PaymentSignature, SealingKeys, TxHash, redemption_message},
    testing::{ScriptedPayer, scripted_signature},
};

use super::{
    Market, buy, cause, question,
    rig::{Asked, Bill, Reply, Seller, ask, call, problem, reply, sold},
};
use crate::support::{KEY, payer, recipient};

/// The members of a proof as the seller reads them.
fn shown(asked: &Asked) -> Value {
    let bytes = asked.headers.get("x402-payment").map_or(&asked.body[..], header::HeaderValue::as_bytes);
    serde_json::from_slice(bytes).unwrap()
}

fn member(asked: &Asked, name: &str) -> Option<String> {
    shown(asked)[name].as_str().map(str::to_owned)
}

/// What the contract has signed for the proof that is shown.
fn message(asked: &Asked) -> String {
    let (intent, transaction, _) = asked.proof.clone().unwrap();
    redemption_message(Network::BASE, transaction.parse().unwrap(), &IntentId::new(intent).unwrap())
}

fn is_signed(asked: &Asked) -> bool {
    member(asked, "paymentSignature") == Some(scripted_signature(payer(), &message(asked)).to_string())
}

/// Quotes under intents that are secrets by the contract; `script` says the rest.
fn seller(script: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> Seller {
    Seller::new(move |asked| match asked.proof {
        Some(_) => script(asked),
        None => Bill { intent: intent(asked.before + 1), ..Bill::default() }.reply(),
    })
}

fn intent(number: usize) -> String {
    format!("an-intent-of-the-seller-{number}")
}

fn fresh(number: usize) -> Reply {
    problem(404, "intent_not_found", &[("x-price-intent", &intent(number))])
}

/// A seller that sells to who signed, and calls everything else bound.
fn suspicious(code: &'static str) -> Seller {
    seller(move |asked| if is_signed(asked) { sold() } else { problem(403, code, &[]) })
}

async fn paying_with(market: &Market, wallet: impl Payer) -> PayLayer {
    let builder = PayLayer::builder(wallet, Market::budget().build().unwrap(), market.journal.clone());
    builder.clock(market.shop.clock.clone()).build().await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn the_secret_is_shown_under_a_fresh_intent_only_and_beside_it() {
    for (place, in_header) in [(ProofIn::Header, true), (ProofIn::Body, false)] {
        let market = Market::open().await;
        let layer = market.layer_with(|builder| builder.proof_in(place)).await;
        let seller = seller(|asked| if asked.proofs == 0 { fresh(7) } else { sold() });
        assert_eq!(ask(&layer, &seller, question(r#"{"query":"why"}"#)).await.unwrap().text, "the answer");
        let [_, first, second] = &seller.asked()[..] else { panic!("{:?}", seller.asked()) };
        for (asked, intent, secret) in [(first, intent(1), None), (second, intent(7), Some(intent(1)))] {
            let (shown_intent, _, header) = asked.proof.clone().unwrap();
            assert_eq!((shown_intent, header, member(asked, "paymentSecret")), (intent, in_header, secret));
            assert!(shown(asked).get("paymentSignature").is_none(), "nobody asked for one");
            assert_eq!(serde_json::from_slice::<Value>(&asked.body).unwrap()["query"], "why");
        }
        assert_eq!(market.journal.entries()[0].secret.as_deref(), Some(&*intent(1)));
    }
}

/// A body whose own members have these names holds no proof of ours.
#[tokio::test(start_paused = true)]
async fn where_the_body_has_such_a_member_itself_the_proof_goes_in_the_header() {
    for name in ["paymentSecret", "paymentSignature"] {
        let market = Market::open().await;
        let layer = market.layer_with(|builder| builder.proof_in(ProofIn::Body)).await;
        let seller = seller(|_| sold());
        ask(&layer, &seller, question(&format!(r#"{{"{name}":"the service's own"}}"#))).await.unwrap();
        assert!(seller.asked()[1].headers.contains_key("x402-payment"), "{name}");
    }
}

/// A quote is lost: a restart, a seller's new key. The payment was made for it, and is redeemed under another.
#[tokio::test(start_paused = true)]
async fn a_lost_quote_loses_no_payment_with_a_real_seller() {
    let market = Market::open().await;
    // The wallet cannot sign: the secret must be enough.
    let layer = paying_with(&market, market.wallet.clone().signing(false)).await;
    let cannot = market.seller_of(|_| http::Response::builder().status(500).body("oh".into()).unwrap());
    assert_eq!(buy(&layer.layer(cannot), question("{}")).await.unwrap().0, "oh");
    let made_for = market.journal.entries().remove(0).intent;

    let other = Merchant::builder(recipient()).verifier(market.shop.chain.clone()).ledger(market.shop.faults.clone());
    let other = other.clock(market.shop.clock.clone()).sealing_keys(SealingKeys::new(KEY.map(|byte| byte + 1)));
    let other = other.require_bound().build().await.unwrap().charge("answer", crate::support::PRICE).unwrap();
    let seller = other.layer(tower::service_fn(async |_: http::Request<tower_x402::RequestBody<Body>>| {
        Ok::<_, std::convert::Infallible>(http::Response::new(http_body_util::Full::<bytes::Bytes>::from("sold")))
    }));
    // After a restart: what the transfer was made for is in the journal.
    let layer = paying_with(&market, market.wallet.clone().signing(false)).await;
    let (text, purchase) = buy(&layer.layer(seller), question("{}")).await.unwrap();
    assert_eq!((text.as_str(), purchase.unwrap().confirmed, market.wallet.transfers()), ("sold", true, 1));
    let entry = market.journal.entries().remove(0);
    assert!(entry.intent != made_for && entry.secret == Some(made_for));
}

/// What was not spent is put to another quote, and what it was made for is shown with it: no signature is needed.
#[tokio::test(start_paused = true)]
async fn a_left_over_payment_is_shown_with_what_it_was_made_for() {
    let market = Market::open().await;
    let layer = paying_with(&market, market.wallet.clone().signing(false)).await;
    let declining = market.seller_of(|_| http::Response::builder().status(400).body("no".into()).unwrap());
    assert_eq!(buy(&layer.layer(declining), question("[1]")).await.unwrap().0, "no");
    let made_for = market.journal.entries().remove(0).intent;
    let (text, _) = buy(&layer.layer(market.seller()), question("[2]")).await.unwrap();
    assert_eq!((text.as_str(), market.wallet.transfers()), ("the answer", 1));
    let entry = market.journal.entries().remove(0);
    assert!(entry.intent != made_for && entry.secret == Some(made_for));
}

#[tokio::test(start_paused = true)]
async fn who_is_asked_signs_once_for_each_intent_and_gets_the_answer() {
    for code in ["payment_bound", "payer_proof_required"] {
        for place in [ProofIn::Header, ProofIn::Body] {
            let market = Market::open().await;
            let events = Arc::new(Mutex::new(Vec::new()));
            let seen = Arc::clone(&events);
            let layer = market
                .layer_with(|builder| {
                    builder.proof_in(place).on_event(move |event| seen.lock().unwrap().push(event.name()))
                })
                .await;
            let seller = seller(move |asked| match asked.proofs {
                0 | 3 => problem(403, code, &[]),
                1 => problem(409, "tx_not_confirmed", &[("retry-after", "1")]),
                2 => fresh(7),
                _ => sold(),
            });
            assert_eq!(ask(&layer, &seller, question("{}")).await.unwrap().text, "the answer", "{code}");
            let signed: Vec<_> = seller.asked()[1..].iter().map(is_signed).collect();
            assert_eq!(signed, [false, true, true, false, true], "{code}: kept for one intent, made anew for another");
            let any =
                seller.asked()[1..].iter().map(|asked| member(asked, "paymentSignature").is_some()).collect::<Vec<_>>();
            assert_eq!(any, signed, "never one that was made for another intent");
            assert_eq!(events.lock().unwrap().iter().filter(|name| **name == "signing").count(), 2);
            assert_eq!(market.wallet.transfers(), 1);
        }
    }
}

/// With the layer of this crate: nothing is tagged, and only bound payments are taken.
#[tokio::test(start_paused = true)]
async fn an_untagged_payment_is_signed_for_with_a_real_seller() {
    let market = Market::open().await;
    let strict = market.shop.sibling(tower_x402::MerchantBuilder::require_bound).await;
    let runs = market.runs.clone();
    let handler = tower::service_fn(move |_: http::Request<tower_x402::RequestBody<Body>>| {
        runs.run();
        async {
            Ok::<_, std::convert::Infallible>(http::Response::new(http_body_util::Full::<bytes::Bytes>::from("sold")))
        }
    });
    let client = strict.charge("answer", crate::support::PRICE).unwrap().layer(handler);

    let mute = paying_with(&market, market.wallet.clone().tagged(false).signing(false)).await;
    let error = buy(&mute.layer(client.clone()), question("{}")).await.unwrap_err();
    assert!(unproven(&error, NO_SIGNER) && error.reason() == Some("payer_proof_required") && error.source().is_none());
    assert!(error.is_resumable() && error.transaction().is_some());
    // Another process, with a wallet that signs: the same payment.
    let signing = paying_with(&market, market.wallet.clone().tagged(false)).await;
    assert_eq!(buy(&signing.layer(client), question("{}")).await.unwrap().0, "sold");
    assert_eq!((market.wallet.transfers(), market.runs.runs()), (1, 1));
}

/// Whoever cannot prove it keeps the payment, and pays nothing more: neither for this request nor for another like it.
#[tokio::test(start_paused = true)]
async fn who_cannot_sign_keeps_the_payment_and_pays_nothing_more() {
    let market = Market::open().await;
    let layer = paying_with(&market, market.wallet.clone().signing(false)).await;
    let seller = suspicious("payment_bound");
    for request in ["{}", "{}", "[1]", "{}"] {
        let error = ask(&layer, &seller, question(request)).await.unwrap_err();
        let text = error.to_string();
        assert!(unproven(&error, NO_SIGNER) && error.is_resumable());
        assert!(
            text.contains("payment_bound")
                && text.contains("a payer that signs")
                && text.contains("nothing more was paid"),
            "{text}"
        );
        let entries = market.journal.entries();
        assert_eq!((entries.len(), entries[0].state, market.wallet.transfers()), (1, PurchaseState::Unspent, 1));
    }
    assert_eq!(seller.proofs(), 4, "shown once in each call");
    let layer = paying_with(&market, market.wallet.clone()).await;
    assert_eq!(ask(&layer, &seller, question("{}")).await.unwrap().text, "the answer");
    assert_eq!(market.wallet.transfers(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_seller_that_does_not_believe_the_signature_is_not_asked_for_ever() {
    for refusals in
        [["payment_bound"; 2], ["payment_bound", "payer_proof_required"], ["payment_bound", "invalid_signature"]]
    {
        let market = Market::open().await;
        let seller = seller(move |asked| problem(403, refusals[asked.proofs.min(1)], &[]));
        let error = ask(&market.layer().await, &seller, question("{}")).await.unwrap_err();
        assert!(unproven(&error, NOT_BELIEVED) && error.is_resumable(), "{error}");
        assert!(error.to_string().contains("contact the seller"), "{error}");
        assert_eq!((seller.proofs(), market.wallet.transfers()), (2, 1), "{refusals:?}");
    }
    // Refused before anything was signed: nothing is.
    let market = Market::open().await;
    let seller = seller(|_| problem(403, "invalid_signature", &[]));
    let error = ask(&market.layer().await, &seller, question("{}")).await.unwrap_err();
    assert!(
        !unproven(&error, NOT_BELIEVED) && error.kind() == PayErrorKind::Unproven && seller.proofs() == 1,
        "{error}"
    );
}

/// The same words under another status, or in a service's own answer, are none of the contract's.
#[tokio::test(start_paused = true)]
async fn only_the_contracts_own_words_are_signed_for() {
    for status in [200, 400, 401, 409, 422, 500] {
        let market = Market::open().await;
        let seller = seller(move |_| problem(status, "payment_bound", &[]));
        let _ = ask(&market.layer().await, &seller, question("{}")).await;
        assert!(seller.asked()[1..].iter().all(|asked| member(asked, "paymentSignature").is_none()), "{status}");
    }
}

/// A wallet that writes down what it is asked to sign, or fails to.
#[derive(Clone)]
struct Witness {
    inner: ScriptedPayer,
    fails: bool,
    signed: Arc<Mutex<Vec<String>>>,
}

impl Payer for Witness {
    async fn submit_guard(&self, network: Network) -> SubmitGuard {
        self.inner.submit_guard(network).await
    }

    async fn prepare(&self, payment: &TransferRequest) -> Result<PreparedTransfer, PayerError> {
        self.inner.prepare(payment).await
    }

    async fn send(&self, prepared: &PreparedTransfer) -> Result<TxHash, PayerError> {
        self.inner.send(prepared).await
    }

    async fn status(&self, prepared: &[PreparedTransfer]) -> Result<TransferStatus, PayerError> {
        self.inner.status(prepared).await
    }

    async fn replace(&self, prepared: &[PreparedTransfer]) -> Result<Option<PreparedTransfer>, PayerError> {
        self.inner.replace(prepared).await
    }

    async fn sign(&self, message: &str, account: Address) -> Result<Option<PaymentSignature>, PayerError> {
        self.signed.lock().unwrap().push(message.to_owned());
        if self.fails {
            return Err(PayerError::Unavailable("the signer is away"));
        }
        self.inner.sign(message, account).await
    }
}

fn witness(market: &Market, fails: bool) -> Witness {
    Witness { inner: market.wallet.clone(), fails, signed: Arc::default() }
}

/// Whatever a seller asks to have signed: what is signed names the payment that was made, on its chain, and the intent that is shown.
#[tokio::test(start_paused = true)]
async fn a_seller_gets_no_signature_for_anything_else() {
    let other = TxHash::new([0xbb; 32]);
    let wanted = redemption_message(Network::BASE, other, &IntentId::new("another").unwrap());
    for message in [wanted.clone(), wanted.replace("8453", "1"), "I owe you everything".to_owned()] {
        let market = Market::open().await;
        let body = serde_json::json!({"error": "payment_bound", "message": message, "txHash": other.to_string(), "intentId": "another", "chainId": 1});
        let seller = seller(move |_| {
            let json = [("content-type", "application/problem+json"), ("x-price-intent", "another")];
            reply(403, &json, body.to_string())
        });
        let wallet = witness(&market, false);
        let error = ask(&paying_with(&market, wallet.clone()).await, &seller, question("{}")).await.unwrap_err();
        assert!(unproven(&error, NOT_BELIEVED), "{error}");
        let paid = market.journal.entries()[0].transaction.unwrap();
        let ours = redemption_message(Network::BASE, paid, &IntentId::new(intent(1)).unwrap());
        assert_eq!(*wallet.signed.lock().unwrap(), [ours]);
    }
}

/// Nothing that would look like something else to who is shown what is signed.
#[tokio::test(start_paused = true)]
async fn an_intent_that_is_not_plain_is_not_signed() {
    for intent in ["with a space in it", "a:colon:and:more", "dots.dots.dots.dots"] {
        let market = Market::open().await;
        let seller = Seller::new(move |asked| match asked.proof {
            Some(_) => problem(403, "payment_bound", &[]),
            None => Bill { intent: intent.into(), ..Bill::default() }.reply(),
        });
        let wallet = witness(&market, false);
        let error = ask(&paying_with(&market, wallet.clone()).await, &seller, question("{}")).await.unwrap_err();
        assert!(error.kind() == PayErrorKind::Unproven && !unproven(&error, NOT_BELIEVED), "{intent}: {error}");
        assert!(wallet.signed.lock().unwrap().is_empty(), "{intent}");
    }
}

/// How the seller's doubt is told.
const NO_SIGNER: &str = "this payer does not sign";
const NOT_BELIEVED: &str = "the seller does not accept the payer's signature";

fn unproven(error: &PayError, says: &str) -> bool {
    error.kind() == PayErrorKind::Unproven && error.to_string().contains(says)
}

/// A signer that is away is an error of its own kind, and the purchase goes on where it was.
#[tokio::test(start_paused = true)]
async fn a_signer_that_is_away_delays_the_answer_and_no_more() {
    let market = Market::open().await;
    let (seller, wallet) = (suspicious("payer_proof_required"), witness(&market, true));
    let error = ask(&paying_with(&market, wallet).await, &seller, question("{}")).await.unwrap_err();
    assert!(unproven(&error, "the payer could not sign"), "{error}");
    let reason = error.source().unwrap();
    assert!(error.is_resumable() && reason.to_string() == "the signer is away", "{error}");
    assert_eq!(market.journal.entries()[0].state, PurchaseState::Redeeming, "under the same intent");
    assert_eq!(ask(&market.layer().await, &seller, question("{}")).await.unwrap().text, "the answer");
    assert_eq!(market.wallet.transfers(), 1);
}

/// What another account prepared is not signed for: the seller would not believe it.
#[tokio::test(start_paused = true)]
async fn what_another_wallet_paid_is_not_signed_for() {
    let market = Market::open().await;
    let seller = suspicious("payment_bound");
    let away = paying_with(&market, witness(&market, true)).await;
    ask(&away, &seller, question("{}")).await.unwrap_err();
    let stranger = ScriptedPayer::new(market.shop.chain.clone(), tower_x402::protocol::Address::new([0xee; 20]));
    let error = ask(&paying_with(&market, stranger).await, &seller, question("{}")).await.unwrap_err();
    assert!(error.kind() == PayErrorKind::Unproven && matches!(cause(&error), Some(PayerError::Foreign)), "{error}");
    assert!(ask(&market.layer().await, &seller, question("{}")).await.is_ok(), "by the right one it is redeemed yet");
}

/// Without a wallet nothing can be signed, and the error says what helps.
#[tokio::test(start_paused = true)]
async fn what_was_paid_elsewhere_is_signed_elsewhere() {
    let market = Market::open().await;
    let layer = PayLayer::redeem_only().clock(market.shop.clock.clone()).build().await.unwrap();
    let mut request = question("{}");
    request.extensions_mut().insert(AlreadyPaid(TxHash::new([3; 32])));
    let seller = suspicious("payment_bound");
    let error = call(&layer.layer(seller.clone()), request).await.unwrap_err();
    assert!(unproven(&error, NO_SIGNER), "{error}");
    assert_eq!(seller.proofs(), 1);
}
