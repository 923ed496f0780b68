//! Sellers that cheat those who pay them by signed authorization.

use std::time::Duration;

use serde_json::json;
use tower_x402::{
    client::{
        AuthorizationRequest, AuthorizationStatus, Authorizer, PayLayer, Payer, PayerError, PreparedAuthorization,
        PreparedTransfer, PurchaseState, ResumeOnly, SubmitGuard, TransferRequest, TransferStatus,
    },
    protocol::{Address, Amount, PaymentSignature, TokenDomain, v2::SignedAuthorization},
};

use super::*;

/// A free answer leaves an authorization over, which the seller settles when it is shown for the next request, and gives nothing for.
#[tokio::test(start_paused = true)]
async fn what_is_settled_while_it_is_shown_for_another_request_is_not_followed_by_another_payment() {
    let market = Market::open().await;
    let chain = market.shop.chain.clone();
    let seller = Seller::new(move |asked| match shown(asked) {
        None => demand(&[way("490000")]),
        Some(_) if asked.body == "{}" => reply(400, &[], "which?"),
        Some(payment) => {
            settle(&chain, &payment);
            settlement_failed("unexpected_settle_error")
        }
    });
    let layer = market.layer().await;
    assert_eq!(ask(&layer, &seller, question("{}")).await.unwrap().status.as_u16(), 400);
    for call in 1..=5 {
        let error = ask(&layer, &seller, question(r#"{"query":"why"}"#)).await.unwrap_err();
        assert!(error.transaction().is_some(), "{call}: {error}");
        assert!(error.is_resumable(), "{call}: {error}");
        assert_eq!((nonces(&seller).0.len(), market.wallet.authorizations_signed()), (1, 1), "{call}");
    }
}

/// The same, with the contract's own word for a payment that was used up before.
#[tokio::test(start_paused = true)]
async fn what_is_settled_while_it_is_shown_was_not_used_up_before() {
    let market = Market::open().await;
    let chain = market.shop.chain.clone();
    let seller = Seller::new(move |asked| match shown(asked) {
        None => demand(&[way("490000")]),
        Some(_) if asked.body == "{}" => reply(400, &[], "which?"),
        Some(payment) => {
            settle(&chain, &payment);
            super::super::rig::problem(409, "tx_already_used", &[])
        }
    });
    let layer = market.layer().await;
    assert_eq!(ask(&layer, &seller, question("{}")).await.unwrap().status.as_u16(), 400);
    let error = ask(&layer, &seller, question(r#"{"query":"why"}"#)).await.unwrap_err();
    assert!(error.kind() == PayErrorKind::Refused, "{error}");
    assert_eq!((nonces(&seller).0.len(), market.wallet.authorizations_signed()), (1, 1));
}

/// The same, asked for with the same request again.
#[tokio::test(start_paused = true)]
async fn what_is_settled_while_it_is_shown_again_is_not_followed_by_another_payment() {
    let market = Market::open().await;
    let chain = market.shop.chain.clone();
    let seller = seller(move |payment, shows| {
        if shows == 0 {
            return reply(400, &[], "which?");
        }
        settle(&chain, payment);
        settlement_failed("unexpected_settle_error")
    });
    let layer = market.layer().await;
    assert_eq!(ask(&layer, &seller, question("{}")).await.unwrap().status.as_u16(), 400);
    let error = ask(&layer, &seller, question("{}")).await.unwrap_err();
    assert!(error.transaction().is_some() && error.is_resumable(), "{error}");
    assert_eq!((nonces(&seller).0.len(), market.wallet.authorizations_signed()), (1, 1));
}

/// A seller may settle what it delivered an answer for without saying so: then the next answer is another purchase.
#[tokio::test(start_paused = true)]
async fn what_was_settled_for_an_answer_before_is_followed_by_another_payment() {
    let market = Market::open().await;
    let chain = market.shop.chain.clone();
    let first = std::sync::OnceLock::new();
    let seller = seller(move |payment, shows| match shows {
        0 => {
            let _ = (first.set(signed(payment).nonce), settle(&chain, payment));
            reply(200, &[], "the answer")
        }
        _ if first.get() == Some(&signed(payment).nonce) => {
            refusal("invalid_exact_evm_nonce_already_used", &[way("490000")])
        }
        _ => delivered(settle(&chain, payment)),
    });
    for paid in 1..=2 {
        assert_eq!(buy(&market, &seller).await.unwrap().text, "the answer");
        assert_eq!(market.wallet.authorizations_signed(), paid);
    }
    assert!(market.layer().await.unfinished().is_empty());
}

/// Whatever changes between the bill and the refusal, what was signed is signed.
#[tokio::test(start_paused = true)]
async fn a_refusal_with_other_terms_is_not_followed() {
    let others: [fn(&mut Value); 5] = [
        |way| way["payTo"] = json!(tower_x402::protocol::Address::new([0x66; 20])),
        |way| way["amount"] = json!("490001"),
        |way| way["amount"] = json!("1"),
        |way| way["asset"] = json!(tower_x402::protocol::Address::new([0x77; 20])),
        |way| way["network"] = json!("eip155:84532"),
    ];
    for (number, other) in others.into_iter().enumerate() {
        let market = Market::open().await;
        let seller = seller(move |_, shows| {
            let mut way = way("490000");
            other(&mut way);
            way["extra"]["intentId"] = json!(format!("intent-of-another-shop-{shows}"));
            refusal("invalid_payment_requirements", &[way])
        });
        for _ in 0..2 {
            let error = buy(&market, &seller).await.unwrap_err();
            assert!(error.kind() == PayErrorKind::Outstanding, "{number}: {error}");
        }
        assert_eq!((nonces(&seller).0.len(), market.wallet.authorizations_signed()), (1, 1), "{number}");
        for payment in seller.asked().iter().filter_map(shown) {
            let signed = signed(&payment);
            let to = (signed.to, signed.value.to_string());
            assert_eq!(to, (recipient(), "490000".to_owned()), "{number}");
            assert_eq!(payment.accepted.exact().unwrap().pay_to, recipient(), "{number}: shown under the bill's terms");
        }
    }
}

/// A relay may put another shop's intent under what was signed: the recipient stays the one that the budget allowed.
#[tokio::test(start_paused = true)]
async fn a_refusal_with_an_intent_of_another_shop_moves_no_other_money() {
    let market = Market::open().await;
    let seller = seller(|_, shows| {
        let mut way = way("490000");
        way["extra"]["intentId"] = json!(format!("intent-of-another-shop-{shows}"));
        refusal("invalid_payment_requirements", &[way])
    });
    let error = buy(&market, &seller).await.unwrap_err();
    assert!(error.kind() == PayErrorKind::Outstanding, "{error}");
    assert_eq!((nonces(&seller).0.len(), market.wallet.authorizations_signed()), (1, 1));
    assert!(nonces(&seller).1 <= 4, "shown {} times", nonces(&seller).1);
}

/// It refuses, waits, settles, and refuses again: what is open is not followed by another while it can be used, and is found once it was.
#[tokio::test(start_paused = true)]
async fn what_is_settled_ten_minutes_after_the_refusal_is_found() {
    let market = Market::open().await;
    let seller = Seller::new(|asked| {
        let mut long = way("490000");
        long["maxTimeoutSeconds"] = json!(3_600);
        let reason = if shown(asked).is_some() { "insufficient_funds" } else { "Payment required" };
        refusal(reason, &[long])
    });
    assert!(buy(&market, &seller).await.is_err_and(|error| error.kind() == PayErrorKind::Outstanding));
    let payment = seller.asked().iter().find_map(shown).unwrap();
    market.shop.clock.advance(Duration::from_secs(600));
    market.shop.chain.set_head(ChainTime::from_unix(NOW + 600));
    assert!(buy(&market, &seller).await.is_err_and(|error| error.kind() == PayErrorKind::Outstanding));
    let transaction = settle(&market.shop.chain, &payment);
    for call in 1..=5 {
        let error = buy(&market, &seller).await.unwrap_err();
        assert_eq!(error.transaction(), Some(transaction), "{call}: {error}");
        assert!(error.kind() == PayErrorKind::BilledAgain && error.is_resumable(), "{call}: {error}");
        assert_eq!((nonces(&seller).0.len(), market.wallet.authorizations_signed()), (1, 1), "{call}");
        // Long after its end: it was settled, and is never void.
        expire(&market);
    }
}

#[tokio::test(start_paused = true)]
async fn a_success_that_nobody_settled_is_the_answer_and_costs_one_signature() {
    let market = Market::open().await;
    let seller = seller(|_, _| delivered(TxHash::new([0xab; 32])));
    let got = buy(&market, &seller).await.unwrap();
    assert_eq!((got.text.as_str(), got.purchase.unwrap().state), ("the answer", PurchaseState::Answered));
    assert_eq!(market.wallet.authorizations_signed(), 1);
    // It may be settled yet, and counts.
    assert!(!market.layer().await.spent().is_zero());
}

#[tokio::test(start_paused = true)]
async fn a_redirect_gets_nothing_signed_elsewhere() {
    let market = Market::open().await;
    let seller = seller(|_, _| reply(307, &[("location", "https://elsewhere.example/answer")], ""));
    let error = buy(&market, &seller).await.unwrap_err();
    assert!(error.is_resumable(), "{error}");
    assert_eq!((nonces(&seller).0.len(), market.wallet.authorizations_signed()), (1, 1));
    assert!(seller.asked().iter().all(|asked| asked.uri.host() == Some("seller.example")));
}

/// 64 KiB are read of a bill; what is longer is none, in the header and in the body.
#[tokio::test(start_paused = true)]
async fn a_bill_of_any_size_is_read_up_to_a_limit() {
    for (ways, buys) in [(1, true), (150, true), (10_000, false)] {
        let market = Market::open().await;
        let chain = market.shop.chain.clone();
        let all: Vec<_> = (0..ways).map(|_| way("490000")).collect();
        let bill = all.clone();
        let seller = Seller::new(move |asked| match shown(asked) {
            Some(payment) => delivered(settle(&chain, &payment)),
            None => demand(&bill),
        });
        let got = buy(&market, &seller).await;
        assert_eq!(got.is_ok(), buys, "{ways}: {:?}", got.err());
        assert_eq!(market.wallet.authorizations_signed(), usize::from(buys), "{ways}");
    }
}

#[tokio::test(start_paused = true)]
async fn two_headers_with_bills_are_no_bill() {
    let market = Market::open().await;
    let seller = Seller::new(|_| {
        let Reply::Answer(mut answer) = demand(&[way("490000")]) else { unreachable!() };
        let other = answer.headers()["payment-required"].clone();
        answer.headers_mut().append("payment-required", other);
        Reply::Answer(answer)
    });
    let outcome = buy(&market, &seller).await;
    assert!(outcome.is_err() || outcome.unwrap().status.as_u16() == 402);
    assert_eq!(market.wallet.authorizations_signed(), 0);
}

/// A body that never ends is read up to a limit, and one that comes a byte in an hour until patience ends.
#[tokio::test(start_paused = true)]
async fn a_bill_without_an_end_is_not_read_for_ever() {
    use futures_util::{StreamExt as _, stream};
    use http_body_util::StreamBody;

    let piece = || Ok::<_, String>(http_body::Frame::data(bytes::Bytes::from_static(b"{\"x402Version\":1,")));
    for slow in [false, true] {
        let market = Market::open().await;
        let seller = Seller::new(move |_| {
            let pieces = stream::repeat_with(piece).then(move |piece| async move {
                if slow {
                    tokio::time::sleep(Duration::from_secs(3_600)).await;
                }
                piece
            });
            let body = super::super::rig::any(StreamBody::new(Box::pin(pieces)));
            let answer = http::Response::builder().status(402).header("content-type", "application/json");
            Reply::Answer(answer.body(body).unwrap())
        });
        let begun = tokio::time::Instant::now();
        let layer = market.layer().await;
        let client = tower::Layer::layer(&layer, seller.clone());
        let outcome = tower::ServiceExt::oneshot(client, question("{}")).await;
        assert_eq!(outcome.is_err(), slow, "the slow one is too late, the fast one is handed on as it is");
        assert!(begun.elapsed() <= Duration::from_secs(16 * 60), "{:?}", begun.elapsed());
        assert_eq!(market.wallet.authorizations_signed(), 0);
    }
}

/// Each of two calls at once is a purchase of its own, with a signature of its own.
#[tokio::test(start_paused = true)]
async fn two_calls_at_once_are_two_purchases() {
    let market = Market::open().await;
    let chain = market.shop.chain.clone();
    let seller = seller(move |payment, _| delivered(settle(&chain, payment)));
    let layer = market.layer().await;
    let (one, two) = tokio::join!(ask(&layer, &seller, question("{}")), ask(&layer, &seller, question("{}")));
    let transactions = [one, two].map(|got| got.unwrap().purchase.unwrap().transaction.unwrap());
    assert_ne!(transactions[0], transactions[1]);
    assert_eq!((nonces(&seller).0.len(), market.wallet.authorizations_signed()), (2, 2));
}

/// Of two calls at once, after one that was refused: one goes on with what is open, and the other is another purchase.
#[tokio::test(start_paused = true)]
async fn of_two_calls_at_once_one_resumes() {
    let market = Market::open().await;
    let chain = market.shop.chain.clone();
    let seller = seller(move |payment, shows| match shows {
        0 => refusal("insufficient_funds", &[way("490000")]),
        _ => delivered(settle(&chain, payment)),
    });
    let layer = market.layer().await;
    assert!(ask(&layer, &seller, question("{}")).await.is_err());
    let (one, two) = tokio::join!(ask(&layer, &seller, question("{}")), ask(&layer, &seller, question("{}")));
    assert!(one.is_ok() && two.is_ok());
    assert_eq!((nonces(&seller).0.len(), market.wallet.authorizations_signed()), (2, 2));
    let mut request = question("{}");
    request.extensions_mut().insert(ResumeOnly);
    assert!(ask(&layer, &seller, request).await.is_err_and(|error| error.kind() == PayErrorKind::NothingToResume));
}

/// A payer whose nodes take longer to answer than any call has patience.
struct Slow(tower_x402::testing::ScriptedPayer);

impl Payer for Slow {
    async fn submit_guard(&self, network: Network) -> SubmitGuard {
        self.0.submit_guard(network).await
    }

    async fn prepare(&self, payment: &TransferRequest) -> Result<PreparedTransfer, PayerError> {
        self.0.prepare(payment).await
    }

    async fn send(&self, prepared: &PreparedTransfer) -> Result<TxHash, PayerError> {
        self.0.send(prepared).await
    }

    async fn status(&self, prepared: &[PreparedTransfer]) -> Result<TransferStatus, PayerError> {
        self.0.status(prepared).await
    }

    async fn replace(&self, prepared: &[PreparedTransfer]) -> Result<Option<PreparedTransfer>, PayerError> {
        self.0.replace(prepared).await
    }

    async fn sign(&self, message: &str, account: Address) -> Result<Option<PaymentSignature>, PayerError> {
        self.0.sign(message, account).await
    }

    fn authorizations(&self) -> Option<&impl Authorizer> {
        Some(self)
    }
}

impl Authorizer for Slow {
    async fn authorizes(&self, _: &Asset, _: Amount) -> Result<Option<TokenDomain>, PayerError> {
        tokio::time::sleep(Duration::from_secs(20 * 60)).await;
        Ok(None)
    }

    async fn authorize(&self, request: &AuthorizationRequest) -> Result<SignedAuthorization, PayerError> {
        self.0.authorize(request).await
    }

    async fn authorization_status(
        &self,
        prepared: &PreparedAuthorization,
        since: ChainTime,
    ) -> Result<AuthorizationStatus, PayerError> {
        self.0.authorization_status(prepared, since).await
    }

    async fn prepare_cancellation(&self, authorized: &PreparedAuthorization) -> Result<PreparedTransfer, PayerError> {
        self.0.prepare_cancellation(authorized).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_bill_with_many_ways_does_not_hold_a_call_longer_than_its_patience() {
    let market = Market::open().await;
    let ways: Vec<_> = (0..100).map(|_| way("490000")).collect();
    let seller = Seller::new(move |_| demand(&ways));
    let budget = Market::budget().build().unwrap();
    let builder = PayLayer::builder(Slow(market.wallet.clone()), budget, market.journal.clone());
    let layer = builder.clock(market.shop.clock.clone()).build().await.unwrap();
    let begun = tokio::time::Instant::now();
    let error = ask(&layer, &seller, question("{}")).await.unwrap_err();
    assert!(error.kind() == PayErrorKind::TimedOut, "{error}");
    assert!(begun.elapsed() <= Duration::from_secs(16 * 60), "{:?}", begun.elapsed());
    assert!(market.journal.entries().is_empty());
}

/// A node that lost the block, or lies: what the chain once said was settled is not followed by another signature.
#[tokio::test(start_paused = true)]
async fn what_was_settled_once_is_not_signed_again_on_another_word() {
    let market = Market::open().await;
    let chain = market.shop.chain.clone();
    let seller = seller(move |payment, shows| {
        if shows == 0 {
            settle(&chain, payment);
        }
        refusal("invalid_exact_evm_nonce_already_used", &[way("490000")])
    });
    let transaction = buy(&market, &seller).await.unwrap_err().transaction().unwrap();
    market.shop.chain.forget(transaction);
    expire(&market);
    for call in 1..=3 {
        let error = buy(&market, &seller).await.unwrap_err();
        assert_eq!((error.transaction(), error.is_resumable()), (Some(transaction), true), "{call}: {error}");
        assert_eq!((nonces(&seller).0.len(), market.wallet.authorizations_signed()), (1, 1), "{call}");
    }
}
