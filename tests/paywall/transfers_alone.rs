//! A verifier that reads transfers and checks no signatures.

use serde_json::json;
use tower_x402::{
    BuildError, Merchant,
    ledger::MemoryLedger,
    protocol::{Asset, ChainTime, Network, SealingKeys, Terms, TxHash, redemption_message},
    testing::{ScriptedSettler, ScriptedVerifier, scripted_signature},
    verify::{Verdict, Verifier, VerifyError},
};

use crate::support::{
    Counter, NOW, PRICE, Shop, ask, assert_problem, echo, layered, payer, post, quoted, recipient, redemption,
};

struct TransfersAlone(ScriptedVerifier);

impl Verifier for TransfersAlone {
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
        self.0.horizon().await
    }
}

#[tokio::test]
async fn it_sells_and_no_signature_proves_a_payment() {
    let shop = Shop::open().await;
    let verifier = TransfersAlone(shop.chain.clone());
    let merchant = shop.sibling(|builder| builder.verifier(verifier)).await;
    let service = layered(&merchant.charge("answer", PRICE).unwrap(), echo(Counter::default()));
    let intent = quoted(&service).await;
    let transaction = shop.pay(490_000);
    let message = redemption_message(Network::BASE, transaction, &intent.parse().unwrap());
    let signature = scripted_signature(payer(), &message);
    let signed =
        json!({"intentId": intent, "txHash": transaction, "paymentSignature": signature.to_string(), "query": "why"});
    assert_problem(ask(&service, post(signed.to_string())).await, 403, "invalid_signature").await;
    assert_eq!(ask(&service, redemption(&intent, transaction)).await.status(), 200);
}

#[tokio::test]
async fn it_serves_no_settler() {
    let chain = ScriptedVerifier::new(ChainTime::from_unix(NOW));
    let built = Merchant::builder(recipient())
        .verifier(TransfersAlone(chain.clone()))
        .settler(ScriptedSettler::new(chain))
        .ledger(MemoryLedger::new())
        .sealing_keys(SealingKeys::new([7; 32]))
        .build();
    assert!(matches!(built.await.map(drop), Err(BuildError::NoSignatures)));
}
