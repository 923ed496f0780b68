//! A payer in a process of its own, which is killed with the answer in memory.

use std::{fs, path::Path};

use tokio::time::sleep;

use super::rig;
use crate::{app::PATIENT, shop::client};

/// Where the child is told the seller's address, the intent, the transaction and its folder, a line each.
pub const SETTINGS: &str = "X402_TEST_PAYER";
pub const AS_A_CHILD: [&str; 3] = ["--exact", "lost_answers::payer::as_a_child", "--nocapture"];
/// Is there once it has received all of the answer.
pub const RECEIVED: &str = "received";

/// Not a test of its own: the program that the tests start.
#[tokio::test]
async fn as_a_child() {
    let Ok(settings) = std::env::var(SETTINGS) else { return };
    let [address, intent, payment, folder] = settings.split('\n').collect::<Vec<_>>().try_into().unwrap();
    let answer = rig::show(&client(), address, intent, payment.parse().unwrap()).await.unwrap();
    let body = answer.bytes().await.unwrap();
    fs::write(Path::new(folder).join(RECEIVED), "").unwrap();
    // Here it would store the answer. It is killed instead.
    sleep(PATIENT).await;
    drop(body);
}
