//! Payment channels, kept by the seller's own key through the standard's contract.

use std::sync::{Arc, Mutex};

use tower_x402::{
    protocol::channel::{
        BATCH_SETTLEMENT, ChannelConfig, ChannelDeposit, DepositAuthorization, Erc3009Deposit, Voucher, VoucherClaim,
    },
    settle::{ChannelOnChain, ChannelRefund, ChannelSettler, ClaimOutcome, RefusedClaim, SweepOutcome},
};

use super::*;
use crate::support::node::stuck_at;

/// Of the chain's accounts: the first one settles.
const PAYER: usize = 1;
const AUTHORIZER: usize = 3;

fn units(units: u128) -> Amount {
    Amount::from_base_units(units)
}

async fn with_channels() -> DevChain {
    let builder = DevChain::builder().install_with_npm(true).mine_every(None).with_channels();
    let chain = builder.start().await.unwrap();
    chain.mine(3).await.unwrap();
    chain
}

/// A channel of the payer's, whose claims that account signs.
fn channel(chain: &DevChain, authorizer: usize, salt: u8) -> ChannelConfig {
    let payer = chain.accounts()[PAYER].address();
    ChannelConfig::new(payer, SELLER, chain.usdc())
        .with_receiver_authorizer(chain.accounts()[authorizer].address())
        .with_salt([salt; 32])
}

/// A deposit within the hour, signed by the payer's key.
async fn deposit_of(chain: &DevChain, config: &ChannelConfig, amount: u128, salt: u8) -> ChannelDeposit {
    let end = chain.timestamp().await.unwrap().after(Duration::from_secs(3_600));
    let any = PaymentSignature::new([1; 65]).unwrap();
    let mut deposit = Erc3009Deposit::new([salt; 32], [ChainTime::from_unix(0), end], any);
    let digest = deposit.digest(config, amount, &domain(chain), Network::BASE);
    let signature = key(chain, PAYER).sign_hash_sync(&B256::new(digest)).unwrap();
    deposit.signature = PaymentSignature::new(signature.as_bytes()).unwrap();
    ChannelDeposit::new(amount, deposit)
}

fn voucher(config: &ChannelConfig, most: u128, key: &PrivateKeySigner) -> Voucher {
    let id = config.id(Network::BASE);
    let signature = key.sign_hash_sync(&B256::new(id.voucher_digest(most, Network::BASE))).unwrap();
    Voucher::new(id, most, PaymentSignature::new(signature.as_bytes()).unwrap())
}

/// A voucher that comes with a deposit, and at which nobody looks here.
fn shown(config: &ChannelConfig) -> Voucher {
    Voucher::new(config.id(Network::BASE), 1, PaymentSignature::new([1; 65]).unwrap())
}

/// A claim of a voucher of the payer's.
fn row(chain: &DevChain, config: &ChannelConfig, most: u128, total: u128) -> VoucherClaim {
    VoucherClaim::new(*config, voucher(config, most, &key(chain, PAYER)), total)
}

async fn deposited(
    chain: &DevChain,
    settler: &WalletSettler,
    config: &ChannelConfig,
    deposit: &ChannelDeposit,
) -> Settlement {
    let none = TransactionRecorder::none();
    while_mining(chain, settler.deposit(Network::BASE, config, deposit, &shown(config), &none)).await
}

/// Channels of these salts, with 100 units in each.
async fn opened(chain: &DevChain, settler: &WalletSettler, authorizer: usize, salts: &[u8]) -> Vec<ChannelConfig> {
    let mut channels = Vec::new();
    for salt in salts {
        let config = channel(chain, authorizer, *salt);
        transaction(deposited(chain, settler, &config, &deposit_of(chain, &config, 100, *salt).await).await);
        channels.push(config);
    }
    channels
}

async fn claimed(chain: &DevChain, settler: &WalletSettler, claims: &[VoucherClaim]) -> ClaimOutcome {
    while_mining(chain, settler.claim(Network::BASE, claims)).await.unwrap()
}

async fn swept(chain: &DevChain, settler: &WalletSettler) -> SweepOutcome {
    while_mining(chain, settler.sweep(Network::BASE, SELLER, chain.usdc())).await.unwrap()
}

async fn state(settler: &WalletSettler, config: &ChannelConfig) -> ChannelOnChain {
    let state = settler.channel_state(Network::BASE, config).await.unwrap();
    let mut without_block = state;
    without_block.as_of = None;
    without_block
}

fn holding(balance: u128, claimed: u128) -> ChannelOnChain {
    ChannelOnChain::new(units(balance), units(claimed))
}

/// A settler whose claims another account signs.
async fn with_authorizer(chain: &DevChain) -> WalletSettler {
    let builder = builder(chain).receiver_authorizer_key(chain.accounts()[AUTHORIZER].private_key());
    builder.endpoint(chain.rpc_url()).connect().await.unwrap()
}

fn word(word: &str) -> Reason {
    format!("invalid_batch_settlement_evm_{word}").parse().unwrap()
}

