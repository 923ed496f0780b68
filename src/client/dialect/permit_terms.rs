//! `PermitTerms`: one way to pay by a signed permit, and the message that pays in this way.

use std::time::Duration;

use super::{
    echo::{Demanded, Echo},
    signed_quote::SignedDemand,
};
use crate::{
    client::{Budget, JournalEntry, PurchaseId},
    protocol::{
        Address, ChainTime, Quote,
        permit2::{PermitScheme, SignedPermit},
        v2::{PaymentFlow, PaymentOption, TransferMethod},
    },
};

/// One way to pay by a signed permit.
#[derive(Clone, Debug)]
pub(crate) struct PermitTerms {
    /// The terms as a quote; for `upto`, at its maximum.
    pub(crate) quote: Quote,
    /// The only account that may charge the permit, in the scheme `upto`.
    facilitator: Option<Address>,
    valid_for: Duration,
    /// Whether the seller names an intent, so that each of its quotes has another one.
    has_intent: bool,
    echo: Echo,
}

impl PermitTerms {
    /// Reads the offers of `upto`, and of `exact` by Permit2. An `upto` offer without a facilitator is omitted, because
    /// no account could charge it.
    pub(super) fn of(demanded: &Demanded, budget: &Budget, now: ChainTime) -> Vec<Self> {
        let terms = |(option, echo): &(PaymentOption, Echo)| {
            let (demand, facilitator) = demand(option, &demanded.label)?;
            let valid_for = Duration::from_secs(demand.seconds);
            let (has_intent, quote) = (demand.intent.is_some(), demand.quote(budget, now));
            Some(Self { quote, facilitator, valid_for, has_intent, echo: echo.clone() })
        };
        demanded.options.iter().filter_map(terms).collect()
    }

    /// Returns how long the seller wants a permit to be valid.
    pub(crate) const fn valid_for(&self) -> Duration {
        self.valid_for
    }

    /// Returns the account that may charge less than the amount.
    pub(crate) const fn facilitator(&self) -> Option<Address> {
        self.facilitator
    }

    pub(crate) const fn has_intent(&self) -> bool {
        self.has_intent
    }

    const fn scheme(&self) -> PermitScheme {
        match self.facilitator {
            Some(_) => PermitScheme::UpTo,
            None => PermitScheme::Exact,
        }
    }

    /// Returns whether a purchase's permit meets these terms. The amount must be equal, because a permit is for one
    /// amount. The facilitator is not compared: a seller may name another of its facilitator's accounts in each quote,
    /// and takes permits for any of them.
    pub(crate) fn take(&self, entry: &JournalEntry) -> bool {
        let Some(signed) = entry.permit() else { return false };
        let (permit, quote) = (&signed.permit, &self.quote);
        (entry.network, permit.scheme(), permit.amount, permit.to)
            == (quote.network, self.scheme(), quote.amount, quote.recipient)
            && quote.contracts.contains(&permit.token)
    }

    /// Returns the paying message as JSON.
    pub(crate) fn message(&self, signed: &SignedPermit, purchase: PurchaseId) -> String {
        self.echo.message(signed, purchase)
    }
}

/// Returns an option's demand and the account that may charge less; `None` if the option is not paid by permit.
fn demand(option: &PaymentOption, label: &str) -> Option<(SignedDemand, Option<Address>)> {
    let label = label.to_owned();
    match option {
        PaymentOption::UpTo(offer) => {
            let facilitator = offer.facilitator().filter(|facilitator| *facilitator != Address::ZERO)?;
            let demand = SignedDemand {
                network: offer.network,
                token: offer.asset,
                amount: offer.amount,
                recipient: offer.pay_to,
                seconds: offer.max_timeout_seconds,
                intent: offer.intent().ok().flatten(),
                label,
            };
            Some((demand, Some(facilitator)))
        }
        PaymentOption::Exact(offer)
            if offer.transfer_method() == TransferMethod::Permit2
                && matches!(offer.payment_flow(), PaymentFlow::Authorization | PaymentFlow::Upfront) =>
        {
            let demand = SignedDemand {
                network: offer.network,
                token: offer.asset,
                amount: offer.amount,
                recipient: offer.pay_to,
                seconds: offer.max_timeout_seconds,
                intent: offer.intent().ok().flatten(),
                label,
            };
            Some((demand, None))
        }
        PaymentOption::Exact(_) | PaymentOption::Channel(_) | PaymentOption::Other(_) => None,
    }
}
