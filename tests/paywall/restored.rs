//! Sales that a log has and a restored ledger lacks, and what such a ledger says is owed.

use std::time::Duration;

use tower_x402::{
    LoggedSale, Merchant, UnredeemedReason,
    ledger::{Maintenance as _, SqliteLedger},
    protocol::{Amount, Asset, ChainTime, Network, PaymentId, SealingKeys, Terms, Transfer, TxHash},
    testing::ScriptedVerifier,
    verify::{Signatures, TransferHistory, TransferQuery, Verdict, Verifier, VerifyError},
};

use crate::support::{
    Counter, NOW, Shop, ask, assert_problem, echo, layered, payer, quoted, recipient, redemption, status,
};

/// The chain's transfers to the shop.
#[derive(Default)]
struct History(Vec<Transfer>);

impl TransferHistory for History {
    async fn transfers(&self, query: &TransferQuery) -> Result<Vec<Transfer>, VerifyError> {
        let asked = |transfer: &&Transfer| {
            query.is_in_span(transfer.block_time) && query.recipients().contains(&transfer.recipient)
        };
        Ok(self.0.iter().filter(asked).cloned().collect())
    }
}

impl History {
    fn pay(&mut self, shop: &Shop, units: u128) -> (TxHash, PaymentId) {
        let transaction = shop.pay(units);
        let paid = Transfer::new(Network::BASE, transaction, 0)
            .with_token(Asset::USDC_BASE.contract())
            .with_payer(payer())
            .with_recipient(recipient())
            .with_amount(Amount::from_base_units(units))
            .with_block(1, ChainTime::from_unix(NOW));
        self.0.push(paid);
        (transaction, PaymentId::of_transfer(Network::BASE, transaction, 0))
    }
}

const SINCE: ChainTime = ChainTime::from_unix(NOW - 3600);

/// A payment is sold from then on by whatever the log says of its intent; and no other payment is.
#[tokio::test]
async fn what_is_restored_is_sold_once_and_nothing_else_is() {
    let (shop, mut history) = (Shop::open().await, History::default());
    let service = layered(&shop.layer(), echo(Counter::default()));
    let failing = layered(&shop.layer(), status(500));
    let mut intents = Vec::new();
    for _ in 0..5 {
        intents.push(quoted(&service).await);
    }
    let [known, lost, tried, unsold] = [(); 4].map(|()| history.pay(&shop, 490_000));
    assert_eq!(ask(&service, redemption(&intents[0], known.0)).await.status(), 200);
    for _ in 0..16 {
        assert_eq!(ask(&failing, redemption(&intents[2], tried.0)).await.status(), 500);
    }
    assert_problem(ask(&service, redemption(&intents[2], tried.0)).await, 429, "too_many_attempts").await;
    let elsewhere = PaymentId::of_transfer(Network::BASE_SEPOLIA, unsold.0, 0);
    let other_log = PaymentId::of_transfer(Network::BASE, unsold.0, 1);
    // Under an intent that another payment consumed: what names an intent is not shown here, so that its key stands for it.
    let sales: Vec<_> = [known.1, lost.1, lost.1, tried.1, elsewhere, other_log]
        .map(|payment| LoggedSale::new(payment, "answer"))
        .into();
    for (recorded, before) in [(2, 2), (0, 4)] {
        let restored = shop.merchant.restore_sales(&history, &sales, SINCE).await.unwrap();
        assert_eq!((restored.recorded, restored.known), (recorded, before));
        assert_eq!(restored.not_found, [elsewhere, other_log]);
        assert!(restored.held.is_empty() && restored.below_mark.is_empty());
    }
    for paid in [lost, tried] {
        assert_problem(ask(&service, redemption(&intents[1], paid.0)).await, 409, "tx_already_used").await;
    }
    assert_eq!(ask(&service, redemption(&intents[3], unsold.0)).await.status(), 200);
}

/// A sale at a price of before is no gift: its record was lost, and a log decides.
#[tokio::test]
async fn what_is_below_the_mark_is_given_back_to_nobody_at_whatever_price() {
    let (shop, mut history) = (Shop::open().await, History::default());
    let _ = shop.layer();
    let (_, cheap) = history.pay(&shop, 10_000);
    let _ = shop.ledger.raise_mark_to(Network::BASE, ChainTime::from_unix(NOW)).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let book = SqliteLedger::open(folder.path().join("sales.db")).await.unwrap();
    let owed = shop.merchant.unredeemed(&history, &book, SINCE, None).await.unwrap();
    let told: Vec<_> = owed.iter().map(|owed| (owed.payment, owed.reason)).collect();
    assert_eq!(told, [(cheap, UnredeemedReason::BelowMark)]);
}

/// How far its node is behind.
pub const LAG: Duration = Duration::from_secs(4);

/// Reads by a node that is behind the one that verified the last sale.
pub struct Behind(pub ScriptedVerifier);

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
        Ok(self.head().await?.after(LAG))
    }

    fn signatures(&self) -> Option<&impl Signatures> {
        Some(&self.0)
    }
}

/// The log or the list comes first: the ledger begins as before a first sale, above every payment that was seen.
#[tokio::test]
async fn an_emptied_ledger_begins_above_what_its_node_shows() {
    for restores in [true, false] {
        let (folder, chain) = (tempfile::tempdir().unwrap(), ScriptedVerifier::new(ChainTime::from_unix(NOW)));
        let ledger = SqliteLedger::open(folder.path().join("sales.db")).await.unwrap();
        ledger.migrate().await.unwrap();
        // It cannot begin at the start.
        chain.outage(VerifyError::unavailable());
        let merchant = Merchant::builder(recipient())
            .verifier(Behind(chain.clone()))
            .ledger(ledger.clone())
            .sealing_keys(SealingKeys::new([7; 32]))
            .start_lazily()
            .build()
            .await
            .unwrap();
        chain.outage(None);
        assert_eq!(ledger.low_water_mark(Network::BASE).await, Ok(None));
        let history = History::default();
        match restores {
            true => drop(merchant.restore_sales(&history, &[], SINCE).await.unwrap()),
            false => drop(merchant.unredeemed(&history, &ledger, SINCE, None).await.unwrap()),
        }
        let mark = ledger.low_water_mark(Network::BASE).await.unwrap();
        assert_eq!(mark, Some(ChainTime::from_unix(NOW).after(LAG)), "{restores}");
    }
}