#[tokio::test]
async fn channels_are_kept_where_the_contracts_are() {
    let (with, without) = (with_channels().await, quiet().await);
    let own = settler(&with).await;
    let asked = async |settler: &WalletSettler, network, token| settler.receiver_authorizer(network, token).await;
    assert_eq!(asked(&own, Network::BASE, with.usdc()).await, Ok(Some(with.accounts()[0].address())));
    let other = with_authorizer(&with).await;
    assert_eq!(asked(&other, Network::BASE, with.usdc()).await, Ok(Some(with.accounts()[AUTHORIZER].address())));
    assert_eq!(asked(&own, Network::BASE, SELLER).await, Ok(None), "no token");
    assert_eq!(asked(&settler(&without).await, Network::BASE, without.usdc()).await, Ok(None));
    let wrong = Err(SettleError::new(SettleErrorKind::WrongChain { network: Network::BASE_SEPOLIA }));
    assert_eq!(asked(&own, Network::BASE_SEPOLIA, with.usdc()).await, wrong);
    let nowhere = settler(&without).await.channel_state(Network::BASE, &channel(&without, 0, 1)).await;
    assert_eq!(nowhere, Err(SettleError::unavailable()), "where there is no contract, nothing is in a channel");
}

#[tokio::test]
async fn a_deposit_is_recorded_before_it_is_sent_and_made_once() {
    let chain = with_channels().await;
    let settler = settler(&chain).await;
    let config = channel(&chain, 0, 1);
    let deposit = deposit_of(&chain, &config, 100, 7).await;
    assert_eq!(state(&settler, &config).await, ChannelOnChain::default());
    let verified =
        async |deposit: &ChannelDeposit| settler.verify_deposit(Network::BASE, &config, deposit, &shown(&config)).await;
    assert_eq!(verified(&deposit).await, Ok(Validity::Valid));

    // A process that died between the record and sending has sent nothing.
    let unwritten = TransactionRecorder::new(|_| async { false });
    assert_eq!(
        settler.deposit(Network::BASE, &config, &deposit, &shown(&config), &unwritten).await,
        Settlement::Unknown(None)
    );
    let killed = builder(&chain).endpoint(chain.rpc_url()).connect().await.unwrap();
    let (recorded, again) = (Arc::<Mutex<Vec<TxHash>>>::default(), deposit.clone());
    let records = Arc::clone(&recorded);
    let process = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    process.spawn(async move {
        let recorder = TransactionRecorder::new(move |hash| {
            records.lock().unwrap().push(hash);
            std::future::pending::<bool>()
        });
        killed.deposit(Network::BASE, &config, &again, &shown(&config), &recorder).await
    });
    until(async || recorded.lock().unwrap().len() == 1).await;
    process.shutdown_background();
    assert_eq!((count_of(&chain, "pending").await, state(&settler, &config).await), (0, ChannelOnChain::default()));

    let hashes = Arc::<Mutex<Vec<TxHash>>>::default();
    let written = Arc::clone(&hashes);
    let recorder = TransactionRecorder::new(move |hash| {
        written.lock().unwrap().push(hash);
        async { true }
    });
    let made =
        while_mining(&chain, settler.deposit(Network::BASE, &config, &deposit, &shown(&config), &recorder)).await;
    assert_eq!(hashes.lock().unwrap().as_slice(), &[transaction(made)]);
    assert_eq!(state(&settler, &config).await, holding(100, 0));

    assert_eq!(verified(&deposit).await, Ok(Validity::Used));
    assert_eq!(deposited(&chain, &settler, &config, &deposit).await, Settlement::Unknown(None), "the state decides");
    assert_eq!((count_of(&chain, "pending").await, state(&settler, &config).await), (1, holding(100, 0)));
}

/// What is signed for a while can be used in that while alone; what was used in it stays used.
#[tokio::test]
async fn a_deposit_that_was_made_in_time_is_never_too_late() {
    let chain = with_channels().await;
    let maker = settler(&chain).await;
    let config = channel(&chain, 0, 1);
    let (made, late) = (deposit_of(&chain, &config, 100, 7).await, deposit_of(&chain, &config, 100, 8).await);
    transaction(deposited(&chain, &maker, &config, &made).await);
    chain.increase_time(Duration::from_secs(3_601)).await.unwrap();
    chain.mine(1).await.unwrap();
    // Another process, which made nothing.
    let settler = settler(&chain).await;
    let verified =
        async |deposit: &ChannelDeposit| settler.verify_deposit(Network::BASE, &config, deposit, &shown(&config)).await;
    assert_eq!(verified(&made).await, Ok(Validity::Used));
    let too_late = Ok(Validity::Refused(word("payload_authorization_valid_before")));
    assert_eq!(verified(&late).await, too_late);
    let mut forged = made.clone();
    forged.amount = 101;
    assert_eq!(verified(&forged).await, too_late, "only its payer is told that a nonce is used");
}

