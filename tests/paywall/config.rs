//! What would sell wrongly is refused when building, by name; and nothing that is shown holds a key.

use std::time::Duration;

use axum::body::Body;
use tower::Layer as _;
use tower_x402::{
    BuildError, HealthError, Merchant, MerchantBuilder, Price, PriceTag, Refusal,
    ledger::{LedgerError, MemoryLedger},
    protocol::{Address, Amount, Asset, ChainTime, Network, SealingKeys},
    testing::{ScriptedSettler, ScriptedVerifier},
    verify::{VerifyError, VerifyErrorKind},
};

use crate::{
    support::faults::{Fault, Faulty, Op},
    support::{Counter, NOW, PRICE, Shop, ask, echo, layered, post, quoted, recipient, redemption},
};

fn complete() -> MerchantBuilder {
    Merchant::builder(recipient())
        .verifier(ScriptedVerifier::new(ChainTime::from_unix(NOW)))
        .ledger(MemoryLedger::new())
        .sealing_keys(SealingKeys::new([7; 32]))
}

/// Builds, and shows why not.
macro_rules! assert_refused {
    ($builder:expr, $pattern:pat $(if $guard:expr)?) => {{
        let refused = $builder.build().await.map(drop);
        assert!(matches!(&refused, Err($pattern) $(if $guard)?), "{refused:?}");
        says_something(&refused.unwrap_err());
    }};
}

/// An error is one sentence for whoever set the thing up.
fn says_something(error: &BuildError) {
    let text = error.to_string();
    assert!(text.len() > 20 && !text.contains('\n'), "{text}");
}

fn usdc(decimals: u8) -> Asset {
    Asset::new(Network::BASE, Address::new([0xcc; 20]), decimals, "TOK")
}

#[tokio::test]
async fn what_is_required_is_asked_for() {
    let verifier = || ScriptedVerifier::new(ChainTime::from_unix(NOW));
    let keys = || SealingKeys::new([7; 32]);
    let builder = || Merchant::builder(recipient());
    assert_refused!(builder().ledger(MemoryLedger::new()).sealing_keys(keys()), BuildError::NoVerifier);
    assert_refused!(builder().verifier(verifier()).sealing_keys(keys()), BuildError::NoLedger);
    assert_refused!(builder().verifier(verifier()).ledger(MemoryLedger::new()), BuildError::NoSealingKeys);
    assert!(complete().build().await.is_ok());
}

#[tokio::test]
async fn nobody_is_paid_who_cannot_be() {
    let token = Asset::USDC_BASE.contract();
    for bad in [Address::ZERO, token] {
        let builder = Merchant::builder(bad)
            .verifier(ScriptedVerifier::new(ChainTime::from_unix(NOW)))
            .ledger(MemoryLedger::new())
            .sealing_keys(SealingKeys::new([7; 32]));
        assert_refused!(builder, BuildError::InvalidRecipient { recipient } if *recipient == bad);
        assert_refused!(complete().former_recipient(bad), BuildError::InvalidRecipient { .. });
    }
    // A token of one's own choice, present or former, is none either.
    assert_refused!(
        complete().asset(usdc(6)).former_recipient(usdc(6).contract()),
        BuildError::InvalidRecipient { .. }
    );
    assert_refused!(
        complete().former_asset(usdc(6)).former_recipient(usdc(6).contract()),
        BuildError::InvalidRecipient { .. }
    );
}

#[tokio::test]
async fn tokens_must_fit_the_chain_and_each_other() {
    let network = Network::eip155(1);
    assert_refused!(complete().network(network), BuildError::NoAsset { network: found } if *found == network);
    assert_refused!(complete().asset(Asset::USDC_BASE_SEPOLIA), BuildError::WrongNetwork { .. });
    assert_refused!(complete().former_asset(Asset::USDC_BASE_SEPOLIA), BuildError::WrongNetwork { .. });
    assert_refused!(
        complete().asset(Asset::USDC_BASE).asset(usdc(18)),
        BuildError::MixedDecimals { expected: 6, found: 18, .. }
    );
    assert_refused!(complete().former_asset(usdc(18)), BuildError::MixedDecimals { .. });
    assert_refused!(complete().asset(usdc(78)), BuildError::OutOfRange { what: "decimals" });
    let symbol = |symbol: &'static str| Asset::new(Network::BASE, Address::new([0xcc; 20]), 6, symbol);
    assert_refused!(complete().asset(symbol("")), BuildError::InvalidText { what: "a symbol", .. });
    assert_refused!(complete().asset(symbol("US\r\nDC")), BuildError::InvalidText { what: "a symbol", .. });
    let sepolia = complete().network(Network::BASE_SEPOLIA).build().await.unwrap();
    assert_eq!((sepolia.assets(), sepolia.network()), (&[Asset::USDC_BASE_SEPOLIA][..], Network::BASE_SEPOLIA));
}

