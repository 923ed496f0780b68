//! `ReservedAuthorization`: a reserved, unsettled payment, and its state on the chain. If the chain can be read, it
//! alone decides.

use std::sync::Arc;

use tokio::time::{Instant, sleep, timeout};

use crate::{
    ledger::Settling,
    paywall::{
        sale::{opened::Opened, reservation::Records, settle::Settled},
        seller::{
            chain::SellingChain,
            promises::{Account, Promise},
            standard::Standard,
            time_limits::{settler_in_time, verifier_in_time},
        },
        way::signed::{
            CONFIRM, LOOK_AGAIN, SETTLE, Signed,
            judgement::Found,
            showing::{Showing, ShownQuote, SignedTerms},
        },
    },
    protocol::{Amount, ChainTime, Payment, PaymentId, SignedTransfer, Terms, Transfer, TxHash, v2::Reason},
    settle::{Settlement, SignedPayment, Validity},
    verify::{NonceState, Verdict, VerifyError},
};

/// A payment that is reserved, or about to be, and may have been settled before.
pub(super) struct ReservedAuthorization {
    showing: Showing,
    standard: Standard,
    payment: Box<SignedPayment>,
    /// Counts against the payer's balance from the reservation on, until the payment is settled or this value is dropped.
    promise: Option<Promise>,
    terms: Terms,
    /// Whether its nonce was unused just before it was reserved.
    unused: bool,
}

impl ReservedAuthorization {
    pub(super) fn new(
        chain: &Arc<SellingChain>,
        standard: &Standard,
        opened: &Opened<'_>,
        (payment, quote): (Box<SignedPayment>, ShownQuote),
        request: [u8; 16],
        head: ChainTime,
    ) -> Self {
        let terms = opened.route.terms(chain, opened.recipient, opened.terms.amount);
        let authorization = &payment.authorization.authorization;
        let (payer, amount, until) = (authorization.from, payment.requirements.amount, authorization.valid_before);
        let signed = SignedTerms { payer, amount, until };
        let showing = Showing::new(chain, opened, (quote, signed), request, head);
        Self { showing, standard: standard.clone(), payment, promise: None, terms, unused: false }
    }

    fn payment_id(&self) -> PaymentId {
        let requirements = &self.payment.requirements;
        self.payment.authorization.authorization.payment_id(requirements.network, requirements.asset)
    }

    /// Returns the payment, as it is shown.
    fn signed(&self, now: ChainTime) -> SignedTransfer {
        let requirements = &self.payment.requirements;
        let authorization = &self.payment.authorization.authorization;
        SignedTransfer::of(requirements.network, requirements.asset, authorization, now)
    }
}

impl Signed for ReservedAuthorization {
    fn showing(&self) -> &Showing {
        &self.showing
    }

    fn showing_mut(&mut self) -> &mut Showing {
        &mut self.showing
    }

    fn payment(&self, shown: ChainTime) -> Payment {
        self.signed(shown).into()
    }

    fn is_metered(&self) -> bool {
        false
    }

    async fn forged(&mut self) -> Option<Found> {
        if self.standard.settler.is_signed_by_key(&self.payment) {
            return None;
        }
        let Ok(state) = self.nonce_state().await? else { return Some(Found::Unavailable) };
        self.unused = state == NonceState::Unused;
        if self.unused {
            return None;
        }
        match settler_in_time(self.standard.settler.verify(&self.payment)).await {
            Ok(Validity::Refused(reason)) if reason == Reason::INVALID_EXACT_EVM_PAYLOAD_SIGNATURE => {
                Some(self.on_chain(reason).await)
            }
            _ => None,
        }
    }

    async fn is_proven(&self) -> Option<bool> {
        if self.standard.settler.is_signed_by_key(&self.payment) {
            return Some(true);
        }
        match settler_in_time(self.standard.settler.verify(&self.payment)).await {
            Ok(verified) => Some(verified == Validity::Valid),
            // A payment that was settled before buys its answer without a purchase's name as well.
            Err(_) => matches!(self.nonce_state().await, Some(Ok(NonceState::Used(_)))).then_some(false),
        }
    }