#[tokio::test]
async fn what_is_no_deposit_is_refused_before_anything_is_sent() {
    let chain = with_channels().await;
    let settler = settler(&chain).await;
    let config = channel(&chain, 0, 1);
    let good = deposit_of(&chain, &config, 100, 7).await;
    let refused = async |config: &ChannelConfig, deposit: &ChannelDeposit, reason: &str| {
        let verified = settler.verify_deposit(Network::BASE, config, deposit, &shown(config)).await;
        assert_eq!(verified, Ok(Validity::Refused(word(reason))), "{reason}");
        let none = TransactionRecorder::none();
        let settled = settler.deposit(Network::BASE, config, deposit, &shown(config), &none).await;
        assert!(matches!(settled, Settlement::Refused(_)), "{reason}: {settled:?}");
    };
    let mut more = good.clone();
    more.amount = 101;
    refused(&config, &more, "receive_authorization_signature").await;
    refused(&channel(&chain, 0, 2), &good, "receive_authorization_signature").await;
    refused(&channel(&chain, AUTHORIZER, 1), &good, "receiver_authorizer_mismatch").await;
    let rich = deposit_of(&chain, &config, u128::MAX / 2, 7).await;
    refused(&config, &rich, "insufficient_balance").await;
    let impatient = config.with_withdraw_delay(899);
    refused(&impatient, &deposit_of(&chain, &impatient, 100, 7).await, "deposit_simulation_failed").await;
    refused(&config, &ChannelDeposit::new(0, good.authorization.clone()), "deposit_simulation_failed").await;
    let DepositAuthorization::Erc3009(times) = good.authorization else { unreachable!() };
    for (valid, reason) in [
        ([ChainTime::from_unix(0), ChainTime::from_unix(1)], "payload_authorization_valid_before"),
        ([times.valid_before, times.valid_before.after(Duration::from_secs(60))], "payload_authorization_valid_after"),
    ] {
        let mistimed = Erc3009Deposit::new(times.salt, valid, times.signature.clone());
        let verified =
            settler.verify_deposit(Network::BASE, &config, &ChannelDeposit::new(100, mistimed), &shown(&config)).await;
        assert_eq!(verified, Ok(Validity::Refused(word(reason))));
    }
    assert_eq!((count_of(&chain, "pending").await, state(&settler, &config).await), (0, ChannelOnChain::default()));
}

/// By the settling account's own key, and by another one.
#[tokio::test]
async fn many_channels_are_claimed_by_one_transaction_and_swept_by_one() {
    for (authorizer, by) in [(0, "the settling account"), (AUTHORIZER, "another account")] {
        let chain = with_channels().await;
        let settler = if authorizer == 0 { settler(&chain).await } else { with_authorizer(&chain).await };
        let channels = opened(&chain, &settler, authorizer, &[1, 2, 3]).await;
        let claims: Vec<_> = [(50, 30), (40, 40), (99, 50)]
            .iter()
            .zip(&channels)
            .map(|((most, total), config)| row(&chain, config, *most, *total))
            .collect();
        let before = count_of(&chain, "pending").await;
        let ClaimOutcome::Claimed(Some(hash)) = claimed(&chain, &settler, &claims).await else { panic!("{by}") };
        assert_eq!(mined(&chain, hash).await["to"].as_str().unwrap().to_lowercase(), format!("{BATCH_SETTLEMENT:x}"));
        for (config, total) in channels.iter().zip([30, 40, 50]) {
            assert_eq!(state(&settler, config).await, holding(100, total), "{by}");
        }
        assert_eq!(claimed(&chain, &settler, &claims).await, ClaimOutcome::Claimed(None), "repeated");
        assert_eq!(count_of(&chain, "pending").await, before + 1);

        assert_eq!(paid(&chain).await, 0, "a claim moves nothing");
        let outcome = swept(&chain, &settler).await;
        assert!(matches!(outcome, SweepOutcome::Swept { amount, .. } if amount == units(120)), "{outcome:?}");
        assert_eq!(swept(&chain, &settler).await, SweepOutcome::Nothing);
        assert_eq!((paid(&chain).await, count_of(&chain, "pending").await), (120, before + 2));

        // A row that is claimed already does no harm beside one that is not.
        let claims = [claims[0].clone(), row(&chain, &channels[1], 60, 60)];
        assert!(matches!(claimed(&chain, &settler, &claims).await, ClaimOutcome::Claimed(Some(_))));
        assert_eq!(state(&settler, &channels[1]).await, holding(100, 60));
    }
}

/// What a transaction cost, in wei.
async fn wei_for(chain: &DevChain, hash: TxHash) -> u128 {
    let receipt = chain.receipt(hash).await.unwrap().unwrap();
    let number = |name: &str| u128::from_str_radix(receipt[name].as_str().unwrap().trim_start_matches("0x"), 16);
    number("gasUsed").unwrap() * number("effectiveGasPrice").unwrap()
}

