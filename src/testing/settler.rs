//! `ScriptedSettler`: a settler whose payments and failures a test controls.

use std::{
    collections::VecDeque,
    future::pending,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use super::ScriptedVerifier;
use crate::{
    protocol::{
        Address, Amount, Binding, ByPermit, Network, PaymentId, TokenDomain, Transfer, TxHash, permit2::PermitScheme,
        v2::Reason,
    },
    settle::{
        PermitPayment, PermitSettler, PermitTerms, SettleError, Settlement, Settler, SignedPayment,
        TransactionRecorder, Validity,
    },
    verify::NonceState,
};

/// A settler of authorizations and permits, with transfers on a [`ScriptedVerifier`], each in a new block unless
/// scripted otherwise. It ignores signatures. As on a real chain, a nonce can be used once. Clones share one script.
///
/// ```
/// use tower_x402::{
///     protocol::{
///         Address, Amount, Asset, ChainTime, Network, TokenDomain,
///         v2::{Authorization, PaymentRequirements, Reason, SignedAuthorization},
///     },
///     settle::{Settlement, Settler as _, SignedPayment, TransactionRecorder, Validity},
///     testing::{ScriptedSettler, ScriptedVerifier, Settling},
/// };
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let settler = ScriptedSettler::new(ScriptedVerifier::new(ChainTime::from_unix(1_795_280_400)));
/// let (seller, price) = (Address::new([1; 20]), Amount::from_base_units(490_000));
/// let signed = Authorization::new(Address::new([2; 20]), [0x42; 32]).paying(seller, price);
/// let payment = SignedPayment::new(
///     SignedAuthorization::new(signed, "0x00".parse()?),
///     PaymentRequirements::new(&Asset::USDC_BASE, price, seller, 60),
///     TokenDomain::usdc_of(Network::BASE).ok_or("no USDC")?,
/// );
///
/// settler.script([Settling::Refused(Reason::INSUFFICIENT_FUNDS)]);
/// assert_eq!(settler.settle(&payment, &TransactionRecorder::none()).await, Settlement::Refused(Reason::INSUFFICIENT_FUNDS));
/// assert_eq!(settler.verify(&payment).await?, Validity::Valid);
/// assert!(matches!(settler.settle(&payment, &TransactionRecorder::none()).await, Settlement::Settled(_)));
/// assert_eq!(settler.verify(&payment).await?, Validity::Used);
/// assert_eq!((settler.verifications(), settler.settlements()), (2, 2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct ScriptedSettler {
    chain: ScriptedVerifier,
    script: Arc<Mutex<Script>>,
}

/// The outcome of settling a payment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Settling {
    /// It is mined, and reported as settled.
    Settled,
    /// It is mined, and reported as unknown, with its transaction.
    SettledUnsure,
    /// It is mined, and reported as unknown, without its transaction.
    SettledUnheard,
    /// It is mined, and no report ever comes.
    SettledHanging,
    /// It is mined, and reported as refused: a lie.
    SettledDenied(Reason),
    /// Nothing is mined, and it is reported as refused.
    Refused(Reason),
    /// Nothing is mined, and it is reported as unknown.
    Unknown,
    /// It is reported as unknown, and mined by [`ScriptedSettler::release`].
    Held,
    /// Nothing is mined, and no report ever comes.
    Hanging,
    /// Nothing is mined, and it is reported as settled by a transaction that does not exist: a lie.
    Invented,
    /// Nothing is mined, and it is reported as settled by this transaction: a lie.
    Claimed(TxHash),
}

#[derive(Debug, Default)]
struct Script {
    settlings: VecDeque<Settling>,
    always: Option<Settling>,
    held: Vec<Transfer>,
    verify: Option<Result<Validity, SettleError>>,
    verify_hangs: bool,
    domain: Option<Result<Option<TokenDomain>, SettleError>>,
    outage: Option<SettleError>,
    delay: Duration,
    verifications: usize,
    settlements: usize,
}

impl ScriptedSettler {
    /// Creates a settler with transfers on this chain.
    #[must_use]
    pub fn new(chain: ScriptedVerifier) -> Self {
        Self { chain, script: Arc::default() }
    }

    /// Sets the outcomes of the next payments, in order. Later ones are settled.
    pub fn script(&self, settlings: impl IntoIterator<Item = Settling>) {
        self.with(|script| script.settlings.extend(settlings));
    }

