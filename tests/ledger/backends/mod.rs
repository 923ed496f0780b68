//! Is it spent, and does that outlive a crash? The ledgers over databases.

#[cfg(unix)]
mod accounts;
#[cfg(unix)]
mod announced;
#[cfg(unix)]
mod answers;
#[cfg(unix)]
mod book;
#[cfg(unix)]
mod booked;
#[cfg(unix)]
mod claims;
#[cfg(unix)]
mod durable;
#[cfg(unix)]
mod forged;
#[cfg(unix)]
mod machine;
#[cfg(unix)]
mod maintenance;
mod postgres;
#[cfg(unix)]
mod processes;
#[cfg(unix)]
mod promoted;
mod redis;
#[cfg(unix)]
mod replay;
#[cfg(unix)]
mod restarts;
#[cfg(unix)]
mod selling;
#[cfg(unix)]
mod skew;
mod sqlite;
#[cfg(unix)]
mod standby;

use std::time::Duration;

use tower_x402::{
    ledger::{Claim, CommitOutcome, Lease, Ledger, ReserveOutcome},
    protocol::{Address, Amount, IntentKey, Network, SignedTransfer, Transfer, TxHash},
};

use crate::kinds::{MARK, PATIENT, time};

/// For how long a claim may be paid, and the head, where nothing else is said.
const HEAD: u64 = MARK + 200;
const AGE: Duration = Duration::from_secs(86_400);
/// No one waits for it to run out.
const LEASE: Duration = Duration::from_secs(3_600);

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
        .payments(vec![paid(payment)])
        .head(time(head))
        .max_payment_age(AGE)
        .lease(lease)
        .build()
}

/// A claim of the intent of this name on an authorization of this name that is not settled yet.
fn claim_unsettled(intent: u64, payment: u64, lease: Duration) -> Claim {
    let paid = paid(payment);
    let signed = SignedTransfer::new(paid.network, paid.token, paid.payer, *paid.transaction.as_bytes())
        .with_recipient(paid.recipient)
        .with_amount(paid.amount)
        .with_shown(paid.block_time);
    let claim = claim_for(intent, payment, lease, HEAD);
    Claim::builder(claim.resource(), claim.intent())
        .pay_until(claim.head())
        .payments([signed])
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
