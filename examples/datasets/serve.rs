//! The server around the routes: listening, and ending without cutting off what can be finished.

use std::{net::SocketAddr, pin::pin, time::Duration};

use axum::Router;
use http::Method;
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
    time::{sleep, timeout},
};
use tower_http::cors::{Any, CorsLayer};
use tower_x402::protocol::headers;

use super::{
    log::TARGET,
    signals::{Endings, signals},
    stall::Stall,
};

/// Anyone's page may buy. It stands outside the layer, so that preflights are not sold.
pub(crate) fn cors() -> CorsLayer {
    CorsLayer::new()
        .allow_origin(Any)
        .allow_methods([Method::GET, Method::POST])
        .allow_headers(headers::ALLOWED)
        .expose_headers(headers::EXPOSED)
}

/// How long a connection may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// From its opening, or from the last answer, to the end of a request's head; and for which an answer may lie unread.
    pub(crate) head: Duration,
    /// From the signal to end until what is still open is cut off.
    pub(crate) ending: Duration,
}

/// Begins to listen.
///
/// # Errors
/// One sentence that names the address.
pub(crate) async fn listen(address: SocketAddr) -> Result<TcpListener, String> {
    TcpListener::bind(address).await.map_err(|error| format!("cannot listen on {address}: {error}"))
}

/// Serves until Ctrl-C or SIGTERM, then finishes what is in flight; a second one ends it at once.
///
/// # Errors
/// What the listener says.
pub(crate) async fn serve(listener: TcpListener, app: Router, patience: Patience) -> std::io::Result<()> {
    let mut asked_to_end = signals()?;
    let (ending, ended) = watch::channel(());
    let mut connections = JoinSet::new();
    tracing::info!(target: TARGET, "listening on http://{}", listener.local_addr()?);
    loop {
        tokio::select! {
            () = asked_to_end.next() => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(connection(stream, app.clone(), patience.head, ended.clone()));
                }
                Err(error) => {
                    tracing::warn!(target: TARGET, %error, "cannot accept a connection");
                    // Of too many open files, some are closed in time.
                    sleep(Duration::from_millis(100)).await;
                }
            },
            Some(_) = connections.join_next() => {}
        }
    }
    drop((listener, ending));
    finish(connections, patience.ending, asked_to_end).await;
    Ok(())
}

/// One connection, until it is closed, or idle once the program ends.
async fn connection(stream: TcpStream, app: Router, head: Duration, mut ended: watch::Receiver<()>) {
    let _ = stream.set_nodelay(true);
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(head);
    let mut connection =
        pin!(server.serve_connection(TokioIo::new(Stall::new(stream, head)), TowerToHyperService::new(app)));
    let served = tokio::select! {
        served = connection.as_mut() => served,
        _ = ended.changed() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = served {
        tracing::debug!(target: TARGET, %error, "a connection broke off");
    }
}

async fn finish(mut connections: JoinSet<()>, patience: Duration, mut asked_again: Endings) {
    // What has ended already is still in there.
    while connections.try_join_next().is_some() {}
    if connections.is_empty() {
        return;
    }
    tracing::info!(target: TARGET, "finishing what is in flight, for {patience:?} at most");
    let all = async { while connections.join_next().await.is_some() {} };
    let finished = tokio::select! {
        finished = timeout(patience, all) => finished.is_ok(),
        () = asked_again.next() => false,
    };
    if !finished {
        tracing::warn!(target: TARGET, connections = connections.len(), "cutting off what is still in flight");
        connections.shutdown().await;
    }
}
