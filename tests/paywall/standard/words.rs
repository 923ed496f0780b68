//! What is believed of whom: a settler and a chain that disagree, and a chain that does not say everything.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use tower_x402::{
    Merchant,
    ledger::Maintenance as _,
    protocol::{
        Address, Asset, Binding, ChainTime, Network, PaymentSignature, Terms, TokenDomain, Transfer, TxHash, v2::Reason,
    },
    settle::{SettleError, Settlement, Settler, SignedPayment, TransactionRecorder, Validity},
    testing::{ScriptedSettler, ScriptedVerifier, Settling},
    verify::{NonceState, Signatures, Verdict, Verifier, VerifyError},
};

use super::{NONCE, Stall, offered, paid, pays, settled, units};
use crate::support::{Counter, NOW, PRICE, answering, ask, assert_problem, echo, layered, payer};

/// A chain some of whose answers do not come.
#[derive(Clone)]
struct Partly {
    chain: ScriptedVerifier,
    no_nonces: Arc<AtomicBool>,
    no_verdicts: Arc<AtomicBool>,
}

fn answered(missing: &AtomicBool) -> Result<(), VerifyError> {
    if missing.load(Ordering::SeqCst) { Err(VerifyError::unavailable()) } else { Ok(()) }
}

impl Verifier for Partly {
    async fn check(&self, network: Network, assets: &[Asset]) -> Result<(), VerifyError> {
        self.chain.check(network, assets).await
    }

    async fn verify(&self, terms: &Terms, transaction: TxHash) -> Result<Verdict, VerifyError> {
        answered(&self.no_verdicts)?;
        self.chain.verify(terms, transaction).await
    }

    async fn head(&self) -> Result<ChainTime, VerifyError> {
        self.chain.head().await
    }

    async fn horizon(&self) -> Result<ChainTime, VerifyError> {
        self.chain.horizon().await
    }

    fn signatures(&self) -> Option<&impl Signatures> {
        Some(self)
    }
}

impl Signatures for Partly {
    async fn signer(
        &self,
        message: &str,
        signature: &PaymentSignature,
        accounts: &[Address],
    ) -> Result<Option<Address>, VerifyError> {
        self.chain.signer(message, signature, accounts).await
    }

    async fn domain(&self, token: Address) -> Result<Option<TokenDomain>, VerifyError> {
        self.chain.domain(token).await
    }

    async fn nonce_state(
        &self,
        token: Address,
        payer: Address,
        nonce: &[u8; 32],
        since: ChainTime,
    ) -> Result<NonceState, VerifyError> {
        answered(&self.no_nonces)?;
        self.chain.nonce_state(token, payer, nonce, since).await
    }

    async fn permit_state(
        &self,
        permit: &tower_x402::protocol::permit2::Permit,
        since: ChainTime,
    ) -> Result<NonceState, VerifyError> {
        answered(&self.no_nonces)?;
        self.chain.permit_state(permit, since).await
    }
}

async fn partly(stall: &Stall) -> (Merchant, Partly) {
    partly_with(stall, stall.settler.clone()).await
}

async fn partly_with(stall: &Stall, settler: impl Settler) -> (Merchant, Partly) {
    let (no_nonces, no_verdicts) = (Arc::default(), Arc::default());
    let chain = Partly { chain: stall.shop.chain.clone(), no_nonces, no_verdicts };
    (stall.shop.sibling(|builder| builder.verifier(chain.clone()).settler(settler)).await, chain)
}

/// Knows by itself that a key made each signature, and so asks nothing before a payment is reserved.
#[derive(Clone)]
struct ByKey(ScriptedSettler);

impl Settler for ByKey {
    async fn domain(
        &self,
        network: Network,
        token: Address,
        stated: Option<&TokenDomain>,
    ) -> Result<Option<TokenDomain>, SettleError> {
        self.0.domain(network, token, stated).await
    }

    async fn verify(&self, payment: &SignedPayment) -> Result<Validity, SettleError> {
        self.0.verify(payment).await
    }

    fn is_signed_by_key(&self, _: &SignedPayment) -> bool {
        true
    }

    async fn settle(&self, payment: &SignedPayment, recorder: &TransactionRecorder) -> Settlement {
        self.0.settle(payment, recorder).await
    }

    async fn health(&self) -> Result<(), SettleError> {
        self.0.health().await
    }
}

