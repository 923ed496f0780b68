//! `SignerInquiries`: finds the account that signed a message, by its key or by its code.

use std::sync::Arc;

use futures_util::future::join_all;
use rand::seq::SliceRandom as _;

use super::{endpoint_pool::EndpointPool, gate::Gate};
use crate::{
    evm::signature,
    protocol::{Address, PaymentSignature},
    verify::VerifyError,
};

/// The most accounts that are asked about one signature. The client chooses the accounts, and thus the cost of a
/// refusal.
const ASKED_MAX: usize = 4;

#[derive(Debug)]
pub(super) struct SignerInquiries {
    pool: Arc<EndpointPool>,
    /// A gate of its own: inquiries about invented signatures must not delay anything else.
    gate: Gate,
}

impl SignerInquiries {
    pub(super) const fn new(pool: Arc<EndpointPool>, gate: Gate) -> Self {
        Self { pool, gate }
    }

    /// Returns which of these accounts signed the message (EIP-191): by its key, which costs no call, or by its code.
    pub(super) async fn signer(
        &self,
        message: &str,
        signature: &PaymentSignature,
        accounts: &[Address],
    ) -> Result<Option<Address>, VerifyError> {
        let (hash, signature) = (signature::message_hash(message), signature.as_bytes());
        let signer = signature::signer(&hash, signature);
        if let Some(signer) = signer.filter(|signer| accounts.contains(signer)) {
            return Ok(Some(signer));
        }
        let mut asked: Vec<Address> = accounts.to_vec();
        asked.sort_unstable();
        asked.dedup();
        // Strangers may have put payments from addresses of their choice into this transaction. If they crowd out an
        // account now, it must get its turn later.
        let (asked, left_out) = asked.partial_shuffle(&mut rand::rng(), ASKED_MAX);
        let _turn = self.gate.enter(None).await?;
        // Whether an account has code is not checked first: an account without code returns nothing, which does not
        // accept the signature.
        let answers = join_all(asked.iter().map(|account| self.pool.accepts(*account, hash, signature))).await;
        let mut failed = (!left_out.is_empty()).then(VerifyError::unavailable);
        for (account, answer) in asked.iter().zip(answers) {
            match answer {
                Ok(true) => return Ok(Some(*account)),
                Ok(false) => {}
                Err(error) => failed = Some(error),
            }
        }
        // The account whose answer is missing, or that was left out, may be the signer.
        failed.map_or(Ok(None), Err)
    }
}
