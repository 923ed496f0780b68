//! What a transaction offers for its place in the chain, by nodes that name absurd fees.

use super::{
    liars::through,
    node::{Odd, Proxy},
    *,
};

/// 4.2 gwei on top of the base fee, in each of the last blocks.
const GREED: Odd = Odd::Changed(|history| {
    let blocks = history["baseFeePerGas"].as_array().map_or(0, Vec::len);
    history["reward"] = json!(vec![["0xfa56ea00"]; blocks.saturating_sub(1)]);
});
/// A base fee of 2.4 gwei.
const BUSY: Odd = Odd::Changed(|history| {
    let fees = history["baseFeePerGas"].as_array_mut().unwrap();
    fees.iter_mut().for_each(|fee| *fee = json!("0x8f0d1800"));
});
const GWEI: u128 = 1_000_000_000;

async fn offered(wallet: &WalletPayer) -> (u128, u128) {
    let transaction = raw(&wallet.prepare(&in_usdc()).await.unwrap());
    (transaction.max_fee_per_gas, transaction.max_priority_fee_per_gas)
}

#[tokio::test]
async fn one_node_that_lies_about_fees_raises_none() {
    for nodes in [2, 3] {
        let (_chain, proxies, wallet) = through(nodes).await;
        let fair = offered(&wallet).await;
        for (liar, lie) in (0..nodes).flat_map(|liar| [GREED, BUSY].map(|lie| (liar, lie))) {
            proxies[liar].set("eth_feeHistory", lie);
            assert_eq!(offered(&wallet).await, fair, "{liar} of {nodes}");
            proxies.iter().for_each(Proxy::clear);
        }
    }
}

#[tokio::test]
async fn a_tip_stays_near_the_base_fee_also_with_one_node() {
    let (_chain, proxies, wallet) = through(1).await;
    proxies[0].set("eth_feeHistory", GREED);
    let (most, tip) = offered(&wallet).await;
    assert!(tip < GWEI / 5 && tip <= most - 2 * tip, "{tip} of {most}");
    let replaced = wallet.replace(&[wallet.prepare(&in_usdc()).await.unwrap()]).await.unwrap().unwrap();
    assert!(raw(&replaced).max_priority_fee_per_gas < GWEI / 5);
}

/// A node that hangs holds a payment up for as long as before, and its word is not needed.
#[tokio::test]
async fn fees_are_known_where_more_than_half_of_the_nodes_answer() {
    let (_chain, proxies, wallet) = through(3).await;
    let fair = offered(&wallet).await;
    proxies[1].set("eth_feeHistory", Odd::Hang);
    let begun = std::time::Instant::now();
    assert_eq!(offered(&wallet).await, fair);
    assert!(begun.elapsed() < std::time::Duration::from_secs(5));
}
