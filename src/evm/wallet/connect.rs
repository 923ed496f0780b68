//! The parts of a wallet: its key from text or a file, and its nodes, which must all serve one chain.

use std::{fs, io, path::Path};

use alloy::signers::local::PrivateKeySigner;
use futures_util::future::join_all;
use reqwest::Url;

use super::{
    node::{Failure, Node},
    nodes::Nodes,
    signer::Signer,
};
use crate::protocol::is_loopback;

/// Why a key cannot be read.
pub(crate) enum KeyFault {
    /// The file cannot be read.
    File(io::Error),
    /// The text is no key. The cause is omitted, because it might quote the text.
    Text,
}

/// Reads a private key: 64 hexadecimal digits, with or without `0x`, and surrounded by space.
pub(crate) fn key(private_key_hex: &str) -> Result<Signer, KeyFault> {
    let signer = private_key_hex.trim().parse::<PrivateKeySigner>();
    signer.map(|signer| Box::new(signer) as Signer).map_err(|_| KeyFault::Text)
}

/// Reads a private key from a regular file. Warns if other users can read the file, but does not refuse it, since
/// container platforms mount secrets readable by all users of the container.
pub(crate) fn key_file(path: &Path) -> Result<Signer, KeyFault> {
    let file = fs::metadata(path).map_err(KeyFault::File)?;
    if !file.is_file() {
        return Err(KeyFault::File(io::Error::new(io::ErrorKind::InvalidInput, "the key file is no regular file")));
    }
    #[cfg(unix)]
    if std::os::unix::fs::PermissionsExt::mode(&file.permissions()) & 0o077 != 0 {
        tracing::warn!("other users can read the key file, and take what the account has: set its mode to 0600");
    }
    key(&fs::read_to_string(path).map_err(KeyFault::File)?)
}

/// Why there are no usable nodes.
pub(crate) enum ConnectFault {
    /// No endpoint was named.
    Missing,
    /// A text is no http or https URL.
    Url(Option<url::ParseError>),
    /// A plain http URL names another machine.
    PlainHttp,
    /// No endpoint returned its chain id; the failure of one of them.
    Node(Option<Failure>),
    /// Two endpoints serve different chains.
    Chains,
}

/// Asks every node for its chain id. A node that does not answer now is used once it has answered.
pub(crate) async fn connect(urls: &[String], plain_http: bool) -> Result<Nodes, ConnectFault> {
    let nodes = parse(urls, plain_http)?;
    let chains = join_all(nodes.iter().map(Node::chain_id)).await;
    let mut told = chains.iter().flatten().copied();
    let Some(chain_id) = told.next() else {
        return Err(ConnectFault::Node(chains.into_iter().find_map(Result::err)));
    };
    if told.any(|other| other != chain_id) {
        return Err(ConnectFault::Chains);
    }
    for (node, _) in nodes.iter().zip(&chains).filter(|(_, chain)| chain.is_ok()) {
        node.proved();
    }
    Ok(Nodes::new(nodes, chain_id))
}

/// Asks no node: each is used once it has proved that it serves that chain.
pub(crate) fn connect_lazily(urls: &[String], plain_http: bool, chain_id: u64) -> Result<Nodes, ConnectFault> {
    Ok(Nodes::new(parse(urls, plain_http)?, chain_id))
}

fn parse(urls: &[String], plain_http: bool) -> Result<Vec<Node>, ConnectFault> {
    if urls.is_empty() {
        return Err(ConnectFault::Missing);
    }
    urls.iter().map(|url| node(url, plain_http)).collect()
}

fn node(url: &str, plain_http: bool) -> Result<Node, ConnectFault> {
    let parsed = Url::parse(url.trim()).map_err(|error| ConnectFault::Url(Some(error)))?;
    let node = Node::new(url).ok_or(ConnectFault::Url(None))?;
    if parsed.scheme() == "http" && !parsed.host_str().is_some_and(is_loopback) && !plain_http {
        return Err(ConnectFault::PlainHttp);
    }
    Ok(node)
}

#[cfg(all(test, unix))]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::{
        io::Write,
        os::unix::fs::PermissionsExt as _,
        sync::{Arc, Mutex},
    };

    use super::*;

    const KEY: &str = "59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d";

    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl Write for Log {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// The log output while a key is read from a file with this mode.
    fn logged(mode: u32) -> String {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        writeln!(file, "{KEY}").unwrap();
        file.as_file().set_permissions(fs::Permissions::from_mode(mode)).unwrap();
        let log = Log::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt().with_writer(move || writer.clone()).with_ansi(false).finish();
        let read = tracing::subscriber::with_default(subscriber, || key_file(file.path()));
        assert!(read.is_ok());
        String::from_utf8(std::mem::take(&mut *log.0.lock().unwrap())).unwrap()
    }

    #[test]
    fn a_key_that_others_can_read_is_warned_of() {
        assert_eq!(logged(0o600), "");
        for mode in [0o644, 0o640, 0o604] {
            let logged = logged(mode);
            assert!(logged.contains("0600") && !logged.contains(&KEY[..8]), "{logged}");
        }
    }

    #[test]
    fn a_key_is_read_from_a_regular_file_alone() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).output();
        assert!(made.unwrap().status.success());
        for path in [pipe.as_path(), folder.path()] {
            assert!(matches!(key_file(path), Err(KeyFault::File(error)) if error.to_string().contains("regular")));
        }
    }
}
