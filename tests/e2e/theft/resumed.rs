//! Payments that were settled and bought nothing yet: their authorizations are public, and belong to their payers. Beside forgers, who
//! show worthless signatures in a payer's name.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use alloy::signers::{SignerSync as _, local::PrivateKeySigner};
use axum::{Router, http::StatusCode, routing::post};
use futures_util::future::join_all;
use http::HeaderValue;
use tower_x402::{
    Price,
    clock::Clock as _,
    protocol::{
        ChainTime, Network, TxHash,
        headers::{PAYMENT_SIGNATURE, X402_PAYMENT},
        redemption_message,
        v2::{
            Authorization, PaymentPayload, PaymentRequired, PaymentRequirements, SettleResponse, SignedAuthorization,
        },
    },
    settle::WalletSettler,
    testing::contracts::Word,
};

use super::{SECURITY, payments::PAYER};
use crate::{
    served::{
        market::{Market, SELLER, usdc},
        shop::{client, serve},
    },
    support::{Counter, authorization::signature},
};

const QUESTION: &str = r#"{"query":"why"}"#;
/// How many forge at once.
const FORGERS: usize = 4;
/// Who settles.
const SETTLER: usize = 3;

fn dearer() -> String {
    format!(r#"{{"query":"{}"}}"#, "why ".repeat(100))
}

/// A seller who settles first, and whose handler fails while it is told to.
struct Stand {
    market: Market,
    url: String,
    http: reqwest::Client,
    runs: Counter,
    fails: Arc<AtomicBool>,
}

impl Stand {
    async fn open() -> Self {
        let market = Market::new().await;
        let key = market.chain.accounts()[SETTLER].private_key();
        let settler = WalletSettler::builder().key(key).endpoint(market.chain.rpc_url()).connect().await.unwrap();
        let merchant = market.merchant().await.settler(settler).build().await.unwrap();
        let layer = merchant.price_with("by-length", |_, body| Price::Charge(usdc(body.len() as u128 * 100))).unwrap();
        let (runs, fails) = (Counter::default(), Arc::new(AtomicBool::new(false)));
        let handler = {
            let (runs, fails) = (runs.clone(), Arc::clone(&fails));
            move || {
                runs.run();
                let failed = fails.load(Ordering::SeqCst);
                async move { if failed { StatusCode::INTERNAL_SERVER_ERROR } else { StatusCode::OK } }
            }
        };
        let url = serve(Router::new().route("/", post(handler).route_layer(layer.settle_first()))).await;
        Self { market, url, http: client(), runs, fails }
    }

    async fn ask(&self, body: &str, shown: Option<(http::HeaderName, HeaderValue)>) -> reqwest::Response {
        let request = self.http.post(&self.url).header("content-type", "application/json").body(body.to_owned());
        let request = shown.into_iter().fold(request, |request, (name, value)| request.header(name, value));
        request.send().await.unwrap()
    }

    async fn offer(&self) -> PaymentRequirements {
        let quote = self.ask(QUESTION, None).await;
        let required = PaymentRequired::from_headers(quote.headers()).unwrap().unwrap();
        required.accepts[0].exact().unwrap().clone()
    }

    /// Mines while this is under way.
    async fn mined<T>(&self, work: impl Future<Output = T>) -> T {
        let mine = async {
            loop {
                tokio::time::sleep(Duration::from_millis(200)).await;
                self.market.block().await;
            }
        };
        tokio::select! {
            done = work => done,
            () = mine => unreachable!(),
        }
    }

    fn payer(&self) -> PrivateKeySigner {
        self.market.chain.accounts()[PAYER].private_key().parse().unwrap()
    }

    fn signed(&self, offer: &PaymentRequirements, nonce: [u8; 32], until: u64) -> SignedAuthorization {
        let from = self.market.buyer(PAYER);
        let terms =
            [from.into(), SELLER.into(), offer.amount.into(), 0.into(), u128::from(until).into(), Word::new(nonce)];
        let signed = signature(&self.market.chain, &self.payer(), &terms);
        let authorization = Authorization::new(from, nonce)
            .paying(SELLER, offer.amount)
            .valid_between(ChainTime::from_unix(0), ChainTime::from_unix(until));
        SignedAuthorization::new(authorization, signed.to_string().parse().unwrap())
    }

    /// Shows worthless signatures until it is stopped; tells what came of them.
    async fn forge(&self, stopped: &AtomicBool, told: &Mutex<BTreeSet<String>>) {
        let offer = self.offer().await;
        while !stopped.load(Ordering::SeqCst) {
            let until = ChainTime::from_unix(self.market.clock.unix() + 300);
            let authorization = Authorization::new(self.market.buyer(PAYER), rand::random())
                .paying(SELLER, offer.amount)
                .valid_between(ChainTime::from_unix(0), until);
            let worthless = format!("0x{}", "11".repeat(65)).parse().unwrap();
            let shown = PaymentPayload::new(offer.clone(), SignedAuthorization::new(authorization, worthless));
            let answer = self.ask(QUESTION, Some((PAYMENT_SIGNATURE, shown.to_header()))).await;
            told.lock().unwrap().insert(words(&answer));
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

fn words(answer: &reqwest::Response) -> String {
    match answer.status().as_u16() {
        200 => "the answer".to_owned(),
        _ => format!("`{}`", answer.headers()["x402-error"].to_str().unwrap()),
    }
}

/// What is shown for a payment that is settled.
#[derive(Clone, Copy, Debug)]
enum Shown {
    OwnHeader,
    Dearer,
    OtherQuote,
    NoQuote,
    Hash,
    OwnHash,
    SignedHash,
}

impl Shown {
    const fn words(self) -> &'static str {
        match self {
            Self::OwnHeader => "the payer's `PAYMENT-SIGNATURE`, with its request",
            Self::Dearer => "the payer's `PAYMENT-SIGNATURE`, with a dearer request",
            Self::OtherQuote => "the same authorization, under another quote",
            Self::NoQuote => "the same authorization, without a quote",
            Self::Hash => "the transaction's hash, under another quote",
            Self::OwnHash => "the transaction's hash, under the payer's own quote",
            Self::SignedHash => "the transaction's hash, under another quote, signed by the payer",
        }
    }

    async fn show(
        self,
        stand: &Stand,
        own: &PaymentRequirements,
        signed: &SignedAuthorization,
        paid: TxHash,
    ) -> String {
        let other = stand.offer().await;
        let header = |offer| Some((PAYMENT_SIGNATURE, PaymentPayload::new(offer, signed.clone()).to_header()));
        let hash = |offer: &PaymentRequirements, by: Option<PrivateKeySigner>| {
            let intent = offer.intent().unwrap().unwrap();
            let message = redemption_message(Network::BASE, paid, &intent);
            let by = by.map(|signer| signer.sign_message_sync(message.as_bytes()).unwrap());
            let by = by.map(|signature| format!(r#","paymentSignature":"{signature}""#)).unwrap_or_default();
            let proof = format!(r#"{{"intentId":"{intent}","txHash":"{paid}"{by}}}"#);
            Some((X402_PAYMENT, proof.parse().unwrap()))
        };
        let (body, shown) = match self {
            Self::OwnHeader => (QUESTION.to_owned(), header(own.clone())),
            Self::Dearer => (dearer(), header(own.clone())),
            Self::OtherQuote => (QUESTION.to_owned(), header(other)),
            Self::NoQuote => {
                let mut bare = own.clone();
                bare.extra = Default::default();
                (QUESTION.to_owned(), header(bare.with_token_domain("USD Coin", "2")))
            }
            Self::Hash => (QUESTION.to_owned(), hash(&other, None)),
            Self::OwnHash => (QUESTION.to_owned(), hash(own, None)),
            Self::SignedHash => (QUESTION.to_owned(), hash(&other, Some(stand.payer()))),
        };
        words(&stand.ask(&body, shown).await)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_settled_first_is_its_payers_beside_forgers() {
    const THEFTS: [Shown; 4] = [Shown::Dearer, Shown::OtherQuote, Shown::NoQuote, Shown::Hash];
    const FINALES: [Shown; 3] = [Shown::OwnHeader, Shown::OwnHash, Shown::SignedHash];
    let stand = Stand::open().await;
    let (stopped, told) = (AtomicBool::new(false), Mutex::default());
    let honest = async {
        for (number, finale) in FINALES.into_iter().enumerate() {
            let own = stand.offer().await;
            let signed = stand.signed(&own, [number as u8 + 1; 32], stand.market.now().await + 600);
            stand.fails.store(true, Ordering::SeqCst);
            let header = PaymentPayload::new(own.clone(), signed.clone()).to_header();
            let failed = stand.ask(QUESTION, Some((PAYMENT_SIGNATURE, header))).await;
            assert_eq!(failed.status(), 500, "{finale:?}");
            let settled = SettleResponse::from_headers(failed.headers()).unwrap().unwrap();
            stand.fails.store(false, Ordering::SeqCst);
            let paid = settled.transaction.unwrap();
            for shown in THEFTS.into_iter().chain([finale]) {
                let row = format!("| {} | {} |", shown.words(), shown.show(&stand, &own, &signed, paid).await);
                println!("{row}");
                assert!(SECURITY.contains(&row), "threats.md does not say {row}");
            }
            // Sold: nothing buys a second answer.
            for shown in THEFTS.into_iter().chain(FINALES) {
                assert_ne!(shown.show(&stand, &own, &signed, paid).await, "the answer", "{shown:?}");
            }
        }
        stopped.store(true, Ordering::SeqCst);
    };
    let forgers = join_all((0..FORGERS).map(|_| stand.forge(&stopped, &told)));
    stand.mined(async { tokio::join!(honest, forgers) }).await;
    let told = told.into_inner().unwrap();
    assert_eq!(told, BTreeSet::from(["`authorization_refused`".to_owned()]), "what forgers are told");
    let price = QUESTION.len() as u128 * 100;
    assert_eq!((stand.runs.runs(), stand.market.takings().await), (2 * FINALES.len(), FINALES.len() as u128 * price));
}
