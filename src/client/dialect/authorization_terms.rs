//! `AuthorizationTerms`: one way to pay by a signed authorization, and the message that pays in this way.

use std::time::Duration;

use super::{
    echo::{Demanded, Echo, name_of},
    signed_quote::SignedDemand,
};
use crate::{
    client::{Budget, JournalEntry, PurchaseId, Standard},
    protocol::{
        Asset, ChainTime, IntentId, Quote, TokenDomain, mpp, v1,
        v2::{PaymentFlow, PaymentRequirements, SignedAuthorization, TransferMethod},
    },
};

/// One way to pay by a signed authorization.
#[derive(Clone, Debug)]
pub(crate) struct AuthorizationTerms {
    /// The terms as a quote. If the seller names no intent, it has a random one.
    pub(crate) quote: Quote,
    /// The seller's intent. A seller that names one also redeems transactions.
    pub(crate) intent: Option<IntentId>,
    requirements: PaymentRequirements,
    envelope: Envelope,
}

/// The parts of the demand that a payment repeats.
#[derive(Clone, Debug)]
enum Envelope {
    /// Version 1 of x402, which names chains by words.
    V1(Box<v1::Demand>),
    V2(Echo),
    /// A challenge of MPP, which determines the nonce. `is_named`: whether the seller reads the purchase's name.
    Mpp {
        demand: Box<mpp::Demand>,
        is_named: bool,
    },
}

impl AuthorizationTerms {
    /// Reads the offers of `PAYMENT-REQUIRED`. Offers that settle after the answer come first. Unknown schemes, methods
    /// and flows are omitted.
    pub(super) fn of(demanded: &Demanded, budget: &Budget, now: ChainTime) -> Vec<Self> {
        let mut terms = Vec::new();
        for (option, echo) in &demanded.options {
            let Some(requirements) = option.exact().filter(|requirements| is_known(requirements)) else { continue };
            let envelope = Envelope::V2(echo.clone());
            terms.push(Self::new(requirements.clone(), demanded.label.clone(), envelope, budget, now));
        }
        terms.sort_by_key(|terms| terms.requirements.payment_flow() != PaymentFlow::Authorization);
        terms
    }

    /// Reads a demand of x402 version 1; returns `None` if its method is unknown.
    pub(crate) fn of_v1(demand: v1::Demand, budget: &Budget, now: ChainTime) -> Option<Self> {
        let requirements = Some(&demand.requirements).filter(|requirements| is_known(requirements))?.clone();
        let label = demand.resource.as_ref().and_then(|resource| resource.description.clone()).unwrap_or_default();
        Some(Self::new(requirements, label, Envelope::V1(Box::new(demand)), budget, now))
    }

    /// Reads a challenge of MPP. If its id is the `intent` that `Pay` names in the same 402, the seller redeems
    /// transactions as well. `is_named`: whether the seller reads the purchase's name.
    pub(crate) fn of_mpp(
        demand: mpp::Demand,
        is_named: bool,
        intent: Option<&IntentId>,
        budget: &Budget,
        now: ChainTime,
    ) -> Self {
        let mpp::Asked { amount, token, network } = demand.asked;
        let (label, expiry) = (demand.description.clone(), demand.expires);
        let seconds = expiry.unix().saturating_sub(now.unix());
        // Requirements contain neither decimals nor symbol.
        let requirements =
            PaymentRequirements::new(&Asset::new(network, token, 0, ""), amount, demand.recipient, seconds);
        let envelope = Envelope::Mpp { demand: Box::new(demand), is_named };
        let mut terms = Self::new(requirements, label, envelope, budget, now);
        terms.quote.expiry = expiry;
        terms.intent = intent.filter(|intent| terms.challenge().is_some_and(|(id, _)| id == intent.as_str())).cloned();
        if let Some(intent) = &terms.intent {
            terms.quote.intent = intent.clone();
        }
        terms
    }

