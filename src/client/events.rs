//! What the caller learns about a purchase: its steps while it runs, and its summary in the answer's extensions.

use std::time::Duration;

use http::StatusCode;

use super::{PaymentMethod, PurchaseId, PurchaseState, Standard};
use crate::protocol::{Address, Amount, ChainTime, Network, ProblemCode, Quote, TxHash, channel::ChannelId};

/// An event, with the purchase that it belongs to. See [`PayLayerBuilder::on_progress`](super::PayLayerBuilder::on_progress).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PurchaseProgress {
    /// The purchase's name in the journal. Each call starts with a new name; if it resumes a purchase, it switches to
    /// that purchase's name with [`PurchaseEvent::Resumed`].
    pub purchase: PurchaseId,
    /// The request's host, with the port unless it is the default port.
    pub host: String,
    /// Method and path, without the query, which may hold secrets.
    pub request: String,
    /// The event.
    pub event: PurchaseEvent,
}

/// One step of a purchase, to show or log progress. See
/// [`PayLayerBuilder::on_event`](super::PayLayerBuilder::on_event).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PurchaseEvent {
    /// The seller quoted a price that the budget and the payer accept. Of several quotes, this is the one to be paid;
    /// if none is accepted, the call ends in an error without this event. The quote's texts come from the seller:
    /// escape them before you show them. If the seller names no intent, as sellers that take only authorizations may,
    /// the layer makes one up.
    Quoted(Box<Quote>),
    /// The call continues an earlier purchase of the same request, or uses a payment that has bought nothing yet.
    Resumed {
        /// Its name in the journal.
        purchase: PurchaseId,
        /// Its transaction, if known.
        transaction: Option<TxHash>,
    },
    /// The transfer is recorded, and is about to be sent.
    Paying {
        /// The account that pays.
        payer: Address,
        /// The account that is paid.
        recipient: Address,
        /// The amount, in base units.
        amount: Amount,
        /// The decimals of the amount.
        decimals: u8,
        /// The transaction, if known before it is sent.
        transaction: Option<TxHash>,
    },
    /// The authorization or permit is signed and recorded, and is about to be shown.
    Authorized {
        /// The account that pays.
        payer: Address,
        /// The account that is paid, as signed.
        recipient: Address,
        /// The signed amount, in base units; for a metered answer, the maximum.
        amount: Amount,
        /// The decimals of the amount.
        decimals: u8,
        /// The time before which it can be used.
        valid_before: ChainTime,
    },
    /// The voucher of a channel is signed and recorded, and is about to be shown, with a deposit if the channel held
    /// too little.
    Vouched {
        /// The channel.
        channel: ChannelId,
        /// The account that pays.
        payer: Address,
        /// The account that is paid.
        recipient: Address,
        /// What the voucher adds, in base units: the price, or for a metered answer the maximum.
        amount: Amount,
        /// What the channel was charged before, plus `amount`.
        total: Amount,
        /// The deposit, in base units.
        deposit: Option<Amount>,
        /// How long a withdrawal of the rest without the seller takes.
        withdraw_delay: Duration,
        /// The decimals of all amounts.
        decimals: u8,
    },
    /// The seller counts another total for the channel. Either it showed this payer's own voucher, so an abandoned
    /// purchase was charged after all; or its total is lower. The client continues from that total, once.
    Corrected {
        /// What was charged so far, in base units.
        charged: Amount,
        /// The decimals of the amount.
        decimals: u8,
    },
    /// No block contained the transfer for long. A replacement with the same nonce and a higher fee is about to be
    /// sent.
    Bumping {
        /// The new transaction, if known before it is sent.
        transaction: Option<TxHash>,
    },
    /// The transfer is in a block.
    Confirming {
        /// The transaction.
        transaction: TxHash,
        /// How many blocks confirm it, its own included.
        confirmations: u64,
        /// The number of confirmations required.
        wanted: u64,
    },
    /// The proof is being sent.
    Redeeming {
        /// The transaction; `None` for an authorization that is not known to be settled.
        transaction: Option<TxHash>,
        /// How often this call has sent the proof, this time included.
        attempt: u32,
    },
    /// The seller gave a fresh intent for the same payment.
    Renewed,
    /// The seller asks for a proof by the payer, and the payer is asked to sign.
    Signing,
    /// The seller asks to wait, gave no answer, or its answer broke off.
    Waiting {
        /// Its reason, if it gave one.
        code: Option<ProblemCode>,
        /// The pause before the next attempt.
        pause: Duration,
    },
    /// The answer to a permit or a voucher arrived, but the seller's statement of its charge is impossible: it exceeds
    /// the maximum, cannot be read, differs from the chain, or does not add up. It counts as the maximum. This process
    /// pays nothing more to this host, and the channel pays nothing more ever.
    Mischarged {
        /// The signed amount, in base units.
        maximum: Amount,
        /// The decimals of the amount.
        decimals: u8,
    },
    /// The answer arrived.
    Answered(StatusCode),
}

