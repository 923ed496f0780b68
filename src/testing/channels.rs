//! `ScriptedChannels`: a settler of channels whose state and failures a test controls.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    future::pending,
    sync::{Arc, Mutex, PoisonError},
};

use crate::{
    protocol::{
        Address, Amount, Network, TxHash,
        channel::{ChannelConfig, ChannelDeposit, ChannelId, DepositAuthorization, Voucher, VoucherClaim},
        v2::Reason,
    },
    settle::{
        ChannelOnChain, ChannelRefund, ChannelSettler, ClaimOutcome, RefusedClaim, SettleError, Settlement,
        SweepOutcome, TransactionRecorder, Validity,
    },
};

/// The reason why a voucher over more than the channel's balance cannot be claimed.
const UNCOVERED: Reason = Reason::INVALID_BATCH_SETTLEMENT_EVM_CUMULATIVE_EXCEEDS_BALANCE;

/// A settler of channels on a simulated contract, which behaves like the real one unless scripted otherwise. It
/// ignores signatures. Clones share one script.
///
/// ```
/// use tower_x402::{
///     protocol::{
///         Address, Amount, Asset, ChainTime, Network, PaymentSignature,
///         channel::{ChannelConfig, ChannelDeposit, Erc3009Deposit, Voucher, VoucherClaim},
///     },
///     settle::{ChannelSettler as _, ClaimOutcome, Settlement, TransactionRecorder},
///     testing::{ChannelStep, ScriptedChannels},
/// };
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let settler = ScriptedChannels::new(Address::new([0xfa; 20]));
/// let channel = ChannelConfig::new(Address::new([1; 20]), Address::new([2; 20]), Asset::USDC_BASE.contract());
/// let signature = PaymentSignature::new([7; 65])?;
/// let times = [0, 1_893_456_000].map(ChainTime::from_unix);
/// let deposit = ChannelDeposit::new(100, Erc3009Deposit::new([9; 32], times, signature.clone()));
///
/// settler.script([ChannelStep::Unknown]);
/// let voucher = Voucher::new(channel.id(Network::BASE), 40, signature);
/// let make = async || settler.deposit(Network::BASE, &channel, &deposit, &voucher, &TransactionRecorder::none()).await;
/// assert_eq!(make().await, Settlement::Unknown(None));
/// assert!(matches!(make().await, Settlement::Settled(_)));
/// assert_eq!(settler.channel_state(Network::BASE, &channel).await?.balance, Amount::from_base_units(100));
///
/// let claimed = settler.claim(Network::BASE, &[VoucherClaim::new(channel, voucher, 30)]).await?;
/// assert!(matches!(claimed, ClaimOutcome::Claimed(Some(_))));
/// assert_eq!(settler.channel_state(Network::BASE, &channel).await?.total_claimed, Amount::from_base_units(30));
/// assert_eq!((settler.deposits(), settler.claims().len()), (2, 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct ScriptedChannels {
    script: Arc<Mutex<Script>>,
}

/// The outcome of a deposit, a claim, a sweep or a refund.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChannelStep {
    /// It is done, and reported as done.
    Done,
    /// It is done, and reported as not known, with its transaction.
    DoneUnsure,
    /// It is done, and reported as not known, without its transaction.
    DoneUnheard,
    /// It is done, and no report ever comes.
    DoneHanging,
    /// Nothing is done, and it is reported as refused: for a claim, its first row.
    Refused(Reason),
    /// Nothing is done, and it is reported as not known.
    Unknown,
    /// Nothing is done, and no report ever comes.
    Hanging,
    /// Nothing is done, and the settler cannot be reached. A deposit's or refund's outcome is then unknown.
    Outage(SettleError),
}

#[derive(Debug)]
struct Script {
    authorizer: Option<Address>,
    by_permit2: bool,
    channels: HashMap<ChannelId, ChannelOnChain>,
    /// The authorizations of completed deposits.
    used: HashSet<[u8; 32]>,
    /// The claimed and unswept amounts, by receiver and token.
    unswept: HashMap<(Address, Address), Amount>,
    steps: VecDeque<ChannelStep>,
    always: ChannelStep,
    outage: Option<SettleError>,
    signed_by_account: bool,
    deposit_validity: Option<Validity>,
    claim_cost: Option<Amount>,
    reads: usize,
    deposits: usize,
    claims: Vec<Vec<VoucherClaim>>,
    refunds: Vec<ChannelRefund>,
    transactions: u64,
}

