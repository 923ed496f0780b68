//! `Core`: the state that a settler's clones and settling tasks share.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use alloy::{
    consensus::TxEip1559,
    primitives::{TxKind, U256},
};
use tokio::time::Instant;

use super::{flights::Flights, inquiries::Inquiries, recall::Recall};
use crate::{
    evm::wallet::{account::Account, fees::Fees, signer::Signer},
    protocol::{Address, Amount, ChainTime, TokenDomain, v2::Reason},
    settle::on_chain::Depths,
};

/// The gas of an ordinary transfer of ether.
const GAS_OF_NOTHING: u64 = 21_000;

/// The default limit per gas: 5 gwei, in wei. Base asks for a hundredth of a gwei.
const MAX_FEE_PER_GAS: u128 = 5_000_000_000;

/// The default balance, in wei, below which the settler is unhealthy: 0.0005 ether.
const MIN_BALANCE: u128 = 500_000_000_000_000;

/// How long settling a payment may take.
const SETTLED_WITHIN: Duration = Duration::from_secs(60);

/// How long an answer about the newest block is reused: the block time of Base, two seconds.
pub(super) const BLOCK_TIME: Duration = Duration::from_secs(2);

/// How long the knowledge that an account has code, or none, is reused.
const CODE_LASTS: Duration = Duration::from_secs(30);

/// How long the domain that a token stated is reused.
const DOMAIN_LASTS: Duration = Duration::from_secs(30);

/// How long an account with code is refused after one of its payments reverted.
const REVERT_LASTS: Duration = Duration::from_secs(6 * 3_600);

/// The default limit of a payment's gas, in per cent of the payment.
const GAS_SHARE: u32 = 50;

/// How transactions are made, and when a block counts as final.
#[derive(Clone, Debug)]
pub(super) struct Policy {
    pub(super) max_fee_per_gas: u128,
    pub(super) min_balance: u128,
    /// The number of further blocks after which a block is believed to stay.
    pub(super) final_after: u64,
    /// The number of blocks, including its own, that must confirm a deposit before it covers vouchers.
    pub(super) deposit_confirmations: u64,
    /// How long a transaction may wait before it is replaced.
    pub(super) replace_after: Duration,
    /// How long settling a payment may take before its outcome is reported as unknown.
    pub(super) settled_within: Duration,
    /// Whether payers may be contract accounts, including keys that delegate to a contract.
    pub(super) contract_accounts: bool,
    /// The limit of a payment's gas, in per cent of the payment.
    pub(super) gas_share: u32,
    /// The price of one whole coin of the chain, by token, to compare gas with payments.
    pub(super) coin_prices: HashMap<Address, Amount>,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            max_fee_per_gas: MAX_FEE_PER_GAS,
            min_balance: MIN_BALANCE,
            final_after: 12,
            deposit_confirmations: 1,
            replace_after: Duration::from_secs(15),
            settled_within: SETTLED_WITHIN,
            contract_accounts: true,
            gas_share: GAS_SHARE,
            coin_prices: HashMap::new(),
        }
    }
}

pub(super) struct Core {
    pub(super) account: Account,
    /// The key that signs claims and refunds of channels, if it is not the account's key.
    pub(super) authorizer: Option<Signer>,
    pub(super) policy: Policy,
    pub(super) flights: Flights,
    pub(super) inquiries: Inquiries,
    /// The reasons of refused payments, by order digest.
    pub(super) refusals: Recall<[u8; 32], Reason>,
    /// Which accounts have code.
    pub(super) code: Recall<Address, bool>,
    /// The fees, and the account's ether.
    pub(super) outlay: Recall<(), (Fees, u128)>,
    /// The time of the newest block.
    pub(super) head: Recall<(), ChainTime>,
    /// The domains of tokens.
    pub(super) domains: Recall<Address, Option<TokenDomain>>,
    /// Accounts with code that made a payment revert on the chain, at the cost of the settling account.
    pub(super) reverted: Recall<Address, ()>,
    /// The nonces that tasks are watching, with the number of tasks.
    held: Mutex<BTreeMap<u64, usize>>,
    /// The last abandoned nonce that was filled, with its fees and time.
    pub(super) filled: tokio::sync::Mutex<Option<(u64, Fees, Instant)>>,
}

