//! `ChannelTerms`: one way to pay by the voucher of a channel, and the message that pays in this way.

use std::time::Duration;

use super::{
    echo::{Demanded, Echo},
    signed_quote::SignedDemand,
};
use crate::{
    client::{Budget, JournalEntry, PurchaseId},
    protocol::{
        Address, Amount, ChainTime, Quote, TokenDomain,
        channel::{self, ChannelConfig, ChannelPayload, WITHDRAW_DELAYS},
        v2::{ChannelRequirements, PaymentOption, TransferMethod},
    },
};

/// One way to pay by the voucher of a channel.
#[derive(Clone, Debug)]
pub(crate) struct ChannelTerms {
    /// The terms as a quote; for a metered answer, at its maximum.
    pub(crate) quote: Quote,
    requirements: ChannelRequirements,
    asked: channel::ChannelTerms,
    echo: Echo,
}

impl ChannelTerms {
    /// Reads the offers whose deposits use EIP-3009 or Permit2, and whose delay the contract allows.
    pub(super) fn of(demanded: &Demanded, budget: &Budget, now: ChainTime) -> Vec<Self> {
        let terms = |(option, echo): &(PaymentOption, Echo)| {
            let PaymentOption::Channel(offer) = option else { return None };
            let asked = offer.terms().filter(|asked| WITHDRAW_DELAYS.contains(&asked.withdraw_delay))?;
            if !matches!(offer.transfer_method(), TransferMethod::Eip3009 | TransferMethod::Permit2) {
                return None;
            }
            let demand = SignedDemand {
                network: offer.network,
                token: offer.asset,
                amount: offer.amount,
                recipient: offer.pay_to,
                seconds: offer.max_timeout_seconds,
                intent: offer.intent().ok().flatten(),
                label: demanded.label.clone(),
            };
            let quote = demand.quote(budget, now);
            Some(Self { quote, requirements: offer.clone(), asked, echo: echo.clone() })
        };
        demanded.options.iter().filter_map(terms).collect()
    }

    /// Returns how long the seller wants a deposit to be valid.
    pub(crate) const fn valid_for(&self) -> Duration {
        Duration::from_secs(self.requirements.max_timeout_seconds)
    }

    /// Returns whether the seller names an intent, so that each of its quotes has another one.
    pub(crate) fn has_intent(&self) -> bool {
        self.requirements.intent().is_ok_and(|intent| intent.is_some())
    }

    /// Returns whether deposits are made by Permit2.
    pub(crate) fn is_by_permit2(&self) -> bool {
        self.requirements.transfer_method() == TransferMethod::Permit2
    }

    /// Returns the least deposit that the seller asks for.
    pub(crate) fn min_deposit(&self) -> Amount {
        self.asked.min_deposit.unwrap_or(Amount::ZERO)
    }

    /// Returns how long the seller can keep a deposit without giving an answer.
    pub(crate) fn withdraw_delay(&self) -> Duration {
        Duration::from_secs(self.asked.withdraw_delay.into())
    }

    /// Returns whether the seller names the token's own domain, or none.
    pub(crate) fn names(&self, own: &TokenDomain) -> bool {
        let extra = &self.requirements.extra;
        let is = |name, own: &str| extra.get(name).is_none_or(|claimed| claimed.as_str() == Some(own));
        is("name", &own.name) && is("version", &own.version)
    }

    /// Returns this payer's channel under these terms with this salt.
    pub(crate) fn channel_of(&self, payer: Address, salt: [u8; 32]) -> ChannelConfig {
        let channel::ChannelTerms { receiver_authorizer, withdraw_delay, .. } = self.asked;
        ChannelConfig::new(payer, self.requirements.pay_to, self.requirements.asset)
            .with_receiver_authorizer(receiver_authorizer)
            .with_withdraw_delay(withdraw_delay)
            .with_salt(salt)
    }

    /// Returns whether that channel belongs to this payer and meets these terms.
    pub(crate) fn fits(&self, config: &ChannelConfig, payer: Address) -> bool {
        *config == self.channel_of(payer, config.salt)
    }

    /// Returns whether a purchase's voucher meets these terms. The amount must be equal, because a voucher adds one
    /// amount.
    pub(crate) fn take(&self, entry: &JournalEntry) -> bool {
        let Some(vouched) = entry.vouched() else { return false };
        let config = vouched.config();
        (entry.network, entry.amount) == (self.quote.network, self.quote.amount) && self.fits(config, config.payer)
    }

    /// Returns the paying message as JSON.
    pub(crate) fn message(&self, payload: &ChannelPayload, purchase: PurchaseId) -> String {
        self.echo.message(payload, purchase)
    }
}

/// Returns the message with another payload. The accepted terms and the purchase's name stay.
pub(crate) fn with_payload(message: &str, payload: &ChannelPayload) -> Option<String> {
    let mut written: serde_json::Value = serde_json::from_str(message).ok()?;
    *written.get_mut("payload")? = serde_json::to_value(payload).ok()?;
    Some(written.to_string())
}
