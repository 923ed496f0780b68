//! Purchases by MPP: at sellers that do as they should, and at others. Only what the chain says counts.

use std::time::Duration;

use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{HeaderMap, header::AUTHORIZATION};
use tower_x402::{
    client::{BudgetDenial, PurchaseState, Standard},
    protocol::{
        headers::PAYMENT_AUTHORIZATION,
        mpp::{Credential, CredentialPayload, challenge_hashes},
        v2::SignedAuthorization,
    },
};

use super::*;

const REALM: &str = "seller.example";

/// A challenge as mppx writes it, whose parts can be changed.
#[derive(Clone)]
pub struct Challenge {
    pub id: String,
    pub realm: String,
    pub amount: String,
    pub recipient: Address,
    pub chain: u64,
    /// In seconds from the beginning.
    pub lasts: u64,
    pub more: String,
}

impl Challenge {
    pub fn new(id: &str) -> Self {
        let (id, realm, amount, more) = (id.to_owned(), REALM.to_owned(), "490000".to_owned(), String::new());
        Self { id, realm, amount, recipient: recipient(), chain: 8453, lasts: 300, more }
    }

    pub fn header(&self) -> String {
        let Self { id, realm, amount, recipient, chain, lasts, more } = self;
        let request = json!({
            "amount": amount, "currency": Asset::USDC_BASE.contract(), "recipient": recipient,
            "methodDetails": {"chainId": chain, "credentialTypes": ["authorization"], "decimals": 6},
        });
        let request = URL_SAFE_NO_PAD.encode(request.to_string());
        let expires = std::time::UNIX_EPOCH + Duration::from_secs(NOW + lasts);
        let expires = humantime::format_rfc3339_millis(expires);
        format!(
            r#"Payment id="{id}", realm="{realm}", method="evm", intent="charge", request="{request}", expires="{expires}"{more}"#
        )
    }

    pub fn reply(&self) -> Reply {
        reply(402, &[("www-authenticate", &self.header()), ("content-type", "application/problem+json")], "{}")
    }
}

pub fn read(headers: &HeaderMap) -> Option<(Credential, SignedAuthorization)> {
    let read = |name| Credential::from_headers(headers, &name).unwrap();
    let credential = read(AUTHORIZATION).or_else(|| read(PAYMENT_AUTHORIZATION))?;
    let CredentialPayload::Authorization(signed) = credential.payload.clone() else { panic!("{credential:?}") };
    Some((credential, signed))
}

pub fn settled(chain: &ScriptedVerifier, signed: &SignedAuthorization) -> TxHash {
    let transaction = TxHash::new(signed.authorization.nonce.map(|byte| byte ^ 0xff));
    let mined = ChainTime::from_unix(NOW);
    chain.mine(transaction, [made_from(Asset::USDC_BASE.contract(), &signed.authorization, transaction, mined)]);
    transaction
}

pub fn receipt(transaction: TxHash) -> Reply {
    let receipt = json!({
        "method": "evm", "reference": transaction, "status": "success", "timestamp": "2026-01-01T00:00:00Z",
    });
    reply(200, &[("payment-receipt", &URL_SAFE_NO_PAD.encode(receipt.to_string()))], "the answer")
}

/// A seller with a fresh challenge for each request, which does this with a payment that it is shown, the so-many-th from 0.
pub fn shop(then: impl Fn(&SignedAuthorization, usize) -> Reply + Send + Sync + 'static) -> Seller {
    let shows = std::sync::atomic::AtomicUsize::new(0);
    Seller::new(move |asked| match read(&asked.headers) {
        Some((_, signed)) => then(&signed, shows.fetch_add(1, std::sync::atomic::Ordering::SeqCst)),
        None => Challenge::new(&format!("challenge-{}", asked.before)).reply(),
    })
}

fn honest(market: &Market) -> Seller {
    let chain = market.shop.chain.clone();
    shop(move |signed, _| receipt(settled(&chain, signed)))
}

