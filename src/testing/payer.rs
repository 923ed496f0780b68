//! `ScriptedPayer`: a payer whose transfers a test controls.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::{ScriptedVerifier, scripted_signature};
use crate::{
    client::{
        AuthorizationRequest, AuthorizationStatus, Authorizer, Payer, PayerError, PermitFunds, PermitRequest,
        PermitSigner, PreparedAuthorization, PreparedPermit, PreparedTransfer, SubmitGuard, TransferRequest,
        TransferStatus,
    },
    protocol::{
        Address, Amount, Asset, Binding, ByPermit, ChainTime, Network, PaymentId, PaymentSignature, PaymentTag,
        TokenDomain, Transfer, TxHash, permit2::SignedPermit, v2::SignedAuthorization,
    },
    verify::{NonceState, Signatures as _, Verifier as _},
};

/// A payer without keys. Its transfers appear on a [`ScriptedVerifier`], immediately unless scripted otherwise. Each
/// one advances the chain's head by one block and is mined in that block. Transfers are [tagged](Self::tagged), and
/// the payer [signs](Self::signing) for them. It also signs [authorizations](Self::authorizing) of USDC, which a
/// [`ScriptedSettler`](super::ScriptedSettler) settles; the chain reports their state. With an
/// [allowance](Self::allow), it signs permits, too. Clones share one wallet.
///
/// ```
/// use tower_x402::{
///     client::{TransferStatus, Payer as _, TransferRequest, PurchaseId},
///     protocol::{Address, Amount, Asset, ChainTime, Network},
///     testing::{ScriptedPayer, ScriptedVerifier, Sending},
/// };
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let chain = ScriptedVerifier::new(ChainTime::from_unix(1_795_280_400));
/// let wallet = ScriptedPayer::new(chain, Address::new([2; 20]));
/// wallet.script([Sending::Held]);
///
/// let (seller, price) = (Address::new([1; 20]), Amount::from_base_units(490_000));
/// let payment = TransferRequest::new(PurchaseId::new([0; 16]), Network::BASE, seller, price, [Asset::USDC_BASE]);
/// let prepared = [wallet.prepare(&payment).await?];
/// assert_eq!(wallet.status(&prepared).await?, TransferStatus::Unknown);
/// let transaction = wallet.send(&prepared[0]).await?;
/// assert_eq!(wallet.status(&prepared).await?, TransferStatus::Pending);
/// wallet.release();
/// assert_eq!(wallet.status(&prepared).await?, TransferStatus::Mined { transaction, confirmations: 1 });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct ScriptedPayer {
    chain: ScriptedVerifier,
    address: Address,
    tagged: bool,
    signing: bool,
    authorizing: bool,
    turn: Arc<tokio::sync::Mutex<()>>,
    account: Arc<Mutex<Account>>,
}

/// The outcome of sending a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Sending {
    /// The transfer is mined at once, in a new block.
    Mined,
    /// The transfer is mined, but sending it reports a time-out.
    MinedUnheard,
    /// The transaction is mined and reverts: nothing is transferred.
    Reverted,
    /// The transfer is pending until [`ScriptedPayer::release`].
    Held,
    /// The transfer is accepted and then lost.
    Lost,
    /// The transfer is refused.
    Refused,
}

#[derive(Debug, Default)]
struct Account {
    script: VecDeque<Sending>,
    /// Pending transactions, by nonce.
    waiting: HashMap<u64, TxHash>,
    mined: HashMap<u64, Mined>,
    /// All prepared transactions, by hash.
    prepared: HashMap<TxHash, (u64, Call)>,
    sent: usize,
    authorizations: usize,
    permits: usize,
    /// The allowance of Permit2 for each token.
    allowances: HashMap<Address, Amount>,
    outage: bool,
}

/// The effect of a transaction.
#[derive(Clone, Debug)]
enum Call {
    Transfer(Transfer),
    /// Uses up an authorization's nonce.
    Cancel(PaymentId),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mined {
    Paid(TxHash),
    Cancelled(TxHash),
    Reverted(TxHash),
    Foreign,
}

impl ScriptedPayer {
    /// Creates a wallet of this account, with transfers on this chain.
    #[must_use]
    pub fn new(chain: ScriptedVerifier, address: Address) -> Self {
        let (turn, account) = Default::default();
        Self { chain, address, tagged: true, signing: true, authorizing: true, turn, account }
    }

    /// Sets whether transfers from this handle carry the purchase's tag.
    #[must_use]
    pub const fn tagged(mut self, tagged: bool) -> Self {
        self.tagged = tagged;
        self
    }

