//! Once it is settled, an authorization and its signature are public: nobody but its payer gets the answer for it.

use std::time::Duration;

use axum::body::Body;
use http::Request;
use tower_x402::{
    X402,
    protocol::{
        Address, Asset, ChainTime, Network, Terms, TokenDomain, TxHash, redemption_message,
        v2::{PaymentPayload, PaymentRequirements, Reason},
    },
    settle::{SettleError, Settlement, Settler, SignedPayment, TransactionRecorder, Validity},
    testing::{ScriptedSettler, ScriptedVerifier, Settling, scripted_signature},
    verify::{Signatures, Verdict, Verifier, VerifyError},
};

use super::{NONCE, Stall, authorization, by_hash, intent, offered, paid, pays, sign, unquoted::unquoted};
use crate::support::{
    Counter, Handler, NOW, ask, assert_problem, echo,
    faults::{Fault, Op},
    layered, payer,
};

/// A settler that records a transaction before it sends it.
struct Recording(ScriptedSettler);

impl Settler for Recording {
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
        assert!(recorder.record(TxHash::new([5; 32])).await);
        self.0.settle(payment, recorder).await
    }

    async fn health(&self) -> Result<(), SettleError> {
        self.0.health().await
    }
}

/// A transaction that reverted has the signature in it, and its nonce is not used: whoever reads the chain could send it once more.
#[tokio::test(start_paused = true)]
async fn what_was_sent_in_vain_stays_its_payers_until_its_time_is_over() {
    for quoted in [true, false] {
        let stall = Stall::open().await;
        let merchant = stall.shop.sibling(|builder| builder.settler(Recording(stall.settler.clone()))).await;
        let service = layered(&merchant.charge("answer", crate::support::PRICE).unwrap(), echo(Counter::default()));
        let (prepared, offer) = (offered(&service).await, offered(&service).await);
        let payment = pays(&if quoted { offer.clone() } else { unquoted(&offer) });
        let reverted = || Settling::Refused(Reason::INVALID_TRANSACTION_STATE);
        stall.settler.script([reverted()]);
        assert_problem(ask(&service, paid(&payment)).await, 503, "outcome_unknown").await;
        let stolen = sign(&prepared, authorization(&offer, NONCE));
        assert_problem(ask(&service, paid(&stolen)).await, 409, "redemption_in_progress").await;
        stall.lease_runs_out();
        assert_problem(ask(&service, paid(&stolen)).await, 409, "redemption_in_progress").await;
        stall.settler.answer_verify(Ok(Validity::Refused(Reason::INSUFFICIENT_FUNDS)));
        assert_problem(ask(&service, paid(&payment)).await, 503, "outcome_unknown").await;
        stall.shop.clock.set_unix(NOW + 301);
        stall.shop.chain.set_head(ChainTime::from_unix(NOW + 301));
        assert_problem(ask(&service, paid(&payment)).await, 402, "authorization_refused").await;
        assert_eq!(stall.settler.settlements(), 1);
    }
}

/// Without a quote all that is shown is public from the moment at which it is sent, not only once it is mined.
#[tokio::test(start_paused = true)]
async fn what_was_sent_without_a_quote_is_not_sold_to_whoever_copies_it() {
    for records in [true, false] {
        let stall = Stall::open().await;
        let merchant = match records {
            true => stall.shop.sibling(|builder| builder.settler(Recording(stall.settler.clone()))).await,
            // As a facilitator's client, which knows no transaction beforehand.
            false => stall.shop.merchant.clone(),
        };
        let service = layered(&merchant.charge("answer", crate::support::PRICE).unwrap(), echo(Counter::default()));
        let copied = pays(&unquoted(&offered(&service).await));
        stall.settler.script([Settling::Held]);
        assert_problem(ask(&service, paid(&copied)).await, 503, "outcome_unknown").await;
        for _ in 0..2 {
            stall.lease_runs_out();
            assert_problem(ask(&service, paid(&copied)).await, 503, "outcome_unknown").await;
        }
        assert_eq!(stall.settler.release().len(), 1);
        stall.lease_runs_out();
        assert_problem(ask(&service, paid(&copied)).await, 403, "payment_bound").await;
        assert_eq!(stall.settler.settlements(), 1);
    }
}