#[tokio::test]
async fn what_claims_cost_is_estimated_from_above() {
    let chain = with_channels().await;
    // A base unit is a wei.
    let builder = builder(&chain).coin_price(chain.usdc(), units(1_000_000_000_000_000_000));
    let priced = builder.endpoint(chain.rpc_url()).connect().await.unwrap();
    let settler = settler(&chain).await;
    let channels = opened(&chain, &settler, 0, &[1, 2, 3, 4, 5]).await;
    let cost = async |token| priced.claim_cost(Network::BASE, token, channels.len()).await.unwrap();
    assert_eq!(cost(SELLER).await, None, "no price of the coin in that token");
    let estimated = cost(chain.usdc()).await.unwrap().to_string().parse::<u128>().unwrap();
    let claims: Vec<_> = channels.iter().map(|config| row(&chain, config, 50, 30)).collect();
    let ClaimOutcome::Claimed(Some(claim)) = claimed(&chain, &settler, &claims).await else { panic!() };
    let SweepOutcome::Swept { transaction, .. } = swept(&chain, &settler).await else { panic!() };
    let cost = wei_for(&chain, claim).await + wei_for(&chain, transaction).await;
    // Each empty block lowers the price of gas by an eighth.
    assert!((cost..4 * cost).contains(&estimated), "{estimated} wei, and it cost {cost}");
}

#[tokio::test]
async fn rows_that_fail_are_named_and_nothing_is_sent() {
    let chain = with_channels().await;
    let settler = settler(&chain).await;
    let channels = opened(&chain, &settler, 0, &[1, 2, 3]).await;
    let before = count_of(&chain, "pending").await;
    let good = row(&chain, &channels[0], 50, 30);
    let forged = VoucherClaim::new(channels[1], voucher(&channels[1], 50, &key(&chain, 2)), 30);
    let above = row(&chain, &channels[1], 29, 30);
    let others = row(&chain, &channel(&chain, AUTHORIZER, 9), 50, 30);
    let mut confused = row(&chain, &channels[1], 50, 30);
    confused.config = channels[2];
    for (bad, reason) in [
        (forged, "voucher_signature"),
        (above, "charge_exceeds_signed_cumulative"),
        (others, "receiver_authorizer_mismatch"),
        (confused, "channel_id_mismatch"),
        (row(&chain, &channels[1], 101, 101), "cumulative_exceeds_balance"),
        (good.clone(), "channel_busy"),
    ] {
        let outcome = claimed(&chain, &settler, &[good.clone(), bad]).await;
        assert_eq!(outcome, ClaimOutcome::Refused(vec![RefusedClaim::new(1, word(reason))]));
    }
    let many = settler.claim(Network::BASE, &vec![good.clone(); 101]).await;
    assert_eq!(many, Err(SettleError::new(SettleErrorKind::InvalidSetting { what: "claims" })));
    assert_eq!(count_of(&chain, "pending").await, before);
    assert_eq!(claimed(&chain, &settler, &[]).await, ClaimOutcome::Claimed(None));
    assert!(matches!(claimed(&chain, &settler, &[good]).await, ClaimOutcome::Claimed(Some(_))));
}

/// Nobody waits for a claim: it is told once it stays, and sent again until it does.
#[tokio::test]
async fn a_claim_that_a_reorganisation_removes_is_made_again() {
    let chain = with_channels().await;
    let settler = builder(&chain).final_after(3).endpoint(chain.rpc_url()).connect().await.unwrap();
    let config = opened(&chain, &settler, 0, &[1]).await[0];
    let before = count_of(&chain, "latest").await;
    let (claim, claiming) = ([row(&chain, &config, 50, 30)], settler.clone());
    let task = tokio::spawn(async move { claiming.claim(Network::BASE, &claim).await });
    until(async || count_of(&chain, "pending").await == before + 1).await;
    chain.mine(1).await.unwrap();
    let seen = state(&settler, &config).await;
    assert_eq!((seen.total_claimed, seen.claimed_at_most), (Amount::ZERO, units(30)), "mined, and not claimed yet");
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(!task.is_finished(), "it is mined, and may go");
    chain.reorg(1, &[]).await.unwrap();
    chain.rpc("anvil_dropAllTransactions", json!([])).await.unwrap();
    assert_eq!(state(&settler, &config).await, holding(100, 0));
    let outcome = while_mining(&chain, task).await.unwrap().unwrap();
    assert!(matches!(outcome, ClaimOutcome::Claimed(Some(_))), "{outcome:?}");
    assert_eq!(state(&settler, &config).await, holding(100, 30));
}