#[tokio::test]
async fn durations_have_bounds() {
    type Set = fn(MerchantBuilder, Duration) -> MerchantBuilder;
    let day = 24 * 60 * 60;
    let settings: [(&str, Set, u64, u64); 6] = [
        ("quote_ttl", MerchantBuilder::quote_ttl, 1, 30 * day),
        ("quote_grace", MerchantBuilder::quote_grace, 0, day),
        ("max_payment_age", MerchantBuilder::max_payment_age, 1, 365 * day),
        ("max_hold", MerchantBuilder::max_hold, 1, day),
        ("lease", MerchantBuilder::lease, 1, 60 * 60),
        ("hold_unbound", MerchantBuilder::hold_unbound, 0, 60 * 60),
    ];
    for (name, set, min, max) in settings {
        for good in [min, max] {
            assert!(set(complete(), Duration::from_secs(good)).build().await.is_ok(), "{name} {good}");
        }
        let above = Duration::from_secs(max) + Duration::from_nanos(1);
        for bad in [Some(above), Duration::from_secs(min).checked_sub(Duration::from_nanos(1))].into_iter().flatten() {
            assert_refused!(set(complete(), bad), BuildError::InvalidDuration { what, .. } if *what == name);
        }
    }
}

/// A hold that outlives a payment would make it worthless.
#[tokio::test]
async fn an_unbound_payment_is_never_held_for_longer_than_half_its_life() {
    let of = |age, hold| complete().max_payment_age(Duration::from_secs(age)).hold_unbound(Duration::from_millis(hold));
    assert!(of(20, 10_000).build().await.is_ok());
    assert_refused!(of(20, 10_001), BuildError::InvalidDuration { what: "hold_unbound", max, .. } if max.as_secs() == 10);
    assert_refused!(of(1, 500), BuildError::InvalidDuration { what: "hold_unbound", .. });
    assert!(
        complete().max_payment_age(Duration::from_secs(1)).build().await.is_ok(),
        "shortened where none is asked for"
    );
}

/// What clients sign must be over before the ledger forgets it, and last until it is settled.
#[tokio::test]
async fn what_is_signed_has_time_to_be_settled() {
    let seconds = Duration::from_secs;
    let signed = |age, life| {
        let chain = ScriptedVerifier::new(ChainTime::from_unix(NOW));
        complete()
            .verifier(chain.clone())
            .settler(ScriptedSettler::new(chain))
            .max_payment_age(seconds(age))
            .quote_ttl(seconds(life))
    };
    assert!(signed(40, 10).build().await.is_ok());
    assert_refused!(signed(39, 10), BuildError::NoTimeToSettle { valid_for, .. } if *valid_for == seconds(9));
    assert_refused!(signed(40, 9), BuildError::NoTimeToSettle { valid_for, .. } if *valid_for == seconds(9));
    assert_refused!(signed(1, 900), BuildError::NoTimeToSettle { valid_for, .. } if valid_for.is_zero());
    assert!(complete().max_payment_age(seconds(39)).build().await.is_ok(), "nothing is signed");
}

#[tokio::test]
async fn texts_cannot_break_a_header_or_a_log() {
    let long = "x".repeat(101);
    for bad in ["", "a\r\nPay: {}", "a\u{0}", "a\u{7f}", "a\u{85}", long.as_str()] {
        let shop = Shop::open().await;
        let refused = shop.merchant.charge(bad, PRICE).map(drop);
        assert!(
            matches!(refused, Err(BuildError::InvalidText { what: "a resource", max: 100 })),
            "{bad:?} {refused:?}"
        );
        let refused = shop.layer().label(bad).map(drop);
        assert!(matches!(refused, Err(BuildError::InvalidText { what: "a label", .. })), "{bad:?} {refused:?}");
        assert_refused!(complete().contact(bad), BuildError::InvalidText { what: "a contact", .. });
        if !bad.is_empty() {
            assert_refused!(complete().realm(bad), BuildError::InvalidText { what: "a realm", .. });
        }
    }
    assert!(complete().realm("").contact("é".repeat(100)).build().await.is_ok(), "a hundred characters, not bytes");
}