/// Its payer had it settled by a relayer. A thief reads it on the chain, and the seller's only node does not know it yet.
#[tokio::test(start_paused = true)]
async fn what_was_mined_before_the_node_knew_it_is_sold_only_to_whom_the_settler_names() {
    let (own, unrelated) = (TxHash::new([6; 32]), TxHash::new([5; 32]));
    for (named, answer) in [(None, 403), (Some(own), 200), (Some(unrelated), 403)] {
        let stall = Stall::open().await;
        let chain = stall.shop.chain.clone();
        chain.mine(unrelated, []);
        let late = Late { settler: stall.settler.clone(), chain: chain.clone(), named };
        let node = Behind(chain.clone());
        let merchant = stall.shop.sibling(|builder| builder.settler(late).verifier(node)).await;
        let service = layered(&merchant.charge("answer", crate::support::PRICE).unwrap(), echo(Counter::default()));
        let offer = offered(&service).await;
        chain.set_head(ChainTime::from_unix(NOW - 60));
        let told = ask(&service, paid(&pays(&offer))).await;
        assert_eq!(told.status(), answer, "named by the settler: {named:?}");
    }
}

/// A settler by whose turn a payment was mined half a minute ago: by itself, if it names that transaction, or by somebody else.
struct Late {
    settler: ScriptedSettler,
    chain: ScriptedVerifier,
    named: Option<TxHash>,
}

impl Settler for Late {
    async fn domain(
        &self,
        network: Network,
        token: Address,
        stated: Option<&TokenDomain>,
    ) -> Result<Option<TokenDomain>, SettleError> {
        self.settler.domain(network, token, stated).await
    }

    async fn verify(&self, payment: &SignedPayment) -> Result<Validity, SettleError> {
        self.settler.verify(payment).await
    }

    async fn settle(&self, payment: &SignedPayment, _: &TransactionRecorder) -> Settlement {
        let (offer, transaction) = (&payment.requirements, TxHash::new([6; 32]));
        let signed = &payment.authorization.authorization;
        let mined = ChainTime::from_unix(NOW - 30);
        self.chain.mine(transaction, [super::made_from(offer.asset, signed, transaction, mined)]);
        self.chain.set_head(ChainTime::from_unix(NOW));
        let used = Settlement::Refused(Reason::INVALID_EXACT_EVM_NONCE_ALREADY_USED);
        self.named.map_or(used, Settlement::Settled)
    }

    async fn health(&self) -> Result<(), SettleError> {
        self.settler.health().await
    }
}

/// A node that is behind, and a clock that is not.
struct Behind(ScriptedVerifier);

impl Verifier for Behind {
    async fn check(&self, network: Network, assets: &[Asset]) -> Result<(), VerifyError> {
        self.0.check(network, assets).await
    }

    async fn verify(&self, terms: &Terms, transaction: TxHash) -> Result<Verdict, VerifyError> {
        self.0.verify(terms, transaction).await
    }

    async fn head(&self) -> Result<ChainTime, VerifyError> {
        self.0.head().await
    }

    async fn horizon(&self) -> Result<ChainTime, VerifyError> {
        Ok(ChainTime::from_unix(NOW))
    }

    fn signatures(&self) -> Option<&impl Signatures> {
        self.0.signatures()
    }
}

