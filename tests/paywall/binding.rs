//! Only the payer redeems a bound payment, and an unbound one is held for a moment.

use std::{sync::Arc, time::Duration};

use http::Request;
use serde_json::{Value, json};
use tower_x402::{
    MerchantBuilder, Receipt, RequestBody,
    protocol::{
        Address, Amount, Asset, Binding, ChainTime, IntentId, Network, PaymentTag, ProvedBy, Transfer, TxHash,
        redemption_message,
    },
    testing::scripted_signature,
    verify::Signatures,
};

use axum::body::Body;

use crate::support::{
    Answer, Counter, Handler, NOW, Shop, answering, ask, assert_problem, echo, intent_of, layered, payer, post, quoted,
    recipient,
};

const SECRET: &str = "a-secret-of-the-payer";
const THIEF: Address = Address::new([0xee; 20]);

async fn shop(set: impl FnOnce(MerchantBuilder) -> MerchantBuilder) -> Shop {
    Shop::open_with(|builder| set(builder.hold_unbound(Duration::from_secs(5)))).await
}

fn transfer(position: u32, from: Address, binding: Binding) -> Transfer {
    Transfer::new(Network::BASE, TxHash::new([0; 32]), position)
        .with_token(Asset::USDC_BASE.contract())
        .with_payer(from)
        .with_recipient(recipient())
        .with_amount(Amount::from_base_units(490_000))
        .with_block(7, ChainTime::from_unix(NOW))
        .with_binding(binding)
}

fn tagged(secret: &str) -> Binding {
    Binding::none().with_call_data([&[0; 68][..], &PaymentTag::of(secret).to_call_data()].concat())
}

fn by_nonce(secret: &str) -> Binding {
    Binding::none().with_nonce(*PaymentTag::of(secret).as_bytes())
}

/// Mines a transaction of these transfers.
fn mine(shop: &Shop, transfers: impl IntoIterator<Item = Transfer>) -> TxHash {
    static COUNT: std::sync::atomic::AtomicU8 = std::sync::atomic::AtomicU8::new(1);
    let tx = TxHash::new([COUNT.fetch_add(1, std::sync::atomic::Ordering::SeqCst); 32]);
    shop.chain.mine(tx, transfers);
    tx
}

/// A redemption with more members.
fn redeem(intent: &str, tx: TxHash, more: Value) -> Request<Body> {
    let mut body = json!({ "intentId": intent, "txHash": tx.to_string(), "query": "why" });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    post(body.to_string())
}

fn secret(secret: &str) -> Value {
    json!({ "paymentSecret": secret })
}

fn signed(by: Address, intent: &str, tx: TxHash) -> Value {
    let message = redemption_message(Network::BASE, tx, &IntentId::new(intent).unwrap());
    json!({ "paymentSignature": scripted_signature(by, &message).to_string() })
}

/// A service that says how its payment was proved.
fn proving() -> impl Handler {
    answering(Counter::default(), |request: &Request<RequestBody<Body>>| {
        let receipt = request.extensions().get::<Receipt>().unwrap();
        http::Response::new(Body::from(format!("{:?} {}", receipt.proved_by(), receipt.position().unwrap())))
    })
}

