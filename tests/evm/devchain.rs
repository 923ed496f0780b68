//! The local chain, against the real `anvil`.

use std::{
    env, fs,
    net::TcpStream,
    path::Path,
    process::{Command, Output, Stdio},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use serde_json::{Value, json};
use tower_x402::{
    protocol::{Address, Amount, ChainTime, TxHash},
    testing::{
        DevChain,
        contracts::{self, Lie, Word},
    },
};

const TRANSFER: &str = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef";

/// A chain that mines on demand only.
async fn quiet() -> DevChain {
    DevChain::builder().install_with_npm(true).mine_every(None).start().await.unwrap()
}

fn account(chain: &DevChain, index: usize) -> Address {
    chain.accounts()[index].address()
}

fn usdc(units: u128) -> Amount {
    Amount::from_base_units(units)
}

fn as_topic(address: Address) -> String {
    format!("0x{}{}", "0".repeat(24), &format!("{address:x}")[2..])
}

async fn mined(chain: &DevChain, hash: TxHash) -> Value {
    chain.mine(1).await.unwrap();
    chain.receipt(hash).await.unwrap().expect("mined")
}

#[tokio::test]
async fn looks_like_base_and_has_rich_accounts() {
    let chain = quiet().await;
    assert_eq!(chain.rpc("eth_chainId", json!([])).await.unwrap(), "0x2105");
    assert_eq!(chain.chain_id(), 8453);
    assert_eq!(chain.usdc().to_string(), "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913");

    let decimals = chain.call(chain.usdc(), &contracts::calldata("decimals()", &[])).await.unwrap();
    assert_eq!(decimals, Word::from(6).as_bytes());
    let symbol = chain.call(chain.usdc(), &contracts::calldata("symbol()", &[])).await.unwrap();
    assert!(symbol.windows(4).any(|four| four == b"USDC"));

    assert_eq!(chain.accounts().len(), 10);
    for account in chain.accounts() {
        assert_eq!(chain.usdc_balance(account.address()).await.unwrap(), usdc(1_000_000_000_000));
        let ether = chain.rpc("eth_getBalance", json!([account.address().to_string(), "latest"])).await.unwrap();
        assert_eq!(ether, "0x21e19e0c9bab2400000");
    }
}

#[tokio::test]
async fn looks_like_base_sepolia_if_asked() {
    let builder = DevChain::builder().install_with_npm(true).mine_every(None).chain_id(84532);
    let chain = builder.start().await.unwrap();
    assert_eq!(chain.rpc("eth_chainId", json!([])).await.unwrap(), "0x14a34");
    assert_eq!(chain.usdc().to_string(), "0x036CbD53842c5426634e7929541eC2318f3dCF7e");
    assert_eq!(chain.usdc_balance(account(&chain, 0)).await.unwrap(), usdc(1_000_000_000_000));
}

#[tokio::test]
async fn the_keys_belong_to_the_accounts() {
    let chain = quiet().await;
    for account in chain.accounts() {
        let signer: alloy::signers::local::PrivateKeySigner = account.private_key().parse().unwrap();
        assert_eq!(signer.address().as_slice(), account.address().as_bytes());
    }
}

#[tokio::test]
async fn a_transfer_writes_one_erc20_event() {
    let chain = quiet().await;
    let (payer, seller) = (account(&chain, 0), account(&chain, 1));
    let hash = chain.transfer(payer, seller, usdc(490_000)).await.unwrap();
    assert_eq!(chain.receipt(hash).await.unwrap(), None);

    let receipt = mined(&chain, hash).await;
    assert_eq!(receipt["status"], "0x1");
    let [log] = receipt["logs"].as_array().unwrap().as_slice() else { panic!("one log") };
    assert_eq!(log["address"].as_str().unwrap().parse::<Address>().unwrap(), chain.usdc());
    assert_eq!(log["topics"], json!([TRANSFER, as_topic(payer), as_topic(seller)]));
    assert_eq!(log["data"], format!("{:#066x}", 490_000));
    assert_eq!(chain.usdc_balance(seller).await.unwrap(), usdc(1_000_000_490_000));
    assert_eq!(chain.usdc_balance(payer).await.unwrap(), usdc(999_999_510_000));
}

#[tokio::test]
async fn a_transfer_of_more_than_there_is_is_mined_and_fails() {
    let chain = quiet().await;
    let hash = chain.transfer(account(&chain, 0), account(&chain, 1), usdc(1_000_000_000_001)).await.unwrap();
    let receipt = mined(&chain, hash).await;
    assert_eq!(receipt["status"], "0x0");
    assert_eq!(receipt["logs"], json!([]));
}

#[tokio::test]
async fn a_stranger_can_be_funded_and_pay() {
    let chain = quiet().await;
    let stranger = Address::new([0x42; 20]);
    chain.fund(stranger, usdc(7)).await.unwrap();
    assert_eq!(chain.usdc_balance(stranger).await.unwrap(), usdc(7));

    let hash = chain.transfer(stranger, account(&chain, 1), usdc(7)).await.unwrap();
    assert_eq!(mined(&chain, hash).await["status"], "0x1");
    assert_eq!(chain.usdc_balance(stranger).await.unwrap(), usdc(0));
}

#[tokio::test]
async fn many_transfers_at_once_are_all_mined_in_one_block() {
    let chain = quiet().await;
    let (payer, seller) = (account(&chain, 0), account(&chain, 1));
    let transfers = (1..=40).map(|units| chain.transfer(payer, seller, usdc(units)));
    let hashes = futures_util::future::try_join_all(transfers).await.unwrap();
    chain.mine(1).await.unwrap();
    for hash in hashes {
        assert_eq!(chain.receipt(hash).await.unwrap().unwrap()["blockNumber"], "0x1");
    }
}

#[tokio::test]
async fn mines_by_time_and_on_demand() {
    let chain =
        DevChain::builder().install_with_npm(true).mine_every(Duration::from_millis(300)).start().await.unwrap();
    let hash = chain.transfer(account(&chain, 0), account(&chain, 1), usdc(1)).await.unwrap();
    chain.wait_until_mined(hash).await.unwrap();

    chain.pause_mining().await.unwrap();
    let before = chain.block_number().await.unwrap();
    tokio::time::sleep(Duration::from_millis(900)).await;
    assert_eq!(chain.block_number().await.unwrap(), before);
    chain.mine(3).await.unwrap();
    assert_eq!(chain.block_number().await.unwrap(), before + 3);

    let hash = chain.transfer(account(&chain, 0), account(&chain, 1), usdc(1)).await.unwrap();
    assert_eq!(chain.receipt(hash).await.unwrap(), None);
    chain.resume_mining().await.unwrap();
    chain.wait_until_mined(hash).await.unwrap();
}

#[tokio::test]
async fn the_default_is_a_block_every_two_seconds() {
    let chain = DevChain::builder().install_with_npm(true).start().await.unwrap();
    let hash = chain.transfer(account(&chain, 0), account(&chain, 1), usdc(1)).await.unwrap();
    chain.wait_until_mined(hash).await.unwrap();
    let first = chain.timestamp().await.unwrap().unix();

    let hash = chain.transfer(account(&chain, 0), account(&chain, 1), usdc(1)).await.unwrap();
    chain.wait_until_mined(hash).await.unwrap();
    assert!((2..=6).contains(&(chain.timestamp().await.unwrap().unix() - first)));

    let hash = chain.transfer(account(&chain, 0), account(&chain, 1), usdc(1)).await.unwrap();
    chain.mine(1).await.unwrap();
    assert!(chain.receipt(hash).await.unwrap().is_some());
}

#[tokio::test]
async fn automining_mines_each_transaction_as_it_comes() {
    let chain = quiet().await;
    chain.set_automine(true).await.unwrap();
    let hash = chain.transfer(account(&chain, 0), account(&chain, 1), usdc(1)).await.unwrap();
    chain.wait_until_mined(hash).await.unwrap();

    chain.set_automine(false).await.unwrap();
    let hash = chain.transfer(account(&chain, 0), account(&chain, 1), usdc(1)).await.unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(chain.receipt(hash).await.unwrap(), None);
}

#[tokio::test]
async fn time_jumps_forward_and_runs_on_from_there() {
    let chain = quiet().await;
    chain.mine(1).await.unwrap();
    let before = chain.timestamp().await.unwrap().unix();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    assert!(before.abs_diff(now) <= 5);

    chain.increase_time(Duration::from_secs(86_400)).await.unwrap();
    chain.mine(1).await.unwrap();
    assert!((86_400..86_410).contains(&(chain.timestamp().await.unwrap().unix() - before)));

    let exact = before + 1_000_000;
    chain.set_next_block_timestamp(ChainTime::from_unix(exact)).await.unwrap();
    let hash = chain.transfer(account(&chain, 0), account(&chain, 1), usdc(1)).await.unwrap();
    let receipt = mined(&chain, hash).await;
    let block = chain.rpc("eth_getBlockByHash", json!([receipt["blockHash"], false])).await.unwrap();
    assert_eq!(block["timestamp"], format!("{exact:#x}"));
    chain.mine(1).await.unwrap();
    assert!((0..10).contains(&(chain.timestamp().await.unwrap().unix() - exact)));

    let error = chain.set_next_block_timestamp(ChainTime::from_unix(exact - 100)).await.unwrap_err();
    assert!(error.to_string().starts_with("anvil refused evm_setNextBlockTimestamp"), "{error}");
}

#[tokio::test]
async fn a_chain_can_begin_in_the_past() {
    let builder = DevChain::builder().install_with_npm(true).mine_every(None);
    let chain = builder.genesis_time(ChainTime::from_unix(1_700_000_000)).start().await.unwrap();
    chain.mine(1).await.unwrap();
    assert!((1_700_000_000..1_700_000_030).contains(&chain.timestamp().await.unwrap().unix()));
}

#[tokio::test]
async fn safe_and_finalized_lag_behind() {
    let builder = DevChain::builder().install_with_npm(true).mine_every(None).safe_depth(3);
    let chain = builder.start().await.unwrap();
    chain.mine(10).await.unwrap();
    for (tag, number) in [("latest", "0xa"), ("safe", "0x7"), ("finalized", "0x4")] {
        let block = chain.rpc("eth_getBlockByNumber", json!([tag, false])).await.unwrap();
        assert_eq!(block["number"], number, "{tag}");
    }
}

#[tokio::test]
async fn a_reorganisation_forgets_a_transaction() {
    let chain = quiet().await;
    chain.mine(2).await.unwrap();
    let hash = chain.transfer(account(&chain, 0), account(&chain, 1), usdc(5)).await.unwrap();
    let block = mined(&chain, hash).await["blockHash"].clone();

    chain.reorg(1, &[]).await.unwrap();
    assert_eq!(chain.receipt(hash).await.unwrap(), None);
    assert_eq!(chain.block_number().await.unwrap(), 3);
    let latest = chain.rpc("eth_getBlockByNumber", json!(["latest", false])).await.unwrap();
    assert_ne!(latest["hash"], block);
    // What was put there at the start is there still.
    assert_eq!(chain.usdc_balance(account(&chain, 0)).await.unwrap(), usdc(1_000_000_000_000));
    assert_eq!(chain.usdc_balance(account(&chain, 1)).await.unwrap(), usdc(1_000_000_000_000));
}

#[tokio::test]
async fn a_reorganisation_back_to_the_beginning_keeps_the_token() {
    let chain = quiet().await;
    let hash = chain.transfer(account(&chain, 0), account(&chain, 1), usdc(5)).await.unwrap();
    mined(&chain, hash).await;
    chain.reorg(1, &[]).await.unwrap();
    assert_eq!(chain.usdc_balance(account(&chain, 1)).await.unwrap(), usdc(1_000_000_000_000));
}

/// The same transfer, in another block and behind another one: its `logIndex` moves, its position in its receipt does not.
#[tokio::test]
async fn a_reorganisation_puts_another_transaction_in_front() {
    let chain = quiet().await;
    chain.mine(1).await.unwrap();
    let ours = chain.transfer(account(&chain, 0), account(&chain, 1), usdc(5)).await.unwrap();
    let before = mined(&chain, ours).await;
    assert_eq!(before["logs"][0]["logIndex"], "0x0");
    let waiting = chain.transfer(account(&chain, 2), account(&chain, 3), usdc(6)).await.unwrap();

    chain.reorg(1, &[&[waiting, ours]]).await.unwrap();
    let after = chain.receipt(ours).await.unwrap().expect("mined again");
    assert_eq!(after["logs"][0]["logIndex"], "0x1");
    assert_eq!(after["logs"].as_array().unwrap().len(), 1);
    assert_ne!(after["blockHash"], before["blockHash"]);
    assert_eq!(after["blockNumber"], before["blockNumber"]);
    assert_eq!(chain.receipt(waiting).await.unwrap().unwrap()["transactionIndex"], "0x0");
}

#[tokio::test]
async fn a_reorganisation_moves_a_transaction_to_a_later_block() {
    let chain = quiet().await;
    chain.mine(1).await.unwrap();
    let hash = chain.transfer(account(&chain, 0), account(&chain, 1), usdc(5)).await.unwrap();
    assert_eq!(mined(&chain, hash).await["blockNumber"], "0x2");
    chain.mine(1).await.unwrap();

    chain.reorg(2, &[&[], &[hash]]).await.unwrap();
    assert_eq!(chain.receipt(hash).await.unwrap().unwrap()["blockNumber"], "0x3");
    assert_eq!(chain.block_number().await.unwrap(), 3);
}

#[tokio::test]
async fn a_relay_pays_for_somebody_else() {
    let chain = quiet().await;
    let (payer, sender, seller) = (account(&chain, 0), account(&chain, 1), account(&chain, 2));
    let relay = chain.deploy(contracts::RELAY.creation, &[]).await.unwrap();
    chain.send(payer, chain.usdc(), &contracts::approve(relay, usdc(100))).await.unwrap();

    let call = contracts::pay(chain.usdc(), payer, seller, usdc(60));
    let receipt = mined(&chain, chain.send(sender, relay, &call).await.unwrap()).await;
    assert_eq!(receipt["from"].as_str().unwrap().parse::<Address>().unwrap(), sender);
    assert_eq!(transfers(&receipt), [(payer, seller, 60)]);

    let call = contracts::forward(chain.usdc(), payer, seller, usdc(40));
    let receipt = mined(&chain, chain.send(sender, relay, &call).await.unwrap()).await;
    assert_eq!(transfers(&receipt), [(payer, relay, 40), (relay, seller, 40)]);

    // The allowance is used up.
    let call = contracts::pay(chain.usdc(), payer, seller, usdc(1));
    assert_eq!(mined(&chain, chain.send(sender, relay, &call).await.unwrap()).await["status"], "0x0");
}

#[tokio::test]
async fn a_batch_lets_three_pay_in_one_transaction() {
    let chain = quiet().await;
    let seller = account(&chain, 5);
    let batch = chain.deploy(contracts::BATCH.creation, &[]).await.unwrap();
    let payments = [(account(&chain, 1), usdc(10)), (account(&chain, 2), usdc(20)), (account(&chain, 3), usdc(30))];
    for (payer, amount) in payments {
        chain.send(payer, chain.usdc(), &contracts::approve(batch, amount)).await.unwrap();
    }
    let call = contracts::collect(chain.usdc(), seller, payments);
    let receipt = mined(&chain, chain.send(account(&chain, 0), batch, &call).await.unwrap()).await;
    let expected = [(payments[0].0, seller, 10), (payments[1].0, seller, 20), (payments[2].0, seller, 30)];
    assert_eq!(transfers(&receipt), expected);
}

#[tokio::test]
async fn what_reverts_leaves_no_event_and_no_money() {
    let chain = quiet().await;
    let (payer, seller) = (account(&chain, 0), account(&chain, 1));
    let reverter = chain.deploy(contracts::REVERTER.creation, &[]).await.unwrap();
    chain.send(payer, chain.usdc(), &contracts::approve(reverter, usdc(100))).await.unwrap();
    let call = contracts::pay(chain.usdc(), payer, seller, usdc(100));
    let receipt = mined(&chain, chain.send(payer, reverter, &call).await.unwrap()).await;
    assert_eq!(receipt["status"], "0x0");
    assert_eq!(receipt["logs"], json!([]));
    assert_eq!(chain.usdc_balance(seller).await.unwrap(), usdc(1_000_000_000_000));
}

#[tokio::test]
async fn the_liar_tells_every_shape_and_only_one_is_right() {
    let chain = quiet().await;
    let (payer, seller) = (account(&chain, 0), account(&chain, 1));
    let liar = chain.deploy(contracts::LIAR.creation, &[]).await.unwrap();
    let right = json!({
        "topics": [TRANSFER, as_topic(payer), as_topic(seller)],
        "data": format!("{:#066x}", 490_000),
    });
    let told = async |shape| {
        let call = contracts::lie(shape, payer, seller, usdc(490_000));
        let receipt = mined(&chain, chain.send(payer, liar, &call).await.unwrap()).await;
        assert_eq!(receipt["status"], "0x1", "{shape:?}");
        let logs = receipt["logs"].as_array().unwrap().clone();
        assert!(logs.iter().all(|log| log["address"].as_str().unwrap().parse::<Address>().unwrap() == liar));
        logs.into_iter().map(|log| json!({"topics": log["topics"], "data": log["data"]})).collect::<Vec<_>>()
    };

    assert_eq!(told(Lie::Plain).await, std::slice::from_ref(&right));
    let mut apart = Vec::new();
    for shape in Lie::CROOKED {
        let logs = told(shape).await;
        assert_eq!(logs.len(), 1, "{shape:?}");
        assert_ne!(logs[0], right, "{shape:?}");
        apart.extend(logs);
    }
    let sizes: Vec<_> =
        apart.iter().map(|log| (log["topics"].as_array().unwrap().len(), data_length(&log["data"]))).collect();
    let expected = [(0, 128), (1, 96), (2, 64), (4, 0), (4, 32), (3, 0), (3, 31), (3, 64), (3, 32), (3, 32), (3, 32)];
    assert_eq!(sizes, expected);
    assert_eq!(told(Lie::Everything).await, apart);
    assert_eq!(chain.usdc_balance(seller).await.unwrap(), usdc(1_000_000_000_000));
}

#[tokio::test]
async fn a_coin_has_the_decimals_it_was_given() {
    let chain = quiet().await;
    let coin = chain.deploy(contracts::COIN.creation, &[18.into()]).await.unwrap();
    let decimals = chain.call(coin, &contracts::calldata("decimals()", &[])).await.unwrap();
    assert_eq!(decimals, Word::from(18).as_bytes());

    let owner = account(&chain, 0);
    let receipt = mined(&chain, chain.send(owner, coin, &contracts::mint(owner, usdc(9))).await.unwrap()).await;
    assert_eq!(transfers(&receipt), [(Address::ZERO, owner, 9)]);
    let receipt = mined(&chain, chain.send(owner, coin, &contracts::transfer(owner, usdc(9))).await.unwrap()).await;
    assert_eq!(transfers(&receipt), [(owner, owner, 9)]);
}

/// As when tests share a chain: the runtime that opened it stands still while another one asks.
#[test]
fn one_chain_serves_several_runtimes() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (first, second) = (runtime(), runtime());
    let chain = first.block_on(quiet());
    let answer = second.block_on(async { tokio::time::timeout(Duration::from_secs(5), chain.mine(1)).await });
    answer.expect("an answer in time").unwrap();
    drop(second);
    assert_eq!(first.block_on(chain.block_number()).unwrap(), 1);
}

