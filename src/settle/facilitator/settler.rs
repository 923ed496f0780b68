//! `FacilitatorSettler`: decides which facilitator is asked, and when another one may be.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::time::{Instant, timeout};

#[cfg(feature = "wallet")]
use super::keeper::Keeper;
use super::{
    answers::{is_denial, settlement, validity},
    call::FacilitatorAction,
    domains::domain_of,
    endpoint::Endpoint,
    question::Question,
    recent::Recent,
    transport::{Answer, Fault},
};
#[cfg(any(feature = "evm", feature = "wallet"))]
use crate::evm::{eip3009, permit2};
use crate::{
    protocol::{Address, Amount, Network, PaymentId, TokenDomain, permit2::PermitScheme, v2::Supported},
    settle::{
        PermitPayment, PermitSettler, PermitTerms, SettleError, SettleErrorKind, Settlement, Settler, SignedPayment,
        TransactionRecorder, Validity,
    },
};

/// How long an answer to `/supported` is reused, except for health checks.
pub(super) const SUPPORTED_AGE: Duration = Duration::from_secs(300);

/// How old an answer to `/supported` may be as a sign of health.
const HEALTH_AGE: Duration = Duration::from_secs(10);

/// Uses facilitators of the x402 standard, version 2, to check and settle payments.
///
/// A facilitator is trusted as little as possible: it decides about validity, and a seller with a verifier checks its
/// "settled" on the chain. Any doubt about a settlement (a time-out, a redirect, an error without the standard's form,
/// a reason that facilitators also use for sent transactions) is [`Settlement::Unknown`]. Only reason codes of its text
/// are passed on.
///
/// ```no_run
/// # async fn example() -> Result<(), tower_x402::settle::SettleError> {
/// use tower_x402::settle::{FacilitatorSettler, Settler as _};
/// let settler = FacilitatorSettler::builder().url("https://facilitator.example/x402").build()?;
/// settler.health().await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct FacilitatorSettler {
    pub(super) inner: Arc<Inner>,
}

pub(super) struct Inner {
    pub(super) endpoints: Vec<Endpoint>,
    pub(super) domains: Vec<TokenDomain>,
    pub(super) limits: Limits,
    /// The seller's nodes and key for payment channels.
    #[cfg(feature = "wallet")]
    pub(super) keeper: Option<Keeper>,
    /// Which facilitator verified a payment; the same one settles it.
    verified: Recent<usize>,
    /// The payments that were sent and may be settled, with the number of the last attempt. A refusal of such a payment
    /// may be the effect of its own settlement.
    sent: Recent<u64>,
    attempts: AtomicU64,
}

/// Time limits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) verify: Duration,
    pub(super) settle: Duration,
    pub(super) supported: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        let [verify, settle, supported] = [10, 90, 10].map(Duration::from_secs);
        Self { verify, settle, supported }
    }
}

/// Omits the URLs, because they may hold keys.
impl fmt::Debug for FacilitatorSettler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FacilitatorSettler").field("facilitators", &self.inner.endpoints.len()).finish_non_exhaustive()
    }
}

impl FacilitatorSettler {
    pub(super) fn new(inner: Inner) -> Self {
        Self { inner: Arc::new(inner) }
    }
}

impl Inner {
    pub(super) fn new(endpoints: Vec<Endpoint>, domains: Vec<TokenDomain>, limits: Limits) -> Self {
        Self {
            endpoints,
            domains,
            limits,
            #[cfg(feature = "wallet")]
            keeper: None,
            verified: Recent::default(),
            sent: Recent::default(),
            attempts: AtomicU64::default(),
        }
    }

    /// Sets the seller's nodes and key for payment channels.
    #[cfg(feature = "wallet")]
    pub(super) fn keeping(self, keeper: Option<Keeper>) -> Self {
        Self { keeper, ..self }
    }

    /// Returns the facilitators in their order for a payment: the preferred one, then the configured order, with those
    /// that failed recently last.
    pub(super) fn order(&self, preferred: Option<usize>) -> Vec<(usize, &Endpoint)> {
        let mut order: Vec<_> = self.endpoints.iter().enumerate().collect();
        order.sort_by_key(|(index, endpoint)| (Some(*index) != preferred, endpoint.is_resting()));
        order
    }

    /// Returns the answer of the first facilitator that settles in this way on this chain. Fails if none settles on
    /// this chain.
    pub(super) async fn settles(
        &self,
        network: Network,
        way: impl Fn(&Supported) -> bool,
    ) -> Result<Option<Arc<Supported>>, SettleError> {
        let name = network.to_string();
        let (mut known, mut failure) = (false, None);
        for endpoint in &self.endpoints {
            match endpoint.supported(SUPPORTED_AGE, self.limits.supported).await {
                Ok(supported) if way(&supported) => return Ok(Some(supported)),
                Ok(supported) => known |= supported.kinds.iter().any(|kind| kind.network == name),
                Err(error) => failure = Some(error),
            }
        }
        match failure {
            Some(error) => Err(error),
            None if known => Ok(None),
            None => Err(SettleError::new(SettleErrorKind::WrongChain { network })),
        }
    }

