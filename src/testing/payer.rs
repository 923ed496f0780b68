//! `ScriptedPayer`: a wallet that does what a test tells it to do, on a chain that does too.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::ScriptedVerifier;
use crate::{
    client::{Payer, PayerError, PreparedTransfer, SubmitGuard, TransferRequest, TransferStatus},
    protocol::{Address, ChainTime, Transfer, TxHash},
    verify::Verifier as _,
};

/// A wallet without keys: its transfers arrive on a [`ScriptedVerifier`], at once unless told otherwise. Each moves the
/// chain's head on by one block, in which it is. Clones are one wallet.
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
    turn: Arc<tokio::sync::Mutex<()>>,
    account: Arc<Mutex<Account>>,
}

/// What becomes of a transfer that is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Sending {
    /// It is mined at once, in a new block.
    Mined,
    /// It is mined, and whoever sent it gets a time-out.
    MinedUnheard,
    /// It is mined, and transfers nothing.
    Reverted,
    /// It waits, until [`ScriptedPayer::release`].
    Held,
    /// It is taken, and lost.
    Lost,
    /// It is refused.
    Refused,
}

#[derive(Debug, Default)]
struct Account {
    script: VecDeque<Sending>,
    /// By nonce, as what was mined.
    waiting: HashMap<u64, TxHash>,
    mined: HashMap<u64, Mined>,
    /// Everything that was made ready, by its hash.
    prepared: HashMap<TxHash, (u64, Transfer)>,
    sent: usize,
    outage: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mined {
    Paid(TxHash),
    Reverted(TxHash),
    Foreign,
}

impl ScriptedPayer {
    /// A wallet of this account, whose transfers arrive on that chain.
    #[must_use]
    pub fn new(chain: ScriptedVerifier, address: Address) -> Self {
        Self { chain, address, turn: Arc::default(), account: Arc::default() }
    }

    /// What becomes of the next transfers that are sent, one after the other; those after them are mined.
    pub fn script(&self, sendings: impl IntoIterator<Item = Sending>) {
        self.account().script.extend(sendings);
    }

    /// Mines everything that waits.
    pub fn release(&self) {
        let mut account = self.account();
        let waiting: Vec<_> = account.waiting.values().copied().collect();
        for transaction in waiting {
            account.mine(&self.chain, transaction);
        }
    }

    /// Mines transactions of nobody's in the place of everything that was prepared and is not mined.
    pub fn displace(&self) {
        let mut account = self.account();
        account.waiting.clear();
        let nonces: Vec<u64> = account.prepared.values().map(|(nonce, _)| *nonce).collect();
        for nonce in nonces {
            account.mined.entry(nonce).or_insert(Mined::Foreign);
        }
    }

    /// Whether nobody can be asked.
    pub fn outage(&self, outage: bool) {
        self.account().outage = outage;
    }

    /// How many transfers moved money.
    #[must_use]
    pub fn transfers(&self) -> usize {
        self.account().mined.values().filter(|mined| matches!(mined, Mined::Paid(_))).count()
    }

    /// How many transfers were made ready, replacements included.
    #[must_use]
    pub fn prepared(&self) -> usize {
        self.account().prepared.len()
    }

    /// How often something was sent, repetitions included.
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
        let Some((nonce, transfer)) = self.prepared.get(&transaction) else { return };
        self.waiting.remove(nonce);
        if self.mined.contains_key(nonce) {
            return;
        }
        self.mined.insert(*nonce, Mined::Paid(transaction));
        // In a block of its own, behind all that a ledger had seen when it began.
        let block_time = chain.next_block();
        chain.mine(transaction, [Transfer { block_number: block_time.unix() / 2, block_time, ..transfer.clone() }]);
    }

    /// The lowest that nothing sent has taken.
    fn next_nonce(&self) -> u64 {
        (0..).find(|nonce| !self.mined.contains_key(nonce) && !self.waiting.contains_key(nonce)).unwrap_or_default()
    }

    fn enter(&mut self, nonce: u64, transfer: Transfer) -> PreparedTransfer {
        let mut hash = [0; 32];
        hash[..8].copy_from_slice(&nonce.to_be_bytes());
        hash[8..16].copy_from_slice(&(self.prepared.len() as u64).to_be_bytes());
        let transaction = TxHash::new(hash);
        let prepared = PreparedTransfer::signed(transfer.payer, transfer.token, nonce, transaction, "scripted");
        self.prepared.insert(transaction, (nonce, Transfer { transaction, ..transfer }));
        prepared
    }

    fn send(&mut self, chain: &ScriptedVerifier, nonce: u64, transaction: TxHash) -> Result<TxHash, PayerError> {
        self.sent += 1;
        match self.mined.get(&nonce) {
            Some(Mined::Paid(mined) | Mined::Reverted(mined)) if *mined == transaction => return Ok(transaction),
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
    async fn submit_guard(&self) -> SubmitGuard {
        SubmitGuard::held(Arc::clone(&self.turn).lock_owned().await)
    }

    async fn prepare(&self, payment: &TransferRequest) -> Result<PreparedTransfer, PayerError> {
        let head = self.chain.head().await.map_err(|_| PayerError::Unavailable("the scripted chain is away"))?;
        let token = payment.assets.first().ok_or(PayerError::Funds { payer: self.address })?.contract();
        let mut account = self.reachable()?;
        let transfer = Transfer {
            network: payment.network,
            transaction: TxHash::new([0; 32]),
            position: 0,
            token,
            payer: self.address,
            recipient: payment.recipient,
            amount: payment.amount,
            block_number: head.unix() / 2,
            block_time: ChainTime::from_unix(head.unix()),
        };
        let nonce = account.next_nonce();
        Ok(account.enter(nonce, transfer))
    }

    async fn send(&self, prepared: &PreparedTransfer) -> Result<TxHash, PayerError> {
        let mut account = self.reachable()?;
        let transaction = prepared.transaction.ok_or(PayerError::Foreign)?;
        let nonce = account.prepared.get(&transaction).ok_or(PayerError::Foreign)?.0;
        account.send(&self.chain, nonce, transaction)
    }

    async fn status(&self, prepared: &[PreparedTransfer]) -> Result<TransferStatus, PayerError> {
        let account = self.reachable()?;
        let ours: Vec<TxHash> = prepared.iter().filter_map(|one| one.transaction).collect();
        let nonce = prepared.first().and_then(|one| one.nonce).ok_or(PayerError::Foreign)?;
        if !ours.iter().all(|transaction| account.prepared.contains_key(transaction)) {
            return Err(PayerError::Foreign);
        }
        Ok(match account.mined.get(&nonce) {
            Some(Mined::Paid(mined)) if ours.contains(mined) => {
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
        let last = prepared.last().and_then(|one| one.transaction).ok_or(PayerError::Foreign)?;
        let (nonce, transfer) = account.prepared.get(&last).cloned().ok_or(PayerError::Foreign)?;
        Ok(Some(account.enter(nonce, transfer)))
    }
}
