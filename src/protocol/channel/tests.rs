//! The constants and vectors of the standard's contracts and clients.

use super::{
    eip712::{
        CLAIM_TYPE, CLAIMS_TYPE, CONFIG_TYPE, DOMAIN_TYPE, NAME, PERMIT_TYPE, RECEIVE_TYPE, REFUND_TYPE, VERSION,
        VOUCHER_TYPE, WITNESS_TYPE, domain_separator,
    },
    *,
};
use crate::protocol::{
    Amount, Asset, ChainTime, IntentKey, Network, Payment, PaymentId, PaymentSignature, TokenDomain, keccak::keccak256,
};

const CHAIN: Network = Network::BASE_SEPOLIA;
const ID: &str = "0xe94a435ba5c4a651c4c975bc5e2a208275f95d4199785ab0d7fbbf56bc9469ec";
/// The signature of a voucher over 10,000 units.
const SIGNATURE: &str = "0x96ab9f2f2e9956e705fa4ed0238d1a92a28aa1400766685e754c481db780113b0821b72babda6a7005473b5f92863e9e22ce28e0e88fa3156933ac4bd628e56f1c";

/// The official clients' channel.
fn config() -> ChannelConfig {
    let [payer, receiver, authorizer] = [
        "0x70997970C51812dc3A010C7d01b50e0d17dc79C8",
        "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC",
        "0x90F79bf6EB2c4f870365E785982E1f101E93b906",
    ]
    .map(|address| address.parse().unwrap());
    ChannelConfig::new(payer, receiver, Asset::USDC_BASE_SEPOLIA.contract()).with_receiver_authorizer(authorizer)
}

fn voucher(max_claimable: u128) -> Voucher {
    Voucher::new(ID.parse().unwrap(), max_claimable, SIGNATURE.parse().unwrap())
}

fn signature() -> PaymentSignature {
    PaymentSignature::new([7; 65]).unwrap()
}

fn hex(bytes: &[u8]) -> String {
    const_hex::encode_prefixed(bytes)
}

#[test]
fn contracts_have_the_official_addresses() {
    for (address, official) in [
        (BATCH_SETTLEMENT, "0x4020074e9dF2ce1deE5A9C1b5c3f541D02a10003"),
        (ERC3009_COLLECTOR, "0x4020806089470a89826cB9fB1f4059150b550004"),
        (PERMIT2_COLLECTOR, "0x4020425FAf3B746C082C2f942b4E5159887B0005"),
    ] {
        assert_eq!(address.to_string(), official);
    }
}

#[test]
fn type_hashes_are_hashes_of_the_types() {
    let claim = "ClaimEntry(bytes32 channelId,uint128 maxClaimableAmount,uint128 totalClaimed)";
    let claims = format!("ClaimBatch(ClaimEntry[] claims){claim}");
    for (hash, text) in [
        (DOMAIN_TYPE, "EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"),
        (NAME, "x402 Batch Settlement"),
        (VERSION, "1"),
        (
            CONFIG_TYPE,
            "ChannelConfig(address payer,address payerAuthorizer,address receiver,address receiverAuthorizer,address token,uint40 withdrawDelay,bytes32 salt)",
        ),
        (VOUCHER_TYPE, "Voucher(bytes32 channelId,uint128 maxClaimableAmount)"),
        (REFUND_TYPE, "Refund(bytes32 channelId,uint256 nonce,uint128 amount)"),
        (CLAIM_TYPE, claim),
        (CLAIMS_TYPE, &claims),
        (
            RECEIVE_TYPE,
            "ReceiveWithAuthorization(address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce)",
        ),
        (WITNESS_TYPE, "DepositWitness(bytes32 channelId)"),
        (
            PERMIT_TYPE,
            "PermitWitnessTransferFrom(TokenPermissions permitted,address spender,uint256 nonce,uint256 deadline,DepositWitness witness)DepositWitness(bytes32 channelId)TokenPermissions(address token,uint256 amount)",
        ),
    ] {
        assert_eq!(hex(&hash), hex(&keccak256(&[text.as_bytes()])), "{text}");
    }
}

