//! A transaction and its receipt, from one endpoint in one round trip.

use futures_util::future::join;
use serde_json::{json, value::RawValue};

use super::{decode, view::TxRecord};
use crate::{
    evm::json_rpc::{Fault, Question, Transport},
    protocol::TxHash,
};

/// Returns the question for a transaction's receipt.
pub(super) fn receipt(transaction: TxHash) -> Question {
    Question { method: "eth_getTransactionReceipt", params: json!([transaction.to_string()]) }
}

/// Asks for both at once. Returns `None` unless both exist, since one alone cannot be judged.
///
/// Waits for both answers, even if there is no receipt: dropping a request closes its connection.
pub(super) async fn ask(transport: &Transport, transaction: TxHash) -> Result<Option<TxRecord>, Fault> {
    let questions = [receipt(transaction), Question { method: "eth_getTransactionByHash", ..receipt(transaction) }];
    let [receipt, sent] = questions.each_ref().map(|question| transport.call(question));
    let (receipt, sent) = join(receipt, sent).await;
    let Some(receipt) = decode::receipt(&answer(receipt)?, transaction)? else { return Ok(None) };
    let sent = decode::transaction(&answer(sent)?, transaction)?;
    Ok(sent.map(|transaction| TxRecord { receipt, transaction }))
}

/// No contract was run, so nothing could revert.
fn answer(answer: Result<Box<RawValue>, Fault>) -> Result<Box<RawValue>, Fault> {
    answer.map_err(|fault| if fault == Fault::Reverted { Fault::Answer } else { fault })
}
