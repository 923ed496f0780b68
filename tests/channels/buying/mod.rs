//! The client buys by channels: at a seller in this process, by way of a line that sees, loses and changes what passes.

mod adopting;
mod budgets;
mod closing;
mod corrections;
mod deposited;
mod drops;
mod hostile;
mod metered;
mod nodes;
mod on_chain;
mod paying;
mod permitted;
mod program;
mod terms;
mod unanswered;

use std::{
    collections::HashSet,
    convert::Infallible,
    future::Future,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    task::{Context, Poll},
};

use alloy::{
    primitives::B256,
    signers::{SignerSync as _, local::PrivateKeySigner},
};
use bytes::Bytes;
use http::{HeaderValue, Request, Response};
use http_body_util::{BodyExt as _, Full};
use tower::{Layer as _, Service, ServiceExt as _};
use tower_x402::{
    Charge, Redelivery, RequestBody, ResponseBody,
    client::{
        AuthorizationRequest, AuthorizationStatus, Authorizer, Body, Budget, BudgetBuilder, ChannelFunds,
        ChannelSigner, DepositRequest, Journal, JournalEntry, JournalError, MemoryJournal, Pay, PayError, PayLayer,
        PayLayerBuilder, Payer, PayerError, PaymentMethod, PermitDepositRequest, PermitFunds, PermitRequest,
        PermitSigner, PreparedAuthorization, PreparedPermit, PreparedTransfer, Purchase, SettledFunds, SubmitGuard,
        TransferRequest, TransferStatus,
    },
    clock::Clock as _,
    protocol::{
        Address, Amount, Asset, ChainTime, Network, PaymentSignature, TokenDomain, TxHash,
        channel::{
            ChannelConfig, ChannelDeposit, ChannelId, ChannelPayload, DepositAuthorization, Erc3009Deposit,
            Permit2Deposit, Voucher,
        },
        headers::{PAYMENT_RESPONSE, PAYMENT_SIGNATURE},
        permit2::SignedPermit,
        v2::{PaymentPayload, SchemePayload, SettleResponse, SignedAuthorization},
    },
    settle::ChannelOnChain,
    testing::{FakeClock, ScriptedChannels},
};

use crate::{
    counter::{PRICE, Stall, number, units},
    support::{Counter, NOW, faults::give_way},
};

pub type Sold = Response<ResponseBody<Full<Bytes>>>;
type Answered = Pin<Box<dyn Future<Output = Result<Sold, String>> + Send>>;
type Seller = tower::util::BoxCloneService<Request<Body>, Sold, Infallible>;

/// A payer with a key, whose chain is that of the seller's settler.
#[derive(Clone)]
pub struct Purse {
    pub key: PrivateKeySigner,
    pub channels: ScriptedChannels,
    /// Whether it holds enough of the token for any deposit.
    pub is_rich: bool,
    /// How much of it Permit2 may move.
    pub allowance: u128,
    pub clock: FakeClock,
    /// What another node says that a channel holds, and that is claimed of it.
    pub other_node: Arc<Mutex<Option<u128>>>,
    pub other_claims: Arc<Mutex<Option<u128>>>,
    /// What a channel holds in the blocks that are deep enough, where that is not what it holds now.
    pub deep: Arc<Mutex<Option<(u128, u128)>>>,
    /// Whether a withdrawal is shown by too few nodes.
    pub hides_withdrawals: Arc<AtomicBool>,
    /// What it signed: how many deposits, and which totals.
    pub signed: Arc<Mutex<(usize, Vec<u128>)>>,
}

impl Purse {
    fn sign(&self, digest: [u8; 32]) -> PaymentSignature {
        PaymentSignature::new(self.key.sign_hash_sync(&B256::new(digest)).unwrap().as_bytes()).unwrap()
    }

    pub fn account(&self) -> Address {
        Address::new(self.key.address().into_array())
    }

    pub fn deposits(&self) -> usize {
        self.signed.lock().unwrap().0
    }