    /// Returns the facilitator that verified a payment; otherwise, of several, the one whose account the payer signed.
    async fn preferred(&self, question: &Question) -> Option<usize> {
        let verified_by = self.verified.get(question.id);
        if verified_by.is_some() || self.endpoints.len() == 1 || question.scheme() == PermitScheme::Exact {
            return verified_by;
        }
        for (index, endpoint) in self.endpoints.iter().enumerate() {
            let supported = endpoint.supported(SUPPORTED_AGE, self.limits.supported).await;
            if supported.is_ok_and(|supported| question.names_one_of(&supported.facilitators(question.network))) {
                return Some(index);
            }
        }
        None
    }

    async fn verify(&self, question: &Question) -> Result<Validity, SettleError> {
        let id = question.id;
        let order = self.order(self.preferred(question).await);
        let deadline = Instant::now() + self.limits.verify;
        let mut failure = SettleError::unavailable();
        for (left, (index, endpoint)) in (1..=order.len() as u32).rev().zip(order) {
            let share = deadline.saturating_duration_since(Instant::now()) / left;
            let asked = timeout(share, self.ask(endpoint, share, question)).await;
            let answer = match asked {
                Ok(Asked::Elsewhere) => continue,
                Ok(Asked::Answer(answer)) => Some(answer),
                Ok(Asked::Failed) | Err(_) => None,
            };
            if let Some(validity) = answer.as_ref().and_then(|answer| validity(answer, question)) {
                endpoint.wake();
                return Ok(self.note(id, index, validity));
            }
            if let Some(answer) = answer.filter(|answer| is_denial(answer.status)) {
                failure = SettleError::new(SettleErrorKind::Denied { status: answer.status.as_u16() });
            }
            tracing::warn!(facilitator = index, "a facilitator gave no usable answer about a payment");
            endpoint.rest();
        }
        Err(failure)
    }

    /// Asks one facilitator about a payment, if it settles such payments on that chain.
    async fn ask(&self, endpoint: &Endpoint, share: Duration, question: &Question) -> Asked {
        if self.endpoints.len() > 1 {
            let supported = endpoint.supported(SUPPORTED_AGE, share / 4).await;
            if supported.is_ok_and(|supported| !question.is_for(&supported)) {
                return Asked::Elsewhere;
            }
        }
        let answer = endpoint.transport.send(FacilitatorAction::Verify, Some(question.verify.clone())).await;
        answer.map_or(Asked::Failed, Asked::Answer)
    }

    /// Records a facilitator's answer. After an earlier attempt, a refusal does not prove that the payment failed: the
    /// payment itself may have emptied the payer's account.
    fn note(&self, id: PaymentId, index: usize, validity: Validity) -> Validity {
        match validity {
            Validity::Valid => {
                self.verified.set(id, index);
                Validity::Valid
            }
            Validity::Refused(_) if self.sent.get(id).is_some() => Validity::Used,
            other => other,
        }
    }

    async fn settle(&self, question: &Question) -> Settlement {
        let id = question.id;
        for (index, endpoint) in self.order(self.preferred(question).await) {
            if self.verified.get(id) != Some(index) && !self.can_settle(endpoint, question).await {
                continue;
            }
            // Record it before sending, because the caller may drop the future.
            let attempt = self.attempts.fetch_add(1, Ordering::Relaxed);
            let sent_before = self.sent.set(id, attempt).is_some();
            let settlement =
                match endpoint.transport.send(FacilitatorAction::Settle, Some(question.settle.clone())).await {
                    Ok(answer) => settlement(&answer, question),
                    // From here on, another facilitator might settle the same payment, so none is asked.
                    Err(Fault::Lost) => Settlement::Unknown(None),
                    Err(Fault::NotSent) => {
                        endpoint.rest();
                        if !sent_before {
                            self.sent.forget(id, attempt);
                        }
                        continue;
                    }
                };
            return match settlement {
                // It was sent before, or again meanwhile, and may have been settled by that.
                Settlement::Refused(_) if sent_before || !self.sent.forget(id, attempt) => Settlement::Unknown(None),
                told => told,
            };
        }
        // It may have been sent earlier.
        Settlement::Unknown(None)
    }

    async fn settle_in_time(&self, question: &Question) -> Settlement {
        let settling = timeout(self.limits.settle, self.settle(question)).await;
        let settlement = settling.unwrap_or(Settlement::Unknown(None));
        if let Settlement::Unknown(transaction) = &settlement {
            tracing::warn!(?transaction, "whether a payment is settled is not known");
        }
        settlement
    }

    async fn can_settle(&self, endpoint: &Endpoint, question: &Question) -> bool {
        let supported = endpoint.supported(SUPPORTED_AGE, self.limits.supported).await;
        supported.is_ok_and(|supported| question.is_for(&supported))
    }
}

/// The result of asking one facilitator.
enum Asked {
    Answer(Answer),
    Failed,
    /// It does not settle such payments on that chain.
    Elsewhere,
}

