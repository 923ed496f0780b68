//! The test vectors of official clients, and the calls of the official ABI.

use std::slice;

use alloy::primitives::{B256, Log, LogData, Signature, U256, keccak256};

use super::{
    abi::account,
    views::{Holding, Withdrawal},
    *,
};
use crate::protocol::{
    Address, Asset, ChainTime, Network, PaymentSignature, TokenDomain,
    channel::{
        BATCH_SETTLEMENT, ChannelConfig, ChannelDeposit, ChannelId, DepositAuthorization, Erc3009Deposit,
        Permit2Deposit, Voucher, VoucherClaim,
    },
};

const CHAIN: Network = Network::BASE_SEPOLIA;
const VECTOR: &str = "0x96ab9f2f2e9956e705fa4ed0238d1a92a28aa1400766685e754c481db780113b0821b72babda6a7005473b5f92863e9e22ce28e0e88fa3156933ac4bd628e56f1c";
/// The order of the curve.
const ORDER: U256 =
    U256::from_be_bytes(alloy::hex!("fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141"));

fn vector() -> Vec<u8> {
    const_hex::decode(VECTOR).unwrap()
}

fn signer(max_claimable: u128, signature: impl Into<Box<[u8]>>) -> Option<Address> {
    let channel = "0xe94a435ba5c4a651c4c975bc5e2a208275f95d4199785ab0d7fbbf56bc9469ec".parse().unwrap();
    Voucher::new(channel, max_claimable, PaymentSignature::new(signature).unwrap()).signer(CHAIN)
}

#[test]
fn a_voucher_of_official_clients_is_its_signers() {
    let payer = Some("0x70997970C51812dc3A010C7d01b50e0d17dc79C8".parse().unwrap());
    assert_eq!(signer(10_000, vector()), payer);
    assert_ne!(signer(10_001, vector()), payer);
    let channel = "0xe94a435ba5c4a651c4c975bc5e2a208275f95d4199785ab0d7fbbf56bc9469ec".parse().unwrap();
    let voucher = Voucher::new(channel, 10_000, VECTOR.parse().unwrap());
    assert_ne!(voucher.signer(Network::BASE), payer, "on another chain");
}

#[test]
fn what_the_contract_does_not_take_is_nobodys() {
    let signature = Signature::from_raw(&vector()).unwrap();
    assert_eq!(signer(10_000, signature.as_erc2098()), None, "64 bytes");
    let high = Signature::new(signature.r(), ORDER - signature.s(), !signature.v());
    assert_eq!(signer(10_000, high.as_bytes()), None, "a high s");
    for v in (0..=255).filter(|v| ![27, 28].contains(v)) {
        let mut odd = vector();
        odd[64] = v;
        assert_eq!(signer(10_000, odd), None, "v of {v}");
    }
    for length in (1..65).chain(66..70).chain([130, 4_096]) {
        let mut other = vector();
        other.resize(length, 0x1c);
        assert_eq!(signer(10_000, other), None, "{length} bytes");
    }
    assert_eq!(signer(10_000, [&[0; 64][..], &[27]].concat()), None, "zeros");
}

const CONFIG: &str = "(address,address,address,address,address,uint40,bytes32)";

fn config() -> ChannelConfig {
    let payer = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8".parse().unwrap();
    ChannelConfig::new(payer, Address::new([2; 20]), Asset::USDC_BASE_SEPOLIA.contract()).with_salt([3; 32])
}

fn signature(bytes: &[u8]) -> PaymentSignature {
    PaymentSignature::new(bytes).unwrap()
}

fn by_erc3009(bytes: &[u8]) -> ChannelDeposit {
    let [never, end] = [0, 1_893_456_000].map(ChainTime::from_unix);
    ChannelDeposit::new(100_000, Erc3009Deposit::new([7; 32], [never, end], signature(bytes)))
}

fn by_permit2() -> ChannelDeposit {
    let channel = config();
    let mut deposit = by_erc3009(&[9; 65]);
    deposit.authorization = DepositAuthorization::Permit2(Permit2Deposit::new(
        &channel,
        (channel.id(CHAIN), deposit.amount),
        [0x42; 32],
        ChainTime::from_unix(1_893_456_000),
        signature(&[9; 65]),
    ));
    deposit
}

#[test]
fn calls_are_those_of_the_contract() {
    let row = format!("(({CONFIG},uint128),bytes,uint128)");
    let id = ChannelId::new([7; 32]);
    let claimed = VoucherClaim::new(config(), Voucher::new(id, 9, signature(&[9; 65])), 8);
    let none = Address::ZERO;
    for (function, call) in [
        (format!("deposit({CONFIG},uint128,address,bytes)"), deposit(&config(), &by_erc3009(&[9; 65]), None, CHAIN)),
        (format!("deposit({CONFIG},uint128,address,bytes)"), deposit(&config(), &by_permit2(), None, CHAIN)),
        (format!("claimWithSignature({row}[],bytes)"), claim(slice::from_ref(&claimed), &[1; 65])),
        (format!("claim({row}[])"), claim_directly(&[claimed])),
        ("settle(address,address)".to_owned(), settle(none, none)),
        (format!("refundWithSignature({CONFIG},uint128,uint256,bytes)"), refund(&config(), 1, 2, &[3; 65])),
        ("multicall(bytes[])".to_owned(), multicall([settle(none, none)])),
        ("channels(bytes32)".to_owned(), channels(id)),
        ("pendingWithdrawals(bytes32)".to_owned(), pending_withdrawals(id)),
        ("refundNonce(bytes32)".to_owned(), refund_nonce(id)),
        ("receivers(address,address)".to_owned(), receivers(none, none)),
    ] {
        assert_eq!(call[..4], keccak256(&function)[..4], "{function}");
    }
}

