//! A seller that is killed (`kill -9`) at each step of a sale, in each dialect: the payer is charged once at most, gets the answer for
//! it, and is not asked for another payment while this one may still be made.

use std::{
    future::pending,
    process::Command,
    time::{Duration, SystemTime},
};

use alloy::signers::{SignerSync as _, local::PrivateKeySigner};
use axum::{Router, routing::post};
use futures_util::future::join_all;
use http::{
    HeaderName,
    header::{AUTHORIZATION, CONTENT_TYPE, WWW_AUTHENTICATE},
};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use tower_x402::{
    Charge, Merchant, Redelivery,
    ledger::{
        Announcements, Claim, CommitOutcome, KeptAnswer, Lease, Ledger, LedgerError, RenewOutcome, ReserveOutcome,
        Sale, Settling, SqliteLedger,
    },
    protocol::{
        Address, Amount, ChainTime, IntentKey, Network, PaymentId, SealingKeys, TokenDomain,
        headers::{PAYMENT_SIGNATURE, X_PAYMENT, X402_PAYMENT},
        permit2::{PERMIT2, Permit, PermitScheme, SignedPermit},
        v1,
        v2::{Authorization, PaymentOption, PaymentPayload, PaymentRequired, SignedAuthorization},
    },
    settle::{
        PermitPayment, PermitSettler, PermitTerms, SettleError, Settlement, Settler, SignedPayment,
        TransactionRecorder, Validity, WalletSettler,
    },
    testing::{
        DevChain,
        contracts::{Word, approve},
    },
    verify::EvmVerifier,
};

use crate::{
    app::{self, App, PATIENT},
    market::PRICE,
    node,
    shop::{Answer, INSIGHTS, client},
    support::{authorization::signature, mpp},
};

const SETTINGS: &str = "X402_TEST_KILLED";
/// How long a payment waits for a process that was killed.
const LEASE: Duration = Duration::from_secs(5);
/// A route whose handler charges so much of the price.
const METERED: &str = "/metered";
const CHARGE: u128 = 1_858;
/// An account of the chain's ten, of which the first settle.
const PAYER: usize = 9;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dialect {
    V2,
    V1,
    Mpp,
    /// A permit, of which the handler charges a part.
    UpTo,
}

impl Dialect {
    /// Where it buys.
    const fn path(self) -> &'static str {
        if matches!(self, Self::UpTo) { METERED } else { INSIGHTS }
    }

    /// What an answer costs, in base units.
    const fn cost(self) -> u128 {
        if matches!(self, Self::UpTo) { CHARGE } else { PRICE }
    }
}

/// Where the seller is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// While the handler runs.
    Asked,
    /// That it will be settled is recorded.
    Begun,
    /// So is its transaction.
    Recorded,
    /// The transaction is sent.
    Sent,
    /// The settler has told that it is mined.
    Mined,
    /// The sale is about to be recorded.
    Unsold,
    /// It is recorded, and the answer has not left.
    Sold,
}

impl Step {
    const ALL: [Self; 7] =
        [Self::Asked, Self::Begun, Self::Recorded, Self::Sent, Self::Mined, Self::Unsold, Self::Sold];

    fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|step| format!("{step:?}") == name)
    }

    /// Nothing was sent.
    const fn is_before_sending(self) -> bool {
        matches!(self, Self::Begun | Self::Recorded)
    }
}

/// Ends this process as a power cut would, if this is where.
async fn die_at(step: Step, at: Option<Step>) {
    if at == Some(step) {
        Command::new("kill").args(["-9", &std::process::id().to_string()]).status().unwrap();
        pending().await
    }
}

