//! Simulates a settling call, and translates its failure to the standard's reasons.

use futures_util::future::{join, try_join};

use super::{core::Core, order::Order, reasons::Method};
use crate::{
    evm::{
        erc20, erc1271,
        json_rpc::RpcError,
        permit2,
        wallet::{
            fees::Fees,
            node::{Call, Failure, Node, hex},
        },
    },
    protocol::{Amount, v2::Reason},
};

/// The gas limit of a contract account's check of a signature.
pub(super) const SIGNATURE_GAS: u64 = 300_000;

/// The result of a trial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Trial {
    /// The call settles the payment, and takes this much gas.
    Settles { gas: u64 },
    /// The nonce is used.
    Used,
    /// The call fails.
    Fails(Reason),
}

/// The state of a payment before the trial of its call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    Unused,
    Used,
    /// The payer holds less than the call moves.
    Poor,
    /// The contract does not answer: it is no token, the token has no authorizations, or there is no Permit2.
    NoKeeper,
}

/// Asks whether the nonce is used, and whether its payer has the money.
pub(super) async fn standing(core: &Core, order: &Order) -> Result<Standing, Failure> {
    let ask = async |node| try_join(is_used(order, node, "pending"), balance(order, node, "pending")).await;
    let (used, balance) = core.account.nodes.first(ask).await?;
    Ok(match used {
        None => Standing::NoKeeper,
        Some(true) => Standing::Used,
        Some(false) if balance.is_some_and(|balance| balance < order.value) => Standing::Poor,
        Some(false) => Standing::Unused,
    })
}

/// Returns whether any node reports the nonce as used. For `false`, all nodes that answer must agree, and they must be
/// more than half of all.
pub(super) async fn is_used_anywhere(core: &Core, order: &Order) -> Result<bool, Failure> {
    let nodes = &core.account.nodes;
    let heard: Vec<_> = nodes.each(|node| is_used(order, node, "pending")).await.into_iter().flatten().collect();
    match heard.contains(&Some(true)) {
        true => Ok(true),
        false if nodes.are_most(heard.len()) => Ok(false),
        false => Err(Failure::Silence),
    }
}

/// Returns the payer's balance of the token; `None` if the contract does not report it.
pub(super) async fn balance(order: &Order, node: &Node, at: &str) -> Result<Option<Amount>, Failure> {
    let balance = node.word_at(order.token, &erc20::balance_of(order.payer), at).await?;
    Ok(balance.map(Amount::from_be_bytes))
}

/// Simulates a settling call on the pending state, at these fees.
pub(super) async fn tried(core: &Core, order: &Order, fees: Fees) -> Result<Trial, Failure> {
    let try_on = |node| tried_on(core, order, fees, node);
    // On a node that is stuck before the claim, the trial would succeed repeatedly.
    let try_at = async |node: &Node| {
        let (head, trial) = try_join(node.head(), tried_on(core, order, fees, node)).await?;
        Ok((head.time, trial))
    };
    match order.method {
        Method::Claim => best(core.account.nodes.each_following(try_at).await),
        _ => core.account.nodes.first(try_on).await,
    }
}

/// Combines the nodes' trials of a claim. A majority for "used" or "fails" decides; otherwise the claim is sent if any
/// node accepts it. A claim sent in vain costs its gas, but a claim not sent can cost everything sold.
fn best(said: Vec<Result<Trial, Failure>>) -> Result<Trial, Failure> {
    let (heard, failed): (Vec<_>, Vec<_>) = said.into_iter().partition(Result::is_ok);
    let heard: Vec<Trial> = heard.into_iter().flatten().collect();
    let gas = heard.iter().filter_map(|trial| if let Trial::Settles { gas } = trial { Some(*gas) } else { None });
    let settles = gas.max().map(|gas| Trial::Settles { gas });
    let used = heard.iter().filter(|trial| **trial == Trial::Used).count();
    let fails = heard.iter().filter(|trial| matches!(trial, Trial::Fails(_))).count();
    let most = |count: usize| count * 2 > heard.len();
    match settles {
        Some(settles) if !most(used) && !most(fails) => Ok(settles),
        _ if most(used) || used > 0 && !most(fails) => Ok(Trial::Used),
        _ => {
            let fails = heard.into_iter().filter(|trial| matches!(trial, Trial::Fails(_))).map(Ok);
            fails.chain(failed).next().unwrap_or(Err(Failure::Silence))
        }
    }
}

async fn tried_on(core: &Core, order: &Order, fees: Fees, node: &Node) -> Result<Trial, Failure> {
    // Check the state as well: if the contract does not answer, it is no token, or a token without authorizations, and
    // its calls may do nothing.
    let call = order.call(core.account.address, Some(fees));
    let (used, gas) = join(is_used(order, node, "pending"), node.gas_of(&call)).await;
    match used? {
        Some(false) => {}
        Some(true) => return Ok(Trial::Used),
        None => return Ok(Trial::Fails(order.reasons().no_keeper.clone())),
    }
    match gas? {
        Ok(gas) => Ok(Trial::Settles { gas }),
        // The transaction that used it may have arrived between the two questions.
        Err(_) if is_used(order, node, "pending").await? == Some(true) => Ok(Trial::Used),
        // That is the settling account's fault, not the payer's.
        Err(error) if error.says(&["insufficient funds for"]) => Err(Failure::Nonsense),
        Err(error) => reason(order, node, &error).await.map(Trial::Fails),
    }
}

