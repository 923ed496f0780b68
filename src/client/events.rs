//! What the caller learns of a purchase: each step while it runs, and the whole beside the answer.

use std::time::Duration;

use http::StatusCode;

use super::{PurchaseId, PurchaseState};
use crate::protocol::{Address, Amount, Network, ProblemCode, Quote, TxHash};

/// One step, and of which purchase it is. See [`PayLayerBuilder::on_progress`](super::PayLayerBuilder::on_progress).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PurchaseProgress {
    /// The purchase's name in the journal. A call names a new one until it finds one to go on with:
    /// [`PurchaseEvent::Resumed`] then says so, and is the first to have its name.
    pub purchase: PurchaseId,
    /// Whom the request goes to: host, and port where it is not the usual one.
    pub host: String,
    /// Method and path, without the query, which may hold secrets.
    pub request: String,
    /// What is done.
    pub event: PurchaseEvent,
}

/// One step of a purchase, for those who show or log progress. See
/// [`PayLayerBuilder::on_event`](super::PayLayerBuilder::on_event).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PurchaseEvent {
    /// The seller asks for money. What it wrote is its own: show it escaped.
    Quoted(Box<Quote>),
    /// An earlier purchase of the same request, or a payment that bought nothing yet, is gone on with.
    Resumed {
        /// Its name in the journal.
        purchase: PurchaseId,
        /// Its transaction, where it is known.
        transaction: Option<TxHash>,
    },
    /// A transfer is recorded, and is being sent.
    Paying {
        /// The account that pays.
        payer: Address,
        /// The transaction, where it is known before it is sent.
        transaction: Option<TxHash>,
    },
    /// The transfer was in no block for long, and a dearer one that can only take its place is being sent.
    Bumping {
        /// The dearer transaction, where it is known before it is sent.
        transaction: Option<TxHash>,
    },
    /// The transfer is in a block.
    Confirming {
        /// The transaction.
        transaction: TxHash,
        /// How many blocks stand on it, its own included.
        confirmations: u64,
        /// How many are waited for.
        wanted: u64,
    },
    /// The proof is being sent.
    Redeeming {
        /// The transaction.
        transaction: TxHash,
        /// How often this call has sent it, this time included.
        attempt: u32,
    },
    /// The seller gave a fresh intent for the same payment.
    Renewed,
    /// The seller asks to wait, or gave no answer.
    Waiting {
        /// Its reason, if it gave one.
        code: Option<ProblemCode>,
        /// Until the next attempt.
        pause: Duration,
    },
    /// The answer is there.
    Answered(StatusCode),
}

impl PurchaseEvent {
    /// Its name, for logs: what a step carries may be the seller's own words.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Quoted(_) => "quoted",
            Self::Resumed { .. } => "resumed",
            Self::Paying { .. } => "paying",
            Self::Bumping { .. } => "bumping",
            Self::Confirming { .. } => "confirming",
            Self::Redeeming { .. } => "redeeming",
            Self::Renewed => "renewed",
            Self::Waiting { .. } => "waiting",
            Self::Answered(_) => "answered",
        }
    }
}

/// What was bought, in the extensions of the response that was paid for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Purchase {
    /// Its name in the journal.
    pub id: PurchaseId,
    /// Where it stands: [`PurchaseState::Answered`]; [`PurchaseState::Unspent`] where the seller answered without confirming that it took
    /// the payment, which is kept for the same request, and for others to
    /// this seller at this price; [`PurchaseState::Redeeming`] where the server failed again and again
    /// without saying what became of the payment, and the same request asks again.
    pub state: PurchaseState,
    /// Whether the seller confirms in `PAYMENT-RESPONSE` that it took this very transaction.
    pub confirmed: bool,
    /// Who was paid.
    pub recipient: Address,
    /// On which chain.
    pub network: Network,
    /// In which token; `None` where it was paid elsewhere.
    pub token: Option<Address>,
    /// By which account; `None` where it was paid elsewhere.
    pub payer: Option<Address>,
    /// How much, in base units.
    pub amount: Amount,
    /// The decimals of the amount.
    pub decimals: u8,
    /// In which transaction.
    pub transaction: TxHash,
    /// How many transactions were sent for it, of which one was mined.
    pub sent: usize,
    /// How often this call redeemed.
    pub attempts: u32,
    /// How long this call took, step by step.
    pub timings: Timings,
}

/// How long the steps of a purchase took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Timings {
    /// Until the quote was there.
    pub quote: Duration,
    /// Until the transfer was sent: budget, approval, signing and journal included.
    pub pay: Duration,
    /// Until it was in enough blocks.
    pub confirm: Duration,
    /// Until the answer was there.
    pub redeem: Duration,
}