    /// What the other node says that a channel holds, and that is claimed of it.
    fn other(&self, state: &ChannelOnChain) -> [Amount; 2] {
        let [holds, claims] = [&self.other_node, &self.other_claims].map(|other| other.lock().unwrap().map(units));
        [holds.unwrap_or(state.balance), claims.unwrap_or(state.total_claimed)]
    }
}

const NO: PayerError = PayerError::Refused("it pays by channels alone");

impl Payer for Purse {
    async fn submit_guard(&self, _: Network) -> SubmitGuard {
        SubmitGuard::free()
    }

    async fn prepare(&self, _: &TransferRequest) -> Result<PreparedTransfer, PayerError> {
        Err(NO)
    }

    async fn send(&self, _: &PreparedTransfer) -> Result<TxHash, PayerError> {
        Err(NO)
    }

    async fn status(&self, _: &[PreparedTransfer]) -> Result<TransferStatus, PayerError> {
        Err(NO)
    }

    async fn replace(&self, _: &[PreparedTransfer]) -> Result<Option<PreparedTransfer>, PayerError> {
        Err(NO)
    }

    async fn sign(&self, _: &str, _: Address) -> Result<Option<PaymentSignature>, PayerError> {
        Err(NO)
    }

    fn authorizations(&self) -> Option<&impl Authorizer> {
        Some(self)
    }

    fn permits(&self) -> Option<&impl PermitSigner> {
        Some(self)
    }

    fn channels(&self) -> Option<&impl ChannelSigner> {
        Some(self)
    }
}

impl PermitSigner for Purse {
    async fn permit_funds(&self, _: &Asset) -> Result<Option<PermitFunds>, PayerError> {
        give_way().await;
        let balance = if self.is_rich { Amount::MAX } else { Amount::ZERO };
        Ok(Some(PermitFunds::new(balance, units(self.allowance))))
    }

    async fn permit(&self, _: &PermitRequest) -> Result<SignedPermit, PayerError> {
        Err(NO)
    }

    async fn permit_status(&self, _: &PreparedPermit) -> Result<AuthorizationStatus, PayerError> {
        Err(NO)
    }

    async fn permit_charge(&self, _: &PreparedPermit, _: TxHash) -> Result<Option<Amount>, PayerError> {
        Err(NO)
    }
}

impl Authorizer for Purse {
    async fn authorizes(&self, asset: &Asset, _: Amount) -> Result<Option<TokenDomain>, PayerError> {
        Ok(TokenDomain::usdc_of(asset.network()).filter(|_| self.is_rich))
    }

    async fn authorize(&self, _: &AuthorizationRequest) -> Result<SignedAuthorization, PayerError> {
        Err(NO)
    }

    async fn authorization_status(
        &self,
        _: &PreparedAuthorization,
        _: ChainTime,
    ) -> Result<AuthorizationStatus, PayerError> {
        Err(NO)
    }

    async fn prepare_cancellation(&self, _: &PreparedAuthorization) -> Result<PreparedTransfer, PayerError> {
        Err(NO)
    }
}

impl ChannelSigner for Purse {
    async fn channel_account(&self, _: &Asset) -> Result<Option<Address>, PayerError> {
        give_way().await;
        Ok(Some(self.account()))
    }

    async fn voucher(
        &self,
        network: Network,
        channel: &ChannelConfig,
        total: u128,
    ) -> Result<PaymentSignature, PayerError> {
        give_way().await;
        self.signed.lock().unwrap().1.push(total);
        Ok(self.sign(channel.id(network).voucher_digest(total, network)))
    }

    fn signed_voucher(&self, network: Network, _: &ChannelConfig, voucher: &Voucher) -> bool {
        voucher.signer(network) == Some(self.account())
    }

