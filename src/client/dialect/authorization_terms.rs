//! `AuthorizationTerms`: one way to pay by a signed authorization, and the message that pays in this way.

use std::{sync::Arc, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::HeaderMap;
use serde_json::{Map, Value, json};

use crate::{
    client::{Budget, JournalEntry, PurchaseId, http::CarriedProof},
    protocol::{
        Asset, ChainTime, IntentId, Quote, TokenDomain,
        headers::{PAYMENT_REQUIRED, PAYMENT_SIGNATURE, X_PAYMENT},
        v1,
        v2::{PaymentFlow, PaymentRequired, PaymentRequirements, SignedAuthorization, TransferMethod},
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
    /// As the seller wrote it: official servers compare it member by member.
    V2 { accepted: Value, resource: Option<Arc<Value>>, extensions: Option<Arc<Value>> },
}

impl AuthorizationTerms {
    /// Takes over what `PAYMENT-REQUIRED` says. Offers that settle after the answer come first; unknown schemes, methods
    /// and flows are omitted.
    pub(crate) fn of_headers(
        headers: &HeaderMap,
        required: PaymentRequired,
        budget: &Budget,
        now: ChainTime,
    ) -> Vec<Self> {
        // The same text, for members that are only repeated.
        let mut written = written(headers).unwrap_or_default();
        // One of each for all ways: either may be nearly as long as the header.
        let (resource, extensions) =
            (written.remove("resource").map(Arc::new), written.remove("extensions").map(Arc::new));
        let Some(Value::Array(accepts)) = written.remove("accepts") else { return Vec::new() };
        let label = required.resource.and_then(|resource| resource.description).unwrap_or_default();
        let mut terms = Vec::new();
        for (option, accepted) in required.accepts.into_iter().zip(accepts) {
            let Some(requirements) = option.exact().filter(|requirements| is_known(requirements)) else { continue };
            let envelope = Envelope::V2 { accepted, resource: resource.clone(), extensions: extensions.clone() };
            terms.push(Self::new(requirements.clone(), label.clone(), envelope, budget, now));
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

    fn new(
        requirements: PaymentRequirements,
        label: String,
        envelope: Envelope,
        budget: &Budget,
        now: ChainTime,
    ) -> Self {
        let PaymentRequirements { network, amount, asset, pay_to, max_timeout_seconds, .. } = requirements;
        let known = budget.asset(network, asset);
        let intent = requirements.intent().ok().flatten();
        let quote = Quote {
            intent: intent.clone().unwrap_or_else(IntentId::random),
            recipient: pay_to,
            network,
            label,
            expiry: now.after(Duration::from_secs(max_timeout_seconds)),
            amount,
            // A token's decimals are no part of the standard's demand: they are the budget's word.
            decimals: known.map_or(budget.decimals(), Asset::decimals),
            symbol: known.map_or_else(String::new, |asset| asset.symbol().to_owned()),
            contracts: vec![asset],
        };
        Self { quote, intent, requirements, envelope }
    }

    /// For how long the seller wants an authorization to be valid.
    pub(crate) const fn valid_for(&self) -> Duration {
        Duration::from_secs(self.requirements.max_timeout_seconds)
    }

    /// Whether the seller names the token's own domain, or none.
    pub(crate) fn names(&self, own: &TokenDomain) -> bool {
        let extra = &self.requirements.extra;
        let is = |name, own: &str| extra.get(name).is_none_or(|claimed| claimed.as_str() == Some(own));
        is("name", &own.name) && is("version", &own.version)
    }

    /// Whether they are met by the authorization that was signed for a purchase: to the unit, for an authorization is about one amount.
    pub(crate) fn take(&self, entry: &JournalEntry) -> bool {
        let Some(signed) = entry.authorization() else { return false };
        let PaymentRequirements { network, amount, asset, pay_to, .. } = self.requirements;
        let signed_terms = (entry.network, signed.authorization.value, entry.token(), signed.authorization.to);
        (network, amount, Some(asset), pay_to) == signed_terms
    }

    /// Returns the message that pays by the authorization of this purchase, if one was signed.
    pub(crate) fn message_of(&self, entry: &JournalEntry) -> Option<String> {
        entry.authorization().map(|signed| self.message(signed, entry.id))
    }

    /// Returns the paying message as JSON, which [`proof`] turns into the header. It names the purchase where the seller reads that.
    pub(crate) fn message(&self, signed: &SignedAuthorization, purchase: PurchaseId) -> String {
        match &self.envelope {
            Envelope::V1(demand) => demand.payment(signed),
            Envelope::V2 { accepted, resource, extensions } => {
                let mut message = json!({"x402Version": 2, "accepted": accepted, "payload": signed});
                for (name, value) in [("resource", resource), ("extensions", extensions)] {
                    if let (Some(value), Some(members)) = (value, message.as_object_mut()) {
                        members.insert(name.to_owned(), Value::clone(value));
                    }
                }
                name_purchase(&mut message, purchase);
                message.to_string()
            }
        }
    }
}

/// Adds the name of the purchase to the extension `payment-identifier`, where the seller declares that: the same name at every try.
fn name_purchase(message: &mut Value, purchase: PurchaseId) {
    let info = message.pointer_mut("/extensions/payment-identifier/info").and_then(Value::as_object_mut);
    if let Some(info) = info {
        info.insert("id".to_owned(), format!("pay_{purchase}").into());
    }
}

/// Whether the tokens move in a way that is known here.
fn is_known(requirements: &PaymentRequirements) -> bool {
    requirements.transfer_method() == TransferMethod::Eip3009
        && matches!(requirements.payment_flow(), PaymentFlow::Authorization | PaymentFlow::Upfront)
}

/// The header's JSON, member by member.
fn written(headers: &HeaderMap) -> Option<Map<String, Value>> {
    let json = crate::protocol::decode_base64(headers.get(PAYMENT_REQUIRED)?.as_bytes())?;
    serde_json::from_slice(&json).ok()
}

/// Returns the header of a message; its name depends on the version.
pub(crate) fn proof(message: &str) -> CarriedProof {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Version {
        x402_version: u64,
    }
    let version = serde_json::from_str(message).map_or(2, |Version { x402_version }| x402_version);
    CarriedProof::in_header(if version == 1 { X_PAYMENT } else { PAYMENT_SIGNATURE }, STANDARD.encode(message))
}