#[test]
fn domains_are_those_of_the_deployed_contract() {
    for (network, separator) in [
        (Network::BASE, "0xd8d982716899b0e20cf2c1e706a37b8a892c83fdd4ac9b540cfeec11f9c73a39"),
        (Network::BASE_SEPOLIA, "0xfdef80764086b1e0fc6ba99f0cb9aa1d59109fda7c23d60334c89d2de44dffce"),
    ] {
        assert_eq!(hex(&domain_separator(network)), separator, "{network}");
    }
}

#[test]
fn digests_are_those_of_the_official_contract() {
    let id = config().id(CHAIN);
    assert_eq!(id.to_string(), ID);
    let voucher = voucher(10_000);
    let digest = "0x0b2a2af5cb785c1e906b44248711577077a90b21fdf93105c3a423762c942d9f";
    assert_eq!([voucher.digest(CHAIN), id.voucher_digest(10_000, CHAIN)].map(|hash| hex(&hash)), [digest, digest]);
    let refund = "0xee23aecaac138e6b69d32c98d88a2782b629a370fe34a8bde1a5ef841b828eca";
    assert_eq!(hex(&id.refund_digest(0, 90_000, CHAIN)), refund);
    let claim = VoucherClaim::new(config(), voucher, 7_000);
    let batch = "0x38a4c9279a4fc015d05b5f600331ed06bf81a6dd1b3e2c35d191d173d734f133";
    assert_eq!(hex(&claim_digest(&[claim], CHAIN)), batch);
    let nonce = "0x5963e6b27f71943d743d08c65e3bd6ee41e0e44fce729c4285eb36375b213ef3";
    assert_eq!(hex(&id.deposit_nonce(&[7; 32])), nonce);
}

/// Created by viem from the official types.
#[test]
fn digests_of_deposits_are_those_of_official_clients() {
    let [never, end] = [0, 1_893_456_000].map(ChainTime::from_unix);
    let by_erc3009 = Erc3009Deposit::new([7; 32], [never, end], signature());
    let usdc = TokenDomain::usdc_of(CHAIN).unwrap();
    let digest = "0x93fd7d4816cc545b2e1187147145ee142fe07da9e98732f7391deea474240ba5";
    assert_eq!(hex(&by_erc3009.digest(&config(), 100_000, &usdc, CHAIN)), digest);
    let by_permit2 = Permit2Deposit {
        from: config().payer,
        token: config().token,
        amount: 100_000,
        spender: PERMIT2_COLLECTOR,
        nonce: [0x42; 32],
        deadline: end,
        channel: config().id(CHAIN),
        signature: signature(),
    };
    let digest = "0x9588dbb1b7eb1df539310a44ce779a9a9ace5c6d39dc0fde36f419488ec62d81";
    assert_eq!(hex(&by_permit2.digest(CHAIN)), digest);
    let collectors = [ChannelDeposit::new(1, by_erc3009), ChannelDeposit::new(1, by_permit2)].map(|of| of.collector());
    assert_eq!(collectors, [ERC3009_COLLECTOR, PERMIT2_COLLECTOR]);
}