/// Returns whether every node reports that the settling call fails in the latest block, without pending transactions. One
/// node that lies or lags must not end a settlement.
pub(super) async fn is_dead(core: &Core, order: &Order) -> bool {
    let call = order.call(core.account.address, None);
    core.account.nodes.all_say(async |node| Ok(node.run(&call, "latest").await?.is_err())).await
}

/// Returns whether the nonce is used; `None` if its contract does not answer.
pub(super) async fn is_used(order: &Order, node: &Node, at: &str) -> Result<Option<bool>, Failure> {
    let question = order.trace.question();
    let call = Call { from: order.payer, to: order.keeper(), data: &question, gas: order.gas_max, fees: None };
    Ok(node.run(&call, at).await?.ok().and_then(|returned| order.trace.read(&returned)))
}

/// Returns whether the call has happened in a block that is believed to stay.
pub(super) async fn stays(core: &Core, order: &Order) -> bool {
    let happened = async |node: &Node| {
        let head = node.head().await?;
        let is_used = match head.number.checked_sub(core.policy.final_after) {
            Some(height) => is_used(order, node, &hex(height)).await?,
            None => None,
        };
        Ok((head.time, is_used == Some(true)))
    };
    core.account.nodes.all_following_say(happened).await
}

/// Returns whether the payer signed, by its key or according to its contract.
pub(super) async fn is_signed(core: &Core, order: &Order) -> Result<bool, Failure> {
    if order.is_by_key {
        return Ok(true);
    }
    let call = Call { from: order.keeper(), to: order.payer, data: &order.question, gas: SIGNATURE_GAS, fees: None };
    let said = core.account.nodes.first(|node| node.run(&call, "latest")).await?;
    Ok(said.is_ok_and(|returned| erc1271::is_accepted(&returned)))
}

/// Returns why the call failed: first by the chain's present state, then by the contract's error text.
async fn reason(order: &Order, node: &Node, error: &RpcError) -> Result<Reason, Failure> {
    let (now, reasons) = (node.head().await?.time, order.reasons());
    if order.expires <= now || error.says(&["expired"]) {
        return Ok(reasons.expired.clone());
    }
    if order.valid_after >= now && error.says(&["not yet valid"]) {
        return Ok(reasons.early.clone());
    }
    if order.method != Method::Authorization && !node.has_code(order.target).await? {
        return Ok(reasons.no_keeper.clone());
    }
    if balance(order, node, "pending").await? < Some(order.value) {
        return Ok(reasons.funds.clone());
    }
    let without_allowance = match order.method {
        Method::Permit { sponsored: false } => Some(Reason::PERMIT2_ALLOWANCE_REQUIRED),
        Method::PermitDeposit => Some(Reason::INVALID_BATCH_SETTLEMENT_EVM_PERMIT2_ALLOWANCE_REQUIRED),
        _ => None,
    };
    if let Some(reason) = without_allowance
        && !is_allowed(order, node).await?
    {
        return Ok(reason);
    }
    let is_signature = error.says(&["invalid signature", "ecrecover"]) || !order.is_by_key;
    Ok(if is_signature { reasons.signature.clone() } else { reasons.fails.clone() })
}

/// Returns whether the payer allows Permit2 to move the amount of the call.
async fn is_allowed(order: &Order, node: &Node) -> Result<bool, Failure> {
    let allowed = node.word_at(order.token, &permit2::allowance(order.payer), "pending").await?;
    Ok(allowed.map(Amount::from_be_bytes) >= Some(order.value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_is_sent_unless_most_nodes_know_of_it() {
        let (settles, fails) = (Trial::Settles { gas: 5 }, Trial::Fails(Reason::INVALID_TRANSACTION_STATE));
        for (said, expected) in [
            (vec![settles.clone()], Some(settles.clone())),
            (vec![fails.clone(), Trial::Settles { gas: 3 }, settles.clone()], Some(settles.clone())),
            (vec![fails.clone(), settles.clone()], Some(settles.clone())),
            (vec![Trial::Used, fails.clone(), settles.clone()], Some(settles.clone())),
            (vec![Trial::Used, settles.clone()], Some(settles.clone())),
            (vec![Trial::Used, Trial::Used, settles.clone()], Some(Trial::Used)),
            (vec![fails.clone(), settles, fails.clone()], Some(fails.clone())),
            (vec![fails.clone(), Trial::Used], Some(Trial::Used)),
            (vec![fails.clone(), Trial::Used, fails.clone()], Some(fails.clone())),
            (vec![fails.clone(), fails.clone()], Some(fails)),
            (vec![], None),
        ] {
            let context = format!("{said:?}");
            let said = said.into_iter().map(Ok).chain([Err(Failure::Nonsense)]).collect();
            assert_eq!(best(said).ok(), expected, "{context}");
        }
    }
}
