use alloy::{
    hex,
    primitives::{B256, Signature, U256, keccak256},
    signers::{SignerSync as _, local::PrivateKeySigner},
};
use proptest::prelude::*;

use super::*;
use crate::protocol::{
    Address, Amount, ChainTime, Network, PaymentSignature, TokenDomain,
    v2::{Authorization, SignedAuthorization},
};

/// The second account of every anvil.
const PAYER: &str = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8";
const KEY: B256 = B256::new(hex!("59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d"));
const DIGEST: [u8; 32] = hex!("f27020f9b2e9125afbd1daa24e6c0831883772180b9506c57f715ee13949b8d1");
const SIGNATURE: &str = "0x00a85e971266610be8a13b6aac294f29cd7461c1ae62fbc22f974c43b4ab2b1128016c5fd66fc9073ff0bf79f558194eaf294d0b68db9a54807c79cf4cc54cb91c";
/// The order of the curve.
const ORDER: U256 = U256::from_be_bytes(hex!("fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141"));

fn payer() -> Address {
    PAYER.parse().unwrap()
}

fn domain() -> TokenDomain {
    TokenDomain::usdc_of(Network::BASE_SEPOLIA).unwrap()
}

fn authorization() -> Authorization {
    Authorization::new(payer(), [0x42; 32])
        .paying("0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC".parse().unwrap(), Amount::from_base_units(10_000))
        .valid_between(ChainTime::from_unix(0), ChainTime::from_unix(1_893_456_000))
}

fn signed(signature: &[u8]) -> SignedAuthorization {
    SignedAuthorization::new(authorization(), PaymentSignature::new(signature).unwrap())
}

fn vector() -> Vec<u8> {
    hex::decode(SIGNATURE).unwrap()
}

fn recovered(signature: &[u8]) -> Option<Address> {
    signer(&signed(signature), &domain(), Network::BASE_SEPOLIA)
}

#[test]
fn domains_are_those_that_the_contracts_state() {
    for (network, separator) in [
        (Network::BASE, hex!("02fa7265e7c5d81118673727957699e4d68f74cd74b7db77da710fe8a2c7834f")),
        (Network::BASE_SEPOLIA, hex!("71f17a3b2ff373b803d70a5a07c046c1a2bc8e89c09ef722fcb047abe94c9818")),
    ] {
        assert_eq!(domain_separator(&TokenDomain::usdc_of(network).unwrap(), network), separator, "{network}");
    }
}

#[test]
fn the_digest_and_the_signature_are_those_of_official_clients() {
    let digest = digest(&authorization(), &domain(), Network::BASE_SEPOLIA);
    assert_eq!(digest.0, DIGEST);
    let key = PrivateKeySigner::from_bytes(&KEY).unwrap();
    assert_eq!(key.sign_hash_sync(&digest).unwrap().as_bytes()[..], vector());
    assert_eq!(recovered(&vector()), Some(payer()));
}

/// Follows the text of EIP-712, without derived code.
#[test]
fn digests_are_made_of_the_types_of_eip_3009() {
    let pad = |address: Address| [&[0; 12][..], address.as_bytes()].concat();
    let number = |number: u64| [&[0; 24][..], &number.to_be_bytes()].concat();
    let of = |kind: &str, members: &[Vec<u8>]| {
        let message = keccak256([&keccak256(kind)[..], &members.concat()].concat());
        let separator = domain_separator(&domain(), Network::BASE_SEPOLIA);
        keccak256([&[0x19, 0x01][..], &separator, &message[..]].concat())
    };
    let kind = "TransferWithAuthorization(address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce)";
    assert_eq!(keccak256(kind).0, hex!("7c7c6cdb67a18743f49ec6fa9b35f50d52ed05cbed4cc592e13b44501c1a2267"));
    let a = authorization();
    let members = [
        pad(a.from),
        pad(a.to),
        a.value.to_be_bytes().to_vec(),
        number(a.valid_after.unix()),
        number(a.valid_before.unix()),
        a.nonce.to_vec(),
    ];
    assert_eq!(digest(&a, &domain(), Network::BASE_SEPOLIA), of(kind, &members));
    let cancelled = of("CancelAuthorization(address authorizer,bytes32 nonce)", &[pad(a.from), a.nonce.to_vec()]);
    assert_eq!(cancel_digest(a.from, &a.nonce, &domain(), Network::BASE_SEPOLIA), cancelled);
}

#[test]
fn only_65_bytes_with_a_low_s_are_a_plain_accounts() {
    let vector = vector();
    let mut from_zero = vector.clone();
    from_zero[64] -= 27;
    assert_eq!(recovered(&from_zero), Some(payer()));
    let signature = Signature::from_raw(&vector).unwrap();
    assert_eq!(recovered(&signature.as_erc2098()), None, "tokens do not take EIP-2098");
    let high = Signature::new(signature.r(), ORDER - signature.s(), !signature.v());
    assert_eq!(recovered(&high.as_bytes()), None, "malleable");
    for v in (0..=255).filter(|v| ![0, 1, 27, 28].contains(v)) {
        let mut odd = vector.clone();
        odd[64] = v;
        assert_eq!(recovered(&odd), None, "v of {v}");
    }
    for length in (1..65).chain([66, 97, 4_096]) {
        let mut other = vector.clone();
        other.resize(length, 0x1c);
        assert_eq!(recovered(&other), None, "{length} bytes");
    }
}