/// It could not be asked for the settled payment either, and the money would be taken for no answer.
#[tokio::test(start_paused = true)]
async fn while_the_chain_does_not_say_that_a_nonce_is_unused_nothing_is_settled() {
    let stall = Stall::open().await;
    let (merchant, chain) = partly_with(&stall, ByKey(stall.settler.clone())).await;
    let counter = Counter::default();
    let service = layered(&merchant.charge("answer", PRICE).unwrap(), echo(counter.clone()));
    let payment = pays(&offered(&service).await);
    chain.no_nonces.store(true, Ordering::SeqCst);
    chain.no_verdicts.store(true, Ordering::SeqCst);
    assert_problem(ask(&service, paid(&payment)).await, 503, "verification_unavailable").await;
    assert_eq!((counter.runs(), stall.settler.settlements()), (0, 0));
    chain.no_nonces.store(false, Ordering::SeqCst);
    chain.no_verdicts.store(false, Ordering::SeqCst);
    assert_eq!(ask(&service, paid(&payment)).await.status(), 200);
}

#[tokio::test(start_paused = true)]
async fn while_the_chain_does_not_say_that_a_nonce_is_unused_nobody_is_billed_anew() {
    let stall = Stall::open().await;
    let (merchant, chain) = partly(&stall).await;
    let service = layered(&merchant.charge("answer", PRICE).unwrap(), echo(Counter::default()));
    let payment = pays(&offered(&service).await);
    chain.no_nonces.store(true, Ordering::SeqCst);
    stall.settler.answer_verify(Ok(Validity::Refused(Reason::INSUFFICIENT_FUNDS)));
    assert_problem(ask(&service, paid(&payment)).await, 503, "verification_unavailable").await;
    // Nor for one that is none of ours.
    let mut garbled = payment.accepted.exact().unwrap().clone();
    garbled.amount = units(1);
    let garbled = pays(&garbled);
    assert_problem(ask(&service, paid(&garbled)).await, 503, "verification_unavailable").await;
    stall.settler.answer_verify(None);
    // A signature that no key made may be anybody's: nothing is reserved for it.
    assert_problem(ask(&service, paid(&payment)).await, 503, "verification_unavailable").await;
    assert_eq!(stall.shop.ledger.counts().unwrap().reserved, 0);
    chain.no_nonces.store(false, Ordering::SeqCst);
    stall.settler.script([Settling::Refused(Reason::INSUFFICIENT_FUNDS)]);
    let silenced = {
        let chain = chain.clone();
        answering(Counter::default(), move |_| {
            chain.no_nonces.store(true, Ordering::SeqCst);
            http::Response::new(axum::body::Body::from("an answer"))
        })
    };
    let answer = ask(&layered(&merchant.charge("answer", PRICE).unwrap(), silenced), paid(&payment)).await;
    assert_problem(answer, 503, "outcome_unknown").await;
    // It is used, and what it paid is not told.
    chain.no_nonces.store(false, Ordering::SeqCst);
    stall.lease_runs_out();
    stall.settler.script([Settling::Held]);
    assert_problem(ask(&service, paid(&payment)).await, 503, "outcome_unknown").await;
    stall.settler.release();
    stall.lease_runs_out();
    chain.no_verdicts.store(true, Ordering::SeqCst);
    assert_problem(ask(&service, paid(&payment)).await, 503, "outcome_unknown").await;
    chain.no_verdicts.store(false, Ordering::SeqCst);
    stall.lease_runs_out();
    assert_eq!(ask(&service, paid(&payment)).await.status(), 200);
}

/// A payer may have no more money because it paid.
#[tokio::test(start_paused = true)]
async fn a_settler_that_refuses_what_was_settled_is_not_believed() {
    let stall = Stall::open().await;
    let service = layered(&stall.shop.layer(), echo(Counter::default()));
    let payment = pays(&offered(&service).await);
    stall.settler.script([Settling::Held]);
    assert_eq!(ask(&service, paid(&payment)).await.status(), 503);
    stall.settler.release();
    stall.settler.answer_verify(Ok(Validity::Refused(Reason::INSUFFICIENT_FUNDS)));
    // Not deep enough; then in the memory's past; then too old.
    let chain = &stall.shop.chain;
    stall.lease_runs_out();
    chain.set_head(ChainTime::from_unix(NOW));
    assert_problem(ask(&service, paid(&payment)).await, 409, "tx_not_confirmed").await;
    stall.lease_runs_out();
    chain.set_head(ChainTime::from_unix(NOW + 2_000));
    stall.shop.ledger.raise_mark_to(Network::BASE, ChainTime::from_unix(NOW + 1_000)).await.unwrap();
    assert_problem(ask(&service, paid(&payment)).await, 422, "payment_too_old").await;
    stall.shop.ledger.lower_mark_to(Network::BASE, ChainTime::from_unix(NOW - 10)).await.unwrap();
    stall.lease_runs_out();
    chain.set_head(ChainTime::from_unix(NOW + 25 * 60 * 60));
    assert_problem(ask(&service, paid(&payment)).await, 422, "payment_too_old").await;
    stall.lease_runs_out();
    chain.set_head(ChainTime::from_unix(NOW + 2_000));
    assert_eq!(ask(&service, paid(&payment)).await.status(), 200);
}

