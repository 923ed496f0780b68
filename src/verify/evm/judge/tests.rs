//! Each rule of `judge` by name, then properties over arbitrary receipts.

#![allow(clippy::expect_used, clippy::unwrap_used, clippy::panic, reason = "tests")]

mod binding;
mod permits;

use proptest::prelude::*;

use super::*;
use crate::{
    protocol::{Asset, ChainTime, Network},
    verify::evm::view::MinedIn,
};

const TX: TxHash = TxHash::new([7; 32]);
const RECIPIENT: Address = Address::new([0xaa; 20]);
const PAYER: Address = Address::new([0xbb; 20]);
const TREASURY: Address = Address::new([0xcc; 20]);
const PRICE: u128 = 490_000;
const AGE: u64 = 86_400;
const HEIGHT: u64 = 100;
const MINED_AT: u64 = 1_800_000_000;

fn word(units: u128) -> [u8; 32] {
    Amount::from_base_units(units).to_be_bytes()
}

fn topic(address: Address) -> [u8; 32] {
    let mut topic = [0; 32];
    topic[12..].copy_from_slice(address.as_bytes());
    topic
}

fn block() -> Block {
    Block { number: HEIGHT, hash: [1; 32], parent: [0; 32], time: ChainTime::from_unix(MINED_AT) }
}

fn tip() -> Tip {
    let head = Block { number: HEIGHT + 5, hash: [2; 32], parent: [3; 32], time: ChainTime::from_unix(MINED_AT + 10) };
    Tip { head, confirmed: Some(HEIGHT + 5) }
}

fn terms() -> Terms {
    let assets = [Asset::USDC_BASE, Asset::USDBC_BASE];
    let price = Amount::from_base_units(PRICE);
    Terms::builder(Network::BASE, RECIPIENT, price)
        .resource("answers")
        .assets(assets.as_slice())
        .max_payment_age(Duration::from_secs(AGE))
        .build()
}

fn policy() -> Policy {
    Policy { deny: HashSet::from([TREASURY]), retry_after: Duration::from_secs(2) }
}

fn transfer(position: u32, units: u128) -> Log {
    Log {
        position,
        emitter: Asset::USDC_BASE.contract(),
        topics: vec![TRANSFER_TOPIC, topic(PAYER), topic(RECIPIENT)],
        data: word(units).to_vec(),
        transaction: Some(TX),
        block: Some([1; 32]),
        removed: false,
    }
}

fn receipt(logs: Vec<Log>) -> TxReceipt {
    let mined_in = Some(MinedIn { number: HEIGHT, hash: [1; 32] });
    TxReceipt { transaction: TX, mined_in, success: Some(true), logs }
}

/// A relay's transaction without a tag: its call data binds nothing.
fn judge_receipt(
    transaction: TxHash,
    receipt: &TxReceipt,
    canonical: Option<&Block>,
    tip: &Tip,
    terms: &Terms,
    policy: &Policy,
) -> Verdict {
    let sent = Transaction { sender: Address::new([0xdd; 20]), call_data: None, permit: None };
    judge(transaction, &TxRecord { receipt: receipt.clone(), transaction: sent }, canonical, tip, terms, policy)
}

fn verdict(receipt: &TxReceipt) -> Verdict {
    judge_receipt(TX, receipt, Some(&block()), &tip(), &terms(), &policy())
}

fn one(change: impl FnOnce(&mut Log)) -> Verdict {
    let mut log = transfer(0, PRICE);
    change(&mut log);
    verdict(&receipt(vec![log]))
}

fn positions(verdict: &Verdict) -> Vec<u32> {
    match verdict {
        Verdict::Paid { transfers, .. } => transfers.iter().map(|transfer| transfer.position).collect(),
        _ => Vec::new(),
    }
}

const NOT_CONFIRMED: Verdict = Verdict::NotConfirmed { retry_after: Duration::from_secs(2) };

#[test]
fn the_signature_is_that_of_erc20() {
    assert_eq!(TRANSFER_TOPIC, alloy::primitives::keccak256("Transfer(address,address,uint256)").0);
}

#[test]
fn a_payment_is_paid_with_every_detail() {
    let expected = Transfer::new(Network::BASE, TX, 4)
        .with_token(Asset::USDC_BASE.contract())
        .with_payer(PAYER)
        .with_recipient(RECIPIENT)
        .with_amount(Amount::from_base_units(PRICE))
        .with_block(HEIGHT, ChainTime::from_unix(MINED_AT));
    let head = ChainTime::from_unix(MINED_AT + 10);
    assert_eq!(verdict(&receipt(vec![transfer(4, PRICE)])), Verdict::Paid { transfers: vec![expected], head });
}

