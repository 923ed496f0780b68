//! How much a turn claims with a slow settler, and with one whose ether is short.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{
    task::JoinHandle,
    time::{Instant, sleep},
};
use tower_x402::{
    Chain, ChannelPolicy,
    protocol::{
        Address, ChainTime, Network,
        channel::{ChannelConfig, ChannelDeposit, Voucher, VoucherClaim},
    },
    settle::{
        ChannelOnChain, ChannelRefund, ChannelSettler, ClaimOutcome, SettleError, SettleErrorKind, Settlement,
        SweepOutcome, TransactionRecorder, Validity,
    },
    testing::{ScriptedChannels, ScriptedVerifier},
};

use crate::{
    counter::{PRICE, Stall, id, offered, serving, told, units},
    support::{NOW, ask},
};

/// The chain of a stall, with a slow settler.
#[derive(Clone, Default)]
struct Pace {
    claim: Duration,
    read: Duration,
    /// How many rows its ether pays for.
    affords: Option<Arc<AtomicUsize>>,
    /// The time of its first sweep.
    swept: Arc<Mutex<Option<Instant>>>,
}

#[derive(Clone)]
struct Slow(ScriptedChannels, Pace);

/// Answers as the scripted settler does, after a while.
impl ChannelSettler for Slow {
    async fn receiver_authorizer(&self, network: Network, token: Address) -> Result<Option<Address>, SettleError> {
        self.0.receiver_authorizer(network, token).await
    }

    async fn channel_state(&self, network: Network, config: &ChannelConfig) -> Result<ChannelOnChain, SettleError> {
        sleep(self.1.read).await;
        self.0.channel_state(network, config).await
    }

    async fn channel_states(
        &self,
        network: Network,
        configs: &[ChannelConfig],
    ) -> Result<Vec<ChannelOnChain>, SettleError> {
        sleep(self.1.read).await;
        self.0.channel_states(network, configs).await
    }

    async fn is_signed_by_account(
        &self,
        network: Network,
        config: &ChannelConfig,
        voucher: &Voucher,
    ) -> Result<bool, SettleError> {
        self.0.is_signed_by_account(network, config, voucher).await
    }

    async fn verify_deposit(
        &self,
        network: Network,
        config: &ChannelConfig,
        deposit: &ChannelDeposit,
        voucher: &Voucher,
    ) -> Result<Validity, SettleError> {
        self.0.verify_deposit(network, config, deposit, voucher).await
    }

    async fn deposit(
        &self,
        network: Network,
        config: &ChannelConfig,
        deposit: &ChannelDeposit,
        voucher: &Voucher,
        recorder: &TransactionRecorder,
    ) -> Settlement {
        self.0.deposit(network, config, deposit, voucher, recorder).await
    }

    async fn claim(&self, network: Network, claims: &[VoucherClaim]) -> Result<ClaimOutcome, SettleError> {
        if let Some(affords) = &self.1.affords {
            // What is large takes longer to prepare.
            sleep(Duration::from_millis(claims.len() as u64)).await;
            let pay = |rows: usize| rows.checked_sub(claims.len());
            let paid = affords.fetch_update(Ordering::SeqCst, Ordering::SeqCst, pay);
            paid.map_err(|_| SettleError::new(SettleErrorKind::OutOfGas { account: Address::new([0xfa; 20]) }))?;
        }
        sleep(self.1.claim).await;
        self.0.claim(network, claims).await
    }

    async fn sweep(&self, network: Network, receiver: Address, token: Address) -> Result<SweepOutcome, SettleError> {
        self.1.swept.lock().unwrap().get_or_insert_with(Instant::now);
        self.0.sweep(network, receiver, token).await
    }

    async fn refund(&self, network: Network, refund: &ChannelRefund, recorder: &TransactionRecorder) -> Settlement {
        self.0.refund(network, refund, recorder).await
    }
}

/// Sells one answer in each of this many channels, and two in the last one. Their payer withdraws from all of them.
async fn withdrawn_from(stall: &Stall, channels: u8, by_accounts: bool) -> Vec<ChannelConfig> {
    let (service, ..) = serving(stall).await;
    let mut configs = Vec::new();
    for salt in 1..=channels {
        let mut offer = offered(&service).await;
        let mut config = offer.channel_of(stall.payer(), [salt; 32]).unwrap();
        if by_accounts {
            config = config.with_payer_authorizer(Address::ZERO);
        }
        stall.channels.set_state(id(&config), ChannelOnChain::new(units(1_000), units(0)));
        assert_eq!(told(&ask(&service, stall.pays(&offer, &config, PRICE)).await), (PRICE, PRICE));
        if salt == channels {
            offer = offered(&service).await;
            let _ = told(&ask(&service, stall.pays(&offer, &config, 2 * PRICE)).await);
        }
        let state = ChannelOnChain::new(units(1_000), units(0));
        stall.channels.set_state(id(&config), state.with_withdrawal(units(1_000), ChainTime::from_unix(NOW)));
        configs.push(config);
    }
    stall.shop.clock.advance(Duration::from_secs(30));
    configs
}

