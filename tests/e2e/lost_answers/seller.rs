//! A seller in a process of its own, which can be killed, with an answer that takes long to send.

use std::{
    fs::{self, OpenOptions},
    io::Write as _,
    path::{Path, PathBuf},
    time::Duration,
};

use axum::{Router, routing::post};
use tokio::net::TcpSocket;
use tower_x402::{
    Merchant, Redelivery,
    ledger::{Ledger, MemoryLedger},
    protocol::{Amount, SealingKeys},
    verify::EvmVerifier,
};

use super::unsure::Unsure;
use crate::{
    kinds::AnyLedger,
    served::{
        market::{PRICE, SELLER},
        shop::INSIGHTS,
    },
};

/// Where the child is told its node, its ledger and its folder, a line each.
pub const SETTINGS: &str = "X402_TEST_SELLER";
pub const AS_A_CHILD: [&str; 3] = ["--exact", "lost_answers::seller::as_a_child", "--nocapture"];
/// Has the address at which it listens.
pub const URL: &str = "url";
/// Has a byte for each run of the handler.
const RUNS: &str = "runs";
/// How long an answer is: within what is kept, and more than the network holds for one who does not read.
pub const LENGTH: usize = 250 * 1024;

/// Not a test of its own: the program that the tests start.
#[tokio::test(flavor = "multi_thread")]
async fn as_a_child() {
    let Ok(settings) = std::env::var(SETTINGS) else { return };
    let [rpc, address, folder] = settings.split('\n').collect::<Vec<_>>().try_into().unwrap();
    if address == "memory" {
        return serve(rpc, MemoryLedger::new(), folder.into()).await;
    }
    let ledger = AnyLedger::patient(address).await;
    ledger.migrate().await.unwrap();
    serve(rpc, ledger, folder.into()).await;
}

async fn serve(rpc: &str, ledger: impl Ledger, folder: PathBuf) {
    let merchant = Merchant::builder(SELLER)
        .hold_unbound(Duration::ZERO)
        .verifier(EvmVerifier::connect([rpc]).await.unwrap())
        .ledger(Unsure::new(ledger, folder.clone()))
        .sealing_keys(SealingKeys::new([7; 32]))
        .build()
        .await
        .unwrap();
    let layer = merchant.charge("insights", Amount::from_base_units(PRICE)).unwrap().redeliver(Redelivery::default());
    let handler_folder = folder.clone();
    let handler = post(async move || answer(run(&handler_folder)));
    let socket = TcpSocket::new_v4().unwrap();
    // What it sends waits here, where it ends with the process.
    socket.set_send_buffer_size(4 * 1024).unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(16).unwrap();
    let draft = folder.join("draft");
    fs::write(&draft, listener.local_addr().unwrap().to_string()).unwrap();
    fs::rename(draft, folder.join(URL)).unwrap();
    axum::serve(listener, Router::new().route(INSIGHTS, handler.route_layer(layer))).await.unwrap();
}

/// Counts a run; gives its number.
fn run(folder: &Path) -> usize {
    OpenOptions::new().create(true).append(true).open(folder.join(RUNS)).unwrap().write_all(b"x").unwrap();
    runs(folder)
}

/// How often the handler ran, whichever process it was in.
pub fn runs(folder: &Path) -> usize {
    fs::read(folder.join(RUNS)).map_or(0, |runs| runs.len())
}

/// What that run answers: no two the same.
pub fn answer(run: usize) -> Vec<u8> {
    let mut seed = run as u64;
    let bytes = std::iter::repeat_with(move || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 56) as u8
    });
    bytes.take(LENGTH).collect()
}