/// What was shown: each payment once, and how often.
pub fn payments(seller: &Seller) -> (usize, usize) {
    let mut all: Vec<_> = seller.asked().iter().filter_map(|asked| read(&asked.headers)).collect();
    let shows = all.len();
    all.dedup();
    (all.len(), shows)
}

#[tokio::test(start_paused = true)]
async fn one_signature_buys_one_answer() {
    let market = Market::open().await;
    let (chain, journal) = (market.shop.chain.clone(), market.journal.clone());
    let seller = shop(move |signed, _| {
        let entries = journal.entries();
        assert_eq!((entries.len(), entries[0].state), (1, PurchaseState::Paying), "recorded before it is shown");
        assert_eq!((entries[0].authorization(), entries[0].standard()), (Some(signed), Some(Standard::Mpp)));
        receipt(settled(&chain, signed))
    });
    let got = buy(&market, &seller).await.unwrap();
    let bought = got.purchase.unwrap();
    assert_eq!((got.text.as_str(), bought.state, bought.confirmed), ("the answer", PurchaseState::Answered, true));
    assert_eq!((bought.standard, bought.attempts), (Some(Standard::Mpp), 1));
    let (credential, signed) = seller.asked().iter().find_map(|asked| read(&asked.headers)).unwrap();
    let authorization = &signed.authorization;
    assert_eq!(authorization.nonce, challenge_hashes("challenge-0", REALM)[0]);
    assert_eq!((authorization.to, authorization.valid_before), (recipient(), ChainTime::from_unix(NOW + 300)));
    assert_eq!((credential.challenge.id.as_str(), credential.challenge.realm.as_str()), ("challenge-0", REALM));
    let entry = market.journal.entries().remove(0);
    assert_eq!((entry.state, entry.transaction), (PurchaseState::Answered, bought.transaction));
    assert!(bought.transaction.is_some() && market.wallet.transfers() == 0);
}

/// A seller's id is bound to all of it.
#[tokio::test(start_paused = true)]
async fn the_challenge_is_repeated_to_the_letter() {
    let market = Market::open().await;
    let mut challenge = Challenge::new("an id, of any kind: ~!@#$%^&*()");
    challenge.more = r#", digest="sha-256=YWJj", opaque="eyJhIjoiYiJ9", later="unknown""#.to_owned();
    let chain = market.shop.chain.clone();
    let seller = Seller::new(move |asked| {
        let Some(shown) = asked.headers.get(AUTHORIZATION) else {
            let lines = format!(r#"Bearer realm="x, y", {}"#, challenge.header());
            return reply(402, &[("www-authenticate", &lines), ("www-authenticate", "Basic")], "");
        };
        let token = shown.to_str().unwrap().strip_prefix("Payment ").unwrap();
        let json: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(token).unwrap()).unwrap();
        let repeated = json["challenge"].as_object().unwrap();
        for (name, value) in repeated {
            assert!(challenge.header().contains(&format!("{name}=\"{}\"", value.as_str().unwrap())), "{name}");
        }
        let names: Vec<&str> = repeated.keys().map(String::as_str).collect();
        assert_eq!(names.len(), 8, "{names:?}");
        let (_, signed) = read(&asked.headers).unwrap();
        receipt(settled(&chain, &signed))
    });
    assert_eq!(buy(&market, &seller).await.unwrap().text, "the answer");
}

fn with_key() -> http::Request<Body> {
    let mut request = question("{}");
    request.headers_mut().insert(AUTHORIZATION, "Bearer key".parse().unwrap());
    request
}

