//! One signed payment in each dialect: what its payer is charged and told, whatever the settler and the node do.

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::body::Body;
use http::{
    HeaderName, HeaderValue, Request,
    header::{AUTHORIZATION, WWW_AUTHENTICATE},
};
use serde_json::Value;
use tower_x402::{
    Merchant, Receipt, RequestBody, X402,
    ledger::MemoryLedger,
    protocol::{
        Address, Asset, ChainTime, Network, SealingKeys, TokenDomain, TxHash,
        headers::{PAYMENT_REQUIRED, PAYMENT_SIGNATURE, X_PAYMENT},
        v1,
        v2::{Authorization, PaymentPayload, Reason, SchemePayload, SignedAuthorization},
    },
    settle::{SettleError, Settlement, Settler, SignedPayment, TransactionRecorder, Validity},
    testing::{FakeClock, ScriptedSettler, ScriptedVerifier, Settling},
    verify::{NonceState, Signatures as _},
};

use super::{Stall, authorization, made_from, pays, requirements, sign};
use crate::support::{Answer, Counter, Handler, NOW, ask, echo, faults::ok, layered, mpp, post, read, recipient};

const QUESTION: &str = r#"{"query":"why"}"#;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dialect {
    V2,
    V1,
    Mpp,
}

impl Dialect {
    const ALL: [Self; 3] = [Self::V2, Self::V1, Self::Mpp];

    /// A payment for a new quote: the header that shows it, and the authorization.
    async fn pay(self, service: &X402<impl Handler>) -> (HeaderName, HeaderValue, SignedAuthorization) {
        let quote = ask(service, post(QUESTION)).await;
        let offer = requirements(&quote);
        let challenge = mpp::parameters(quote.headers()[WWW_AUTHENTICATE].to_str().unwrap());
        let payment = sign(&offer, authorization(&offer, mpp::nonces(&challenge)[0]));
        let signed = signed(&payment);
        let (name, value) = match self {
            Self::V2 => (PAYMENT_SIGNATURE, payment.to_header()),
            Self::V1 => (X_PAYMENT, v1::PaymentPayload::new(offer.network, signed.clone()).to_header()),
            Self::Mpp => (AUTHORIZATION, mpp::by_authorization(&challenge, &signed).parse().unwrap()),
        };
        (name, value, signed)
    }
}

fn signed(payment: &PaymentPayload) -> SignedAuthorization {
    let SchemePayload::Authorization(signed) = &payment.payload else { panic!("signed") };
    signed.clone()
}

fn shown((name, value, _): &(HeaderName, HeaderValue, SignedAuthorization)) -> Request<Body> {
    let mut request = post(QUESTION);
    request.headers_mut().insert(name.clone(), value.clone());
    request
}

/// Status and code; whether it asks for another payment, in any dialect.
async fn told(answer: Answer) -> (u16, String, bool) {
    let asks = [WWW_AUTHENTICATE, PAYMENT_REQUIRED].iter().any(|name| answer.headers().contains_key(name));
    let (status, body) = read(answer).await;
    let code = body["error"].as_str().unwrap_or_default().to_owned();
    (status.as_u16(), code, asks || body.get("accepts").is_some())
}

/// Whatever the settler does and says, a payment is made once, buys one answer, and no other is asked for while it may still be made.
#[tokio::test(start_paused = true)]
async fn a_settler_that_lies_costs_no_more_than_one_price_in_any_dialect() {
    let refused = || Reason::INSUFFICIENT_FUNDS;
    for dialect in Dialect::ALL {
        for (settling, status) in [
            (Settling::Settled, 200),
            (Settling::SettledUnsure, 200),
            (Settling::SettledUnheard, 200),
            (Settling::SettledHanging, 200),
            (Settling::SettledDenied(refused()), 200),
            (Settling::Refused(refused()), 402),
            (Settling::Unknown, 503),
            (Settling::Held, 503),
            (Settling::Hanging, 503),
            (Settling::Invented, 503),
            (Settling::Claimed(TxHash::new([9; 32])), 503),
        ] {
            let stall = Stall::open_with(|builder| builder.mpp("api.example.com")).await;
            let counter = Counter::default();
            let service = layered(&stall.shop.layer(), echo(counter.clone()));
            let payment = dialect.pay(&service).await;
            stall.settler.script([settling.clone()]);
            let what = format!("{dialect:?} {settling:?}");
            let first = told(ask(&service, shown(&payment)).await).await;
            assert_eq!((first.0, first.2), (status, status == 402), "{what}: {first:?}");
            let mut answers = usize::from(status == 200);
            for _ in 0..3 {
                stall.lease_runs_out();
                stall.settler.release();
                let again = told(ask(&service, shown(&payment)).await).await;
                answers += usize::from(again.0 == 200);
                assert!(!again.2, "{what}: {again:?}");
            }
            // Without a quote, all that is shown is public by then: its payer says by a signature that it is the payer.
            let by_payer = dialect == Dialect::V1 && status == 503;
            assert_eq!(answers, usize::from(!by_payer), "{what}");
            assert!(stall.settler.settlements() <= 2, "{what}");
            let Authorization { from, nonce, .. } = payment.2.authorization;
            let (token, since) = (Asset::USDC_BASE.contract(), ChainTime::from_unix(0));
            let charged = stall.shop.chain.nonce_state(token, from, &nonce, since).await.unwrap();
            assert!(charged != NonceState::Unused || by_payer, "{what}");
        }
    }
}