    async fn deposit(&self, request: &DepositRequest) -> Result<Erc3009Deposit, PayerError> {
        give_way().await;
        self.signed.lock().unwrap().0 += 1;
        let times = [ChainTime::from_unix(0), request.valid_before(None)];
        let mut deposit = Erc3009Deposit::new(request.salt, times, PaymentSignature::new([7; 65]).unwrap());
        deposit.signature =
            self.sign(deposit.digest(&request.channel, request.amount, &request.domain, request.network));
        Ok(deposit)
    }

    async fn permit_deposit(&self, request: &PermitDepositRequest) -> Result<Permit2Deposit, PayerError> {
        give_way().await;
        self.signed.lock().unwrap().0 += 1;
        let mut deposit = request.deposit(None, PaymentSignature::new([7; 65]).unwrap());
        deposit.signature = self.sign(deposit.digest(request.network));
        Ok(deposit)
    }

    async fn deposit_status(
        &self,
        network: Network,
        channel: &ChannelConfig,
        deposit: &ChannelDeposit,
        _: ChainTime,
    ) -> Result<AuthorizationStatus, PayerError> {
        give_way().await;
        let holds = number(self.channels.state(channel.id(network)).balance);
        // Permit2 does not tell the transaction.
        let is_by_permit2 = matches!(deposit.authorization, DepositAuthorization::Permit2(_));
        let transaction = Some(TxHash::new([3; 32])).filter(|_| !is_by_permit2);
        let used = AuthorizationStatus::Used { transaction };
        Ok(if holds >= deposit.amount { used } else { AuthorizationStatus::Unused })
    }

    async fn channel_funds(&self, _: Network, channel: ChannelId) -> Result<ChannelFunds, PayerError> {
        give_way().await;
        let state = self.channels.state(channel);
        let [other, claims] = self.other(&state);
        let funds = ChannelFunds::new(state.balance.min(other), state.total_claimed.max(claims));
        Ok(match state.withdraw_requested_at.filter(|_| !self.hides_withdrawals.load(SeqCst)) {
            Some(since) => funds.withdrawing(state.withdrawing, since),
            None => funds,
        })
    }

    async fn settled_funds(&self, _: Network, channel: ChannelId) -> Result<SettledFunds, PayerError> {
        give_way().await;
        let state = self.channels.state(channel);
        let [other, claims] = self.other(&state);
        let funds = SettledFunds::new(state.balance, state.total_claimed, ChainTime::from_unix(self.clock.unix()));
        let funds = funds.or_worse(SettledFunds::new(other, claims, funds.time));
        let deep = self.deep.lock().unwrap().map(|(balance, claimed)| [balance, claimed].map(units));
        let deep = deep.map(|[balance, claimed]| SettledFunds::new(balance, claimed, funds.time).or_worse(funds));
        Ok(deep.map_or(funds, |deep| deep.with_least(funds.least)))
    }

    async fn begin_withdrawal(
        &self,
        network: Network,
        channel: &ChannelConfig,
        amount: u128,
    ) -> Result<TxHash, PayerError> {
        let id = channel.id(network);
        let state = self.channels.state(id);
        if state.balance.checked_sub(state.total_claimed).is_none_or(|left| left < units(amount)) {
            return Err(PayerError::Refused("the contract has no such amount left in the channel"));
        }
        self.channels.set_state(id, state.with_withdrawal(units(amount), ChainTime::from_unix(NOW)));
        Ok(TxHash::new([1; 32]))
    }

    async fn end_withdrawal(&self, network: Network, channel: &ChannelConfig) -> Result<TxHash, PayerError> {
        let id = channel.id(network);
        let state = self.channels.state(id);
        if state.withdraw_requested_at.is_none() {
            return Err(PayerError::Refused("no withdrawal was begun"));
        }
        let balance = state.balance.checked_sub(state.withdrawing).unwrap();
        self.channels.set_state(id, ChannelOnChain::new(balance, state.total_claimed));
        Ok(TxHash::new([2; 32]))
    }
}

/// What the line does with the answer to a payment, the so-many-th from 0.
type Script = dyn Fn(usize, Sold) -> Result<Sold, String> + Send + Sync;

