//! What is counted: each name of the guide's table is seen to move, by real sales, refusals and outages, and no label comes from a
//! request. Facilitators, endpoints and reorganisations are counted in [`settle`](crate::settle) and [`evm`](crate::evm).

use std::sync::{Arc, Mutex};

use axum::body::Body;
use http::{Request, StatusCode};
use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use tower::{Layer as _, ServiceExt as _};
use tower_x402::{
    Consumption, Price, Redelivery,
    protocol::{Amount, Asset},
};

use super::passes;
use crate::support::{
    Counter as Runs, NOW, Shop, answering, ask, by_header, echo,
    faults::{Fault, Op},
    layered,
    metrics::{Metrics, counted},
    post, quoted, read, redemption, with_status,
};

/// The table of the guide: name, type, labels, description.
fn table() -> Vec<[String; 4]> {
    let guide = include_str!("../../src/guide/metrics.md");
    let rows = guide.lines().filter(|line| line.starts_with("| `x402_"));
    let cells = rows.map(|row| row.trim_matches('|').split('|').map(|cell| cell.trim().replace('`', "")));
    cells.map(|cells| cells.collect::<Vec<_>>().try_into().unwrap()).collect()
}

/// Remembers what is described.
#[derive(Clone, Debug, Default)]
struct Descriptions(Arc<Mutex<Vec<[String; 3]>>>);

impl Descriptions {
    fn note(&self, name: &KeyName, kind: &str, unit: Option<Unit>, description: &SharedString) {
        let seconds = unit == Some(Unit::Seconds);
        assert_eq!(name.as_str().ends_with("_seconds"), seconds, "{name:?}");
        assert_eq!(name.as_str().ends_with("_total"), kind == "counter", "{name:?}");
        self.0.lock().unwrap().push([name.as_str().to_owned(), kind.to_owned(), description.to_string()]);
    }
}

impl Recorder for Descriptions {
    fn describe_counter(&self, name: KeyName, unit: Option<Unit>, description: SharedString) {
        self.note(&name, "counter", unit, &description);
    }

    fn describe_gauge(&self, name: KeyName, unit: Option<Unit>, description: SharedString) {
        self.note(&name, "gauge", unit, &description);
    }

    fn describe_histogram(&self, name: KeyName, unit: Option<Unit>, description: SharedString) {
        self.note(&name, "histogram", unit, &description);
    }

    fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
        Counter::noop()
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

#[test]
fn the_guide_lists_what_the_recorder_is_told() {
    let descriptions = Descriptions::default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    metrics::with_local_recorder(&descriptions, || runtime.block_on(Shop::open()));
    let listed: Vec<_> = table().into_iter().map(|[name, kind, _, text]| [name, kind, text]).collect();
    assert!(listed.len() > 10);
    assert_eq!(*descriptions.0.lock().unwrap(), listed);
}

/// Every series has the labels that the guide says, and no others.
fn has_the_labels_of_the_guide(metrics: &Metrics) {
    let table = table();
    for line in metrics.text().lines().filter(|line| line.starts_with("x402_")) {
        let (series, _) = line.rsplit_once(' ').unwrap();
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        let of_histogram = |row: &&[String; 4]| {
            name.strip_prefix(row[0].as_str()).is_some_and(|rest| ["", "_bucket", "_sum", "_count"].contains(&rest))
        };
        let [.., allowed, _] = table.iter().find(of_histogram).unwrap_or_else(|| panic!("{name} is not in the guide"));
        let names = labels.split("\",").filter_map(|label| label.split_once('=')).map(|(name, _)| name);
        let mut names: Vec<_> = names.filter(|name| *name != "le").collect();
        names.sort_unstable();
        let mut allowed: Vec<_> = allowed.split(", ").filter(|name| !name.is_empty()).collect();
        allowed.sort_unstable();
        assert_eq!(names, allowed, "{line}");
    }
}

/// The dashboard asks for every name of the guide, and for no other.
#[test]
fn the_dashboard_asks_for_what_there_is() {
    let dashboard: serde_json::Value =
        serde_json::from_str(include_str!("../../examples/datasets/grafana.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let asked =
        panels.flat_map(|panel| panel["targets"].as_array().unwrap()).map(|target| target["expr"].as_str().unwrap());
    let asked: String = asked.collect::<Vec<_>>().join(" ");
    let words = asked.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| word.starts_with("x402_"));
    let known: Vec<_> = table().into_iter().map(|[name, ..]| name).collect();
    let mut met = std::collections::BTreeSet::new();
    for word in words {
        let name = ["_bucket", "_count", "_sum"].iter().find_map(|end| word.strip_suffix(end)).unwrap_or(word);
        assert!(known.iter().any(|known| known == name), "{word}");
        met.insert(name);
    }
    assert_eq!(met.len(), known.len(), "{met:?}");
}

const ANSWER: (&str, &str) = ("resource", "answer");

#[test]
fn a_pass_is_one_sale_and_its_calls_are_counted() {
    counted(async |metrics| {
        let shop = Shop::open().await;
        let pass = passes::three(&shop.merchant);
        let token = passes::buy(&shop, &pass).await;
        let layer = shop.layer().accept_pass(&pass).unwrap();
        let (works, fails) = (layered(&layer, echo(Runs::default())), layered(&layer, crate::support::status(500)));
        for expected in [200, 200, 200, 402] {
            assert_eq!(ask(&works, passes::with(&token)).await.status(), expected);
        }
        assert_eq!(ask(&fails, passes::with(&passes::buy(&shop, &pass).await)).await.status(), 500);
        assert_eq!(ask(&works, passes::with("x402p_none")).await.status(), 401);
        let sales = |resource| metrics.of("x402_sales_total", &[("resource", resource)]);
        assert_eq!((sales("three"), sales("answer")), (2.0, 0.0), "what is sold is the pass");
        let outcome = |outcome| metrics.of("x402_redemptions_total", &[ANSWER, ("outcome", outcome)]);
        assert_eq!((outcome("pass"), outcome("not_sold")), (3.0, 1.0));
        assert_eq!(metrics.of("x402_refusals_total", &[ANSWER, ("outcome", "invalid_pass")]), 1.0);
        // The one that is used up is asked for a payment, as every request without one.
        assert_eq!(metrics.of("x402_quotes_total", &[ANSWER]), 1.0);
        for (question, asked) in [("draw", 5.0), ("charge", 3.0), ("release_draw", 1.0)] {
            let answered = [("question", question), ("outcome", "answered")];
            assert_eq!(metrics.of("x402_ledger_seconds_count", &answered), asked, "{question}");
        }
        assert_eq!(metrics.of("x402_leases_held", &[]), 0.0);
        has_the_labels_of_the_guide(&metrics);
        assert!(!metrics.text().contains(&token));
    });
}

#[test]
fn a_sale_is_counted_once_and_timed() {
    counted(async |metrics| {
        let shop = Shop::open().await;
        let service = layered(&shop.layer().redeliver(Redelivery::default()), echo(Runs::default()));
        let intent = quoted(&service).await;
        assert_eq!(metrics.of("x402_quotes_total", &[ANSWER]), 1.0);
        let payment = shop.pay_at(490_000, NOW - 42);
        for _ in 0..3 {
            assert_eq!(ask(&service, redemption(&intent, payment)).await.status(), 200);
        }
        let token = Asset::USDC_BASE.contract().to_string();
        let sale = [ANSWER, ("network", "eip155:8453"), ("token", token.as_str())];
        assert_eq!(metrics.of("x402_sales_total", &sale), 1.0);
        assert_eq!(metrics.of("x402_sold_base_units_total", &sale), 490_000.0);
        let outcome = |outcome| metrics.of("x402_redemptions_total", &[ANSWER, ("outcome", outcome)]);
        assert_eq!((outcome("sold"), outcome("redelivered")), (1.0, 2.0));
        assert_eq!(metrics.of("x402_handler_seconds_count", &[ANSWER]), 1.0);
        assert_eq!(metrics.of("x402_block_to_answer_seconds_sum", &[ANSWER]), 42.0);
        for question in ["begin", "reserve", "commit", "consumed"] {
            let asked = [("question", question), ("outcome", "answered")];
            assert!(metrics.of("x402_ledger_seconds_count", &asked) >= 1.0, "{question}");
        }
        let verified = [("question", "verify"), ("outcome", "answered")];
        assert_eq!(metrics.of("x402_verification_seconds_count", &verified), 3.0);
        has_the_labels_of_the_guide(&metrics);
        let text = metrics.text();
        for secret in [intent.as_str(), &payment.to_string(), &crate::support::payer().to_string(), "127.0.0.1"] {
            assert!(!text.contains(secret), "{secret}");
        }
    });
}

#[test]
fn an_amount_beyond_64_bits_is_counted_as_the_most() {
    counted(async |metrics| {
        let shop = Shop::open().await;
        let price = Amount::from_base_units(u128::MAX);
        let service = layered(&shop.merchant.charge("dear", price).unwrap(), echo(Runs::default()));
        let intent = quoted(&service).await;
        assert_eq!(ask(&service, redemption(&intent, shop.pay(u128::MAX))).await.status(), 200);
        assert_eq!(metrics.of("x402_sold_base_units_total", &[("resource", "dear")]), u64::MAX as f64);
    });
}

#[test]
fn what_is_no_sale_is_counted_by_what_it_is() {
    counted(async |metrics| {
        let shop = Shop::open().await;
        let of = |outcome| [ANSWER, ("outcome", outcome)];
        let redeemed = |outcome| metrics.of("x402_redemptions_total", &of(outcome));

        let service = layered(&shop.layer(), echo(Runs::default()));
        let intent = quoted(&service).await;
        // A transaction that nobody knows, too little, no proof at all, an intent of nobody's.
        let unknown = tower_x402::protocol::TxHash::new([9; 32]);
        ask(&service, redemption(&intent, unknown)).await;
        ask(&service, redemption(&intent, shop.pay(489_999))).await;
        ask(&service, post(r#"{"txHash":[]}"#)).await;
        ask(&service, by_header("HEAD", &intent, unknown)).await;
        ask(&service, redemption("nobodys", unknown)).await;
        assert_eq!((redeemed("tx_not_confirmed"), redeemed("insufficient_amount")), (1.0, 1.0));
        assert_eq!((redeemed("invalid_redemption"), redeemed("intent_not_found")), (2.0, 1.0));
        ask(&service, post(format!("\"{}\"", "x".repeat(70_000)))).await;
        assert_eq!(metrics.of("x402_quotes_total", &[ANSWER]), 2.0, "what is too long to be a proof gets a quote");
        ask(&service, post("{")).await;
        assert_eq!(metrics.of("x402_refusals_total", &of("invalid_body")), 1.0);

        // The handler's own answer, and its own failure.
        let kept = layered(
            &shop.layer(),
            answering(Runs::default(), |_| {
                let mut answer = with_status(200);
                answer.extensions_mut().insert(Consumption::Keep);
                answer
            }),
        );
        ask(&kept, redemption(&quoted(&kept).await, shop.pay(490_000))).await;
        assert_eq!(redeemed("not_sold"), 1.0);
        let failing = shop.layer().layer(tower::service_fn(async |_| {
            tokio::task::yield_now().await;
            Err::<http::Response<Body>, _>(std::io::Error::other("down"))
        }));
        let request = redemption(&quoted(&kept).await, shop.pay(490_000));
        assert!(failing.oneshot(request).await.is_err());
        assert_eq!(redeemed("service_failed"), 1.0);
        assert_eq!(metrics.of("x402_sales_total", &[]), 0.0);
        assert_eq!(metrics.of("x402_handler_seconds_count", &[ANSWER]), 2.0);

        // The price closure's word.
        let priced = shop.merchant.price_with("asked", |head, _| match head.uri.path() {
            "/free" => Price::Free,
            "/zero" => Price::Charge(Amount::ZERO),
            _ => Price::Refuse(http::Response::builder().status(400).body(bytes::Bytes::new()).unwrap().into()),
        });
        let priced = layered(&priced.unwrap(), echo(Runs::default()));
        let proof = crate::support::proof(&intent, unknown);
        for path in ["/free", "/zero", "/other"] {
            for proof in [None, Some(&proof)] {
                let mut request = Request::post(path);
                if let Some(proof) = proof {
                    request = request.header("x402-payment", proof);
                }
                let (status, _) = read(ask(&priced, request.body(Body::empty()).unwrap()).await).await;
                assert_eq!(status == StatusCode::OK, path == "/free");
            }
        }
        for (name, outcome, times) in [
            ("x402_redemptions_total", "free", 1.0),
            ("x402_redemptions_total", "misconfigured", 1.0),
            ("x402_redemptions_total", "refused_by_service", 1.0),
            ("x402_refusals_total", "misconfigured", 1.0),
            ("x402_refusals_total", "refused_by_service", 1.0),
        ] {
            assert_eq!(metrics.of(name, &[("resource", "asked"), ("outcome", outcome)]), times, "{name} {outcome}");
        }
        has_the_labels_of_the_guide(&metrics);
    });
}

#[test]
fn a_lease_is_counted_while_it_is_held_and_an_outage_by_its_questions() {
    counted(async |metrics| {
        let shop = Shop::open().await;
        let held = || metrics.of("x402_leases_held", &[]);
        let hanging = layered(&shop.layer(), crate::support::hanging(Runs::default()));
        let intent = quoted(&hanging).await;
        let payment = shop.pay(490_000);
        let mut answer = tokio::spawn(hanging.clone().oneshot(redemption(&intent, payment)));
        while held() == 0.0 {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        assert_eq!(held(), 1.0);
        assert!(!answer.is_finished());
        answer.abort();
        assert!((&mut answer).await.is_err());
        assert_eq!(held(), 0.0, "whoever left holds nothing");
        assert_eq!(metrics.of("x402_handler_seconds_count", &[ANSWER]), 1.0, "what was given up took its time");

        let failed = [("question", "reserve"), ("outcome", "failed")];
        assert_eq!(metrics.of("x402_ledger_seconds_count", &failed), 0.0);
        shop.faults.next(Op::Reserve, [Fault::Fail]);
        let service = layered(&shop.layer(), echo(Runs::default()));
        ask(&service, redemption(&quoted(&service).await, shop.pay(490_000))).await;
        assert_eq!(metrics.of("x402_ledger_seconds_count", &failed), 1.0);
        let outage = [ANSWER, ("outcome", "ledger_unavailable")];
        assert_eq!(metrics.of("x402_redemptions_total", &outage), 1.0);
    });
}
