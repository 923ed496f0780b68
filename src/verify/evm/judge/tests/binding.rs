//! The binding of each transfer: by its payer's own call data, by an authorization's nonce, or none.

use super::*;
use crate::protocol::{PaymentId, PaymentTag, ProvedBy};

const RELAY: Address = Address::new([0xdd; 20]);
const OTHER: Address = Address::new([0xee; 20]);
const NONCE: [u8; 32] = [0x4e; 32];

fn tag(secret: &str) -> PaymentTag {
    PaymentTag::of(secret)
}

/// `transfer(address,uint256)` with its arguments.
fn call() -> Vec<u8> {
    [&[0xa9, 0x05, 0x9c, 0xbb][..], &topic(RECIPIENT), &word(PRICE)].concat()
}

/// An ERC-8021 suffix: codes, their length, the schema, and sixteen bytes that mark it.
fn suffix() -> Vec<u8> {
    [&b"baseapp"[..], &[7, 0], &[0x80, 0x21].repeat(8)].concat()
}

/// The payer's `AuthorizationUsed` log at this position.
fn authorization_at(position: u32, payer: Address, nonce: [u8; 32]) -> Log {
    Log { topics: vec![AUTHORIZATION_USED_TOPIC, topic(payer), nonce], data: Vec::new(), ..transfer(position, 0) }
}

fn transfer_of(position: u32, payer: Address) -> Log {
    Log { topics: vec![TRANSFER_TOPIC, topic(payer), topic(RECIPIENT)], ..transfer(position, PRICE) }
}

/// The transfers of a transaction with this sender and input.
fn judged(sender: Address, input: &[u8], logs: Vec<Log>) -> Vec<Transfer> {
    let call_data = Some(Arc::from(input)).filter(|input: &Arc<[u8]>| input.get(4..).is_some_and(PaymentTag::any_in));
    let record = TxRecord { receipt: receipt(logs), transaction: Transaction { sender, call_data, permit: None } };
    match judge(TX, &record, Some(&block()), &tip(), &terms(), &policy()) {
        Verdict::Paid { transfers, .. } => transfers,
        other => panic!("{other:?}"),
    }
}

/// The binding of the only transfer of such a transaction.
fn binding(sender: Address, input: &[u8]) -> Binding {
    let transfers = judged(sender, input, vec![transfer(0, PRICE)]);
    assert_eq!(transfers.len(), 1);
    transfers.into_iter().next().unwrap().binding
}

#[test]
fn a_tag_counts_at_every_offset_behind_the_selector() {
    let tail = tag("mine").to_call_data();
    for offset in 0..200 {
        let filled = [vec![0x11; offset], tail.to_vec(), vec![0x22; 9]].concat();
        let bound = binding(PAYER, &filled);
        assert_eq!(bound.has_tag(&tag("mine")), offset >= 4, "{offset}");
        assert!(!bound.has_tag(&tag("another")), "{offset}");
        assert_eq!(bound.is_bound(), offset >= 4, "{offset}");
    }
}

#[test]
fn a_tag_is_what_is_behind_its_mark_whole() {
    let (mine, other, suffix) = (tag("mine").to_call_data(), tag("another").to_call_data(), suffix());
    type Case<'a> = (&'a str, Vec<&'a [u8]>, bool, bool);
    let call = call();
    // Whether the transfer is bound at all, and whether to `mine`.
    let cases: [Case<'_>; 12] = [
        ("no tag", vec![&call], false, false),
        ("a suffix alone", vec![&call, &suffix], false, false),
        ("behind the arguments", vec![&call, &mine], true, true),
        ("before a suffix", vec![&call, &mine, &suffix], true, true),
        ("behind a suffix", vec![&call, &suffix, &mine], true, true),
        ("a byte short", vec![&call, &mine[..35]], false, false),
        ("the mark alone", vec![&call, &mine[..4]], false, false),
        ("without the mark", vec![&call, &mine[4..]], false, false),
        ("cut short by a suffix", vec![&call, &mine[..30], &suffix], true, false),
        ("another's", vec![&call, &other], true, false),
        ("another's before", vec![&call, &other, &mine], true, true),
        ("another's behind", vec![&call, &mine, &other], true, true),
    ];
    for (what, parts, bound, to_mine) in cases {
        let binding = binding(PAYER, &parts.concat());
        assert_eq!((binding.is_bound(), binding.has_tag(&tag("mine"))), (bound, to_mine), "{what}");
    }
    let both = binding(PAYER, &[&call[..], &mine, &other].concat());
    assert!(both.has_tag(&tag("mine")) && both.has_tag(&tag("another")), "either opens it");
}