/// A settler that does not tell its tokens for a while.
#[derive(Clone)]
struct Silent {
    settler: ScriptedSettler,
    /// How often yet.
    left: Arc<AtomicUsize>,
}

impl Settler for Silent {
    async fn domain(
        &self,
        network: Network,
        token: Address,
        stated: Option<&TokenDomain>,
    ) -> Result<Option<TokenDomain>, SettleError> {
        let counts_down = |left: usize| left.checked_sub(1);
        match self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, counts_down) {
            Ok(_) => Err(SettleError::unavailable()),
            Err(_) => self.settler.domain(network, token, stated).await,
        }
    }

    async fn verify(&self, payment: &SignedPayment) -> Result<Validity, SettleError> {
        self.settler.verify(payment).await
    }

    async fn settle(&self, payment: &SignedPayment, recorder: &TransactionRecorder) -> Settlement {
        self.settler.settle(payment, recorder).await
    }

    async fn health(&self) -> Result<(), SettleError> {
        self.settler.health().await
    }
}

/// A replica that was just started asks what the tokens are twice for one payment, and the first question is not answered. The payment is
/// on its way already.
#[tokio::test(start_paused = true)]
async fn a_payment_whose_token_is_not_known_yet_is_not_billed_anew() {
    for dialect in Dialect::ALL {
        let stall = Stall::open_with(|builder| builder.mpp("api.example.com")).await;
        let service = layered(&stall.shop.layer(), echo(Counter::default()));
        let payment = dialect.pay(&service).await;
        stall.settler.script([Settling::Held]);
        assert_eq!(ask(&service, shown(&payment)).await.status(), 503);
        stall.lease_runs_out();

        let silent = Silent { settler: stall.settler.clone(), left: Arc::new(AtomicUsize::new(1_000)) };
        let replica = stall.shop.sibling(|builder| builder.mpp("api.example.com").settler(silent.clone())).await;
        let service = layered(&replica.charge("answer", crate::support::PRICE).unwrap(), echo(Counter::default()));
        silent.left.store(1, Ordering::SeqCst);
        let answer = told(ask(&service, shown(&payment)).await).await;
        assert_eq!(answer, (503, "verification_unavailable".to_owned(), false), "{dialect:?}");
        // From then on it is known; nothing was forgotten.
        stall.settler.release();
        let answer = told(ask(&service, shown(&payment)).await).await;
        assert_eq!((answer.0, answer.2), (if dialect == Dialect::V1 { 403 } else { 200 }, false), "{dialect:?}");
        assert_eq!(stall.settler.settlements(), 1);
    }
}

/// A settler of two tokens, which knows for which of them a signature is.
#[derive(Clone)]
struct TwoTokens {
    settler: ScriptedSettler,
    signed_for: Option<Address>,
}

const OTHER: Address = Address::new([7; 20]);

impl Settler for TwoTokens {
    async fn domain(
        &self,
        _: Network,
        token: Address,
        _: Option<&TokenDomain>,
    ) -> Result<Option<TokenDomain>, SettleError> {
        Ok(Some(TokenDomain::new(token, if token == OTHER { "EURC" } else { "USD Coin" }, "2")))
    }

    async fn verify(&self, payment: &SignedPayment) -> Result<Validity, SettleError> {
        if self.signed_for.is_some_and(|token| token != payment.domain.token) {
            return Ok(Validity::Refused(Reason::INVALID_EXACT_EVM_PAYLOAD_SIGNATURE));
        }
        self.settler.verify(payment).await
    }

