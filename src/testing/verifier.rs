//! `ScriptedVerifier`: a verifier with transactions and failures that a test sets.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

// Benchmarks measure the in-process chain too, so its maps should be fast.
use foldhash::{HashMap, HashSet};

use crate::{
    protocol::{
        Address, Amount, Asset, ChainTime, Network, PaymentId, PaymentSignature, Terms, TokenDomain, Transfer, TxHash,
        permit2::Permit,
    },
    verify::{NonceState, Signatures, Verdict, Verifier, VerifyError},
};

/// Base produces a block every two seconds.
const BLOCK_TIME: Duration = Duration::from_secs(2);

/// A verifier over a simulated chain. It holds the transactions that a test adds, and judges them by the terms of each
/// request, as a real verifier does. Clones share one chain.
///
/// A transaction that was not added is [`Verdict::NotConfirmed`].
///
/// ```
/// use std::time::Duration;
/// use tower_x402::{
///     protocol::{Address, Amount, Asset, ChainTime, Network, Terms},
///     testing::ScriptedVerifier,
///     verify::{Verdict, Verifier as _},
/// };
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let (seller, buyer) = (Address::new([1; 20]), Address::new([2; 20]));
/// let chain = ScriptedVerifier::new(ChainTime::from_unix(1_795_280_400));
/// let paid = chain.pay(
///     seller,
///     Asset::USDC_BASE.contract(),
///     buyer,
///     Amount::from_base_units(490_000),
///     ChainTime::from_unix(1_795_280_398),
/// );
///
/// let terms = |price| {
///     let price = Amount::from_base_units(price);
///     Terms::builder(Network::BASE, seller, price).resource("insights").assets([Asset::USDC_BASE]).max_payment_age(Duration::from_secs(86_400)).build()
/// };
/// assert!(matches!(chain.verify(&terms(490_000), paid).await?, Verdict::Paid { transfers, .. } if transfers.len() == 1));
/// assert!(matches!(chain.verify(&terms(490_001), paid).await?, Verdict::Insufficient { .. }));
/// assert_eq!(chain.calls(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct ScriptedVerifier {
    script: Arc<Mutex<Script>>,
}

#[derive(Debug)]
struct Script {
    network: Network,
    head: ChainTime,
    transactions: HashMap<TxHash, Act>,
    /// For each authorization, the transactions that use it.
    users: HashMap<PaymentId, Vec<TxHash>>,
    check: Result<(), VerifyError>,
    /// The cancelled authorizations.
    spent: HashSet<PaymentId>,
    outage: Option<VerifyError>,
    delay: Duration,
    calls: usize,
    minted: u64,
}

/// The outcome of a transaction.
#[derive(Clone, Debug)]
enum Act {
    Judge(Vec<Transfer>),
    Say(Result<Verdict, VerifyError>),
    Hang,
}

impl Act {
    /// Returns the authorizations that its transfers use.
    fn authorizations(&self) -> impl Iterator<Item = PaymentId> {
        let transfers = match self {
            Self::Judge(transfers) => transfers.as_slice(),
            Self::Say(_) | Self::Hang => &[],
        };
        let is_signed =
            |transfer: &&Transfer| transfer.binding.nonce().is_some() || transfer.binding.permit().is_some();
        transfers.iter().filter(is_signed).map(Transfer::payment_id)
    }
}

impl ScriptedVerifier {
    /// Creates an empty chain for Base with this head time.
    #[must_use]
    pub fn new(head: ChainTime) -> Self {
        Self::on(Network::BASE, head)
    }

    /// Creates an empty chain with this head time.
    #[must_use]
    pub fn on(network: Network, head: ChainTime) -> Self {
        let script = Script {
            network,
            head,
            transactions: HashMap::default(),
            users: HashMap::default(),
            check: Ok(()),
            spent: HashSet::default(),
            outage: None,
            delay: Duration::ZERO,
            calls: 0,
            minted: 0,
        };
        Self { script: Arc::new(Mutex::new(script)) }
    }