/// The line to the seller. It looks at each payment that passes: the journal must have it.
#[derive(Clone)]
pub struct Line {
    seller: Arc<Mutex<Seller>>,
    journal: MemoryJournal,
    seen: Arc<Mutex<Vec<PaymentPayload>>>,
    script: Arc<Mutex<Arc<Script>>>,
}

impl Line {
    /// Does this with the answers to payments from now on.
    pub fn scripted(&self, script: impl Fn(usize, Sold) -> Result<Sold, String> + Send + Sync + 'static) {
        *self.script.lock().unwrap() = Arc::new(script);
    }

    /// The payments that passed.
    pub fn seen(&self) -> Vec<ChannelPayload> {
        let seen = self.seen.lock().unwrap();
        seen.iter().map(|payment| payload(payment).clone()).collect()
    }

    /// The totals of the vouchers that passed.
    pub fn totals(&self) -> Vec<u128> {
        self.seen().iter().map(|payment| payment.voucher().max_claimable).collect()
    }
}

fn payload(payment: &PaymentPayload) -> &ChannelPayload {
    let SchemePayload::Channel(payload) = &payment.payload else { panic!("{payment:?}") };
    payload
}

impl Service<Request<Body>> for Line {
    type Response = Sold;
    type Error = String;
    type Future = Answered;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), String>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Answered {
        let line = self.clone();
        Box::pin(async move {
            let payment = request.headers().contains_key(PAYMENT_SIGNATURE);
            let mut number = 0;
            if payment {
                let payment = PaymentPayload::from_headers(request.headers()).unwrap().unwrap();
                let shown = payload(&payment).voucher().signature.to_string();
                let is_refund = matches!(payload(&payment), ChannelPayload::Refund { .. });
                let is_kept = |entry: &JournalEntry| entry.to_record().unwrap().contains(&shown);
                assert!(is_refund || line.journal.entries().iter().any(is_kept), "shown before it was written down");
                let mut seen = line.seen.lock().unwrap();
                number = seen.len();
                seen.push(payment);
            }
            give_way().await;
            let seller = line.seller.lock().unwrap().clone();
            let mut answer = seller.oneshot(request).await.unwrap();
            // Channels are the only way to pay here.
            answer.headers_mut().remove("pay");
            give_way().await;
            let script = line.script.lock().unwrap().clone();
            if payment { script(number, answer) } else { Ok(answer) }
        })
    }
}

/// A journal that gives way around each write.
#[derive(Clone)]
struct SlowJournal(MemoryJournal);

impl Journal for SlowJournal {
    async fn load(&self) -> Result<Vec<JournalEntry>, JournalError> {
        self.0.load().await
    }

    async fn record(&self, entry: &JournalEntry) -> Result<(), JournalError> {
        give_way().await;
        self.0.record(entry).await?;
        give_way().await;
        Ok(())
    }
}

/// A seller, a payer and what is between them.
pub struct Trade {
    pub stall: Stall,
    pub purse: Purse,
    pub journal: MemoryJournal,
    pub line: Line,
    pub runs: Counter,
}

impl Trade {
    pub async fn open() -> Self {
        Self::selling(None).await
    }

    /// At a fixed price, or at this charge, of at most as much.
    pub async fn selling(charge: Option<u128>) -> Self {
        Self::at(Stall::open().await, charge)
    }

