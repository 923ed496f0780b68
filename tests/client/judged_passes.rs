//! What the answers to calls with a pass say of it, and whether another one is bought.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use tokio::time::advance;
use tower::{Layer as _, ServiceExt as _};
use tower_x402::client::{Body, PassLayer};

use super::{
    Market,
    kept_passes::{Answer, PASS, answer, at_once, client, to},
    paid_passes::bill,
    rig::{AnyBody, Seller, reply},
};

const ANSWER: &str = "https://shop.example/answer";

fn ten(token: usize, expires: Option<u64>) -> Answer {
    let expires = expires.map_or("null".to_owned(), |end| end.to_string());
    answer(200, &[], format!(r#"{{"pass":"x402p_{token}","calls":10,"expires":{expires}}}"#))
}

/// What is left does not cover its price, or its seller says that the time is over. It is sent once, so the next request buys.
#[tokio::test(start_paused = true)]
async fn a_pass_that_covers_no_more_stops_one_request_that_is_sent_once() {
    for word in ["used_up", "expired"] {
        let (market, folder) = (Market::open().await, tempfile::tempdir().unwrap());
        let layer = market.layer().await;
        let file = folder.path().join("passes.json");
        let old = format!(r#"[{{"url":"{PASS}","token":"x402p_old","remaining":"0.10","worth":"1.00"}}]"#);
        std::fs::write(&file, old).unwrap();
        let passes = PassLayer::new().buying(PASS).unwrap().kept_in(&file).unwrap();
        let seller = Seller::new(move |asked| {
            let pass = asked.headers.get("x402-pass").map(|pass| pass.to_str().unwrap());
            match (asked.uri.path(), &asked.proof, pass) {
                ("/pass", Some(_), _) => {
                    let sold = r#"{"pass":"x402p_new","calls":null,"worth":"1.00","expires":null}"#;
                    reply(200, &[("payment-response", "e30=")], sold)
                }
                (_, None, Some("x402p_new")) => reply(200, &[("x402-pass-remaining", "0.70")], "by pass"),
                _ => bill("490000", asked, format!(r#"{{"error":"payment_required","pass":"{word}"}}"#)),
            }
        });
        let ask = async || {
            let seller = tower::ServiceBuilder::new()
                .map_response(|answer: Response<AnyBody>| answer.map(|body| body.map_err(std::io::Error::other)))
                .service(seller.clone());
            let once = Body::once(Full::new(bytes::Bytes::from_static(b"{}")));
            let request = Request::post(ANSWER).body(once).unwrap();
            let got = passes.layer(layer.layer(seller)).oneshot(request).await.unwrap();
            let status = got.status().as_u16();
            (status, got.into_body().collect().await.unwrap().to_bytes())
        };
        let (status, text) = ask().await;
        assert!(status == 402 && text.ends_with(format!(r#""pass":"{word}"}}"#).as_bytes()), "{status} {text:?}");
        assert_eq!(ask().await, (200, "by pass".into()), "{word}");
        assert_eq!(market.wallet.transfers(), 1, "{word}");
    }
}

/// One replica does not know the pass yet, on a path where it was taken, or where it was not.
#[tokio::test(start_paused = true)]
async fn a_stray_bill_is_forgotten_after_ten_minutes() {
    for stray in [0, 1] {
        let passes = PassLayer::new().buying(PASS).unwrap();
        let showings = Arc::new(AtomicUsize::new(0));
        let shop = client(&passes, move |call| {
            at_once(match (call.path.as_str(), call.pass) {
                ("/pass", _) => ten(0, None),
                (_, Some(_)) if showings.fetch_add(1, SeqCst) == stray => answer(402, &[], "{}"),
                (_, Some(_)) => answer(200, &[("x402-pass-remaining", "9")], "by pass"),
                (_, None) => answer(200, &[("payment-response", "e30=")], "singly"),
            })
        });
        let ask = async || {
            let got = shop.clone().oneshot(to(ANSWER)).await.unwrap();
            got.into_body().collect().await.unwrap().to_bytes()
        };
        for _ in 0..stray {
            assert_eq!(ask().await, "by pass");
        }
        for (seconds, text) in [(0, "singly"), (590, "singly"), (11, "by pass"), (0, "by pass")] {
            advance(Duration::from_secs(seconds)).await;
            assert_eq!(ask().await, text, "{stray} {seconds}");
        }
    }
}
