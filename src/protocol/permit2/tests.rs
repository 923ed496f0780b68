//! The constants and vectors of the standard's clients.

use super::{
    eip712::{DOMAIN_TYPE, PERMITTED_TYPE, domain_separator},
    *,
};
use crate::protocol::{Amount, Asset, ChainTime, Network, keccak::keccak256};

const PAYER: &str = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8";

/// The official clients' message, byte for byte.
fn permit(scheme: PermitScheme) -> Permit {
    Permit::new(scheme, PAYER.parse().unwrap(), [0x42; 32])
        .paying(
            "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC".parse().unwrap(),
            Asset::USDC_BASE_SEPOLIA.contract(),
            Amount::from_base_units(10_000),
        )
        .by_facilitator("0x90F79bf6EB2c4f870365E785982E1f101E93b906".parse().unwrap())
        .valid_between(ChainTime::from_unix(0), ChainTime::from_unix(1_893_456_000))
}

fn hex(bytes: &[u8]) -> String {
    const_hex::encode(bytes)
}

#[test]
fn contracts_have_the_official_addresses() {
    for (address, official) in [
        (PERMIT2, "0x000000000022D473030F116dDEE9F6B43aC78BA3"),
        (EXACT_PROXY, "0x402085c248EeA27D92E8b30b2C58ed07f9E20001"),
        (UPTO_PROXY, "0x4020A4f3b7b90ccA423B9fabCc0CE57C6C240002"),
    ] {
        assert_eq!(address.to_string(), official);
    }
}

#[test]
fn type_hashes_are_hashes_of_the_types() {
    let domain = "EIP712Domain(string name,uint256 chainId,address verifyingContract)";
    let permitted = "TokenPermissions(address token,uint256 amount)";
    assert_eq!((DOMAIN_TYPE, PERMITTED_TYPE), (keccak256(&[domain.as_bytes()]), keccak256(&[permitted.as_bytes()])));
    for (scheme, witness) in [
        (PermitScheme::Exact, "Witness(address to,uint256 validAfter)"),
        (PermitScheme::UpTo, "Witness(address to,address facilitator,uint256 validAfter)"),
    ] {
        let permit = "PermitWitnessTransferFrom(TokenPermissions permitted,address spender,uint256 nonce,uint256 deadline,Witness witness)";
        assert_eq!(scheme.permit_type(), keccak256(&[permit.as_bytes(), permitted.as_bytes(), witness.as_bytes()]));
        assert_eq!(scheme.witness_type(), keccak256(&[witness.as_bytes()]));
    }
}

#[test]
fn domains_are_those_of_the_deployed_contract() {
    for (network, separator) in [
        (Network::BASE, "3b6f35e4fce979ef8eac3bcdc8c3fc38fe7911bb0c69c8fe72bf1fd1a17e6f07"),
        (Network::BASE_SEPOLIA, "010f27a92fb9a32622f44f001dc4d15706a85b33499cfc2ce9033113ab26592c"),
    ] {
        assert_eq!(hex(&domain_separator(network)), separator, "{network}");
    }
}

#[test]
fn digests_are_those_of_official_clients() {
    for (scheme, digest) in [
        (PermitScheme::Exact, "5d9dd8d359b3516ddb4090df244c4f314943cd4c610adedaf1e95cccc2d3c76a"),
        (PermitScheme::UpTo, "f4b13cc26424240eb5098be4b4b6f35b21c57d9ce30644ae2245297066c87814"),
    ] {
        let permit = permit(scheme);
        assert_eq!((permit.scheme(), permit.spender), (scheme, scheme.proxy()));
        assert_eq!(hex(&permit.digest(Network::BASE_SEPOLIA)), digest, "{scheme:?}");
    }
}

#[cfg(feature = "wallet")]
#[test]
fn signatures_are_those_of_official_clients() {
    use alloy::signers::{SignerSync as _, local::PrivateKeySigner};
    let key: PrivateKeySigner = "59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d".parse().unwrap();
    for (scheme, signature) in [
        (
            PermitScheme::Exact,
            "315b3a9d32a2efb4c42bb8a8353154361d68a42d369a012c74a2d43f28ea41015e0f88cc4d4a0dcce46d426ff1d0d203bbad65e76e81ccdcaf052de1ab88e7261c",
        ),
        (
            PermitScheme::UpTo,
            "75c00ad8a7c2ad93beb8ca5c03c0705a21b35f6e7ec425e586e9fd0f55ea4f5e7dfd30b692d339e511cb165efa4d8fbeea6cea65226f768d9252b42fc94f0b841b",
        ),
    ] {
        let digest = permit(scheme).digest(Network::BASE_SEPOLIA);
        assert_eq!(hex(&key.sign_hash_sync(&digest.into()).unwrap().as_bytes()), signature, "{scheme:?}");
    }
}

#[test]
fn every_signed_field_and_the_chain_change_the_digest() {
    for scheme in [PermitScheme::Exact, PermitScheme::UpTo] {
        let signed = permit(scheme);
        let other = Address::new([9; 20]);
        let later = ChainTime::from_unix(1);
        let mut changed = vec![
            Permit { token: other, ..signed.clone() },
            Permit { amount: Amount::from_base_units(10_001), ..signed.clone() },
            Permit { nonce: [0x43; 32], ..signed.clone() },
            Permit { deadline: later, ..signed.clone() },
            Permit { to: other, ..signed.clone() },
            Permit { valid_after: later, ..signed.clone() },
            Permit { spender: other, ..signed.clone() },
        ];
        if scheme == PermitScheme::UpTo {
            changed.push(Permit { facilitator: Some(other), ..signed.clone() });
        }
        for changed in changed {
            assert_ne!(changed.digest(Network::BASE), signed.digest(Network::BASE), "{changed:?}");
        }
        assert_ne!(signed.digest(Network::BASE), signed.digest(Network::eip155(1)));
    }
    assert_ne!(permit(PermitScheme::Exact).digest(Network::BASE), permit(PermitScheme::UpTo).digest(Network::BASE));
}