    fn take_on(&mut self) -> bool {
        let account = Account {
            token: self.payment.requirements.asset,
            payer: self.payment.authorization.authorization.from,
            is_signed: self.standard.settler.is_signed_by_key(&self.payment),
        };
        self.promise = self.standard.promises.take_on(account, self.showing.amount());
        self.payment.promised = self.promise.as_ref().map_or(Amount::ZERO, |promise| promise.others);
        self.promise.is_some()
    }

    fn is_settled(&mut self) {
        self.promise = None;
    }

    async fn check(&self, payable: Result<(), Reason>, begun: Option<Settling>) -> Found {
        let confirmed = begun
            .filter(|_| self.showing.is_quoted() && !self.showing.is_read())
            .and_then(|begun| begun.confirmed_by());
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
                // A settler may lag, so the nonce is checked as well: each payment that is recorded from here on was unused at its
                // recording.
                Ok(Validity::Valid) => match self.nonce_state().await {
                    Some(Ok(NonceState::Used(_) | NonceState::Spent)) => Reason::INVALID_EXACT_EVM_NONCE_ALREADY_USED,
                    None | Some(Ok(NonceState::Unused)) => return Found::Valid,
                    // While the nonce cannot be read, neither can a transaction that settled the payment be found.
                    Some(Err(_)) => return Found::Unavailable,
                },
                Ok(Validity::Used) => Reason::INVALID_EXACT_EVM_NONCE_ALREADY_USED,
                Ok(Validity::Refused(reason)) => reason,
                // Whether it was settled before is known from the chain alone, without a settler.
                Err(error) => {
                    tracing::warn!(%error, "a signed payment could not be checked");
                    match self.nonce_state().await {
                        Some(Ok(NonceState::Used(_) | NonceState::Spent)) => {
                            Reason::INVALID_EXACT_EVM_NONCE_ALREADY_USED
                        }
                        _ => return Found::Unavailable,
                    }
                }
            },
        };
        self.on_chain(reason).await
    }

    /// Settles the payment. Where nothing reads the chain, the settler's confirmation is recorded.
    async fn settle(&self, _: Amount, records: &Records) -> Settled {
        let settled = self.settled(records).await;
        if let (false, Settled::Done(paid) | Settled::Named(paid)) = (self.showing.is_read(), &settled)
            && let Some(transaction) = paid.transaction()
        {
            // If that fails, the sale that follows may still be recorded.
            records.settled_by(transaction, paid.time()).await;
        }
        settled
    }
}

impl ReservedAuthorization {
    /// Returns its transfer in the transaction that was recorded for it, if that is mined.
    async fn settled_in(&self, recorded: Option<TxHash>) -> Option<Transfer> {
        let (transaction, verifier) = (recorded?, self.showing.chain.reader()?);
        match verifier_in_time(verifier.verify(&self.terms, transaction)).await {
            Ok(Verdict::Paid { transfers, .. }) => self.ours(transfers),
            _ => None,
        }
    }