#[tokio::test(start_paused = true)]
async fn a_callers_own_authorization_stays_where_the_challenge_leaves_it_room() {
    let market = Market::open().await;
    let mut challenge = Challenge::new("challenge");
    challenge.more = r#", header="Payment-Authorization""#.to_owned();
    let chain = market.shop.chain.clone();
    let seller = Seller::new(move |asked| {
        assert_eq!(asked.headers[AUTHORIZATION], "Bearer key");
        match read(&asked.headers) {
            Some((_, signed)) => receipt(settled(&chain, &signed)),
            None => challenge.reply(),
        }
    });
    assert_eq!(ask(&market.layer().await, &seller, with_key()).await.unwrap().text, "the answer");
    assert_eq!(market.wallet.authorizations_signed(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_callers_own_authorization_is_not_overwritten() {
    let market = Market::open().await;
    let seller = shop(|_, _| reply(503, &[], ""));
    let error = ask(&market.layer().await, &seller, with_key()).await.unwrap_err();
    assert_eq!((error.kind(), error.money()), (PayErrorKind::AuthorizationTaken, Money::Untouched), "{error}");
    assert_eq!((market.wallet.authorizations_signed(), market.journal.entries().len()), (0, 0));
    // Nor by what was signed for the same request without one.
    assert_eq!(buy(&market, &seller).await.unwrap_err().kind(), PayErrorKind::Outstanding);
    let before = seller.asked().len();
    let error = ask(&market.layer().await, &seller, with_key()).await.unwrap_err();
    assert_eq!((error.kind(), error.is_resumable()), (PayErrorKind::AuthorizationTaken, true), "{error}");
    assert_eq!(error.money(), Money::AtRisk { until: Some(ChainTime::from_unix(NOW + 300)) });
    assert_eq!((market.wallet.authorizations_signed(), seller.asked().len()), (1, before));
    // Another offer of the same 402 is taken.
    let chain = market.shop.chain.clone();
    let both = Seller::new(move |asked| match shown(asked) {
        Some(payment) => delivered(settle(&chain, &payment)),
        None => beside(&Challenge::new("cheap"), "490001"),
    });
    let got = ask(&Market::open().await.layer().await, &both, with_key()).await.unwrap();
    assert_eq!(got.purchase.unwrap().standard, Some(Standard::X402));
}

/// A 402 with a challenge and a demand of x402 at that price.
pub fn beside(challenge: &Challenge, x402: &str) -> Reply {
    let required = json!({
        "x402Version": 2, "accepts": [way(x402)], "resource": {"url": "https://seller.example/answer"},
    });
    reply(402, &[("payment-required", &encoded(&required)), ("www-authenticate", &challenge.header())], "")
}

/// Which standard is paid, where both are offered.
async fn taken(first: Reply, standards: &[Standard]) -> Option<Standard> {
    let market = Market::open().await;
    let (chain, first) = (market.shop.chain.clone(), std::sync::Mutex::new(Some(first)));
    let seller = Seller::new(move |asked| match (shown(asked), read(&asked.headers)) {
        (Some(payment), _) => delivered(settle(&chain, &payment)),
        (_, Some((_, signed))) => receipt(settled(&chain, &signed)),
        _ => first.lock().unwrap().take().expect("asked once"),
    });
    let layer = market.layer_with(|builder| builder.standards(standards.iter().copied())).await;
    let got = ask(&layer, &seller, question("{}")).await;
    got.map(|got| got.purchase.unwrap().standard.unwrap()).ok()
}

#[tokio::test(start_paused = true)]
async fn the_cheaper_standard_is_taken_and_x402_at_one_price() {
    let mpp = || Challenge::new("challenge");
    let dear = Challenge { amount: "490001".to_owned(), ..mpp() };
    assert_eq!(taken(beside(&mpp(), "490000"), &Standard::ALL).await, Some(Standard::X402));
    assert_eq!(taken(beside(&dear, "490000"), &Standard::ALL).await, Some(Standard::X402));
    assert_eq!(taken(beside(&mpp(), "490001"), &Standard::ALL).await, Some(Standard::Mpp));
    assert_eq!(taken(beside(&mpp(), "490000"), &[Standard::Mpp, Standard::X402]).await, Some(Standard::Mpp));
    assert_eq!(taken(beside(&dear, "490000"), &[Standard::Mpp]).await, Some(Standard::Mpp));
    assert_eq!(taken(mpp().reply(), &[Standard::X402]).await, None);
}

#[tokio::test(start_paused = true)]
async fn what_is_malformed_in_one_standard_spoils_no_other() {
    let broken = Challenge { more: r#", id="twice""#.to_owned(), ..Challenge::new("challenge") };
    assert_eq!(taken(beside(&broken, "490000"), &Standard::ALL).await, Some(Standard::X402));
    let header = Challenge::new("challenge").header();
    for other in [("payment-required", "bm90IGpzb24="), ("pay", "{"), ("www-authenticate", "Payment id=")] {
        let said = reply(402, &[other, ("www-authenticate", &header)], "");
        assert_eq!(taken(said, &Standard::ALL).await, Some(Standard::Mpp), "{other:?}");
    }
    // A body of version 1 is one more offer; a broken one is none.
    let mut way = way("0");
    (way["network"], way["maxAmountRequired"]) = (json!("base"), json!("490000"));
    let body = json!({"x402Version": 1, "accepts": [way]}).to_string();
    for (body, standard) in [(body.clone(), Standard::X402V1), (body.replace("\"490000\"", "7.5"), Standard::Mpp)] {
        let (market, header) = (Market::open().await, header.clone());
        let seller = Seller::new(move |asked| match (asked.headers.get("x-payment"), read(&asked.headers)) {
            (None, None) => {
                let headers = [("www-authenticate", &*header), ("content-type", "application/json")];
                reply(402, &headers, body.clone())
            }
            _ => reply(200, &[("payment-response", "e30=")], "the answer"),
        });
        let got = ask(&market.layer().await, &seller, question("{}")).await.unwrap();
        assert_eq!(got.purchase.unwrap().standard, Some(standard));
    }
}

/// Hostile: another bill for the payment that is shown. One challenge is paid, and that once.
#[tokio::test(start_paused = true)]
async fn a_402_for_a_credential_is_not_paid_again_whatever_it_asks() {
    let changes: [fn(&mut Challenge); 6] = [
        |_| {},
        |challenge| challenge.realm = "other.example".to_owned(),
        // The one that was paid, in another realm: another nonce.
        |challenge| (challenge.id, challenge.realm) = ("challenge-0".to_owned(), "other.example".to_owned()),
        |challenge| challenge.amount = "1".to_owned(),
        |challenge| challenge.recipient = Address::new([9; 20]),
        |challenge| challenge.amount = "990000".to_owned(),
    ];
    for change in changes {
        let market = Market::open().await;
        let seller = shop(move |_, shows| {
            let mut fresh = Challenge::new(&format!("fresh-{shows}"));
            change(&mut fresh);
            fresh.reply()
        });
        for _ in 0..2 {
            let error = buy(&market, &seller).await.unwrap_err();
            let until = Some(ChainTime::from_unix(NOW + 300));
            assert_eq!((error.kind(), error.money()), (PayErrorKind::Outstanding, Money::AtRisk { until }), "{error}");
            assert_eq!((market.wallet.authorizations_signed(), payments(&seller).0), (1, 1));
        }
        // Only once the chain is past its end, another one is signed.
        expire(&market);
        let later = Challenge { lasts: 4_000, ..Challenge::new("later") };
        let chain = market.shop.chain.clone();
        let sane = Seller::new(move |asked| match read(&asked.headers) {
            Some((_, signed)) => receipt(settled(&chain, &signed)),
            None => later.reply(),
        });
        assert_eq!(buy(&market, &sane).await.unwrap().text, "the answer");
        assert_eq!(market.wallet.authorizations_signed(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn a_seller_that_settles_and_says_402_is_paid_once() {
    let market = Market::open().await;
    let chain = market.shop.chain.clone();
    let seller = shop(move |signed, shows| {
        settled(&chain, signed);
        Challenge::new(&format!("fresh-{shows}")).reply()
    });
    for _ in 0..3 {
        let error = buy(&market, &seller).await.unwrap_err();
        assert!(error.kind() == PayErrorKind::BilledAgain && error.transaction().is_some(), "{error}");
        assert_eq!((market.wallet.authorizations_signed(), payments(&seller).0), (1, 1));
    }
}

/// The process ends between the signature and the answer: the next one shows what the journal has.
#[tokio::test(start_paused = true)]
async fn a_lost_answer_is_asked_for_with_the_same_credential() {
    let market = Market::open().await;
    let chain = market.shop.chain.clone();
    let seller = shop(move |signed, shows| match shows {
        0 => Reply::Hangs,
        1 => Reply::Broken,
        _ => receipt(settled(&chain, signed)),
    });
    let layer = market.layer().await;
    let call = tokio::time::timeout(Duration::from_secs(5), ask(&layer, &seller, question("{}")));
    assert!(call.await.is_err());
    assert_eq!(buy(&market, &seller).await.unwrap().text, "the answer");
    assert_eq!((market.wallet.authorizations_signed(), payments(&seller)), (1, (1, 3)));
}

#[tokio::test(start_paused = true)]
async fn an_answer_without_a_receipt_leaves_the_authorization_to_the_same_request() {
    let market = Market::open().await;
    let seller = shop(|_, _| reply(200, &[], "the answer"));
    for _ in 0..2 {
        let bought = buy(&market, &seller).await.unwrap().purchase.unwrap();
        assert_eq!((bought.state, bought.confirmed), (PurchaseState::Unspent, false));
    }
    assert_eq!((market.wallet.authorizations_signed(), payments(&seller)), (1, (1, 2)));
    // It is for its own challenge: another request is not paid with it.
    let chain = market.shop.chain.clone();
    let other = Seller::new(move |asked| match read(&asked.headers) {
        Some((_, signed)) => receipt(settled(&chain, &signed)),
        None => Challenge::new("another").reply(),
    });
    assert_eq!(ask(&market.layer().await, &other, question("[1]")).await.unwrap().text, "the answer");
    assert_eq!(market.wallet.authorizations_signed(), 2);
    assert_eq!(read(&other.asked()[1].headers).unwrap().0.challenge.id.as_str(), "another");
}

/// Two authorizations for one challenge have one nonce: the second would buy nothing.
#[tokio::test(start_paused = true)]
async fn one_challenge_is_paid_once() {
    let market = Market::open().await;
    let chain = market.shop.chain.clone();
    let seller = Seller::new(move |asked| match read(&asked.headers) {
        Some((_, signed)) => receipt(settled(&chain, &signed)),
        None => Challenge::new("the same for all").reply(),
    });
    assert_eq!(buy(&market, &seller).await.unwrap().text, "the answer");
    // In another process, too.
    let error = ask(&market.layer().await, &seller, question("[1]")).await.unwrap_err();
    assert_eq!((error.denial(), error.money()), (Some(BudgetDenial::IntentReused), Money::Untouched), "{error}");
    assert_eq!(payments(&seller), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn what_must_not_be_paid_is_not_signed() {
    let with = |change: fn(&mut Challenge)| {
        let mut challenge = Challenge::new("challenge");
        change(&mut challenge);
        challenge.reply()
    };
    let header = Challenge::new("challenge").header();
    let elsewhere = [("www-authenticate", &*header), ("location", "https://other.example/")];
    let cases = [
        ("too long", with(|challenge| challenge.id = "x".repeat(16 * 1024)), PayErrorKind::Quote),
        ("expired", with(|challenge| challenge.lasts = 0), PayErrorKind::Declined),
        ("expires at once", with(|challenge| challenge.lasts = 3), PayErrorKind::Declined),
        ("another chain", with(|challenge| challenge.chain = 1), PayErrorKind::Declined),
        ("nothing", with(|challenge| challenge.amount = "0".to_owned()), PayErrorKind::Declined),
        ("above the budget", with(|challenge| challenge.amount = "1000001".to_owned()), PayErrorKind::Declined),
        (
            "the token itself",
            with(|challenge| challenge.recipient = Asset::USDC_BASE.contract()),
            PayErrorKind::Declined,
        ),
        ("another header", with(|challenge| challenge.more = r#", header="X-Pay""#.to_owned()), PayErrorKind::Http),
        (
            "another method",
            reply(402, &[("www-authenticate", &header.replace("evm", "tempo"))], ""),
            PayErrorKind::Http,
        ),
        ("a redirect", reply(307, &elsewhere, ""), PayErrorKind::Http),
        ("no bill", reply(401, &elsewhere, ""), PayErrorKind::Http),
    ];
    for (name, said, kind) in cases {
        let market = Market::open().await;
        let said = std::sync::Mutex::new(Some(said));
        let seller = Seller::new(move |_| said.lock().unwrap().take().expect("asked once"));
        match ask(&market.layer().await, &seller, question("{}")).await {
            Ok(got) => assert_eq!((kind, got.purchase.is_none()), (PayErrorKind::Http, true), "{name}: passed on"),
            Err(error) => assert_eq!((error.kind(), error.money()), (kind, Money::Untouched), "{name}: {error}"),
        }
        assert_eq!((market.wallet.authorizations_signed(), market.journal.entries().len()), (0, 0), "{name}");
    }
    let market = Market::open().await;
    let plain = http::Request::get("http://seller.example/weather").body(Body::empty()).unwrap();
    let error = ask(&market.layer().await, &honest(&market), plain).await.unwrap_err();
    assert_eq!((error.denial(), market.wallet.authorizations_signed()), (Some(BudgetDenial::PlainHttp), 0), "{error}");
}

/// The credential is not sent where the seller sends the client.
#[tokio::test(start_paused = true)]
async fn a_redirect_of_a_credential_is_not_followed() {
    let market = Market::open().await;
    let seller = shop(|_, _| reply(307, &[("location", "https://other.example/")], ""));
    let error = buy(&market, &seller).await.unwrap_err();
    assert_eq!(error.kind(), PayErrorKind::Outstanding, "{error}");
    assert!(seller.asked().iter().all(|asked| asked.uri.host() == Some("seller.example")));
    assert_eq!(market.wallet.authorizations_signed(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_signature_ends_with_the_challenge_or_with_the_callers_patience() {
    for (lasts, patience, valid) in [(300, 900, 300), (3_600, 90, 90)] {
        let market = Market::open().await;
        let (chain, challenge) = (market.shop.chain.clone(), Challenge { lasts, ..Challenge::new("challenge") });
        let seller = Seller::new(move |asked| match read(&asked.headers) {
            Some((_, signed)) => {
                assert_eq!(signed.authorization.valid_before.unix(), NOW + valid);
                receipt(settled(&chain, &signed))
            }
            None => challenge.reply(),
        });
        let layer = market.layer_with(|builder| builder.patience(Duration::from_secs(patience))).await;
        assert_eq!(ask(&layer, &seller, question("{}")).await.unwrap().text, "the answer");
    }
}

/// The caller pays by itself.
#[tokio::test(start_paused = true)]
async fn a_credential_of_the_callers_own_is_forwarded() {
    let market = Market::open().await;
    let seller = Seller::new(|_| Challenge::new("challenge").reply());
    for (name, value) in [("authorization", "payment abc"), ("payment-authorization", "Payment abc")] {
        let mut request = question("{}");
        request.headers_mut().insert(name, value.parse().unwrap());
        let got = ask(&market.layer().await, &seller, request).await.unwrap();
        assert_eq!((got.status.as_u16(), market.wallet.authorizations_signed()), (402, 0), "{name}");
    }
}
