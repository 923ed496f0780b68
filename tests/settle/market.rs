//! A token with EIP-3009 in memory, by the rules of USDC, and the accounts that pay with it.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard},
};

use tower_x402::{
    protocol::{
        Address, Amount, ChainTime, PaymentSignature, TxHash,
        permit2::{Permit, SignedPermit},
        v2::{Authorization, SignedAuthorization},
    },
    testing::scripted_signature,
    verify::NonceState,
};

#[derive(Clone, Debug)]
pub struct Market(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    now: ChainTime,
    balances: HashMap<Address, Amount>,
    contracts: HashSet<Address>,
    nonces: HashMap<(Address, [u8; 32]), NonceState>,
    names: u64,
}

impl Market {
    pub fn new() -> Self {
        let now = ChainTime::from_unix(1_795_280_000);
        let (balances, contracts, nonces) = Default::default();
        Self(Arc::new(Mutex::new(State { now, balances, contracts, nonces, names: 0 })))
    }

    pub fn now(&self) -> ChainTime {
        self.state().now
    }

    /// A new account with so many base units.
    pub fn account(&self, units: u128) -> Address {
        let mut state = self.state();
        let address = Address::new(state.name());
        state.balances.insert(address, Amount::from_base_units(units));
        address
    }

    pub fn contract(&self, units: u128) -> Address {
        let address = self.account(units);
        self.state().contracts.insert(address);
        address
    }

    /// 32 bytes that nobody has had.
    pub fn fresh(&self) -> [u8; 32] {
        self.state().name()
    }

    pub fn balance(&self, owner: Address) -> Amount {
        self.state().balances.get(&owner).copied().unwrap_or(Amount::ZERO)
    }

    pub fn nonce(&self, payer: Address, nonce: [u8; 32]) -> NonceState {
        self.state().nonces.get(&(payer, nonce)).copied().unwrap_or(NonceState::Unused)
    }

    pub fn cancel(&self, payer: Address, nonce: [u8; 32]) {
        self.state().nonces.insert((payer, nonce), NonceState::Spent);
    }

    pub fn signature(&self, signer: Address, authorization: &Authorization) -> PaymentSignature {
        let signature = scripted_signature(signer, &format!("{authorization:?}"));
        if !self.state().contracts.contains(&signer) {
            return signature;
        }
        PaymentSignature::new([signature.as_bytes(), &[1]].concat()).expect("short enough")
    }

    /// `transferWithAuthorization`, as a call that changes nothing.
    pub fn simulate(&self, signed: &SignedAuthorization) -> Result<(), &'static str> {
        let authorization = &signed.authorization;
        let signature = self.signature(authorization.from, authorization);
        let state = self.state();
        let balance = state.balances.get(&authorization.from).copied().unwrap_or(Amount::ZERO);
        match () {
            () if state.now <= authorization.valid_after => Err("invalid_exact_evm_payload_authorization_valid_after"),
            () if state.now >= authorization.valid_before => {
                Err("invalid_exact_evm_payload_authorization_valid_before")
            }
            () if signature != signed.signature => Err("invalid_exact_evm_signature"),
            () if state.nonces.contains_key(&(authorization.from, authorization.nonce)) => {
                Err("invalid_exact_evm_nonce_already_used")
            }
            () if balance < authorization.value => Err("invalid_exact_evm_insufficient_balance"),
            () => Ok(()),
        }
    }

    /// `transferWithAuthorization`, in a block of its own.
    pub fn execute(&self, signed: &SignedAuthorization) -> Result<TxHash, &'static str> {
        self.simulate(signed)?;
        let authorization = &signed.authorization;
        let mut state = self.state();
        let transaction = TxHash::new(state.name());
        let key = (authorization.from, authorization.nonce);
        // Someone may have been faster.
        if state.nonces.contains_key(&key) {
            return Err("invalid_exact_evm_transaction_failed");
        }
        state.nonces.insert(key, NonceState::Used(transaction));
        state.add(authorization.from, |balance| balance.checked_sub(authorization.value));
        state.add(authorization.to, |balance| balance.checked_add(authorization.value));
        Ok(transaction)
    }

    /// What a payer of a permit signs.
    pub fn permit_signature(&self, permit: &Permit) -> PaymentSignature {
        self.permit_signature_of(permit.from, permit)
    }

    /// What another account would sign.
    pub fn permit_signature_of(&self, signer: Address, permit: &Permit) -> PaymentSignature {
        scripted_signature(signer, &format!("{permit:?}"))
    }

    /// The account has nothing any more.
    pub fn empty(&self, owner: Address) {
        self.state().balances.insert(owner, Amount::ZERO);
    }

    /// `settle` of a proxy, as a call that changes nothing.
    pub fn simulate_permit(&self, signed: &SignedPermit, charge: Amount) -> Result<(), &'static str> {
        let permit = &signed.permit;
        let signature = self.permit_signature(permit);
        let state = self.state();
        let balance = state.balances.get(&permit.from).copied().unwrap_or(Amount::ZERO);
        match () {
            () if state.now > permit.deadline => Err("permit2_deadline_expired"),
            () if state.now < permit.valid_after => Err("permit2_not_yet_valid"),
            () if signature != signed.signature => Err("invalid_permit2_signature"),
            () if state.nonces.contains_key(&(permit.from, permit.nonce)) => Err("permit2_invalid_nonce"),
            () if charge > permit.amount => Err("upto_amount_exceeds_permitted"),
            () if balance < charge => Err("permit2_insufficient_balance"),
            () => Ok(()),
        }
    }

    /// `settle` of a proxy, in a block of its own.
    pub fn execute_permit(&self, signed: &SignedPermit, charge: Amount) -> Result<TxHash, &'static str> {
        self.simulate_permit(signed, charge)?;
        let permit = &signed.permit;
        let mut state = self.state();
        let transaction = TxHash::new(state.name());
        let key = (permit.from, permit.nonce);
        // Someone may have been faster.
        if state.nonces.contains_key(&key) {
            return Err("invalid_upto_evm_transaction_failed");
        }
        state.nonces.insert(key, NonceState::Used(transaction));
        state.add(permit.from, |balance| balance.checked_sub(charge));
        state.add(permit.to, |balance| balance.checked_add(charge));
        Ok(transaction)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("not poisoned")
    }
}

impl State {
    fn name<const N: usize>(&mut self) -> [u8; N] {
        self.names += 1;
        let mut bytes = [0x77; N];
        bytes[N - 8..].copy_from_slice(&self.names.to_be_bytes());
        bytes
    }

    fn add(&mut self, owner: Address, change: impl FnOnce(Amount) -> Option<Amount>) {
        let balance = self.balances.entry(owner).or_insert(Amount::ZERO);
        *balance = change(*balance).expect("there is enough");
    }
}
