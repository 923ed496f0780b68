//! `Account`: the state that a wallet's clones share. `WalletSettings`: how one of them pays.

use std::{collections::HashMap, sync::Mutex};

use super::transaction::{self, Sent};
use crate::{
    client::{PayerError, PreparedTransfer},
    evm::wallet::account,
    protocol::{Address, TokenDomain},
};

/// The default limit per gas: 5 gwei, in wei. Base asks for a hundredth of a gwei.
const MAX_FEE_PER_GAS: u128 = 5_000_000_000;
/// The default number of blocks after which a block is final.
const FINAL_AFTER: u64 = 12;

/// A key, its nodes, and known tokens.
pub(super) struct Account {
    pub(super) key: account::Account,
    /// The decimals that tokens stated; they cannot change.
    pub(super) decimals: Mutex<HashMap<Address, u8>>,
    /// The authorization domains that tokens stated.
    pub(super) domains: Mutex<HashMap<Address, TokenDomain>>,
}

/// How transactions are made, and when a block counts as final.
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
    /// Reads the transfers that this wallet prepared, all for one nonce; never empty.
    pub(super) fn read(&self, prepared: &[PreparedTransfer]) -> Result<Vec<Sent>, PayerError> {
        let chain_id = self.key.network.chain_id();
        let read = |prepared| transaction::read(prepared, self.key.address, chain_id);
        let sent = prepared.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        let first = sent.first().ok_or(PayerError::Foreign)?;
        // Transactions with two nonces could both be mined: a used nonce would say nothing about the other.
        let alike = sent.iter().all(|other| other.transaction.nonce == first.transaction.nonce);
        if alike { Ok(sent) } else { Err(PayerError::Foreign) }
    }
}
