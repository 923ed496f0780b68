//! `ReservedPermit`: a reserved, unsettled permit, and its state on the chain, which alone decides.
//!
//! No event names a permit. The transaction that settles it is recorded before it is sent, and is checked first. Then the nonce tells
//! whether the permit is used. The transactions between payer and recipient tell by what, if one of them calls a proxy itself.

use std::sync::Arc;

use tokio::time::{Instant, sleep, timeout};

use crate::{
    ledger::Settling,
    paywall::{
        sale::{opened::Opened, reservation::Records, settle::Settled},
        seller::{
            chain::SellingChain,
            permits::Permits,
            promises::{Account, Promise},
            time_limits::{settler_in_time, verifier_in_time},
        },
        way::signed::{
            CONFIRM, LOOK_AGAIN, SETTLE, Signed,
            judgement::Found,
            showing::{Showing, ShownQuote, SignedTerms},
        },
    },
    protocol::{
        Amount, ByPermit, ChainTime, Payment, SignedTransfer, Terms, Transfer, TxHash,
        permit2::{Permit, PermitScheme},
        v2::Reason,
    },
    settle::{PermitPayment, Settlement, Validity},
    verify::{NonceState, Verdict, VerifyError},
};

/// A permit that is reserved, or about to be, and may have been settled before.
pub(super) struct ReservedPermit {
    showing: Showing,
    permits: Permits,
    payment: PermitPayment,
    /// Counts against the payer's balance from the reservation on, until the permit is settled or this value is dropped.
    promise: Option<Promise>,
    /// Met by any amount: only the chain tells how much was charged.
    terms: Terms,
    /// Whether its nonce was unused just before it was reserved.
    unused: bool,
}

/// The state of a transaction that may have settled the permit.
enum Sent {
    Paid(Payment),
    /// It is unknown, pending, or not deep enough.
    Waits(std::time::Duration),
    /// It settled nothing.
    Failed,
    TooOld,
    Unread,
}

impl ReservedPermit {
    pub(super) fn new(
        chain: &Arc<SellingChain>,
        permits: &Permits,
        opened: &Opened<'_>,
        (payment, quote): (PermitPayment, ShownQuote),
        request: [u8; 16],
        head: ChainTime,
    ) -> Self {
        let terms = opened.route.terms(chain, opened.recipient, Amount::from_base_units(1));
        let Permit { from, amount, deadline, .. } = payment.permit.permit;
        // A permit is still valid at its deadline.
        let until = ChainTime::from_unix(deadline.unix().saturating_add(1));
        let signed = SignedTerms { payer: from, amount, until };
        let showing = Showing::new(chain, opened, (quote, signed), request, head);
        Self { showing, permits: permits.clone(), payment, promise: None, terms, unused: false }
    }

    const fn permit(&self) -> &Permit {
        &self.payment.permit.permit
    }

    fn signed(&self, shown: ChainTime) -> SignedTransfer {
        SignedTransfer::of_permit(self.showing.network(), self.permit(), shown)
    }
}

impl Signed for ReservedPermit {
    fn showing(&self) -> &Showing {
        &self.showing
    }

    fn showing_mut(&mut self) -> &mut Showing {
        &mut self.showing
    }

    fn payment(&self, shown: ChainTime) -> Payment {
        Payment::Permit(self.signed(shown))
    }

    fn is_metered(&self) -> bool {
        self.permit().scheme() == PermitScheme::UpTo
    }

    async fn forged(&mut self) -> Option<Found> {
        if self.permits.settler.is_signed_by_key(&self.payment) {
            return None;
        }
        let Ok(state) = self.state().await else { return Some(Found::Unavailable) };
        self.unused = state == NonceState::Unused;
        if self.unused {
            return None;
        }
        match settler_in_time(self.permits.settler.verify(&self.payment)).await {
            Ok(Validity::Refused(reason)) if reason == Reason::INVALID_PERMIT2_SIGNATURE => {
                Some(self.on_chain(reason, None).await)
            }
            _ => None,
        }
    }

    async fn is_proven(&self) -> Option<bool> {
        if self.permits.settler.is_signed_by_key(&self.payment) {
            return Some(true);
        }
        match settler_in_time(self.permits.settler.verify(&self.payment)).await {
            Ok(verified) => Some(verified == Validity::Valid),
            // A permit that was settled before buys its answer without a purchase's name as well.
            Err(_) => matches!(self.state().await, Ok(NonceState::Used(_))).then_some(false),
        }
    }

    fn take_on(&mut self) -> bool {
        let Permit { token, from: payer, .. } = *self.permit();
        let account = Account { token, payer, is_signed: self.permits.settler.is_signed_by_key(&self.payment) };
        self.promise = self.permits.promises.take_on(account, self.showing.amount());
        self.payment.promised = self.promise.as_ref().map_or(Amount::ZERO, |promise| promise.others);
        self.promise.is_some()
    }