impl Settler for FacilitatorSettler {
    async fn domain(
        &self,
        network: Network,
        token: Address,
        stated: Option<&TokenDomain>,
    ) -> Result<Option<TokenDomain>, SettleError> {
        if self.inner.settles(network, |supported| supported.settles_exact(network)).await?.is_none() {
            return Ok(None);
        }
        domain_of(&self.inner.domains, network, token, stated)
    }

    async fn verify(&self, payment: &SignedPayment) -> Result<Validity, SettleError> {
        match payment.mismatch() {
            Some(reason) => Ok(Validity::Refused(reason)),
            None => self.inner.verify(&Question::of(payment)).await,
        }
    }

    #[cfg(any(feature = "evm", feature = "wallet"))]
    fn is_signed_by_key(&self, payment: &SignedPayment) -> bool {
        let signed = &payment.authorization;
        eip3009::signer(signed, &payment.domain, payment.requirements.network) == Some(signed.authorization.from)
    }

    /// The facilitator sends the transaction, so its hash is known only afterwards.
    async fn settle(&self, payment: &SignedPayment, _recorder: &TransactionRecorder) -> Settlement {
        if let Some(reason) = payment.mismatch() {
            return Settlement::Refused(reason);
        }
        self.inner.settle_in_time(&Question::of(payment)).await
    }

    async fn health(&self) -> Result<(), SettleError> {
        let mut failure = SettleError::unavailable();
        for endpoint in &self.inner.endpoints {
            match endpoint.supported(HEALTH_AGE, self.inner.limits.supported).await {
                Ok(_) => return Ok(()),
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }
}

impl PermitSettler for FacilitatorSettler {
    async fn permit_terms(
        &self,
        network: Network,
        _token: Address,
        scheme: PermitScheme,
    ) -> Result<Option<PermitTerms>, SettleError> {
        let way = |supported: &Supported| match scheme {
            PermitScheme::Exact => supported.settles_exact(network),
            PermitScheme::UpTo => supported.settles_up_to(network) && !supported.facilitators(network).is_empty(),
        };
        let told = self.inner.settles(network, way).await?;
        Ok(told.map(|supported| match scheme {
            PermitScheme::Exact => PermitTerms::default(),
            PermitScheme::UpTo => PermitTerms::new(supported.facilitators(network)),
        }))
    }

    /// The facilitator decides which accounts a witness may name, because it may have more than it lists.
    async fn verify_permit(&self, payment: &PermitPayment) -> Result<Validity, SettleError> {
        match payment.mismatch() {
            Some(reason) => Ok(Validity::Refused(reason)),
            None => self.inner.verify(&Question::of_permit(payment, payment.permit.permit.amount)).await,
        }
    }

    #[cfg(any(feature = "evm", feature = "wallet"))]
    fn is_permit_signed_by_key(&self, payment: &PermitPayment) -> bool {
        permit2::signer(&payment.permit, payment.requirements.network()) == Some(payment.permit.permit.from)
    }

    /// The facilitator sends the transaction, so its hash is known only afterwards.
    async fn settle_permit(
        &self,
        payment: &PermitPayment,
        charge: Amount,
        _recorder: &TransactionRecorder,
    ) -> Settlement {
        if let Some(reason) = payment.mismatch().or_else(|| payment.overcharged(charge)) {
            return Settlement::Refused(reason);
        }
        self.inner.settle_in_time(&Question::of_permit(payment, charge)).await
    }
}

#[cfg(all(test, feature = "wallet"))]
mod tests {
    use alloy::signers::{SignerSync as _, local::PrivateKeySigner};

    use super::*;
    use crate::{
        protocol::{
            Asset,
            v2::{Authorization, PaymentRequirements, SignedAuthorization},
        },
        settle::FacilitatorSettler,
    };

    /// A signature by others in a payer's name must not count against the payer.
    #[test]
    fn a_payers_own_signature_is_told_from_a_forged_one() {
        let settler = FacilitatorSettler::builder().url("https://facilitator.example").build().unwrap();
        let keys = [[1; 32], [2; 32]].map(|key| PrivateKeySigner::from_bytes(&key.into()).unwrap());
        let (seller, price) = (Address::new([3; 20]), Amount::from_base_units(490_000));
        let domain = TokenDomain::usdc_of(Network::BASE).unwrap();
        let authorization =
            Authorization::new(Address::new(keys[0].address().into_array()), [7; 32]).paying(seller, price);
        for (key, own) in keys.iter().zip([true, false]) {
            let digest = eip3009::digest(&authorization, &domain, Network::BASE);
            let signature = format!("{}", key.sign_hash_sync(&digest).unwrap()).parse().unwrap();
            let payment = SignedPayment::new(
                SignedAuthorization::new(authorization.clone(), signature),
                PaymentRequirements::new(&Asset::USDC_BASE, price, seller, 60),
                domain.clone(),
            );
            assert_eq!(settler.is_signed_by_key(&payment), own);
        }
    }
}