#[test]
fn amounts_are_compared_in_base_units() {
    let largest_of = |units: &[u128]| verdict(&receipt(units.iter().map(|units| transfer(0, *units)).collect()));
    let short = |units| Verdict::Insufficient { paid: Amount::from_base_units(units) };
    assert_eq!(largest_of(&[489_999]), short(489_999));
    assert_eq!(largest_of(&[0]), short(0));
    assert_eq!(largest_of(&[300_000, 400_000, 200_000]), short(400_000), "never added up");
    for units in [490_000, 490_001, u128::MAX] {
        assert_eq!(positions(&largest_of(&[units])), [0], "{units}");
    }
    assert_eq!(positions(&one(|log| log.data = vec![0xff; 32])), [0], "U256::MAX");
    assert_eq!(positions(&largest_of(&[489_999, 490_000])), [0], "one that is enough is enough");
}

#[test]
fn nothing_is_free_even_at_a_price_of_zero() {
    let assets = [Asset::USDC_BASE];
    let terms = Terms::builder(Network::BASE, RECIPIENT, Amount::ZERO)
        .resource("free")
        .assets(assets.as_slice())
        .max_payment_age(Duration::from_secs(AGE))
        .build();
    let verdict = judge_receipt(TX, &receipt(vec![transfer(0, 0)]), Some(&block()), &tip(), &terms, &policy());
    assert_eq!(verdict, Verdict::Insufficient { paid: Amount::ZERO });
}

#[test]
fn only_an_accepted_contract_counts() {
    assert_eq!(positions(&one(|log| log.emitter = Asset::USDBC_BASE.contract())), [0]);
    assert_eq!(one(|log| log.emitter = Address::new([0x66; 20])), Verdict::NoTransfer, "a liar contract");
    assert_eq!(one(|log| log.emitter = Asset::USDC_BASE_SEPOLIA.contract()), Verdict::NoTransfer);
    let assets = [Asset::new(Network::BASE_SEPOLIA, Asset::USDC_BASE.contract(), 6, "USDC")];
    let elsewhere = Terms::builder(Network::BASE, RECIPIENT, Amount::ZERO)
        .resource("x")
        .assets(assets.as_slice())
        .max_payment_age(Duration::MAX)
        .build();
    let judged = judge_receipt(TX, &receipt(vec![transfer(0, PRICE)]), Some(&block()), &tip(), &elsewhere, &policy());
    assert_eq!(judged, Verdict::NoTransfer, "the same address on another chain");
}

#[test]
fn only_the_exact_shape_counts() {
    let dirty = |which: usize, byte: usize| {
        one(|log| {
            if let Some(topic) = log.topics.get_mut(which) {
                topic[byte] = 1;
            }
        })
    };
    let shapes: [(&str, Verdict); 12] = [
        ("no topics", one(|log| log.topics.clear())),
        ("two topics", one(|log| log.topics.truncate(2))),
        ("four topics, an NFT", one(|log| log.topics.push(word(1)))),
        ("another event", one(|log| log.topics[0] = [9; 32])),
        ("31 bytes", one(|log| log.data.truncate(31))),
        ("33 bytes", one(|log| log.data.push(0))),
        ("64 bytes", one(|log| log.data.extend([0; 32]))),
        ("no data", one(|log| log.data.clear())),
        ("from: first byte dirty", dirty(1, 0)),
        ("from: last byte of padding dirty", dirty(1, 11)),
        ("to: first byte dirty", dirty(2, 0)),
        ("to: last byte of padding dirty", dirty(2, 11)),
    ];
    for (shape, verdict) in shapes {
        assert_eq!(verdict, Verdict::NoTransfer, "{shape}");
    }
}