    fn is_settled(&mut self) {
        self.promise = None;
    }

    async fn check(&self, payable: Result<(), Reason>, begun: Option<Settling>) -> Found {
        let recorded = match begun.and_then(|begun| begun.transaction) {
            Some(transaction) => match self.became(transaction).await {
                Sent::Paid(paid) => return Found::Settled(paid),
                Sent::TooOld => return Found::TooOld,
                Sent::Unread => return Found::Unavailable,
                sent => Some(sent),
            },
            None => None,
        };
        let reason = match payable {
            Err(reason) => reason,
            Ok(()) => match settler_in_time(self.permits.settler.verify(&self.payment)).await {
                // A settler may lag, so the nonce is checked as well: each permit that is recorded from here on was unused at its
                // recording.
                Ok(Validity::Valid) => match self.state().await {
                    Ok(NonceState::Unused) => return Found::Valid,
                    Ok(NonceState::Used(_) | NonceState::Spent) => Reason::PERMIT2_INVALID_NONCE,
                    Err(_) => return Found::Unavailable,
                },
                Ok(Validity::Used) => Reason::PERMIT2_INVALID_NONCE,
                Ok(Validity::Refused(reason)) => reason,
                // Whether it was settled before is known from the chain alone, without a settler.
                Err(error) => {
                    tracing::warn!(%error, "a permit could not be checked");
                    match self.state().await {
                        Ok(NonceState::Used(_) | NonceState::Spent) => Reason::PERMIT2_INVALID_NONCE,
                        Ok(NonceState::Unused) | Err(_) => return Found::Unavailable,
                    }
                }
            },
        };
        self.on_chain(reason, recorded).await
    }

    async fn settle(&self, charge: Amount, records: &Records) -> Settled {
        // A transaction that was sent for it before may be mined by now, or still be.
        let earlier = match records.earlier {
            Some(transaction) => match self.became(transaction).await {
                Sent::Paid(paid) => return Settled::Done(paid),
                Sent::Failed => None,
                Sent::Waits(_) | Sent::TooOld | Sent::Unread => Some(transaction),
            },
            None => None,
        };
        if charge.is_zero() {
            return match earlier {
                None => Settled::Done(Payment::Permit(self.signed(self.showing.now()).with_amount(charge))),
                Some(transaction) => Settled::Unknown(Some(transaction)),
            };
        }
        match timeout(SETTLE, self.permits.settler.settle(&self.payment, charge, &records.sent)).await {
            // The zero hash names no transaction, so no settlement can be found by it.
            Ok(Settlement::Settled(transaction)) if transaction.is_zero() => self.look(None, earlier).await,
            Ok(Settlement::Settled(transaction)) => match self.confirm(transaction, earlier).await {
                Settled::Done(paid) if paid.transaction() == Some(transaction) => {
                    if paid.amount() != charge {
                        let (paid, asked) = (paid.amount(), charge);
                        tracing::error!(%transaction, %paid, %asked, "a settler charged another amount than it was asked for");
                    }
                    Settled::Named(paid)
                }
                other => other,
            },
            Ok(Settlement::Refused(reason)) => match self.state().await {
                Ok(NonceState::Unused) if earlier.is_none() => Settled::Refused(reason),
                Ok(NonceState::Used(_) | NonceState::Spent) => self.look(None, earlier).await,
                Ok(NonceState::Unused) | Err(_) => Settled::Unknown(earlier),
            },
            Ok(Settlement::Unknown(transaction)) => {
                self.look(transaction.filter(|transaction| !transaction.is_zero()), earlier).await
            }
            Err(_) => self.look(None, earlier).await,
        }
    }
}

impl ReservedPermit {
    /// Returns the state of this transaction.
    async fn became(&self, transaction: TxHash) -> Sent {
        let Some(verifier) = self.showing.chain.reader() else { return Sent::Unread };
        match verifier_in_time(verifier.verify(&self.terms, transaction)).await {
            Ok(Verdict::Paid { transfers, .. }) => match self.ours(transfers) {
                Some((paid, ByPermit::Nonce(_))) => Sent::Paid(paid),
                // Another permit of the same payer may have made the payment. A permit that is unused has paid nothing.
                Some((paid, ByPermit::Untold)) => match self.state().await {
                    Ok(NonceState::Used(_) | NonceState::Spent) => Sent::Paid(paid),
                    Ok(NonceState::Unused) => Sent::Failed,
                    Err(_) => Sent::Unread,
                },
                None => Sent::Failed,
            },
            Ok(Verdict::NotConfirmed { retry_after }) => Sent::Waits(retry_after),
            Ok(Verdict::TooOld) => Sent::TooOld,
            Ok(Verdict::NoTransfer | Verdict::Insufficient { .. }) => Sent::Failed,
            Err(_) => Sent::Unread,
        }
    }