#[tokio::test]
async fn a_deposit_covers_vouchers_once_it_is_as_deep_as_the_seller_wants() {
    let chain = with_channels().await;
    let opener = settler(&chain).await;
    let head = async || opener.channel_state(Network::BASE, &channel(&chain, 0, 1)).await.unwrap().as_of.unwrap();
    let before = head().await;
    let configs = opened(&chain, &opener, 0, &[1, 2]).await;
    let deep = head().await - before + 1;
    let careful = builder(&chain).deposit_confirmations(deep).endpoint(chain.rpc_url()).connect().await.unwrap();
    let balances = async |settler: &WalletSettler| {
        let states = settler.channel_states(Network::BASE, &configs).await.unwrap();
        assert_eq!(states[0].as_of, states[1].as_of);
        states.iter().map(|state| state.balance).collect::<Vec<_>>()
    };
    let (hundred, nothing) = (vec![units(100); 2], vec![Amount::ZERO; 2]);
    assert_eq!((balances(&opener).await, balances(&careful).await), (hundred.clone(), nothing.clone()));
    chain.mine(deep).await.unwrap();
    assert_eq!(balances(&careful).await, hundred);
    chain.reorg(head().await - before, &[]).await.unwrap();
    chain.rpc("anvil_dropAllTransactions", json!([])).await.unwrap();
    assert_eq!((balances(&opener).await, balances(&careful).await), (nothing.clone(), nothing));
}

#[tokio::test]
async fn a_claim_that_is_stuck_is_replaced_under_the_same_nonce() {
    let chain = with_channels().await;
    let settler = settler(&chain).await;
    let config = opened(&chain, &settler, 0, &[1]).await[0];
    let before = count_of(&chain, "pending").await;
    let (claim, claiming) = ([row(&chain, &config, 50, 30)], settler.clone());
    let task = tokio::spawn(async move { claiming.claim(Network::BASE, &claim).await });
    until(async || count_of(&chain, "pending").await == before + 1).await;
    raise_base_fee(&chain).await;
    let outcome = while_mining(&chain, task).await.unwrap().unwrap();
    assert!(matches!(outcome, ClaimOutcome::Claimed(Some(_))), "{outcome:?}");
    assert_eq!((count_of(&chain, "latest").await, state(&settler, &config).await), (before + 1, holding(100, 30)));
}

/// The reply to a claim that was sent is lost with its process: the next one finds it claimed.
#[tokio::test]
async fn a_claim_whose_process_died_is_not_made_twice() {
    let chain = with_channels().await;
    let settler = settler(&chain).await;
    let config = opened(&chain, &settler, 0, &[1]).await[0];
    let before = count_of(&chain, "pending").await;
    let claims = [row(&chain, &config, 50, 30)];
    let (killed, same) = (builder(&chain).endpoint(chain.rpc_url()).connect().await.unwrap(), claims.clone());
    let process = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    process.spawn(async move { killed.claim(Network::BASE, &same).await });
    until(async || count_of(&chain, "pending").await == before + 1).await;
    process.shutdown_background();
    chain.mine(1).await.unwrap();
    assert_eq!(claimed(&chain, &settler, &claims).await, ClaimOutcome::Claimed(None));
    assert_eq!((count_of(&chain, "pending").await, state(&settler, &config).await), (before + 1, holding(100, 30)));
}

#[tokio::test]
async fn what_is_left_goes_back_once_after_what_was_sold_is_claimed() {
    for authorizer in [0, AUTHORIZER] {
        let chain = with_channels().await;
        let settler = if authorizer == 0 { settler(&chain).await } else { with_authorizer(&chain).await };
        let config = opened(&chain, &settler, authorizer, &[1]).await[0];
        let had = chain.usdc_balance(config.payer).await.unwrap();
        let none = TransactionRecorder::none();
        let refund = ChannelRefund::new(config, 70, 0).with_claim(Some(row(&chain, &config, 50, 30)));
        let refunded =
            async |refund: &ChannelRefund| while_mining(&chain, settler.refund(Network::BASE, refund, &none)).await;
        let mut others = refund.clone();
        others.config = config.with_receiver_authorizer(SELLER);
        assert_eq!(refunded(&others).await, Settlement::Refused(word("receiver_authorizer_mismatch")));
        let nothing = ChannelRefund::new(config, 0, 0);
        assert_eq!(refunded(&nothing).await, Settlement::Refused(word("refund_amount_invalid")));
        // Whoever reads its signature could use it before the claim.
        let too_much = ChannelRefund::new(config, 71, 0).with_claim(refund.claim.clone());
        assert_eq!(refunded(&too_much).await, Settlement::Refused(word("refund_amount_invalid")));
        let uncovered = refund.clone().with_claim(Some(row(&chain, &config, 101, 101)));
        assert_eq!(refunded(&uncovered).await, Settlement::Refused(word("refund_amount_invalid")));
        assert_eq!(state(&settler, &config).await, holding(100, 0));

        transaction(refunded(&refund).await);
        assert_eq!(state(&settler, &config).await, holding(30, 30).with_refund_nonce(1));
        assert_eq!(Some(chain.usdc_balance(config.payer).await.unwrap()), had.checked_add(units(70)));
        assert_eq!(refunded(&refund).await, Settlement::Unknown(None), "once");
        assert!(matches!(swept(&chain, &settler).await, SweepOutcome::Swept { amount, .. } if amount == units(30)));
        assert_eq!(paid(&chain).await, 30);
    }
}