/// Not a test of its own: the program that the test below starts.
#[tokio::test(flavor = "multi_thread")]
async fn as_a_child() {
    let Ok(settings) = std::env::var(SETTINGS) else { return };
    let [rpc, ledger, key, recipient, step] = settings.split('\n').collect::<Vec<_>>().try_into().unwrap();
    let at = Step::of(step);
    let ledger = Dying { inner: SqliteLedger::open(ledger).await.unwrap().time_limit(PATIENT), at, rpc: rpc.into() };
    let settler = WalletSettler::builder().key(key).endpoint(rpc).connect().await.unwrap();
    let merchant = Merchant::builder(recipient.parse().unwrap())
        .verifier(EvmVerifier::connect([rpc]).await.unwrap())
        .settler(Dying { inner: settler.clone(), at, rpc: rpc.into() })
        .permit_settler(Dying { inner: settler, at, rpc: rpc.into() })
        .ledger(ledger)
        .sealing_keys(SealingKeys::new([7; 32]))
        .mpp("shop.example")
        .lease(LEASE)
        .build()
        .await
        .unwrap();
    let layer = merchant.charge("insights", Amount::from_base_units(PRICE)).unwrap().redeliver(Redelivery::default());
    let handler = async move || {
        die_at(Step::Asked, at).await;
        "precious"
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    eprintln!("listening on http://{}", listener.local_addr().unwrap());
    let most = Amount::from_base_units(PRICE);
    let metered = merchant.charge_up_to("metered", most).unwrap().redeliver(Redelivery::default());
    let charging = async move || (Charge(Amount::from_base_units(CHARGE)), handler().await);
    let routes = Router::new().route(INSIGHTS, post(handler).route_layer(layer));
    axum::serve(listener, routes.route(METERED, post(charging).route_layer(metered))).await.unwrap();
}

/// A settler or a ledger whose process dies at a step.
struct Dying<T> {
    inner: T,
    at: Option<Step>,
    rpc: String,
}

impl Settler for Dying<WalletSettler> {
    async fn domain(
        &self,
        network: Network,
        token: Address,
        stated: Option<&TokenDomain>,
    ) -> Result<Option<TokenDomain>, SettleError> {
        self.inner.domain(network, token, stated).await
    }

    async fn verify(&self, payment: &SignedPayment) -> Result<Validity, SettleError> {
        self.inner.verify(payment).await
    }

    fn is_signed_by_key(&self, payment: &SignedPayment) -> bool {
        self.inner.is_signed_by_key(payment)
    }

    async fn settle(&self, payment: &SignedPayment, recorder: &TransactionRecorder) -> Settlement {
        let watched = self.watched(recorder);
        let settled = self.inner.settle(payment, &watched).await;
        self.died(settled).await
    }

    async fn health(&self) -> Result<(), SettleError> {
        self.inner.health().await
    }
}

impl PermitSettler for Dying<WalletSettler> {
    async fn permit_terms(
        &self,
        network: Network,
        token: Address,
        scheme: PermitScheme,
    ) -> Result<Option<PermitTerms>, SettleError> {
        self.inner.permit_terms(network, token, scheme).await
    }

    async fn verify_permit(&self, payment: &PermitPayment) -> Result<Validity, SettleError> {
        self.inner.verify_permit(payment).await
    }

    fn is_permit_signed_by_key(&self, payment: &PermitPayment) -> bool {
        self.inner.is_permit_signed_by_key(payment)
    }

    async fn settle_permit(
        &self,
        payment: &PermitPayment,
        charge: Amount,
        recorder: &TransactionRecorder,
    ) -> Settlement {
        let watched = self.watched(recorder);
        let settled = self.inner.settle_permit(payment, charge, &watched).await;
        self.died(settled).await
    }
}

impl Dying<WalletSettler> {
    fn watched(&self, recorder: &TransactionRecorder) -> TransactionRecorder {
        let (at, rpc, recorder) = (self.at, self.rpc.clone(), recorder.clone());
        TransactionRecorder::new(move |transaction| {
            let (rpc, recorder) = (rpc.clone(), recorder.clone());
            async move {
                let is_recorded = recorder.record(transaction).await;
                if at == Some(Step::Sent) {
                    tokio::spawn(async move {
                        let asked = json!({ "jsonrpc": "2.0", "id": 1, "method": "eth_getTransactionByHash", "params": [transaction] });
                        while Answer::to(client().post(&rpc).json(&asked)).await.body["result"].is_null() {}
                        die_at(Step::Sent, at).await;
                    });
                }
                is_recorded
            }
        })
    }

    async fn died(&self, settled: Settlement) -> Settlement {
        if self.at == Some(Step::Sent) {
            // It dies meanwhile.
            pending().await
        }
        die_at(Step::Mined, self.at).await;
        settled
    }
}

impl<L: Ledger> Ledger for Dying<L> {
    async fn begin(&self, network: Network, now: ChainTime) -> Result<ChainTime, LedgerError> {
        self.inner.begin(network, now).await
    }

    async fn reserve(&self, claim: &Claim) -> Result<ReserveOutcome, LedgerError> {
        self.inner.reserve(claim).await
    }

    async fn renew(&self, lease: &Lease) -> Result<RenewOutcome, LedgerError> {
        self.inner.renew(lease).await
    }

    async fn settling(&self, lease: &Lease, settling: &Settling) -> Result<RenewOutcome, LedgerError> {
        let outcome = self.inner.settling(lease, settling).await;
        die_at(if settling.transaction.is_some() { Step::Recorded } else { Step::Begun }, self.at).await;
        outcome
    }

    async fn not_settled(&self, lease: &Lease) -> Result<(), LedgerError> {
        self.inner.not_settled(lease).await
    }

    async fn commit(&self, lease: &Lease, answer: Option<&KeptAnswer>) -> Result<CommitOutcome, LedgerError> {
        die_at(Step::Unsold, self.at).await;
        let outcome = self.inner.commit(lease, answer).await;
        die_at(Step::Sold, self.at).await;
        outcome
    }

    async fn release(&self, lease: &Lease) -> Result<(), LedgerError> {
        self.inner.release(lease).await
    }

    async fn consumed(&self, intent: IntentKey) -> Result<Option<Sale>, LedgerError> {
        self.inner.consumed(intent).await
    }

    async fn begun(&self, intent: IntentKey, payment: PaymentId) -> Result<Option<Settling>, LedgerError> {
        self.inner.begun(intent, payment).await
    }

    async fn sweep(&self, network: Network, head: ChainTime) -> Result<u64, LedgerError> {
        self.inner.sweep(network, head).await
    }

    async fn health(&self) -> Result<(), LedgerError> {
        self.inner.health().await
    }

    fn announcements(&self) -> Option<&impl Announcements> {
        self.inner.announcements()
    }

    fn answer_space(&self) -> Option<usize> {
        self.inner.answer_space()
    }
}

/// One sale, and where its seller is killed.
struct Case<'a> {
    chain: &'a DevChain,
    folder: tempfile::TempDir,
    dialect: Dialect,
    step: Step,
    recipient: Address,
}