    /// Returns the payment by one of these transfers, and whether the chain names its permit. The transfers are of a transaction that was
    /// sent for it.
    fn ours(&self, transfers: Vec<Transfer>) -> Option<(Payment, ByPermit)> {
        let Permit { from, token, to, amount, nonce, .. } = *self.permit();
        let is_ours = |transfer: &&Transfer| {
            let by_permit = match transfer.binding.permit() {
                Some(ByPermit::Nonce(of)) => of == nonce,
                Some(ByPermit::Untold) => true,
                None => false,
            };
            by_permit && (transfer.payer, transfer.token, transfer.recipient) == (from, token, to)
        };
        let is_charge = |charge: Amount| if self.is_metered() { charge <= amount } else { charge == amount };
        let transfer = transfers.iter().find(is_ours).filter(|transfer| is_charge(transfer.amount))?;
        let paid = self.signed(transfer.block_time).with_amount(transfer.amount);
        Some((Payment::Permit(paid.with_transaction(transfer.transaction)), transfer.binding.permit()?))
    }

    /// Returns the chain's finding on a permit that cannot be settled for this reason. `recorded` is the state of the transaction that was
    /// recorded for it.
    async fn on_chain(&self, reason: Reason, recorded: Option<Sent>) -> Found {
        if self.unused && reason == Reason::INVALID_PERMIT2_SIGNATURE {
            return Found::Refused(reason);
        }
        match (self.state().await, recorded) {
            // The settler or the nodes are behind.
            (Ok(NonceState::Unused), _) if calls_it_used(&reason) => Found::Unavailable,
            (Ok(NonceState::Unused), _) => Found::Refused(reason),
            (Ok(NonceState::Used(transaction)), _) => match self.became(transaction).await {
                Sent::Paid(paid) => Found::Settled(paid),
                Sent::Waits(wait) => Found::Pending(wait),
                Sent::Failed => Found::UsedUntold,
                Sent::TooOld => Found::TooOld,
                Sent::Unread => Found::Unavailable,
            },
            (Ok(NonceState::Spent), Some(Sent::Waits(wait))) => Found::Pending(wait),
            (Ok(NonceState::Spent), _) => Found::UsedUntold,
            (Err(_), _) => Found::Unavailable,
        }
    }

    /// Checks the transactions that may have settled it, if the settler does not know.
    async fn look(&self, named: Option<TxHash>, earlier: Option<TxHash>) -> Settled {
        for transaction in [named, earlier].into_iter().flatten() {
            if let Sent::Paid(paid) = self.became(transaction).await {
                return Settled::Done(paid);
            }
        }
        match self.state().await {
            Ok(NonceState::Used(transaction)) => match self.awaited(transaction).await {
                Some(paid) => Settled::Done(paid),
                None => Settled::Unknown(Some(transaction)),
            },
            _ => Settled::Unknown(named.or(earlier)),
        }
    }

    /// Waits until the verifier sees the payment in this transaction, or in the earlier one.
    async fn confirm(&self, transaction: TxHash, earlier: Option<TxHash>) -> Settled {
        match self.awaited(transaction).await {
            Some(paid) => Settled::Done(paid),
            // The settler's report alone is not believed.
            None => self.look(None, earlier).await,
        }
    }

    /// Returns the payment once the verifier sees it in this transaction; `None` if it is not the right one, or takes too long.
    async fn awaited(&self, transaction: TxHash) -> Option<Payment> {
        let deadline = Instant::now() + CONFIRM;
        loop {
            let wait = match self.became(transaction).await {
                Sent::Paid(paid) => return Some(paid),
                Sent::Waits(wait) => wait.min(LOOK_AGAIN),
                Sent::Unread => LOOK_AGAIN,
                Sent::Failed | Sent::TooOld => return None,
            };
            if Instant::now() >= deadline {
                return None;
            }
            sleep(wait).await;
        }
    }

    /// Returns the chain's state of its nonce.
    async fn state(&self) -> Result<NonceState, VerifyError> {
        let signatures = self.showing.chain.reader().and_then(|reader| reader.signatures());
        let Some(signatures) = signatures else { return Err(VerifyError::unavailable()) };
        verifier_in_time(signatures.permit_state(self.permit(), self.showing.since)).await
    }
}

/// Returns whether this reason says that the nonce is used.
fn calls_it_used(reason: &Reason) -> bool {
    [Reason::PERMIT2_INVALID_NONCE, Reason::DUPLICATE_SETTLEMENT].contains(reason)
}
