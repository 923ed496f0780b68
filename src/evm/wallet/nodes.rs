//! `Nodes`: the endpoints of a wallet, all of one chain. One node's answer is enough to continue; a repeated payment
//! needs the agreement of all.

use std::{future::Future, sync::Arc, time::Duration};

use futures_util::{
    StreamExt as _,
    future::join_all,
    stream::{FuturesUnordered, Stream},
};
use tokio::time::{Instant, timeout_at};

use super::{
    following::following,
    node::{Failure, Node},
};
use crate::{
    clock::{Clock as _, SystemClock},
    protocol::{Address, ChainTime},
};

#[derive(Debug)]
pub(crate) struct Nodes {
    list: Vec<Arc<Node>>,
    chain_id: u64,
}

impl Nodes {
    pub(crate) fn new(list: Vec<Node>, chain_id: u64) -> Self {
        Self { list: list.into_iter().map(Arc::new).collect(), chain_id }
    }

    pub(crate) const fn chain_id(&self) -> u64 {
        self.chain_id
    }

    /// Returns the number of endpoints, whether or not they answer.
    pub(crate) const fn len(&self) -> usize {
        self.list.len()
    }

    /// Returns the first usable answer. Asks the endpoints in order, those that hung a moment ago last.
    pub(crate) async fn first<'a, T, F>(&'a self, ask: impl Fn(&'a Node) -> F) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        let mut failure = Failure::Silence;
        for node in self.in_order() {
            match self.heard(node, &ask).await {
                Ok(answer) => return Ok(answer),
                Err(other) => failure = other,
            }
        }
        Err(failure)
    }

