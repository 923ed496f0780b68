//! `ScriptedVerifier`: a chain that says what a test tells it to say.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use crate::{
    protocol::{Address, Amount, Asset, ChainTime, Network, Terms, Transfer, TxHash},
    verify::{Verdict, Verifier, VerifyError},
};

/// Base makes a block every two seconds.
const BLOCK_TIME: Duration = Duration::from_secs(2);

/// A chain without a chain: it has the transactions that a test puts on it, and judges them by the terms it is asked
/// about, as a real verifier does. Clones are handles on one chain.
///
/// What it was not told of is [`Verdict::NotConfirmed`].
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
///     Terms::new("insights", Network::BASE, seller, [Asset::USDC_BASE], price, Duration::from_secs(86_400))
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
    check: Result<(), VerifyError>,
    outage: Option<VerifyError>,
    delay: Duration,
    calls: usize,
    minted: u64,
}

/// What a transaction is answered with.
#[derive(Clone, Debug)]
enum Act {
    Judge(Vec<Transfer>),
    Say(Result<Verdict, VerifyError>),
    Hang,
}

impl ScriptedVerifier {
    /// An empty Base whose head has this time.
    #[must_use]
    pub fn new(head: ChainTime) -> Self {
        Self::on(Network::BASE, head)
    }

    /// An empty chain whose head has this time.
    #[must_use]
    pub fn on(network: Network, head: ChainTime) -> Self {
        let script = Script {
            network,
            head,
            transactions: HashMap::new(),
            check: Ok(()),
            outage: None,
            delay: Duration::ZERO,
            calls: 0,
            minted: 0,
        };
        Self { script: Arc::new(Mutex::new(script)) }
    }

    /// Puts a transaction with one transfer on the chain, and tells its hash. It counts once the head's time is not
    /// below its `block_time`.
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
            let transfer = Transfer {
                network: script.network,
                transaction,
                position: 0,
                token,
                payer,
                recipient,
                amount,
                block_number: block_time.unix() / BLOCK_TIME.as_secs(),
                block_time,
            };
            script.transactions.insert(transaction, Act::Judge(vec![transfer]));
            transaction
        })
    }

    /// Puts a transaction with these transfers on the chain, in place of what it was before. Their `transaction` is
    /// overwritten with this hash; none at all is a transaction that pays nobody.
    pub fn mine(&self, transaction: TxHash, transfers: impl IntoIterator<Item = Transfer>) {
        let transfers = transfers.into_iter().map(|transfer| Transfer { transaction, ..transfer }).collect();
        self.act(transaction, Act::Judge(transfers));
    }

    /// Says this of a transaction from now on, whatever the terms.
    pub fn answer(&self, transaction: TxHash, verdict: Verdict) {
        self.act(transaction, Act::Say(Ok(verdict)));
    }

    /// Fails whenever it is asked about this transaction.
    pub fn fail(&self, transaction: TxHash, error: VerifyError) {
        self.act(transaction, Act::Say(Err(error)));
    }

    /// Never answers when it is asked about this transaction.
    pub fn hang(&self, transaction: TxHash) {
        self.act(transaction, Act::Hang);
    }

    /// Forgets a transaction, as a reorganisation does.
    pub fn forget(&self, transaction: TxHash) {
        self.with(|script| script.transactions.remove(&transaction));
    }

    /// Fails whatever it is asked, the head included, until it is told `None`.
    pub fn outage(&self, error: impl Into<Option<VerifyError>>) {
        let error = error.into();
        self.with(|script| script.outage = error);
    }

    /// Takes this long for every verdict, in tokio's time.
    pub fn delay(&self, delay: Duration) {
        self.with(|script| script.delay = delay);
    }

    /// Moves the head.
    pub fn set_head(&self, head: ChainTime) {
        self.with(|script| script.head = head);
    }

    /// Moves the head on by one block, and tells its time.
    #[cfg(feature = "client")]
    pub(super) fn next_block(&self) -> ChainTime {
        self.with(|script| {
            script.head = script.head.after(BLOCK_TIME);
            script.head
        })
    }

    /// Answers [`check`](Verifier::check) with this; with `Ok` unless told otherwise.
    pub fn answer_check(&self, outcome: Result<(), VerifyError>) {
        self.with(|script| script.check = outcome);
    }

    /// How often it was asked for a verdict.
    #[must_use]
    pub fn calls(&self) -> usize {
        self.with(|script| script.calls)
    }

    fn act(&self, transaction: TxHash, act: Act) {
        self.with(|script| script.transactions.insert(transaction, act));
    }

    fn with<T>(&self, change: impl FnOnce(&mut Script) -> T) -> T {
        change(&mut self.script.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Script {
    /// A hash that no transaction has had: a counter behind a mark, so that it is easy to see where it comes from.
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
}

/// The rules of a real verifier, for transfers that are all of one block.
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

/// An accepted token, from somebody else, to the recipient.
fn is_ours(transfer: &Transfer, terms: &Terms) -> bool {
    transfer.network == terms.network()
        && transfer.recipient == terms.recipient()
        && ![Address::ZERO, terms.recipient()].contains(&transfer.payer)
        && terms.assets().iter().any(|asset| asset.network() == transfer.network && asset.contract() == transfer.token)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SELLER: Address = Address::new([1; 20]);
    const BUYER: Address = Address::new([2; 20]);
    const HEAD: ChainTime = ChainTime::from_unix(1_000_000);
    const AGE: Duration = Duration::from_secs(100);

    fn terms(price: u128) -> Terms {
        Terms::new("r", Network::BASE, SELLER, [Asset::USDC_BASE], Amount::from_base_units(price), AGE)
    }

    fn transfer(amount: u128, position: u32) -> Transfer {
        Transfer {
            network: Network::BASE,
            transaction: TxHash::new([0; 32]),
            position,
            token: Asset::USDC_BASE.contract(),
            payer: BUYER,
            recipient: SELLER,
            amount: Amount::from_base_units(amount),
            block_number: 1,
            block_time: HEAD,
        }
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