impl ScriptedChannels {
    /// Creates a settler whose claims and refunds this account signs.
    #[must_use]
    pub fn new(receiver_authorizer: Address) -> Self {
        let script = Script {
            authorizer: Some(receiver_authorizer),
            by_permit2: true,
            channels: HashMap::new(),
            used: HashSet::new(),
            unswept: HashMap::new(),
            steps: VecDeque::new(),
            always: ChannelStep::Done,
            outage: None,
            signed_by_account: true,
            deposit_validity: None,
            claim_cost: None,
            reads: 0,
            deposits: 0,
            claims: Vec::new(),
            refunds: Vec::new(),
            transactions: 0,
        };
        Self { script: Arc::new(Mutex::new(script)) }
    }

    /// Sets the receiver authorizer. With `None`, there are no channels.
    pub fn set_receiver_authorizer(&self, authorizer: impl Into<Option<Address>>) {
        let authorizer = authorizer.into();
        self.with(|script| script.authorizer = authorizer);
    }

    /// Sets whether deposits by Permit2 are possible, which is the default.
    pub fn set_permit2_deposits(&self, possible: bool) {
        self.with(|script| script.by_permit2 = possible);
    }

    /// Sets the state of a channel on the chain.
    pub fn set_state(&self, channel: ChannelId, state: ChannelOnChain) {
        self.with(|script| script.channels.insert(channel, state));
    }

    /// Returns the state of a channel on the chain, without counting a read.
    #[must_use]
    pub fn state(&self, channel: ChannelId) -> ChannelOnChain {
        self.with(|script| script.channels.get(&channel).copied().unwrap_or_default())
    }

    /// Sets the outcomes of the next deposits, claims, sweeps and refunds, in order. Later ones are done.
    pub fn script(&self, steps: impl IntoIterator<Item = ChannelStep>) {
        self.with(|script| script.steps.extend(steps));
    }

    /// Sets the outcome of all operations without a scripted one.
    pub fn always(&self, step: ChannelStep) {
        self.with(|script| script.always = step);
    }

    /// Makes every question and every operation fail. `None` ends the outage.
    pub fn outage(&self, error: impl Into<Option<SettleError>>) {
        let error = error.into();
        self.with(|script| script.outage = error);
    }

    /// Sets whether payers' accounts confirm the signatures of vouchers, which is the default.
    pub fn signed_by_account(&self, signed: bool) {
        self.with(|script| script.signed_by_account = signed);
    }

    /// Sets the cost of a claim, in base units of any token, for any number of channels. It is unknown by default.
    pub fn answer_claim_cost(&self, cost: impl Into<Option<Amount>>) {
        self.with(|script| script.claim_cost = cost.into());
    }

    /// Sets the outcome of [`verify_deposit`](ChannelSettler::verify_deposit). `None`: it depends on whether the
    /// authorization is used.
    pub fn answer_verify(&self, validity: impl Into<Option<Validity>>) {
        let validity = validity.into();
        self.with(|script| script.deposit_validity = validity);
    }

    /// Returns how often the state of a channel was read.
    #[must_use]
    pub fn reads(&self) -> usize {
        self.with(|script| script.reads)
    }

    /// Returns the number of deposits that were requested.
    #[must_use]
    pub fn deposits(&self) -> usize {
        self.with(|script| script.deposits)
    }

    /// Returns the requested claims, in order.
    #[must_use]
    pub fn claims(&self) -> Vec<Vec<VoucherClaim>> {
        self.with(|script| script.claims.clone())
    }

    /// Returns the requested refunds, in order.
    #[must_use]
    pub fn refunds(&self) -> Vec<ChannelRefund> {
        self.with(|script| script.refunds.clone())
    }

