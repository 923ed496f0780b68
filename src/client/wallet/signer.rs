//! `Signer`: the account's key, wherever it is.

use alloy::{network::TxSigner, primitives::Signature, signers};

use crate::{client::PayerError, protocol::PaymentSignature};

/// Signs transactions and messages.
pub(super) trait Sign: TxSigner<Signature> + signers::Signer<Signature> + Send + Sync {}

impl<S: TxSigner<Signature> + signers::Signer<Signature> + Send + Sync> Sign for S {}

pub(super) type Signer = Box<dyn Sign>;

/// Signs a message (EIP-191).
pub(super) async fn sign_message(signer: &dyn Sign, message: &str) -> Result<PaymentSignature, PayerError> {
    let signature = signer.sign_message(message.as_bytes()).await;
    let signature = signature.map_err(|_| PayerError::Refused("the key would not sign the redemption"))?;
    // 65 bytes are few enough.
    PaymentSignature::new(signature.as_bytes()).map_err(|_| PayerError::Refused("the key made no signature"))
}
