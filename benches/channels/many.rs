//! Many vouchers over many channels, from concurrent buyers, with claims meanwhile: the final claims must equal the
//! sales.

use std::{
    collections::HashMap,
    fs,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::task::JoinSet;
use tower_x402::{
    ledger::AnyLedger,
    protocol::{Amount, Asset, Network, channel::ChannelId},
    settle::{ChannelSettler as _, SweepOutcome},
};

use super::market::{Market, PRICE, Payer};

/// The size of the sale.
#[derive(Clone, Copy)]
pub struct Fair {
    pub vouchers: u64,
    pub buyers: u64,
    /// Per buyer.
    pub channels: u64,
    /// The pause between two claims.
    pub pause: Duration,
}

/// The observations.
#[derive(Debug)]
pub struct Seen {
    pub took: Duration,
    /// Claims during the sales that claimed something.
    pub claims: usize,
    /// Resident memory at the start, after a tenth of the sales, and at the end.
    pub resident: [u64; 3],
}

/// Sells and claims, and checks every unit.
pub async fn sell(ledger: AnyLedger, fair: Fair) -> Seen {
    let market = Arc::new(Market::open(ledger).await);
    let (sold, ids) = (Arc::new(AtomicU64::new(0)), channels(&market, fair).await);
    let (start, mut resident) = (Instant::now(), [resident_memory(); 3]);
    let mut buyers = JoinSet::new();
    for buyer in 0..fair.buyers {
        buyers.spawn(buy(Arc::clone(&market), Arc::clone(&sold), fair, buyer));
    }
    let mut claims = 0;
    while !buyers.is_empty() {
        let claimed = market.merchant.claim_now().await.unwrap();
        assert_eq!((claimed.left, claimed.elsewhere), (0, false));
        claims += usize::from(claimed.channels > 0);
        if resident[1] == resident[0] && sold.load(Ordering::Relaxed) >= fair.vouchers / 10 {
            resident[1] = resident_memory();
        }
        let pause = Instant::now();
        while pause.elapsed() < fair.pause && !buyers.is_empty() {
            let _ = tokio::time::timeout(fair.pause, async { buyers.join_next().await.map(Result::unwrap) }).await;
        }
    }
    let took = start.elapsed();
    resident[2] = resident_memory();
    market.merchant.claim_now().await.unwrap();
    let sold = u128::from(sold.load(Ordering::Relaxed));
    assert_eq!(sold, u128::from(fair.vouchers));
    check(&market, &ids, sold * PRICE).await;
    Seen { took, claims, resident }
}

/// Opens all channels with a deposit, and returns their ids.
async fn channels(market: &Market, fair: Fair) -> Vec<ChannelId> {
    let mut ids = Vec::new();
    for number in 0..fair.buyers * fair.channels {
        ids.push(Payer::open(market, number).await.id(market).await);
    }
    ids
}

/// Buys a buyer's share of answers, from its channels in turn.
async fn buy(market: Arc<Market>, sold: Arc<AtomicU64>, fair: Fair, buyer: u64) {
    let mut payers = Vec::new();
    for number in 0..fair.channels {
        payers.push(Payer::open(&market, buyer * fair.channels + number).await);
    }
    let share = fair.vouchers / fair.buyers + u64::from(buyer < fair.vouchers % fair.buyers);
    let mut next = 0;
    for _ in 0..share {
        let payer = &mut payers[next];
        next = (next + 1) % fair.channels as usize;
        let voucher = payer.signs(&market).await;
        loop {
            let status = market.asks(Some(voucher.clone())).await.status().as_u16();
            match status {
                200 => break,
                // The claimer holds the channel.
                409 => tokio::time::sleep(Duration::from_millis(1)).await,
                other => panic!("{other}"),
            }
        }
        sold.fetch_add(1, Ordering::Relaxed);
        // A ledger in memory never yields by itself.
        tokio::task::yield_now().await;
    }
}

/// Checks that charges, sales and claims are equal: no unit is claimed twice, and none is left.
async fn check(market: &Market, ids: &[ChannelId], sold: u128) {
    let units = |amount: Amount| amount.to_string().parse::<u128>().unwrap();
    let open = market.merchant.channels().await.unwrap();
    assert_eq!(open.iter().map(|channel| units(channel.charged)).sum::<u128>(), sold, "charged");
    assert!(open.iter().all(|channel| channel.owed().is_zero()), "something is owed");
    let on_chain = |id: &ChannelId| units(market.channels.state(*id).total_claimed);
    assert_eq!(ids.iter().map(on_chain).sum::<u128>(), sold, "claimed on the chain");
    // Each claim of a channel exceeds the one before.
    let (mut last, mut brought) = (HashMap::new(), 0);
    for row in market.channels.claims().into_iter().flatten() {
        let before = last.insert(row.voucher.channel, row.total_claimed).unwrap_or(0);
        assert!(row.total_claimed > before, "claimed twice");
        assert!(row.total_claimed <= row.voucher.max_claimable, "more than was signed");
        brought += row.total_claimed - before;
    }
    assert_eq!(brought, sold, "what claims brought");
    let (receiver, token) = (market.merchant.recipient(), Asset::USDC_BASE.contract());
    let swept = market.channels.sweep(Network::BASE, receiver, token).await.unwrap();
    assert_eq!(swept, SweepOutcome::Nothing, "all of it was swept");
}

/// Returns the resident memory of this process in bytes, or zero if the system does not tell.
fn resident_memory() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().split(' ').next()?.parse::<u64>().ok()).unwrap_or(0) * 1_024
}
