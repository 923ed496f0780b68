//! Nodes that lie, lag, forget and hang, alone and beside others: none of them makes an authorization void by itself.

use super::*;

/// An authorization that nobody used, long over.
async fn over(nodes: usize) -> (DevChain, Vec<Proxy>, WalletPayer, PreparedAuthorization) {
    let (chain, proxies, wallet) = through(nodes).await;
    let prepared = authorized(&chain, &wallet).await;
    expire(&chain, &prepared, 30).await;
    (chain, proxies, wallet, prepared)
}

/// One that was used, and is long over.
async fn spent(nodes: usize) -> (DevChain, Vec<Proxy>, WalletPayer, PreparedAuthorization, TxHash) {
    let (chain, proxies, wallet) = through(nodes).await;
    let prepared = authorized(&chain, &wallet).await;
    let hash = settled(&chain, &prepared).await;
    expire(&chain, &prepared, 30).await;
    (chain, proxies, wallet, prepared, hash)
}

#[tokio::test]
async fn what_one_node_says_is_used_is_used() {
    let (_chain, proxies, wallet, prepared, hash) = spent(2).await;
    for liar in [0, 1] {
        let (liar, honest) = (&proxies[liar], &proxies[1 - liar]);
        liar.set("eth_call", no());
        assert_eq!(known(&wallet, &prepared).await, used(hash));
        liar.set("eth_getLogs", Odd::Result(json!([])));
        assert_eq!(known(&wallet, &prepared).await, used(hash));
        honest.set("eth_getLogs", Odd::Status(503));
        assert_eq!(known(&wallet, &prepared).await, USED_SOMEHOW);
        // The honest one is silenced: half of the nodes do not decide.
        for odd in [Odd::Status(503), Odd::Html, Odd::Error(-32000, "missing trie node"), Odd::Result(json!("0x"))] {
            honest.set("eth_call", odd);
            assert_eq!(known(&wallet, &prepared).await, AuthorizationStatus::Unused);
        }
        proxies.iter().for_each(Proxy::clear);
    }
}

/// Behind one address there may be nodes on different blocks.
#[tokio::test]
async fn a_node_whose_newest_state_is_old_does_not_make_it_void() {
    let (_chain, proxies, wallet, prepared, hash) = spent(1).await;
    let lagging: [fn(&Value, &mut Value); 2] = [
        |params, said| {
            if params[1] == "latest" {
                *said = json!(format!("0x{}", "0".repeat(64)));
            }
        },
        // The state of another block than the one that was asked for.
        |params, said| {
            if params[1] == "latest" {
                *said = json!(format!("0x{}", "0".repeat(64)));
            } else {
                *said = Value::Null;
            }
        },
    ];
    for lagging in lagging {
        proxies[0].set("eth_call", Odd::Replaced(lagging));
        assert_eq!(known(&wallet, &prepared).await, AuthorizationStatus::Unused);
    }
    proxies[0].clear();
    assert_eq!(known(&wallet, &prepared).await, used(hash));
}

#[tokio::test]
async fn a_node_without_the_state_of_that_block_has_no_say() {
    let refusals =
        [Odd::OldState(403), Odd::OldState(503), Odd::Refused(|params| params[1].as_str().unwrap().starts_with("0x"))];
    let (_chain, proxies, wallet, prepared) = over(1).await;
    for refusal in &refusals {
        proxies[0].set("eth_call", refusal.clone());
        assert_eq!(known(&wallet, &prepared).await, AuthorizationStatus::Unused);
    }
    proxies[0].clear();
    assert_eq!(known(&wallet, &prepared).await, AuthorizationStatus::Void);

    let (_chain, proxies, wallet, prepared) = over(3).await;
    proxies[0].set("eth_call", Odd::OldState(403));
    assert_eq!(known(&wallet, &prepared).await, AuthorizationStatus::Void, "two of three have it");
    proxies[2].set("eth_call", Odd::OldState(403));
    assert_eq!(known(&wallet, &prepared).await, AuthorizationStatus::Unused, "one of three");

    let (_chain, proxies, wallet, prepared, hash) = spent(1).await;
    for refusal in &refusals {
        proxies[0].set("eth_call", refusal.clone());
        assert_eq!(known(&wallet, &prepared).await, used(hash), "that it is used needs no old state");
    }
}