    fn is_signed_by_key(&self, payment: &SignedPayment) -> bool {
        self.signed_for == Some(payment.domain.token)
    }

    async fn settle(&self, payment: &SignedPayment, recorder: &TransactionRecorder) -> Settlement {
        self.settler.settle(payment, recorder).await
    }

    async fn health(&self) -> Result<(), SettleError> {
        self.settler.health().await
    }
}

/// Version 1 does not name the token: the signature does, and a contract's counts for the first.
#[tokio::test]
async fn the_signature_of_version_1_chooses_between_two_tokens() {
    let usdc = Asset::USDC_BASE.contract();
    for (signed_for, taken) in [(Some(usdc), usdc), (Some(OTHER), OTHER), (None, usdc)] {
        let clock = FakeClock::new(NOW);
        let chain = ScriptedVerifier::new(ChainTime::from_unix(NOW));
        let settler = TwoTokens { settler: ScriptedSettler::new(chain), signed_for };
        let merchant = Merchant::builder(recipient())
            .settler(settler.clone())
            .asset(Asset::USDC_BASE)
            .asset(Asset::new(Network::BASE, OTHER, 6, "EURC"))
            .ledger(MemoryLedger::with_clock(clock.clone()))
            .clock(clock)
            .sealing_keys(SealingKeys::new([7; 32]))
            .build()
            .await
            .unwrap();
        let seen = tower::service_fn(move |request: Request<RequestBody<Body>>| {
            let receipt = request.extensions().get::<Receipt>().expect("paid").clone();
            async move {
                assert_eq!(receipt.token(), taken);
                Ok::<_, Infallible>(ok())
            }
        });
        let service = layered(&merchant.charge("answer", crate::support::PRICE).unwrap(), seen);
        let quote = ask(&service, post(QUESTION)).await;
        let offer = requirements(&quote);
        let (_, body) = read(quote).await;
        let assets: Vec<_> = body["accepts"].as_array().unwrap().iter().map(|way| way["asset"].clone()).collect();
        assert_eq!(assets, [usdc, OTHER].map(|token| Value::from(token.to_string())));
        let signed = signed(&pays(&offer));
        let payment = v1::PaymentPayload::new(offer.network, signed.clone()).to_header();
        let header = (X_PAYMENT, payment, signed);
        let answer = ask(&service, shown(&header)).await;
        assert_eq!(answer.status(), 200, "{signed_for:?}");
        let told = super::settled(&answer);
        assert!(told.success && settler.settler.settlements() == 1);
        // The same for the other token would be another payment, which nobody signed.
        assert_eq!(told_code(&service, &header).await, 409, "{signed_for:?}");
        assert_eq!(settler.settler.settlements(), 1);
    }
}

async fn told_code(service: &X402<impl Handler>, header: &(HeaderName, HeaderValue, SignedAuthorization)) -> u16 {
    ask(service, shown(header)).await.status().as_u16()
}

/// A proxy must not hand on a payment that was not asked for, either.
#[tokio::test]
async fn a_credential_is_taken_out_of_free_requests_as_well() {
    for own in [false, true] {
        let mpp = tower_x402::Mpp::new("api.example.com");
        let mpp = if own { mpp.own_header() } else { mpp };
        let name = if own { tower_x402::protocol::headers::PAYMENT_AUTHORIZATION } else { AUTHORIZATION };
        let stall = Stall::open_with(|builder| builder.mpp(mpp)).await;
        let free = name.clone();
        let seen = tower::service_fn(move |request: Request<RequestBody<Body>>| {
            let shown: Vec<_> = request.headers().get_all(&free).iter().cloned().collect();
            async move {
                assert_eq!(shown, ["Bearer abc"]);
                Ok::<_, Infallible>(ok())
            }
        });
        let layer = stall.shop.layer().strip_proof().allow_preflight().free_when(|method, _, _| *method == "GET");
        let service = layered(&layer, seen);
        for method in ["GET", "OPTIONS"] {
            let request = Request::builder()
                .method(method)
                .uri("/answer")
                .header("origin", "https://shop.example")
                .header("access-control-request-method", "POST")
                .header(&name, "Payment e30")
                .header(&name, "Bearer abc");
            assert_eq!(ask(&service, request.body(Body::empty()).unwrap()).await.status(), 200, "{method}");
        }
    }
}