#[test]
fn a_tag_counts_only_in_a_transaction_of_the_payers_own() {
    let input = [call(), tag("mine").to_call_data().to_vec()].concat();
    assert!(binding(PAYER, &input).has_tag(&tag("mine")));
    for sender in [RELAY, RECIPIENT, Address::ZERO, Asset::USDC_BASE.contract()] {
        assert_eq!(binding(sender, &input), Binding::none(), "{sender}");
    }
    // A bundle: its sender has signed for its own transfer and for no other.
    let bundle = judged(PAYER, &input, vec![transfer_of(0, OTHER), transfer_of(1, PAYER), transfer_of(2, RELAY)]);
    let bound: Vec<_> = bundle.iter().map(|transfer| transfer.binding.has_tag(&tag("mine"))).collect();
    assert_eq!(bound, [false, true, false]);
    assert!(bundle.iter().all(|transfer| transfer.binding.is_bound() == (transfer.payer == PAYER)));
}

#[test]
fn a_tag_counts_in_a_transaction_that_creates_a_contract() {
    // The new contract pays with an allowance of its creator, who has signed the whole input.
    let input = [vec![0x60, 0x80, 0x60, 0x40, 0x52, 0xfe], tag("mine").to_call_data().to_vec()].concat();
    assert!(binding(PAYER, &input).has_tag(&tag("mine")));
    assert_eq!(binding(OTHER, &input), Binding::none());
}

/// The nonce that binds the last transfer of a relay's transaction.
fn nonce_of(logs: Vec<Log>) -> Option<[u8; 32]> {
    judged(RELAY, &call(), logs).last().unwrap().binding.nonce().copied()
}

#[test]
fn a_nonce_counts_only_directly_before_its_transfer() {
    let used = |position| authorization_at(position, PAYER, NONCE);
    let changed = |change: fn(&mut Log)| {
        let mut log = used(0);
        change(&mut log);
        vec![log, transfer(1, PRICE)]
    };
    let cancelled = alloy::primitives::keccak256("AuthorizationCanceled(address,bytes32)").0;
    assert_eq!(AUTHORIZATION_USED_TOPIC, alloy::primitives::keccak256("AuthorizationUsed(address,bytes32)").0);
    let cases = [
        ("directly before", vec![used(0), transfer(1, PRICE)], Some(NONCE)),
        ("in the middle of a receipt", vec![transfer(7, 1), used(8), transfer(9, PRICE)], Some(NONCE)),
        ("none", vec![transfer(0, PRICE)], None),
        ("behind", vec![transfer(0, PRICE), used(1)], None),
        ("with a log between that is no transfer", vec![used(0), transfer(2, PRICE)], None),
        ("with a transfer between", vec![used(0), transfer_of(1, OTHER), transfer(2, PRICE)], None),
        ("two in a row", vec![authorization_at(0, PAYER, [1; 32]), used(1), transfer(2, PRICE)], Some(NONCE)),
        ("of another payer", vec![authorization_at(0, OTHER, NONCE), transfer(1, PRICE)], None),
        ("of another token", changed(|log| log.emitter = Asset::USDBC_BASE.contract()), None),
        ("with data", changed(|log| log.data = vec![0; 32]), None),
        ("without a nonce", changed(|log| log.topics.truncate(2)), None),
        ("with a topic more", changed(|log| log.topics.push([0; 32])), None),
        ("a dirty payer", changed(|log| log.topics[1][3] = 1), None),
    ];
    for (what, logs, nonce) in cases {
        assert_eq!(nonce_of(logs), nonce, "{what}");
    }
    let mut no_use = used(0);
    no_use.topics[0] = cancelled;
    assert_eq!(nonce_of(vec![no_use, transfer(1, PRICE)]), None, "cancelled");
}

#[test]
fn a_transfer_made_from_an_authorization_is_named_by_it() {
    let logs = vec![
        authorization_at(0, PAYER, NONCE),
        transfer_of(1, PAYER),
        transfer_of(2, PAYER),
        authorization_at(3, OTHER, NONCE),
        transfer_of(4, OTHER),
    ];
    let token = Asset::USDC_BASE.contract();
    let ids: Vec<_> = judged(RELAY, &call(), logs).iter().map(Transfer::payment_id).collect();
    let by_nonce = |payer| PaymentId::of_authorization(Network::BASE, token, payer, NONCE);
    assert_eq!(ids, [by_nonce(PAYER), PaymentId::of_transfer(Network::BASE, TX, 2), by_nonce(OTHER)]);
}

