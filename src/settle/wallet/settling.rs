//! Settles one payment, in a task of its own: tried once more, sent, and watched until it is known what became of it.

use std::{sync::Arc, time::Duration};

use alloy::consensus::TxEip1559;
use futures_util::future::join3;
use tokio::time::timeout;

use super::{
    checks,
    core::{Core, GAS_MAX, Held},
    flights::Flight,
    order::Order,
    trial::{self, Trial},
    watching::{Sent, watch},
};
use crate::{
    evm::wallet::{node::Failure, sending::SendFault},
    protocol::{TxHash, v2::Reason},
    settle::Settlement,
};

/// The longest that nodes are asked for what a transaction needs.
const LIMIT: Duration = Duration::from_secs(30);

/// How often a nonce may turn out to be used by others.
const TRIES: usize = 4;

/// What a transaction may take beyond its estimate. That was made on what waits: a balance that is not nothing there, and is where the
/// transaction is mined, takes so much more to be written.
const GAS_SPARE: u64 = 30_000;

/// That nothing was sent from here, though perhaps by a process before.
const NOTHING_SENT: Settlement = Settlement::Unknown(None);

pub(super) async fn fly(core: Arc<Core>, order: Order, flight: Flight) {
    let outcome = settle(&core, &order, &flight).await;
    flight.land(outcome);
}

async fn settle(core: &Core, order: &Order, flight: &Flight) -> Settlement {
    let draft = match timeout(LIMIT, draft(core, order)).await {
        Ok(Ok(draft)) => draft,
        Ok(Err(Stop::Refused(reason))) => return Settlement::Refused(reason),
        Ok(Err(Stop::Unsure)) | Err(_) => return NOTHING_SENT,
    };
    let mut last = None;
    for _ in 0..TRIES {
        match launch(core, &draft, flight).await {
            Launch::Sent(sent, held) => return watch(core, order, flight, sent, &held).await,
            Launch::NonceUsed(hash) => last = Some(hash),
            // No node took it, or so they say.
            Launch::Failed(hash) => return Settlement::Unknown(hash.or(last)),
        }
    }
    Settlement::Unknown(last)
}

/// Why nothing is sent.
enum Stop {
    /// It would be in vain.
    Refused(Reason),
    /// It cannot be told what it would do; or the nonce is used: by whom, the chain tells.
    Unsure,
}

impl From<Failure> for Stop {
    fn from(_: Failure) -> Self {
        Self::Unsure
    }
}

/// The transaction, all but nonce and signature.
async fn draft(core: &Core, order: &Order) -> Result<TxEip1559, Stop> {
    let (plausible, tried, fees) =
        join3(checks::is_plausible(core, order), trial::tried(core, order), core.account.fees()).await;
    if !plausible? {
        return Err(refused(core, order, Reason::INVALID_EXACT_EVM_PAYLOAD_SIGNATURE).await);
    }
    let gas = match tried? {
        Trial::Settles { gas } => gas.saturating_add(gas / 5).saturating_add(GAS_SPARE).min(GAS_MAX),
        Trial::Used => return Err(Stop::Unsure),
        Trial::Fails(reason) => return Err(refused(core, order, reason).await),
    };
    let fees = fees?;
    let cost = fees.most.saturating_mul(gas.into());
    if fees.most > core.policy.max_fee_per_gas || checks::has_ether(core, cost).await.is_err() {
        return Err(Stop::Unsure);
    }
    Ok(core.draft(order.token, order.input.clone(), gas, fees))
}

/// A refusal has the payer sign anew: it takes every node to say that this authorization is not used.
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

/// Chooses a nonce, signs and sends, while nobody else does.
async fn launch<'a>(core: &'a Core, draft: &TxEip1559, flight: &Flight) -> Launch<'a> {
    let account = &core.account;
    let _turn = account.turn.lock().await;
    let Ok(Ok(nonce)) = account.next_nonce().await else { return Launch::Failed(None) };
    let transaction = TxEip1559 { nonce, ..draft.clone() };
    let Some(signed) = account.sign(transaction.clone()).await else { return Launch::Failed(None) };
    let (hash, held) = (signed.hash, core.hold(nonce));
    flight.sent(hash);
    match account.send(nonce, &signed).await {
        Ok(()) => {}
        Err(SendFault::NonceUsed) => {
            account.used(nonce);
            return Launch::NonceUsed(hash);
        }
        Err(fault) if fault.is_refusal() => return Launch::Failed(Some(hash)),
        // It may have been taken. Whoever comes next has the next nonce, and this one is sent until it is.
        Err(_) => account.used(nonce),
    }
    Launch::Sent(Sent::new(transaction, signed, true), held)
}
