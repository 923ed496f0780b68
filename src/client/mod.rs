//! The payer: a tower layer that pays for answers, and never twice for one.
//!
//! [`PayLayer`] wraps any HTTP client that is a tower service: hyper-util's legacy client, reqwest through
//! [`ReqwestClient`], or a connection of your own. Within one `call` it receives a 402, asks the [`Budget`], pays with
//! a [`Payer`] (a [`WalletPayer`], or yours), and returns the answer with a [`Purchase`] in its extensions. Free
//! answers pass through unchanged.
//!
//! It pays in four ways ([`PaymentMethod`]), and buys from any seller that takes one of them:
//!
//! | The 402 has | How it is paid |
//! |---|---|
//! | `Pay` | by an ordinary transfer: sent, awaited until it is mined, and redeemed by its hash |
//! | `PAYMENT-REQUIRED` (x402 version 2), or a JSON body of version 1 | by an authorization (EIP-3009): signed, shown to the seller, and settled by the seller; no gas, and no wait |
//! | `PAYMENT-REQUIRED` with the scheme `upto`, or with `exact` by Permit2 | by a permit: signed, shown to the seller, and settled by the seller. For `upto` it is a maximum, of which the seller charges the cost of its answer. The payer [allows](PermitSigner) Permit2 once to move the token |
//! | `PAYMENT-REQUIRED` with the scheme `batch-settlement` | if [preferred](PayLayerBuilder::prefer), by the voucher of a payment channel: a signature over the charges so far plus the price. The payer deposits once for many answers |
//! | `WWW-Authenticate: Payment` (MPP, method `evm`, intent `charge`) | by an authorization whose nonce is the hash of the challenge |
//! | several of them, or several networks | in the cheapest way that the budget allows and for which the payer has the money; among equal prices, one that may cost less comes first, then the [preferred](PayLayerBuilder::prefer) method, then the first of the [standards](PayLayerBuilder::standards), then the seller's order |
//!
//! ```
//! # #[cfg(feature = "test-util")]
//! # tokio::runtime::Runtime::new()?.block_on(async {
//! # use bytes::Bytes;
//! # use http::{Request, Response};
//! # use http_body_util::{BodyExt as _, Full};
//! # use tower_x402::{Merchant, RequestBody, ledger::MemoryLedger, protocol::{Address, ChainTime, SealingKeys}, testing::*};
//! # let now = ChainTime::from_unix(std::time::SystemTime::UNIX_EPOCH.elapsed()?.as_secs());
//! # let chain = ScriptedVerifier::new(now);
//! # let merchant = Merchant::builder(Address::new([1; 20])).verifier(chain.clone()).ledger(MemoryLedger::new());
//! # let merchant = merchant.sealing_keys(SealingKeys::random()?).build().await?;
//! # let seller = merchant.charge("greeting", "0.49 USDC")?.layer(tower::service_fn(async |_: Request<RequestBody<Body>>| {
//! #     Ok::<_, std::convert::Infallible>(Response::new(Full::<Bytes>::from("hello")))
//! # }));
//! # let wallet = ScriptedPayer::new(chain, Address::new([2; 20]));
//! use tower::{Layer as _, ServiceExt as _};
//! use tower_x402::{client::{Body, Budget, MemoryJournal, PayLayer, Purchase}, protocol::Asset};
//!
//! // In production: `WalletPayer::builder().key_file(path).endpoint(url).connect().await?` and `FileJournal::open("purchases.jsonl").await?`,
//! // around `ReqwestClient::new(reqwest::Client::builder())?`.
//! let budget = Budget::in_assets([Asset::USDC_BASE]).per_payment("0.50").per_day("10").build()?;
//! let layer = PayLayer::builder(wallet, budget, MemoryJournal::new()).build().await?;
//! let client = layer.layer(seller);
//!
//! let request = Request::post("https://seller.example/greeting").body(Body::empty())?;
//! let answer = client.oneshot(request).await?;
//!
//! assert_eq!(answer.status(), 200);
//! let bought = answer.extensions().get::<Purchase>().unwrap();
//! assert_eq!(bought.amount.to_decimal(bought.decimals), "0.49");
//! # assert_eq!(answer.into_body().collect().await?.to_bytes(), "hello");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Guarantees
//!
//! - **Nothing is paid that the budget does not allow**, and the budget is asked before anything is signed: limits per
//!   payment, host and day; tokens, chains, recipients; a hook for a human. Every layer has a budget.
//! - **At most one transfer pays for one request.** The [`Journal`] has each one, durably, before it is sent. After a
//!   dropped future, a crash, a time-out, 409, 503 or a lost connection, this call or the next one with the same
//!   request redeems the same payment. Another transfer needs a reason in the journal: the first can never be mined
//!   (then the same call pays again), the seller refused it for good (then a later call does), or it is older than any
//!   seller accepts. If a payment comes from another request, or its answer came without a confirmation, and the seller
//!   says that it is used up, the call pays again at once.
//! - **At most one authorization is open for one request.** The journal has it, durably, before any seller sees it, and
//!   every repetition shows the same one. The client does not trust the seller's reports about it, and asks the chain.
//!   It signs another one only after the chain shows that the first was not used and never can be, because it has
//!   expired at a final block or was [cancelled](PayLayer::cancel); until then a refusal is [`PayErrorKind::Outstanding`].
//!   Its nonce is the tag of its own secret, so only this client can redeem the transaction that settles it; in MPP it is
//!   the hash of the seller's challenge, and one challenge is signed for once. Its validity is limited by the seller's
//!   request and by the layer's patience.
//! - **Permits work the same way**: at most one is open for one request, and another is signed only once the chain
//!   shows that the first can never be used. A permit names the seller's recipient and the standard's own proxy, and is
//!   never larger than the allowance. The budget holds its maximum while it is open. A smaller charge, stated in
//!   `PAYMENT-RESPONSE`, counts once the payer's chain confirms it; until then, and if the statement is impossible, the
//!   maximum counts. After an impossible statement, this process pays nothing more to that host
//!   ([`BudgetDenial::Mischarged`]).
//! - **A voucher is signed over the charges so far plus one price.** In each channel one request is open at a time, and
//!   the journal has its voucher before the seller sees it. The charges that a seller states must add up. A higher
//!   count is believed only with this payer's own signature, and for an abandoned purchase. The budget counts a deposit
//!   until the chain shows that it came back. See [channels](crate::guide::channels#for-payers).
//! - **Signatures are for the token's own domain**, as its contract states it, or built in for USDC. A seller that
//!   names another domain is not paid.
//! - **A bill after a payment is not paid.** A 402 in answer to a proof is [`PayErrorKind::BilledAgain`]; a refusal is an
//!   error with the transaction in it. A fresh intent (400, 404, 410) is redeemed with the same payment.
//! - **Payments are bound to their payer, if the payer supports it.** [`WalletPayer`] tags each transfer with its
//!   intent, so that strangers cannot redeem it; a fresh intent is accompanied by the tag's secret. If a seller demands
//!   more ([`payment_bound`](crate::protocol::ProblemCode::PaymentBound),
//!   [`payer_proof_required`](crate::protocol::ProblemCode::PayerProofRequired)), the payer signs a text that the layer
//!   writes; it never signs a text from the seller. If the payer cannot sign, the call ends in [`PayErrorKind::Unproven`],
//!   and the payment is kept.
//! - **An answer that breaks off is requested again**, with the same proof: a seller that keeps its answers gives it
//!   again. Small answers are read to their end before they are handed on; larger and slower ones are streamed
//!   ([`PayLayerBuilder::read_ahead`]). If the seller does not give the answer again, the call ends in
//!   [`PayErrorKind::AnswerLost`].
//! - **A purchase is closed only once its caller has the answer.** It stays open until the [body](ResponseBody) is read
//!   to its end, or until it is [acknowledged](PayLayer::acknowledge). After a crash, or a dropped or broken body, the
//!   same request asks for the same answer and pays nothing. [`PayLayerBuilder::acknowledged_by_caller`] is for callers
//!   that store answers, and [`AskAgain`] asks for the answer of a finished purchase.
//! - **An error says where the money is** ([`PayError::money`], [`PayError::purchase`]), and whether sending the
//!   request again resumes that payment ([`PayError::is_resumable`]).
//! - **A 402 without a known way to pay** is returned unchanged: other schemes, chains, methods and flows are ignored.
//!
//! # Features
//!
//! `client` alone has the layer, the budget and the journals. With `wallet` it has [`WalletPayer`] as well, and with `reqwest`
//! [`ReqwestClient`]. With `mcp` it has `PaidTools`, which pays for the tools of MCP servers. A custodian's payer and another HTTP client need neither.
//!
//! # The same request
//!
//! Two requests are the same if method, address (with query) and body are equal. Headers are ignored; use one layer per
//! set of credentials. The next call with the same request resumes an unfinished purchase, unless another call is
//! working on it; two simultaneous calls each pay for their own answer. Before it pays, a call looks once more for a
//! payment that another call has left, and uses it. A call during the reading of an earlier answer asks for that
//! answer. During a [cancellation](PayLayer::cancel), the same request pays nothing. [`ResumeOnly`] finishes a purchase
//! without a new payment. If the seller answers without a confirmation that it took the payment (the service's own 400,
//! a 200 without `PAYMENT-RESPONSE`), the call returns the response and keeps the payment. The same request uses it for
//! the seller's next quote if the payment covers it; otherwise the call ends in [`PayErrorKind::NotCovered`] and pays
//! nothing. Another request to the same seller uses it for exactly the same price, unless it is an authorization of MPP,
//! which is for its own challenge alone, a permit, which is for its own request, or the payment of a [`PassLayer`]
//! for a pass. The payment is kept for as long as sellers accept it: [`PayLayerBuilder::payment_age`], and for a pass 30 days. An authorization is kept for as long as it can be used.
//!
//! # Bodies
//!
//! A request is sent at least twice, so its body must be repeatable ([`ReplayBody`]): bytes in memory, or
//! [`Body::from_factory`]. If the body is a stream that can be sent only once, and the answer turns out to cost money,
//! the call ends in [`PayErrorKind::NotReplayable`] before anything is paid. Proofs travel in the `x402-payment`
//! header, unless [`PayLayerBuilder::proof_in`] says otherwise. Authorizations travel in `PAYMENT-SIGNATURE`, in
//! version 1 in `X-PAYMENT`, and in MPP in `Authorization`, or in `Payment-Authorization` if the challenge says so. If
//! the seller reads the names of purchases, the purchase is named beside its authorization; in MPP in
//! `Idempotency-Key`, unless the caller has set that header. If the request has its own `Authorization`, and the
//! challenge needs that header, the call ends in [`PayErrorKind::AuthorizationTaken`], unless the seller takes another
//! payment.
//!
//! # One request
//!
//! Extensions of a request set its own limits: [`MaxPrice`] limits the price, and [`Deadline`] the time of the call and
//! its answer's body. [`QuoteOnly`] asks only for the price.
//!
//! # Limits
//!
//! - It follows no redirects, and must not wrap a client that does: the proof would follow them, too.
//! - It does not count the chain's fees as spending in the token; [`WalletPayer::max_fee_per_gas`] and the budget's
//!   [gas limits](BudgetBuilder::gas_per_day) bound them.
//! - The standard does not oblige a seller to answer later if it settles an authorization and then fails: official
//!   servers refuse used authorizations. Such a purchase ends in errors that name the transaction, and pays nothing
//!   more for a day ([`PayLayerBuilder::payment_age`]), unless it is [abandoned](PayLayer::abandon).
//! - Of the two forms of MPP's nonce it signs the draft's, the hash of id and realm concatenated, which `mppx` up to
//!   0.12 and sellers of this crate accept. A seller that accepts only the other form refuses it.
//! - A permit cannot be cancelled: it expires by itself, within the layer's patience. Only the seller's answer names
//!   the transaction that used it; without that, the purchase ends in errors that name none, and pays nothing more for
//!   a day.
//! - It reads the status of authorizations and permits, and a permit's charge, from the payer's nodes: if all of them
//!   lie, it may sign a second one.
//! - It cannot prevent others from presenting a transaction first if its payer neither tags nor signs, or the seller
//!   does not check tags; see [security](crate::guide::security).
//! - It cannot tell a seller from a relay. A shop in between can ask another seller for a quote, hand that quote on as its
//!   own, let you pay the other seller, redeem your payment there itself, and keep the answer: TLS shows that you speak to
//!   the shop, not that the shop is paid. [`BudgetBuilder::recipient_for`] names the recipients of a host.
//! - It knows a request's scheme and host only by its address. A client that is connected to one server, and takes only
//!   paths, must still be given `https://` addresses, or [`BudgetBuilder::allow_plain_http`].
//! - A journal has one process. Two processes with one wallet pay for nothing twice, but take each other's nonces.