    /// Adds a transaction with one transfer, and returns its hash. It counts once the head's time has reached
    /// its `block_time`.
    pub fn pay(
        &self,
        recipient: Address,
        token: Address,
        payer: Address,
        amount: Amount,
        block_time: ChainTime,
    ) -> TxHash {
        self.with(|script| {
            let transaction = script.fresh_hash();
            let transfer = Transfer::new(script.network, transaction, 0)
                .with_token(token)
                .with_payer(payer)
                .with_recipient(recipient)
                .with_amount(amount)
                .with_block(block_time.unix() / BLOCK_TIME.as_secs(), block_time);
            script.set(transaction, Act::Judge(vec![transfer]));
            transaction
        })
    }

    /// Returns the transfers of an added transaction.
    #[cfg(feature = "client")]
    pub(super) fn transfers_in(&self, transaction: TxHash) -> Vec<Transfer> {
        self.with(|script| match script.transactions.get(&transaction) {
            Some(Act::Judge(transfers)) => transfers.clone(),
            Some(Act::Say(_) | Act::Hang) | None => Vec::new(),
        })
    }

    /// Adds a transaction with these transfers, or replaces it. Their `transaction` is
    /// overwritten with this hash. Without transfers, it is a transaction that pays no one.
    pub fn mine(&self, transaction: TxHash, transfers: impl IntoIterator<Item = Transfer>) {
        let transfers = transfers.into_iter().map(|transfer| Transfer { transaction, ..transfer }).collect();
        self.act(transaction, Act::Judge(transfers));
    }

    /// Sets the verdict on a transaction, for any terms.
    pub fn answer(&self, transaction: TxHash, verdict: Verdict) {
        self.act(transaction, Act::Say(Ok(verdict)));
    }

    /// Makes every request about this transaction fail.
    pub fn fail(&self, transaction: TxHash, error: VerifyError) {
        self.act(transaction, Act::Say(Err(error)));
    }

    /// Leaves every request about this transaction unanswered.
    pub fn hang(&self, transaction: TxHash) {
        self.act(transaction, Act::Hang);
    }

    /// Removes a transaction, as a reorganisation does.
    pub fn forget(&self, transaction: TxHash) {
        self.with(|script| script.remove(transaction));
    }

    /// Uses up an authorization without a transfer, like a cancellation by its payer.
    pub fn cancel(&self, token: Address, payer: Address, nonce: [u8; 32]) {
        self.spend(self.authorization_id(token, payer, nonce));
    }

    pub(super) fn authorization_id(&self, token: Address, payer: Address, nonce: [u8; 32]) -> PaymentId {
        self.with(|script| PaymentId::of_authorization(script.network, token, payer, nonce))
    }

    /// Uses up an authorization without a transfer; `false` if it was used before.
    pub(super) fn spend(&self, authorization: PaymentId) -> bool {
        self.with(|script| {
            let is_unused = script.nonce_of(authorization) == NonceState::Unused;
            script.spent.insert(authorization);
            is_unused
        })
    }

    /// Makes every request fail, those for the head included. `None` ends the outage.
    pub fn outage(&self, error: impl Into<Option<VerifyError>>) {
        let error = error.into();
        self.with(|script| script.outage = error);
    }

    /// Delays every verdict, in tokio's time.
    pub fn delay(&self, delay: Duration) {
        self.with(|script| script.delay = delay);
    }

    /// Sets the time of the head.
    pub fn set_head(&self, head: ChainTime) {
        self.with(|script| script.head = head);
    }

    /// Advances the head by one block, and returns its time.
    #[cfg(feature = "client")]
    pub(super) fn next_block(&self) -> ChainTime {
        self.with(|script| {
            script.head = script.head.after(BLOCK_TIME);
            script.head
        })
    }

    /// Mines a transfer made from an authorization in a new block. If its nonce is used, does nothing and returns the
    /// nonce's state.
    pub(super) fn settle(&self, transfer: Transfer) -> Result<TxHash, NonceState> {
        self.with(|script| match script.nonce_of(transfer.payment_id()) {
            NonceState::Unused => {
                let transaction = script.fresh_hash();
                script.head = script.head.after(BLOCK_TIME);
                let transfer = Transfer { transaction, ..transfer.with_block(script.height(), script.head) };
                script.set(transaction, Act::Judge(vec![transfer]));
                Ok(transaction)
            }
            used => Err(used),
        })
    }

    /// Returns the state of an authorization's nonce on the chain.
    pub(super) fn nonce_of(&self, payment: PaymentId) -> NonceState {
        self.with(|script| script.nonce_of(payment))
    }