#[test]
fn every_field_and_the_chain_make_another_channel() {
    let channel = config();
    let other = Address::new([9; 20]);
    for changed in [
        ChannelConfig { payer: other, ..channel },
        channel.with_payer_authorizer(other),
        ChannelConfig { receiver: other, ..channel },
        channel.with_receiver_authorizer(other),
        ChannelConfig { token: other, ..channel },
        channel.with_withdraw_delay(901),
        channel.with_salt([1; 32]),
    ] {
        assert_ne!(changed.id(CHAIN), channel.id(CHAIN), "{changed:?}");
        assert_ne!(changed.id(CHAIN).account_bytes(CHAIN), channel.id(CHAIN).account_bytes(CHAIN));
    }
    assert_ne!(channel.id(Network::BASE), channel.id(CHAIN));
    let id = channel.id(CHAIN);
    assert_ne!(id.account_bytes(Network::BASE), id.account_bytes(CHAIN));
    for changed in [id.voucher_digest(10_001, CHAIN), id.voucher_digest(10_000, Network::BASE)] {
        assert_ne!(changed, id.voucher_digest(10_000, CHAIN));
    }
    for changed in [id.refund_digest(1, 5, CHAIN), id.refund_digest(0, 6, CHAIN), id.refund_digest(0, 5, Network::BASE)]
    {
        assert_ne!(changed, id.refund_digest(0, 5, CHAIN));
    }
}

#[test]
fn claims_are_signed_in_their_order_with_both_totals() {
    let other = ChannelConfig { payer: Address::new([9; 20]), ..config() };
    let claim = |config: ChannelConfig, most, total| {
        VoucherClaim::new(config, Voucher::new(config.id(CHAIN), most, signature()), total)
    };
    let [first, second] = [claim(config(), 9, 8), claim(other, 7, 7)];
    let signed = claim_digest(&[first.clone(), second.clone()], CHAIN);
    for changed in [
        vec![second.clone(), first.clone()],
        vec![first.clone()],
        vec![first.clone(), second.clone(), second.clone()],
        vec![claim(config(), 10, 8), second.clone()],
        vec![claim(config(), 9, 9), second],
    ] {
        assert_ne!(claim_digest(&changed, CHAIN), signed, "{changed:?}");
    }
}

#[test]
fn a_voucher_without_a_key_is_for_the_payers_account() {
    assert_eq!(config().voucher_key(), Some(config().payer));
    assert_eq!(config().with_payer_authorizer(Address::ZERO).voucher_key(), None);
}

#[test]
fn a_payment_is_named_by_channel_total_and_intent() {
    let [one, two] = [[1; 16], [2; 16]].map(IntentKey::new);
    let paid = VoucherPayment::new(CHAIN, &config(), 10_000, one);
    let priced = paid.clone().with_amount(Amount::from_base_units(5)).with_shown(ChainTime::from_unix(7));
    assert_eq!(Payment::from(priced.clone()).id(), paid.payment_id(), "whatever it costs, and whenever it was shown");
    for other in [
        VoucherPayment::new(CHAIN, &config(), 10_000, two),
        VoucherPayment::new(CHAIN, &config(), 10_001, one),
        VoucherPayment::new(CHAIN, &config().with_salt([1; 32]), 10_000, one),
        VoucherPayment::new(Network::BASE, &config(), 10_000, one),
    ] {
        assert_ne!(other.payment_id(), paid.payment_id(), "{other:?}");
    }
    let text = paid.payment_id().to_string();
    assert!(text.starts_with(&format!("eip155:84532/{BATCH_SETTLEMENT:x}/{:x}/0x", config().payer)), "{text}");
    assert_eq!(text.parse(), Ok(paid.payment_id()));
    assert_ne!(paid.payment_id(), PaymentId::of_authorization(CHAIN, paid.token, paid.payer, *paid.nonce()));

    let payment = Payment::from(priced);
    assert_eq!((payment.transaction(), payment.position(), payment.block_number()), (None, None, None));
    assert_eq!([payment.payer(), payment.token(), payment.recipient()], [paid.payer, paid.token, config().receiver]);
    assert_eq!((payment.amount(), payment.time()), (Amount::from_base_units(5), ChainTime::from_unix(7)));
    assert_eq!((payment.network(), payment.nonce()), (CHAIN, Some(paid.nonce())));
    assert_eq!(payment.charged(Amount::ZERO).amount(), Amount::ZERO);
}
