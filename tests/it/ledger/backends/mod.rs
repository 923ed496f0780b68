//! Is it spent, and does that outlive a crash? The ledgers over databases.

#[cfg(all(unix, feature = "postgres", feature = "redis", feature = "sqlite"))]
mod answers;
#[cfg(all(unix, feature = "postgres", feature = "redis", feature = "sqlite"))]
mod book;
#[cfg(all(unix, feature = "postgres", feature = "redis", feature = "sqlite"))]
mod booked;
#[cfg(all(unix, feature = "postgres", feature = "redis", feature = "sqlite"))]
pub mod kinds;
#[cfg(all(unix, feature = "postgres", feature = "redis", feature = "sqlite"))]
mod machine;
#[cfg(all(unix, feature = "postgres", feature = "redis", feature = "sqlite"))]
mod maintenance;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(all(unix, feature = "postgres", feature = "redis", feature = "sqlite"))]
mod processes;
#[cfg(feature = "redis")]
mod redis;
#[cfg(all(unix, feature = "postgres", feature = "redis", feature = "sqlite"))]
mod replay;
#[cfg(all(unix, feature = "postgres", feature = "redis", feature = "sqlite"))]
mod restarts;
#[cfg(all(unix, feature = "postgres", feature = "redis", feature = "sqlite"))]
mod selling;
#[cfg(all(unix, feature = "postgres", feature = "redis", feature = "sqlite"))]
mod skew;
#[cfg(feature = "sqlite")]
mod sqlite;

use std::time::Duration;

use tower_x402::{
    ledger::{Claim, CommitOutcome, Lease, Ledger, ReserveOutcome},
    protocol::{Address, Amount, Binding, ChainTime, IntentKey, Network, Transfer, TxHash},
};

/// Where the ledgers of these tests begin.
const MARK: u64 = 1_795_280_000;
/// For how long a claim may be paid, and the head, where nothing else is said.
const HEAD: u64 = MARK + 200;
const AGE: Duration = Duration::from_secs(86_400);
/// No one waits for it to run out.
const LEASE: Duration = Duration::from_secs(3_600);
/// A machine that is busy with other tests is no server that hangs.
const PATIENT: Duration = Duration::from_secs(60);

fn time(seconds: u64) -> ChainTime {
    ChainTime::from_unix(seconds)
}

/// A payment mined a hundred seconds after the mark.
fn paid(name: u64) -> Transfer {
    let mut hash = [0x11; 32];
    hash[..8].copy_from_slice(&name.to_be_bytes());
    Transfer::new(Network::BASE, TxHash::new(hash), 3)
        .with_token(Address::new([0x55; 20]))
        .with_payer(Address::new([0x66; 20]))
        .with_recipient(Address::new([0x77; 20]))
        .with_amount(Amount::from_base_units(490_000))
        .with_block(30_000_000, time(MARK + 100))
}

/// A claim of the intent of this name on the payment of this name.
fn claim(intent: u64, payment: u64) -> Claim {
    claim_for(intent, payment, LEASE, HEAD)
}

fn claim_for(intent: u64, payment: u64, lease: Duration, head: u64) -> Claim {
    let key = IntentKey::new(u128::from(intent).to_be_bytes());
    Claim::builder("demand-insights", key)
        .pay_until(time(head))
        .transfers(vec![paid(payment)])
        .head(time(head))
        .max_payment_age(AGE)
        .lease(lease)
        .build()
}

/// A claim of the intent of this name on an authorization of this name that is not settled yet.
fn claim_unsettled(intent: u64, payment: u64, lease: Duration) -> Claim {
    let mut transfer = paid(payment);
    transfer.binding = Binding::none().with_nonce(*transfer.transaction.as_bytes());
    transfer.transaction = TxHash::NONE;
    let claim = claim_for(intent, payment, lease, HEAD);
    Claim::builder(claim.resource(), claim.intent())
        .pay_until(claim.head())
        .transfers(vec![transfer])
        .head(claim.head())
        .max_payment_age(AGE)
        .lease(lease)
        .build()
}

async fn hold(ledger: &impl Ledger, claim: &Claim) -> Lease {
    match ledger.reserve(claim).await.unwrap() {
        ReserveOutcome::Granted(lease) => lease,
        other => panic!("it is free, but: {other:?}"),
    }
}

async fn sell(ledger: &impl Ledger, claim: &Claim) {
    let lease = hold(ledger, claim).await;
    assert_eq!(ledger.commit(&lease, None).await, Ok(CommitOutcome::Done));
}

/// The query in a ledger's documentation: what a `sql` block says.
fn documented_query(source: &str) -> String {
    let (_, block) = source.split_once("/// ```sql").unwrap();
    let (block, _) = block.split_once("/// ```").unwrap();
    block.lines().map(|line| line.trim_start_matches("///")).collect::<Vec<_>>().join("\n")
}

/// What a document's query tells of one sale.
type Sold = (String, i64, String, i64, i64);

#[test]
fn a_documented_query_is_found() {
    assert_eq!(documented_query("/// a\n/// ```sql\n/// SELECT 1;\n/// ```\n").trim(), "SELECT 1;");
}
