//! Entry points of the benchmarks (feature `bench-internals`). Not part of the public API: they change without notice.

use std::time::Duration;

use super::{
    judge::{Policy, Tip, judge},
    view::{Block, Log, MinedIn, Transaction, TxReceipt, TxRecord},
};
use crate::{
    evm::erc20::TRANSFER_TOPIC,
    protocol::{Address, Amount, Asset, ChainTime, Network, Terms, TxHash},
    verify::Verdict,
};

const TRANSACTION: TxHash = TxHash::new([0xab; 32]);
const RECIPIENT: Address = Address::new([0x5a; 20]);
const BLOCK: Block =
    Block { number: 30_000_000, hash: [1; 32], parent: [2; 32], time: ChainTime::from_unix(1_795_280_000) };

/// Returns a function that judges a receipt of `logs` transfers, the last of which pays.
pub fn judging(logs: u32) -> impl Fn() -> Verdict {
    let log = |position| Log {
        position,
        emitter: Asset::USDC_BASE.contract(),
        topics: vec![TRANSFER_TOPIC, topic(0x66), topic(if position + 1 == logs { 0x5a } else { 0x77 })],
        data: Amount::from_base_units(490_000).to_be_bytes().to_vec(),
        transaction: Some(TRANSACTION),
        block: Some(BLOCK.hash),
        removed: false,
    };
    let receipt = TxReceipt {
        transaction: TRANSACTION,
        mined_in: Some(MinedIn { number: BLOCK.number, hash: BLOCK.hash }),
        success: Some(true),
        logs: (0..logs).map(log).collect(),
    };
    let transaction = Transaction { sender: Address::new([0x66; 20]), call_data: None, permit: None };
    let record = TxRecord { receipt, transaction };
    let day = Duration::from_secs(86_400);
    let terms = Terms::builder(Network::BASE, RECIPIENT, Amount::from_base_units(490_000))
        .resource("insights")
        .assets([Asset::USDC_BASE])
        .max_payment_age(day)
        .build();
    let (tip, policy) = (Tip { head: BLOCK, confirmed: Some(BLOCK.number) }, Policy::default());
    move || judge(TRANSACTION, &record, Some(&BLOCK), &tip, &terms, &policy)
}

fn topic(address: u8) -> [u8; 32] {
    let mut topic = [0; 32];
    topic[12..].fill(address);
    topic
}
