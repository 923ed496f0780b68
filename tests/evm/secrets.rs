//! SECURITY rows 10 and 33: the key in an endpoint's URL, and text of a node, appear nowhere.

use std::{
    io,
    sync::{Arc, Mutex},
};

use tracing_subscriber::fmt::MakeWriter;

use super::{
    node::{Fault, LOGS, text},
    token::Use,
    *,
};

/// Everything that was logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("not poisoned").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

#[track_caller]
fn assert_clean(what: &str, text: &str) {
    assert!(!text.contains(CANARY), "{what}: {text}");
}

fn assert_clean_error<T>(what: &str, answer: &Result<T, VerifyError>) {
    if let Err(error) = answer {
        assert_clean(what, &format!("{error} {error:?} {error:#?}"));
        assert!(std::error::Error::source(error).is_none(), "{what}: a source could hold anything");
    }
}

/// In a process of its own: a log call first reached by a thread that logs nowhere would be switched off for all.
#[test]
fn no_key_and_no_text_of_a_node_comes_out() {
    let test = std::env::current_exe().expect("this program");
    let name = "secrets::nothing_comes_out";
    let run = std::process::Command::new(test).args([name, "--exact", "--ignored", "--nocapture"]).output();
    let run = run.expect("it starts");
    let said = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success() && said.contains("1 passed"), "{said}\n{}", String::from_utf8_lossy(&run.stderr));
}

#[tokio::test]
#[ignore = "run by the test above, alone"]
async fn nothing_comes_out() {
    let log = Log::default();
    let subscriber =
        tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_writer(log.clone()).with_ansi(false);
    let _guard = tracing::subscriber::set_default(subscriber.finish());

    let elsewhere = Node::start().await;
    let faults = [
        Fault::Hang,
        Fault::Status(429),
        Fault::Html,
        Fault::Truncated,
        Fault::Huge { announced: false },
        Fault::WrongId,
        Fault::RpcError,
        Fault::Redirect(elsewhere.url()),
        Fault::Result(serde_json::json!(CANARY)),
    ];
    for fault in faults {
        let what = format!("{fault:?}");
        let node = Node::start().await;
        let (verifier, clock) = connect(&[&node]).await;
        assert_clean("Debug", &format!("{verifier:?} {verifier:#?}"));
        assert_clean("Debug", &format!("{:?}", builder(&[&node], &clock)));
        node.fault_all(fault.clone());
        assert_clean_error(&what, &verifier.verify(&terms(), tx(1)).await);
        assert_clean_error(&what, &verifier.head().await);
        assert_clean_error(&what, &verifier.check(Network::BASE, &[Asset::USDC_BASE]).await);
        assert_clean_error(&what, &verifier.asset(Asset::USDC_BASE.contract()).await);
        assert_clean_error(&what, &verifier.domain(Asset::USDC_BASE.contract()).await);
        let since = ChainTime::from_unix(time_of(90));
        let token = Asset::USDC_BASE.contract();
        assert_clean_error(&what, &verifier.nonce_state(token, PAYER, &[7; 32], since).await);
        assert_clean_error(&what, &builder(&[&node], &clock).connect().await);
        node.heal();
        node.fault(LOGS, fault);
        node.script().usdc.claims = Some(true);
        let (verifier, _) = connect(&[&node]).await;
        let answer = verifier.nonce_state(token, PAYER, &[7; 32], since).await;
        assert!(answer.is_err(), "{what}: {answer:?}");
        assert_clean_error(&what, &answer);
    }
    // Nobody there at all, and no URL at all.
    let gone = { Node::start().await.url() };
    assert_clean_error("gone", &EvmVerifier::connect([gone]).await);
    assert_clean_error("no URL", &EvmVerifier::connect([CANARY]).await);
    // A token may call itself anything.
    let node = Node::start().await;
    let (verifier, _) = connect(&[&node]).await;
    node.script().usdc.set("name()", Some(text(CANARY)));
    assert_eq!(verifier.domain(Asset::USDC_BASE.contract()).await, Ok(None));
    // It was used lately, and no log tells.
    let (payer, nonce, transaction) = (PAYER, [7; 32], tx(1));
    node.script().usdc.uses.push(Use { payer, nonce, height: 95, transaction, canceled: false });
    node.script().usdc.indexed = 90;
    let since = ChainTime::from_unix(time_of(90));
    assert!(verifier.nonce_state(Asset::USDC_BASE.contract(), payer, &nonce, since).await.is_err());
    // Another chain, in the middle of it.
    let node = Node::start().await;
    let (verifier, clock) = connect(&[&node]).await;
    node.script().chain_id = 1;
    clock.advance(Duration::from_secs(61));
    let answer = verifier.verify(&terms(), tx(1)).await;
    assert!(answer.is_err());
    assert_clean_error("another chain", &answer);

    let logged = String::from_utf8(log.0.lock().expect("not poisoned").clone()).expect("UTF-8");
    assert!(logged.contains("verify") && logged.contains("endpoint not believed"), "nothing was logged: {logged}");
    assert!(
        logged.contains("domain separator") && logged.contains("no endpoint has the log"),
        "nothing was logged: {logged}"
    );
    // The node's own side of the connection is no part of it.
    assert_clean("log", &logged);
}
