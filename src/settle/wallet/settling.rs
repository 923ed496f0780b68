//! Settles one payment, in a task of its own: tried once more, sent, and watched until it is known what became of it.

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

/// The longest that nodes are asked for what a transaction needs.
const LIMIT: Duration = Duration::from_secs(30);

/// How soon it is asked again whether the payer's earlier payments leave enough for this one.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// How often a nonce may turn out to be used by others.
const TRIES: usize = 4;

/// What a transaction may take beyond its estimate. That was made on what waits: a balance that is not nothing there, and is where the
/// transaction is mined, takes so much more to be written.
const GAS_SPARE: u64 = 30_000;

/// That nothing was sent from here, though perhaps by a process before.
const NOTHING_SENT: Settlement = Settlement::Unknown(None);

pub(super) async fn fly(core: Arc<Core>, order: Order, flight: Flight, recorder: TransactionRecorder) {
    let (first, held) = match send(&core, &order, &flight, &recorder).await {
        Ok(sent) => sent,
        Err(outcome) => return flight.land(outcome),
    };
    let mut sent = vec![first];
    let outcome = watch(&core, &order, &flight, &recorder, &mut sent, &held).await;
    match outcome {
        // No request waits for a claim, and what it claimed is not claimed again: so its outcome is told once it stays.
        Settlement::Settled(transaction) if order.method == Method::Claim => {
            // Where nodes do not tell, the chain does, later.
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
/// What became of the payment, where none was sent.
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
            // No node took it, or so they say.
            Launch::Failed(hash) => return Err(Settlement::Unknown(hash.or(last))),
        }
    }
    Err(Settlement::Unknown(last))
}

/// Why nothing is sent.
enum Stop {
    /// It would be in vain.
    Refused(Reason),
    /// Its effect is unknown; or the nonce is used, and the chain tells by which transaction.
    Unsure,
}

impl From<Failure> for Stop {
    fn from(_: Failure) -> Self {
        Self::Unsure
    }
}

/// The transaction, all but nonce and signature.
async fn draft(core: &Core, order: &Order, flight: &Flight) -> Result<TxEip1559, Stop> {
    if core.reverted.get(&order.payer).is_some() {
        return Err(refused(core, order, Reason::INVALID_TRANSACTION_STATE).await);
    }
    if !checks::is_plausible(core, order).await? {
        return Err(refused(core, order, order.reasons().signature.clone()).await);
    }
    // The payer's earlier payments may leave nothing for this one.
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

/// A refusal has the payer sign anew: it takes every node to say that its nonce is not used.
async fn refused(core: &Core, order: &Order, reason: Reason) -> Stop {
    let is_unused = async |node| Ok(trial::is_used(order, node, "pending").await? != Some(true));
    if core.account.nodes.all_say(is_unused).await { Stop::Refused(reason) } else { Stop::Unsure }
}

enum Launch<'a> {
    /// It was sent, or may have been.
    Sent(Sent, Held<'a>),
    /// Another transaction has its nonce: this one can never be mined.
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
    // After a crash it is looked for under this name.
    if !recorder.record(hash).await {
        return Launch::Failed(None);
    }
    flight.sent(hash);
    match account.send(nonce, &signed).await {
        Ok(()) => {}
        Err(SendFault::NonceUsed) => {
            account.used(nonce);
            // By this very transaction, if a node took it and its answer was lost.
            if !is_mined(core, hash).await {
                return Launch::NonceUsed(hash);
            }
        }
        Err(fault) if fault.is_refusal() => return Launch::Failed(Some(hash)),
        // A node may have accepted it. Later transactions use the next nonces, and this one is sent until it is mined.
        Err(_) => account.used(nonce),
    }
    Launch::Sent(Sent::new(transaction, signed, true), held)
}

/// Whether a node has a receipt of it.
async fn is_mined(core: &Core, hash: TxHash) -> bool {
    let told = core.account.nodes.each(|node| node.receipt(hash)).await;
    told.into_iter().flatten().flatten().any(|receipt| receipt.mined_in.is_some())
}
