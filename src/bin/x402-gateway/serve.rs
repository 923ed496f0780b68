//! The server: listens, and shuts down without cutting off what can be finished.

use std::{
    error::Error,
    net::SocketAddr,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response, Version};
use http_body_util::Either;
use hyper::{
    body::{Body, Incoming},
    service::{Service, service_fn},
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
    time::{sleep, timeout},
};

use super::{
    log::TARGET,
    signals::{Endings, signals},
    stall::Stall,
    unread::WatchedAnswer,
};

/// The largest head of a request, and the largest buffer of a connection.
const BUFFER: usize = 64 * 1024;
/// How many requests one connection of HTTP/2 may have open.
const STREAMS: u32 = 256;

type BoxError = Box<dyn Error + Send + Sync>;

/// The time limits of connections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// From a connection's opening, or its last answer, to the end of a request's head. Also how long an answer may
    /// stay unread.
    pub(crate) head: Duration,
    /// From the request to shut down until open connections are cut off.
    pub(crate) ending: Duration,
}

/// Begins to listen.
///
/// # Errors
/// Fails with a sentence that names the address.
pub(crate) async fn listen(address: SocketAddr) -> Result<TcpListener, String> {
    TcpListener::bind(address).await.map_err(|error| format!("cannot listen on {address}: {error}"))
}

/// Serves until Ctrl-C or SIGTERM, then finishes what is in flight; a second signal ends that at once. Each
/// connection gets its own service, made for the address of its peer.
///
/// # Errors
/// Fails with the listener's error.
pub(crate) async fn serve<S, B>(
    listener: TcpListener,
    service: impl Fn(SocketAddr) -> S,
    patience: Patience,
) -> std::io::Result<()>
where
    S: Service<Request<Incoming>, Response = Response<B>, Error: Into<BoxError>, Future: Send> + Send + Sync + 'static,
    B: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    let mut asked_to_end = signals()?;
    let (ending, ended) = watch::channel(());
    let mut connections = JoinSet::new();
    tracing::info!(target: TARGET, "listening on http://{}", listener.local_addr()?);
    loop {
        tokio::select! {
            () = asked_to_end.next() => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    connections.spawn(connection(stream, service(peer), patience.head, ended.clone()));
                }
                Err(error) => {
                    tracing::warn!(target: TARGET, %error, "cannot accept a connection");
                    // After "too many open files", some connections close in time.
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

/// Serves one connection until it is closed, or, during shutdown, until it is idle.
async fn connection<S, B>(stream: TcpStream, service: S, head: Duration, mut ended: watch::Receiver<()>)
where
    S: Service<Request<Incoming>, Response = Response<B>, Error: Into<BoxError>, Future: Send> + Send + Sync + 'static,
    B: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    let _ = stream.set_nodelay(true);
    let asked = Arc::new(AtomicBool::new(false));
    let came = Arc::clone(&asked);
    let service = service_fn(move |request: Request<Incoming>| {
        came.store(true, Ordering::Relaxed);
        let version = request.version();
        let answered = service.call(request);
        async move { Ok::<_, S::Error>(answered.await?.map(|body| attended(body, version, head))) }
    });
    let server = builder(head);
    let io = TokioIo::new(Stall::new(stream, head));
    let mut connection = pin!(server.serve_connection_with_upgrades(io, service));
    let served = tokio::select! {
        served = connection.as_mut() => served,
        () = silence(&asked, head) => return,
        _ = ended.changed() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = served {
        tracing::debug!(target: TARGET, %error, "a connection broke off");
    }
}

fn builder(head: Duration) -> auto::Builder<TokioExecutor> {
    let mut server = auto::Builder::new(TokioExecutor::new());
    server.http1().timer(TokioTimer::new()).header_read_timeout(head).max_buf_size(BUFFER);
    server
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .max_header_list_size(BUFFER as u32)
        .keep_alive_interval(head)
        .keep_alive_timeout(head);
    server
}

/// Ends if no request came in time. Hyper sets no time limit before the first request, because it does not know the
/// version of HTTP yet.
async fn silence(asked: &AtomicBool, limit: Duration) {
    sleep(limit).await;
    if asked.load(Ordering::Relaxed) {
        std::future::pending().await
    }
}

/// Guards an answer of HTTP/2 against a client that does not read it; only that answer is dropped, not the
/// connection.
fn attended<B: Body + Send + 'static>(body: B, version: Version, patience: Duration) -> Either<B, WatchedAnswer<B>> {
    if version == Version::HTTP_2 && !body.is_end_stream() {
        Either::Right(WatchedAnswer::new(body, patience))
    } else {
        Either::Left(body)
    }
}

async fn finish(mut connections: JoinSet<()>, patience: Duration, mut asked_again: Endings) {
    // The set still holds connections that have ended.
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