    fn new(
        requirements: PaymentRequirements,
        label: String,
        envelope: Envelope,
        budget: &Budget,
        now: ChainTime,
    ) -> Self {
        let intent = requirements.intent().ok().flatten();
        let demand = SignedDemand {
            network: requirements.network,
            token: requirements.asset,
            amount: requirements.amount,
            recipient: requirements.pay_to,
            seconds: requirements.max_timeout_seconds,
            intent: intent.clone(),
            label,
        };
        let quote = demand.quote(budget, now);
        Self { quote, intent, requirements, envelope }
    }

    /// Returns how long the seller wants an authorization to be valid.
    pub(crate) const fn valid_for(&self) -> Duration {
        Duration::from_secs(self.requirements.max_timeout_seconds)
    }

    pub(crate) const fn standard(&self) -> Standard {
        match self.envelope {
            Envelope::V1(_) => Standard::X402V1,
            Envelope::V2(_) => Standard::X402,
            Envelope::Mpp { .. } => Standard::Mpp,
        }
    }

    /// Returns the challenge's id and the nonce that it requires.
    pub(crate) fn challenge(&self) -> Option<(&str, [u8; 32])> {
        match &self.envelope {
            Envelope::Mpp { demand, .. } => Some((&demand.id, demand.nonce())),
            Envelope::V1(_) | Envelope::V2(_) => None,
        }
    }

    /// Returns the latest end of an authorization, if the seller names a time.
    pub(crate) fn not_after(&self) -> Option<ChainTime> {
        match &self.envelope {
            Envelope::Mpp { demand, .. } => Some(demand.expires),
            Envelope::V1(_) | Envelope::V2(_) => None,
        }
    }

    /// Returns whether the payment travels in `Authorization`, which the caller may need for its own credentials.
    pub(crate) fn is_shown_in_authorization(&self) -> bool {
        matches!(&self.envelope, Envelope::Mpp { demand, .. } if !demand.has_own_header)
    }

    /// Returns whether the seller names the token's own domain, or none.
    pub(crate) fn names(&self, own: &TokenDomain) -> bool {
        let extra = &self.requirements.extra;
        let is = |name, own: &str| extra.get(name).is_none_or(|claimed| claimed.as_str() == Some(own));
        is("name", &own.name) && is("version", &own.version)
    }

    /// Returns whether a purchase's authorization meets these terms. The amount must be equal, because an authorization
    /// is for one amount. An MPP authorization is for its own challenge only; under a later challenge with the same
    /// terms, it is shown unchanged.
    pub(crate) fn take(&self, entry: &JournalEntry) -> bool {
        let Some(signed) = entry.authorization() else { return false };
        if (self.standard() == Standard::Mpp) != (entry.standard() == Some(Standard::Mpp)) {
            return false;
        }
        let PaymentRequirements { network, amount, asset, pay_to, .. } = self.requirements;
        let signed_terms = (entry.network, signed.authorization.value, entry.token(), signed.authorization.to);
        (network, amount, Some(asset), pay_to) == signed_terms
    }

    /// Returns the message for a purchase's authorization; `None` if the earlier message must be used.
    pub(crate) fn message_for(&self, entry: &JournalEntry) -> Option<String> {
        let signed = entry.authorization()?;
        let is_its_own = self.challenge().is_none_or(|(_, nonce)| nonce == signed.authorization.nonce);
        is_its_own.then(|| self.message(signed, entry.id))
    }

    /// Returns the paying message as JSON, which [`proof`](super::signed_proof::proof) turns into headers. It names the
    /// purchase if the seller reads that.
    pub(crate) fn message(&self, signed: &SignedAuthorization, purchase: PurchaseId) -> String {
        match &self.envelope {
            Envelope::V1(demand) => demand.payment(signed),
            Envelope::Mpp { demand, is_named } => {
                demand.message(signed, is_named.then(|| name_of(purchase)).as_deref())
            }
            Envelope::V2(echo) => echo.message(signed, purchase),
        }
    }
}

/// Returns whether the client supports this transfer method and payment flow.
fn is_known(requirements: &PaymentRequirements) -> bool {
    requirements.transfer_method() == TransferMethod::Eip3009
        && matches!(requirements.payment_flow(), PaymentFlow::Authorization | PaymentFlow::Upfront)
}
