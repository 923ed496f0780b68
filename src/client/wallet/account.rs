//! `Account`: what the clones of a wallet have in common, and `WalletSettings`: how one of them pays.

use std::{collections::HashMap, sync::Mutex};

use super::transaction::{self, Sent};
use crate::{
    client::{PayerError, PreparedTransfer},
    evm::wallet::account,
    protocol::{Address, TokenDomain},
};

/// The most per gas unless said otherwise: 5 gwei, in wei. Base asks for a hundredth of one.
const MAX_FEE_PER_GAS: u128 = 5_000_000_000;
/// After how many blocks a block is believed to stay unless said otherwise.
const FINAL_AFTER: u64 = 12;

/// A key, its nodes, and known tokens.
pub(super) struct Account {
    pub(super) key: account::Account,
    /// What tokens said their decimals are: they cannot change.
    pub(super) decimals: Mutex<HashMap<Address, u8>>,
    /// Under which domains tokens said that their authorizations are signed.
    pub(super) domains: Mutex<HashMap<Address, TokenDomain>>,
}

/// How transactions are made, and when a block is believed.
#[derive(Clone, Copy)]
pub(super) struct WalletSettings {
    pub(super) max_fee_per_gas: u128,
    pub(super) final_after: u64,
    pub(super) tagged: bool,
}

impl Default for WalletSettings {
    fn default() -> Self {
        Self { max_fee_per_gas: MAX_FEE_PER_GAS, final_after: FINAL_AFTER, tagged: true }
    }
}

impl Account {
    /// Reads what this wallet once prepared, all for one nonce; never empty.
    pub(super) fn read(&self, prepared: &[PreparedTransfer]) -> Result<Vec<Sent>, PayerError> {
        let chain_id = self.key.network.chain_id();
        let read = |prepared| transaction::read(prepared, self.key.address, chain_id);
        let sent = prepared.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        let first = sent.first().ok_or(PayerError::Foreign)?;
        // Two nonces could both be mined: one of them being used up would say nothing about the other.
        let alike = sent.iter().all(|other| other.transaction.nonce == first.transaction.nonce);
        if alike { Ok(sent) } else { Err(PayerError::Foreign) }
    }
}
