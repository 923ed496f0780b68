//! `Unsettled`: a reserved payment that is still to be settled, and what the chain says of it. Nobody's word is believed without the
//! chain's, where that can be read.

use std::{sync::Arc, time::Duration};

use tokio::time::{Instant, sleep, timeout};

use super::{
    merchant::{MerchantInner, Standard},
    opened::Opened,
    problem::Problem,
    time_limits::{settler_in_time, verifier_in_time},
};
use crate::{
    protocol::{
        Amount, ChainTime, IntentId, PaymentId, ProblemCode, Terms, Transfer, TxHash, redemption_message, v2::Reason,
    },
    settle::{Settlement, SignedPayment, Validity},
    verify::{NonceState, Verdict, VerifyError},
};

/// How long a settler may take to settle. Facilitators wait for a block.
const SETTLE: Duration = Duration::from_secs(100);
/// How long a settled payment may take to be confirmed by the verifier.
const CONFIRM: Duration = Duration::from_secs(60);
/// How often it is looked at meanwhile.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// All of it.
pub(crate) const SETTLE_AND_CONFIRM: Duration = Duration::from_secs(180);
/// How much before its quote a payment may seem to have been settled, by the clocks of others.
const SKEW: Duration = Duration::from_secs(120);

/// A payment, and the quote that it names.
pub(crate) struct ShownPayment {
    pub(crate) payment: SignedPayment,
    /// The intent as the client showed it; the payment's name where it showed none.
    pub(crate) intent: IntentId,
    /// Whether it names a quote, whose intent its payer alone knows.
    pub(crate) quoted: bool,
}

/// A payment that is reserved, or about to be, and may have been settled before.
pub(crate) struct Unsettled {
    merchant: Arc<MerchantInner>,
    standard: Standard,
    pub(crate) payment: SignedPayment,
    intent: IntentId,
    /// Whether it names a quote.
    quoted: bool,
    terms: Terms,
    /// It was not settled before, where it names a quote.
    since: ChainTime,
    /// The chain's head when it was reserved.
    head: ChainTime,
}

/// What is known of a payment before the handler runs.
pub(crate) enum Found {
    /// It can be settled.
    Valid,
    /// It is not settled and cannot be.
    Refused(Reason),
    /// Its nonce is used, and not for this: cancelled, or paid to another.
    Spent,
    /// It was settled before, in this transfer.
    Settled(Transfer),
    /// It was settled before, and is not deep enough in the chain.
    Pending(Duration),
    /// It was settled before, longer ago than payments count.
    TooOld,
    /// The settler or the chain did not answer.
    Unavailable,
}

/// What became of a payment.
pub(crate) enum Settled {
    Done(Transfer),
    /// It is not settled by this attempt, as far as anyone can tell.
    Refused(Reason),
    /// Its nonce is used, and not for this: it can never be settled.
    Spent,
    Unknown(Option<TxHash>),
}

impl Unsettled {
    pub(crate) fn new(standard: &Standard, opened: &Opened<'_>, shown: ShownPayment, head: ChainTime) -> Self {
        let ShownPayment { payment, intent, quoted } = shown;
        let (merchant, standard) = (Arc::clone(&opened.route.merchant), standard.clone());
        let terms = opened.route.terms(opened.recipient, opened.terms.amount);
        let since = ChainTime::from_unix(opened.terms.issued.saturating_sub(SKEW.as_secs()));
        Self { merchant, standard, payment, intent, quoted, terms, since, head }
    }

    pub(crate) fn payment_id(&self) -> PaymentId {
        let requirements = &self.payment.requirements;
        self.payment.authorization.authorization.payment_id(requirements.network, requirements.asset)
    }

    /// The transfer that it will be.
    pub(crate) fn transfer(&self, now: ChainTime) -> Transfer {
        let requirements = &self.payment.requirements;
        let authorization = &self.payment.authorization.authorization;
        Transfer::unsettled(requirements.network, requirements.asset, authorization, now)
    }

