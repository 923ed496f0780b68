//! `Question`: the request to a facilitator about one payment, however it was signed.

use crate::{
    protocol::{
        Address, Amount, Network, PaymentId,
        permit2::PermitScheme,
        v2::{FacilitatorRequest, PaymentPayload, Supported},
    },
    settle::{PermitPayment, SignedPayment},
};

/// The request to a facilitator about one payment.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) id: PaymentId,
    pub(super) network: Network,
    pub(super) payer: Address,
    /// The amount to charge.
    pub(super) charge: Amount,
    /// The account that must send it, if the payer signed one (`upto`).
    facilitator: Option<Address>,
    /// The body of `/verify`, over the whole amount.
    pub(super) verify: String,
    /// The body of `/settle`, over the charge.
    pub(super) settle: String,
}

impl Question {
    pub(super) fn of(payment: &SignedPayment) -> Self {
        let (offered, signed) = (&payment.requirements, &payment.authorization);
        let mut payload = PaymentPayload::new(offered.clone(), signed.clone());
        payload.resource = payment.resource.clone();
        payload.extensions = payment.extensions.clone();
        let body = FacilitatorRequest::new(payload, offered.clone()).to_json();
        Self {
            id: signed.authorization.payment_id(offered.network, offered.asset),
            network: offered.network,
            payer: signed.authorization.from,
            charge: signed.authorization.value,
            facilitator: None,
            verify: body.clone(),
            settle: body,
        }
    }

    /// Creates the request for a permit with this charge.
    pub(super) fn of_permit(payment: &PermitPayment, charge: Amount) -> Self {
        let (offered, signed) = (&payment.requirements, &payment.permit);
        let mut payload = PaymentPayload::new(offered.over(offered.amount()), signed.clone());
        payload.resource = payment.resource.clone();
        payload.extensions = payment.extensions.clone();
        if let Some(allowance) = &payment.allowance {
            payload.extensions = payload.extensions.with_eip2612_permit(allowance);
        }
        let about = |amount| FacilitatorRequest::new(payload.clone(), offered.over(amount)).to_json();
        Self {
            id: signed.permit.payment_id(offered.network()),
            network: offered.network(),
            payer: signed.permit.from,
            charge,
            facilitator: signed.permit.facilitator,
            verify: about(offered.amount()),
            settle: about(charge),
        }
    }

    /// Returns whether a facilitator claims to settle such payments on that chain.
    pub(super) fn is_for(&self, supported: &Supported) -> bool {
        match self.scheme() {
            PermitScheme::Exact => supported.settles_exact(self.network),
            PermitScheme::UpTo => supported.settles_up_to(self.network),
        }
    }

    /// Returns whether the payer's signature names one of these accounts as the sender. Facilitators with several
    /// accounts need not list all of them.
    pub(super) fn names_one_of(&self, accounts: &[Address]) -> bool {
        self.facilitator.is_some_and(|facilitator| accounts.contains(&facilitator))
    }

    /// Returns the scheme; authorizations use `exact`.
    pub(super) const fn scheme(&self) -> PermitScheme {
        match self.facilitator {
            Some(_) => PermitScheme::UpTo,
            None => PermitScheme::Exact,
        }
    }
}
