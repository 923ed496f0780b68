//! Attacks on metered answers over real HTTP, on a real chain: charged never more than the maximum, never twice, and never without an answer
//! that was delivered or can be had again.

use axum::{Router, http::StatusCode, routing::post};
use serde_json::{Value, json};
use tower_x402::{
    Charge,
    protocol::{Address, Amount, v2::PaymentPayload},
    testing::contracts,
};

use super::{
    SELLER, World,
    charged::FAULTS,
    clients::{Client, Order},
    metered::{EACH, Stage, allow, wish},
    seller::By,
};
use crate::served::shop::{Shop, client};

/// The header of an honest client for so many words.
async fn signed(stage: &Stage, words: usize) -> String {
    let url = stage.shop.url("/words");
    Client::sign(&stage.world, Order::post(&url, wish("a b c", words))).await
}

/// The payment in a header, as JSON.
fn read(header: &str) -> Value {
    let headers = [("payment-signature".parse().unwrap(), header.parse().unwrap())].into_iter().collect();
    let payment = PaymentPayload::from_headers(&headers).unwrap().unwrap();
    serde_json::from_str(&payment.to_json()).unwrap()
}

fn written(payment: &Value) -> String {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    STANDARD.encode(payment.to_string())
}

async fn show(stage: &Stage, header: &str, words: usize) -> (u16, Option<String>, Value) {
    let request = client().post(stage.shop.url("/words")).json(&wish("a b c", words));
    let answer = request.header("payment-signature", header).send().await.unwrap();
    let code = answer.headers().get("x402-error").map(|code| code.to_str().unwrap().to_owned());
    (answer.status().as_u16(), code, answer.json().await.unwrap_or_default())
}

/// What is said in the end, once the lease that an earlier answer left behind is over.
async fn answered(stage: &Stage, header: &str, words: usize) -> (u16, Option<String>, Value) {
    for _ in 0..160 {
        let answer = show(stage, header, words).await;
        if !matches!(answer.1.as_deref(), Some("redemption_in_progress" | "tx_not_confirmed")) {
            return answer;
        }
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    }
    panic!("it stays in progress")
}

#[tokio::test]
async fn a_permit_shown_twenty_times_at_once_is_charged_once() {
    for by in [By::Wallet, By::Facilitator] {
        let Some(stage) = Stage::new(by).await else { return };
        let header = signed(&stage, 4).await;
        let shows = (0..20).map(|_| show(&stage, &header, 4));
        let answers = futures_util::future::join_all(shows).await;
        let sold = answers.iter().filter(|(status, ..)| *status == 200).count();
        assert_eq!(sold, 1, "{by:?}: {answers:?}");
        assert!(answers.iter().all(|(status, ..)| [200, 409].contains(status)), "{by:?}: {answers:?}");
        assert_eq!(stage.world.balance(SELLER).await, 4 * EACH, "{by:?}");
    }
}

#[tokio::test]
async fn a_permit_that_is_altered_anywhere_charges_nothing() {
    let stranger = Address::new([0x77; 20]).to_string();
    for by in [By::Wallet, By::Facilitator] {
        let Some(stage) = Stage::new(by).await else { return };
        let honest = read(&signed(&stage, 4).await);
        let of_permit = |path: &[&str], value: Value| {
            let mut altered = honest.clone();
            let permit = &mut altered["payload"]["permit2Authorization"];
            *path.iter().fold(permit, |at, name| &mut at[*name]) = value;
            altered
        };
        let accepting = |name: &str, value: Value| {
            let mut altered = honest.clone();
            altered["accepted"][name] = value;
            altered
        };
        let mut other_facilitator = of_permit(&["witness", "facilitator"], json!(stranger));
        other_facilitator["accepted"]["extra"]["facilitatorAddress"] = json!(stranger);
        let mut dearer = of_permit(&["permitted", "amount"], json!("5000"));
        dearer["accepted"]["amount"] = json!("5000");
        let altered = [
            ("spender", of_permit(&["spender"], json!(stranger))),
            ("the other proxy", of_permit(&["spender"], json!("0x402085c248EeA27D92E8b30b2C58ed07f9E20001"))),
            ("recipient", of_permit(&["witness", "to"], json!(stranger))),
            ("facilitator", of_permit(&["witness", "facilitator"], json!(stranger))),
            ("facilitator on both sides", other_facilitator),
            ("token", of_permit(&["permitted", "token"], json!(stranger))),
            ("amount", of_permit(&["permitted", "amount"], json!("5000"))),
            ("amount on both sides", dearer),
            ("deadline", of_permit(&["deadline"], json!("1893456001"))),
            ("nonce", of_permit(&["nonce"], json!("7"))),
            ("payer", of_permit(&["from"], json!(stranger))),
            ("valid after", of_permit(&["witness", "validAfter"], json!("1"))),
            ("an accepted amount", accepting("amount", json!("1"))),
            ("an accepted token", accepting("asset", json!(stranger))),
            ("an accepted recipient", accepting("payTo", json!(stranger))),
            ("an accepted network", accepting("network", json!("eip155:84532"))),
        ];
        for (what, payment) in altered {
            let (status, code, body) = show(&stage, &written(&payment), 4).await;
            assert_eq!((status, code.as_deref()), (402, Some("authorization_refused")), "{by:?} {what}: {body}");
        }
        assert_eq!(stage.world.balance(SELLER).await, 0, "{by:?}");
        // It is as good as ever.
        assert_eq!(show(&stage, &written(&honest), 4).await.0, 200, "{by:?}");
        assert_eq!(stage.world.balance(SELLER).await, 4 * EACH, "{by:?}");
    }
}

