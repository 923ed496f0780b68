//! reqwest as the client inside: through which doors it goes, what its errors tell, and what goes into it and comes out.

use std::{cell::Cell, convert::Infallible, time::Duration};

use bytes::Bytes;
use futures_util::stream;
use http::Request;
use http_body::Frame;
use http_body_util::StreamBody;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};
use tower::{Layer as _, ServiceExt as _};
use tower_x402::client::{Body, FollowsNoRedirects, Money, PayErrorKind, Purchase, ReqwestClient};

use super::{Market, rig::Bill};
use crate::support::{Counter, NOW};

/// A server on this machine that sells: quotes without a proof, answers with one. Counts its connections.
async fn seller(host: &str) -> (String, Counter) {
    let listener = TcpListener::bind((host, 0)).await.unwrap();
    let (port, connections) = (listener.local_addr().unwrap().port(), Counter::default());
    let counter = connections.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            counter.run();
            tokio::spawn(async move {
                let (mut head, mut byte) = (Vec::new(), [0]);
                while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).await.is_ok_and(|read| read == 1) {
                    head.push(byte[0]);
                }
                let head = String::from_utf8_lossy(&head).to_lowercase();
                let bill = Bill { expiry: NOW + 600, ..Bill::default() };
                let answer = if head.contains("\r\nx402-payment:") || head.starts_with("get /free") {
                    "HTTP/1.1 200 OK\r\npayment-response: e30=\r\ncontent-length: 10\r\nconnection: close\r\n\r\nthe answer"
                        .to_owned()
                } else {
                    let (pay, Bill { intent, contracts, .. }) = (bill.pay(), bill);
                    format!(
                        "HTTP/1.1 402 TransferRequest Required\r\npay: {pay}\r\nx-price-intent: {intent}\r\nx-payment-contracts: {contracts}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
                    )
                };
                let _ = stream.write_all(answer.as_bytes()).await;
                // What was sent beyond the head is read, so that closing does not reset.
                let _ = tokio::time::timeout(Duration::from_millis(200), stream.read(&mut [0; 1024])).await;
            });
        }
    });
    (format!("http://{host}:{port}"), connections)
}

fn get(uri: &str) -> Request<Body> {
    Request::get(uri).body(Body::empty()).unwrap()
}

/// Whoever sits in a proxy could put another recipient into the quote.
#[tokio::test]
async fn this_machine_is_never_reached_through_a_proxy() {
    let (proxy, through_proxy) = seller("127.0.0.1").await;
    let proxied = || reqwest::Client::builder().proxy(reqwest::Proxy::all(&proxy).unwrap());
    let shared = proxied().redirect(reqwest::redirect::Policy::none()).build().unwrap();
    let clients = [
        ReqwestClient::new(proxied()).unwrap(),
        ReqwestClient::from_client(shared, FollowsNoRedirects).unwrap(),
        ReqwestClient::new(proxied()).unwrap().loopback(proxied()).unwrap(),
    ];
    for client in clients {
        let (url, connections) = seller("127.0.0.1").await;
        let localhost = url.replace("127.0.0.1", "LocalHost");
        for url in [url, localhost] {
            let market = Market::open().await;
            let answer = market.layer().await.layer(client.clone()).oneshot(get(&url)).await.unwrap();
            let bought = answer.extensions().get::<Purchase>().unwrap().clone();
            // The whole of it as reqwest's own.
            let answer = reqwest::Response::from(answer);
            assert_eq!(answer.extensions().get::<Purchase>(), Some(&bought));
            assert_eq!((answer.status().as_u16(), answer.text().await.unwrap().as_str()), (200, "the answer"));
        }
        assert_eq!((connections.runs(), through_proxy.runs()), (4, 0));
    }
    // Elsewhere the proxy is asked, and what it says is not paid.
    let market = Market::open().await;
    let client = market.layer().await.layer(ReqwestClient::new(proxied()).unwrap());
    let error = client.oneshot(get("http://seller.example/")).await.unwrap_err();
    assert!(error.kind() == PayErrorKind::Declined, "{error}");
    assert_eq!((through_proxy.runs(), market.wallet.prepared()), (1, 0));
}