    /// Returns a hash that no transaction has.
    pub(super) fn unused_hash(&self) -> TxHash {
        self.with(Script::fresh_hash)
    }

    /// Sets the outcome of [`check`](Verifier::check). Default: `Ok`.
    pub fn answer_check(&self, outcome: Result<(), VerifyError>) {
        self.with(|script| script.check = outcome);
    }

    /// Returns the number of requests for a verdict.
    #[must_use]
    pub fn calls(&self) -> usize {
        self.with(|script| script.calls)
    }

    fn act(&self, transaction: TxHash, act: Act) {
        self.with(|script| script.set(transaction, act));
    }

    fn with<T>(&self, change: impl FnOnce(&mut Script) -> T) -> T {
        change(&mut self.script.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Script {
    const fn height(&self) -> u64 {
        self.head.unix() / BLOCK_TIME.as_secs()
    }

    /// Adds a transaction, or replaces it.
    fn set(&mut self, transaction: TxHash, act: Act) {
        self.remove(transaction);
        for payment in act.authorizations() {
            self.users.entry(payment).or_default().push(transaction);
        }
        self.transactions.insert(transaction, act);
    }

    fn remove(&mut self, transaction: TxHash) {
        let Some(act) = self.transactions.remove(&transaction) else { return };
        for payment in act.authorizations() {
            self.users.entry(payment).or_default().retain(|user| *user != transaction);
        }
    }

    fn nonce_of(&self, payment: PaymentId) -> NonceState {
        match self.users.get(&payment).and_then(|users| users.first()) {
            Some(transaction) => NonceState::Used(*transaction),
            None if self.spent.contains(&payment) => NonceState::Spent,
            None => NonceState::Unused,
        }
    }

    /// Returns a hash that no transaction has had: a counter behind a recognizable prefix.
    fn fresh_hash(&mut self) -> TxHash {
        self.minted += 1;
        let mut bytes = [0xfa; 32];
        bytes[24..].copy_from_slice(&self.minted.to_be_bytes());
        TxHash::new(bytes)
    }
}

impl Verifier for ScriptedVerifier {
    async fn check(&self, _network: Network, _assets: &[Asset]) -> Result<(), VerifyError> {
        self.with(|script| script.check.clone())
    }

    async fn verify(&self, terms: &Terms, transaction: TxHash) -> Result<Verdict, VerifyError> {
        let delay = self.with(|script| {
            script.calls += 1;
            script.delay
        });
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        let (act, head) = self.with(|script| match script.outage.clone() {
            Some(error) => (Some(Act::Say(Err(error))), script.head),
            None => (script.transactions.get(&transaction).cloned(), script.head),
        });
        match act {
            Some(Act::Judge(transfers)) => Ok(judge(transfers, terms, head)),
            Some(Act::Say(outcome)) => outcome,
            Some(Act::Hang) => std::future::pending().await,
            None => Ok(Verdict::NotConfirmed { retry_after: BLOCK_TIME }),
        }
    }

    async fn head(&self) -> Result<ChainTime, VerifyError> {
        self.with(|script| script.outage.clone().map_or(Ok(script.head), Err))
    }

    async fn horizon(&self) -> Result<ChainTime, VerifyError> {
        self.head().await
    }

    fn signatures(&self) -> Option<&impl Signatures> {
        Some(self)
    }
}

impl Signatures for ScriptedVerifier {
    async fn signer(
        &self,
        message: &str,
        signature: &PaymentSignature,
        accounts: &[Address],
    ) -> Result<Option<Address>, VerifyError> {
        self.with(|script| script.outage.clone().map_or(Ok(()), Err))?;
        let signed = |account: &&Address| scripted_signature(**account, message) == *signature;
        Ok(accounts.iter().find(signed).copied())
    }

    async fn domain(&self, token: Address) -> Result<Option<TokenDomain>, VerifyError> {
        self.with(|script| match script.outage.clone() {
            Some(error) => Err(error),
            None => Ok(TokenDomain::usdc_of(script.network).filter(|domain| domain.token == token)),
        })
    }

    async fn nonce_state(
        &self,
        token: Address,
        payer: Address,
        nonce: &[u8; 32],
        _since: ChainTime,
    ) -> Result<NonceState, VerifyError> {
        self.with(|script| match script.outage.clone() {
            Some(error) => Err(error),
            None => Ok(script.nonce_of(PaymentId::of_authorization(script.network, token, payer, *nonce))),
        })
    }

    async fn permit_state(&self, permit: &Permit, _since: ChainTime) -> Result<NonceState, VerifyError> {
        self.with(|script| match script.outage.clone() {
            Some(error) => Err(error),
            None => Ok(script.nonce_of(permit.payment_id(script.network))),
        })
    }
}

/// Returns the signature of this account over the message, as [`ScriptedVerifier`] knows it: no key is needed.
#[must_use]
#[doc(hidden)]
pub fn scripted_signature(account: Address, message: &str) -> PaymentSignature {
    let mut bytes = vec![0; 65];
    blake3::Hasher::new().update(account.as_bytes()).update(message.as_bytes()).finalize_xof().fill(&mut bytes);
    // 65 bytes are within the limit.
    PaymentSignature::new(bytes).unwrap_or_else(|_| unreachable!())
}

/// Judges transfers of one block by the rules of a real verifier.
fn judge(transfers: Vec<Transfer>, terms: &Terms, head: ChainTime) -> Verdict {
    let Some(mined) = transfers.first().map(|transfer| transfer.block_time) else { return Verdict::NoTransfer };
    if mined > head {
        return Verdict::NotConfirmed { retry_after: BLOCK_TIME };
    }
    if mined.after(terms.max_payment_age()) < head {
        return Verdict::TooOld;
    }
    let (enough, short): (Vec<_>, Vec<_>) = transfers
        .into_iter()
        .filter(|transfer| is_ours(transfer, terms))
        .partition(|transfer| transfer.amount >= terms.amount());
    match short.iter().map(|transfer| transfer.amount).max() {
        _ if !enough.is_empty() => Verdict::Paid { transfers: enough, head },
        Some(paid) => Verdict::Insufficient { paid },
        None => Verdict::NoTransfer,
    }
}

/// Returns whether a transfer of an accepted token goes from another account to the recipient.
fn is_ours(transfer: &Transfer, terms: &Terms) -> bool {
    transfer.network == terms.network()
        && transfer.recipient == terms.recipient()
        && ![Address::ZERO, terms.recipient()].contains(&transfer.payer)
        && terms.assets().iter().any(|asset| asset.network() == transfer.network && asset.contract() == transfer.token)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Binding;

    const SELLER: Address = Address::new([1; 20]);
    const BUYER: Address = Address::new([2; 20]);
    const HEAD: ChainTime = ChainTime::from_unix(1_000_000);
    const AGE: Duration = Duration::from_secs(100);

    fn terms(price: u128) -> Terms {
        Terms::builder(Network::BASE, SELLER, Amount::from_base_units(price))
            .resource("r")
            .assets([Asset::USDC_BASE])
            .max_payment_age(AGE)
            .build()
    }

    fn transfer(amount: u128, position: u32) -> Transfer {
        Transfer::new(Network::BASE, TxHash::new([0; 32]), position)
            .with_token(Asset::USDC_BASE.contract())
            .with_payer(BUYER)
            .with_recipient(SELLER)
            .with_amount(Amount::from_base_units(amount))
            .with_block(1, HEAD)
    }

    #[tokio::test]
    async fn only_what_qualifies_is_paid() {
        let chain = ScriptedVerifier::new(HEAD);
        let tx = TxHash::new([9; 32]);
        let foreign = [
            Transfer { network: Network::BASE_SEPOLIA, ..transfer(9, 2) },
            Transfer { token: Asset::USDBC_BASE.contract(), ..transfer(9, 3) },
            Transfer { recipient: BUYER, ..transfer(9, 4) },
            Transfer { payer: SELLER, ..transfer(9, 5) },
            Transfer { payer: Address::ZERO, ..transfer(9, 6) },
        ];
        chain.mine(tx, [transfer(4, 0), transfer(5, 1)].into_iter().chain(foreign.clone()));
        let Verdict::Paid { transfers, head } = chain.verify(&terms(5), tx).await.unwrap() else {
            unreachable!("it is paid")
        };
        assert_eq!((transfers, head), (vec![Transfer { transaction: tx, ..transfer(5, 1) }], HEAD));
        let paid = Amount::from_base_units(5);
        assert_eq!(chain.verify(&terms(6), tx).await.unwrap(), Verdict::Insufficient { paid });
        chain.mine(tx, foreign);
        assert_eq!(chain.verify(&terms(1), tx).await.unwrap(), Verdict::NoTransfer);
        chain.mine(tx, []);
        assert_eq!(chain.verify(&terms(1), tx).await.unwrap(), Verdict::NoTransfer);
    }

    /// An authorization is used as long as any transaction that uses it is in the chain.
    #[tokio::test]
    async fn an_authorization_is_used_by_the_transactions_that_are_there() {
        let chain = ScriptedVerifier::new(HEAD);
        let [first, second] = [1, 2].map(|byte| TxHash::new([byte; 32]));
        let by_nonce = |nonce| transfer(5, 0).with_binding(Binding::none().with_nonce([nonce; 32]));
        let state =
            async |nonce: u8| chain.nonce_state(Asset::USDC_BASE.contract(), BUYER, &[nonce; 32], HEAD).await.unwrap();
        chain.mine(first, [by_nonce(7)]);
        chain.mine(second, [transfer(5, 0), by_nonce(7), by_nonce(8)]);
        assert_eq!([state(7).await, state(8).await], [NonceState::Used(first), NonceState::Used(second)]);
        chain.forget(first);
        assert_eq!(state(7).await, NonceState::Used(second));
        chain.answer(second, Verdict::TooOld);
        assert_eq!([state(7).await, state(8).await], [NonceState::Unused; 2]);
        chain.mine(second, [by_nonce(9)]);
        chain.mine(second, [by_nonce(8)]);
        assert_eq!([state(9).await, state(8).await], [NonceState::Unused, NonceState::Used(second)]);
        chain.cancel(Asset::USDC_BASE.contract(), BUYER, [7; 32]);
        assert_eq!(state(7).await, NonceState::Spent);
    }

    #[tokio::test]
    async fn a_payment_counts_from_its_block_until_its_age() {
        let chain = ScriptedVerifier::new(HEAD);
        let tx = chain.pay(SELLER, Asset::USDC_BASE.contract(), BUYER, Amount::from_base_units(1), HEAD);
        let mut seen = Vec::new();
        for head in [HEAD.unix() - 1, HEAD.unix(), HEAD.unix() + 100, HEAD.unix() + 101] {
            chain.set_head(ChainTime::from_unix(head));
            seen.push(chain.verify(&terms(1), tx).await.unwrap());
        }
        assert!(matches!(
            seen[..],
            [Verdict::NotConfirmed { .. }, Verdict::Paid { .. }, Verdict::Paid { .. }, Verdict::TooOld]
        ));
    }

    #[tokio::test(start_paused = true)]
    async fn it_does_as_it_is_told() {
        let chain = ScriptedVerifier::new(HEAD);
        let [unknown, told, failing, hanging] = [1, 2, 3, 4].map(|byte| TxHash::new([byte; 32]));
        let error = VerifyError::unavailable();
        chain.answer(told, Verdict::TooOld);
        chain.fail(failing, error.clone());
        chain.hang(hanging);
        chain.delay(Duration::from_secs(1));
        let started = tokio::time::Instant::now();
        assert!(matches!(chain.verify(&terms(1), unknown).await, Ok(Verdict::NotConfirmed { .. })));
        assert_eq!(started.elapsed(), Duration::from_secs(1));
        assert_eq!(chain.verify(&terms(1), told).await, Ok(Verdict::TooOld));
        assert_eq!(chain.verify(&terms(1), failing).await, Err(error.clone()));
        let (terms, year) = (terms(1), Duration::from_secs(31_536_000));
        assert!(tokio::time::timeout(year, chain.verify(&terms, hanging)).await.is_err());
        chain.forget(told);
        assert!(matches!(chain.verify(&terms, told).await, Ok(Verdict::NotConfirmed { .. })));
        chain.outage(error.clone());
        assert_eq!((chain.verify(&terms, told).await, chain.head().await), (Err(error.clone()), Err(error.clone())));
        chain.outage(None);
        assert_eq!(chain.head().await, Ok(HEAD));
        assert_eq!(chain.calls(), 6);
        chain.answer_check(Err(error.clone()));
        assert_eq!(chain.check(Network::BASE, &[]).await, Err(error));
    }
}