/// A route whose handler charges what its request's header says, beside the words.
async fn charging(stage: &Stage, name: &str) -> Shop {
    let merchant = stage.shop.merchant.clone();
    let layer = merchant.charge_up_to(name, "0.01 USDC").unwrap();
    let handler = async |headers: http::HeaderMap| {
        let amount: Amount = headers["x-charge"].to_str().unwrap().parse().unwrap();
        let mut answer = axum::response::Response::new(axum::body::Body::from("an answer"));
        answer.extensions_mut().insert(Charge(amount));
        answer
    };
    let app = Router::new().route("/charge", post(handler).route_layer(layer));
    Shop::serving(merchant, app, Default::default()).await
}

#[tokio::test]
async fn a_charge_above_the_maximum_sells_nothing_and_leaves_the_permit_good() {
    let Some(stage) = Stage::new(By::Wallet).await else { return };
    let shop = charging(&stage, "above").await;
    let url = shop.url("/charge");
    let header = Client::sign(&stage.world, Order::post(&url, json!({}))).await;
    let show = async |charge: &str| {
        let request = client().post(&url).json(&json!({})).header("x-charge", charge);
        request.header("payment-signature", &header).send().await.unwrap().status()
    };
    for charge in ["10001", &Amount::MAX.to_string()] {
        assert_eq!(show(charge).await, StatusCode::INTERNAL_SERVER_ERROR, "{charge}");
        assert_eq!(stage.world.balance(SELLER).await, 0, "{charge}");
    }
    assert_eq!(show("10000").await, StatusCode::OK);
    assert_eq!(stage.world.balance(SELLER).await, 10_000);
}

/// While the handler runs the payer withdraws what was there when its permit was checked.
#[tokio::test]
async fn what_is_withdrawn_before_the_settlement_sells_nothing() {
    for by in [By::Wallet, By::Facilitator] {
        for what in ["allowance", "balance"] {
            let Some(stage) = Stage::new(by).await else { return };
            let (began, go) =
                (std::sync::Arc::new(tokio::sync::Notify::new()), std::sync::Arc::new(tokio::sync::Notify::new()));
            let layer = stage.shop.merchant.charge_up_to("slow", "0.01 USDC").unwrap();
            let (begins, goes) = (began.clone(), go.clone());
            let handler = move || async move {
                begins.notify_one();
                goes.notified().await;
                "an answer"
            };
            let app = Router::new().route("/slow", post(handler).route_layer(layer));
            let shop = Shop::serving(stage.shop.merchant.clone(), app, Default::default()).await;
            let url = shop.url("/slow");
            let header = Client::sign(&stage.world, Order::post(&url, json!({}))).await;
            let request = client().post(&url).json(&json!({})).header("payment-signature", &header);
            let answer = tokio::spawn(async move { request.send().await.unwrap() });
            began.notified().await;
            withdraw(&stage.world, what).await;
            go.notify_one();
            let answer = answer.await.unwrap();
            let status = answer.status().as_u16();
            assert!([402, 503].contains(&status), "{by:?} {what}: {status} {}", answer.text().await.unwrap());
            assert_eq!(stage.world.balance(SELLER).await, 0, "{by:?} {what}");
        }
    }
}

async fn withdraw(world: &World, what: &str) {
    let (buyer, token) = (world.buyer().address(), world.chain.usdc());
    match what {
        "allowance" => allow(world, token, Amount::ZERO).await,
        _ => {
            let all = world.chain.usdc_balance(buyer).await.unwrap();
            let away = contracts::transfer(Address::new([0x66; 20]), all);
            let sent = world.chain.send(buyer, token, &away).await.unwrap();
            world.chain.wait_until_mined(sent).await.unwrap();
        }
    }
}

