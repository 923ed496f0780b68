//! Against a real chain: that what the scripted node says is what a node says.

use tower_x402::testing::DevChain;

use super::*;

pub(super) const PRICE: u128 = 490_000;

/// Anvil with a block only when asked for one, and a verifier that sees each at once.
pub(super) async fn start() -> (DevChain, EvmVerifier) {
    let chain = DevChain::builder().install_with_npm(true).mine_every(None).start().await.expect("anvil");
    let verifier = EvmVerifier::builder().endpoints([chain.rpc_url()]).block_time(Duration::from_millis(1));
    let verifier = verifier.max_head_age(None).connect().await.expect("connects");
    (chain, verifier)
}

async fn pay(chain: &DevChain, units: u128) -> TxHash {
    let payer = chain.accounts()[1].address();
    chain.transfer(payer, RECIPIENT, Amount::from_base_units(units)).await.expect("sent")
}

/// A block time of 1 ms must pass between two looks.
pub(super) async fn look(verifier: &EvmVerifier, transaction: TxHash) -> Result<Verdict, VerifyErrorKind> {
    tokio::time::sleep(Duration::from_millis(5)).await;
    verify(verifier, transaction).await
}

#[tokio::test]
async fn a_payment_from_pending_to_paid() {
    let (chain, verifier) = start().await;
    assert_eq!(verifier.check(Network::BASE, &[Asset::USDC_BASE]).await, Ok(()));
    assert_eq!(verifier.asset(chain.usdc()).await, Ok(Asset::USDC_BASE));
    let (transaction, short) = (pay(&chain, PRICE).await, pay(&chain, PRICE - 1).await);
    for unmined in [transaction, short, tx(1)] {
        assert!(matches!(look(&verifier, unmined).await, Ok(Verdict::NotConfirmed { .. })));
    }
    chain.mine(1).await.expect("mined");
    let head = chain.timestamp().await.expect("a time");
    let Ok(Verdict::Paid { transfers, head: judged_at }) = look(&verifier, transaction).await else {
        panic!("not paid")
    };
    let expected = Transfer::new(Network::BASE, transaction, 0)
        .with_token(chain.usdc())
        .with_payer(chain.accounts()[1].address())
        .with_recipient(RECIPIENT)
        .with_amount(Amount::from_base_units(PRICE))
        .with_block(chain.block_number().await.expect("a height"), head);
    assert_eq!((transfers, judged_at), (vec![expected], head));
    assert_eq!(verifier.head().await, Ok(head));
    let paid = Amount::from_base_units(PRICE - 1);
    assert_eq!(look(&verifier, short).await, Ok(Verdict::Insufficient { paid }));
}

#[tokio::test]
async fn a_reorganisation_takes_a_payment_away_and_brings_it_back() {
    let (chain, verifier) = start().await;
    let transaction = pay(&chain, PRICE).await;
    chain.mine(2).await.expect("mined");
    assert_paid(look(&verifier, transaction).await);
    chain.reorg(2, &[]).await.expect("reorganised");
    let gone = look(&verifier, transaction).await;
    assert!(matches!(gone, Ok(Verdict::NotConfirmed { .. })), "{gone:?}");
    let again = pay(&chain, PRICE).await;
    chain.mine(1).await.expect("mined");
    assert_paid(look(&verifier, again).await);
}
