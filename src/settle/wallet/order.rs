//! `Order`: a signed payment as the call that settles it.

use alloy::primitives::keccak256;

use crate::{
    evm::{
        eip3009, erc1271,
        wallet::{fees::Fees, node::Call},
    },
    protocol::{Address, PaymentTag, v2::Authorization},
    settle::SignedPayment,
};

/// The most gas that a settling transaction may take: a contract account's own check of its signature is part of it.
pub(super) const GAS_MAX: u64 = 300_000;

/// A payment as the call that settles it.
#[derive(Clone, Debug)]
pub(super) struct Order {
    pub(super) authorization: Authorization,
    pub(super) token: Address,
    /// The call data. The tag of the quote stands behind the arguments, where tokens do not look.
    pub(super) input: Vec<u8>,
    /// The call that asks a contract account whether the signature is its own.
    pub(super) question: Vec<u8>,
    /// Whether the key of the payer's address signed.
    pub(super) is_by_key: bool,
    /// Whether the signature is one of an account that is not deployed (ERC-6492).
    pub(super) is_undeployed: bool,
}

impl Order {
    pub(super) fn of(payment: &SignedPayment) -> Self {
        let SignedPayment { authorization: signed, requirements, domain, .. } = payment;
        let network = requirements.network;
        let mut input = eip3009::transfer(signed, domain, network);
        if let Ok(Some(intent)) = requirements.intent() {
            input.extend(PaymentTag::of(intent.as_str()).to_call_data());
        }
        let (digest, bytes) = (eip3009::digest(&signed.authorization, domain, network), signed.signature.as_bytes());
        Self {
            token: requirements.asset,
            input,
            question: erc1271::is_valid_signature(digest, bytes),
            is_by_key: eip3009::signer(signed, domain, network) == Some(signed.authorization.from),
            is_undeployed: bytes.ends_with(&[0x64, 0x92].repeat(16)),
            authorization: signed.authorization.clone(),
        }
    }

    /// The name of the authorization, which is used once: token, payer and nonce.
    pub(super) fn name(&self) -> Box<[u8]> {
        let Authorization { from, nonce, .. } = &self.authorization;
        [&self.token.as_bytes()[..], from.as_bytes(), nonce].concat().into()
    }

    /// The key of this payment in the memory. The question has the signed digest, which covers the token's domain.
    pub(super) fn digest(&self) -> [u8; 32] {
        keccak256([&self.name(), &self.input[..], &self.question].concat()).0
    }

    /// The call of the token, by the account that settles.
    pub(super) fn call(&self, from: Address, fees: Option<Fees>) -> Call<'_> {
        Call { from, to: self.token, data: &self.input, gas: GAS_MAX, fees }
    }

    /// The call that asks whether the authorization is used.
    pub(super) fn state(&self) -> Vec<u8> {
        eip3009::authorization_state(self.authorization.from, &self.authorization.nonce)
    }
}