impl PurchaseEvent {
    /// Returns a name for logs, which contains no text from the seller.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Quoted(_) => "quoted",
            Self::Resumed { .. } => "resumed",
            Self::Paying { .. } => "paying",
            Self::Authorized { .. } => "authorized",
            Self::Vouched { .. } => "vouched",
            Self::Corrected { .. } => "corrected",
            Self::Bumping { .. } => "bumping",
            Self::Confirming { .. } => "confirming",
            Self::Redeeming { .. } => "redeeming",
            Self::Renewed => "renewed",
            Self::Signing => "signing",
            Self::Waiting { .. } => "waiting",
            Self::Mischarged { .. } => "mischarged",
            Self::Answered(_) => "answered",
        }
    }
}

/// A purchase, in the extensions of a paid response.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Purchase {
    /// Its name in the journal.
    pub id: PurchaseId,
    /// Its state. [`PurchaseState::Answered`]: the answer was sold. [`PurchaseState::Unspent`]: the seller answered
    /// without confirming the payment, which is kept for the same request, and for others to this seller at this price.
    /// [`PurchaseState::Redeeming`]: the server failed repeatedly without saying what became of the payment; the same
    /// request asks again.
    pub state: PurchaseState,
    /// How it was paid.
    pub paid_by: PaymentMethod,
    /// The standard in which an authorization or a permit was shown; `None` for a transfer.
    pub standard: Option<Standard>,
    /// Whether the seller claims success in `PAYMENT-RESPONSE` or `Payment-Receipt`: that it took this transaction, or
    /// settled this authorization. It is the seller's claim; the chain was not asked.
    pub confirmed: bool,
    /// The account that was paid.
    pub recipient: Address,
    /// The chain.
    pub network: Network,
    /// The token; `None` for a payment made elsewhere.
    pub token: Option<Address>,
    /// The account that paid; `None` for a payment made elsewhere.
    pub payer: Option<Address>,
    /// The amount, in base units; of a metered answer (`upto`), the maximum.
    pub amount: Amount,
    /// The charge that the seller states, in base units; `None` if the price was fixed, or the seller stated none. A
    /// statement that cannot be read, or exceeds the maximum, counts as the maximum.
    pub charged: Option<Amount>,
    /// The decimals of the amount.
    pub decimals: u8,
    /// The transaction; `None` if the seller settled an authorization without naming the transaction. For an
    /// authorization that was answered at once, this is the seller's claim, not proof of a payment: the client has not
    /// asked the chain.
    pub transaction: Option<TxHash>,
    /// The number of transactions that were sent, one of which was mined; 1 for an authorization or a permit.
    pub sent: usize,
    /// The number of times that this call presented the proof.
    pub attempts: u32,
    /// The time that this call took, step by step.
    pub timings: Timings,
}

/// The time that each step of a purchase took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Timings {
    /// Until the quote arrived.
    pub quote: Duration,
    /// Until the transfer was sent, including budget, approval, signing and journal.
    pub pay: Duration,
    /// Until enough blocks confirmed it.
    pub confirm: Duration,
    /// Until the answer arrived.
    pub redeem: Duration,
}