async fn text(answer: Answer) -> String {
    let (status, body) = crate::support::read(answer).await;
    assert_eq!(status, 200, "{body}");
    body.as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_bound_payment_is_given_to_its_payer_and_to_nobody_else() {
    for require in [false, true] {
        let shop = shop(|builder| if require { builder.require_bound() } else { builder }).await;
        let service = layered(&shop.layer(), proving());
        let refused = if require { "payer_proof_required" } else { "payment_bound" };
        for (binding, proved_by) in [(tagged(SECRET), ProvedBy::Tag), (by_nonce(SECRET), ProvedBy::Nonce)] {
            let tx = mine(&shop, [transfer(0, payer(), binding)]);
            let (thief, own) = (quoted(&service).await, quoted(&service).await);
            let reserved = shop.ledger.counts().unwrap().reserved;
            // The thief is first, with an intent of his own, and all that is public.
            let other = "another-secret-of-16";
            for more in [json!({}), secret(other)] {
                let body = assert_problem(ask(&service, redeem(&thief, tx, more)).await, 403, refused).await;
                let message = redemption_message(Network::BASE, tx, &IntentId::new(&*thief).unwrap());
                assert_eq!(body["message"], message.as_str());
            }
            for forged in [signed(THIEF, &thief, tx), signed(payer(), &own, tx), json!({"paymentSignature": "0x00"})] {
                assert_problem(ask(&service, redeem(&thief, tx, forged)).await, 403, "invalid_signature").await;
            }
            assert_eq!(shop.ledger.counts().unwrap().reserved, reserved, "nothing was reserved");
            assert_eq!(text(ask(&service, redeem(&own, tx, secret(SECRET))).await).await, format!("{proved_by:?} 0"));
            // Sold or not, a stranger hears the same.
            assert_problem(ask(&service, redeem(&thief, tx, json!({}))).await, 403, refused).await;
            let own_again = ask(&service, redeem(&thief, tx, secret(SECRET))).await;
            assert_problem(own_again, 409, "tx_already_used").await;
            assert_problem(ask(&service, redeem(&own, tx, json!({}))).await, 409, "already_consumed").await;
        }
    }
}

#[tokio::test]
async fn what_is_sold_does_not_hide_what_is_bound_to_another_secret() {
    let shop = shop(|builder| builder.hold_unbound(Duration::ZERO)).await;
    let service = layered(&shop.layer(), proving());
    let tx = mine(&shop, [transfer(0, THIEF, Binding::none()), transfer(1, payer(), tagged(SECRET))]);
    let first = quoted(&service).await;
    assert_eq!(text(ask(&service, redeem(&first, tx, json!({}))).await).await, "Nothing 0");
    // The payer forgot its secret: it is told to show it, and not that all is sold.
    let own = quoted(&service).await;
    let body = assert_problem(ask(&service, redeem(&own, tx, json!({}))).await, 403, "payment_bound").await;
    assert_eq!(body["message"], redemption_message(Network::BASE, tx, &IntentId::new(&*own).unwrap()).as_str());
    assert_problem(ask(&service, redeem(&first, tx, json!({}))).await, 409, "already_consumed").await;
    assert_eq!(text(ask(&service, redeem(&own, tx, secret(SECRET))).await).await, "Tag 1");
    // All that its signature proves, and all that is unbound, is sold.
    let signs = quoted(&service).await;
    let nothing_left = redeem(&signs, tx, signed(payer(), &signs, tx));
    assert_problem(ask(&service, nothing_left).await, 409, "tx_already_used").await;
}

/// Where bound claims are required, whatever the claimant cannot prove needs a proof, not a sale.
#[tokio::test]
async fn what_is_sold_does_not_hide_what_needs_a_proof() {
    let shop = shop(MerchantBuilder::require_bound).await;
    let service = layered(&shop.layer(), proving());
    let tx = mine(&shop, [transfer(0, payer(), tagged(SECRET)), transfer(1, payer(), Binding::none())]);
    let first = quoted(&service).await;
    assert_eq!(text(ask(&service, redeem(&first, tx, secret(SECRET))).await).await, "Tag 0");
    let second = quoted(&service).await;
    assert_problem(ask(&service, redeem(&second, tx, secret(SECRET))).await, 403, "payer_proof_required").await;
    let proved = redeem(&second, tx, signed(payer(), &second, tx));
    assert_eq!(text(ask(&service, proved).await).await, "Signature 1");
}

#[tokio::test]
async fn the_intent_itself_is_a_secret() {
    let shop = shop(|builder| builder).await;
    let service = layered(&shop.layer(), proving());
    let intent = quoted(&service).await;
    let tx = mine(&shop, [transfer(0, payer(), tagged(&intent))]);
    let other = quoted(&service).await;
    assert_problem(ask(&service, redeem(&other, tx, json!({}))).await, 403, "payment_bound").await;
    // Lost and replaced by another quote, it is shown as what it is.
    assert_eq!(text(ask(&service, redeem(&other, tx, secret(&intent))).await).await, "Tag 0");
    let tx = mine(&shop, [transfer(0, payer(), by_nonce(&intent))]);
    assert_eq!(text(ask(&service, redeem(&intent, tx, json!({}))).await).await, "Nonce 0");
}

#[tokio::test]
async fn a_payer_who_signs_can_always_redeem_and_is_never_held() {
    for binding in [Binding::none(), tagged(SECRET), by_nonce(SECRET)] {
        let shop = shop(MerchantBuilder::require_bound).await;
        let service = layered(&shop.layer(), proving());
        let tx = mine(&shop, [transfer(0, payer(), binding)]);
        let intent = quoted(&service).await;
        let answer = ask(&service, redeem(&intent, tx, signed(payer(), &intent, tx))).await;
        assert_eq!(text(answer).await, "Signature 0");
    }
}

#[tokio::test]
async fn an_unbound_payment_is_held_for_five_seconds_of_chain_time() {
    let shop = shop(|builder| builder).await;
    let service = layered(&shop.layer(), proving());
    let tx = mine(&shop, [transfer(0, payer(), Binding::none())]);
    let intent = quoted(&service).await;
    for (head, wait) in [(0, "5"), (1, "4"), (4, "1")] {
        shop.chain.set_head(ChainTime::from_unix(NOW + head));
        let held = ask(&service, redeem(&intent, tx, json!({}))).await;
        assert_eq!(held.headers()["retry-after"], wait);
        assert_problem(held, 409, "tx_not_confirmed").await;
    }
    shop.chain.set_head(ChainTime::from_unix(NOW + 5));
    assert_eq!(text(ask(&service, redeem(&intent, tx, json!({}))).await).await, "Nothing 0");
}

#[tokio::test]
async fn unbound_payments_can_be_refused_altogether() {
    let shop = shop(MerchantBuilder::require_bound).await;
    let service = layered(&shop.layer(), proving());
    let tx = mine(&shop, [transfer(0, payer(), Binding::none())]);
    // It is said before anything is paid.
    let (_, quote) = crate::support::read(ask(&service, post("{}")).await).await;
    assert_eq!(quote["pay"]["bindingRequired"], true);
    assert!(quote["detail"].as_str().unwrap().ends_with("an ordinary transfer alone is refused."), "{quote}");
    let intent = quoted(&service).await;
    shop.chain.set_head(ChainTime::from_unix(NOW + 3_600));
    for more in [json!({}), secret(SECRET)] {
        let body = assert_problem(ask(&service, redeem(&intent, tx, more)).await, 403, "payer_proof_required").await;
        assert!(body["message"].as_str().unwrap().starts_with("x402 redemption\nchain: eip155:8453\n"), "{body}");
    }
}

/// Of a bundle each customer gets what is his, and what is bound to none goes to those who come.
#[tokio::test]
async fn of_a_bundle_each_takes_his_own_first() {
    let shop = shop(|builder| builder).await;
    let service = layered(&shop.layer(), proving());
    let cheap = transfer(3, THIEF, Binding::none()).with_amount(Amount::from_base_units(490_001));
    let tx = mine(
        &shop,
        [
            transfer(0, THIEF, Binding::none()),
            transfer(1, payer(), by_nonce(SECRET)),
            transfer(2, payer(), tagged("someone-else-made-it")),
            cheap,
        ],
    );
    let intents = [quoted(&service).await, quoted(&service).await, quoted(&service).await, quoted(&service).await];
    // Held, as far as he is concerned.
    assert_problem(ask(&service, redeem(&intents[0], tx, json!({}))).await, 409, "tx_not_confirmed").await;
    assert_eq!(text(ask(&service, redeem(&intents[0], tx, secret(SECRET))).await).await, "Nonce 1");
    // His own is sold, and what is left is not anyone's yet.
    let held = ask(&service, redeem(&intents[1], tx, secret(SECRET))).await;
    assert_eq!(held.headers()["retry-after"], "5");
    assert_problem(held, 409, "tx_not_confirmed").await;
    shop.chain.set_head(ChainTime::from_unix(NOW + 5));
    assert_eq!(text(ask(&service, redeem(&intents[1], tx, secret(SECRET))).await).await, "Nothing 0");
    assert_eq!(text(ask(&service, redeem(&intents[2], tx, json!({}))).await).await, "Nothing 3");
    assert_problem(ask(&service, redeem(&intents[3], tx, json!({}))).await, 403, "payment_bound").await;
    let signed = signed(payer(), &intents[3], tx);
    assert_eq!(text(ask(&service, redeem(&intents[3], tx, signed)).await).await, "Signature 2");
}

#[tokio::test]
async fn whether_a_signature_is_good_cannot_be_told_while_the_chain_is_down() {
    let shop = shop(|builder| builder).await;
    let service = layered(&shop.layer(), proving());
    let intent = quoted(&service).await;
    let tx = mine(&shop, [transfer(0, payer(), tagged(SECRET))]);
    let transfers = vec![transfer(0, payer(), tagged(SECRET))];
    let transfers = transfers.into_iter().map(|mut transfer| {
        transfer.transaction = tx;
        transfer
    });
    let head = ChainTime::from_unix(NOW);
    let verdict = tower_x402::verify::Verdict::Paid { transfers: transfers.collect(), head };
    shop.chain.answer(tx, verdict);
    shop.chain.outage(tower_x402::verify::VerifyError::unavailable());
    let answer = ask(&service, redeem(&intent, tx, signed(payer(), &intent, tx))).await;
    assert_problem(answer, 503, "verification_unavailable").await;
    shop.chain.outage(None);
    let answer = ask(&service, redeem(&intent, tx, signed(payer(), &intent, tx))).await;
    assert_eq!(text(answer).await, "Signature 0");
}

/// A verifier that names an account which paid nothing opens nothing.
#[tokio::test]
async fn a_signer_who_is_no_payer_opens_nothing() {
    struct Lying(tower_x402::testing::ScriptedVerifier);

    impl tower_x402::verify::Verifier for Lying {
        async fn check(&self, network: Network, assets: &[Asset]) -> Result<(), tower_x402::verify::VerifyError> {
            self.0.check(network, assets).await
        }

        async fn verify(
            &self,
            terms: &tower_x402::protocol::Terms,
            transaction: TxHash,
        ) -> Result<tower_x402::verify::Verdict, tower_x402::verify::VerifyError> {
            self.0.verify(terms, transaction).await
        }

        async fn head(&self) -> Result<ChainTime, tower_x402::verify::VerifyError> {
            self.0.head().await
        }

        async fn horizon(&self) -> Result<ChainTime, tower_x402::verify::VerifyError> {
            self.0.horizon().await
        }

        fn signatures(&self) -> Option<&impl Signatures> {
            Some(self)
        }
    }

    impl Signatures for Lying {
        async fn signer(
            &self,
            _: &str,
            _: &tower_x402::protocol::PaymentSignature,
            _: &[Address],
        ) -> Result<Option<Address>, tower_x402::verify::VerifyError> {
            Ok(Some(THIEF))
        }

        async fn domain(
            &self,
            token: Address,
        ) -> Result<Option<tower_x402::protocol::TokenDomain>, tower_x402::verify::VerifyError> {
            self.0.domain(token).await
        }

        async fn nonce_state(
            &self,
            token: Address,
            payer: Address,
            nonce: &[u8; 32],
            since: ChainTime,
        ) -> Result<tower_x402::verify::NonceState, tower_x402::verify::VerifyError> {
            self.0.nonce_state(token, payer, nonce, since).await
        }

        async fn permit_state(
            &self,
            permit: &tower_x402::protocol::permit2::Permit,
            since: ChainTime,
        ) -> Result<tower_x402::verify::NonceState, tower_x402::verify::VerifyError> {
            self.0.permit_state(permit, since).await
        }
    }

    let shop = Shop::open().await;
    let verifier = Lying(shop.chain.clone());
    let merchant = shop.sibling(|builder| builder.verifier(verifier)).await;
    let service = layered(&merchant.charge("answer", crate::support::PRICE).unwrap(), proving());
    let tx = mine(&shop, [transfer(0, payer(), tagged(SECRET))]);
    let intent = quoted(&service).await;
    let answer = ask(&service, redeem(&intent, tx, signed(payer(), &intent, tx))).await;
    assert_problem(answer, 403, "invalid_signature").await;
}

/// The members beside a redemption are as strict in the header, and alone they are no proof.
#[tokio::test]
async fn secret_and_signature_are_read_as_strictly_as_the_rest() {
    let shop = shop(|builder| builder).await;
    let service = layered(&shop.layer(), echo(Counter::default()));
    let intent = quoted(&service).await;
    let tx = mine(&shop, [transfer(0, payer(), tagged(SECRET))]);
    for bad in [
        json!({"paymentSecret": "short"}),
        json!({"paymentSecret": 7}),
        json!({"paymentSecret": "with spaces in the middle"}),
        json!({"paymentSignature": "0x"}),
        json!({"paymentSignature": "00"}),
        json!({"paymentSignature": format!("0x{}", "00".repeat(4_097))}),
    ] {
        assert_problem(ask(&service, redeem(&intent, tx, bad.clone())).await, 400, "invalid_redemption").await;
        assert_problem(ask(&service, post(bad.to_string())).await, 400, "invalid_redemption").await;
    }
    let alone = ask(&service, post(secret(SECRET).to_string())).await;
    assert_problem(alone, 400, "invalid_redemption").await;
    let header = json!({ "intentId": intent, "txHash": tx.to_string(), "paymentSecret": SECRET }).to_string();
    let request = Request::post("/answer").header("x402-payment", header).body(Body::from("q")).unwrap();
    assert_eq!(ask(&service, request).await.status(), 200);
}

/// Racing presentations of one bound payment: the thieves are many, and never get it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_a_race_only_the_payer_gets_a_bound_payment() {
    const ROUNDS: usize = 25;
    const THIEVES: usize = 39;
    let shop = shop(|builder| builder.hold_unbound(Duration::ZERO)).await;
    let service = layered(&shop.layer(), proving());
    let mut stolen = 0;
    for round in 0..ROUNDS {
        let own = intent_of(&ask(&service, post("{}")).await);
        let binding = if round % 2 == 0 { tagged(&own) } else { by_nonce(&own) };
        let tx = mine(&shop, [transfer(0, payer(), binding)]);
        let go = Arc::new(tokio::sync::Barrier::new(THIEVES + 1));
        let present = |intent: String, more: Value| {
            let (service, go) = (service.clone(), Arc::clone(&go));
            tokio::spawn(async move {
                go.wait().await;
                ask(&service, redeem(&intent, tx, more)).await.status().as_u16()
            })
        };
        let mut thieves = Vec::new();
        for number in 0..THIEVES {
            let intent = intent_of(&ask(&service, post("{}")).await);
            let more = match number % 3 {
                0 => json!({}),
                1 => secret("what-a-thief-made-up"),
                _ => signed(THIEF, &intent, tx),
            };
            thieves.push(present(intent, more));
        }
        let payer = present(own, json!({}));
        for thief in thieves {
            stolen += usize::from(thief.await.unwrap() != 403);
        }
        assert_eq!(payer.await.unwrap(), 200);
    }
    assert_eq!(stolen, 0);
}