    /// Sets the outcome of all payments without a scripted one. `None` settles them.
    pub fn always(&self, settling: impl Into<Option<Settling>>) {
        let settling = settling.into();
        self.with(|script| script.always = settling);
    }

    /// Mines the payments that are [held](Settling::Held), and returns their transactions. One whose nonce was used meanwhile is dropped.
    pub fn release(&self) -> Vec<TxHash> {
        let held = self.with(|script| std::mem::take(&mut script.held));
        held.into_iter().filter_map(|transfer| self.chain.settle(transfer).ok()).collect()
    }

    /// Sets the outcome of [`verify`](Settler::verify). `None` asks the chain whether the nonce is used.
    pub fn answer_verify(&self, outcome: impl Into<Option<Result<Validity, SettleError>>>) {
        let outcome = outcome.into();
        self.with(|script| script.verify = outcome);
    }

    /// Sets whether [`verify`](Settler::verify) is left unanswered.
    pub fn hang_verify(&self, hangs: bool) {
        self.with(|script| script.verify_hangs = hangs);
    }

    /// Sets the outcome of [`domain`](Settler::domain). `None` returns the token's own domain, or else that of the
    /// network's USDC.
    pub fn answer_domain(&self, outcome: impl Into<Option<Result<Option<TokenDomain>, SettleError>>>) {
        let outcome = outcome.into();
        self.with(|script| script.domain = outcome);
    }

    /// Makes everything fail except settlements, which mine nothing and are reported as unknown. `None` ends the
    /// outage.
    pub fn outage(&self, error: impl Into<Option<SettleError>>) {
        let error = error.into();
        self.with(|script| script.outage = error);
    }

    /// Delays every verification and settlement, in tokio's time. They have no effect earlier.
    pub fn delay(&self, delay: Duration) {
        self.with(|script| script.delay = delay);
    }

    /// Returns the number of requests to verify a payment.
    #[must_use]
    pub fn verifications(&self) -> usize {
        self.with(|script| script.verifications)
    }

    /// Returns the number of requests to settle a payment.
    #[must_use]
    pub fn settlements(&self) -> usize {
        self.with(|script| script.settlements)
    }