impl Core {
    /// Returns the depths at which claims and deposits count.
    pub(super) const fn depths(&self) -> Depths {
        let Policy { final_after, deposit_confirmations, .. } = self.policy;
        Depths { final_after, deposit_confirmations }
    }

    /// Returns how long a transaction may take to reach the required depth, on Base.
    pub(super) fn certain_within(&self) -> Duration {
        self.within_blocks_of(BLOCK_TIME)
    }

    /// Returns the same for a chain with this block time.
    pub(super) fn within_blocks_of(&self, block_time: Duration) -> Duration {
        self.policy.settled_within.saturating_add(block_time.saturating_mul(self.blocks_to_certainty()))
    }

    /// Returns after how many blocks nodes can tell the outcome of a transaction, with some to spare.
    pub(super) fn blocks_to_certainty(&self) -> u32 {
        u32::try_from(self.policy.final_after).unwrap_or(u32::MAX).saturating_add(3)
    }

    pub(super) fn new(account: Account, policy: Policy) -> Self {
        let (held, filled) = (Mutex::default(), tokio::sync::Mutex::default());
        Self {
            account,
            authorizer: None,
            policy,
            flights: Flights::default(),
            inquiries: Inquiries::default(),
            refusals: Recall::lasting(BLOCK_TIME),
            code: Recall::lasting(CODE_LASTS),
            outlay: Recall::lasting(BLOCK_TIME),
            head: Recall::lasting(BLOCK_TIME),
            domains: Recall::lasting(DOMAIN_LASTS),
            reverted: Recall::lasting(REVERT_LASTS),
            held,
            filled,
        }
    }

    /// Marks a nonce as watched until the guard is dropped.
    pub(super) fn hold(&self, nonce: u64) -> Held<'_> {
        *self.held().entry(nonce).or_default() += 1;
        Held { core: self, nonce }
    }

    pub(super) fn is_held(&self, nonce: u64) -> bool {
        self.held().contains_key(&nonce)
    }

    fn held(&self) -> MutexGuard<'_, BTreeMap<u64, usize>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a call of a contract, without nonce and signature.
    pub(super) fn draft(&self, contract: Address, input: Vec<u8>, gas_limit: u64, fees: Fees) -> TxEip1559 {
        let to = TxKind::Call(contract.as_bytes().into());
        self.transaction(to, input, gas_limit, fees)
    }

    /// Returns a transaction that only uses up its nonce.
    pub(super) fn filler(&self, nonce: u64, fees: Fees) -> TxEip1559 {
        let to = TxKind::Call(self.account.address.as_bytes().into());
        TxEip1559 { nonce, ..self.transaction(to, Vec::new(), GAS_OF_NOTHING, fees) }
    }

    fn transaction(&self, to: TxKind, input: Vec<u8>, gas_limit: u64, fees: Fees) -> TxEip1559 {
        TxEip1559 {
            chain_id: self.account.network.chain_id(),
            to,
            input: input.into(),
            gas_limit,
            value: U256::ZERO,
            max_fee_per_gas: fees.most,
            max_priority_fee_per_gas: fees.tip,
            ..TxEip1559::default()
        }
    }
}

/// A watched nonce.
pub(super) struct Held<'a> {
    core: &'a Core,
    pub(super) nonce: u64,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let mut held = self.core.held();
        if let Some(count) = held.get_mut(&self.nonce) {
            *count -= 1;
            if *count == 0 {
                held.remove(&self.nonce);
            }
        }
    }
}
