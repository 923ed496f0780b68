//! The parts of a wallet: its key from text or a file, and its nodes, which have to serve one chain.

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

/// Why a key cannot be had.
pub(crate) enum KeyFault {
    /// The file cannot be read.
    File(io::Error),
    /// The text is no key. Why it cannot be read might quote from it.
    Text,
}

/// Reads a private key: 64 hexadecimal digits, with or without `0x`, and space around it.
pub(crate) fn key(private_key_hex: &str) -> Result<Signer, KeyFault> {
    let signer = private_key_hex.trim().parse::<PrivateKeySigner>();
    signer.map(|signer| Box::new(signer) as Signer).map_err(|_| KeyFault::Text)
}

/// Reads a private key from a file.
pub(crate) fn key_file(path: &Path) -> Result<Signer, KeyFault> {
    key(&fs::read_to_string(path).map_err(KeyFault::File)?)
}

/// Why there are no nodes to ask.
pub(crate) enum ConnectFault {
    /// None was named.
    Missing,
    /// That is no http or https URL.
    Url(Option<url::ParseError>),
    /// That is a plain http URL of another machine.
    PlainHttp,
    /// None said which chain it serves; what one of them said.
    Node(Option<Failure>),
    /// Two serve different chains.
    Chains,
}

/// Asks every node which chain it serves. One that does not answer now is used once it has answered.
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

/// Asks none: each is used once it has said that it serves that chain.
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