    /// Whether it can be settled, or was. Where its time is over by `timely`, only the chain is asked.
    pub(crate) async fn check(&self, timely: Result<(), Reason>) -> Found {
        let reason = match timely {
            Err(reason) => reason,
            Ok(()) => match settler_in_time(self.standard.settler.verify(&self.payment)).await {
                Ok(Validity::Valid) => return Found::Valid,
                Ok(Validity::Used) => Reason::INVALID_EXACT_EVM_NONCE_ALREADY_USED,
                Ok(Validity::Refused(reason)) => reason,
                Err(error) => {
                    tracing::warn!(%error, "a signed payment could not be checked");
                    return Found::Unavailable;
                }
            },
        };
        self.on_chain(reason).await
    }

    /// What the chain says of a payment that cannot be settled for this reason.
    async fn on_chain(&self, reason: Reason) -> Found {
        let transaction = match self.nonce_state().await {
            None => return self.believed(reason),
            Some(Ok(NonceState::Unused)) if reason == Reason::INVALID_EXACT_EVM_NONCE_ALREADY_USED => {
                // One of the two is behind.
                return Found::Unavailable;
            }
            Some(Ok(NonceState::Unused)) => return Found::Refused(reason),
            Some(Ok(NonceState::Spent)) => return Found::Spent,
            Some(Ok(NonceState::Used(transaction))) => transaction,
            Some(Err(_)) => return Found::Unavailable,
        };
        match verifier_in_time(self.merchant.verifier.verify(&self.terms, transaction)).await {
            Ok(Verdict::Paid { transfers, .. }) => match self.ours(transfers) {
                Some(transfer) => Found::Settled(transfer),
                None => Found::Spent,
            },
            // It paid somebody else, or less.
            Ok(Verdict::NoTransfer | Verdict::Insufficient { .. }) => Found::Spent,
            Ok(Verdict::NotConfirmed { retry_after }) => Found::Pending(retry_after),
            Ok(Verdict::TooOld) => Found::TooOld,
            Err(_) => Found::Unavailable,
        }
    }

    /// What is left where no one reads the chain: the settler's word. A nonce that it calls used may have been used here.
    fn believed(&self, reason: Reason) -> Found {
        if calls_it_used(&reason) { Found::Unavailable } else { Found::Refused(reason) }
    }

    /// Settles it, and waits until the verifier confirms it.
    pub(crate) async fn settle(&self) -> Settled {
        match timeout(SETTLE, self.standard.settler.settle(&self.payment)).await {
            // In no transaction, nothing is settled that anyone can name.
            Ok(Settlement::Settled(transaction)) if transaction == TxHash::NONE => self.look(None).await,
            Ok(Settlement::Settled(transaction)) => self.confirm(transaction).await,
            Ok(Settlement::Refused(reason)) => match self.nonce_state().await {
                None if calls_it_used(&reason) => Settled::Unknown(None),
                None | Some(Ok(NonceState::Unused)) => Settled::Refused(reason),
                Some(Ok(NonceState::Spent)) => Settled::Spent,
                Some(Ok(NonceState::Used(transaction))) => self.confirm(transaction).await,
                Some(Err(_)) => Settled::Unknown(None),
            },
            Ok(Settlement::Unknown(transaction)) => {
                self.look(transaction.filter(|transaction| *transaction != TxHash::NONE)).await
            }
            Err(_) => self.look(None).await,
        }
    }

    /// Asks the chain, where the settler does not know.
    async fn look(&self, named: Option<TxHash>) -> Settled {
        match self.nonce_state().await {
            Some(Ok(NonceState::Used(transaction))) => self.confirm(transaction).await,
            Some(Ok(NonceState::Spent)) => Settled::Spent,
            _ => Settled::Unknown(named),
        }
    }

