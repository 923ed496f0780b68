//! Requests over real HTTP: each connection sends its own, one after the other.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use axum::serve::ListenerExt as _;
use bytes::Bytes;
use http::HeaderValue;
use http_body_util::{BodyExt as _, Empty};
use hyper::client::conn::http1::handshake;
use hyper_util::rt::TokioIo;
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

use super::market::{Market, request};

/// The payments that each connection sends; `None` sends an unpaid request.
pub type Work = Vec<Vec<Option<HeaderValue>>>;

/// Answers a second, and the median and maximum of their durations.
#[derive(Clone, Copy)]
pub struct Rate {
    pub per_second: f64,
    pub half: Duration,
    pub most: Duration,
}

/// Serves this market on its own port.
pub async fn serve(market: &Market) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let listener = listener.tap_io(|stream| stream.set_nodelay(true).unwrap());
    let route = market.route.clone();
    tokio::spawn(async move { axum::serve(listener, route).await.unwrap() });
    address
}

/// Sends everything, and expects this status for each request.
pub async fn send(address: SocketAddr, work: Work, status: u16) -> Rate {
    let mut connections = Vec::new();
    for requests in work {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let (sender, connection) = handshake::<_, Empty<Bytes>>(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        connections.push((sender, requests));
    }
    let (start, mut clients) = (Instant::now(), JoinSet::new());
    for (mut sender, requests) in connections {
        clients.spawn(async move {
            let mut each = Vec::with_capacity(requests.len());
            for payment in requests {
                let start = Instant::now();
                let request = request(payment).map(|()| Empty::new());
                let answer = sender.send_request(request).await.unwrap();
                assert_eq!(answer.status(), status, "{:?}", answer.headers());
                answer.into_body().collect().await.unwrap();
                each.push(start.elapsed());
            }
            each
        });
    }
    let mut each = clients.join_all().await.concat();
    let per_second = each.len() as f64 / start.elapsed().as_secs_f64();
    each.sort_unstable();
    Rate { per_second, half: each[each.len() / 2], most: each[each.len() * 99 / 100] }
}