#[tokio::test]
async fn void_is_what_all_that_answer_say_and_more_than_half_answer() {
    let (_chain, proxies, wallet, prepared) = over(3).await;
    assert_eq!(known(&wallet, &prepared).await, AuthorizationStatus::Void);
    let silences: [(&str, Odd); 3] =
        [("eth_getBlockByNumber", Odd::Status(503)), ("eth_call", Odd::Html), ("eth_chainId", Odd::Status(503))];
    let dissents: [(&str, Odd); 5] = [
        // Its time is not over there, it lags, it is another chain's, has another block, or has none.
        ("eth_getBlockByNumber", Odd::Changed(|block| block["timestamp"] = json!("0x1"))),
        ("eth_getBlockByNumber", Odd::Changed(|block| block["number"] = json!("0x16"))),
        ("eth_chainId", Odd::Result(json!("0x1"))),
        (
            "eth_getBlockByNumber",
            Odd::Replaced(|params, block| {
                if params[0] != "latest" {
                    block["number"] = json!("0xff");
                }
            }),
        ),
        (
            "eth_getBlockByNumber",
            Odd::Replaced(|params, block| {
                if params[0] != "latest" {
                    *block = Value::Null;
                }
            }),
        ),
    ];
    for odd_one in 0..3 {
        let (odd, next) = (&proxies[odd_one], &proxies[(odd_one + 1) % 3]);
        for (method, silence) in &silences {
            odd.set(method, silence.clone());
            assert_eq!(known(&wallet, &prepared).await, AuthorizationStatus::Void, "{odd_one} is silent: {method}");
            next.set(method, silence.clone());
            let answer = known(&wallet, &prepared).await;
            assert_eq!(answer, AuthorizationStatus::Unused, "{odd_one} and the next are silent: {method}");
            proxies.iter().for_each(Proxy::clear);
        }
        for (case, (method, dissent)) in dissents.iter().enumerate() {
            odd.set(method, dissent.clone());
            assert_eq!(known(&wallet, &prepared).await, AuthorizationStatus::Unused, "{odd_one}, {case}");
            proxies.iter().for_each(Proxy::clear);
        }
    }
}

#[tokio::test]
async fn one_that_hangs_is_waited_for_once_and_decides_nothing() {
    let (_chain, proxies, wallet, prepared) = over(3).await;
    proxies[1].set("eth_call", Odd::Hang);
    let begun = Instant::now();
    for _ in 0..2 {
        assert_eq!(known(&wallet, &prepared).await, AuthorizationStatus::Void);
    }
    assert!(begun.elapsed() < Duration::from_secs(19), "{:?}", begun.elapsed());

    let (_chain, proxies, wallet, prepared) = over(2).await;
    proxies[0].set("eth_call", Odd::Hang);
    assert_eq!(known(&wallet, &prepared).await, AuthorizationStatus::Unused, "half of the nodes");
}

#[tokio::test]
async fn where_no_node_answers_nothing_is_known_and_nothing_comes_out() {
    let (_chain, proxies, wallet, prepared) = over(2).await;
    for odd in [Odd::Html, Odd::Status(503), Odd::Error(-32000, "no"), Odd::Result(json!(CANARY))] {
        for proxy in &proxies {
            proxy.set("eth_call", odd.clone());
        }
        let answer = told(&wallet, &prepared).await;
        assert!(is_unavailable(&answer), "{answer:?}");
        let (cancelled, domain) =
            (wallet.prepare_cancellation(&prepared).await, wallet.authorizes(&Asset::USDC_BASE, usdc(1)).await);
        let mut said = format!("{answer:?} {cancelled:?} {domain:?}");
        said += &answer.unwrap_err().to_string();
        said += &cancelled.map_or_else(|error| error.to_string(), |prepared| format!("{prepared:?}"));
        assert!(!said.contains(CANARY) && !said.contains("127.0.0.1"), "{said}");
    }
}