    /// Sets whether this handle signs messages.
    #[must_use]
    pub const fn signing(mut self, signing: bool) -> Self {
        self.signing = signing;
        self
    }

    /// Sets whether this handle signs authorizations.
    #[must_use]
    pub const fn authorizing(mut self, authorizing: bool) -> Self {
        self.authorizing = authorizing;
        self
    }

    /// Sets the outcomes of the next sent transactions, transfers and cancellations, in order. Later ones are mined.
    pub fn script(&self, sendings: impl IntoIterator<Item = Sending>) {
        self.account().script.extend(sendings);
    }

    /// Mines all pending transactions.
    pub fn release(&self) {
        let mut account = self.account();
        let waiting: Vec<_> = account.waiting.values().copied().collect();
        for transaction in waiting {
            account.mine(&self.chain, transaction);
        }
    }

    /// Mines foreign transactions under the nonces of all prepared transactions that are not mined.
    pub fn displace(&self) {
        let mut account = self.account();
        account.waiting.clear();
        let nonces: Vec<u64> = account.prepared.values().map(|(nonce, _)| *nonce).collect();
        for nonce in nonces {
            account.mined.entry(nonce).or_insert(Mined::Foreign);
        }
    }

    /// Sets whether the chain is unreachable.
    pub fn outage(&self, outage: bool) {
        self.account().outage = outage;
    }

    /// Returns the number of transfers that moved money.
    #[must_use]
    pub fn transfers(&self) -> usize {
        self.account().mined.values().filter(|mined| matches!(mined, Mined::Paid(_))).count()
    }

    /// Returns the number of prepared transactions, replacements and cancellations included.
    #[must_use]
    pub fn prepared(&self) -> usize {
        self.account().prepared.len()
    }

    /// Returns the number of authorizations that were signed.
    #[must_use]
    pub fn authorizations_signed(&self) -> usize {
        self.account().authorizations
    }

    /// Sets how much of a token Permit2 may move; zero by default. The balance is unlimited.
    pub fn allow(&self, token: Address, allowance: Amount) {
        self.account().allowances.insert(token, allowance);
    }

    /// Returns the number of permits that were signed.
    #[must_use]
    pub fn permits_signed(&self) -> usize {
        self.account().permits
    }

    /// Returns the number of times that a transaction was sent, repetitions included.
    #[must_use]
    pub fn sent(&self) -> usize {
        self.account().sent
    }

    fn account(&self) -> MutexGuard<'_, Account> {
        self.account.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reachable(&self) -> Result<MutexGuard<'_, Account>, PayerError> {
        let account = self.account();
        if account.outage { Err(PayerError::Unavailable("the scripted chain is away")) } else { Ok(account) }
    }
}

impl Account {
    fn mine(&mut self, chain: &ScriptedVerifier, transaction: TxHash) {
        let Some((nonce, call)) = self.prepared.get(&transaction) else { return };
        self.waiting.remove(nonce);
        if self.mined.contains_key(nonce) {
            return;
        }
        // Mined in a new block, after everything that a ledger had seen when it began.
        let block_time = chain.next_block();
        let mined = match call {
            Call::Transfer(transfer) => {
                let transfer = Transfer { block_number: block_time.unix() / 2, block_time, ..transfer.clone() };
                chain.mine(transaction, [transfer]);
                Mined::Paid(transaction)
            }
            Call::Cancel(authorization) if chain.spend(*authorization) => Mined::Cancelled(transaction),
            Call::Cancel(_) => Mined::Reverted(transaction),
        };
        self.mined.insert(*nonce, mined);
    }

    /// Returns the lowest nonce that no mined or pending transaction has.
    fn next_nonce(&self) -> u64 {
        (0..).find(|nonce| !self.mined.contains_key(nonce) && !self.waiting.contains_key(nonce)).unwrap_or_default()
    }

    fn enter(&mut self, nonce: u64, payer: Address, network: Network, token: Address, call: Call) -> PreparedTransfer {
        let mut hash = [0; 32];
        hash[..8].copy_from_slice(&nonce.to_be_bytes());
        hash[8..16].copy_from_slice(&(self.prepared.len() as u64).to_be_bytes());
        let transaction = TxHash::new(hash);
        let call = match call {
            Call::Transfer(transfer) => Call::Transfer(Transfer { transaction, ..transfer }),
            Call::Cancel(_) => call,
        };
        self.prepared.insert(transaction, (nonce, call));
        PreparedTransfer::signed(payer, network, token, nonce, transaction, "scripted")
    }

