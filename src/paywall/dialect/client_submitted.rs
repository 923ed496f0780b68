//! `Presented`: a redemption, and, if it came in the standard's header, the offer that its payer accepted: the client-submitted family.

use crate::{
    paywall::{
        dialect::{mpp, purchase::Named},
        refusal::{Problem, Rejection},
        seller::{chain::SellingChain, inner::MerchantInner},
    },
    protocol::{
        Address, Amount, IntentId, Network, Proof, Redemption,
        v2::{PaymentPayload, PaymentProof, PaymentRequirements, SchemePayload, TransferMethod},
    },
};

/// A shown transfer, with the intent that it is to pay for.
pub(crate) struct Presented {
    pub(crate) redemption: Redemption,
    /// The entry of the standard's quote that the payer accepted. `None` if the transfer is shown in the crate's own way.
    accepted: Option<PaymentRequirements>,
    /// Whether the merchant offers this way to show transfers.
    offered: bool,
    /// The purchase that its client names, if any.
    pub(crate) purchase: Named,
}

/// Why a payment of the family is not read.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NotRead {
    /// This merchant takes transfers, but not in this header.
    ShownElsewhere,
    /// This merchant takes no transfers.
    SignedOnly,
    NoProof,
}

impl From<NotRead> for Rejection {
    fn from(reason: NotRead) -> Self {
        Self::Problem(match reason {
            NotRead::ShownElsewhere => Problem::takes_no_payment_proofs(),
            NotRead::SignedOnly => Problem::takes_signed_only(),
            NotRead::NoProof => Problem::is_no_payment_proof(),
        })
    }
}

impl From<Redemption> for Presented {
    fn from(redemption: Redemption) -> Self {
        Self { redemption, accepted: None, offered: true, purchase: Ok(None) }
    }
}

impl Presented {
    /// Reads a payment of the family; `None` if it names no intent.
    ///
    /// # Errors
    /// If it does not have the family's form, or this merchant does not take it.
    pub(crate) fn read(merchant: &MerchantInner, payment: &PaymentPayload) -> Result<Option<Self>, NotRead> {
        if !merchant.chains.iter().any(|chain| chain.reader().is_some()) {
            return Err(NotRead::SignedOnly);
        }
        let shown = match (payment.accepted.exact(), &payment.payload) {
            (Some(accepted), SchemePayload::Proof(proof)) => Some((accepted, proof)),
            _ => None,
        };
        // Even if transfers are not offered, a payment that was signed, settled, and bought nothing is redeemed by its payer's signature. A
        // call over MCP has no other place for it.
        if !merchant.client_submitted && shown.is_none_or(|(_, proof)| proof.signature.is_none()) {
            return Err(NotRead::ShownElsewhere);
        }
        let (accepted, proof) = shown.ok_or(NotRead::NoProof)?;
        let intent = accepted.intent().map_err(|_| NotRead::NoProof)?;
        Ok(intent.map(|intent| Self {
            redemption: redemption(intent, accepted.network, proof.clone()),
            accepted: Some(accepted.clone()),
            offered: merchant.client_submitted,
            purchase: Ok(None),
        }))
    }

    /// Returns the same for a purchase of this name.
    pub(crate) fn named(self, purchase: Named) -> Self {
        Self { purchase, ..self }
    }

    /// Returns whether only a bound transfer can be claimed this way: so in the standard's header.
    pub(crate) const fn is_for_bound_only(&self) -> bool {
        self.accepted.is_some()
    }

    /// Returns whether the accepted entry, if there is one, is what this intent was offered with.
    pub(crate) fn is_as_offered(&self, chain: &SellingChain, amount: Amount, recipient: Address) -> bool {
        let Some(accepted) = &self.accepted else { return true };
        if !self.offered {
            // Any entry of the quote will do: the payer's signature is for the intent.
            let terms = (accepted.network, accepted.amount, accepted.pay_to);
            return chain.accepts(accepted.asset) && terms == (chain.network, amount, recipient);
        }
        // How long a proof counts, and how long a quote can be paid, is information and not agreed on: both may have changed since.
        let mut offered = accepted.clone();
        offered.extra = Default::default();
        (offered.network, offered.amount, offered.pay_to) = (chain.network, amount, recipient);
        chain.accepts(accepted.asset)
            && accepted.echoes(&offered.with_client_submitted_transfer().with_intent(&self.redemption.intent))
    }
}

fn redemption(intent: IntentId, network: Network, proof: PaymentProof) -> Redemption {
    let PaymentProof { transaction, signature, secret } = proof;
    Redemption { intent, transaction, network: Some(network), secret, signature }
}

/// Returns whether a payment claims to be made already, by a transfer. A client that may have paid never gets a bill.
pub(crate) fn is_submitted(payment: &PaymentPayload) -> bool {
    let method = payment.accepted.exact().map(PaymentRequirements::transfer_method);
    let shows_transfer = match &payment.payload {
        SchemePayload::Authorization(_) | SchemePayload::Permit(_) | SchemePayload::Channel(_) => false,
        SchemePayload::Proof(_) => true,
        SchemePayload::Other(json) => json.get("txRef").is_some() || json.text("type") == Some(PaymentProof::TYPE),
    };
    method == Some(TransferMethod::TxId) || shows_transfer
}

/// Returns the redemption in a proof of any form.
pub(crate) fn redemption_in(merchant: &MerchantInner, proof: &Proof) -> Option<Redemption> {
    match proof {
        Proof::Redemption(redemption) => Some(redemption.clone()),
        Proof::Mpp(credential) => mpp::redemption(credential),
        Proof::Payment(payment) if is_submitted(payment) => {
            Presented::read(merchant, payment).ok().flatten().map(|presented| presented.redemption)
        }
        _ => None,
    }
}
