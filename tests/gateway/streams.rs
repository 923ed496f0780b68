//! What passes as a stream: uploads, downloads, events, WebSocket, over HTTP/1.1 and HTTP/2.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Request, Version};
use http_body_util::{BodyExt as _, Empty};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

use crate::{
    program::{PATIENT, Running, free, upstream},
    raw::connect,
};

const MIB: usize = 1024 * 1024;

/// Resident memory, in bytes.
fn resident(running: &Running) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{}/status", running.id())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 1024
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_megabytes_pass_in_both_directions_and_are_not_kept() {
    let upstream = upstream();
    let (_shop, gateway) = free(&upstream);
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let before = resident(&gateway);

    let body = vec![0x5a_u8; 50 * MIB];
    let expected = const_hex::encode(Sha256::digest(&body));
    let url = format!("{}/digest", gateway.url);
    let sent = client.post(&url).body(body.clone()).send().await.unwrap();
    let said: Value = serde_json::from_slice(&sent.bytes().await.unwrap()).unwrap();
    assert_eq!((said["bytes"].as_u64().unwrap(), said["sha256"].as_str().unwrap()), (50 * MIB as u64, &*expected));

    let mut big = client.get(format!("{}/big", gateway.url)).send().await.unwrap();
    let (mut total, mut peak) = (0, 0);
    while let Some(block) = big.chunk().await.unwrap() {
        total += block.len();
        peak = peak.max(if total % MIB < 65_536 { resident(&gateway) } else { 0 });
    }
    assert_eq!(total, 50 * MIB);
    let peak = peak.max(resident(&gateway));
    assert!(peak < before + 16 * MIB, "{before} grew to {peak}");
}

#[tokio::test(flavor = "multi_thread")]
async fn events_pass_when_they_happen() {
    let upstream = upstream();
    let (_shop, gateway) = free(&upstream);
    let start = Instant::now();
    let mut events = reqwest::get(format!("{}/events", gateway.url)).await.unwrap();
    for number in 0..3 {
        let event = timeout(PATIENT, events.chunk()).await.unwrap().unwrap().unwrap();
        assert_eq!(event, format!("data: {number}\n\n"));
        if number == 0 {
            // The upstream sends for three seconds. On a busy machine the start alone takes a while.
            assert!(start.elapsed() < Duration::from_millis(2_500), "{:?}", start.elapsed());
        }
    }
    assert_eq!(events.chunk().await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_websocket_passes() {
    let upstream = upstream();
    let (_shop, gateway) = free(&upstream);
    let mut stream = connect(&gateway.url).await;
    let request = "GET /socket HTTP/1.1\r\nHost: x\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\
        Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(timeout(PATIENT, stream.read_u8()).await.unwrap().unwrap());
    }
    let head = String::from_utf8(head).unwrap().to_lowercase();
    assert!(head.starts_with("http/1.1 101 ") && head.contains("upgrade: websocket"), "{head}");
    assert!(head.contains("sec-websocket-accept: s3pplmbitxaq9kygzzhzrbk+xoo="), "{head}");
    for word in [&b"first"[..], b"second"] {
        stream.write_all(word).await.unwrap();
        let mut back = vec![0; word.len()];
        timeout(PATIENT, stream.read_exact(&mut back)).await.unwrap().unwrap();
        back.reverse();
        assert_eq!(back, word);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_may_speak_http_2() {
    let upstream = upstream();
    let (_shop, gateway) = free(&upstream);
    let stream = TcpStream::connect(gateway.url.strip_prefix("http://").unwrap()).await.unwrap();
    let (mut client, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    for path in ["/x/../any", "/%61ny"] {
        let request = Request::get(format!("http://shop.example{path}")).body(Empty::<Bytes>::new()).unwrap();
        let answer = client.send_request(request).await.unwrap();
        assert_eq!((answer.status().as_u16(), answer.version()), (200, Version::HTTP_2));
        let body: Value = serde_json::from_slice(&answer.into_body().collect().await.unwrap().to_bytes()).unwrap();
        assert_eq!(body["path"], "/any");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_does_not_send_its_body_is_not_waited_for() {
    let upstream = upstream();
    let (_shop, gateway) = free(&upstream);
    let answer = crate::raw::ask(&gateway.url, "POST /digest", "Content-Length: 5\r\n").await;
    assert_eq!(answer.status, 408, "{answer:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_open_streams_take_little_memory() {
    // An upstream that answers at once, and never ends.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let mut head = [0; 4096];
                let _ = stream.read(&mut head).await;
                let answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n";
                stream.write_all(answer).await.unwrap();
                while stream.write_all(b"1\r\n.\r\n").await.is_ok() {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            });
        }
    });
    let shop = crate::program::Shop::new(crate::program::NOWHERE, &url);
    shop.write("", "", "[default]\naction = \"free\"");
    let gateway = shop.start();
    let mut streams = Vec::new();
    let mut open = async |count: usize| {
        for _ in 0..count {
            let mut stream = connect(&gateway.url).await;
            stream.write_all(b"GET /stream HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
            let mut read = [0; 512];
            let length = timeout(PATIENT, stream.read(&mut read)).await.unwrap().unwrap();
            assert!(read[..length].starts_with(b"HTTP/1.1 200 OK"));
            streams.push(stream);
        }
        resident(&gateway)
    };
    open(100).await;
    let few = resident(&gateway);
    let many = open(900).await;
    let each = many.saturating_sub(few) / 900;
    assert!(each < 48 * 1024, "{each} bytes for each stream");
    // And they do not grow while they run.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let later = resident(&gateway);
    assert!(later < many + 4 * MIB, "{many} grew to {later}");
}