/// What was sold under one dialect, or may still be settled, buys nothing under another, and is not billed there.
#[tokio::test(start_paused = true)]
async fn a_payment_that_may_be_made_is_not_billed_in_another_dialect() {
    for held in Dialect::ALL {
        let stall = Stall::open_with(|builder| builder.mpp("api.example.com")).await;
        let service = layered(&stall.shop.layer(), echo(Counter::default()));
        let quote = ask(&service, post(QUESTION)).await;
        let offer = requirements(&quote);
        let challenge = mpp::parameters(quote.headers()[WWW_AUTHENTICATE].to_str().unwrap());
        let payment = sign(&offer, authorization(&offer, mpp::nonces(&challenge)[1]));
        let signed = signed(&payment);
        let old = v1::PaymentPayload::new(offer.network, signed.clone()).to_header();
        let new: HeaderValue = mpp::by_authorization(&challenge, &signed).parse().unwrap();
        let all = [
            (Dialect::V2, (PAYMENT_SIGNATURE, payment.to_header(), signed.clone())),
            (Dialect::V1, (X_PAYMENT, old, signed.clone())),
            (Dialect::Mpp, (AUTHORIZATION, new, signed.clone())),
        ];
        stall.settler.script([Settling::Held]);
        let first = all.iter().find(|(dialect, _)| *dialect == held).unwrap();
        assert_eq!(told(ask(&service, shown(&first.1)).await).await.0, 503);
        for pause in [0, 61, 61] {
            stall.shop.clock.advance(Duration::from_secs(pause));
            for (dialect, header) in &all {
                // Under its own intent it would be gone on with, in either dialect that names one.
                if pause == 0 || (*dialect == Dialect::V1) != (held == Dialect::V1) {
                    let answer = told(ask(&service, shown(header)).await).await;
                    assert!(answer.0 == 409 && !answer.2, "{held:?} then {dialect:?}: {answer:?}");
                }
            }
        }
        assert_eq!(stall.settler.release().len(), 1);
        let mut answers = 0;
        for (dialect, header) in all.iter().chain(&all) {
            stall.lease_runs_out();
            let answer = told(ask(&service, shown(header)).await).await;
            answers += usize::from(answer.0 == 200);
            assert!(!answer.2, "{held:?} then {dialect:?}: {answer:?}");
        }
        assert_eq!((answers, stall.settler.settlements()), (usize::from(held != Dialect::V1), 1), "{held:?}");
    }
}

/// A node that is behind, and a transfer that somebody else had mined: the challenge in its nonce makes it its payer's, in each dialect.
#[tokio::test(start_paused = true)]
async fn what_a_stranger_settles_is_the_payers_who_has_the_challenge() {
    let stall = Stall::open_with(|builder| builder.mpp("api.example.com")).await;
    let service = layered(&stall.shop.layer(), echo(Counter::default()));
    let quote = ask(&service, post(QUESTION)).await;
    let challenge = mpp::parameters(quote.headers()[WWW_AUTHENTICATE].to_str().unwrap());
    let payment = Dialect::Mpp.pay(&service).await;
    let transaction = TxHash::new([9; 32]);
    let mined = ChainTime::from_unix(NOW);
    stall
        .shop
        .chain
        .mine(transaction, [made_from(Asset::USDC_BASE.contract(), &payment.2.authorization, transaction, mined)]);
    // The stranger, by a challenge of its own, and by what stands on the chain.
    let stolen = mpp::by_hash(&challenge, transaction).parse().unwrap();
    let copied = v1::PaymentPayload::new(Network::BASE, payment.2.clone()).to_header();
    for theft in [(AUTHORIZATION, stolen, payment.2.clone()), (X_PAYMENT, copied, payment.2.clone())] {
        assert_eq!(told(ask(&service, shown(&theft)).await).await, (403, "payment_bound".to_owned(), false));
    }
    // The payer is told to prove it, and is not billed.
    let answer = told(ask(&service, shown(&payment)).await).await;
    assert_eq!(answer, (403, "payment_bound".to_owned(), false));
    let mut own: Value = mpp::shown(&payment.1);
    own["payload"] = serde_json::json!({ "type": "hash", "hash": transaction });
    let own = (AUTHORIZATION, mpp::token(&own).parse().unwrap(), payment.2.clone());
    assert_eq!(ask(&service, shown(&own)).await.status(), 200);
    assert_eq!(stall.settler.settlements(), 0);
}

