//! `ReservedAuthorization`: a reserved, unsettled payment, and its state on the chain. If the chain can be read, it
//! alone decides.

use std::{sync::Arc, time::Duration};

use tokio::time::{Instant, sleep, timeout};

use crate::{
    ledger::Settling,
    paywall::{
        refusal::{ASK_AGAIN, Problem},
        sale::{kept::Shown, opened::Opened, reservation::Records, settle::Settled},
        seller::{
            chain::SellingChain,
            inner::MerchantInner,
            promises::{Account, Promise},
            standard::Standard,
            time_limits::{settler_in_time, verifier_in_time},
        },
        way::authorization::judgement::{Case, Found},
    },
    protocol::{
        Address, Amount, ChainTime, IntentId, Network, PaymentId, ProblemCode, SignedTransfer, Terms, Transfer, TxHash,
        redemption_message,
        v2::{PaymentRequirements, Reason, SettleResponse},
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
/// How much before its quote a payment may seem to have been settled, by the clocks of others.
const SKEW: Duration = Duration::from_secs(120);
/// How long after its time a payment may have been forgotten by the ledger, at the earliest: that keeps it for a day more.
const FORGOTTEN: Duration = Duration::from_secs(12 * 60 * 60);
/// How much before it is sent a transaction may seem to be mined, by the local clock: two blocks of Base.
const EARLY: Duration = Duration::from_secs(4);

/// A payment, and the quote that it names.
pub(crate) struct ShownPayment {
    pub(crate) payment: SignedPayment,
    /// The intent as the client showed it; the payment's name where it showed none.
    pub(crate) intent: IntentId,
    /// Under which its payer can redeem it once it is made, where it names no quote.
    pub(crate) fresh: Option<IntentId>,
    /// Whether it names a quote. Only the payer knows its intent.
    pub(crate) quoted: bool,
    /// Whether that, or without one the present price, covers this request. A payment that was settled for another request does not buy
    /// this one.
    pub(crate) honoured: bool,
}

/// A payment that is reserved, or about to be, and may have been settled before.
pub(crate) struct ReservedAuthorization {
    merchant: Arc<MerchantInner>,
    /// The network on which it is paid.
    chain: Arc<SellingChain>,
    standard: Standard,
    pub(crate) payment: SignedPayment,
    /// Counts against the payer's balance until this ends, once it is reserved.
    promise: Option<Promise>,
    intent: IntentId,
    /// Under which its payer can redeem it once it is made, where it names no quote.
    fresh: Option<IntentId>,
    /// Whether it names a quote.
    quoted: bool,
    /// Whether that, or without one the present price, covers this request.
    honoured: bool,
    /// Whether it is settled before the handler runs.
    first: bool,
    terms: Terms,
    /// It was not settled before, where it names a quote.
    since: ChainTime,
    /// The digest of the request that it pays for.
    request: [u8; 16],
    /// The chain's head when it was reserved.
    head: ChainTime,
    /// From when on a settlement that begins now can be mined.
    from: ChainTime,
    /// Its nonce was unused just before it was reserved.
    unused: bool,
}

impl ReservedAuthorization {
    pub(crate) fn new(
        chain: &Arc<SellingChain>,
        standard: &Standard,
        opened: &Opened<'_>,
        shown: ShownPayment,
        request: [u8; 16],
        head: ChainTime,
    ) -> Self {
        let ShownPayment { payment, intent, fresh, quoted, honoured } = shown;
        let (merchant, chain, standard) = (Arc::clone(&opened.route.merchant), Arc::clone(chain), standard.clone());
        let terms = opened.route.terms(&chain, opened.recipient, opened.terms.amount);
        let since = ChainTime::from_unix(opened.terms.issued.saturating_sub(SKEW.as_secs()));
        let (promise, from, unused, first) = (None, head, false, opened.route.settle_first);
        Self {
            merchant,
            chain,
            standard,
            payment,
            promise,
            intent,
            fresh,
            quoted,
            honoured,
            first,
            terms,
            since,
            request,
            head,
            from,
            unused,
        }
    }

    /// Learns what the clock says of the moment from which on it can be settled: a node may be minutes behind, and know nothing yet of
    /// what a relayer settled for the payer.
    pub(crate) async fn begin(&mut self) {
        let now = verifier_in_time(self.chain.view.horizon()).await.unwrap_or(self.head);
        self.from = self.head.max(ChainTime::from_unix(now.unix().saturating_sub(EARLY.as_secs())));
    }

    /// Checks a payment without a signature by the payer's key before it is reserved: otherwise a used payment, shown
    /// without any signature of its payer, would be held and so be unavailable to the payer. Returns its state on the
    /// chain.
    pub(crate) async fn forged(&mut self) -> Option<Found> {
        if self.standard.settler.is_signed_by_key(&self.payment) {
            return None;
        }
        let state = self.nonce_state().await?;
        self.unused = state == Ok(NonceState::Unused);
        if !matches!(state, Ok(NonceState::Used(_) | NonceState::Spent)) {
            return None;
        }
        match settler_in_time(self.standard.settler.verify(&self.payment)).await {
            Ok(Validity::Refused(reason)) if reason == Reason::INVALID_EXACT_EVM_PAYLOAD_SIGNATURE => {
                Some(self.on_chain(reason).await)
            }
            _ => None,
        }
    }

    /// Whether its payer certainly signed it: by its own key, or because the settler says so. `None` where the settler does not
    /// answer.
    pub(crate) async fn is_proven(&self) -> Option<bool> {
        if self.standard.settler.is_signed_by_key(&self.payment) {
            return Some(true);
        }
        let verified = settler_in_time(self.standard.settler.verify(&self.payment)).await.ok()?;
        Some(verified == Validity::Valid)
    }

    /// Accepts it after the reservation: a sold or held payment does not count against its payer. Tells whether the
    /// payer's unsettled payments are within their limit.
    pub(crate) fn take_on(&mut self) -> bool {
        let account = Account {
            token: self.payment.requirements.asset,
            payer: self.payment.authorization.authorization.from,
            is_signed: self.standard.settler.is_signed_by_key(&self.payment),
        };
        self.promise = self.standard.promises.take_on(account, self.amount());
        self.payment.promised = self.promise.as_ref().map_or(Amount::ZERO, |promise| promise.others);
        self.promise.is_some()
    }

    /// The record that it is about to be settled.
    pub(crate) const fn begun(&self) -> Settling {
        Settling::new(self.request, self.from)
    }

    /// The case to judge if this settlement had begun earlier.
    pub(crate) fn case(&self, begun: Option<&Settling>) -> Case {
        let read = self.is_read();
        // A head that is ahead of the clock may be wrong.
        let now = self.head.min(ChainTime::from_unix(self.merchant.clock.unix()));
        let over = read && self.payment.authorization.authorization.valid_before <= now;
        let end = self.payment.authorization.authorization.valid_before.after(FORGOTTEN);
        let forgotten = !read && end.unix() < self.merchant.clock.unix();
        let Self { quoted, honoured, first, request, from, .. } = *self;
        Case { quoted, honoured, first, read, over, forgotten, request, from, begun: begun.copied() }
    }

    /// Whether anything reads the chain.
    pub(crate) fn is_read(&self) -> bool {
        self.chain.reader().is_some()
    }

    /// The chain's head when it was reserved.
    pub(crate) const fn head(&self) -> ChainTime {
        self.head
    }

    pub(crate) fn payment_id(&self) -> PaymentId {
        let requirements = &self.payment.requirements;
        self.payment.authorization.authorization.payment_id(requirements.network, requirements.asset)
    }

    /// The payment, as it is shown.
    pub(crate) fn signed(&self, now: ChainTime) -> SignedTransfer {
        let requirements = &self.payment.requirements;
        let authorization = &self.payment.authorization.authorization;
        SignedTransfer::of(requirements.network, requirements.asset, authorization, now)
    }

    /// Returns whether it can be settled, or was. Where it is not `payable` now, only the chain is asked.
    pub(crate) async fn check(&self, payable: Result<(), Reason>, begun: Option<Settling>) -> Found {
        let confirmed = begun.filter(|_| self.quoted && !self.is_read()).and_then(|begun| begun.confirmed_by());
        if let Some((transaction, at)) = confirmed {
            return Found::Settled(self.signed(at).with_transaction(transaction).into());
        }
        let recorded = begun.and_then(|begun| begun.transaction);
        if let Some(transfer) = self.settled_in(recorded).await {
            return Found::Settled(transfer.into());
        }
        let reason = match payable {
            Err(reason) => reason,
            Ok(()) => match settler_in_time(self.standard.settler.verify(&self.payment)).await {
                // A settler may lag. From here on, each recorded payment was unused at its recording.
                Ok(Validity::Valid) => match self.nonce_state().await {
                    Some(Ok(NonceState::Used(_) | NonceState::Spent)) => Reason::INVALID_EXACT_EVM_NONCE_ALREADY_USED,
                    _ => return Found::Valid,
                },
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

    /// Its transfer in the transaction that was recorded for it, if that is mined.
    async fn settled_in(&self, recorded: Option<TxHash>) -> Option<Transfer> {
        let (transaction, verifier) = (recorded?, self.chain.reader()?);
        match verifier_in_time(verifier.verify(&self.terms, transaction)).await {
            Ok(Verdict::Paid { transfers, .. }) => self.ours(transfers),
            _ => None,
        }
    }

    /// What the chain says of a payment that cannot be settled for this reason.
    async fn on_chain(&self, reason: Reason) -> Found {
        if self.unused && reason == Reason::INVALID_EXACT_EVM_PAYLOAD_SIGNATURE {
            return Found::Refused(reason);
        }
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
        let Some(verifier) = self.chain.reader() else { return self.believed(reason) };
        match verifier_in_time(verifier.verify(&self.terms, transaction)).await {
            Ok(Verdict::Paid { transfers, .. }) => match self.ours(transfers) {
                Some(transfer) => Found::Settled(transfer.into()),
                None => Found::Spent,
            },
            // It paid another recipient, or less.
            Ok(Verdict::NoTransfer | Verdict::Insufficient { .. }) => Found::Spent,
            Ok(Verdict::NotConfirmed { retry_after }) => Found::Pending(retry_after),
            Ok(Verdict::TooOld) => Found::TooOld,
            Err(_) => Found::Unavailable,
        }
    }

    /// Without a reader of the chain, only the settler's word remains. A nonce that it calls used may have been used
    /// here.
    fn believed(&self, reason: Reason) -> Found {
        if calls_it_used(&reason) { Found::Unavailable } else { Found::Refused(reason) }
    }

    /// Settles it, and waits until the verifier confirms it. Where nothing reads the chain, what the settler confirms is recorded.
    pub(crate) async fn settle(&self, records: &Records) -> Settled {
        let settled = self.settled(records).await;
        if let (false, Settled::Done(paid) | Settled::Named(paid)) = (self.is_read(), &settled)
            && let Some(transaction) = paid.transaction()
        {
            // Where that fails, the sale that follows may still be recorded.
            records.settled_by(transaction, paid.time()).await;
        }
        settled
    }

    async fn settled(&self, records: &Records) -> Settled {
        match timeout(SETTLE, self.standard.settler.settle(&self.payment, &records.sent)).await {
            // In no transaction, nothing is settled that anyone can name.
            Ok(Settlement::Settled(transaction)) if transaction.is_zero() => self.look(None).await,
            Ok(Settlement::Settled(transaction)) => match self.confirm(transaction).await {
                Settled::Done(paid) if paid.transaction() == Some(transaction) => Settled::Named(paid),
                other => other,
            },
            Ok(Settlement::Refused(reason)) => match self.nonce_state().await {
                None if calls_it_used(&reason) => Settled::Unknown(None),
                None | Some(Ok(NonceState::Unused)) => Settled::Refused(reason),
                Some(Ok(NonceState::Spent)) => Settled::Spent,
                Some(Ok(NonceState::Used(transaction))) => self.confirm(transaction).await,
                Some(Err(_)) => Settled::Unknown(None),
            },
            Ok(Settlement::Unknown(transaction)) => {
                self.look(transaction.filter(|transaction| !transaction.is_zero())).await
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
        let Some(verifier) = self.chain.reader() else {
            // The block is unknown. The time of the reservation is later than everything that this ledger has
            // forgotten.
            let now = ChainTime::from_unix(self.merchant.clock.unix().max(self.head.unix()) + 1);
            return Settled::Done(self.signed(now).with_transaction(transaction).into());
        };
        let deadline = Instant::now() + CONFIRM;
        let mut transaction = transaction;
        loop {
            let wait = match verifier_in_time(verifier.verify(&self.terms, transaction)).await {
                Ok(Verdict::Paid { transfers, .. }) => match self.ours(transfers) {
                    Some(transfer) => return Settled::Done(transfer.into()),
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
        let signatures = self.chain.reader()?.signatures()?;
        let authorization = &self.payment.authorization.authorization;
        let asset = self.payment.requirements.asset;
        let asked = signatures.nonce_state(asset, authorization.from, &authorization.nonce, self.since);
        Some(verifier_in_time(asked).await)
    }

    /// Its proof for a client that asks for its sold answer again.
    pub(crate) fn shown(&self) -> Shown {
        shown_by(&self.payment, self.quoted)
    }

    /// What to answer where it is settled, and anybody may show it: its payer can say so by a signature.
    pub(crate) fn to_prove(&self, transaction: TxHash) -> Problem {
        let message = redemption_message(self.network(), transaction, self.fresh.as_ref().unwrap_or(&self.intent));
        let intent = self.fresh.as_ref().map(IntentId::to_string);
        Problem { intent, ..Problem::to_prove(ProblemCode::PaymentBound, message) }
    }

    /// The network on which it is paid.
    pub(crate) fn network(&self) -> Network {
        self.chain.network
    }

    /// The payer.
    pub(crate) fn payer(&self) -> Address {
        self.payment.authorization.authorization.from
    }

    /// Whether it is settled, or will be, is not known: the same header again goes on.
    pub(crate) fn outcome_unknown(&self, transaction: Option<TxHash>) -> Problem {
        Problem {
            settlement: Some(Box::new(self.pending(transaction))),
            detail: Some(
                "Whether the payment is settled is not known yet. Send the same request with the same PAYMENT-SIGNATURE again after Retry-After; do not sign another.",
            ),
            ..Problem::after(ProblemCode::OutcomeUnknown, ASK_AGAIN)
        }
    }

    /// The reply about a payment that was made, or may have been, and has bought nothing.
    pub(crate) fn pending(&self, transaction: Option<TxHash>) -> SettleResponse {
        let payer = self.payment.authorization.authorization.from;
        let pending = SettleResponse::pending(transaction, self.payment.requirements.network);
        pending.with_payer(payer).with_amount(self.amount())
    }

    /// The amount.
    pub(crate) fn amount(&self) -> Amount {
        self.payment.requirements.amount
    }
}

/// Whether this says that the payment was made, perhaps here.
fn calls_it_used(reason: &Reason) -> bool {
    [Reason::INVALID_EXACT_EVM_NONCE_ALREADY_USED, Reason::DUPLICATE_SETTLEMENT].contains(reason)
}

/// What a payment shows of itself. Without a quote it is public once it is settled, and gives no sold answer again.
pub(super) fn shown_by(payment: &SignedPayment, quoted: bool) -> Shown {
    let PaymentRequirements { network, asset, .. } = payment.requirements;
    match quoted {
        true => Shown::Authorization(payment.authorization.authorization.payment_id(network, asset)),
        false => Shown::Public,
    }
}