#[tokio::test]
async fn prices_are_positive_decimals_of_the_right_currency() {
    let merchant = Shop::open().await.merchant;
    for bad in [
        "",
        "USDC",
        "0.49",
        "0.49USDC",
        "0 USDC",
        "0.000000 USDC",
        "-1 USDC",
        "+1 USDC",
        "1e3 USDC",
        "1,50 USDC",
        "1_000 USDC",
        ".5 USDC",
        "5. USDC",
        "0.0000001 USDC",
        "00.5 USDC",
        "NaN USDC",
        "١ USDC",
        "$1 USDC",
    ] {
        let refused = merchant.charge("bad", bad).map(drop);
        assert!(matches!(refused, Err(BuildError::InvalidPrice { decimals: 6 })), "{bad:?} {refused:?}");
        says_something(&refused.unwrap_err());
    }
    for bad in ["1 EUR", "1 usdc", "1 USDC ", "1  USDC", "1 USDC\n", "1 USDbC", " 1 USDC", " "] {
        let refused = merchant.charge("bad", bad.to_owned()).map(drop);
        assert!(matches!(&refused, Err(BuildError::WrongSymbol { symbol }) if symbol == "USDC"), "{bad:?} {refused:?}");
    }
    assert!(matches!(merchant.charge("bad", Amount::ZERO), Err(BuildError::InvalidPrice { .. })));
    for good in [PriceTag::from("0.000001 USDC"), PriceTag::from("1000000 USDC".to_owned()), Amount::MAX.into()] {
        let service = layered(&merchant.charge(&format!("{good:?}"), good).unwrap(), echo(Counter::default()));
        quoted(&service).await;
    }
}