/// A payer withdraws from many channels at once. Each transaction waits until it stays, without delaying the others.
#[tokio::test(start_paused = true)]
async fn many_transactions_claim_at_once() {
    let stall = Stall::open_with(ChannelPolicy::new().accept_contract_payers()).await;
    // The row of each contract account is claimed alone.
    let _ = withdrawn_from(&stall, 24, true).await;
    let settler = Slow(stall.channels.clone(), Pace { claim: Duration::from_secs(30), ..Pace::default() });
    let policy = ChannelPolicy::new().accept_contract_payers();
    let worker = stall.shop.sibling(|builder| builder.channel_settler(settler).channel_policy(policy)).await;
    let start = Instant::now();
    let claimed = worker.claim_now().await.unwrap();
    assert_eq!((claimed.channels, claimed.left), (24, 0));
    assert!(start.elapsed() <= Duration::from_secs(120), "{:?}", start.elapsed());
}

/// Otherwise a slow node would take longer to read the claimed channels than a turn lasts.
#[tokio::test(start_paused = true)]
async fn what_is_claimed_together_is_read_together() {
    let stall = Stall::open().await;
    let configs = withdrawn_from(&stall, 100, false).await;
    let settler = Slow(stall.channels.clone(), Pace { read: Duration::from_secs(3), ..Pace::default() });
    let worker = stall.shop.sibling(|builder| builder.channel_settler(settler)).await;
    let start = Instant::now();
    let claimed = worker.claim_now().await.unwrap();
    assert_eq!((claimed.channels, claimed.left), (100, 0));
    assert!(start.elapsed() <= Duration::from_secs(60), "{:?}", start.elapsed());
    let again = worker.claim_now().await.unwrap();
    assert_eq!((again.channels, stall.channels.state(id(&configs[0])).total_claimed), (0, units(PRICE)));
}

/// A claim that never ends is left to the next turn: this one sweeps what others claimed, and reports.
#[tokio::test(start_paused = true)]
async fn a_claim_that_hangs_ends_no_turn() {
    let stall = Stall::open().await;
    let _ = withdrawn_from(&stall, 2, false).await;
    let settler = Slow(stall.channels.clone(), Pace { claim: Duration::from_secs(3_600), ..Pace::default() });
    let worker = stall.shop.sibling(|builder| builder.channel_settler(settler)).await;
    let claimed = worker.claim_now().await.unwrap();
    assert_eq!((claimed.channels, claimed.left), (0, 2));
    worker.health().await.unwrap();
}

/// A payer with one large debt hides it among small ones, and withdraws from all.
#[tokio::test(start_paused = true)]
async fn where_ether_is_short_the_largest_debts_are_claimed() {
    let stall = Stall::open().await;
    let configs = withdrawn_from(&stall, 12, false).await;
    let affords = Some(Arc::new(AtomicUsize::new(4)));
    let settler = Slow(stall.channels.clone(), Pace { affords, ..Pace::default() });
    let worker = stall.shop.sibling(|builder| builder.channel_settler(settler)).await;
    let claimed = worker.claim_now().await.unwrap();
    assert_eq!((claimed.channels, claimed.left), (4, 8));
    assert_eq!(stall.channels.state(id(&configs[11])).total_claimed, units(2 * PRICE));
}

/// Nor does it hide it among so many that they are claimed by several transactions.
#[tokio::test(start_paused = true)]
async fn where_ether_is_short_the_largest_debts_of_all_transactions_are_claimed() {
    for (channels, affordable) in [(150_u8, 3), (103, 3), (101, 1)] {
        let stall = Stall::open().await;
        let configs = withdrawn_from(&stall, channels, false).await;
        let affords = Some(Arc::new(AtomicUsize::new(affordable)));
        let settler = Slow(stall.channels.clone(), Pace { affords, ..Pace::default() });
        let worker = stall.shop.sibling(|builder| builder.channel_settler(settler)).await;
        let claimed = worker.claim_now().await.unwrap();
        assert_eq!((claimed.channels, claimed.left), (affordable, usize::from(channels) - affordable), "{channels}");
        let largest = stall.channels.state(id(configs.last().unwrap()));
        assert_eq!(largest.total_claimed, units(2 * PRICE), "{channels}");
    }
}

/// The settler of one network hangs, and what is claimed on the other is swept meanwhile.
#[tokio::test(start_paused = true)]
async fn networks_take_no_turns() {
    let stall = Stall::open().await;
    let _ = withdrawn_from(&stall, 1, false).await;
    let hangs = Slow(stall.channels.clone(), Pace { claim: Duration::from_secs(3_600), ..Pace::default() });
    let (network, pace) = (Network::BASE_SEPOLIA, Pace::default());
    let other = Chain::new(network)
        .verifier(ScriptedVerifier::on(network, ChainTime::from_unix(NOW)))
        .channel_settler(Slow(ScriptedChannels::new(Address::new([0xfb; 20])), pace.clone()));
    let worker = stall.shop.sibling(|builder| builder.channel_settler(hangs).chain(other)).await;
    let swept_by = async |claiming: JoinHandle<()>| {
        let start = Instant::now();
        sleep(Duration::from_secs(10)).await;
        claiming.abort();
        pace.swept.lock().unwrap().take().is_some_and(|swept| swept >= start)
    };
    let (merchant, claimer) = (worker.clone(), worker.claimer());
    assert!(swept_by(tokio::spawn(async move { _ = merchant.claim_now().await })).await);
    // The turn of the claimer that was stopped is over.
    stall.shop.clock.advance(Duration::from_secs(120));
    assert!(swept_by(tokio::spawn(async move { _ = claimer.run().await })).await);
}