    /// Returns the chain's finding on a payment that cannot be settled for this reason.
    async fn on_chain(&self, reason: Reason) -> Found {
        if self.unused && reason == Reason::INVALID_EXACT_EVM_PAYLOAD_SIGNATURE {
            return Found::Refused(reason);
        }
        let transaction = match self.nonce_state().await {
            None => return self.believed(reason),
            Some(Ok(NonceState::Unused)) if reason == Reason::INVALID_EXACT_EVM_NONCE_ALREADY_USED => {
                // The settler or the nodes are behind.
                return Found::Unavailable;
            }
            Some(Ok(NonceState::Unused)) => return Found::Refused(reason),
            Some(Ok(NonceState::Spent)) => return Found::Spent,
            Some(Ok(NonceState::Used(transaction))) => transaction,
            Some(Err(_)) => return Found::Unavailable,
        };
        let Some(verifier) = self.showing.chain.reader() else { return self.believed(reason) };
        match verifier_in_time(verifier.verify(&self.terms, transaction)).await {
            Ok(Verdict::Paid { transfers, .. }) => {
                let payer = self.payment.authorization.authorization.from;
                let paid_by_payer = transfers.iter().any(|transfer| transfer.payer == payer);
                match self.ours(transfers) {
                    Some(transfer) => Found::Settled(transfer.into()),
                    // A token that logs the nonce differently from USDC may have paid with it: as a transfer, it buys the answer.
                    None if paid_by_payer => Found::PaidOtherwise(transaction),
                    None => Found::Spent,
                }
            }
            // A token that keeps a fee may have paid less than was signed for.
            Ok(Verdict::Insufficient { .. }) => Found::UsedUntold,
            // Its transaction paid another recipient.
            Ok(Verdict::NoTransfer) => Found::Spent,
            Ok(Verdict::NotConfirmed { retry_after }) => Found::Pending(retry_after),
            Ok(Verdict::TooOld) => Found::TooOld,
            Err(_) => Found::Unavailable,
        }
    }

    /// Decides by the settler's word, the only one without a reader of the chain. A nonce that the settler calls used may have been used
    /// here.
    fn believed(&self, reason: Reason) -> Found {
        if calls_it_used(&reason) { Found::Unavailable } else { Found::Refused(reason) }
    }

    async fn settled(&self, records: &Records) -> Settled {
        match timeout(SETTLE, self.standard.settler.settle(&self.payment, &records.sent)).await {
            // The zero hash names no transaction, so no settlement can be found by it.
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

    /// Asks the chain, if the settler does not know.
    async fn look(&self, named: Option<TxHash>) -> Settled {
        match self.nonce_state().await {
            Some(Ok(NonceState::Used(transaction))) => self.confirm(transaction).await,
            Some(Ok(NonceState::Spent)) => Settled::Spent,
            _ => Settled::Unknown(named),
        }
    }

    /// Waits until the verifier sees the payment in this transaction.
    async fn confirm(&self, transaction: TxHash) -> Settled {
        let Some(verifier) = self.showing.chain.reader() else {
            // The block is unknown. The present time is later than everything that this ledger has forgotten.
            return Settled::Done(self.signed(self.showing.now()).with_transaction(transaction).into());
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
                // That was not the payment's transaction: the chain may know the right one.
                match self.nonce_state().await {
                    Some(Ok(NonceState::Used(other))) if other != transaction => transaction = other,
                    Some(Ok(NonceState::Spent)) => return Settled::Spent,
                    _ => return Settled::Unknown(None),
                }
            }
            sleep(wait.unwrap_or_default().min(LOOK_AGAIN)).await;
        }
    }

    /// Returns the transfer that was made from this authorization.
    fn ours(&self, transfers: Vec<Transfer>) -> Option<Transfer> {
        let id = self.payment_id();
        let mut ours = transfers.into_iter().filter(|transfer| transfer.payment_id() == id);
        ours.find(|transfer| self.terms.are_met_by(transfer))
    }

    /// Returns the chain's state of its nonce; `None` where nothing reads the chain.
    async fn nonce_state(&self) -> Option<Result<NonceState, VerifyError>> {
        let signatures = self.showing.chain.reader()?.signatures()?;
        let authorization = &self.payment.authorization.authorization;
        let asset = self.payment.requirements.asset;
        let asked = signatures.nonce_state(asset, authorization.from, &authorization.nonce, self.showing.since);
        Some(verifier_in_time(asked).await)
    }
}

/// Returns whether this reason says that the payment was made, perhaps here.
fn calls_it_used(reason: &Reason) -> bool {
    [Reason::INVALID_EXACT_EVM_NONCE_ALREADY_USED, Reason::DUPLICATE_SETTLEMENT].contains(reason)
}