#[tokio::test]
async fn a_withdrawal_is_seen_and_not_sold_on() {
    let chain = with_channels().await;
    let settler = settler(&chain).await;
    let config = opened(&chain, &settler, 0, &[1]).await[0];
    let words = [
        config.payer.into(),
        config.payer_authorizer.into(),
        config.receiver.into(),
        config.receiver_authorizer.into(),
        config.token.into(),
        u128::from(config.withdraw_delay).into(),
        Word::new(config.salt),
        80.into(),
    ];
    let call = contracts::calldata(
        "initiateWithdraw((address,address,address,address,address,uint40,bytes32),uint128)",
        &words,
    );
    chain.send(config.payer, BATCH_SETTLEMENT, &call).await.unwrap();
    chain.mine(1).await.unwrap();
    let now = chain.timestamp().await.unwrap();
    let seen = state(&settler, &config).await;
    assert_eq!((seen, seen.covers()), (holding(100, 0).with_withdrawal(units(80), now), units(20)));
    // What was sold before is claimed all the same.
    assert!(matches!(claimed(&chain, &settler, &[row(&chain, &config, 90, 90)]).await, ClaimOutcome::Claimed(Some(_))));
    assert_eq!(state(&settler, &config).await.covers(), units(90));
}

/// Ten times the balance, and all of that claimed.
fn exaggerate(params: &Value, result: &mut Value) {
    let contract = format!("{BATCH_SETTLEMENT:x}");
    let is_state = params[0]["to"].as_str().is_some_and(|to| to.eq_ignore_ascii_case(&contract));
    let Some(told) = result.as_str().filter(|told| is_state && told.len() > 2 + 64 * 8) else { return };
    let mut text = told.to_owned();
    // `bytes[]` of three: its place and length, three places; the length of the first, and its two words.
    for word in [6, 7] {
        text.replace_range(2 + 64 * word..2 + 64 * (word + 1), &format!("{:064x}", 1_000));
    }
    *result = text.into();
}

#[tokio::test]
async fn a_node_that_lies_does_not_make_the_seller_sell_on_air() {
    let chain = with_channels().await;
    let liar = Proxy::before(chain.rpc_url()).await;
    liar.set("eth_call", Odd::Replaced(exaggerate));
    let honest = settler(&chain).await;
    let config = opened(&chain, &honest, 0, &[1]).await[0];
    let alone = builder(&chain).endpoint(liar.url()).connect().await.unwrap();
    assert_eq!(state(&alone, &config).await, holding(1_000, 1_000), "it does lie");
    for urls in [[liar.url(), chain.rpc_url()], [chain.rpc_url(), liar.url()]] {
        let settler = builder(&chain).endpoints(urls).connect().await.unwrap();
        let seen = state(&settler, &config).await;
        assert_eq!((seen.balance, seen.total_claimed), (units(100), Amount::ZERO));
        assert_eq!(seen.claimed_at_most, Amount::ZERO, "one of two is not most");
        assert_eq!(seen.covers(), units(100));
    }
    liar.set("eth_call", Odd::Status(500));
    let settler = builder(&chain).endpoints([liar.url(), chain.rpc_url()]).connect().await.unwrap();
    assert_eq!(state(&settler, &config).await, holding(100, 0).of_few_nodes(), "one that is gone is left out");
    let third = Proxy::before(chain.rpc_url()).await;
    let settler = builder(&chain).endpoints([liar.url(), chain.rpc_url(), third.url()]).connect().await.unwrap();
    assert_eq!(state(&settler, &config).await, holding(100, 0), "most answer");
}

/// The highest number of refunds that there can be.
fn exaggerate_refunds(params: &Value, result: &mut Value) {
    let contract = format!("{BATCH_SETTLEMENT:x}");
    let is_state = params[0]["to"].as_str().is_some_and(|to| to.eq_ignore_ascii_case(&contract));
    let Some(told) = result.as_str().filter(|told| is_state && told.len() > 2 + 64 * 8) else { return };
    let mut text = told.to_owned();
    // `bytes[]` of three: its last word is all of the third.
    text.replace_range(2 + 64 * 12..2 + 64 * 13, &format!("{:064x}", u64::MAX));
    *result = text.into();
}