#[test]
fn the_payers_own_transaction_can_bind_in_both_ways() {
    let input = [call(), tag("mine").to_call_data().to_vec()].concat();
    let logs = vec![authorization_at(0, PAYER, *tag("other").as_bytes()), transfer(1, PRICE)];
    let binding = &judged(PAYER, &input, logs)[0].binding;
    assert!(binding.has_tag(&tag("mine")) && binding.has_nonce(&tag("other")));
    assert_eq!(format!("{binding:?}"), format!("{{{:?}, {:?}}}", ProvedBy::Nonce, ProvedBy::Tag));
}

/// A log of this receipt about an authorization or a transfer, of few tokens and few payers.
fn any_step() -> impl Strategy<Value = Log> {
    let payer = prop_oneof![Just(PAYER), Just(OTHER)];
    let emitter = prop_oneof![3 => Just(Asset::USDC_BASE.contract()), 1 => Just(Asset::USDBC_BASE.contract())];
    (payer, emitter, any::<u8>(), 0..3_u8, prop::bool::weighted(0.1)).prop_map(
        |(payer, emitter, nonce, kind, other)| {
            let log = match kind {
                0 => transfer_of(0, payer),
                _ => authorization_at(0, payer, [nonce; 32]),
            };
            let topics = if other { vec![[9; 32]] } else { log.topics.clone() };
            Log { emitter, topics, ..log }
        },
    )
}

/// The nonce in the log directly before this one, if both have the same token and payer. Computed independently, from
/// the list.
fn authorized_before(logs: &[Log], log: &Log) -> Option<[u8; 32]> {
    let before = logs.iter().find(|before| before.position.checked_add(1) == Some(log.position))?;
    let same = before.emitter == log.emitter && before.topics.get(1) == log.topics.get(1);
    (same && before.topics.len() == 3 && before.topics[0] == AUTHORIZATION_USED_TOPIC).then(|| before.topics[2])
}

/// Drops some of the logs that are neither transfers nor directly before one.
fn thinned(logs: &[Log], kept: &[bool]) -> Vec<Log> {
    let is_transfer = |log: &&Log| log.topics[0] == TRANSFER_TOPIC;
    let leads = |log: &Log| logs.iter().filter(is_transfer).any(|transfer| transfer.position == log.position + 1);
    let is_kept = |log: &Log| kept.get(log.position as usize).is_some_and(|kept| *kept);
    logs.iter().filter(|log| is_transfer(log) || leads(log) || is_kept(log)).cloned().collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_transfer_is_bound_by_what_is_its_own_and_by_nothing_else(
        steps in prop::collection::vec(any_step(), 0..16),
        sender in prop_oneof![Just(PAYER), Just(OTHER), Just(RELAY)],
        before in prop::collection::vec(any::<u8>(), 4..80),
        behind in prop::collection::vec(any::<u8>(), 0..80),
        tagged in any::<bool>(),
        kept in prop::collection::vec(any::<bool>(), 16),
    ) {
        let logs = (0..).zip(steps).map(|(position, log)| Log { position, ..log });
        let logs: Vec<_> = logs.chain([transfer_of(99, PAYER)]).collect();
        let mine = tag("mine");
        let tail = if tagged { mine.to_call_data().to_vec() } else { Vec::new() };
        let input = [&before[..], &tail, &behind].concat();
        for transfer in judged(sender, &input, logs.clone()) {
            let log = logs.iter().find(|log| log.position == transfer.position).unwrap();
            let nonce = authorized_before(&logs, log);
            prop_assert_eq!(transfer.binding.nonce().copied(), nonce);
            prop_assert_eq!(transfer.binding.has_tag(&mine), tagged && transfer.payer == sender);
            if transfer.payer != sender {
                prop_assert_eq!(transfer.binding.is_bound(), nonce.is_some());
            }
        }
        prop_assert_eq!(judged(sender, &input, logs.clone()), judged(sender, &input, thinned(&logs, &kept)));
    }

    #[test]
    fn no_input_without_the_tag_is_bound_to_it(
        input in prop::collection::vec(prop_oneof![4 => prop::sample::select(&b"x402"[..]), 1 => any::<u8>()], 0..120),
    ) {
        prop_assert!(!binding(PAYER, &input).has_tag(&tag("mine")));
    }
}