/// An address may hold a secret, and errors end up in logs.
#[tokio::test]
async fn no_error_tells_the_address() {
    let gone = {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        listener.local_addr().unwrap()
    };
    let client = ReqwestClient::new(reqwest::Client::builder().no_proxy()).unwrap();
    for uri in [format!("http://{gone}/?key=s3cret"), format!("https://{gone}/s3cret"), "ftp://s3cret.example/".into()]
    {
        let paying = Market::open().await.layer().await.layer(client.clone());
        let built = reqwest::Client::new().get(&uri);
        for error in [paying.send(built).await.unwrap_err(), paying.oneshot(get(&uri)).await.unwrap_err()] {
            let mut told = format!("{error} {error:?}");
            let mut cause = std::error::Error::source(&error);
            while let Some(inner) = cause {
                told = format!("{told} {inner} {inner:?}");
                cause = inner.source();
            }
            assert!(!told.contains("s3cret"), "{told}");
        }
    }
}

/// Whether or not it was bought.
#[tokio::test]
async fn an_answer_names_the_address_that_reqwest_asked() {
    let (shop, _) = seller("127.0.0.1").await;
    let market = Market::open().await;
    let client = market.layer().await.layer(ReqwestClient::new(reqwest::Client::builder().no_proxy()).unwrap());
    for (path, is_bought) in [("/free?a=1", false), ("/sold?a=1", true)] {
        let url = format!("{shop}{path}");
        let answer = client.send(reqwest::Client::new().get(&url)).await.unwrap();
        assert_eq!((answer.url().as_str(), answer.extensions().get::<Purchase>().is_some()), (&*url, is_bought));
    }
}

/// What reqwest could not build is not sent.
#[tokio::test]
async fn a_request_that_cannot_be_built_pays_nothing() {
    let market = Market::open().await;
    let client = market.layer().await.layer(ReqwestClient::new(reqwest::Client::builder().no_proxy()).unwrap());
    for url in ["no address, but a s3cret", "http://127.0.0.1:99999/s3cret"] {
        let error = client.send(reqwest::Client::new().get(url)).await.unwrap_err();
        assert_eq!((error.kind(), error.money()), (PayErrorKind::Http, Money::Untouched), "{error}");
        assert!(!format!("{error} {error:?}").contains("s3cret"), "{error:?}");
    }
    assert_eq!(market.wallet.prepared(), 0);
}

/// A body that only one thread at a time may use.
#[tokio::test]
async fn bodies_need_not_be_shared_between_threads() {
    let unshared = || {
        let pieces = Cell::new(0);
        let next = move |()| {
            pieces.set(pieces.get() + 1);
            let piece = (pieces.get() <= 3).then(|| Ok::<_, Infallible>(Frame::data(Bytes::from_static(b"piece"))));
            std::future::ready(piece.map(|piece| (piece, ())))
        };
        StreamBody::new(stream::unfold((), next))
    };
    let (url, _) = seller("127.0.0.1").await;
    let client = ReqwestClient::new(reqwest::Client::builder().no_proxy()).unwrap();
    // Straight into reqwest.
    let status = client.clone().oneshot(Request::post(&url).body(unshared()).unwrap()).await.unwrap().status();
    assert_eq!(status, 402);
    // And through the layer, once and again.
    let market = Market::open().await;
    let layer = market.layer().await;
    let made = Body::from_factory("upload", unshared);
    let answer = layer.layer(client.clone()).oneshot(Request::post(&url).body(made).unwrap()).await.unwrap();
    assert_eq!(reqwest::Response::from(answer).text().await.unwrap(), "the answer");
    let once = layer.layer(client).oneshot(Request::post(&url).body(Body::once(unshared())).unwrap()).await;
    assert!(once.as_ref().is_err_and(|error| error.kind() == PayErrorKind::NotReplayable), "{once:?}");
}