    pub fn at(stall: Stall, charge: Option<u128>) -> Self {
        let (runs, journal) = (Counter::default(), MemoryJournal::new());
        let counter = runs.clone();
        let handler = tower::service_fn(move |_: Request<RequestBody<Body>>| {
            let mut answer = Response::new(Full::from(format!("run {}", counter.run())));
            if let Some(charge) = charge {
                answer.extensions_mut().insert(Charge(units(charge)));
            }
            async move { Ok::<_, Infallible>(answer) }
        });
        let layer = if charge.is_some() { stall.metered() } else { stall.fixed() };
        let layer = layer.redeliver(Redelivery::default());
        let seller = Arc::new(Mutex::new(tower::util::BoxCloneService::new(layer.layer(handler))));
        let script: Arc<Script> = Arc::new(|_, answer| Ok(answer));
        let script = Arc::new(Mutex::new(script));
        let line = Line { seller, journal: journal.clone(), seen: Arc::default(), script };
        let (key, channels) = (stall.key.clone(), stall.channels.clone());
        let clock = stall.shop.clock.clone();
        let (other_node, other_claims, deep, hides_withdrawals, signed) = Default::default();
        let (is_rich, allowance) = (true, 1_000_000);
        let purse = Purse {
            key,
            channels,
            is_rich,
            allowance,
            clock,
            other_node,
            other_claims,
            deep,
            hides_withdrawals,
            signed,
        };
        Self { stall, purse, journal, line, runs }
    }

    pub fn budget() -> BudgetBuilder {
        Budget::in_assets([Asset::USDC_BASE]).per_payment("1").per_day("10")
    }

    /// Another one is like another process on the same journal.
    pub async fn layer(&self) -> PayLayer {
        self.layer_with(|builder| builder).await
    }

    pub async fn layer_with(&self, set: impl FnOnce(PayLayerBuilder) -> PayLayerBuilder) -> PayLayer {
        self.layer_within(Self::budget(), set).await
    }

    pub async fn layer_within(
        &self,
        budget: BudgetBuilder,
        set: impl FnOnce(PayLayerBuilder) -> PayLayerBuilder,
    ) -> PayLayer {
        let journal = SlowJournal(self.journal.clone());
        let builder = PayLayer::builder(self.purse.clone(), budget.build().unwrap(), journal);
        let builder = builder.prefer(PaymentMethod::Channel).clock(self.stall.shop.clock.clone());
        set(builder).build().await.unwrap()
    }

    pub async fn buy(&self, layer: &PayLayer, what: usize) -> Result<(String, Purchase), PayError> {
        buy(&layer.layer(self.line.clone()), what).await
    }

    /// What the seller has charged to the only channel, by its own account of it.
    pub async fn charged(&self) -> u128 {
        use tower_x402::ledger::{AccountId, AccountLedger as _};
        let Some(first) = self.line.seen().first().map(|payment| payment.voucher().channel) else { return 0 };
        let account = AccountId::new(first.account_bytes(Network::BASE));
        self.stall.shop.ledger.account(account).await.unwrap().map_or(0, |account| number(account.spent))
    }

    /// How many channels a voucher was signed for.
    pub fn channels(&self) -> usize {
        self.line.seen().iter().map(|payment| payment.voucher().channel).collect::<HashSet<_>>().len()
    }
}

pub fn question(what: usize) -> Request<Body> {
    Request::get(format!("https://seller.example/answer?what={what}")).body(Body::empty()).unwrap()
}

pub async fn buy(client: &Pay<Line>, what: usize) -> Result<(String, Purchase), PayError> {
    let answer = client.clone().oneshot(question(what)).await?;
    let purchase = answer.extensions().get::<Purchase>().cloned().expect("paid");
    let text = answer.into_body().collect().await.unwrap().to_bytes();
    Ok((String::from_utf8_lossy(&text).into_owned(), purchase))
}

/// The same answer with another statement of its charge.
pub fn told(mut answer: Sold, change: impl FnOnce(&mut serde_json::Value)) -> Sold {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    let told = SettleResponse::from_headers(answer.headers()).unwrap().expect("a sale");
    let mut json = serde_json::to_value(&told).unwrap();
    change(&mut json);
    let header = HeaderValue::try_from(STANDARD.encode(json.to_string())).unwrap();
    answer.headers_mut().insert(PAYMENT_RESPONSE, header);
    answer
}

pub const PRICE_OF_TEN: u128 = 10 * PRICE;
