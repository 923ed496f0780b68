//! One merchant on two networks: a quote is paid on either, and buys one answer.

use std::{sync::Arc, time::Duration};

use axum::body::Body;
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use http::{Request, header};
use serde_json::{Value, json};
use tower_x402::{
    BuildError, Chain, HealthError, Merchant, MerchantBuilder, X402,
    ledger::{Maintenance as _, MemoryLedger, SqliteLedger},
    page::Page,
    protocol::{
        Address, Amount, Asset, Binding, ChainTime, Network, SealingKeys, Transfer, TxHash, redemption_message,
        v2::{PaymentRequirements, SchemePayload},
    },
    testing::{FakeClock, ScriptedSettler, ScriptedVerifier, scripted_signature},
    verify::{TransferHistory, TransferQuery, VerifyError},
};

use crate::{
    page,
    standard::{NONCE, authorization, intent, paid, required, settled, sign},
    support::{
        Counter, Handler, KEY, NOW, PRICE, ask, assert_problem, echo, intent_of, layered, mpp, payer, post, read,
        recipient, redemption,
    },
};

const BASE: Network = Network::BASE;
const SEPOLIA: Network = Network::BASE_SEPOLIA;

/// A seller on two scripted chains, which mine transactions of the same hashes.
struct Shop {
    base: ScriptedVerifier,
    sepolia: ScriptedVerifier,
    ledger: Arc<MemoryLedger>,
    clock: FakeClock,
    settlers: [ScriptedSettler; 2],
}

impl Shop {
    fn new() -> Self {
        let clock = FakeClock::new(NOW);
        // The ledger's memory begins an hour ago.
        let [base, sepolia] =
            [BASE, SEPOLIA].map(|network| ScriptedVerifier::on(network, ChainTime::from_unix(NOW - 3600)));
        let ledger = Arc::new(MemoryLedger::with_clock(clock.clone()));
        let settlers = [&base, &sepolia].map(|chain| ScriptedSettler::new(chain.clone()));
        Self { base, sepolia, ledger, clock, settlers }
    }

    /// What is one for all networks, and the first of them.
    fn builder(&self) -> MerchantBuilder {
        Merchant::builder(recipient())
            .hold_unbound(Duration::ZERO)
            .verifier(self.base.clone())
            .ledger(Arc::clone(&self.ledger))
            .clock(self.clock.clone())
            .sealing_keys(SealingKeys::new(KEY))
    }

    async fn built(&self, builder: MerchantBuilder) -> Merchant {
        let merchant = builder.build().await.unwrap();
        for chain in [&self.base, &self.sepolia] {
            chain.set_head(ChainTime::from_unix(NOW));
        }
        merchant
    }

    /// Takes transfers on both.
    async fn open(&self) -> Merchant {
        self.built(self.builder().chain(Chain::new(SEPOLIA).verifier(self.sepolia.clone()))).await
    }

    /// Takes signed payments on both as well.
    async fn open_to_signed(&self) -> Merchant {
        let [on_base, on_sepolia] = self.settlers.clone();
        let sepolia = Chain::new(SEPOLIA).verifier(self.sepolia.clone()).settler(on_sepolia);
        self.built(self.builder().settler(on_base).chain(sepolia)).await
    }

    fn pay(&self, network: Network) -> TxHash {
        let chain = if network == BASE { &self.base } else { &self.sepolia };
        let token = Asset::usdc_of(network).unwrap().contract();
        chain.pay(recipient(), token, payer(), Amount::from_base_units(490_000), ChainTime::from_unix(NOW))
    }
}

fn sells(merchant: &Merchant, counter: &Counter) -> X402<impl Handler> {
    layered(&merchant.charge("answer", PRICE).unwrap(), echo(counter.clone()))
}

