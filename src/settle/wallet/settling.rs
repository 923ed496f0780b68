//! Settles one payment in its own task: tries it once more, sends it, and watches it until its outcome is known.

use std::{sync::Arc, time::Duration};

use alloy::consensus::TxEip1559;
use tokio::time::{sleep, timeout};

use super::{
    checks::{self, Cover},
    core::{Core, Held},
    flights::Flight,
    order::Order,
    reasons::Method,
    trial::{self, Trial},
    watching::{Sent, keep, watch},
};
use crate::{
    evm::wallet::{node::Failure, sending::SendFault},
    protocol::{TxHash, v2::Reason},
    settle::{Settlement, TransactionRecorder},
};

/// The time limit for asking nodes what a transaction needs.
const LIMIT: Duration = Duration::from_secs(30);

/// The pause before checking again whether the payer's earlier payments leave enough for this one.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// How many nonces are tried if others turn out to have used them.
const TRIES: usize = 4;

/// The gas limit's margin beyond the estimate. The estimate uses the pending state: writing a balance that is nonzero
/// there, but zero when the transaction is mined, costs that much more.
const GAS_SPARE: u64 = 30_000;

/// The outcome if this task sent nothing, although an earlier process may have.
const NOTHING_SENT: Settlement = Settlement::Unknown(None);

pub(super) async fn fly(core: Arc<Core>, order: Order, flight: Flight, recorder: TransactionRecorder) {
    let (first, held) = match send(&core, &order, &flight, &recorder).await {
        Ok(sent) => sent,
        Err(outcome) => return flight.land(outcome),
    };
    let mut sent = vec![first];
    let outcome = watch(&core, &order, &flight, &recorder, &mut sent, &held).await;
    match outcome {
        // No request waits for a claim, and a successful claim is not repeated, so its outcome is reported only once it
        // is final.
        Settlement::Settled(transaction) if order.method == Method::Claim => {
            // If nodes do not tell, the chain will later.
            let stays = keep(&core, &sent, &held).await && trial::stays(&core, &order).await;
            flight.land(if stays { outcome } else { Settlement::Unknown(Some(transaction)) });
        }
        Settlement::Settled(_) => {
            flight.land(outcome);
            keep(&core, &sent, &held).await;
        }
        Settlement::Refused(_) | Settlement::Unknown(_) => flight.land(outcome),
    }
}

/// Sends the transaction.
///
/// # Errors
/// The outcome of the payment, if nothing was sent.
async fn send<'a>(
    core: &'a Core,
    order: &Order,
    flight: &Flight,
    recorder: &TransactionRecorder,
) -> Result<(Sent, Held<'a>), Settlement> {
    let draft = match timeout(LIMIT, draft(core, order, flight)).await {
        Ok(Ok(draft)) => draft,
        Ok(Err(Stop::Refused(reason))) => return Err(Settlement::Refused(reason)),
        Ok(Err(Stop::Unsure)) | Err(_) => return Err(NOTHING_SENT),
    };
    let mut last = None;
    for _ in 0..TRIES {
        match launch(core, &draft, flight, recorder).await {
            Launch::Sent(sent, held) => return Ok((sent, held)),
            Launch::NonceUsed(hash) => last = Some(hash),
            // No node took it, according to the nodes.
            Launch::Failed(hash) => return Err(Settlement::Unknown(hash.or(last))),
        }
    }
    Err(Settlement::Unknown(last))
}

/// Why nothing is sent.
enum Stop {
    /// The payment is refused: its transaction would be in vain.
    Refused(Reason),
    /// The outcome is unknown; or the nonce is used, and the chain shows by which transaction.
    Unsure,
}

impl From<Failure> for Stop {
    fn from(_: Failure) -> Self {
        Self::Unsure
    }
}

/// Returns the transaction without nonce and signature.
async fn draft(core: &Core, order: &Order, flight: &Flight) -> Result<TxEip1559, Stop> {
    if core.reverted.get(&order.payer).is_some() {
        return Err(refused(core, order, Reason::INVALID_TRANSACTION_STATE).await);
    }
    if !checks::is_plausible(core, order).await? {
        return Err(refused(core, order, order.reasons().signature.clone()).await);
    }
    // The payer's earlier payments may leave too little for this one.
    while checks::cover(core, order, core.flights.owed(order, Some(flight))).await? == Cover::Later {
        sleep(LOOK_AGAIN).await;
    }
    // With too little ether the trial would fail for any payment.
    let fees = checks::affords(core, order.gas_max).await.map_err(|_| Stop::Unsure)?;
    let gas = match trial::tried(core, order, fees).await? {
        Trial::Settles { gas } => {
            checks::is_worth_it(core, order, gas, fees).map_err(|_| Stop::Unsure)?;
            gas.saturating_add(gas / 5).saturating_add(GAS_SPARE).min(order.gas_max)
        }
        Trial::Used => return Err(Stop::Unsure),
        Trial::Fails(reason) => return Err(refused(core, order, reason).await),
    };
    Ok(core.draft(order.target, order.input.clone(), gas, fees))
}

/// Refuses a payment only if every node reports its nonce as unused, because a refusal makes the payer sign another
/// one.
async fn refused(core: &Core, order: &Order, reason: Reason) -> Stop {
    let is_unused = async |node| Ok(trial::is_used(order, node, "pending").await? != Some(true));
    if core.account.nodes.all_say(is_unused).await { Stop::Refused(reason) } else { Stop::Unsure }
}

enum Launch<'a> {
    /// It was sent, or may have been.
    Sent(Sent, Held<'a>),
    /// Another transaction has its nonce, so this one can never be mined.
    NonceUsed(TxHash),
    Failed(Option<TxHash>),
}

/// Chooses a nonce, signs and sends, under the account's lock.
async fn launch<'a>(core: &'a Core, draft: &TxEip1559, flight: &Flight, recorder: &TransactionRecorder) -> Launch<'a> {
    let account = &core.account;
    let _turn = account.turn.lock().await;
    let Ok(nonce) = checks::next_nonce(core).await else { return Launch::Failed(None) };
    let transaction = TxEip1559 { nonce, ..draft.clone() };
    let Some(signed) = account.sign(transaction.clone()).await else { return Launch::Failed(None) };
    let (hash, held) = (signed.hash, core.hold(nonce));
    // After a crash it is looked up by this hash.
    if !recorder.record(hash).await {
        return Launch::Failed(None);
    }
    flight.sent(hash);
    match account.send(nonce, &signed).await {
        Ok(()) => {}
        Err(SendFault::NonceUsed) => {
            account.used(nonce);
            // This transaction itself may have used it, if a node accepted it and the reply was lost.
            if !is_mined(core, hash).await {
                return Launch::NonceUsed(hash);
            }
        }
        Err(fault) if fault.is_refusal() => return Launch::Failed(Some(hash)),
        // A node may have accepted it. Later transactions use the next nonces, and this one is resent until it is
        // mined.
        Err(_) => account.used(nonce),
    }
    Launch::Sent(Sent::new(transaction, signed, true), held)
}

/// Returns whether any node has a receipt of a mined transaction.
async fn is_mined(core: &Core, hash: TxHash) -> bool {
    let told = core.account.nodes.each(|node| node.receipt(hash)).await;
    told.into_iter().flatten().flatten().any(|receipt| receipt.mined_in.is_some())
}
