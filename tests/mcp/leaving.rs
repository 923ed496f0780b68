//! Clients that leave, at whatever point.

use std::task::{Context, Poll, Waker};

use axum::body::Body;
use bytes::Bytes;
use futures_util::stream;
use http_body_util::BodyExt as _;
use serde_json::json;
use tower::ServiceExt as _;

use super::rig::{Rig, event, event_reply, json_reply, paid, post, result, say, search};
use crate::support::faults::{give_way, settle};

/// By JSON and by events: the same call has its result afterwards, once, for one payment.
#[tokio::test(start_paused = true)]
async fn who_leaves_at_whatever_point_has_the_result_by_the_same_call() {
    for by_events in [false, true] {
        let (mut polls, mut completed) = (0, false);
        while !completed {
            let rig = Rig::open().await;
            rig.shop.faults.yielding();
            let service = rig.service();
            rig.plays(move |message| async move {
                give_way().await;
                let done = result(&message, json!({ "content": ["the answer"] }));
                if !by_events {
                    return json_reply(done);
                }
                let progress = event(&json!({ "jsonrpc": "2.0", "method": "notifications/progress" }));
                let pieces = stream::iter([progress, event(&done)]);
                let pieces = futures_util::StreamExt::then(pieces, |piece| async move {
                    give_way().await;
                    Ok::<_, std::io::Error>(Bytes::from(piece))
                });
                event_reply(Body::from_stream(pieces))
            });
            let call = paid(&service, &search()).await;
            completed = {
                let service = service.clone();
                let request = post(call.to_string());
                let mut asking = Box::pin(async move {
                    let response = service.oneshot(request).await.unwrap();
                    let body = response.into_body().collect().await.unwrap().to_bytes();
                    String::from_utf8(body.to_vec()).unwrap()
                });
                let mut done = false;
                for _ in 0..polls {
                    if let Poll::Ready(text) = asking.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                        assert!(text.contains("the answer"), "{text}");
                        done = true;
                        break;
                    }
                    tokio::task::yield_now().await;
                }
                done
            };
            settle().await;
            if completed {
                assert!(polls > 5, "{polls}");
            } else {
                rig.lease_runs_out();
                let answer = say(&service, &call).await;
                if answer.outcome().is_none_or(|outcome| !outcome.success) {
                    // The commit was under way.
                    assert_eq!(answer.refused(), "already_consumed", "{polls}");
                }
            }
            assert!(rig.settler.settlements() == 1 && (1..=2).contains(&rig.runs.runs()), "{polls}");
            polls += 1;
        }
    }
}