/// A refusal is a quote as well, and tells why.
#[tokio::test]
async fn refusals_stay_within_what_platforms_pass_on() {
    for dialect in Dialect::ALL {
        let stall = Stall::open_with(|builder| builder.mpp("r".repeat(64))).await;
        let layer = stall.shop.layer().label(&"l".repeat(100)).unwrap();
        let service = layered(&layer, echo(Counter::default()));
        let payment = dialect.pay(&service).await;
        stall.settler.script([Settling::Refused(Reason::INVALID_EXACT_EVM_PAYLOAD_AUTHORIZATION_VALUE_MISMATCH)]);
        let answer = ask(&service, shown(&payment)).await;
        let bytes = answer.headers().iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum::<usize>();
        assert_eq!((answer.status().as_u16(), bytes < 3_600), (402, true), "{dialect:?}: {bytes}");
    }
}

/// Calls of gRPC are quoted, refused and sold by MPP as any others.
#[tokio::test]
async fn a_call_of_grpc_is_sold_for_a_credential() {
    let stall = Stall::open_with(|builder| builder.mpp("api.example.com")).await;
    let seen = tower::service_fn(|_: Request<RequestBody<Body>>| async {
        let answer = http::Response::builder().header("content-type", "application/grpc").header("grpc-status", "0");
        Ok::<_, Infallible>(answer.body(Body::empty()).unwrap())
    });
    let service = layered(&stall.shop.layer().header_only(), seen);
    let call = |shown: Option<HeaderValue>| {
        let mut request =
            Request::post("/answer").header("content-type", "application/grpc").body(Body::empty()).unwrap();
        shown.into_iter().for_each(|shown| _ = request.headers_mut().insert(AUTHORIZATION, shown));
        request
    };
    let quote = ask(&service, call(None)).await;
    assert_eq!((quote.status().as_u16(), quote.headers()["x402-error"].to_str().unwrap()), (200, "payment_required"));
    let (offer, challenge) =
        (requirements(&quote), mpp::parameters(quote.headers()[WWW_AUTHENTICATE].to_str().unwrap()));
    let good = signed(&sign(&offer, authorization(&offer, mpp::nonces(&challenge)[0])));
    let strange = signed(&sign(&offer, authorization(&offer, [1; 32])));
    for (shown, told, receipt) in
        [(&strange, Some("invalid_redemption"), false), (&good, None, true), (&good, Some("already_consumed"), false)]
    {
        let answer = ask(&service, call(Some(mpp::by_authorization(&challenge, shown).parse().unwrap()))).await;
        let code = answer.headers().get("x402-error").map(|code| code.to_str().unwrap());
        assert_eq!((answer.status().as_u16(), code), (200, told), "{answer:?}");
        let has = [WWW_AUTHENTICATE, PAYMENT_REQUIRED].map(|name| answer.headers().contains_key(name));
        assert_eq!((answer.headers().contains_key("payment-receipt"), has), (receipt, [false; 2]), "{answer:?}");
    }
    assert_eq!(stall.settler.settlements(), 1);
}

/// Keys are rotated, or the realm is renamed, between the quote and the payment, or while the payment is on its way.
#[tokio::test(start_paused = true)]
async fn a_change_of_keys_or_realm_bills_no_payment_that_is_made() {
    let (old, new) = ([7; 32], [8; 32]);
    let with = |keys: SealingKeys, realm: &'static str| (keys, realm);
    for (changed, unsent, sent) in [
        (with(SealingKeys::new(new).with_former(old).unwrap(), "api.example.com"), 200, 200),
        // What cannot be opened any more is told apart by the chain.
        (with(SealingKeys::new(new), "api.example.com"), 402, 404),
        (with(SealingKeys::new(old), "api.example.org"), 400, 400),
    ] {
        let stall = Stall::open_with(|builder| builder.mpp("api.example.com")).await;
        let service = layered(&stall.shop.layer(), echo(Counter::default()));
        let payments = [Dialect::Mpp.pay(&service).await, Dialect::Mpp.pay(&service).await];
        stall.settler.script([Settling::Held]);
        assert_eq!(ask(&service, shown(&payments[1])).await.status(), 503);
        stall.settler.release();
        stall.lease_runs_out();
        let (keys, realm) = changed;
        let settler = stall.settler.clone();
        let replica = stall.shop.sibling(|builder| builder.settler(settler).sealing_keys(keys).mpp(realm)).await;
        let service = layered(&replica.charge("answer", crate::support::PRICE).unwrap(), echo(Counter::default()));
        for (payment, status) in payments.iter().zip([unsent, sent]) {
            let answer = told(ask(&service, shown(payment)).await).await;
            assert_eq!((answer.0, answer.2), (status, status == 402), "{realm} {answer:?}");
        }
    }
}