/// A redemption in the header, with these further members.
fn shown(intent: &str, transaction: TxHash, more: &Value) -> Request<Body> {
    let mut members = json!({"intentId": intent, "txHash": transaction});
    members.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    Request::post("/answer")
        .header("x402-payment", members.to_string())
        .header(header::CONTENT_TYPE, "application/json")
        .body(Body::from(r#"{"query":"why"}"#))
        .unwrap()
}

fn on(network: Network, intent: &str, transaction: TxHash) -> Request<Body> {
    shown(intent, transaction, &json!({"chainId": network.chain_id()}))
}

async fn quoted<S: Handler>(service: &X402<S>) -> String {
    intent_of(&ask(service, post(r#"{"query":"why"}"#)).await)
}

async fn offers<S: Handler>(service: &X402<S>) -> Vec<PaymentRequirements> {
    let answer = ask(service, post(r#"{"query":"why"}"#)).await;
    required(&answer).accepts.iter().map(|accepted| accepted.exact().unwrap().clone()).collect()
}

#[tokio::test]
async fn a_quote_names_the_first_network_in_pay_and_all_in_the_standards_header() {
    let shop = Shop::new();
    let merchant = shop.open_to_signed().await;
    assert!(merchant.networks().eq([BASE, SEPOLIA]));
    let service = sells(&merchant, &Counter::default());
    let answer = ask(&service, post(r#"{"query":"why"}"#)).await;
    assert_eq!(answer.status(), 402);
    let pay: Value = serde_json::from_str(answer.headers()["pay"].to_str().unwrap()).unwrap();
    assert_eq!(pay["chainId"], 8453);
    assert_eq!(answer.headers()["x-payment-contracts"], Asset::USDC_BASE.contract().to_string());
    let offered: Vec<_> =
        required(&answer).accepts.iter().map(|one| one.exact().map(|one| (one.network, one.asset)).unwrap()).collect();
    let known = [(BASE, Asset::USDC_BASE.contract()), (SEPOLIA, Asset::USDC_BASE_SEPOLIA.contract())];
    assert_eq!(offered, known);
    let length: usize = answer.headers().iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
    assert!(length <= 2_900, "{length}");
}

/// A credential of MPP names its network by the challenge that it repeats.
#[tokio::test]
async fn a_credential_counts_on_the_network_of_its_challenge() {
    for by_hash in [true, false] {
        let shop = Shop::new();
        let [on_base, on_sepolia] = shop.settlers.clone();
        let sepolia = Chain::new(SEPOLIA).verifier(shop.sepolia.clone()).settler(on_sepolia);
        let merchant = shop.built(shop.builder().settler(on_base).mpp("shop.example").chain(sepolia)).await;
        let service = sells(&merchant, &Counter::default());
        let quote = ask(&service, post(r#"{"query":"why"}"#)).await;
        let base = mpp::parameters(quote.headers()[header::WWW_AUTHENTICATE].to_str().unwrap());
        // For which the headers have no room here: a quote for fewer tokens has it.
        let mut sepolia = base.clone();
        let asked = URL_SAFE_NO_PAD.decode(base["request"].as_str().unwrap()).unwrap();
        let asked = String::from_utf8(asked)
            .unwrap()
            .replace("8453", "84532")
            .replace(&Asset::USDC_BASE.contract().to_string(), &Asset::USDC_BASE_SEPOLIA.contract().to_string());
        sepolia["request"] = URL_SAFE_NO_PAD.encode(asked).into();
        let shown = |credential: String| {
            let mut request = post(r#"{"query":"why"}"#);
            request.headers_mut().insert(header::AUTHORIZATION, credential.parse().unwrap());
            request
        };
        let (good, bad) = if by_hash {
            let transaction = shop.pay(SEPOLIA);
            (mpp::by_hash(&sepolia, transaction), mpp::by_hash(&base, transaction))
        } else {
            let offer = required(&quote).accepts[1].exact().unwrap().clone();
            let payment = sign(&offer, authorization(&offer, mpp::nonces(&sepolia)[0])).payload;
            let SchemePayload::Authorization(signed) = payment else { panic!("signed") };
            (mpp::by_authorization(&sepolia, &signed), String::new())
        };
        if by_hash {
            assert_problem(ask(&service, shown(bad)).await, 409, "tx_not_confirmed").await;
        }
        let answer = ask(&service, shown(good)).await;
        assert_eq!(answer.status(), 200, "{answer:?}");
        let taken = settled(&answer);
        assert_eq!((taken.network, taken.success), (Some(SEPOLIA), true));
        let settlements = shop.settlers.each_ref().map(ScriptedSettler::settlements);
        assert_eq!(settlements, if by_hash { [0, 0] } else { [0, 1] });
    }
}

#[tokio::test]
async fn where_headers_have_no_room_the_last_networks_are_left_out() {
    let shop = Shop::new();
    let builder = (1..30).fold(shop.builder().accept_submitted_transfers(), |builder, id| {
        let network = Network::eip155(id);
        let token = Asset::new(network, Address::new([9; 20]), 6, "USDC");
        builder.chain(
            Chain::new(network).asset(token).verifier(ScriptedVerifier::on(network, ChainTime::from_unix(NOW - 3600))),
        )
    });
    let service = sells(&shop.built(builder).await, &Counter::default());
    let answer = ask(&service, post(r#"{"query":"why"}"#)).await;
    let networks: Vec<_> =
        required(&answer).accepts.iter().map(|one| one.exact().unwrap().network.chain_id()).collect();
    assert!((2..12).contains(&networks.len()), "{networks:?}");
    let expected: Vec<_> = [8453].into_iter().chain(1..).take(networks.len()).collect();
    assert_eq!(networks, expected);
    let length: usize = answer.headers().iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
    assert!(length <= 2_900, "{length}");
}

#[tokio::test]
async fn a_transfer_on_either_buys_one_answer() {
    for (first, second) in [(BASE, SEPOLIA), (SEPOLIA, BASE)] {
        let (shop, counter) = (Shop::new(), Counter::default());
        let service = sells(&shop.open().await, &counter);
        let (intent, transactions) = (quoted(&service).await, [first, second].map(|network| shop.pay(network)));
        let answer = ask(&service, on(first, &intent, transactions[0])).await;
        assert_eq!(settled(&answer).network, Some(first));
        assert_eq!(answer.status(), 200);
        // The intent bought its answer, on whichever network it is shown again.
        for (network, transaction) in [(first, transactions[0]), (second, transactions[1])] {
            assert_problem(ask(&service, on(network, &intent, transaction)).await, 409, "already_consumed").await;
        }
        assert_eq!(counter.runs(), 1);
        // The other payment is not lost.
        let another = quoted(&service).await;
        assert_eq!(ask(&service, on(second, &another, transactions[1])).await.status(), 200);
    }
}

#[tokio::test]
async fn without_a_name_the_first_network_is_meant() {
    let shop = Shop::new();
    let service = sells(&shop.open().await, &Counter::default());
    let intent = quoted(&service).await;
    let transaction = shop.pay(SEPOLIA);
    for request in [redemption(&intent, transaction), shown(&intent, transaction, &json!({}))] {
        assert_problem(ask(&service, request).await, 409, "tx_not_confirmed").await;
    }
    assert_eq!(shop.pay(BASE), transaction);
    assert_eq!(ask(&service, redemption(&intent, transaction)).await.status(), 200);
}

#[tokio::test]
async fn one_hash_on_two_chains_is_two_payments_each_sold_once() {
    let (shop, counter) = (Shop::new(), Counter::default());
    let service = sells(&shop.open().await, &counter);
    let transaction = shop.pay(BASE);
    assert_eq!(shop.pay(SEPOLIA), transaction);
    for network in [SEPOLIA, BASE] {
        assert_eq!(ask(&service, on(network, &quoted(&service).await, transaction)).await.status(), 200);
        let again = on(network, &quoted(&service).await, transaction);
        assert_problem(ask(&service, again).await, 409, "tx_already_used").await;
    }
    assert_eq!(counter.runs(), 2);
}

#[tokio::test]
async fn a_payment_counts_on_its_own_network_alone() {
    let (shop, counter) = (Shop::new(), Counter::default());
    let service = sells(&shop.open().await, &counter);
    let (intent, transaction) = (quoted(&service).await, shop.pay(SEPOLIA));
    assert_problem(ask(&service, on(BASE, &intent, transaction)).await, 409, "tx_not_confirmed").await;
    // A verifier of one chain that tells of transfers on another.
    shop.base.mine(
        transaction,
        [Transfer::new(SEPOLIA, transaction, 0)
            .with_token(Asset::USDC_BASE_SEPOLIA.contract())
            .with_payer(payer())
            .with_recipient(recipient())
            .with_amount(Amount::from_base_units(490_000))
            .with_block(1, ChainTime::from_unix(NOW))],
    );
    let lied = ask(&service, on(BASE, &intent, transaction)).await;
    assert_eq!((lied.status().as_u16(), counter.runs()), (422, 0));
    // Nor does the token of one count on the other.
    let token = Asset::USDC_BASE.contract();
    let units = Amount::from_base_units(490_000);
    let foreign = shop.sepolia.pay(recipient(), token, payer(), units, ChainTime::from_unix(NOW));
    assert_problem(ask(&service, on(SEPOLIA, &intent, foreign)).await, 422, "transfer_not_found").await;
    assert_eq!(ask(&service, on(SEPOLIA, &intent, transaction)).await.status(), 200);
}

#[tokio::test]
async fn a_network_on_which_nothing_is_sold_is_no_bill() {
    let shop = Shop::new();
    let service = sells(&shop.open().await, &Counter::default());
    let (intent, transaction) = (quoted(&service).await, shop.pay(BASE));
    let elsewhere = || on(Network::eip155(1), &intent, transaction);
    let problem = assert_problem(ask(&service, elsewhere()).await, 400, "invalid_redemption").await;
    assert!(problem["detail"].as_str().unwrap().contains("Do not pay again"), "{problem}");
    assert_eq!(ask(&service, on(BASE, &intent, transaction)).await.status(), 200);
    // A consumed intent is consumed whatever else is true.
    assert_problem(ask(&service, elsewhere()).await, 409, "already_consumed").await;
}

/// A signature that redeems on one network names it, and says nothing on the other.
#[tokio::test]
async fn a_payers_signature_is_for_its_network() {
    let shop = Shop::new();
    let sepolia = Chain::new(SEPOLIA).verifier(shop.sepolia.clone());
    let service = sells(&shop.built(shop.builder().require_bound().chain(sepolia)).await, &Counter::default());
    let (intent, transaction) = (quoted(&service).await, shop.pay(SEPOLIA));
    assert_eq!(shop.pay(BASE), transaction);
    let signed = |network| {
        let message = redemption_message(network, transaction, &intent.parse().unwrap());
        let signature = scripted_signature(payer(), &message).to_string();
        shown(&intent, transaction, &json!({"chainId": 84532, "paymentSignature": signature}))
    };
    assert_problem(ask(&service, signed(BASE)).await, 403, "invalid_signature").await;
    assert_eq!(ask(&service, signed(SEPOLIA)).await.status(), 200);
}

#[tokio::test]
async fn a_node_that_is_down_stops_its_own_network() {
    for (down, up) in [(BASE, SEPOLIA), (SEPOLIA, BASE)] {
        let shop = Shop::new();
        let merchant = shop.open_to_signed().await;
        let service = sells(&merchant, &Counter::default());
        assert_eq!(merchant.health().await, Ok(()));
        let chain = if down == BASE { &shop.base } else { &shop.sepolia };
        let transactions = [down, up].map(|network| shop.pay(network));
        chain.outage(VerifyError::unavailable());
        let failed = merchant.health().await;
        assert!(matches!(&failed, Err(HealthError::Network { network, .. }) if *network == down), "{failed:?}");
        assert!(failed.unwrap_err().is_transient());
        let intents = [quoted(&service).await, quoted(&service).await];
        let refused = ask(&service, on(down, &intents[0], transactions[0])).await;
        assert_problem(refused, 503, "verification_unavailable").await;
        assert_eq!(ask(&service, on(up, &intents[1], transactions[1])).await.status(), 200);
        for index in [0, 1] {
            let offer = &offers(&service).await[index];
            let answer = ask(&service, paid(&sign(offer, authorization(offer, NONCE)))).await;
            assert_eq!(answer.status(), if offer.network == up { 200 } else { 503 });
        }
        chain.outage(None);
        assert_eq!(merchant.health().await, Ok(()));
        assert_eq!(ask(&service, on(down, &intents[0], transactions[0])).await.status(), 200);
    }
}

#[tokio::test]
async fn a_network_that_has_not_started_is_not_offered() {
    let shop = Shop::new();
    shop.sepolia.outage(VerifyError::unavailable());
    let [on_base, on_sepolia] = shop.settlers.clone();
    let sepolia = Chain::new(SEPOLIA).verifier(shop.sepolia.clone()).settler(on_sepolia);
    let builder = shop.builder().settler(on_base).chain(sepolia);
    let service = sells(&shop.built(builder.start_lazily()).await, &Counter::default());
    let networks = async || offers(&service).await.iter().map(|offer| offer.network).collect::<Vec<_>>();
    assert_eq!(networks().await, [BASE]);
    let intent = quoted(&service).await;
    let transaction = shop.pay(SEPOLIA);
    let refused = ask(&service, on(SEPOLIA, &intent, transaction)).await;
    assert_problem(refused, 503, "verification_unavailable").await;
    shop.sepolia.outage(None);
    for _ in 0..50 {
        shop.clock.advance(Duration::from_secs(5));
        if networks().await == [BASE, SEPOLIA] {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("it is never offered");
}

#[tokio::test]
async fn one_network_that_does_not_answer_ends_the_build_by_its_name() {
    let shop = Shop::new();
    shop.sepolia.outage(VerifyError::unavailable());
    let built = shop.builder().chain(Chain::new(SEPOLIA).verifier(shop.sepolia.clone())).build().await;
    let Err(BuildError::Health(HealthError::Network { network, error })) = built else { panic!("{built:?}") };
    assert_eq!((network, *error), (SEPOLIA, HealthError::Verifier(VerifyError::unavailable())));
}

#[tokio::test]
async fn a_signed_payment_on_either_buys_one_answer() {
    for first in [0, 1] {
        let (shop, counter) = (Shop::new(), Counter::default());
        let service = sells(&shop.open_to_signed().await, &counter);
        let offers = offers(&service).await;
        assert_eq!(intent(&offers[0]), intent(&offers[1]));
        let payments = [&offers[first], &offers[1 - first]].map(|offer| sign(offer, authorization(offer, NONCE)));
        let answer = ask(&service, paid(&payments[0])).await;
        assert_eq!((answer.status().as_u16(), settled(&answer).network), (200, Some(offers[first].network)));
        // The same authorization, shown as one of the other network: nothing is settled there.
        assert_problem(ask(&service, paid(&payments[1])).await, 409, "already_consumed").await;
        assert_eq!((shop.settlers[first].settlements(), shop.settlers[1 - first].settlements()), (1, 0));
        assert_eq!(counter.runs(), 1);
    }
}

#[tokio::test]
async fn of_payments_on_both_networks_at_once_one_is_taken() {
    for _ in 0..20 {
        let (shop, counter) = (Shop::new(), Counter::default());
        let service = sells(&shop.open_to_signed().await, &counter);
        let offers = offers(&service).await;
        let signed = sign(&offers[1], authorization(&offers[1], NONCE));
        let shown = on(BASE, &intent(&offers[0]), shop.pay(BASE));
        let (signed, shown) = tokio::join!(ask(&service, paid(&signed)), ask(&service, shown));
        let statuses = [signed.status().as_u16(), shown.status().as_u16()];
        assert!([[200, 409], [409, 200]].contains(&statuses), "{statuses:?}");
        assert_eq!(shop.settlers[1].settlements(), usize::from(statuses[0] == 200));
        assert_eq!(counter.runs(), 1);
    }
}

/// What the payer accepted must be what this network was offered with.
#[tokio::test]
async fn terms_of_two_networks_do_not_mix() {
    let shop = Shop::new();
    let service = sells(&shop.open_to_signed().await, &Counter::default());
    let offers = offers(&service).await;
    let mut mixed = offers[0].clone();
    mixed.network = SEPOLIA;
    let mut unknown = offers[0].clone();
    unknown.network = Network::eip155(1);
    for (offer, reason) in [(mixed, "invalid_payment_requirements"), (unknown, "invalid_network")] {
        let answer = ask(&service, paid(&sign(&offer, authorization(&offer, NONCE)))).await;
        assert_eq!(answer.status(), 402);
        let told = settled(&answer);
        assert_eq!((told.error_reason.unwrap().as_str(), told.network), (reason, Some(offer.network)));
    }
    assert_eq!(shop.settlers.each_ref().map(ScriptedSettler::settlements), [0, 0]);
}

#[tokio::test]
async fn settings_that_would_sell_wrongly_are_refused() {
    let shop = Shop::new();
    let sepolia = || Chain::new(SEPOLIA).verifier(shop.sepolia.clone());
    let on_sepolia = |decimals| Asset::new(SEPOLIA, Address::new([9; 20]), decimals, "USDC");
    for (builder, expected) in [
        (shop.builder().chain(Chain::new(BASE).verifier(shop.base.clone())), "set twice"),
        (shop.builder().chain(sepolia()).chain(sepolia()), "set twice"),
        (shop.builder().chain(sepolia().asset(on_sepolia(18))), "mixed decimals"),
        (shop.builder().chain(sepolia().asset(Asset::USDC_BASE)), "wrong network"),
        (shop.builder().chain(Chain::new(SEPOLIA)), "no verifier"),
        (shop.builder().chain(Chain::new(Network::eip155(1)).verifier(shop.sepolia.clone())), "no token"),
        (
            shop.builder().accept_submitted_transfers().chain(Chain::new(SEPOLIA).settler(shop.settlers[1].clone())),
            "no verifier",
        ),
    ] {
        let refused = builder.build().await.unwrap_err().to_string();
        assert!(refused.contains(expected), "{expected}: {refused}");
    }
}

/// Transfers that a chain has.
struct History(Vec<Transfer>);

impl TransferHistory for History {
    async fn transfers(&self, query: &TransferQuery) -> Result<Vec<Transfer>, VerifyError> {
        assert!(query.assets().iter().all(|asset| asset.network() == self.0[0].network));
        Ok(self.0.clone())
    }
}

#[tokio::test]
async fn what_bought_nothing_is_listed_by_network() {
    let (shop, directory) = (Shop::new(), tempfile::tempdir().unwrap());
    let ledger = SqliteLedger::open(directory.path().join("ledger.db")).await.unwrap();
    let sepolia = Chain::new(SEPOLIA).verifier(shop.sepolia.clone());
    let merchant = shop.built(shop.builder().ledger(ledger.clone()).chain(sepolia)).await;
    let service = sells(&merchant, &Counter::default());
    let transaction = shop.pay(SEPOLIA);
    let history = |network| {
        History(vec![
            Transfer::new(network, transaction, 0)
                .with_token(Asset::USDC_BASE.contract())
                .with_payer(payer())
                .with_recipient(recipient())
                .with_amount(Amount::from_base_units(490_000))
                .with_block(1, ChainTime::from_unix(NOW))
                .with_binding(Binding::none()),
        ])
    };
    let sold = ask(&service, on(SEPOLIA, &quoted(&service).await, transaction)).await;
    assert_eq!(read(sold).await.0, 200);
    let since = ChainTime::from_unix(NOW - 60);
    for (network, unsold) in [(BASE, 1), (SEPOLIA, 0)] {
        let listed = merchant.unredeemed_on(network, &history(network), &ledger, since, None).await.unwrap();
        assert_eq!(listed.len(), unsold, "{network}");
    }
    let elsewhere = Network::eip155(1);
    let listed = merchant.unredeemed_on(elsewhere, &history(elsewhere), &ledger, since, None).await;
    assert_eq!(listed, Err(HealthError::NotSoldOn { network: elsewhere }));
}

/// Chains do not tell one time: a payment on the one that is behind is judged by its own mark.
#[tokio::test]
async fn a_network_that_is_behind_the_other_sells() {
    let shop = Shop::new();
    shop.base.set_head(ChainTime::from_unix(NOW + 900));
    let merchant = shop.builder().chain(Chain::new(SEPOLIA).verifier(shop.sepolia.clone())).build().await.unwrap();
    shop.sepolia.set_head(ChainTime::from_unix(NOW));
    let [base, sepolia] = [shop.ledger.low_water_mark(BASE).await, shop.ledger.low_water_mark(SEPOLIA).await];
    assert_eq!(
        (base, sepolia),
        (Ok(Some(ChainTime::from_unix(NOW + 900))), Ok(Some(ChainTime::from_unix(NOW - 3600))))
    );
    let counter = Counter::default();
    let service = sells(&merchant, &counter);
    let intent = quoted(&service).await;
    let paid = shop.pay(SEPOLIA);
    assert_eq!(ask(&service, on(SEPOLIA, &intent, paid)).await.status(), 200);
    assert_problem(ask(&service, on(BASE, &quoted(&service).await, shop.pay(BASE))).await, 422, "payment_too_old")
        .await;
    assert_eq!(counter.runs(), 1);
}

/// Each network of a page has the payments that are taken on it, and on no other.
#[tokio::test]
async fn a_page_has_the_payments_of_every_network() {
    let shop = Shop::new();
    let signed_on_the_second = {
        let sepolia = Chain::new(SEPOLIA).verifier(shop.sepolia.clone()).settler(shop.settlers[1].clone());
        shop.built(shop.builder().chain(sepolia)).await
    };
    for (merchant, signed) in [(shop.open_to_signed().await, [true, true]), (signed_on_the_second, [false, true])] {
        let service = layered(&merchant.charge("answer", PRICE).unwrap().page(Page::new()), echo(Counter::default()));
        let (_, _, document) = page::text(ask(&service, page::navigation("/answer")).await).await;
        let told = page::data(&document);
        assert!(document.contains("USDC on Base · Base Sepolia"));
        for (number, network) in [BASE, SEPOLIA].into_iter().enumerate() {
            let chain = &told["chains"][number];
            let token = Asset::usdc_of(network).unwrap().contract().to_string();
            assert_eq!(chain["id"], network.chain_id());
            assert_eq!((&chain["token"], &chain["transfer"]["to"]), (&json!(token), &json!(token)));
            assert_eq!(chain["signed"].is_object(), signed[number], "{network}");
            if signed[number] {
                assert_eq!(chain["signed"]["accepted"]["network"], network.to_string());
            }
        }
    }
}
