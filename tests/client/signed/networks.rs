//! A seller on two networks, and a client that has money on the second one alone.

use tower_x402::{
    Chain, Receipt,
    client::{Budget, PaymentMethod},
    protocol::v2::Reason,
    testing::{ScriptedPayer, ScriptedSettler, Settling},
};

use super::{
    super::rig::{Got, call},
    *,
};
use crate::support::{Shop, payer};

/// A market whose wallet is on the second network, with the settler and the verifier there.
async fn market() -> (Market, ScriptedSettler, ScriptedVerifier) {
    let sepolia = ScriptedVerifier::on(Network::BASE_SEPOLIA, ChainTime::from_unix(NOW - 3600));
    let settler = ScriptedSettler::new(sepolia.clone());
    let shop = Shop::open_on(|builder, base| {
        let second = Chain::new(Network::BASE_SEPOLIA).verifier(sepolia.clone()).settler(settler.clone());
        builder.settler(ScriptedSettler::new(base.clone())).chain(second)
    })
    .await;
    sepolia.set_head(ChainTime::from_unix(NOW));
    let wallet = ScriptedPayer::new(sepolia.clone(), payer());
    let market = Market { shop, wallet, journal: Default::default(), runs: Default::default() };
    (market, settler, sepolia)
}

async fn buy(market: &Market) -> Result<Got, PayError> {
    let budget = Budget::in_assets([Asset::USDC_BASE_SEPOLIA]).per_payment("1").per_day("10").build().unwrap();
    let builder = tower_x402::client::PayLayer::builder(market.wallet.clone(), budget, market.journal.clone());
    let layer = builder.clock(market.shop.clock.clone()).build().await.unwrap();
    let seller = market.seller_of(|request| {
        assert_eq!(request.extensions().get::<Receipt>().unwrap().network(), Network::BASE_SEPOLIA);
        http::Response::new("the answer".into())
    });
    call(&tower::Layer::layer(&layer, seller), question("{}")).await
}

#[tokio::test(start_paused = true)]
async fn it_pays_on_the_network_on_which_it_has_money() {
    let (market, settler, _) = market().await;
    let got = buy(&market).await.unwrap();
    let bought = got.purchase.unwrap();
    assert_eq!((got.text.as_str(), bought.paid_by), ("the answer", PaymentMethod::Authorization));
    assert_eq!((settler.settlements(), market.wallet.transfers()), (1, 0));
    assert_eq!(market.journal.entries()[0].network, Network::BASE_SEPOLIA);
}

/// Its transaction is shown as one of that network, which is not the one that `Pay` names.
#[tokio::test(start_paused = true)]
async fn what_was_settled_there_before_a_crash_is_redeemed_there() {
    let (market, settler, sepolia) = market().await;
    settler.always(Settling::Refused(Reason::INSUFFICIENT_FUNDS));
    let error = buy(&market).await.unwrap_err();
    assert!(error.kind() == PayErrorKind::Outstanding, "{error}");
    settler.always(None);
    let entry = market.journal.entries().remove(0);
    let signed = entry.authorization().unwrap().clone();
    let authorization = &signed.authorization;
    let block = ChainTime::from_unix(NOW + 2);
    sepolia.set_head(block);
    let transaction = TxHash::new([5; 32]);
    sepolia.mine(
        transaction,
        [Transfer::new(Network::BASE_SEPOLIA, transaction, 0)
            .with_token(Asset::USDC_BASE_SEPOLIA.contract())
            .with_payer(authorization.from)
            .with_recipient(authorization.to)
            .with_amount(authorization.value)
            .with_block(1, block)
            .with_binding(Binding::none().with_nonce(authorization.nonce))],
    );
    let got = buy(&market).await.unwrap();
    assert_eq!((got.text.as_str(), market.wallet.authorizations_signed()), ("the answer", 1));
    assert_eq!(got.purchase.unwrap().transaction, Some(transaction));
}