impl Case<'_> {
    /// A seller that dies at that step.
    async fn seller(&self, at: &str) -> App {
        let settler = self.chain.accounts()[self.step as usize].private_key();
        let (ledger, recipient) = (self.folder.path().join("ledger"), self.recipient.to_string());
        let settings = [self.chain.rpc_url(), ledger.to_str().unwrap(), settler, &recipient, at];
        let program = app::child("killed::as_a_child", SETTINGS, &settings);
        App::run(program, self.chain.rpc_url()).listening().await
    }

    fn payer(&self) -> PrivateKeySigner {
        self.chain.accounts()[PAYER].private_key().parse().unwrap()
    }

    /// What the payer shows for a quote.
    fn pay(&self, quote: &Answer) -> (HeaderName, String) {
        let required = PaymentRequired::from_headers(&quote.headers).unwrap().unwrap();
        let until = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs() + 600;
        let from = self.chain.accounts()[PAYER].address();
        let text = |value: http::HeaderValue| value.to_str().unwrap().to_owned();
        if let PaymentOption::UpTo(offer) = &required.accepts[0] {
            let permit = Permit::new(PermitScheme::UpTo, from, rand::random())
                .paying(self.recipient, offer.asset, offer.amount)
                .by_facilitator(offer.facilitator().unwrap())
                .valid_between(ChainTime::from_unix(0), ChainTime::from_unix(until));
            let signed = self.payer().sign_hash_sync(&permit.digest(offer.network).into()).unwrap();
            let signed = SignedPermit::new(permit, signed.to_string().parse().unwrap());
            return (PAYMENT_SIGNATURE, text(PaymentPayload::new(offer.clone(), signed).to_header()));
        }
        let offer = required.accepts[0].exact().unwrap().clone();
        let challenge = mpp::parameters(quote.headers[WWW_AUTHENTICATE].to_str().unwrap());
        let nonce = if self.dialect == Dialect::V1 { rand::random() } else { mpp::nonces(&challenge)[1] };
        let terms: [Word; 6] = [
            from.into(),
            self.recipient.into(),
            offer.amount.into(),
            0.into(),
            u128::from(until).into(),
            Word::new(nonce),
        ];
        let signed = signature(self.chain, &self.payer(), &terms);
        let authorization = Authorization::new(from, nonce)
            .paying(self.recipient, offer.amount)
            .valid_between(ChainTime::from_unix(0), ChainTime::from_unix(until));
        let signed = SignedAuthorization::new(authorization, signed.to_string().parse().unwrap());
        match self.dialect {
            Dialect::V2 | Dialect::UpTo => (PAYMENT_SIGNATURE, text(PaymentPayload::new(offer, signed).to_header())),
            Dialect::V1 => (X_PAYMENT, text(v1::PaymentPayload::new(offer.network, signed).to_header())),
            Dialect::Mpp => (AUTHORIZATION, mpp::by_authorization(&challenge, &signed)),
        }
    }

    fn request(url: &str, shown: Option<&(HeaderName, String)>) -> reqwest::RequestBuilder {
        let request = client().post(url).header(CONTENT_TYPE, "application/json").body(r#"{"query":"why"}"#);
        shown.into_iter().fold(request, |request, (name, value)| request.header(name, value))
    }

    async fn show(&self, url: &str, shown: &(HeaderName, String)) -> Answer {
        let answer = Answer::to(Self::request(url, Some(shown))).await;
        let asks = answer.headers.contains_key(WWW_AUTHENTICATE) || answer.body.get("accepts").is_some();
        assert!(answer.status != 402 && !asks, "{self:?}: {} {}", answer.status, answer.body);
        answer
    }

    /// Shows it until there is a word that waiting does not change, or no other for long.
    async fn show_on(&self, url: &str, shown: &(HeaderName, String)) -> Answer {
        let patient =
            if self.dialect == Dialect::V1 && self.step.is_before_sending() { 4 * LEASE } else { 3 * PATIENT };
        let end = Instant::now() + patient;
        loop {
            let answer = self.show(url, shown).await;
            let waits = ["redemption_in_progress", "outcome_unknown", "tx_not_confirmed", "verification_unavailable"];
            if !waits.contains(&answer.code()) || Instant::now() > end {
                return answer;
            }
            sleep(Duration::from_millis(500)).await;
        }
    }

    /// By the payer's signature over what a refusal tells it to sign.
    async fn redeem(&self, url: &str, refusal: &Value) -> Answer {
        let message = refusal["message"].as_str().unwrap();
        let transaction = message.split_whitespace().find(|word| word.len() == 66 && word.starts_with("0x")).unwrap();
        let signed = self.payer().sign_message_sync(message.as_bytes()).unwrap().to_string();
        let proof = json!({ "intentId": refusal["intentId"], "txHash": transaction, "paymentSignature": signed });
        self.show(url, &(X402_PAYMENT, proof.to_string())).await
    }

    async fn is_fair(&self) {
        let seller = self.seller(&format!("{:?}", self.step)).await;
        node::next_second(self.chain).await;
        let url = format!("{}{}", seller.url(), self.dialect.path());
        let quote = Answer::to(Self::request(&url, None)).await;
        let payment = self.pay(&quote);
        let lost = Self::request(&url, Some(&payment)).send().await;
        assert!(lost.is_err(), "{self:?}: {lost:?}");
        seller.kill();

        let seller = self.seller("nowhere").await;
        let url = format!("{}{}", seller.url(), self.dialect.path());
        let answer = self.show_on(&url, &payment).await;
        let told = (answer.status, answer.code());
        let charged = match (self.dialect, self.step) {
            (Dialect::V1, step) if step.is_before_sending() => {
                // It names no quote, so anyone may have copied it. It waits until its time is over.
                assert_eq!(told, (503, "outcome_unknown"), "{self:?}");
                0
            }
            (Dialect::V1, Step::Sent | Step::Mined | Step::Unsold) => {
                assert_eq!(told, (403, "payment_bound"), "{self:?}");
                let answer = self.redeem(&url, &answer.body).await;
                assert_eq!((answer.status, &answer.body), (200, &json!("precious")), "{self:?}");
                1
            }
            (Dialect::V1, Step::Sold) => {
                assert_eq!(told, (409, "already_consumed"), "{self:?}");
                1
            }
            _ => {
                assert_eq!((answer.status, &answer.body), (200, &json!("precious")), "{self:?}");
                let has_receipt = answer.headers.contains_key("payment-receipt");
                assert_eq!(has_receipt, self.dialect == Dialect::Mpp, "{self:?}");
                let replayed = answer.headers.contains_key("idempotent-replayed");
                assert_eq!(replayed, self.step == Step::Sold, "{self:?}");
                1
            }
        };
        // Again and again: nothing more, and nothing new to pay.
        for _ in 0..3 {
            let again = self.show(&url, &payment).await;
            assert!(again.status != 200 || again.headers.contains_key("idempotent-replayed"), "{self:?}");
        }
        let earned = self.chain.usdc_balance(self.recipient).await.unwrap();
        assert_eq!(earned, Amount::from_base_units(charged * self.dialect.cost()), "{self:?}");
        seller.kill();
    }
}

impl std::fmt::Debug for Case<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}, killed at {:?}", self.dialect, self.step)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn at_each_step_in_each_dialect_a_payer_pays_once_and_is_answered() {
    let builder = DevChain::builder().install_with_npm(true).mine_every(Duration::from_secs(1)).with_permit2();
    let chain = builder.start().await.unwrap();
    let allow = approve(PERMIT2, Amount::MAX);
    let sent = chain.send(chain.accounts()[PAYER].address(), chain.usdc(), &allow).await.unwrap();
    chain.wait_until_mined(sent).await.unwrap();
    for (place, dialect) in [Dialect::V2, Dialect::V1, Dialect::Mpp, Dialect::UpTo].into_iter().enumerate() {
        let cases = Step::ALL.map(|step| Case {
            chain: &chain,
            folder: tempfile::tempdir().unwrap(),
            dialect,
            step,
            recipient: Address::new([0x60 + (place * 8) as u8 + step as u8; 20]),
        });
        join_all(cases.iter().map(Case::is_fair)).await;
    }
}