/// Whatever the facilitator does: charged once at most, and what is charged buys its answer with the same header.
#[tokio::test]
async fn whatever_a_facilitator_does_a_charge_has_its_answer() {
    let Some(stage) = Stage::new(By::Facilitator).await else { return };
    let facilitator = stage.facilitator.as_ref().unwrap();
    for (name, fault) in FAULTS {
        let before = stage.world.balance(SELLER).await;
        let header = signed(&stage, 4).await;
        facilitator.fault(name).await;
        let (status, code, body) = show(&stage, &header, 4).await;
        facilitator.fault("").await;
        assert!([200, 402, 503].contains(&status), "{name}: {status} {code:?} {body}");
        let charged = stage.world.balance(SELLER).await - before;
        assert!([0, 4 * EACH].contains(&charged), "{name} {fault:?}: {charged}");
        if charged > 0 && status != 200 {
            assert_eq!((status, code.as_deref()), (503, Some("outcome_unknown")), "{name}: {body}");
            let (status, _, body) = answered(&stage, &header, 4).await;
            assert_eq!(status, 200, "{name}: {body}");
            assert_eq!(stage.world.balance(SELLER).await - before, 4 * EACH, "{name}");
        }
        if status == 402 {
            assert_eq!(charged, 0, "{name}");
        }
    }
}

mod proxy {
    alloy::sol! {
        struct TokenPermissions { address token; uint256 amount; }
        struct PermitTransferFrom { TokenPermissions permitted; uint256 nonce; uint256 deadline; }
        struct ExactWitness { address to; uint256 validAfter; }
        interface Exact {
            function settle(PermitTransferFrom permit, address owner, ExactWitness witness, bytes signature) external;
        }
    }
}

/// While the handler runs the payer signs another permit of the same nonce, over one base unit, and has it settled itself.
#[tokio::test]
async fn a_cheaper_permit_of_the_same_nonce_buys_nothing() {
    for by in [By::Wallet, By::Facilitator] {
        let Some(stage) = Stage::new(by).await else { return };
        let (began, go) =
            (std::sync::Arc::new(tokio::sync::Notify::new()), std::sync::Arc::new(tokio::sync::Notify::new()));
        let layer = stage.shop.merchant.charge_up_to("slow", "0.01 USDC").unwrap();
        let (begins, goes) = (began.clone(), go.clone());
        let handler = move || async move {
            begins.notify_one();
            goes.notified().await;
            "an answer"
        };
        let app = Router::new().route("/slow", post(handler).route_layer(layer));
        let shop = Shop::serving(stage.shop.merchant.clone(), app, Default::default()).await;
        let url = shop.url("/slow");
        let header = Client::sign(&stage.world, Order::post(&url, json!({}))).await;
        let request = || client().post(&url).json(&json!({})).header("payment-signature", &header).send();
        let first = tokio::spawn(request());
        began.notified().await;
        let nonce = read(&header)["payload"]["permit2Authorization"]["nonce"].as_str().unwrap().parse().unwrap();
        settle_one_unit(&stage.world, nonce).await;
        go.notify_one();
        let mut answer = first.await.unwrap().unwrap();
        for _ in 0..2 {
            let status = answer.status().as_u16();
            assert!([402, 403, 409, 503].contains(&status), "{by:?}: {status} {}", answer.text().await.unwrap());
            go.notify_one();
            answer = request().await.unwrap();
        }
        assert_eq!(stage.world.balance(SELLER).await, 1, "{by:?}");
    }
}

async fn settle_one_unit(world: &World, nonce: alloy::primitives::U256) {
    use alloy::{
        primitives::{B256, U256},
        signers::{SignerSync as _, local::PrivateKeySigner},
        sol_types::SolCall as _,
    };
    use tower_x402::protocol::{
        ChainTime, Network,
        permit2::{EXACT_PROXY, Permit, PermitScheme},
    };
    let (chain, buyer) = (&world.chain, world.buyer());
    let now = chain.timestamp().await.unwrap();
    let permit = Permit::new(PermitScheme::Exact, buyer.address(), nonce.to_be_bytes())
        .paying(SELLER, chain.usdc(), Amount::from_base_units(1))
        .valid_between(ChainTime::from_unix(0), now.after(std::time::Duration::from_secs(3_600)));
    let key: PrivateKeySigner = buyer.private_key().parse().unwrap();
    let digest = B256::new(permit.digest(Network::eip155(chain.chain_id())));
    let permitted = proxy::TokenPermissions { token: permit.token.as_bytes().into(), amount: U256::from(1) };
    let call = proxy::Exact::settleCall {
        permit: proxy::PermitTransferFrom { permitted, nonce, deadline: U256::from(permit.deadline.unix()) },
        owner: permit.from.as_bytes().into(),
        witness: proxy::ExactWitness { to: permit.to.as_bytes().into(), validAfter: U256::ZERO },
        signature: key.sign_hash_sync(&digest).unwrap().as_bytes().to_vec().into(),
    };
    let sent = chain.send(buyer.address(), EXACT_PROXY, &call.abi_encode()).await.unwrap();
    assert_eq!(chain.wait_until_mined(sent).await.unwrap()["status"], "0x1");
}