    fn send(&mut self, chain: &ScriptedVerifier, nonce: u64, transaction: TxHash) -> Result<TxHash, PayerError> {
        self.sent += 1;
        match self.mined.get(&nonce) {
            Some(Mined::Paid(mined) | Mined::Cancelled(mined) | Mined::Reverted(mined)) if *mined == transaction => {
                return Ok(transaction);
            }
            Some(_) => return Err(PayerError::Refused("the nonce is taken")),
            None => {}
        }
        match self.script.pop_front().unwrap_or(Sending::Mined) {
            Sending::Mined => self.mine(chain, transaction),
            Sending::MinedUnheard => {
                self.mine(chain, transaction);
                return Err(PayerError::Unavailable("the scripted chain did not answer in time"));
            }
            Sending::Reverted => {
                self.waiting.remove(&nonce);
                self.mined.insert(nonce, Mined::Reverted(transaction));
                chain.mine(transaction, []);
            }
            Sending::Held => {
                self.waiting.insert(nonce, transaction);
            }
            Sending::Lost => {}
            Sending::Refused => return Err(PayerError::Refused("the scripted chain refuses")),
        }
        Ok(transaction)
    }
}

impl Payer for ScriptedPayer {
    async fn submit_guard(&self, _: Network) -> SubmitGuard {
        SubmitGuard::held(Arc::clone(&self.turn).lock_owned().await)
    }

    async fn prepare(&self, payment: &TransferRequest) -> Result<PreparedTransfer, PayerError> {
        let head = self.chain.head().await.map_err(|_| PayerError::Unavailable("the scripted chain is away"))?;
        let token = payment.assets.first().ok_or(PayerError::Funds { payer: self.address })?.contract();
        let mut account = self.reachable()?;
        let transfer = Transfer::new(payment.network, TxHash::new([0; 32]), 0)
            .with_token(token)
            .with_payer(self.address)
            .with_recipient(payment.recipient)
            .with_amount(payment.amount)
            .with_binding(if self.tagged { tagged(&payment.tag) } else { Binding::none() })
            .with_block(head.unix() / 2, ChainTime::from_unix(head.unix()));
        let nonce = account.next_nonce();
        Ok(account.enter(nonce, self.address, payment.network, token, Call::Transfer(transfer)))
    }

    async fn send(&self, prepared: &PreparedTransfer) -> Result<TxHash, PayerError> {
        let mut account = self.reachable()?;
        let transaction = prepared.transaction().ok_or(PayerError::Foreign)?;
        let nonce = account.prepared.get(&transaction).ok_or(PayerError::Foreign)?.0;
        account.send(&self.chain, nonce, transaction)
    }

    async fn status(&self, prepared: &[PreparedTransfer]) -> Result<TransferStatus, PayerError> {
        let account = self.reachable()?;
        let ours: Vec<TxHash> = prepared.iter().filter_map(PreparedTransfer::transaction).collect();
        let nonce = prepared.first().and_then(PreparedTransfer::nonce).ok_or(PayerError::Foreign)?;
        if !ours.iter().all(|transaction| account.prepared.contains_key(transaction)) {
            return Err(PayerError::Foreign);
        }
        Ok(match account.mined.get(&nonce) {
            Some(Mined::Paid(mined) | Mined::Cancelled(mined)) if ours.contains(mined) => {
                TransferStatus::Mined { transaction: *mined, confirmations: 1 }
            }
            Some(Mined::Reverted(mined)) if ours.contains(mined) => TransferStatus::Reverted { transaction: *mined },
            Some(_) => TransferStatus::Impossible,
            None if account.waiting.get(&nonce).is_some_and(|waiting| ours.contains(waiting)) => {
                TransferStatus::Pending
            }
            None => TransferStatus::Unknown,
        })
    }

    async fn replace(&self, prepared: &[PreparedTransfer]) -> Result<Option<PreparedTransfer>, PayerError> {
        let mut account = self.reachable()?;
        let last = prepared.last().ok_or(PayerError::Foreign)?;
        let transaction = last.transaction().ok_or(PayerError::Foreign)?;
        let (nonce, call) = account.prepared.get(&transaction).cloned().ok_or(PayerError::Foreign)?;
        Ok(Some(account.enter(nonce, last.payer, last.network, last.token, call)))
    }

    async fn sign(&self, message: &str, account: Address) -> Result<Option<PaymentSignature>, PayerError> {
        drop(self.reachable()?);
        if account != self.address {
            return Err(PayerError::Foreign);
        }
        Ok(self.signing.then(|| scripted_signature(self.address, message)))
    }