/// Made by viem.
const DEPOSIT: &str = "9b1bd33996c730ae8105ae4c45e07ad20117561a1baa9bc5ebfe4670674bbba615052303b02ecd555142f83f50950bcd842dab8068ce54272181e75f2b43d2ab1c";

#[test]
fn only_a_plain_accounts_v_is_rewritten() {
    let usdc = TokenDomain::usdc_of(CHAIN).unwrap();
    let authorizer = "0x90F79bf6EB2c4f870365E785982E1f101E93b906".parse().unwrap();
    let receiver = "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC".parse().unwrap();
    let config = ChannelConfig::new(config().payer, receiver, usdc.token).with_receiver_authorizer(authorizer);
    let usual = const_hex::decode(DEPOSIT).unwrap();
    let mut from_zero = usual.clone();
    from_zero[64] = 1;
    let of = |bytes: &[u8], domain| deposit(&config, &by_erc3009(bytes), domain, CHAIN);
    for bytes in [&usual, &from_zero] {
        assert_eq!(deposit_signer(&config, &by_erc3009(bytes), Some(&usdc), CHAIN), Some(config.payer));
        assert_eq!(of(bytes, Some(&usdc)), of(&usual, None));
    }
    // Without the domain the signer is unknown. A contract account checks its signatures itself.
    assert_eq!(deposit_signer(&config, &by_erc3009(&usual), None, CHAIN), None);
    assert_ne!(of(&from_zero, None), of(&usual, None));
    let foreign = [&[7; 64][..], &[1]].concat();
    assert_eq!(of(&foreign, Some(&usdc)), of(&foreign, None));
    assert_ne!(deposit_signer(&config, &by_permit2(), None, CHAIN), Some(config.payer));
}

#[test]
fn answers_are_read_strictly() {
    let words = |numbers: &[u128]| {
        numbers.iter().flat_map(|number| U256::from(*number).to_be_bytes::<32>()).collect::<Vec<_>>()
    };
    let two = words(&[u128::MAX, 7]);
    assert_eq!(read_channel(&two), Some(Holding { balance: u128::MAX, total_claimed: 7 }));
    assert_eq!(read_withdrawal(&two), Some(Withdrawal { amount: u128::MAX, initiated_at: 7 }));
    assert_eq!(read_due(&two), Some(Due { total_claimed: u128::MAX, total_settled: 7 }));
    assert_eq!(read_refund_nonce(&words(&[7])), Some(7));
    for length in [0, 31, 32, 63, 65, 96] {
        let other = vec![0; length];
        assert_eq!((read_channel(&other), read_withdrawal(&other), read_due(&other)), (None, None, None), "{length}");
    }
    for length in [0, 31, 33, 64] {
        assert_eq!(read_refund_nonce(&vec![0; length]), None, "{length}");
    }
    // The values exceed the contract's number types.
    assert_eq!((read_channel(&[0xff; 64]), read_withdrawal(&[0xff; 64]), read_due(&[0xff; 64])), (None, None, None));
    assert_eq!(read_refund_nonce(&words(&[u128::MAX])), None);
}

#[test]
fn only_the_contracts_own_events_are_read() {
    let log = |contract: Address, topics: Vec<B256>, data: Vec<u8>| Log {
        address: account(contract),
        data: LogData::new_unchecked(topics, data.into()),
    };
    let [id, sender] = [B256::repeat_byte(7), account(Address::new([9; 20])).into_word()];
    let claimed = keccak256("Claimed(bytes32,address,uint128,uint128)");
    let data = [U256::from(3), U256::from(10)].map(|number| number.to_be_bytes::<32>()).concat();
    let event = ChannelEvent::Claimed { channel: ChannelId::new([7; 32]), amount: 3, total: 10 };
    assert_eq!(read_event(&log(BATCH_SETTLEMENT, vec![claimed, id, sender], data.clone())), Some(event));
    for other in [
        log(Address::new([1; 20]), vec![claimed, id, sender], data.clone()),
        log(BATCH_SETTLEMENT, vec![claimed, id], data.clone()),
        log(BATCH_SETTLEMENT, vec![keccak256("Claimed()"), id, sender], data.clone()),
        log(BATCH_SETTLEMENT, vec![], data.clone()),
        log(BATCH_SETTLEMENT, vec![claimed, id, sender], data[..32].to_vec()),
    ] {
        assert_eq!(read_event(&other), None, "{other:?}");
    }
}