#[test]
fn only_from_somebody_else_to_the_recipient_counts() {
    let between = |from: Address, to: Address| one(|log| log.topics = vec![TRANSFER_TOPIC, topic(from), topic(to)]);
    assert_eq!(between(PAYER, PAYER), Verdict::NoTransfer, "to another");
    assert_eq!(between(Address::ZERO, RECIPIENT), Verdict::NoTransfer, "a mint");
    let channels = crate::protocol::channel::BATCH_SETTLEMENT;
    assert_eq!(between(channels, RECIPIENT), Verdict::NoTransfer, "what is swept was sold before");
    assert_eq!(between(RECIPIENT, RECIPIENT), Verdict::NoTransfer, "to oneself");
    assert_eq!(between(TREASURY, RECIPIENT), Verdict::NoTransfer, "a top-up");
    // Not even as an insufficient payment: that would ask the treasury to pay more.
    let log = Log { topics: vec![TRANSFER_TOPIC, topic(TREASURY), topic(RECIPIENT)], ..transfer(0, 1) };
    assert_eq!(verdict(&receipt(vec![log])), Verdict::NoTransfer);
}

#[test]
fn success_must_be_stated() {
    for success in [Some(false), None] {
        let receipt = TxReceipt { success, ..receipt(vec![transfer(0, PRICE)]) };
        assert_eq!(verdict(&receipt), Verdict::NoTransfer, "{success:?}");
    }
}

#[test]
fn a_day_is_not_a_second_longer() {
    let at = |seconds_later: u64| {
        let mut tip = tip();
        tip.head.time = ChainTime::from_unix(MINED_AT + seconds_later);
        judge_receipt(TX, &receipt(vec![transfer(0, PRICE)]), Some(&block()), &tip, &terms(), &policy())
    };
    for young in [0, AGE - 1, AGE] {
        assert_eq!(positions(&at(young)), [0], "{young}");
    }
    assert_eq!(at(AGE + 1), Verdict::TooOld);
    assert_eq!(at(u64::MAX - MINED_AT), Verdict::TooOld);
}

#[test]
fn nothing_is_said_before_the_block_counts() {
    // Whatever else the receipt says, the transaction may yet be mined with another outcome.
    let kinds = [
        receipt(vec![transfer(0, PRICE)]),
        receipt(vec![]),
        receipt(vec![transfer(0, 1)]),
        TxReceipt { success: Some(false), ..receipt(vec![]) },
    ];
    for receipt in kinds {
        let judge = |canonical: Option<Block>, tip: Tip| {
            judge_receipt(TX, &receipt, canonical.as_ref(), &tip, &terms(), &policy())
        };
        assert_eq!(judge(None, tip()), NOT_CONFIRMED, "no such block");
        assert_eq!(judge(Some(Block { hash: [9; 32], ..block() }), tip()), NOT_CONFIRMED, "orphaned");
        assert_eq!(judge(Some(Block { number: 99, ..block() }), tip()), NOT_CONFIRMED, "another height");
        assert_eq!(judge(Some(block()), Tip { confirmed: Some(HEIGHT - 1), ..tip() }), NOT_CONFIRMED, "too shallow");
        assert_eq!(judge(Some(block()), Tip { confirmed: None, ..tip() }), NOT_CONFIRMED, "nothing is safe yet");
        assert_ne!(judge(Some(block()), Tip { confirmed: Some(HEIGHT), ..tip() }), NOT_CONFIRMED);
        let pending = TxReceipt { mined_in: None, ..receipt.clone() };
        assert_eq!(verdict(&pending), NOT_CONFIRMED, "no block");
        let other = TxReceipt { transaction: TxHash::new([8; 32]), ..receipt.clone() };
        assert_eq!(verdict(&other), NOT_CONFIRMED, "another transaction's");
    }
}

#[test]
fn a_receipt_that_contradicts_itself_says_nothing() {
    type Change = fn(&mut Log);
    let changes: [(&str, Change); 5] = [
        ("removed", |log| log.removed = true),
        ("another transaction's log", |log| log.transaction = Some(TxHash::new([8; 32]))),
        ("no transaction", |log| log.transaction = None),
        ("another block's log", |log| log.block = Some([9; 32])),
        ("no block", |log| log.block = None),
    ];
    for (what, change) in changes {
        assert_eq!(one(change), NOT_CONFIRMED, "{what}");
        let mut second = transfer(1, PRICE);
        change(&mut second);
        assert_eq!(verdict(&receipt(vec![transfer(0, PRICE), second])), NOT_CONFIRMED, "{what} beside a good one");
    }
}

fn any_address() -> impl Strategy<Value = Address> {
    prop_oneof![
        Just(PAYER),
        Just(RECIPIENT),
        Just(TREASURY),
        Just(Address::ZERO),
        Just(Asset::USDC_BASE.contract()),
        any::<[u8; 20]>().prop_map(Address::new),
    ]
}