#[tokio::test]
async fn a_nonce_that_paid_another_shop_is_refused() {
    let stall = Stall::open().await;
    let service = layered(&stall.shop.layer(), echo(Counter::default()));
    let offer = offered(&service).await;
    let elsewhere = Transfer::new(Network::BASE, TxHash::new([1; 32]), 0)
        .with_token(offer.asset)
        .with_payer(payer())
        .with_recipient(Address::new([9; 20]))
        .with_amount(offer.amount)
        .with_block(1, ChainTime::from_unix(NOW))
        .with_binding(Binding::none().with_nonce(NONCE));
    stall.shop.chain.mine(TxHash::new([1; 32]), [elsewhere]);
    let body = assert_problem(ask(&service, paid(&pays(&offer))).await, 402, "authorization_refused").await;
    assert_eq!(body["reason"], "invalid_exact_evm_nonce_already_used");
}

/// Settles, and names another's transaction.
#[derive(Clone)]
struct Liar(ScriptedSettler, TxHash);

impl Settler for Liar {
    async fn domain(
        &self,
        network: Network,
        token: Address,
        stated: Option<&TokenDomain>,
    ) -> Result<Option<TokenDomain>, SettleError> {
        self.0.domain(network, token, stated).await
    }

    async fn verify(&self, payment: &SignedPayment) -> Result<Validity, SettleError> {
        self.0.verify(payment).await
    }

    async fn settle(&self, payment: &SignedPayment, recorder: &TransactionRecorder) -> Settlement {
        let _ = self.0.settle(payment, recorder).await;
        Settlement::Settled(self.1)
    }

    async fn health(&self) -> Result<(), SettleError> {
        self.0.health().await
    }
}

#[tokio::test(start_paused = true)]
async fn another_customers_payment_is_not_taken_for_this_one() {
    for (settling, status) in [(Settling::Settled, 200), (Settling::Unknown, 503)] {
        let stall = Stall::open().await;
        let anothers = stall.shop.pay_at(490_000, NOW - 10);
        let liar = Liar(stall.settler.clone(), anothers);
        let merchant = stall.shop.sibling(|builder| builder.settler(liar)).await;
        let service = layered(&merchant.charge("answer", PRICE).unwrap(), echo(Counter::default()));
        let payment = pays(&offered(&service).await);
        stall.settler.script([settling]);
        let answer = ask(&service, paid(&payment)).await;
        assert_eq!(answer.status(), status);
        assert_ne!(settled(&answer).transaction, Some(anothers), "its own transaction, or none");
    }
}

/// A verifier that judges by other terms sells nothing below the price.
#[tokio::test(start_paused = true)]
async fn a_transfer_of_less_is_not_taken_for_the_payment() {
    let stall = Stall::open().await;
    let service = layered(&stall.shop.layer(), echo(Counter::default()));
    let payment = pays(&offered(&service).await);
    let (offer, transaction) = (payment.accepted.exact().unwrap(), TxHash::new([8; 32]));
    let head = ChainTime::from_unix(NOW + 2);
    let less = Transfer::new(offer.network, transaction, 0)
        .with_token(offer.asset)
        .with_payer(payer())
        .with_recipient(offer.pay_to)
        .with_amount(units(1))
        .with_block(7, head)
        .with_binding(Binding::none().with_nonce(NONCE));
    stall.shop.chain.answer(transaction, Verdict::Paid { transfers: vec![less], head });
    stall.settler.script([Settling::Claimed(transaction)]);
    assert_problem(ask(&service, paid(&payment)).await, 503, "outcome_unknown").await;
}