/// Two prices under one name would let the cheaper quote buy the dearer answer.
#[tokio::test]
async fn one_name_has_one_price_and_one_label() {
    let shop = Shop::open().await;
    let merchant = &shop.merchant;
    let conflict = |refused: Result<_, BuildError>| {
        let refused: Result<(), BuildError> = refused;
        assert!(
            matches!(&refused, Err(BuildError::ConflictingResource { resource }) if resource == "a"),
            "{refused:?}"
        );
    };
    let first = merchant.charge("a", PRICE).unwrap().label("Label").unwrap();
    conflict(merchant.charge("a", "0.50 USDC").map(drop));
    conflict(merchant.price_with("a", |_, _| Price::Free).map(drop));
    let same = merchant.charge("a", "0.490 USDC").unwrap();
    conflict(same.clone().label("Other").map(drop));
    conflict(first.label("Other").map(drop));
    let quote = ask(&layered(&same, echo(Counter::default())), post("{}")).await;
    assert!(quote.headers()["pay"].to_str().unwrap().contains(r#""label":"Label""#), "the same terms, label included");

    let other = shop.sibling(|merchant| merchant).await;
    let _ = other.price_with("a", |_, _| Price::Free).unwrap();
    conflict(other.price_with("a", |_, _| Price::Free).map(drop));
    conflict(other.charge("a", PRICE).map(drop));

    // A clone, and every other layer of the name, has the label that one of them was given.
    let cloned = shop.sibling(|merchant| merchant).await;
    let original = cloned.charge("a", PRICE).unwrap();
    let (clone, another) = (original.clone().bind_request(), cloned.charge("a", PRICE).unwrap());
    let labelled = original.label("Label").unwrap();
    for layer in [clone, another, labelled.clone(), labelled.label("Label").unwrap()] {
        let quote = ask(&layered(&layer, echo(Counter::default())), post("{}")).await;
        assert!(quote.headers()["pay"].to_str().unwrap().contains(r#""label":"Label""#));
    }

    // What was quoted without a label goes without one.
    let late = shop.sibling(|merchant| merchant).await;
    let (one, two) = (late.charge("a", PRICE).unwrap(), late.charge("a", PRICE).unwrap());
    let quote = ask(&layered(&one, echo(Counter::default())), post("{}")).await;
    assert!(quote.headers()["pay"].to_str().unwrap().contains(r#""label":"a""#));
    conflict(one.label("Label").map(drop));
    conflict(two.label("Label").map(drop));
}

#[tokio::test]
async fn limits_are_not_zero() {
    let shop = Shop::open().await;
    let refused = shop.layer().body_limit(0).map(drop);
    assert!(matches!(refused, Err(BuildError::OutOfRange { what: "body_limit" })));
    let refused = shop.layer().body_timeout(Duration::ZERO).map(drop);
    assert!(matches!(refused, Err(BuildError::OutOfRange { what: "body_timeout" })));
}

#[tokio::test]
async fn backends_that_cannot_start_are_not_started_with() {
    let chain = ScriptedVerifier::new(ChainTime::from_unix(NOW));
    chain.answer_check(Err(VerifyError::unavailable()));
    assert_refused!(complete().verifier(chain.clone()), BuildError::Health(HealthError::Verifier(_)));
    chain.answer_check(Ok(()));
    chain.outage(VerifyError::unavailable());
    assert_refused!(complete().verifier(chain.clone()), BuildError::Health(HealthError::Verifier(_)));
    chain.outage(None);
    let ledger = Faulty::over(MemoryLedger::new().into());
    ledger.always(Op::Begin, Fault::Fail);
    assert_refused!(
        complete().verifier(chain.clone()).ledger(ledger.clone()),
        BuildError::Health(HealthError::Ledger(error)) if error.is_transient()
    );
    ledger.heal();
    let merchant = complete().verifier(chain.clone()).ledger(ledger.clone()).build().await.unwrap();

    assert!(merchant.health().await.is_ok());
    chain.outage(VerifyError::unavailable());
    assert!(matches!(merchant.health().await, Err(HealthError::Verifier(_))));
    chain.outage(None);
    ledger.always(Op::Health, Fault::Fail);
    assert!(matches!(merchant.health().await, Err(HealthError::Ledger(_))));
}

/// An outage may be waited for; everything else calls for another configuration.
#[tokio::test]
async fn an_outage_is_told_apart_from_a_wrong_setting() {
    let chain = ScriptedVerifier::new(ChainTime::from_unix(NOW));
    let opened = || complete().verifier(chain.clone()).build();
    chain.outage(VerifyError::unavailable());
    assert!(opened().await.unwrap_err().is_transient());
    chain.outage(None);
    let other = VerifyErrorKind::WrongChain { expected: Network::BASE, found: Network::BASE_SEPOLIA };
    chain.answer_check(Err(VerifyError::new(other)));
    assert!(!opened().await.unwrap_err().is_transient());

    assert!(BuildError::from(LedgerError::unavailable()).is_transient());
    assert!(!BuildError::from(LedgerError::incompatible()).is_transient());
    assert!(BuildError::from(HealthError::HeadBehindMark { by: Duration::from_secs(1) }).is_transient());
    assert!(!complete().max_hold(Duration::ZERO).build().await.unwrap_err().is_transient());
}

/// What `?` turns into a `BuildError` on the way to a merchant.
#[test]
fn addresses_and_keys_that_cannot_be_read() {
    fn configure(address: &str, keys: &str) -> Result<(), BuildError> {
        let _ = Merchant::builder(address.parse()?).sealing_keys(SealingKeys::parse(keys)?);
        Ok(())
    }
    let (address, key) = (recipient().to_string(), "07".repeat(32));
    assert!(configure(&address, &key).is_ok());
    assert!(matches!(configure(&address.replace('C', "c"), &key), Err(BuildError::Parse(_))));
    for keys in ["short".to_owned(), format!("{key},{key}")] {
        assert!(matches!(configure(&address, &keys), Err(BuildError::SealingKeys(_))), "{keys}");
    }
}

/// Whatever may end in a log: no key, in no spelling.
#[tokio::test]
async fn nothing_that_is_shown_holds_a_key() {
    const CANARY: [u8; 32] = *b"canary-canary-canary-canary-0123";
    const FORMER: [u8; 32] = *b"former-former-former-former-0123";
    let keys = || SealingKeys::new(CANARY).with_former(FORMER).unwrap();
    let shop = Shop::open_with(|merchant| merchant.sealing_keys(keys())).await;
    let fixed = shop.layer().label("Label").unwrap().free_when(|_, _, _| false).allow_preflight().bind_request();
    let closure = shop.merchant.price_with("closure", |_, _| Price::Free).unwrap();
    let later = shop.merchant.price_with_async("later", async |_, _| Price::Free).unwrap();
    let mut service = layered(&fixed, echo(Counter::default()));
    let (intent, tx) = (quoted(&service).await, shop.pay(490_000));
    let call = tower::Service::call(&mut service, redemption(&intent, tx));
    let mut shown = vec![
        format!("{:?}", keys()),
        format!("{:?}", complete().sealing_keys(keys())),
        format!("{:?} {:#?}", shop.merchant, shop.merchant),
        format!("{fixed:?} {fixed:#?} {closure:?} {later:?}"),
        format!("{:?}", fixed.layer("a service")),
        format!("{call:?}"),
        format!("{:?} {:?} {:?}", shop.chain, shop.ledger, shop.clock),
        format!("{:?}", PriceTag::from(PRICE)),
        format!("{:?}", Price::Refuse(Refusal::new(http::Response::new("no".into())))),
        format!("{:?}", SealingKeys::parse(&format!("{}z", "ca".repeat(31)))),
    ];
    let answer = call.await.unwrap();
    assert_eq!(answer.status(), 200);
    shown.push(format!("{answer:?}"));
    shown.push(format!("{:?}", ask(&layered(&fixed, echo(Counter::default())), post("{")).await));
    shown.push(format!("{:?}", http::Request::new(Body::empty()).map(drop)));
    let shown = shown.join("\n").to_lowercase();
    for key in [CANARY, FORMER] {
        let hex: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
        let numbers = key.map(|byte| byte.to_string()).join(", ");
        let text = String::from_utf8(key.to_vec()).unwrap();
        for canary in [&hex[..16], &numbers[..16], &text[..6]] {
            assert!(!shown.contains(canary), "{canary} in {shown}");
        }
    }
    assert!(shown.contains("answer") && shown.contains("label"), "it says something all the same");
}