fn any_topic() -> impl Strategy<Value = [u8; 32]> {
    prop_oneof![Just(TRANSFER_TOPIC), Just(AUTHORIZATION_USED_TOPIC), any_address().prop_map(topic), any::<[u8; 32]>()]
}

/// Any log, biased towards those that nearly count.
fn any_log() -> impl Strategy<Value = Log> {
    let hash = || prop_oneof![4 => Just(Some([1; 32])), 1 => any::<Option<[u8; 32]>>()];
    let data = prop_oneof![any::<u64>().prop_map(|units| word(units.into()).to_vec()), any::<Vec<u8>>()];
    let topics = prop_oneof![
        (any_topic(), any_topic()).prop_map(|(from, to)| vec![TRANSFER_TOPIC, from, to]),
        prop::collection::vec(any_topic(), 0..5),
    ];
    (any::<u32>(), any_address(), topics, data, hash(), hash(), prop::bool::weighted(0.1)).prop_map(
        |(position, emitter, topics, data, transaction, block, removed)| {
            let transaction = transaction.map(|hash| if hash == [1; 32] { TX } else { TxHash::new(hash) });
            Log { position, emitter, topics, data, transaction, block, removed }
        },
    )
}

/// A log of this transaction that is no payment.
fn noise() -> impl Strategy<Value = Log> {
    any_log().prop_map(|log| {
        let log = Log { transaction: Some(TX), block: Some([1; 32]), removed: false, ..log };
        match payment(&log, TX, &block(), &terms(), &policy()) {
            Some(_) => Log { emitter: Address::new([0x66; 20]), ..log },
            None => log,
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn exactly_the_payments_among_noise_are_found(
        logs in prop::collection::vec(prop_oneof![
            noise().prop_map(|log| (false, log)),
            (PRICE..u128::MAX).prop_map(|units| (true, transfer(0, units))),
        ], 0..24),
    ) {
        let logs: Vec<_> = (0..).zip(logs).map(|(position, (good, log))| (good, Log { position, ..log })).collect();
        let expected: Vec<u32> = logs.iter().filter(|(good, _)| *good).map(|(_, log)| log.position).collect();
        let verdict = verdict(&receipt(logs.into_iter().map(|(_, log)| log).collect()));
        prop_assert_eq!(positions(&verdict), expected.clone());
        if expected.is_empty() {
            prop_assert_eq!(verdict, Verdict::NoTransfer);
        }
    }

    #[test]
    fn arbitrary_receipts_never_panic_and_never_pay_without_a_transfer(
        logs in prop::collection::vec(any_log(), 0..8),
        success in any::<Option<bool>>(),
        mined_in in prop::option::of((98..103_u64, any::<bool>())),
        canonical in prop::option::of((98..103_u64, any::<u64>())),
        confirmed in prop::option::of(98..103_u64),
        head_time in any::<u64>(),
        transaction in prop::bool::weighted(0.9),
    ) {
        let receipt = TxReceipt {
            transaction: if transaction { TX } else { TxHash::new([0; 32]) },
            mined_in: mined_in.map(|(number, same)| MinedIn { number, hash: [u8::from(same); 32] }),
            success,
            logs,
        };
        let canonical = canonical.map(|(number, time)| Block { number, time: ChainTime::from_unix(time), ..block() });
        let tip = Tip { head: Block { time: ChainTime::from_unix(head_time), ..tip().head }, confirmed };
        let verdict = judge_receipt(TX, &receipt, canonical.as_ref(), &tip, &terms(), &policy());
        if let Verdict::Paid { transfers, head } = verdict {
            prop_assert!(!transfers.is_empty() && success == Some(true) && transaction);
            prop_assert_eq!(head.unix(), head_time);
            for paid in transfers {
                let from_log = |log: &&Log| log.position == paid.position && log.emitter == paid.token
                    && log.topics == [TRANSFER_TOPIC, topic(paid.payer), topic(RECIPIENT)]
                    && log.data == paid.amount.to_be_bytes();
                prop_assert!(receipt.logs.iter().any(|log| from_log(&log)));
                prop_assert!(paid.amount >= Amount::from_base_units(PRICE));
                prop_assert!(![Address::ZERO, RECIPIENT, TREASURY].contains(&paid.payer));
                prop_assert!(head_time <= paid.block_time.unix().saturating_add(AGE));
            }
        }
    }
}
