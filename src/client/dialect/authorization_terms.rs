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
    /// The same in our own words. Where the seller names no intent, one is made up.
    pub(crate) quote: Quote,
    /// The seller's intent: then it also redeems transactions.
    pub(crate) intent: Option<IntentId>,
    requirements: PaymentRequirements,
    envelope: Envelope,
}

/// What a payment repeats of the demand.
#[derive(Clone, Debug)]
enum Envelope {
    /// Chains have names.
    V1(Box<v1::Demand>),
    V2(Echo),
    /// A challenge of MPP, which gives the nonce. `is_named`: whether the seller reads the name of the purchase.
    Mpp {
        demand: Box<mpp::Demand>,
        is_named: bool,
    },
}

impl AuthorizationTerms {
    /// Takes over what `PAYMENT-REQUIRED` says. Offers that settle after the answer come first; unknown schemes, methods
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

    /// Takes over a demand of the standard's first version, if its method is known.
    pub(crate) fn of_v1(demand: v1::Demand, budget: &Budget, now: ChainTime) -> Option<Self> {
        let requirements = Some(&demand.requirements).filter(|requirements| is_known(requirements))?.clone();
        let label = demand.resource.as_ref().and_then(|resource| resource.description.clone()).unwrap_or_default();
        Some(Self::new(requirements, label, Envelope::V1(Box::new(demand)), budget, now))
    }

    /// Takes over a challenge of MPP. If its id is the `intent` that `Pay` names in the same 402, the seller redeems transactions as well.
    /// `is_named`: whether it reads the name of the purchase.
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
        // Decimals and symbol are no part of requirements.
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

    /// For how long the seller wants an authorization to be valid.
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

    /// The challenge's id, and the nonce that it asks for.
    pub(crate) fn challenge(&self) -> Option<(&str, [u8; 32])> {
        match &self.envelope {
            Envelope::Mpp { demand, .. } => Some((&demand.id, demand.nonce())),
            Envelope::V1(_) | Envelope::V2(_) => None,
        }
    }

    /// The latest end of an authorization, where the seller names a moment.
    pub(crate) fn not_after(&self) -> Option<ChainTime> {
        match &self.envelope {
            Envelope::Mpp { demand, .. } => Some(demand.expires),
            Envelope::V1(_) | Envelope::V2(_) => None,
        }
    }

    /// Whether the payment is shown in `Authorization`, which a caller may need for itself.
    pub(crate) fn is_shown_in_authorization(&self) -> bool {
        matches!(&self.envelope, Envelope::Mpp { demand, .. } if !demand.has_own_header)
    }

    /// Whether the seller names the token's own domain, or none.
    pub(crate) fn names(&self, own: &TokenDomain) -> bool {
        let extra = &self.requirements.extra;
        let is = |name, own: &str| extra.get(name).is_none_or(|claimed| claimed.as_str() == Some(own));
        is("name", &own.name) && is("version", &own.version)
    }

    /// Whether they are met by the authorization that was signed for a purchase: to the unit, for an authorization is about one amount.
    /// One of MPP is for its own challenge: under a later one of the same terms the first is shown again.
    pub(crate) fn take(&self, entry: &JournalEntry) -> bool {
        let Some(signed) = entry.authorization() else { return false };
        if (self.standard() == Standard::Mpp) != (entry.standard() == Some(Standard::Mpp)) {
            return false;
        }
        let PaymentRequirements { network, amount, asset, pay_to, .. } = self.requirements;
        let signed_terms = (entry.network, signed.authorization.value, entry.token(), signed.authorization.to);
        (network, amount, Some(asset), pay_to) == signed_terms
    }

    /// Returns the message for the authorization that was signed for a purchase; `None` if that stays as it is.
    pub(crate) fn message_for(&self, entry: &JournalEntry) -> Option<String> {
        let signed = entry.authorization()?;
        let is_its_own = self.challenge().is_none_or(|(_, nonce)| nonce == signed.authorization.nonce);
        is_its_own.then(|| self.message(signed, entry.id))
    }

    /// Returns the paying message as JSON, which [`proof`](super::signed_proof::proof) turns into headers. It names the purchase where the seller reads that.
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

/// Whether the tokens move in a way that is known here.
fn is_known(requirements: &PaymentRequirements) -> bool {
    requirements.transfer_method() == TransferMethod::Eip3009
        && matches!(requirements.payment_flow(), PaymentFlow::Authorization | PaymentFlow::Upfront)
}
