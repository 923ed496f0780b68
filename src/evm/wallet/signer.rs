//! `Signer`: the account's key, local or remote.

use alloy::{network::TxSigner, primitives::Signature, signers};

/// Signs transactions and messages.
pub(crate) trait Sign: TxSigner<Signature> + signers::Signer<Signature> + Send + Sync {}

impl<S: TxSigner<Signature> + signers::Signer<Signature> + Send + Sync> Sign for S {}

pub(crate) type Signer = Box<dyn Sign>;