#[tokio::test]
async fn the_nonce_of_a_refund_is_what_most_nodes_say() {
    let chain = with_channels().await;
    let honest = settler(&chain).await;
    let config = opened(&chain, &honest, 0, &[1]).await[0];
    let (liar, third) = (Proxy::before(chain.rpc_url()).await, Proxy::before(chain.rpc_url()).await);
    liar.set("eth_call", Odd::Replaced(exaggerate_refunds));
    let by = async |urls: &[&str]| builder(&chain).endpoints(urls.to_vec()).connect().await.unwrap();
    let nonce = async |urls: &[&str]| state(&by(urls).await, &config).await.refund_nonce;
    assert_eq!(nonce(&[liar.url()]).await, u64::MAX, "it does lie");
    for urls in [[liar.url(), chain.rpc_url(), third.url()], [third.url(), chain.rpc_url(), liar.url()]] {
        assert_eq!(nonce(&urls).await, 0);
    }
    assert_eq!(nonce(&[liar.url(), chain.rpc_url()]).await, 0, "one of two is not most");

    // The others are down: nothing is signed by the word of one.
    let (none, before) = (TransactionRecorder::none(), count_of(&chain, "pending").await);
    let settler = by(&[liar.url(), chain.rpc_url(), third.url()]).await;
    liar.set("eth_call", Odd::Status(500));
    third.set("eth_call", Odd::Status(500));
    let refund = ChannelRefund::new(config, 70, 0);
    let refunded = async |refund| while_mining(&chain, settler.refund(Network::BASE, refund, &none)).await;
    assert_eq!(refunded(&refund).await, Settlement::Unknown(None));
    third.clear();
    // Nor under a nonce that has not come yet: its signature could be used once it has.
    let later = ChannelRefund::new(config, 70, 1);
    assert_eq!(refunded(&later).await, Settlement::Unknown(None));
    assert_eq!((count_of(&chain, "pending").await, state(&honest, &config).await), (before, holding(100, 0)));
    transaction(refunded(&refund).await);
    assert_eq!(state(&honest, &config).await, holding(30, 0).with_refund_nonce(1));
}

/// The word of most nodes does not drop a row that was sold, and that of one does not even keep it back.
#[tokio::test]
async fn a_row_is_named_by_every_node_or_not() {
    let chain = with_channels().await;
    let (liar, other) = (Proxy::before(chain.rpc_url()).await, Proxy::before(chain.rpc_url()).await);
    let nodes = builder(&chain).endpoints([liar.url(), other.url(), chain.rpc_url()]);
    let settler = nodes.connect().await.unwrap();
    let config = opened(&chain, &settler, 0, &[1]).await[0];
    let claims = [row(&chain, &config, 50, 30)];
    let reverted = |question: &Value| question["params"][0]["data"].as_str().is_some_and(|data| data.len() > 1_000);
    for lying in [&liar, &other] {
        lying.set("eth_estimateGas", Odd::Error(3, "execution reverted"));
        lying.set("eth_call", Odd::Refused(reverted));
    }
    assert_eq!(claimed(&chain, &settler, &claims).await, ClaimOutcome::Unknown(None));
    other.clear();
    assert!(matches!(claimed(&chain, &settler, &claims).await, ClaimOutcome::Claimed(Some(_))));
}

/// It answers, and knows no newer block. What waits for its word would wait for ever, and each claim again takes a place.
#[tokio::test]
async fn a_node_that_does_not_follow_the_chain_keeps_no_claim_under_way() {
    let chain = with_channels().await;
    let stuck = Proxy::before(chain.rpc_url()).await;
    let settler = builder(&chain).endpoints([chain.rpc_url(), stuck.url()]).connect().await.unwrap();
    let config = opened(&chain, &settler, 0, &[1]).await[0];
    stuck.set("eth_getTransactionCount", Odd::Result("0x0".into()));
    let claims = [row(&chain, &config, 50, 30)];
    let first = claimed(&chain, &settler, &claims).await;
    assert!(matches!(first, ClaimOutcome::Unknown(Some(_))), "{first:?}");
    // Its flight ends soon after: what is asked for then is a claim of its own, which is not needed.
    tokio::time::sleep(Duration::from_secs(5)).await;
    let again = tokio::time::timeout(Duration::from_secs(20), claimed(&chain, &settler, &claims)).await;
    assert_eq!(again, Ok(ClaimOutcome::Claimed(None)));
    assert_eq!(state(&settler, &config).await, holding(100, 30));
}

/// To it nothing happened since: by its word, a deposit would be made and not sold, and a claim sent again and again.
#[tokio::test]
async fn a_node_that_is_stuck_at_an_old_block_is_no_witness() {
    let chain = with_channels().await;
    let [slow, third] = [Proxy::before(chain.rpc_url()).await, Proxy::before(chain.rpc_url()).await];
    let before = chain.block_number().await.unwrap();
    let honest = settler(&chain).await;
    let config = opened(&chain, &honest, 0, &[1]).await[0];
    slow.set("eth_getBlockByNumber", stuck_at(&chain, before, 10).await);
    let three = builder(&chain).endpoints([slow.url(), chain.rpc_url(), third.url()]).connect().await.unwrap();
    let two = builder(&chain).endpoints([slow.url(), chain.rpc_url()]).connect().await.unwrap();
    assert_eq!(state(&three, &config).await.balance, Amount::ZERO, "one that is a little behind counts");
    slow.set("eth_getBlockByNumber", stuck_at(&chain, before, 120).await);
    let seen = three.channel_state(Network::BASE, &config).await.unwrap();
    assert_eq!((seen.balance, seen.of_few), (units(100), false));
    assert!(seen.as_of > Some(before), "{seen:?}");
    assert_eq!(state(&two, &config).await, holding(100, 0).of_few_nodes(), "one of two is not most");
    let claims = [row(&chain, &config, 50, 30)];
    assert!(matches!(claimed(&chain, &honest, &claims).await, ClaimOutcome::Claimed(Some(_))));
    assert_eq!(claimed(&chain, &three, &claims).await, ClaimOutcome::Claimed(None));
    assert_eq!(state(&three, &config).await, holding(100, 30));
}