    /// Whether all of these accounts have code, by the first usable answer to each question.
    pub(crate) async fn are_contracts(&self, accounts: &[Address]) -> Result<bool, Failure> {
        for account in accounts {
            if !self.first(|node| node.has_code(*account)).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Asks all endpoints at once. Omits those that hung a moment ago, unless there is no other.
    pub(crate) async fn each<'a, T, F>(&'a self, ask: impl Fn(&'a Node) -> F) -> Vec<Result<T, Failure>>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        join_all(self.live().into_iter().map(|node| self.heard(node, &ask))).await
    }

    /// The same, but a node that does not follow the chain counts as silent. Each answer includes the time of the
    /// node's latest block.
    pub(crate) async fn each_following<'a, T, F>(&'a self, ask: impl Fn(&'a Node) -> F) -> Vec<Result<T, Failure>>
    where
        F: Future<Output = Result<(ChainTime, T), Failure>>,
    {
        let asked = self.live();
        let answers = join_all(asked.iter().map(|node| self.heard(node, &ask))).await;
        let answered: Vec<_> = answers.iter().map(Result::is_ok).collect();
        let following = following(answers, SystemClock.unix());
        // A node that does not follow the chain is asked last for a while, also by questions for which one answer is
        // enough.
        for ((node, answered), judged) in asked.into_iter().zip(answered).zip(&following) {
            if answered && judged.is_err() {
                node.rests();
            }
        }
        following
    }

    /// The same as [`each`](Self::each), but yields each answer as it arrives: a caller with enough answers need not
    /// wait for the others.
    pub(crate) fn as_they_answer<'a, T, F>(
        &'a self,
        ask: &'a impl Fn(&'a Node) -> F,
    ) -> impl Stream<Item = Result<T, Failure>> + Unpin
    where
        F: Future<Output = Result<T, Failure>>,
    {
        self.live().into_iter().map(|node| self.heard(node, ask)).collect::<FuturesUnordered<_>>()
    }

    /// Returns the first answers of more than half of all endpoints; fewer if the others fail, or are silent beyond
    /// `limit`. No single endpoint can raise the lower median of a majority.
    pub(crate) async fn most<'a, T, F>(
        &'a self,
        limit: Duration,
        ask: &'a impl Fn(&'a Node) -> F,
    ) -> Result<Vec<T>, Failure>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        let deadline = Instant::now() + limit;
        let mut answers = self.as_they_answer(ask);
        let (mut heard, mut failure) = (Vec::new(), Failure::Silence);
        while heard.len() * 2 <= self.list.len() {
            match timeout_at(deadline, answers.next()).await {
                Ok(Some(Ok(answer))) => heard.push(answer),
                Ok(Some(Err(other))) => failure = other,
                Ok(None) | Err(_) => break,
            }
        }
        if heard.is_empty() { Err(failure) } else { Ok(heard) }
    }

    /// Whether every endpoint that answers says yes, and these are more than half of all. If others were silenced, the
    /// remaining minority decides nothing. Each endpoint must also confirm the chain id.
    pub(crate) async fn all_say<'a, F>(&'a self, ask: impl Fn(&'a Node) -> F) -> bool
    where
        F: Future<Output = Result<bool, Failure>>,
    {
        let answers = self
            .each(|node| {
                let said = ask(node);
                async move { Ok(node.chain_id().await? == self.chain_id && said.await?) }
            })
            .await;
        self.is_said_by_all(answers)
    }

    /// The same, but only endpoints that [follow the chain](Self::each_following) count.
    pub(crate) async fn all_following_say<'a, F>(&'a self, ask: impl Fn(&'a Node) -> F) -> bool
    where
        F: Future<Output = Result<(ChainTime, bool), Failure>>,
    {
        let answers = self
            .each_following(|node| {
                let said = ask(node);
                async move {
                    let is_ours = node.chain_id().await? == self.chain_id;
                    let (newest, said) = said.await?;
                    Ok((newest, is_ours && said))
                }
            })
            .await;
        self.is_said_by_all(answers)
    }

    fn is_said_by_all(&self, answers: Vec<Result<bool, Failure>>) -> bool {
        let heard: Vec<bool> = answers.into_iter().flatten().collect();
        heard.iter().all(|said| *said) && self.are_most(heard.len())
    }

    /// Whether this number is more than half of all endpoints.
    pub(crate) const fn are_most(&self, heard: usize) -> bool {
        heard * 2 > self.list.len()
    }

    /// The endpoints in the order in which they are asked.
    pub(crate) fn in_order(&self) -> impl Iterator<Item = &Arc<Node>> {
        let (resting, live): (Vec<_>, Vec<_>) = self.list.iter().partition(|node| node.is_resting());
        live.into_iter().chain(resting)
    }

    fn live(&self) -> Vec<&Node> {
        let all = || self.list.iter().map(AsRef::as_ref);
        let live: Vec<&Node> = all().filter(|node| !node.is_resting()).collect();
        if live.is_empty() { all().collect() } else { live }
    }

    /// Returns one endpoint's answer, after it has proved that it serves this chain.
    pub(crate) async fn heard<'a, T, F>(&self, node: &'a Node, ask: &impl Fn(&'a Node) -> F) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        if !node.is_proved() {
            self.prove(node).await?;
        }
        ask(node).await
    }

    /// Asks an endpoint whether it serves this chain.
    ///
    /// # Errors
    /// If it does not, or does not answer.
    pub(crate) async fn prove(&self, node: &Node) -> Result<(), Failure> {
        if node.chain_id().await? != self.chain_id {
            node.doubted();
            return Err(Failure::Nonsense);
        }
        node.proved();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use axum::{Json, Router, routing::post};
    use serde_json::{Value, json};
    use tokio::net::TcpListener;

    use super::*;

    /// A node with this latest block.
    async fn at(number: u64, time: u64) -> Node {
        let answer = move |Json(question): Json<Value>| async move {
            let word = |byte: &str| format!("0x{}", byte.repeat(32));
            let block = json!({ "number": format!("0x{number:x}"), "hash": word("02"), "parentHash": word("01"),
                "timestamp": format!("0x{time:x}") });
            let result = if question["method"] == "eth_chainId" { json!("0x1") } else { block };
            Json(json!({ "jsonrpc": "2.0", "id": question["id"], "result": result }))
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, Router::new().route("/", post(answer))).await });
        Node::new(&url).unwrap()
    }

    /// Otherwise its old state would decide questions for which one answer is enough.
    #[tokio::test]
    async fn a_node_that_was_found_behind_is_asked_last() {
        let now = SystemClock.unix();
        let nodes = Nodes::new(vec![at(1, now - 900).await, at(2, now).await, at(2, now).await], 1);
        let number = |node| async move { Node::head(node).await.map(|head| head.number) };
        assert_eq!(nodes.first(number).await.ok(), Some(1));
        let heads =
            nodes.each_following(|node| async move { node.head().await.map(|head| (head.time, head.number)) }).await;
        assert_eq!(heads.into_iter().map(Result::ok).collect::<Vec<_>>(), [None, Some(2), Some(2)]);
        assert_eq!(nodes.first(number).await.ok(), Some(2));
        assert_eq!(nodes.each(number).await.len(), 2);
    }

    /// Starts a node of chain 1, which the returned state changes: 0 answers as chain 1, 1 fails, 2 answers as chain 2.
    async fn changing() -> (Nodes, Arc<AtomicUsize>) {
        let state = Arc::<AtomicUsize>::default();
        let now = Arc::clone(&state);
        let answer = move |Json(question): Json<Value>| async move {
            let result = match (now.load(Ordering::SeqCst), question["method"].as_str()) {
                (1, _) => return Err(axum::http::StatusCode::BAD_GATEWAY),
                (0, Some("eth_chainId")) => json!("0x1"),
                (_, Some("eth_chainId")) => json!("0x2"),
                _ => json!("0x7"),
            };
            Ok(Json(json!({ "jsonrpc": "2.0", "id": question["id"], "result": result })))
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, Router::new().route("/", post(answer))).await });
        (Nodes::new(vec![Node::new(&url).unwrap()], 1), state)
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_proves_its_chain_every_minute() {
        let node = Node::new("http://127.0.0.1:1").unwrap();
        assert!(!node.is_proved());
        node.proved();
        assert!(node.is_proved());
        tokio::time::advance(Duration::from_secs(60)).await;
        assert!(!node.is_proved());
    }

    /// SECURITY row 17.
    #[tokio::test]
    async fn a_node_proves_its_chain_again_after_a_failure() {
        let (nodes, state) = changing().await;
        let ether = async || nodes.first(|node| node.ether(Address::ZERO)).await.ok();
        assert_eq!(ether().await, Some(7));
        for (now, said) in [(1, None), (2, None), (0, Some(7))] {
            state.store(now, Ordering::SeqCst);
            assert_eq!(ether().await, said, "{now}");
        }
    }
}
