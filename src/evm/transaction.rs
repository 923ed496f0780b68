//! A transaction in a node's answer, and the part of it that its signature proves.

use alloy::{
    consensus::{Transaction as _, TxEnvelope},
    eips::eip2718::Encodable2718 as _,
    primitives::keccak256,
    rpc::types,
};
#[cfg(feature = "evm")]
use {
    super::json_rpc::Fault,
    alloy::{
        consensus::TxType,
        primitives::{Bytes, U8, U256},
    },
    serde::Deserialize,
};

use crate::protocol::{Address, TxHash};

/// A transaction with a computed hash and a recovered signer, which no node can have invented.
pub(crate) struct SignedTransaction {
    pub(crate) hash: TxHash,
    pub(crate) signer: Address,
    pub(crate) envelope: TxEnvelope,
}

impl SignedTransaction {
    /// Parses a node's JSON. `None` if the transaction type is unknown, or the signature is invalid.
    pub(crate) fn read(json: &str) -> Option<Self> {
        let told: types::Transaction = serde_json::from_str(json).ok()?;
        Self::of(told.inner.into_inner())
    }

    pub(crate) fn of(envelope: TxEnvelope) -> Option<Self> {
        let signer = envelope.signature().recover_address_from_prehash(&envelope.signature_hash()).ok()?;
        // `envelope.hash()` would be the node's claim.
        let hash = TxHash::new(keccak256(envelope.encoded_2718()).0);
        Some(Self { hash, signer: Address::new(signer.into_array()), envelope })
    }

    /// The target account or contract; `None` if the transaction creates a contract.
    pub(crate) fn to(&self) -> Option<Address> {
        self.envelope.to().map(|to| Address::new(to.into_array()))
    }

    pub(crate) fn input(&self) -> &[u8] {
        self.envelope.input()
    }
}

/// A transaction's sender, its target and its call data.
#[cfg(feature = "evm")]
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SentTransaction {
    pub(crate) sender: Address,
    /// `None` if the transaction creates a contract.
    pub(crate) to: Option<Address>,
    pub(crate) input: Vec<u8>,
}

/// The fields of a transaction in a node's answer.
#[cfg(feature = "evm")]
#[derive(Deserialize)]
struct Told {
    hash: TxHash,
    from: Address,
    #[serde(default)]
    to: Option<Address>,
    input: Bytes,
    /// Absent if a node is older than EIP-2718.
    #[serde(default, rename = "type")]
    kind: Option<U8>,
    #[serde(default)]
    r: Option<U256>,
    #[serde(default)]
    s: Option<U256>,
}

#[cfg(feature = "evm")]
impl SentTransaction {
    /// Parses a node's JSON of the transaction of that hash; `None` if the node has none.
    ///
    /// If the type is known and has a signature, hash and signature prove sender and call data. Otherwise the node is
    /// believed, as it is for receipts: for deposits and other types that only their chain knows, and for transactions
    /// that a chain sends in its own name, with a signature of zeros.
    pub(crate) fn read(json: &str, hash: TxHash) -> Result<Option<Self>, Fault> {
        let told: Option<Told> = serde_json::from_str(json).map_err(|_| Fault::Answer)?;
        let Some(told) = told else { return Ok(None) };
        if told.hash != hash {
            return Err(Fault::Answer);
        }
        if !told.is_signed() {
            return Ok(Some(Self { sender: told.from, to: told.to, input: told.input.to_vec() }));
        }
        let signed = SignedTransaction::read(json).filter(|signed| signed.hash == hash && signed.signer == told.from);
        let signed = signed.ok_or(Fault::Answer)?;
        Ok(Some(Self { sender: signed.signer, to: signed.to(), input: signed.input().to_vec() }))
    }
}

#[cfg(feature = "evm")]
impl Told {
    fn is_signed(&self) -> bool {
        let of_ethereum = TxType::try_from(self.kind.unwrap_or_default().to::<u8>()).is_ok();
        let zero = |scalar: Option<U256>| scalar.is_some_and(|scalar| scalar.is_zero());
        of_ethereum && !(zero(self.r) && zero(self.s))
    }
}

#[cfg(all(test, feature = "evm", feature = "wallet"))]
mod tests;
