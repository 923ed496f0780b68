//! The ways to pay, and what their payer shows to redeem.

use alloy::signers::{SignerSync as _, local::PrivateKeySigner};
use serde_json::{Value, json};
use tower_x402::{
    protocol::{IntentId, Network, PaymentTag, TxHash, redemption_message},
    testing::contracts,
};

use crate::{
    served::market::{Market, PRICE, SELLER, usdc},
    support::authorization::authorization,
};

/// Who pays, and who would rather not. The thief may also be the one who relays an authorization.
pub const PAYER: usize = 0;
pub const THIEF: usize = 1;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Payment {
    /// A plain transfer, by one who shows nothing: a customer of an exchange, for instance.
    Unbound,
    /// A plain transfer, whose payer signs to redeem it.
    Signed,
    /// A transfer with the tag of its intent.
    Tagged,
    /// A transfer by an authorization whose nonce is the tag of its intent.
    Nonce,
}

impl Payment {
    pub const ALL: [Self; 4] = [Self::Unbound, Self::Signed, Self::Tagged, Self::Nonce];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Unbound => "unbound",
            Self::Signed => "unbound, signed for",
            Self::Tagged => "tag",
            Self::Nonce => "nonce",
        }
    }

    /// Pays for that intent; not mined yet.
    pub async fn send(self, market: &Market, intent: &str) -> TxHash {
        let tag = PaymentTag::of(intent);
        let plain = contracts::transfer(SELLER, usdc(PRICE));
        let (sender, call_data) = match self {
            Self::Unbound | Self::Signed => (PAYER, plain),
            Self::Tagged => (PAYER, [&plain[..], &tag.to_call_data()].concat()),
            Self::Nonce => {
                (THIEF, authorization(&market.chain, &key(market, PAYER), SELLER, usdc(PRICE), *tag.as_bytes()))
            }
        };
        market.chain.send(market.buyer(sender), market.chain.usdc(), &call_data).await.unwrap()
    }

    /// What its payer shows beside that intent and the transaction.
    pub fn shown(self, market: &Market, intent: &str, transaction: TxHash) -> Value {
        match self {
            Self::Signed => signature(market, PAYER, intent, transaction),
            _ => json!({}),
        }
    }
}

/// A signature of this account, as it is shown.
pub fn signature(market: &Market, account: usize, intent: &str, transaction: TxHash) -> Value {
    let message = redemption_message(Network::BASE, transaction, &IntentId::new(intent).unwrap());
    let signature = key(market, account).sign_message_sync(message.as_bytes()).unwrap();
    json!({ "paymentSignature": signature.to_string() })
}

fn key(market: &Market, account: usize) -> PrivateKeySigner {
    market.chain.accounts()[account].private_key().parse().unwrap()
}