    fn authorizations(&self) -> Option<&impl Authorizer> {
        Some(self)
    }

    fn permits(&self) -> Option<&impl PermitSigner> {
        Some(self)
    }
}

impl Authorizer for ScriptedPayer {
    async fn authorizes(&self, asset: &Asset, _: Amount) -> Result<Option<TokenDomain>, PayerError> {
        drop(self.reachable()?);
        let known = TokenDomain::usdc_of(asset.network()).filter(|domain| domain.token == asset.contract());
        Ok(known.filter(|_| self.authorizing))
    }

    async fn authorize(&self, request: &AuthorizationRequest) -> Result<SignedAuthorization, PayerError> {
        self.reachable()?.authorizations += 1;
        let authorization = request.authorization(self.address, self.chain.head().await.ok());
        let signature = scripted_signature(self.address, &format!("{authorization:?}"));
        Ok(SignedAuthorization::new(authorization, signature))
    }

    async fn authorization_status(
        &self,
        prepared: &PreparedAuthorization,
        since: ChainTime,
    ) -> Result<AuthorizationStatus, PayerError> {
        drop(self.reachable()?);
        const AWAY: PayerError = PayerError::Unavailable("the scripted chain is away");
        let signed = &prepared.signed.authorization;
        let state = self.chain.nonce_state(prepared.token, signed.from, &signed.nonce, since);
        Ok(match state.await.map_err(|_| AWAY)? {
            NonceState::Used(transaction) => AuthorizationStatus::Used { transaction: Some(transaction) },
            NonceState::Spent => AuthorizationStatus::Void,
            NonceState::Unused if self.chain.head().await.map_err(|_| AWAY)? >= signed.valid_before => {
                AuthorizationStatus::Void
            }
            NonceState::Unused => AuthorizationStatus::Unused,
        })
    }

    async fn prepare_cancellation(&self, authorized: &PreparedAuthorization) -> Result<PreparedTransfer, PayerError> {
        let mut account = self.reachable()?;
        let signed = &authorized.signed.authorization;
        let call = Call::Cancel(self.chain.authorization_id(authorized.token, signed.from, signed.nonce));
        let nonce = account.next_nonce();
        Ok(account.enter(nonce, self.address, authorized.network, authorized.token, call))
    }
}

impl PermitSigner for ScriptedPayer {
    async fn permit_funds(&self, asset: &Asset) -> Result<Option<PermitFunds>, PayerError> {
        let account = self.reachable()?;
        let allowance = account.allowances.get(&asset.contract()).copied().unwrap_or(Amount::ZERO);
        Ok(self.authorizing.then_some(PermitFunds::new(Amount::MAX, allowance)))
    }

    async fn permit(&self, request: &PermitRequest) -> Result<SignedPermit, PayerError> {
        self.reachable()?.permits += 1;
        let permit = request.permit(self.address, self.chain.head().await.ok());
        let signature = scripted_signature(self.address, &format!("{permit:?}"));
        Ok(SignedPermit::new(permit, signature))
    }

    async fn permit_status(&self, prepared: &PreparedPermit) -> Result<AuthorizationStatus, PayerError> {
        drop(self.reachable()?);
        const AWAY: PayerError = PayerError::Unavailable("the scripted chain is away");
        let state = self.chain.permit_state(&prepared.signed.permit, ChainTime::from_unix(0));
        Ok(match state.await.map_err(|_| AWAY)? {
            NonceState::Used(_) | NonceState::Spent => AuthorizationStatus::Used { transaction: None },
            NonceState::Unused if self.chain.head().await.map_err(|_| AWAY)? >= prepared.valid_before() => {
                AuthorizationStatus::Void
            }
            NonceState::Unused => AuthorizationStatus::Unused,
        })
    }

    async fn permit_charge(
        &self,
        prepared: &PreparedPermit,
        transaction: TxHash,
    ) -> Result<Option<Amount>, PayerError> {
        drop(self.reachable()?);
        let nonce = ByPermit::Nonce(prepared.signed.permit.nonce);
        let transfers = self.chain.transfers_in(transaction);
        let of_permit = transfers.iter().find(|transfer| transfer.binding.permit() == Some(nonce));
        Ok(of_permit.map(|transfer| transfer.amount))
    }
}

/// Returns the binding of an ERC-20 transfer whose call data has this tag.
fn tagged(tag: &PaymentTag) -> Binding {
    Binding::none().with_call_data([&[0; 68][..], &tag.to_call_data()].concat())
}
