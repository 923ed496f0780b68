//! `tower-x402`, as in its README: a layer around the route.
//!
//! Its backends are `ScriptedVerifier`, which has the payments in a map, and `MemoryLedger`, which remembers every
//! sale. They do no I/O, but some work: each redemption is judged, reserved and committed.
//!
//! Fairness:
//! - One payment buys once, so each redemption has its own intent and payment, created beforehand. The stubs of the
//!   peers accept anything and remember nothing: our figures include the cost of single use, and theirs do not.
//! - The scripted chain and the ledger grow from redemption to redemption, as real ledgers do and stubs do not.
//! - A proof may be in the JSON body, so a quote searches the body for one. The peers read a header.
//! - `proof in the body` is the same redemption with its proof in two members of the question.
//! - `signed payment` is the standard's way: the same payment that the peers get, each with its own bill. It is reserved, verified
//!   and settled by a stub, judged by the verifier, and committed. Like the peers' stubs, this stub checks no signature.
//! - The verifier stands for a chain: in production a redemption waits for an RPC endpoint, as a peer's waits for its
//!   facilitator, twice.
//! - Garbage is answered with its error (400, problem+json) instead of another bill.

use std::time::{Duration, SystemTime};

use axum::{Router, body::Body, routing::post};
use http::{Request, StatusCode};
use tokio::runtime::Runtime;
use tower_x402::{
    Merchant, MerchantBuilder, X402Layer,
    ledger::MemoryLedger,
    protocol::{ChainTime, Quote, SealingKeys, TxHash},
    testing::{ScriptedSettler, ScriptedVerifier},
};

use crate::{
    Case, Path, answer,
    exact::{Buyer, RECEIPT},
    shop::{GARBAGE, PAYER, QUESTION, RECIPIENT, ROUTE, ask, ask_unpaid, ask_with, handler},
};

pub(super) const NAME: &str = "tower-x402";

const PROOF: &str = "x402-payment";
/// A payment is mined after its quote, in the chain's next block.
const BLOCK: Duration = Duration::from_secs(2);

pub(super) fn cases(runtime: &Runtime) -> Vec<Case> {
    let case = |path, status, header, request| {
        let shop = Shop::open(runtime, path == Path::Free);
        let app = shop.app.clone();
        let contender = if matches!(request, Ask::PayInBody) { "tower-x402, proof in the body" } else { NAME };
        Case { contender, path, app, status, header, request: Box::new(move |runtime| shop.ask(runtime, request)) }
    };
    vec![
        case(Path::Free, StatusCode::OK, None, Ask::Unpaid),
        case(Path::Unpaid, StatusCode::PAYMENT_REQUIRED, Some("pay"), Ask::Unpaid),
        case(Path::Paid, StatusCode::OK, Some("payment-response"), Ask::Pay),
        case(Path::Paid, StatusCode::OK, Some("payment-response"), Ask::PayInBody),
        case(Path::Garbage, StatusCode::BAD_REQUEST, None, Ask::Garbage),
        signed(runtime),
    ]
}

fn signed(runtime: &Runtime) -> Case {
    let app = Shop::open_with(runtime, |builder, chain| builder.settler(ScriptedSettler::new(chain))).app;
    let mut buyer = Buyer::new(app.clone());
    Case {
        contender: "tower-x402, signed payment",
        path: Path::Paid,
        app,
        status: StatusCode::OK,
        header: Some(RECEIPT),
        request: Box::new(move |runtime| buyer.pay_anew(runtime)),
    }
}

#[derive(Clone, Copy)]
enum Ask {
    Unpaid,
    Pay,
    PayInBody,
    Garbage,
}

struct Shop {
    chain: ScriptedVerifier,
    app: Router,
}

impl Shop {
    fn open(runtime: &Runtime, free: bool) -> Self {
        let (chain, mut layer) = layer(runtime, |builder, _| builder);
        if free {
            layer = layer.free_when(|_, _, _| true);
        }
        Self { chain, app: Router::new().route(ROUTE, post(handler).route_layer(layer)) }
    }

    fn open_with(
        runtime: &Runtime,
        set: impl FnOnce(MerchantBuilder, ScriptedVerifier) -> MerchantBuilder,
    ) -> Self {
        let (chain, layer) = layer(runtime, set);
        Self { chain, app: Router::new().route(ROUTE, post(handler).route_layer(layer)) }
    }

    fn ask(&self, runtime: &Runtime, ask: Ask) -> Request<Body> {
        match ask {
            Ask::Unpaid => ask_unpaid(),
            Ask::Garbage => ask_with(PROOF, GARBAGE),
            Ask::Pay => {
                let (quote, tx) = self.pay(runtime);
                ask_with(PROOF, format!(r#"{{"intentId":"{}","txHash":"{tx}"}}"#, quote.intent))
            }
            Ask::PayInBody => in_body(&self.pay(runtime)),
        }
    }

    /// Returns a quote, and the transfer that pays it.
    fn pay(&self, runtime: &Runtime) -> (Quote, TxHash) {
        let (_, headers, _) = answer(runtime, &self.app, ask_unpaid());
        let quote = Quote::from_headers(&headers).expect("it is a quote");
        let mined = now().after(BLOCK);
        self.chain.set_head(mined);
        let payer = PAYER.parse().expect("it is an address");
        let tx = self.chain.pay(quote.recipient, quote.contracts[0], payer, quote.amount, mined);
        (quote, tx)
    }
}

fn layer(
    runtime: &Runtime,
    set: impl FnOnce(MerchantBuilder, ScriptedVerifier) -> MerchantBuilder,
) -> (ScriptedVerifier, X402Layer) {
    let chain = ScriptedVerifier::new(now());
    let builder = Merchant::builder(RECIPIENT.parse().expect("it is an address"))
        .hold_unbound(Duration::ZERO)
        .verifier(chain.clone())
        .ledger(MemoryLedger::new())
        .sealing_keys(SealingKeys::random().expect("the system has entropy"));
    let merchant = runtime.block_on(set(builder, chain.clone()).build()).expect("nothing is missing");
    (chain, merchant.charge("insights", "0.49 USDC").expect("it is a price"))
}

fn in_body((quote, tx): &(Quote, TxHash)) -> Request<Body> {
    let question = QUESTION.trim_end_matches('}');
    let body = format!(r#"{question},"intentId":"{}","txHash":"{tx}"}}"#, quote.intent);
    ask().body(body.into()).expect("it is a request")
}

fn now() -> ChainTime {
    ChainTime::from_unix(SystemTime::UNIX_EPOCH.elapsed().expect("it is after 1970").as_secs())
}
