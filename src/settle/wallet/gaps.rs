//! Fills abandoned nonces, which block later ones, with transactions without effect. They come from a dead process, or
//! nodes dropped their transactions.

use tokio::time::Instant;

use super::{
    core::Core,
    order::{CHANNELS_GAS_MAX, GAS_MAX},
};
use crate::evm::{
    channel, eip3009, permit2,
    wallet::{
        fees::Fees,
        node::{Call, Waiting},
    },
};

/// Fills the account's lowest open nonce if it is below `below` and abandoned, and repeats this with a higher fee while
/// it stays open.
///
/// A transaction waiting there may settle a payment of a dead process whose answer may have been delivered, so it is
/// left alone.
pub(super) async fn fill(core: &Core, open: u64, below: u64) {
    if open >= below || core.is_held(open) {
        return;
    }
    // One task fills; the others continue.
    let Ok(mut filled) = core.filled.try_lock() else { return };
    let last = (*filled).filter(|(nonce, ..)| *nonce == open);
    if last.is_some_and(|(_, _, at)| at.elapsed() < core.policy.replace_after) {
        return;
    }
    if may_pay(core, open).await {
        return;
    }
    let Ok(now) = core.account.fees().await else { return };
    // The task with the turn may be about to use this nonce.
    let _turn = core.account.turn.lock().await;
    if core.is_held(open) {
        return;
    }
    // The waiting transaction and its fees are unknown, so each attempt doubles the offer.
    let least = last
        .map_or(now, |(_, Fees { most, tip }, _)| Fees { most: most.saturating_mul(2), tip: tip.saturating_mul(2) });
    let fees = now.or_higher(least).at_most(core.policy.max_fee_per_gas);
    if now.most > fees.most {
        return;
    }
    let Some(signed) = core.account.sign(core.filler(open, fees)).await else { return };
    *filled = Some((open, fees, Instant::now()));
    let _ = core.account.send(open, &signed).await;
}

/// Returns whether a transaction waiting under that nonce may settle a payment. If no node knows it, it may if any node
/// counts a waiting transaction, or if none answers.
async fn may_pay(core: &Core, nonce: u64) -> bool {
    let (nodes, account) = (&core.account.nodes, core.account.address);
    let told = nodes.each(|node| node.waiting(account, nonce)).await;
    let told: Vec<Option<Waiting>> = told.into_iter().flatten().collect();
    if told.is_empty() {
        let counts: Vec<_> = nodes.each(|node| node.counted(account)).await.into_iter().flatten().collect();
        return counts.is_empty() || counts.iter().any(|counted| counted.pending > nonce);
    }
    for waiting in told.iter().flatten() {
        if pays(core, waiting).await {
            return true;
        }
    }
    false
}

/// Returns whether the transaction settles a payment and still can: not every node reports that it fails in the latest
/// block.
async fn pays(core: &Core, waiting: &Waiting) -> bool {
    let gas = match &waiting.input {
        input if eip3009::is_transfer(input) || permit2::is_settle(input) => GAS_MAX,
        input if channel::changes_channels(input) => CHANNELS_GAS_MAX,
        _ => return false,
    };
    let Some(to) = waiting.to else { return false };
    let call = Call { from: core.account.address, to, data: &waiting.input, gas, fees: None };
    !core.account.nodes.all_say(async |node| Ok(node.run(&call, "latest").await?.is_err())).await
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
        time::Duration,
    };

    use axum::{Json, Router, routing::post};
    use serde_json::{Value, json};

    use super::*;
    use crate::evm::wallet::{account::Account, connect};

    /// Returns a settling account on a node that accepts everything, and the number of transactions sent to it.
    async fn core() -> (Core, Arc<AtomicUsize>) {
        let sent = Arc::<AtomicUsize>::default();
        let counter = Arc::clone(&sent);
        let answer = move |Json(question): Json<Value>| async move {
            let result = match question["method"].as_str() {
                Some("eth_chainId") => json!("0x2105"),
                Some("eth_feeHistory") => json!({ "baseFeePerGas": ["0x1"], "reward": [["0x1"]] }),
                Some("eth_sendRawTransaction") => {
                    counter.fetch_add(1, Ordering::SeqCst);
                    Value::Null
                }
                _ => Value::Null,
            };
            Json(json!({ "jsonrpc": "2.0", "id": question["id"], "result": result }))
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, Router::new().fallback(post(answer))).await });
        let nodes = connect::connect_lazily(&[url], false, 8453).ok().unwrap();
        let signer = connect::key(&"11".repeat(32)).ok().unwrap();
        (Core::new(Account::new(nodes, signer), super::super::core::Policy::default()), sent)
    }

    /// The task with the turn may be about to use this nonce.
    #[tokio::test]
    async fn a_nonce_that_is_taken_while_the_turn_is_awaited_is_not_filled() {
        let (core, sent) = core().await;
        let turn = core.account.turn.lock().await;
        let mut filling = Box::pin(fill(&core, 3, 5));
        assert!(tokio::time::timeout(Duration::from_millis(500), &mut filling).await.is_err(), "it waits for its turn");
        let held = core.hold(3);
        drop(turn);
        filling.await;
        assert_eq!(sent.load(Ordering::SeqCst), 0);
        fill(&core, 3, 5).await;
        drop(held);
        assert_eq!(sent.load(Ordering::SeqCst), 0, "nor one that is known to be taken");
        fill(&core, 3, 5).await;
        assert_eq!(sent.load(Ordering::SeqCst), 1);
    }
}
