//! What the caller learns about a purchase: each step while it runs, and the whole beside the answer.

use std::time::Duration;

use http::StatusCode;

use super::{PaymentMethod, PurchaseId, PurchaseState, Standard};
use crate::protocol::{Address, Amount, ChainTime, Network, ProblemCode, Quote, TxHash, channel::ChannelId};

/// An event, with the purchase that it belongs to. See [`PayLayerBuilder::on_progress`](super::PayLayerBuilder::on_progress).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PurchaseProgress {
    /// The purchase's name in the journal. A call names a new one until it finds one to resume:
    /// [`PurchaseEvent::Resumed`] then says so, and is the first to have its name.
    pub purchase: PurchaseId,
    /// The host that the request goes to, and the port where it is not the usual one.
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
    /// The seller quoted a price that the budget and the payer accept. Of several quotes this is the one that is paid; where none is
    /// accepted, the call ends in an error without this event. The quote's texts come from the seller: show them escaped. A seller that
    /// takes only authorizations need not name an intent; the one in the quote is then made up by the layer.
    Quoted(Box<Quote>),
    /// An earlier purchase of the same request, or a payment that bought nothing yet, continues.
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
        /// The account that is paid.
        recipient: Address,
        /// The amount, in base units.
        amount: Amount,
        /// The decimals of the amount.
        decimals: u8,
        /// The transaction, where it is known before it is sent.
        transaction: Option<TxHash>,
    },
    /// An authorization or a permit is signed and recorded, and is being shown.
    Authorized {
        /// The account that pays.
        payer: Address,
        /// The account that is paid, as it was signed.
        recipient: Address,
        /// The amount, in base units, as it was signed: of a metered answer the maximum.
        amount: Amount,
        /// The decimals of the amount.
        decimals: u8,
        /// The moment before which it can be used.
        valid_before: ChainTime,
    },
    /// The voucher of a channel is signed and recorded, and is being shown; a deposit with it, where the channel held too little.
    Vouched {
        /// The channel.
        channel: ChannelId,
        /// The account that pays.
        payer: Address,
        /// The account that is paid.
        recipient: Address,
        /// What the voucher adds, in base units: the price, or of a metered answer the maximum.
        amount: Amount,
        /// All that the channel was charged before, and the amount.
        total: Amount,
        /// What is deposited, in base units.
        deposit: Option<Amount>,
        /// How long it takes to get the rest of a deposit back without the seller.
        withdraw_delay: Duration,
        /// The decimals of all amounts.
        decimals: u8,
    },
    /// The seller counts another total for the channel, and showed this payer's own voucher for it: an earlier purchase that was given up was charged
    /// after all. Or it asks for less. The client goes on from there, once.
    Corrected {
        /// What was charged so far, in base units.
        charged: Amount,
        /// The decimals of the amount.
        decimals: u8,
    },
    /// The transfer was in no block for long, and one with a higher fee, which can only replace it, is being sent.
    Bumping {
        /// The new transaction, where it is known before it is sent.
        transaction: Option<TxHash>,
    },
    /// The transfer is in a block.
    Confirming {
        /// The transaction.
        transaction: TxHash,
        /// How many blocks confirm it, its own included.
        confirmations: u64,
        /// How many are waited for.
        wanted: u64,
    },
    /// The proof is being sent.
    Redeeming {
        /// The transaction; `None` while an authorization is shown that is not known to be settled.
        transaction: Option<TxHash>,
        /// How often this call has sent it, this time included.
        attempt: u32,
    },
    /// The seller gave a fresh intent for the same payment.
    Renewed,
    /// The seller asks for a proof by the payer, and the payer is asked to sign.
    Signing,
    /// The seller asks to wait, or gave no answer, or one that broke off.
    Waiting {
        /// Its reason, if it gave one.
        code: Option<ProblemCode>,
        /// Until the next attempt.
        pause: Duration,
    },
    /// The answer to a permit or a voucher is there, and the seller's statement of its charge cannot be true: it exceeds the maximum, cannot be
    /// read, is another one than the chain shows, or does not add up. It counts as the maximum, and nothing more is paid to this host in this
    /// process; nor by that channel ever.
    Mischarged {
        /// What was signed, in base units.
        maximum: Amount,
        /// The decimals of the amount.
        decimals: u8,
    },
    /// The answer is there.
    Answered(StatusCode),
}

impl PurchaseEvent {
    /// Returns a name for logs, without any text of the seller.
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
    /// Its state: [`PurchaseState::Answered`]; [`PurchaseState::Unspent`] where the seller answered without confirming that it took
    /// the payment, which is kept for the same request, and for others to
    /// this seller at this price; [`PurchaseState::Redeeming`] where the server failed again and again
    /// without saying what became of the payment, and the same request asks again.
    pub state: PurchaseState,
    /// How it was paid.
    pub paid_by: PaymentMethod,
    /// The standard in whose words an authorization or a permit was shown; `None` for a transfer.
    pub standard: Option<Standard>,
    /// Whether the seller claims success in `PAYMENT-RESPONSE` or `Payment-Receipt`: that it took this very transaction, or, of an authorization, that this was
    /// settled. It is the seller's word; the chain was not asked.
    pub confirmed: bool,
    /// The account that was paid.
    pub recipient: Address,
    /// The chain.
    pub network: Network,
    /// The token; `None` where it was paid elsewhere.
    pub token: Option<Address>,
    /// The account that paid; `None` where it was paid elsewhere.
    pub payer: Option<Address>,
    /// The amount, in base units; of a metered answer (`upto`), the maximum.
    pub amount: Amount,
    /// What the seller says that it charged of the maximum, in base units; `None` where the price was fixed, or nothing was said. A
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
    /// How often this call redeemed.
    pub attempts: u32,
    /// The time that this call took, step by step.
    pub timings: Timings,
}

/// The time that each step of a purchase took.
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
