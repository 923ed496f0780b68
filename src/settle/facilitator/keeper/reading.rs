//! Reads from the seller's own nodes the deposits and claims that a facilitator sends.

use crate::{
    evm::{
        eip3009, permit2,
        wallet::{
            node::{Call, Failure, Node, hex},
            nodes::Nodes,
        },
    },
    protocol::{
        Address,
        channel::{BATCH_SETTLEMENT, ChannelConfig, ChannelDeposit, ChannelId, DepositAuthorization, VoucherClaim},
        permit2::PERMIT2,
    },
    settle::questions,
};

/// The gas limit for reading the claimed total of one channel from the contract.
const VIEW_GAS: u64 = 100_000;

/// Returns whether any node reports the authorization or permit of a deposit as used. For `false`, more than half of all nodes
/// must answer.
pub(super) async fn is_deposited(
    nodes: &Nodes,
    config: &ChannelConfig,
    (channel, deposit): (ChannelId, &ChannelDeposit),
) -> Result<bool, Failure> {
    let (keeper, question) = match &deposit.authorization {
        DepositAuthorization::Erc3009(by) => {
            (config.token, eip3009::authorization_state(config.payer, &channel.deposit_nonce(&by.salt)))
        }
        DepositAuthorization::Permit2(by) => (PERMIT2, permit2::nonce_bitmap(config.payer, &by.nonce)),
    };
    let is_used = |word: [u8; 32]| match &deposit.authorization {
        DepositAuthorization::Erc3009(_) => word.last().is_some_and(|last| *last > 0),
        DepositAuthorization::Permit2(by) => permit2::read_used(&word, &by.nonce) == Some(true),
    };
    let answers = nodes.each(|node| node.word_at(keeper, &question, "latest")).await;
    let heard: Vec<bool> = answers.into_iter().flatten().flatten().map(is_used).collect();
    match heard.contains(&true) {
        true => Ok(true),
        false if nodes.are_most(heard.len()) => Ok(false),
        false => Err(Failure::Silence),
    }
}

/// Returns whether a token has EIP-3009, that is, answers whether a nonce is used.
pub(super) async fn has_authorizations(nodes: &Nodes, token: Address) -> Result<bool, Failure> {
    let question = eip3009::authorization_state(Address::ZERO, &[0; 32]);
    Ok(nodes.first(|node| node.word_at(token, &question, "latest")).await?.is_some())
}

/// Returns whether every node reports all rows as claimed, `final_after` blocks below its head.
pub(super) async fn are_claimed(nodes: &Nodes, claims: &[VoucherClaim], final_after: u64) -> bool {
    let question = questions::claimed_of(claims.iter().map(|claim| claim.voucher.channel));
    let gas = VIEW_GAS.saturating_mul(claims.len() as u64 + 1);
    let call = Call { from: BATCH_SETTLEMENT, to: BATCH_SETTLEMENT, data: &question, gas, fees: None };
    let ask = async |node: &Node| {
        let head = node.head().await?;
        let Some(height) = head.number.checked_sub(final_after) else { return Ok((head.time, false)) };
        let returned = node.run(&call, &hex(height)).await?.ok();
        let claimed = returned.and_then(|returned| questions::read_claimed_of(&returned)).ok_or(Failure::Nonsense)?;
        let is_claimed = |(claimed, claim): (&u128, &VoucherClaim)| *claimed >= claim.total_claimed;
        Ok((head.time, claimed.len() == claims.len() && claimed.iter().zip(claims).all(is_claimed)))
    };
    nodes.all_following_say(ask).await
}

#[cfg(test)]
mod tests {
    use axum::{Json, Router, routing::post};
    use serde_json::{Value, json};
    use tokio::net::TcpListener;

    use super::*;
    use crate::protocol::{ChainTime, Network, PaymentSignature, channel::Erc3009Deposit};

    /// Starts a node that reports every nonce as unused (0) or as used (1).
    async fn node(used: u8) -> Node {
        let answer = move |Json(question): Json<Value>| async move {
            let result = if question["method"] == "eth_chainId" { "0x1".to_owned() } else { format!("0x{used:064x}") };
            Json(json!({ "jsonrpc": "2.0", "id": question["id"], "result": result }))
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, Router::new().fallback(post(answer))).await });
        Node::new(&url).unwrap()
    }

    /// Otherwise a deposit that was made could be refused because one node lags.
    #[tokio::test]
    async fn that_a_deposit_is_not_made_takes_more_than_half_of_the_nodes() {
        let gone = || Node::new("http://127.0.0.1:1").unwrap();
        let config = ChannelConfig::new(Address::ZERO, Address::ZERO, Address::ZERO);
        let times = [0, u64::MAX].map(ChainTime::from_unix);
        let signed = Erc3009Deposit::new([9; 32], times, PaymentSignature::new([7; 65]).unwrap());
        let deposit = ChannelDeposit::new(1, signed);
        let channel = config.id(Network::eip155(1));
        for (nodes, said) in [
            (vec![node(0).await, gone(), gone()], None),
            (vec![node(0).await, node(0).await, gone()], Some(false)),
            (vec![node(1).await, gone(), gone()], Some(true)),
            (vec![node(0).await, node(0).await, node(1).await], Some(true)),
        ] {
            let nodes = Nodes::new(nodes, 1);
            assert_eq!(is_deposited(&nodes, &config, (channel, &deposit)).await.ok(), said);
        }
    }
}