#[tokio::test]
async fn a_dropped_chain_leaves_no_process() {
    let chain = quiet().await;
    let (process, port) = (chain.process_id(), port(chain.rpc_url()));
    assert!(!gone(process, port));
    drop(chain);
    assert!(gone(process, port));
}

#[tokio::test]
async fn a_panicking_test_leaves_no_process() {
    let (tell, told) = std::sync::mpsc::channel();
    let failed = tokio::spawn(async move {
        let chain = quiet().await;
        tell.send((chain.process_id(), port(chain.rpc_url()))).unwrap();
        panic!("as a failing test does");
    });
    assert!(failed.await.unwrap_err().is_panic());
    let (process, port) = told.recv().unwrap();
    assert!(gone(process, port));
}

/// A chain in a `static` is never dropped, and neither is one of a program that is killed.
#[tokio::test]
async fn a_program_that_ends_leaves_no_process() {
    for end in ["exit", "abort"] {
        let output = child(end).output().unwrap();
        let told = said(&output);
        let (process, port) = told.split_once(' ').unwrap_or_else(|| panic!("{output:?}"));
        let (process, port) = (process.parse().unwrap(), port.parse().unwrap());
        let deadline = Instant::now() + Duration::from_secs(20);
        while !gone(process, port) {
            assert!(Instant::now() < deadline, "anvil outlived a program that ended by {end}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

#[tokio::test]
async fn what_keeps_anvil_from_starting_is_said() {
    let builder = DevChain::builder().install_with_npm(true).mine_every(Duration::ZERO);
    let error = builder.start().await.unwrap_err().to_string();
    assert!(error.contains("--block-time"), "{error}");
}

#[test]
fn without_an_anvil_the_error_names_both_ways_to_get_one() {
    let empty = tempfile::tempdir().unwrap();
    let error = said(&child("fail").env("PATH", "").env("CHILD_TOOLS", empty.path()).output().unwrap());
    assert!(error.contains("X402_ANVIL") && error.contains("install_with_npm(true)"), "{error}");

    let nowhere = empty.path().join("anvil");
    let error = said(&child("fail").env("X402_ANVIL", &nowhere).output().unwrap());
    assert!(error.contains(nowhere.to_str().unwrap()), "{error}");
}

#[test]
fn without_npm_the_error_says_so() {
    let empty = tempfile::tempdir().unwrap();
    let mut command = child("fail");
    command.env("PATH", "").env("CHILD_TOOLS", empty.path()).env("CHILD_NPM", "1");
    let error = said(&command.output().unwrap());
    assert!(error.contains("install Node.js"), "{error}");
}

#[tokio::test]
#[cfg(unix)]
async fn what_npm_complains_about_is_not_repeated() {
    let (folder, path) = fake_npm("echo 'npm error code E401' >&2; echo 'npm error token s3cret' >&2; exit 1");
    let mut command = child("fail");
    command.env("PATH", path).env("CHILD_TOOLS", folder.path().join("tools")).env("CHILD_NPM", "1");
    let error = said(&command.output().unwrap());
    assert!(error.contains("E401") && error.contains("@foundry-rs/anvil@"), "{error}");
    assert!(!error.contains("s3cret"), "{error}");
}

/// Two processes want the same installation: one makes it, the other waits for it, both run.
#[tokio::test]
#[cfg(unix)]
async fn two_processes_install_once() {
    let anvil = anvil_of(&quiet().await);
    let folder = tempfile::tempdir().unwrap();
    let (runs, tools) = (folder.path().join("runs"), folder.path().join("tools"));
    let (_npm, path) = fake_npm(&format!(
        "echo run >> {runs:?}; sleep 1; to=node_modules/@foundry-rs/{}/bin; mkdir -p $to && cp {anvil:?} $to/anvil",
        platform_package()
    ));
    let start = || {
        let mut command = child("start");
        command.env("PATH", &path).env("CHILD_TOOLS", &tools).env("CHILD_NPM", "1");
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let both = [start(), start()];
    for one in both {
        assert_eq!(said(&one.wait_with_output().unwrap()), "8453");
    }
    assert_eq!(fs::read_to_string(runs).unwrap(), "run\n");
    assert!(
        !fs::read_dir(tools).unwrap().any(|entry| entry.unwrap().path().extension().is_some_and(|e| e == "partial"))
    );
}

/// `npm install --global` puts a Node script on `PATH`. Killing that would leave the real `anvil` behind.
#[tokio::test]
#[cfg(target_os = "linux")]
async fn the_wrapper_of_npm_is_never_what_runs() {
    let anvil = anvil_of(&quiet().await);
    let folder = tempfile::tempdir().unwrap();
    let package = folder.path().join("lib/node_modules/@foundry-rs/anvil");
    let binary = package.join("node_modules/@foundry-rs").join(platform_package()).join("bin/anvil");
    fs::create_dir_all(binary.parent().unwrap()).unwrap();
    fs::copy(&anvil, &binary).unwrap();
    fs::write(package.join("bin.mjs"), "#!/usr/bin/env node\n").unwrap();
    fs::create_dir(folder.path().join("bin")).unwrap();
    std::os::unix::fs::symlink(package.join("bin.mjs"), folder.path().join("bin/anvil")).unwrap();

    let ran = said(&child("program").env("PATH", folder.path().join("bin")).output().unwrap());
    assert_eq!(Path::new(&ran), binary.canonicalize().unwrap());
}

/// Not a test of its own: what the tests above start in a process of its own.
#[tokio::test]
async fn as_a_child() {
    let Ok(role) = env::var("CHILD_ROLE") else { return };
    let mut builder = DevChain::builder().mine_every(None).install_with_npm(env::var_os("CHILD_NPM").is_some());
    if let Some(folder) = env::var_os("CHILD_TOOLS") {
        builder = builder.tools_dir(folder);
    }
    let started = builder.start().await;
    match role.as_str() {
        "fail" => println!("child: {}", started.expect_err("nothing there to start")),
        "start" => println!("child: {}", started.unwrap().chain_id()),
        "program" => println!("child: {}", anvil_of(&started.unwrap()).display()),
        end => {
            let chain = Box::leak(Box::new(started.unwrap()));
            println!("child: {} {}", chain.process_id(), port(chain.rpc_url()));
            if end == "abort" { std::process::abort() } else { std::process::exit(0) }
        }
    }
}

fn child(role: &str) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", "devchain::as_a_child", "--nocapture"]);
    command.env("CHILD_ROLE", role).env_remove("X402_ANVIL").stdin(Stdio::null());
    command
}

fn said(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().find_map(|line| line.split_once("child: "));
    line.unwrap_or_else(|| panic!("the child said nothing: {output:?}")).1.to_owned()
}

/// A folder with an `npm` that does as the script says, and a `PATH` on which it is the only one and there is no `anvil`.
#[cfg(unix)]
fn fake_npm(script: &str) -> (tempfile::TempDir, String) {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let npm = folder.path().join("npm");
    fs::write(&npm, format!("#!/bin/sh\nPATH=/usr/bin:/bin\n{script}\n")).unwrap();
    fs::set_permissions(&npm, fs::Permissions::from_mode(0o755)).unwrap();
    let path = folder.path().display().to_string();
    (folder, path)
}

/// The program that a running chain runs.
#[cfg(unix)]
fn anvil_of(chain: &DevChain) -> std::path::PathBuf {
    if cfg!(target_os = "linux") {
        return fs::read_link(format!("/proc/{}/exe", chain.process_id())).unwrap();
    }
    let process = chain.process_id().to_string();
    let output = Command::new("ps").args(["-o", "comm=", "-p", &process]).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().into()
}

/// The package of npm that holds the binary for this platform.
#[cfg(unix)]
fn platform_package() -> String {
    let os = if cfg!(target_os = "macos") { "darwin" } else { "linux" };
    let cpu = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
    format!("anvil-{os}-{cpu}")
}

fn port(url: &str) -> u16 {
    url.rsplit(':').next().unwrap().parse().unwrap()
}

/// Whether the process has ended (a zombie that nobody waits for has too); without `/proc`, whether its port is closed.
fn gone(process: u32, port: u16) -> bool {
    if !cfg!(target_os = "linux") {
        return TcpStream::connect(("127.0.0.1", port)).is_err();
    }
    let status = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    status.is_empty() || status.contains(") Z ")
}

fn transfers(receipt: &Value) -> Vec<(Address, Address, u128)> {
    assert_eq!(receipt["status"], "0x1");
    let logs = receipt["logs"].as_array().unwrap();
    let events = logs.iter().filter(|log| log["topics"][0] == TRANSFER);
    events.map(|log| (topic(log, 1), topic(log, 2), number(&log["data"]))).collect()
}

fn topic(log: &Value, index: usize) -> Address {
    format!("0x{}", &log["topics"][index].as_str().unwrap()[26..]).parse().unwrap()
}

fn number(data: &Value) -> u128 {
    u128::from_str_radix(&data.as_str().unwrap()[2..], 16).unwrap()
}

fn data_length(data: &Value) -> usize {
    (data.as_str().unwrap().len() - 2) / 2
}
