//! The contract of payment channels: who signed a voucher.

use alloy::primitives::B256;

use super::signature;
use crate::protocol::{Address, Network, channel::Voucher};

impl Voucher {
    /// Returns the key that signed this voucher on this chain; `None` where the contract takes no such signature from any key.
    ///
    /// That is 65 bytes with a low `s`, and a `v` of 27 or 28. One voucher with any other signature makes a whole transaction of claims
    /// fail, so that it is worth nothing.
    #[must_use]
    pub fn signer(&self, network: Network) -> Option<Address> {
        signature::signer_on_chain(&B256::new(self.digest(network)), self.signature.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use alloy::primitives::{Signature, U256};

    use super::*;
    use crate::protocol::PaymentSignature;

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
}
