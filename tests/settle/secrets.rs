//! A key in a facilitator's URL or in the headers of a request, and the text of a facilitator, appear nowhere.

use std::{
    io,
    sync::{Arc, Mutex},
    time::Duration,
};

use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::json;
use tower_x402::{
    protocol::{Asset, Network},
    settle::{FacilitatorCall, SettleError, Settler as _, TransactionRecorder},
};
use tracing_subscriber::fmt::MakeWriter;

use super::{CANARY, Facilitator, Fault, Market, builder, payment};

/// Everything that was logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("not poisoned").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

#[track_caller]
fn assert_clean(what: &str, text: &str) {
    assert!(!text.contains(CANARY), "{what}: {text}");
}

fn assert_clean_error<T>(what: &str, answer: Result<T, SettleError>) {
    if let Err(error) = answer {
        assert_clean(what, &format!("{error} {error:?} {error:#?}"));
        assert!(std::error::Error::source(&error).is_none(), "{what}: a source could hold anything");
    }
}

/// In a process of its own: a log call first reached by a thread that logs nowhere would be switched off for all.
#[test]
fn no_key_and_no_text_of_a_facilitator_comes_out() {
    let test = std::env::current_exe().expect("this program");
    let name = "secrets::nothing_comes_out";
    let run = std::process::Command::new(test).args([name, "--exact", "--ignored", "--nocapture"]).output();
    let run = run.expect("it starts");
    let said = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success() && said.contains("1 passed"), "{said}\n{}", String::from_utf8_lossy(&run.stderr));
}

#[tokio::test]
#[ignore = "run by the test above, alone"]
async fn nothing_comes_out() {
    let log = Log::default();
    let subscriber =
        tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_writer(log.clone()).with_ansi(false);
    let _guard = tracing::subscriber::set_default(subscriber.finish());

    let market = Market::new();
    let elsewhere = Facilitator::start(&market).await;
    let authorize = |call: FacilitatorCall| async move {
        assert_clean("Debug of a call", &format!("{call:?}"));
        let name = HeaderName::from_static("x-key");
        Ok::<_, io::Error>(HeaderMap::from_iter([(name, HeaderValue::from_static(CANARY))]))
    };
    let faults = [
        Fault::HangBefore,
        Fault::ResetBefore,
        Fault::Status(429),
        Fault::Status(500),
        Fault::Status(401),
        Fault::Html,
        Fault::Huge { announced: false },
        Fault::Redirect(308, elsewhere.url()),
        Fault::Says(json!({ "isValid": false, "invalidReason": format!("see {CANARY}"), "invalidMessage": CANARY })),
        Fault::Says(json!({ "success": false, "errorReason": format!("see {CANARY}"), "errorMessage": CANARY })),
    ];
    for fault in faults {
        let what = format!("{fault:?}").replace(CANARY, "…");
        let facilitator = Facilitator::start(&market).await;
        let limit = Duration::from_millis(500);
        let settings = builder(&[&facilitator])
            .verify_timeout(limit)
            .settle_timeout(limit)
            .supported_timeout(limit)
            .authorize(authorize);
        assert_clean("Debug", &format!("{settings:?} {settings:#?}"));
        let settler = settings.build().unwrap();
        assert_clean("Debug", &format!("{settler:?} {settler:#?}"));
        // So that it settles at all.
        let payment = payment(&market);
        let _ = settler.verify(&payment).await;
        for action in ["verify", "settle", "supported"] {
            facilitator.fault(action, fault.clone());
        }
        assert_clean(&what, &format!("{:?}", settler.settle(&payment, &TransactionRecorder::none()).await));
        let validity = settler.verify(&payment).await;
        assert_clean(&what, &format!("{validity:?}"));
        assert_clean_error(&what, validity);
        assert_clean_error(&what, settler.health().await);
        assert_clean_error(&what, settler.domain(Network::BASE, Asset::USDC_BASE.contract(), None).await);
    }
    // Nobody there at all, and no URL at all.
    let gone = Facilitator::start(&market).await.url();
    let settler = tower_x402::settle::FacilitatorSettler::builder().url(gone).authorize(authorize).build().unwrap();
    assert_clean_error("gone", settler.verify(&payment(&market)).await);
    assert_clean_error("no URL", tower_x402::settle::FacilitatorSettler::builder().url(CANARY).build());

    let logged = String::from_utf8(log.0.lock().expect("not poisoned").clone()).expect("UTF-8");
    assert!(logged.contains("no usable answer") && logged.contains("not known"), "nothing was logged: {logged}");
    assert_clean("log", &logged);
}