#[tokio::test(start_paused = true)]
async fn a_thief_with_the_signature_and_an_intent_of_his_own_gets_nothing() {
    let stall = Stall::open().await;
    let counter = Counter::default();
    let service = layered(&stall.shop.layer(), echo(counter.clone()));
    // He collects quotes beforehand.
    let prepared = offered(&service).await;
    let offer = offered(&service).await;
    let payment = pays(&offer);
    stall.settler.script([Settling::Held]);
    assert_eq!(ask(&service, paid(&payment)).await.status(), 503);
    let transaction = stall.settler.release()[0];
    let stolen = sign(&prepared, authorization(&offer, NONCE));
    for _ in 0..3 {
        for theft in [&stolen, &sign(&offered(&service).await, authorization(&offer, NONCE))] {
            assert_problem(ask(&service, paid(theft)).await, 409, "redemption_in_progress").await;
        }
        let mut unquoted = offer.clone();
        unquoted.extra = Default::default();
        let unquoted = sign(&unquoted.with_token_domain("USD Coin", "2"), authorization(&offer, NONCE));
        assert_problem(ask(&service, paid(&unquoted)).await, 409, "redemption_in_progress").await;
        assert_problem(ask(&service, by_hash(&intent(&prepared), transaction)).await, 403, "payment_bound").await;
        stall.lease_runs_out();
    }
    assert_eq!(ask(&service, paid(&payment)).await.status(), 200);
    assert_problem(ask(&service, paid(&stolen)).await, 409, "tx_already_used").await;
}

/// Settled by somebody else, in no reservation of ours: its payer shows that by a signature, at the other door.
#[tokio::test]
async fn what_another_settled_is_its_payers_by_signature() {
    let stall = Stall::open().await;
    let counter = Counter::default();
    let service = layered(&stall.shop.layer(), echo(counter.clone()));
    let offer = offered(&service).await;
    let payment = pays(&offer);
    let settler = ScriptedSettler::new(stall.shop.chain.clone());
    let signed = SignedPayment::new(
        super::SignedAuthorization::new(authorization(&offer, NONCE), "0x00".parse().unwrap()),
        offer.clone(),
        TokenDomain::usdc_of(Network::BASE).unwrap(),
    );
    let settled = settler.settle(&signed, &TransactionRecorder::none()).await;
    let Settlement::Settled(transaction) = settled else { panic!("{settled:?}") };
    let body = assert_problem(ask(&service, paid(&payment)).await, 403, "payment_bound").await;
    let message = redemption_message(Network::BASE, transaction, &offer.intent().unwrap().unwrap());
    assert_eq!(body["message"], message.as_str());
    let mut request = by_hash(&intent(&offer), transaction);
    let proof = format!(
        r#"{{"intentId":"{}","txHash":"{transaction}","paymentSignature":"{}"}}"#,
        intent(&offer),
        scripted_signature(payer(), &message)
    );
    request.headers_mut().insert("x402-payment", proof.parse().unwrap());
    assert_eq!(ask(&service, request).await.status(), 200);
    assert_problem(ask(&service, paid(&payment)).await, 409, "already_consumed").await;
    assert_eq!((counter.runs(), stall.settler.settlements()), (1, 0));
}

/// Whoever cannot sign for the payer holds nothing of what is settled, not even while it is looked at.
#[tokio::test(start_paused = true)]
async fn a_settled_payment_that_is_shown_without_its_signature_stays_free() {
    for unquoted_copy in [false, true] {
        let stall = Stall::open().await;
        let service = layered(&stall.shop.layer(), echo(Counter::default()));
        let (prepared, offer) = (offered(&service).await, offered(&service).await);
        let transaction = settled_by_another(&stall, &offer).await;
        let copy = if unquoted_copy { unquoted(&prepared) } else { prepared };
        let forged = sign(&copy, authorization(&offer, NONCE));
        stall.settler.answer_verify(Ok(Validity::Refused(Reason::INVALID_EXACT_EVM_PAYLOAD_SIGNATURE)));
        // A chain that takes its time.
        stall.shop.chain.delay(Duration::from_secs(5));
        let mut looked_at = Box::pin(ask(&service, paid(&forged)));
        assert!(tokio::time::timeout(Duration::from_secs(1), &mut looked_at).await.is_err());
        stall.shop.chain.delay(Duration::ZERO);
        assert_eq!(ask(&service, by_payer(&offer, transaction)).await.status(), 200);
        assert_problem(looked_at.await, 403, "payment_bound").await;
    }
}