    fn with<T>(&self, change: impl FnOnce(&mut Script) -> T) -> T {
        change(&mut self.script.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn available(&self) -> Result<(), SettleError> {
        self.with(|script| script.outage.clone().map_or(Ok(()), Err))
    }

    async fn pause(&self) {
        let delay = self.with(|script| script.delay);
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
    }

    /// Mines a payment. If its nonce is used, returns the report of that.
    fn mine(&self, transfer: Transfer) -> Result<TxHash, Settlement> {
        self.chain.settle(transfer).map_err(|used| match used {
            NonceState::Used(transaction) => Settlement::Unknown(Some(transaction)),
            _ => Settlement::Refused(Reason::INVALID_TRANSACTION_STATE),
        })
    }

    /// Mines a payment, and makes another report.
    fn mine_and(&self, transfer: Transfer, report: impl FnOnce(TxHash) -> Settlement) -> Settlement {
        self.mine(transfer).map_or_else(|used| used, report)
    }

    async fn verified(&self, payment: PaymentId) -> Result<Validity, SettleError> {
        self.with(|script| script.verifications += 1);
        self.pause().await;
        if self.with(|script| script.verify_hangs) {
            return pending().await;
        }
        self.available()?;
        self.with(|script| script.verify.clone()).unwrap_or_else(|| {
            Ok(match self.chain.nonce_of(payment) {
                NonceState::Unused => Validity::Valid,
                _ => Validity::Used,
            })
        })
    }

    async fn settled(&self, transfer: Transfer) -> Settlement {
        self.with(|script| script.settlements += 1);
        self.pause().await;
        match self.next_settling() {
            Settling::Settled => self.mine_and(transfer, Settlement::Settled),
            Settling::SettledUnsure => self.mine_and(transfer, |transaction| Settlement::Unknown(Some(transaction))),
            Settling::SettledUnheard => self.mine_and(transfer, |_| Settlement::Unknown(None)),
            Settling::SettledDenied(reason) => self.mine_and(transfer, |_| Settlement::Refused(reason)),
            Settling::SettledHanging => {
                let _ = self.mine(transfer);
                pending().await
            }
            Settling::Refused(reason) => Settlement::Refused(reason),
            Settling::Unknown => Settlement::Unknown(None),
            Settling::Held => {
                self.with(|script| script.held.push(transfer));
                Settlement::Unknown(None)
            }
            Settling::Hanging => pending().await,
            Settling::Invented => Settlement::Settled(self.chain.unused_hash()),
            Settling::Claimed(transaction) => Settlement::Settled(transaction),
        }
    }

    fn next_settling(&self) -> Settling {
        self.with(|script| match script.outage {
            Some(_) => Settling::Unknown,
            None => script.settlings.pop_front().or_else(|| script.always.clone()).unwrap_or(Settling::Settled),
        })
    }
}

impl Settler for ScriptedSettler {
    async fn domain(
        &self,
        network: Network,
        token: Address,
        stated: Option<&TokenDomain>,
    ) -> Result<Option<TokenDomain>, SettleError> {
        self.available()?;
        let known = || TokenDomain::usdc_of(network).filter(|domain| domain.token == token);
        self.with(|script| script.domain.clone()).unwrap_or_else(|| Ok(stated.cloned().or_else(known)))
    }

    async fn verify(&self, payment: &SignedPayment) -> Result<Validity, SettleError> {
        self.verified(transfer_of(payment).payment_id()).await
    }

    async fn settle(&self, payment: &SignedPayment, _recorder: &TransactionRecorder) -> Settlement {
        self.settled(transfer_of(payment)).await
    }

    async fn health(&self) -> Result<(), SettleError> {
        self.available()
    }
}

impl PermitSettler for ScriptedSettler {
    async fn permit_terms(
        &self,
        _network: Network,
        _token: Address,
        _scheme: PermitScheme,
    ) -> Result<Option<PermitTerms>, SettleError> {
        self.available()?;
        Ok(Some(PermitTerms::new([FACILITATOR])))
    }

    async fn verify_permit(&self, payment: &PermitPayment) -> Result<Validity, SettleError> {
        self.verified(payment.permit.permit.payment_id(payment.requirements.network())).await
    }

    async fn settle_permit(
        &self,
        payment: &PermitPayment,
        charge: Amount,
        _recorder: &TransactionRecorder,
    ) -> Settlement {
        let permit = &payment.permit.permit;
        let transfer = Transfer::new(payment.requirements.network(), TxHash::new([0; 32]), 0)
            .with_token(permit.token)
            .with_payer(permit.from)
            .with_recipient(permit.to)
            .with_amount(charge)
            .with_binding(Binding::none().with_permit(ByPermit::Nonce(permit.nonce)));
        self.settled(transfer).await
    }
}

/// The account that settles permits in this script.
const FACILITATOR: Address = Address::new([0xfa; 20]);

/// The transfer that a payment becomes.
fn transfer_of(payment: &SignedPayment) -> Transfer {
    let offered = &payment.requirements;
    let authorization = &payment.authorization.authorization;
    // Transaction and block are set when it is mined.
    Transfer::new(offered.network, TxHash::new([0; 32]), 0)
        .with_token(offered.asset)
        .with_payer(authorization.from)
        .with_recipient(authorization.to)
        .with_amount(authorization.value)
        .with_binding(Binding::none().with_nonce(authorization.nonce))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        protocol::{
            Asset, ChainTime, Terms,
            v2::{Authorization, PaymentRequirements, SignedAuthorization},
        },
        verify::{Signatures as _, Verdict, Verifier as _},
    };

    const SELLER: Address = Address::new([1; 20]);
    const BUYER: Address = Address::new([2; 20]);
    const YEAR: Duration = Duration::from_secs(31_536_000);

    fn price() -> Amount {
        Amount::from_base_units(490_000)
    }

    fn settler() -> ScriptedSettler {
        ScriptedSettler::new(ScriptedVerifier::new(ChainTime::from_unix(1_000_000)))
    }

    fn payment(nonce: u8) -> SignedPayment {
        let authorization = Authorization::new(BUYER, [nonce; 32]).paying(SELLER, price());
        SignedPayment::new(
            SignedAuthorization::new(authorization, "0x00".parse().unwrap()),
            PaymentRequirements::new(&Asset::USDC_BASE, price(), SELLER, 60),
            TokenDomain::usdc_of(Network::BASE).unwrap(),
        )
    }

    async fn nonce(settler: &ScriptedSettler, byte: u8) -> NonceState {
        let token = Asset::USDC_BASE.contract();
        settler.chain.nonce_state(token, BUYER, &[byte; 32], ChainTime::from_unix(0)).await.unwrap()
    }

    #[tokio::test]
    async fn what_is_settled_is_a_payment_by_its_nonce() {
        let settler = settler();
        let Settlement::Settled(transaction) = settler.settle(&payment(7), &TransactionRecorder::none()).await else {
            unreachable!("it settles")
        };
        let day = Duration::from_secs(86_400);
        let terms = Terms::builder(Network::BASE, SELLER, price()).resource("r").assets([Asset::USDC_BASE]);
        let verdict = settler.chain.verify(&terms.max_payment_age(day).build(), transaction).await.unwrap();
        let Verdict::Paid { transfers, .. } = verdict else { unreachable!("it pays") };
        assert_eq!(transfers[0].payment_id(), transfer_of(&payment(7)).payment_id());
        assert_eq!(transfers[0].payer, BUYER);
        assert_eq!(
            settler.settle(&payment(7), &TransactionRecorder::none()).await,
            Settlement::Unknown(Some(transaction)),
            "once"
        );
        assert_eq!(settler.verify(&payment(7)).await, Ok(Validity::Used));
        settler.chain.cancel(Asset::USDC_BASE.contract(), BUYER, [8; 32]);
        assert!(matches!(settler.settle(&payment(8), &TransactionRecorder::none()).await, Settlement::Refused(_)));
    }

    #[tokio::test(start_paused = true)]
    async fn it_does_as_it_is_told() {
        let settler = settler();
        let reason = || Reason::INSUFFICIENT_FUNDS;
        let mined = [Settling::SettledUnsure, Settling::SettledUnheard, Settling::SettledDenied(reason())];
        let not_mined = [Settling::Refused(reason()), Settling::Unknown, Settling::Invented];
        settler.script(mined.into_iter().chain(not_mined));
        let mut seen = Vec::new();
        for byte in 1..=6 {
            seen.push((
                settler.settle(&payment(byte), &TransactionRecorder::none()).await,
                nonce(&settler, byte).await != NonceState::Unused,
            ));
        }
        let refused = Settlement::Refused(reason());
        assert!(matches!(seen[0], (Settlement::Unknown(Some(_)), true)));
        assert_eq!(
            seen[1..5],
            [
                (Settlement::Unknown(None), true),
                (refused.clone(), true),
                (refused, false),
                (Settlement::Unknown(None), false)
            ]
        );
        assert!(matches!(seen[5], (Settlement::Settled(_), false)));

        settler.script([Settling::SettledHanging, Settling::Hanging, Settling::Held]);
        for (byte, used) in [(11, true), (12, false)] {
            assert!(
                tokio::time::timeout(YEAR, settler.settle(&payment(byte), &TransactionRecorder::none())).await.is_err()
            );
            assert_eq!(nonce(&settler, byte).await != NonceState::Unused, used);
        }
        assert_eq!(settler.settle(&payment(13), &TransactionRecorder::none()).await, Settlement::Unknown(None));
        assert_eq!(nonce(&settler, 13).await, NonceState::Unused);
        let released = settler.release();
        assert_eq!((nonce(&settler, 13).await, released.len()), (NonceState::Used(released[0]), 1));
        assert_eq!(settler.settlements(), 9);
    }

    #[tokio::test(start_paused = true)]
    async fn an_outage_and_a_delay_are_everyones() {
        let settler = settler();
        settler.delay(Duration::from_secs(3));
        let started = tokio::time::Instant::now();
        assert_eq!(settler.verify(&payment(1)).await, Ok(Validity::Valid));
        assert_eq!(started.elapsed(), Duration::from_secs(3));
        let error = SettleError::unavailable();
        settler.outage(error.clone());
        assert_eq!(settler.verify(&payment(1)).await, Err(error.clone()));
        assert_eq!(settler.health().await, Err(error));
        assert_eq!(settler.settle(&payment(1), &TransactionRecorder::none()).await, Settlement::Unknown(None));
        assert_eq!(nonce(&settler, 1).await, NonceState::Unused);
        settler.outage(None);
        settler.hang_verify(true);
        assert!(tokio::time::timeout(YEAR, settler.verify(&payment(1))).await.is_err());
        assert_eq!(settler.verifications(), 3);
    }
}