    fn with<T>(&self, change: impl FnOnce(&mut Script) -> T) -> T {
        change(&mut self.script.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn available(&self) -> Result<(), SettleError> {
        self.with(|script| script.outage.clone().map_or(Ok(()), Err))
    }

    fn step(&self) -> ChannelStep {
        self.with(|script| match &script.outage {
            Some(error) => ChannelStep::Outage(error.clone()),
            None => script.steps.pop_front().unwrap_or_else(|| script.always.clone()),
        })
    }

    /// Performs an act by the next step, and reports it. An impossible act changes nothing.
    async fn settled(&self, act: impl FnOnce(&mut Script) -> Result<TxHash, Settlement>) -> Settlement {
        let step = self.step();
        match step {
            ChannelStep::Refused(reason) => return Settlement::Refused(reason),
            ChannelStep::Unknown | ChannelStep::Outage(_) => return Settlement::Unknown(None),
            ChannelStep::Hanging => return pending().await,
            ChannelStep::Done | ChannelStep::DoneUnsure | ChannelStep::DoneUnheard | ChannelStep::DoneHanging => {}
        }
        match (self.with(act), step) {
            (Err(otherwise), _) => otherwise,
            (Ok(transaction), ChannelStep::DoneUnsure) => Settlement::Unknown(Some(transaction)),
            (Ok(_), ChannelStep::DoneUnheard) => Settlement::Unknown(None),
            (Ok(_), ChannelStep::DoneHanging) => pending().await,
            (Ok(transaction), _) => Settlement::Settled(transaction),
        }
    }

    /// Performs an act that can be repeated. Without a transaction, there was nothing to do.
    async fn repeatable(
        &self,
        act: impl FnOnce(&mut Script) -> Option<TxHash>,
    ) -> Result<Result<Option<TxHash>, Unsure>, SettleError> {
        let step = self.step();
        match step {
            ChannelStep::Refused(reason) => return Ok(Err(Unsure::Refused(reason))),
            ChannelStep::Unknown => return Ok(Err(Unsure::Unknown(None))),
            ChannelStep::Outage(error) => return Err(error),
            ChannelStep::Hanging => return pending().await,
            ChannelStep::Done | ChannelStep::DoneUnsure | ChannelStep::DoneUnheard | ChannelStep::DoneHanging => {}
        }
        let transaction = self.with(act);
        match step {
            ChannelStep::DoneUnsure => Ok(Err(Unsure::Unknown(transaction))),
            ChannelStep::DoneUnheard => Ok(Err(Unsure::Unknown(None))),
            ChannelStep::DoneHanging => pending().await,
            _ => Ok(Ok(transaction)),
        }
    }
}

/// Why a repeatable act is not reported as done.
enum Unsure {
    Refused(Reason),
    Unknown(Option<TxHash>),
}

impl Script {
    fn mine(&mut self) -> TxHash {
        self.transactions += 1;
        let mut hash = [0xc4; 32];
        hash[24..].copy_from_slice(&self.transactions.to_be_bytes());
        TxHash::new(hash)
    }

    fn make(&mut self, channel: ChannelId, deposit: &ChannelDeposit) -> Result<TxHash, Settlement> {
        if !self.used.insert(nonce_of(channel, deposit)) {
            return Err(Settlement::Unknown(None));
        }
        let state = self.channels.entry(channel).or_default();
        let deposited = Amount::from_base_units(deposit.amount);
        state.balance = state.balance.checked_add(deposited).unwrap_or(Amount::MAX);
        Ok(self.mine())
    }

    /// Claims the part of a total that is above the claimed total.
    fn claim(&mut self, network: Network, claim: &VoucherClaim) -> bool {
        let state = self.channels.entry(claim.config.id(network)).or_default();
        let total = Amount::from_base_units(claim.total_claimed);
        let Some(more) = total.checked_sub(state.total_claimed).filter(|more| !more.is_zero()) else { return false };
        (state.total_claimed, state.claimed_at_most) = (total, total);
        let unswept = self.unswept.entry((claim.config.receiver, claim.config.token)).or_insert(Amount::ZERO);
        *unswept = unswept.checked_add(more).unwrap_or(Amount::MAX);
        true
    }

    fn covers(&self, network: Network, claim: &VoucherClaim) -> bool {
        let state = self.channels.get(&claim.config.id(network)).copied().unwrap_or_default();
        Amount::from_base_units(claim.total_claimed) <= state.balance
    }

    fn refund(&mut self, network: Network, refund: &ChannelRefund) -> Result<TxHash, Settlement> {
        let channel = refund.config.id(network);
        if self.channels.get(&channel).copied().unwrap_or_default().refund_nonce != refund.nonce {
            return Err(Settlement::Unknown(None));
        }
        let state = self.channels.get(&channel).copied().unwrap_or_default();
        let to_claim = refund.claim.as_ref().map_or(0, |claim| claim.total_claimed);
        let sold = state.total_claimed.max(Amount::from_base_units(to_claim));
        let amount = Amount::from_base_units(refund.amount);
        if amount.is_zero() || sold.checked_add(amount).is_none_or(|needed| needed > state.balance) {
            return Err(Settlement::Refused(Reason::INVALID_BATCH_SETTLEMENT_EVM_REFUND_AMOUNT_INVALID));
        }
        if let Some(claim) = &refund.claim {
            self.claim(network, claim);
        }
        let state = self.channels.entry(channel).or_default();
        state.balance = state.balance.checked_sub(amount).unwrap_or(Amount::ZERO);
        state.refund_nonce += 1;
        Ok(self.mine())
    }
}

/// Returns the nonce that identifies the authorization of a deposit.
fn nonce_of(channel: ChannelId, deposit: &ChannelDeposit) -> [u8; 32] {
    match &deposit.authorization {
        DepositAuthorization::Erc3009(by) => channel.deposit_nonce(&by.salt),
        DepositAuthorization::Permit2(by) => by.nonce,
    }
}

impl ChannelSettler for ScriptedChannels {
    async fn receiver_authorizer(&self, _network: Network, _token: Address) -> Result<Option<Address>, SettleError> {
        self.available()?;
        Ok(self.with(|script| script.authorizer))
    }

    async fn deposits_by_permit2(&self, _network: Network, _token: Address) -> Result<bool, SettleError> {
        self.available()?;
        Ok(self.with(|script| script.by_permit2))
    }

    async fn channel_state(&self, network: Network, config: &ChannelConfig) -> Result<ChannelOnChain, SettleError> {
        self.with(|script| script.reads += 1);
        self.available()?;
        Ok(self.state(config.id(network)))
    }

    async fn is_signed_by_account(
        &self,
        _network: Network,
        _config: &ChannelConfig,
        _voucher: &Voucher,
    ) -> Result<bool, SettleError> {
        self.available()?;
        Ok(self.with(|script| script.signed_by_account))
    }

    async fn verify_deposit(
        &self,
        network: Network,
        config: &ChannelConfig,
        deposit: &ChannelDeposit,
        _voucher: &Voucher,
    ) -> Result<Validity, SettleError> {
        self.available()?;
        let nonce = nonce_of(config.id(network), deposit);
        Ok(self.with(|script| {
            let used = if script.used.contains(&nonce) { Validity::Used } else { Validity::Valid };
            script.deposit_validity.clone().unwrap_or(used)
        }))
    }

    async fn deposit(
        &self,
        network: Network,
        config: &ChannelConfig,
        deposit: &ChannelDeposit,
        _voucher: &Voucher,
        _recorder: &TransactionRecorder,
    ) -> Settlement {
        self.with(|script| script.deposits += 1);
        self.settled(|script| script.make(config.id(network), deposit)).await
    }

    async fn claim(&self, network: Network, claims: &[VoucherClaim]) -> Result<ClaimOutcome, SettleError> {
        self.with(|script| script.claims.push(claims.to_vec()));
        let refused = self.with(|script| {
            let uncovered = claims.iter().enumerate().filter(|(_, claim)| !script.covers(network, claim));
            uncovered.map(|(row, _)| RefusedClaim::new(row, UNCOVERED)).collect::<Vec<_>>()
        });
        if !refused.is_empty() {
            return Ok(ClaimOutcome::Refused(refused));
        }
        let claim_all = |script: &mut Script| {
            let claimed = claims.iter().filter(|claim| script.claim(network, claim)).count();
            (claimed > 0).then(|| script.mine())
        };
        Ok(match self.repeatable(claim_all).await? {
            Ok(transaction) => ClaimOutcome::Claimed(transaction),
            Err(Unsure::Refused(reason)) => ClaimOutcome::Refused(vec![RefusedClaim::new(0, reason)]),
            Err(Unsure::Unknown(transaction)) => ClaimOutcome::Unknown(transaction),
        })
    }

    async fn claim_cost(
        &self,
        _network: Network,
        _token: Address,
        _channels: usize,
    ) -> Result<Option<Amount>, SettleError> {
        self.available()?;
        Ok(self.with(|script| script.claim_cost))
    }

    async fn sweep(&self, _network: Network, receiver: Address, token: Address) -> Result<SweepOutcome, SettleError> {
        let mut amount = Amount::ZERO;
        let sweep = |script: &mut Script| {
            amount = script.unswept.remove(&(receiver, token))?;
            Some(script.mine())
        };
        let swept = self.repeatable(sweep).await?;
        Ok(match swept {
            Ok(None) => SweepOutcome::Nothing,
            Ok(Some(transaction)) => SweepOutcome::Swept { transaction, amount },
            Err(Unsure::Unknown(transaction)) => SweepOutcome::Unknown(transaction),
            Err(Unsure::Refused(reason)) => SweepOutcome::Refused(reason),
        })
    }

    async fn refund(&self, network: Network, refund: &ChannelRefund, _recorder: &TransactionRecorder) -> Settlement {
        self.with(|script| script.refunds.push(refund.clone()));
        self.settled(|script| script.refund(network, refund)).await
    }
}
