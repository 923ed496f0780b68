//! What an operator and a payer are told of a metered route: the maximum before a sale, the maximum and the charge afterwards, and on the chain
//! nothing that was sold as unredeemed.

use std::sync::Arc;

use serde_json::json;
use tower_x402::{
    UnredeemedReason,
    discovery::Endpoint,
    ledger::{SalesBook as _, SalesQuery, SqliteLedger},
    page::Page,
    protocol::{Binding, ByPermit, ChainTime, Network, PaymentId, Transfer, TxHash},
    testing::ScriptedSettler,
    verify::{TransferHistory, TransferQuery, VerifyError},
};

use super::{
    NONCE,
    metered::{offered, permits, saying},
    settled, units,
};
use crate::{
    page::{data, navigation, text},
    support::{NOW, Shop, ask, layered, metrics::counted, payer},
};

/// The chain's transfers.
struct History(Vec<Transfer>);

impl TransferHistory for History {
    async fn transfers(&self, _: &TransferQuery) -> Result<Vec<Transfer>, VerifyError> {
        Ok(self.0.clone())
    }
}

#[test]
fn maximum_and_charge_are_told_wherever_a_sale_is() {
    counted(async |metrics| {
        let folder = tempfile::tempdir().unwrap();
        let ledger = Arc::new(SqliteLedger::open(folder.path().join("sales.db")).await.unwrap());
        let shop = Shop::open_on(|builder, chain| {
            builder.permit_settler(ScriptedSettler::new(chain.clone())).ledger(Arc::clone(&ledger))
        });
        let shop = shop.await;
        let layer = shop.merchant.charge_up_to("words", "0.10 USDC").unwrap();
        let layer = layer.describe(Endpoint::post("/answer")).unwrap();

        let paths = shop.merchant.discovery().paths();
        let price = json!({ "mode": "dynamic", "currency": "USD", "min": "0", "max": "0.1" });
        assert_eq!(paths["/answer"]["post"]["x-payment-info"]["price"], price);
        let paged = layered(&layer.clone().page(Page::new()), saying(None, None));
        let (status, _, page) = text(ask(&paged, navigation("/answer")).await).await;
        assert_eq!(status, 402);
        assert!(page.contains("<strong>≤ $0.1</strong>"), "{page}");
        assert_eq!(data(&page)["words"]["price"], "≤ 0.1");

        let service = layered(&layer, saying(Some(1_858), None));
        let offer = offered(&service).await;
        let told = settled(&ask(&service, permits(&offer, NONCE)).await);
        assert_eq!((told.amount, told.extra.text("maximum")), (Some(units(1_858)), Some("100000")));
        let counted = |name| metrics.of(name, &[("resource", "words"), ("network", "eip155:8453")]);
        assert_eq!(counted("x402_sold_base_units_total"), 1_858.0);
        assert_eq!(counted("x402_allowed_base_units_total"), 100_000.0);
        let book = ledger.page(&SalesQuery::since(std::time::UNIX_EPOCH), None, 10).await.unwrap();
        let [sale] = &book[..] else { panic!("{book:?}") };
        assert_eq!(
            (sale.amount, sale.maximum, sale.transaction),
            (units(1_858), Some(units(100_000)), told.transaction)
        );

        // The same permit's transfer bought this; others, on the same chain, nothing.
        let transfer = |number: u8, permit| {
            Transfer::new(Network::BASE, TxHash::new([number; 32]), 0)
                .with_token(offer.asset)
                .with_payer(payer())
                .with_recipient(offer.pay_to)
                .with_amount(units(5))
                .with_block(1, ChainTime::from_unix(NOW))
                .with_binding(Binding::none().with_permit(permit))
        };
        let other = [0x43; 32];
        let history = History(vec![
            transfer(1, ByPermit::Nonce(NONCE)),
            transfer(2, ByPermit::Nonce(other)),
            transfer(3, ByPermit::Untold),
        ]);
        let since = ChainTime::from_unix(NOW - 3_600);
        let owed = shop.merchant.unredeemed(&history, &*ledger, since, None).await.unwrap();
        let owed: Vec<_> = owed.iter().map(|owed| (owed.payment, owed.reason)).collect();
        let expected = [
            (PaymentId::of_permit(Network::BASE, payer(), other), UnredeemedReason::NotRedeemed),
            (PaymentId::of_transfer(Network::BASE, TxHash::new([3; 32]), 0), UnredeemedReason::PermitUntold),
        ];
        assert_eq!(owed, expected);
    });
}
