//! Nodes that are down: one until it comes up, and one for good.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpSocket, TcpStream},
    task::JoinSet,
    time::sleep,
};
use tower_x402::testing::DevChain;

use super::market::Market;
use crate::support::servers::free_port;

/// Waits until a payment is later than a ledger that was opened before. A ledger begins with the present second, and a payment in a block
/// of that second counts as older.
pub async fn next_second(chain: &DevChain) {
    let begun = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    while chain.timestamp().await.unwrap().unix() <= begun {
        sleep(Duration::from_millis(100)).await;
    }
}

/// Ends a chain. While the result lives, its port refuses connections: without it, another test's chain may get the port and answer.
pub fn gone(chain: DevChain) -> TcpSocket {
    let address = chain.rpc_url().trim_start_matches("http://").trim_end_matches('/').parse().unwrap();
    drop(chain);
    let port = TcpSocket::new_v4().unwrap();
    port.set_reuseaddr(true).unwrap();
    port.bind(address).unwrap();
    port
}

/// A way to a market's node that nobody can go yet.
pub struct Node {
    address: String,
    open: JoinSet<()>,
}

impl Node {
    pub fn down() -> Self {
        Self { address: format!("127.0.0.1:{}", free_port()), open: JoinSet::new() }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub async fn comes_up(&mut self, market: &Market) {
        let listener = TcpListener::bind(&self.address).await.unwrap();
        let chain = market.chain.rpc_url().trim_start_matches("http://").trim_end_matches('/').to_owned();
        self.open.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((mut near, _)) = listener.accept().await {
                let chain = chain.clone();
                connections.spawn(async move {
                    let mut far = TcpStream::connect(chain).await.unwrap();
                    let _ = copy_bidirectional(&mut near, &mut far).await;
                });
            }
        });
    }

    pub async fn goes_down(&mut self) {
        self.open.shutdown().await;
    }
}
