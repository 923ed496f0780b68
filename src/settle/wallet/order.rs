//! `Order`: a signed payment, as the call that settles it.

use alloy::primitives::{B256, keccak256};

use super::{
    reasons::{Method, Reasons},
    trace::Trace,
};
use crate::{
    evm::{
        eip3009, erc1271, permit2,
        wallet::{fees::Fees, node::Call},
    },
    protocol::{Address, Amount, ChainTime, IntentId, PaymentTag},
    settle::{PermitPayment, SignedPayment},
};

/// The gas limit of a transaction that settles one payment, which may include a contract account's check of its
/// signature.
pub(super) const GAS_MAX: u64 = 300_000;

/// The gas limit of a channel transaction, a little below the limit of a transaction (EIP-7825).
pub(super) const CHANNELS_GAS_MAX: u64 = 16_000_000;

/// A payment as the call that settles it. Claims, sweeps and refunds of channels are orders of the settling account
/// itself.
#[derive(Clone, Debug)]
pub(super) struct Order {
    pub(super) payer: Address,
    pub(super) token: Address,
    /// The amount that the call moves, in base units.
    pub(super) value: Amount,
    /// The amount that the payer signed: for `upto`, the maximum.
    pub(super) signed: Amount,
    pub(super) nonce: [u8; 32],
    /// The signature is valid after `valid_after` and before `expires`.
    pub(super) valid_after: ChainTime,
    pub(super) expires: ChainTime,
    pub(super) method: Method,
    /// The trace by which the chain shows that the call has happened.
    pub(super) trace: Trace,
    /// The gas limit of the call.
    pub(super) gas_max: u64,
    /// The contract that is called.
    pub(super) target: Address,
    /// The call data. The quote's tag follows the arguments, where contracts do not look.
    pub(super) input: Vec<u8>,
    /// The hash of what was shown, whatever the charge.
    pub(super) shown: [u8; 32],
    /// The call that asks a contract account whether the signature is its own.
    pub(super) question: Vec<u8>,
    /// Whether the key of the payer's address signed.
    pub(super) is_by_key: bool,
    /// Whether the signature is of an account that is not deployed (ERC-6492).
    pub(super) is_undeployed: bool,
}

impl Order {
    pub(super) fn of(payment: &SignedPayment) -> Self {
        let SignedPayment { authorization: signed, requirements, domain, .. } = payment;
        let (network, authorization) = (requirements.network, &signed.authorization);
        let digest = eip3009::digest(authorization, domain, network);
        let input = tagged(eip3009::transfer(signed, domain, network), requirements.intent().ok().flatten());
        Self {
            payer: authorization.from,
            token: requirements.asset,
            value: authorization.value,
            signed: authorization.value,
            nonce: authorization.nonce,
            valid_after: authorization.valid_after,
            expires: authorization.valid_before,
            method: Method::Authorization,
            trace: Trace::Authorization {
                token: requirements.asset,
                payer: authorization.from,
                nonce: authorization.nonce,
            },
            gas_max: GAS_MAX,
            target: requirements.asset,
            shown: keccak256(&input).0,
            input,
            question: erc1271::is_valid_signature(digest, signed.signature.as_bytes()),
            is_by_key: eip3009::signer(signed, domain, network) == Some(authorization.from),
            is_undeployed: is_undeployed(signed.signature.as_bytes()),
        }
    }

    /// Creates the order of a permit with this charge.
    pub(super) fn of_permit(payment: &PermitPayment, charge: Amount) -> Self {
        let PermitPayment { permit: signed, requirements, allowance, .. } = payment;
        let (network, permit) = (requirements.network(), &signed.permit);
        let call = |charge| {
            let call = permit2::settle(signed, charge, allowance.as_ref(), network);
            tagged(call, requirements.intent().ok().flatten())
        };
        Self {
            payer: permit.from,
            token: permit.token,
            value: charge,
            signed: permit.amount,
            nonce: permit.nonce,
            valid_after: permit.valid_after,
            // It is still valid at its deadline.
            expires: ChainTime::from_unix(permit.deadline.unix().saturating_add(1)),
            method: Method::Permit { sponsored: allowance.is_some() },
            trace: Trace::Permit { payer: permit.from, nonce: permit.nonce },
            gas_max: GAS_MAX,
            target: permit.spender,
            input: call(charge),
            shown: keccak256(call(permit.amount)).0,
            question: erc1271::is_valid_signature(B256::new(permit.digest(network)), signed.signature.as_bytes()),
            is_by_key: permit2::signer(signed, network) == Some(permit.from),
            is_undeployed: is_undeployed(signed.signature.as_bytes()),
        }
    }

    /// Returns the contract that knows whether the nonce is used, and that asks a contract account about its signature.
    pub(super) const fn keeper(&self) -> Address {
        self.trace.keeper()
    }

    /// Returns the standard's refusal reasons for this method.
    pub(super) const fn reasons(&self) -> &'static Reasons {
        Reasons::of(self.method)
    }

    /// Returns the name of what was signed, which can be used once: the contract that keeps the nonces, the payer and
    /// the nonce.
    pub(super) fn name(&self) -> Box<[u8]> {
        [&self.keeper().as_bytes()[..], self.payer.as_bytes(), &self.nonce].concat().into()
    }

    /// Returns the key of this payment in the refusals' memory. The question contains the signed digest, which covers
    /// the domain.
    pub(super) fn digest(&self) -> [u8; 32] {
        keccak256([&self.name(), &self.input[..], &self.question].concat()).0
    }

    /// Returns the settling call from this account.
    pub(super) fn call(&self, from: Address, fees: Option<Fees>) -> Call<'_> {
        Call { from, to: self.target, data: &self.input, gas: self.gas_max, fees }
    }
}

fn tagged(mut call: Vec<u8>, intent: Option<IntentId>) -> Vec<u8> {
    if let Some(intent) = intent {
        call.extend(PaymentTag::of(intent.as_str()).to_call_data());
    }
    call
}

pub(super) fn is_undeployed(signature: &[u8]) -> bool {
    signature.ends_with(&[0x64, 0x92].repeat(16))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Returns an order for an authorization with that nonce, and a call that settles it.
    pub(in crate::settle::wallet) fn order(nonce: usize, call: u8) -> Order {
        let mut word = [0; 32];
        word[..8].copy_from_slice(&nonce.to_be_bytes());
        Order {
            payer: Address::new([1; 20]),
            token: Address::new([3; 20]),
            value: Amount::from_base_units(10),
            signed: Amount::from_base_units(10),
            nonce: word,
            valid_after: ChainTime::default(),
            expires: ChainTime::default(),
            method: Method::Authorization,
            trace: Trace::Authorization { token: Address::new([3; 20]), payer: Address::new([1; 20]), nonce: word },
            gas_max: GAS_MAX,
            target: Address::new([3; 20]),
            input: vec![call],
            shown: [call; 32],
            question: Vec::new(),
            is_by_key: true,
            is_undeployed: false,
        }
    }
}