mod box_error;
mod builder;
mod dialect;
mod directives;
mod error;
mod error_kind;
mod events;
mod failure;
mod flow;
mod future;
mod held_channel;
mod http;
mod inner;
mod layer;
mod pass;
mod payer;
mod payment_method;
mod purchase_id;
mod service;
mod settings;
mod standard;
#[cfg(feature = "mcp")]
mod tools;
#[cfg(feature = "wallet")]
mod wallet;
mod way;

/// The HTTP client that [`ReqwestClient`] wraps, in the version that fits.
#[cfg(feature = "reqwest")]
pub use ::reqwest;
pub use builder::PayLayerBuilder;
pub use directives::{AlreadyPaid, AskAgain, Deadline, MaxPrice, QuoteOnly, ResumeOnly};
pub use error::PayError;
pub use error_kind::{Money, PayErrorKind};
pub use events::{Purchase, PurchaseEvent, PurchaseProgress, Timings};
pub(crate) use failure::{Failure, NotCovered};
pub(crate) use flow::budget::Denial;
pub use flow::budget::{Budget, BudgetBuilder, BudgetDenial, BudgetError, Proposal};
#[cfg(test)]
pub(crate) use flow::journal::RETENTION;
pub use flow::journal::{ChannelPhase, FileJournal, Journal, JournalEntry, JournalError, MemoryJournal, PurchaseState};
pub(crate) use flow::journal::{ChannelRecord, JournalPayment, PermitCharge, Signed};
pub use future::ResponseFuture;
pub use held_channel::HeldChannel;
pub use http::body::{Body, ReplayBody};
pub use http::replay_request::ProofIn;
#[cfg(feature = "reqwest")]
pub use http::reqwest_client::{FollowsNoRedirects, ReqwestClient};
pub use http::response_body::{BodyError, ResponseBody};
pub use layer::PayLayer;
pub use pass::{HeldPass, PassError, PassLayer, UsePass};
pub use payer::{
    AuthorizationRequest, AuthorizationStatus, Authorizer, ChannelFunds, ChannelSigner, DepositRequest,
    MissingAllowance, Payer, PayerError, PermitDepositRequest, PermitFunds, PermitRequest, PermitSigner,
    PreparedAuthorization, PreparedPermit, PreparedTransfer, SettledFunds, SubmitGuard, TransferRequest,
    TransferStatus,
};
pub use payment_method::PaymentMethod;
pub use purchase_id::PurchaseId;
pub use service::Pay;
pub use standard::Standard;
#[cfg(feature = "mcp")]
pub use tools::{CalledTool, PaidTools};
#[cfg(all(feature = "wallet", feature = "bench-internals"))]
#[doc(hidden)]
pub use wallet::bench;
#[cfg(feature = "wallet")]
pub use wallet::{Permit2Approval, WalletError, WalletErrorKind, WalletPayer, WalletPayerBuilder};
