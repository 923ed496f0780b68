//! `Source`: the address of the server.

use std::{sync::Arc, time::Duration};

use ::redis as driver;
use driver::{
    Client, ConnectionAddr, ErrorKind, RedisError, RedisResult,
    aio::{ConnectionManager, ConnectionManagerConfig},
    cmd,
};

/// The origin of connections.
#[derive(Clone)]
pub(super) enum Source {
    /// A fixed address.
    Client(Client),
    /// The caller's connection, which reconnects by itself.
    Manager(ConnectionManager),
    /// The server that these sentinels name as the leader.
    Sentinels { sentinels: Arc<[Client]>, service: Arc<str>, client: Client },
}

impl Source {
    pub(super) async fn connection(&self, time_limit: Duration) -> RedisResult<ConnectionManager> {
        match self {
            Self::Client(client) => connection(client, time_limit),
            Self::Manager(connection) => Ok(connection.clone()),
            Self::Sentinels { sentinels, service, client } => {
                let each = time_limit / 2;
                for sentinel in &**sentinels {
                    if let Ok(Ok((host, port))) = tokio::time::timeout(each, leader(sentinel, service)).await {
                        return connection(&moved(client, host, port)?, time_limit);
                    }
                }
                Err(RedisError::from((ErrorKind::Io, "no sentinel knows the leader")))
            }
        }
    }
}

/// A connection to this client's server, opened at its first use.
fn connection(client: &Client, time_limit: Duration) -> RedisResult<ConnectionManager> {
    let config = ConnectionManagerConfig::new()
        .set_connection_timeout(Some(time_limit))
        .set_response_timeout(Some(time_limit))
        .set_number_of_retries(2)
        .set_min_delay(Duration::from_millis(50))
        .set_max_delay(Duration::from_millis(200));
    ConnectionManager::new_lazy_with_config(client.clone(), config)
}

/// The leader, according to one sentinel.
async fn leader(sentinel: &Client, service: &str) -> RedisResult<(String, u16)> {
    let mut connection = sentinel.get_multiplexed_async_connection().await?;
    cmd("SENTINEL").arg("get-master-addr-by-name").arg(service).query_async(&mut connection).await
}

/// The same client for another address.
fn moved(client: &Client, host: String, port: u16) -> RedisResult<Client> {
    let info = client.get_connection_info().clone();
    let address = match info.addr().clone() {
        ConnectionAddr::TcpTls { insecure, tls_params, .. } => {
            ConnectionAddr::TcpTls { host, port, insecure, tls_params }
        }
        _ => ConnectionAddr::Tcp(host, port),
    };
    Client::open(info.set_addr(address))
}