/// The signature is the payer's, copied from the chain, or the settler is silent: then it is looked at under a lease. Once the payer has asked
/// for the payment, the copy does not get it again.
#[tokio::test(start_paused = true)]
async fn a_copy_does_not_keep_a_settled_payment_from_its_payer_who_waits() {
    for (settler_answers, unquoted_copy) in [(true, false), (true, true), (false, false), (false, true)] {
        let stall = Stall::open().await;
        let service = layered(&stall.shop.layer(), echo(Counter::default()));
        let (prepared, offer) = (offered(&service).await, offered(&service).await);
        let transaction = settled_by_another(&stall, &offer).await;
        let copy = if unquoted_copy { unquoted(&prepared) } else { prepared };
        let copied = paid(&sign(&copy, authorization(&offer, NONCE))).into_parts().0;
        let shown = || Request::from_parts(copied.clone(), Body::from(r#"{"query":"why"}"#));
        if !settler_answers {
            stall.settler.answer_verify(Err(SettleError::unavailable()));
        }
        let mut is_held = true;
        for (payer_gets, copy_gets) in [(409, 403), (200, 409)] {
            stall.shop.chain.delay(Duration::from_secs(5));
            let mut looked_at = Box::pin(ask(&service, shown()));
            let at_once = tokio::time::timeout(Duration::from_secs(1), &mut looked_at).await;
            assert_eq!(at_once.is_err(), is_held, "looked at under a lease: {settler_answers} {unquoted_copy}");
            stall.shop.chain.delay(Duration::ZERO);
            let told = ask(&service, by_payer(&offer, transaction)).await;
            assert_eq!(told.status(), payer_gets, "{settler_answers} {unquoted_copy}");
            let copied = match at_once {
                Ok(told) => told,
                Err(_) => looked_at.await,
            };
            assert_eq!(copied.status(), copy_gets, "{settler_answers} {unquoted_copy}");
            is_held = false;
        }
    }
}

/// Its answer failed after it was settled for no quote, so that it is redeemed by its payer's signature, and a copy names the same record.
#[tokio::test(start_paused = true)]
async fn nor_one_that_was_settled_here_without_a_quote() {
    let stall = Stall::open().await;
    let works = layered(&stall.shop.layer(), echo(Counter::default()));
    let fails = layered(&stall.shop.layer().settle_first(), crate::support::status(500));
    let offer = offered(&works).await;
    let payment = unquoted(&offer);
    let transaction = super::settled(&ask(&fails, paid(&pays(&payment))).await).transaction.unwrap();
    stall.shop.chain.delay(Duration::from_secs(5));
    let mut looked_at = Box::pin(ask(&works, paid(&pays(&payment))));
    assert!(tokio::time::timeout(Duration::from_secs(1), &mut looked_at).await.is_err());
    stall.shop.chain.delay(Duration::ZERO);
    assert_problem(ask(&works, by_payer(&offer, transaction)).await, 409, "redemption_in_progress").await;
    assert_problem(looked_at.await, 403, "payment_bound").await;
    assert_problem(ask(&works, paid(&pays(&payment))).await, 409, "redemption_in_progress").await;
    assert_eq!(ask(&works, by_payer(&offer, transaction)).await.status(), 200);
}

/// Who waits at the one door with the same payment goes on at the other, where it was settled for the quote.
#[tokio::test(start_paused = true)]
async fn a_payer_that_waits_goes_on_by_the_same_header() {
    let stall = Stall::open().await;
    let service = layered(&stall.shop.layer(), echo(Counter::default()));
    let offer = offered(&service).await;
    stall.settler.script([Settling::Held]);
    assert_problem(ask(&service, paid(&pays(&offer))).await, 503, "outcome_unknown").await;
    let transaction = stall.settler.release()[0];
    assert_problem(ask(&service, by_payer(&offer, transaction)).await, 409, "redemption_in_progress").await;
    stall.lease_runs_out();
    assert_eq!(ask(&service, paid(&pays(&offer))).await.status(), 200);
}

/// The release of a thief's reservation was lost, with the process or with the ledger: it is no sign that he settled anything.
#[tokio::test(start_paused = true)]
async fn a_thief_whose_reservation_was_left_behind_gets_nothing() {
    let stall = Stall::open().await;
    let counter = Counter::default();
    let service = layered(&stall.shop.layer(), echo(counter.clone()));
    let (stolen, owner) = left_behind(&stall, &service).await;
    for _ in 0..3 {
        stall.lease_runs_out();
        assert_problem(ask(&service, paid(&stolen)).await, 403, "payment_bound").await;
    }
    stall.lease_runs_out();
    assert_eq!(ask(&service, owner).await.status(), 200);
    assert_eq!(counter.runs(), 1);
}

/// The same, where the settler is behind and takes the payment for one that is still to be settled.
#[tokio::test(start_paused = true)]
async fn nor_does_he_by_a_settler_that_is_behind() {
    for settling in [Settling::Settled, Settling::Unknown, Settling::Refused(Reason::INSUFFICIENT_FUNDS)] {
        let stall = Stall::open().await;
        let service = layered(&stall.shop.layer(), echo(Counter::default()));
        let (stolen, owner) = left_behind(&stall, &service).await;
        stall.settler.answer_verify(Ok(Validity::Valid));
        for _ in 0..3 {
            stall.lease_runs_out();
            stall.settler.script([settling.clone()]);
            assert_problem(ask(&service, paid(&stolen)).await, 403, "payment_bound").await;
        }
        stall.lease_runs_out();
        assert_eq!(ask(&service, owner).await.status(), 200);
    }
}

/// A thief's payment, reserved under his intent after somebody else settled it, and not released; and what its payer shows.
async fn left_behind<S: Handler>(stall: &Stall, service: &X402<S>) -> (PaymentPayload, Request<Body>) {
    let (prepared, offer) = (offered(service).await, offered(service).await);
    let transaction = settled_by_another(stall, &offer).await;
    let stolen = sign(&prepared, authorization(&offer, NONCE));
    stall.shop.faults.always(Op::Release, Fault::Fail);
    assert_problem(ask(service, paid(&stolen)).await, 403, "payment_bound").await;
    stall.shop.faults.heal();
    (stolen, by_payer(&offer, transaction))
}

/// What a payer shows whose payment was settled by somebody else: the transaction, and a signature.
fn by_payer(offer: &PaymentRequirements, transaction: TxHash) -> Request<Body> {
    let intent = offer.intent().unwrap().unwrap();
    let signature = scripted_signature(payer(), &redemption_message(Network::BASE, transaction, &intent));
    let proof = format!(r#"{{"intentId":"{intent}","txHash":"{transaction}","paymentSignature":"{signature}"}}"#);
    let mut owner = by_hash(intent.as_str(), transaction);
    owner.headers_mut().insert("x402-payment", proof.parse().unwrap());
    owner
}

/// Settles it as a relayer does that the seller knows nothing of.
async fn settled_by_another(stall: &Stall, offer: &PaymentRequirements) -> TxHash {
    let settler = ScriptedSettler::new(stall.shop.chain.clone());
    let signed = SignedPayment::new(
        super::SignedAuthorization::new(authorization(offer, NONCE), "0x00".parse().unwrap()),
        offer.clone(),
        TokenDomain::usdc_of(Network::BASE).unwrap(),
    );
    let settled = settler.settle(&signed, &TransactionRecorder::none()).await;
    let Settlement::Settled(transaction) = settled else { panic!("{settled:?}") };
    transaction
}