#[test]
fn calls_are_those_of_eip_3009() {
    let terms = "address,address,uint256,uint256,uint256,bytes32";
    let call = |signature: &[u8]| transfer(&signed(signature), &domain(), Network::BASE_SEPOLIA);
    let usual = call(&vector());
    assert_eq!(usual[..4], keccak256(format!("transferWithAuthorization({terms},uint8,bytes32,bytes32)"))[..4]);
    let a = authorization();
    let words: Vec<_> = usual[4..].chunks(32).collect();
    assert_eq!((words.len(), &words[0][12..], &words[1][12..]), (9, &a.from.as_bytes()[..], &a.to.as_bytes()[..]));
    assert_eq!((words[2], words[5]), (&a.value.to_be_bytes()[..], &a.nonce[..]));
    assert_eq!(
        words[3..5].iter().map(|word| U256::from_be_slice(word)).collect::<Vec<_>>(),
        [0, 1_893_456_000].map(U256::from)
    );
    assert_eq!((words[6][31], words[7], words[8]), (28, &vector()[..32], &vector()[32..64]));

    let by_contract = call(&[9; 100]);
    assert_eq!(by_contract[..4], keccak256(format!("transferWithAuthorization({terms},bytes)"))[..4]);
    assert_eq!(by_contract[4..196], usual[4..196], "the same terms");
    assert_eq!((by_contract[227], by_contract[259], &by_contract[260..360]), (224, 100, &[9; 100][..]));

    for (signature, call) in [
        ("authorizationState(address,bytes32)", authorization_state(payer(), &a.nonce)),
        ("cancelAuthorization(address,bytes32,uint8,bytes32,bytes32)", cancel(payer(), &a.nonce, &vector()).unwrap()),
        ("name()", name()),
        ("version()", version()),
        ("DOMAIN_SEPARATOR()", domain_separator_call()),
    ] {
        assert_eq!(call[..4], keccak256(signature)[..4], "{signature}");
    }
    assert_eq!(cancel(payer(), &a.nonce, &[1; 64]), None);
    assert_eq!(AUTHORIZATION_USED_TOPIC, keccak256("AuthorizationUsed(address,bytes32)").0);
    assert_eq!(AUTHORIZATION_CANCELED_TOPIC, keccak256("AuthorizationCanceled(address,bytes32)").0);
}

#[test]
fn only_a_plain_accounts_v_is_rewritten() {
    let v = |signature: &[u8]| transfer(&signed(signature), &domain(), Network::BASE_SEPOLIA)[4 + 6 * 32 + 31];
    let mut from_zero = vector();
    from_zero[64] = 1;
    assert_eq!(v(&from_zero), 28);
    // Contract accounts give it meanings of their own.
    let mut foreign = [7; 65];
    for odd in [0, 1, 2, 31] {
        foreign[64] = odd;
        assert_eq!(v(&foreign), odd);
    }
}

#[test]
fn texts_flags_and_words_are_read_strictly() {
    use alloy::sol_types::SolValue as _;
    for text in ["2", "USD Coin", "USD₮0", &"n".repeat(64), &"₮".repeat(64)] {
        assert_eq!(read_text(&text.to_owned().abi_encode()).as_deref(), Some(text));
    }
    for text in ["", "USD\nCoin", "\u{0}", &"n".repeat(65), &"n".repeat(100_000)] {
        assert_eq!(read_text(&text.to_owned().abi_encode()), None, "{text:.10}");
    }
    let name = "USD Coin".to_owned().abi_encode();
    for broken in [&[][..], &name[..95], &name[..32], &name[32..], &[0; 32], &[0xff; 96]] {
        assert_eq!(read_text(broken), None, "{broken:02x?}");
    }
    let mut not_utf8 = name;
    not_utf8[64] = 0xff;
    assert_eq!(read_text(&not_utf8), None);

    let mut word = [0; 32];
    assert_eq!(read_flag(&word), Some(false));
    word[31] = 1;
    assert_eq!((read_flag(&word), read_word(&word)), (Some(true), Some(word)));
    word[31] = 2;
    assert_eq!(read_flag(&word), None);
    assert_eq!(read_flag(&[1; 32]), None);
    for length in [0, 1, 31, 33, 64] {
        assert_eq!((read_flag(&vec![0; length]), read_word(&vec![0; length])), (None, None), "{length}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn recovery_never_panics(bytes in prop_oneof![
        proptest::collection::vec(any::<u8>(), 65),
        proptest::collection::vec(any::<u8>(), 1..200),
    ]) {
        let found = recovered(&bytes);
        prop_assert!(found.is_none() || bytes.len() == 65);
        transfer(&signed(&bytes), &domain(), Network::BASE_SEPOLIA);
        read_text(&bytes);
    }

    #[test]
    fn any_changed_field_recovers_to_another(field in 0..10usize, bit in 0..64usize) {
        let (mut authorization, mut domain, mut network) = (authorization(), domain(), Network::BASE_SEPOLIA);
        let turn = |time: ChainTime| ChainTime::from_unix(time.unix() ^ 1 << bit);
        let turned = |address: Address| {
            let mut bytes = *address.as_bytes();
            bytes[bit % 20] ^= 1 << (bit % 8);
            Address::new(bytes)
        };
        match field {
            0 => authorization.from = turned(authorization.from),
            1 => authorization.to = turned(authorization.to),
            2 => authorization.value = Amount::from_base_units(10_000 ^ 1 << bit),
            3 => authorization.valid_after = turn(authorization.valid_after),
            4 => authorization.valid_before = turn(authorization.valid_before),
            5 => authorization.nonce[bit % 32] ^= 1 << (bit % 8),
            6 => domain.token = turned(domain.token),
            7 => domain.name.push('!'),
            8 => domain.version.push('0'),
            _ => network = Network::eip155(network.chain_id() ^ 1 << bit),
        }
        let changed = SignedAuthorization::new(authorization.clone(), PaymentSignature::new(vector()).unwrap());
        let found = signer(&changed, &domain, network);
        prop_assert!(found != Some(payer()) && found != Some(authorization.from));
    }
}