/// No nonce of an authorization is used.
fn unused(params: &Value, result: &mut Value) {
    if params[0]["data"].as_str().is_some_and(|data| data.starts_with("0xe94a0102")) {
        *result = format!("0x{}", "00".repeat(32)).into();
    }
}

/// One node does not know of the deposit yet, and its time is over by now.
#[tokio::test]
async fn a_deposit_that_any_node_knows_of_is_never_refused() {
    let chain = with_channels().await;
    let [behind, other] = [Proxy::before(chain.rpc_url()).await, Proxy::before(chain.rpc_url()).await];
    let maker = settler(&chain).await;
    let config = channel(&chain, 0, 1);
    let (made, late) = (deposit_of(&chain, &config, 100, 7).await, deposit_of(&chain, &config, 100, 8).await);
    transaction(deposited(&chain, &maker, &config, &made).await);
    chain.increase_time(Duration::from_secs(3_601)).await.unwrap();
    chain.mine(1).await.unwrap();
    behind.set("eth_call", Odd::Replaced(unused));
    let verified = async |urls: [&str; 2], deposit: &ChannelDeposit| {
        let settler = builder(&chain).endpoints(urls).connect().await.unwrap();
        settler.verify_deposit(Network::BASE, &config, deposit, &shown(&config)).await
    };
    assert_eq!(verified([behind.url(), chain.rpc_url()], &made).await, Ok(Validity::Used));
    let too_late = Ok(Validity::Refused(word("payload_authorization_valid_before")));
    assert_eq!(verified([behind.url(), chain.rpc_url()], &late).await, too_late);
    // By the word of a few that it is not used, nothing is refused.
    other.set("eth_call", Odd::Status(500));
    let unknown = Err(SettleError::unavailable());
    assert_eq!(verified([behind.url(), other.url()], &late).await, unknown);
}

#[tokio::test]
async fn gas_has_its_limits() {
    let chain = with_channels().await;
    let opener = settler(&chain).await;
    let config = opened(&chain, &opener, 0, &[1]).await[0];
    let before = count_of(&chain, "pending").await;
    let claims = [row(&chain, &config, 50, 30)];
    let cheap = builder(&chain).max_fee_per_gas(1).endpoint(chain.rpc_url()).connect().await.unwrap();
    assert_eq!(cheap.claim(Network::BASE, &claims).await, Err(SettleError::unavailable()));
    let account = chain.accounts()[0].address();
    chain.rpc("anvil_setBalance", json!([account.to_string(), "0x1"])).await.unwrap();
    let poor = settler(&chain).await;
    let out = Err(SettleError::new(SettleErrorKind::OutOfGas { account }));
    assert_eq!(poor.claim(Network::BASE, &claims).await, out);
    assert_eq!((count_of(&chain, "pending").await, state(&poor, &config).await), (before, holding(100, 0)));
}

/// Its deposits and vouchers are its owner's signatures, and the account says whether they are.
#[tokio::test]
async fn a_contract_account_pays_by_its_own_word() {
    let chain = with_channels().await;
    let settler = settler(&chain).await;
    let owner = key(&chain, PAYER);
    let wallet = chain.deploy(contracts::WALLET.creation, &[address(&owner).into()]).await.unwrap();
    chain.fund(wallet, units(100)).await.unwrap();
    let config = ChannelConfig::new(wallet, SELLER, chain.usdc())
        .with_payer_authorizer(Address::ZERO)
        .with_receiver_authorizer(settler.address());
    transaction(deposited(&chain, &settler, &config, &deposit_of(&chain, &config, 100, 1).await).await);
    let asked = async |voucher: &Voucher| settler.is_signed_by_account(Network::BASE, &config, voucher).await;
    let (owners, thiefs) = (voucher(&config, 50, &owner), voucher(&config, 50, &key(&chain, 2)));
    assert_eq!((asked(&owners).await, asked(&thiefs).await), (Ok(true), Ok(false)));
    let only_keys = builder(&chain).contract_accounts(false).endpoint(chain.rpc_url()).connect().await.unwrap();
    assert_eq!(only_keys.is_signed_by_account(Network::BASE, &config, &owners).await, Ok(false));
    let refused = ClaimOutcome::Refused(vec![RefusedClaim::new(0, word("voucher_signature"))]);
    assert_eq!(claimed(&chain, &settler, &[VoucherClaim::new(config, thiefs, 30)]).await, refused);
    let claim = [VoucherClaim::new(config, owners, 30)];
    assert!(matches!(claimed(&chain, &settler, &claim).await, ClaimOutcome::Claimed(Some(_))));
}