    /// Waits until the verifier sees the payment in this transaction.
    async fn confirm(&self, transaction: TxHash) -> Settled {
        if self.merchant.chain().is_none() {
            // Nobody says in which block. As it was reserved: not before anything that this ledger has forgotten.
            let now = ChainTime::from_unix(self.merchant.clock.unix() + 1);
            return Settled::Done(Transfer { transaction, ..self.transfer(now) });
        }
        let deadline = Instant::now() + CONFIRM;
        let mut transaction = transaction;
        loop {
            let wait = match verifier_in_time(self.merchant.verifier.verify(&self.terms, transaction)).await {
                Ok(Verdict::Paid { transfers, .. }) => match self.ours(transfers) {
                    Some(transfer) => return Settled::Done(transfer),
                    None => None,
                },
                Ok(Verdict::NotConfirmed { retry_after }) => Some(retry_after),
                Err(_) => Some(LOOK_AGAIN),
                Ok(_) => None,
            };
            if Instant::now() >= deadline {
                return Settled::Unknown(Some(transaction));
            }
            if wait.is_none() {
                // That was not the transaction: the chain may know the right one.
                match self.nonce_state().await {
                    Some(Ok(NonceState::Used(other))) if other != transaction => transaction = other,
                    Some(Ok(NonceState::Spent)) => return Settled::Spent,
                    _ => return Settled::Unknown(None),
                }
            }
            sleep(wait.unwrap_or_default().min(LOOK_AGAIN)).await;
        }
    }

    /// The transfer that was made from this authorization.
    fn ours(&self, transfers: Vec<Transfer>) -> Option<Transfer> {
        let id = self.payment_id();
        let mut ours = transfers.into_iter().filter(|transfer| transfer.payment_id() == id);
        ours.find(|transfer| self.terms.are_met_by(transfer))
    }

    /// What the chain says of its nonce; `None` where nothing reads the chain.
    async fn nonce_state(&self) -> Option<Result<NonceState, VerifyError>> {
        let verifier = self.merchant.chain()?;
        let authorization = &self.payment.authorization.authorization;
        let asset = self.payment.requirements.asset;
        let asked = verifier.authorization(asset, authorization.from, &authorization.nonce, self.since);
        Some(verifier_in_time(asked).await)
    }

    /// Whether its quote was there when it was settled: that of a thief, who learns of the payment by its settlement, is later.
    pub(crate) fn quoted_before(&self, settled: &Transfer) -> bool {
        self.since <= settled.block_time
    }

    /// Whether it was in the chain already when it was reserved, first of all `since` then where the reservation is resumed. Then it was
    /// public: what is shown is no sign of who pays. Where nothing reads the chain, nothing says so.
    pub(crate) fn was_settled_before(&self, settled: &Transfer, since: Option<ChainTime>) -> bool {
        self.merchant.chain().is_some() && settled.block_time < since.unwrap_or(self.head)
    }

    /// Whether a nonce that was used, and by nothing that was found, was certainly not used to pay here: its quote tells since when to
    /// search.
    pub(crate) const fn searched_long_enough(&self) -> bool {
        self.quoted
    }

    /// What to answer where it is settled, and anybody may show it: its payer can say so by a signature.
    pub(crate) fn to_prove(&self, transaction: TxHash) -> Problem {
        let message = redemption_message(self.merchant.network, transaction, &self.intent);
        Problem::to_prove(ProblemCode::PaymentBound, message)
    }

    /// Whether it can no longer be settled at that head, by whomever.
    pub(crate) fn is_over(&self, head: ChainTime) -> bool {
        self.payment.authorization.authorization.valid_before <= head
    }

    /// What is paid.
    pub(crate) fn amount(&self) -> Amount {
        self.payment.requirements.amount
    }
}

/// Whether this says that the payment was made, perhaps here.
fn calls_it_used(reason: &Reason) -> bool {
    [Reason::INVALID_EXACT_EVM_NONCE_ALREADY_USED, Reason::DUPLICATE_SETTLEMENT].contains(reason)
}
