//! The signed message: EIP-712 over Permit2's domain.

use super::{PERMIT2, Permit, PermitScheme};
use crate::protocol::{Address, ChainTime, Network, keccak::keccak256};

/// The hash of the domain's type, `EIP712Domain(string name,uint256 chainId,address verifyingContract)`: Permit2 has no version.
pub(super) const DOMAIN_TYPE: [u8; 32] = *b"\x8c\xad\x95\x68\x7b\xa8\x2c\x2c\xe5\x0e\x74\xf7\xb7\x54\x64\x5e\x51\x17\xc3\xa5\xbe\xc8\x15\x1c\x07\x26\xd5\x85\x79\x80\xa8\x66";

/// The hash of the type `TokenPermissions`.
pub(in crate::protocol) const PERMITTED_TYPE: [u8; 32] = *b"\x61\x83\x58\xac\x3d\xb8\xdc\x27\x4f\x0c\xd8\x82\x9d\xa7\xe2\x34\xbd\x48\xcd\x73\xc4\xa7\x40\xae\xde\x1a\xde\xc9\x84\x6d\x06\xa1";

impl PermitScheme {
    /// The hash of the type `PermitWitnessTransferFrom` with the scheme's witness.
    pub(super) const fn permit_type(self) -> [u8; 32] {
        match self {
            Self::Exact => *b"\xeb\xc1\x56\xcd\x23\x67\x8a\x74\xc9\x4d\xf1\x3d\x77\x2e\xf5\x47\x84\x20\x63\x7f\x0c\x94\xbd\x10\xd5\x09\xe1\xdc\x98\xf5\x21\xc7",
            Self::UpTo => *b"\x51\xdf\xf6\x97\x4a\xd4\x38\x8c\x49\x9e\x7f\xcf\xe8\x38\xd2\xbd\x76\x71\x62\x55\x3a\x14\x40\x98\xce\x20\xea\x66\x1d\x70\xc2\xee",
        }
    }

    /// The hash of the type `Witness`.
    pub(super) const fn witness_type(self) -> [u8; 32] {
        match self {
            Self::Exact => *b"\xd9\x7b\x32\x39\xa7\xf3\x22\x95\x51\x7b\xd1\x4c\xb0\x74\xed\xfd\xd1\x88\xdf\xe5\xeb\x42\xf8\x02\xbb\x26\xd4\xfd\x1e\xb1\x2c\x37",
            Self::UpTo => *b"\xd4\x17\x1c\x44\x5a\x74\x21\x8b\x01\xd4\xfd\x8a\xf3\x4f\xf1\x10\x65\x80\xea\x1e\x36\xff\x83\x7e\x64\x48\x4b\xfa\xa2\x25\x3b\x75",
        }
    }
}

impl Permit {
    /// Returns the hash that the payer signs on this chain.
    #[must_use]
    pub fn digest(&self, network: Network) -> [u8; 32] {
        let scheme = self.scheme();
        let permitted = keccak256(&[&PERMITTED_TYPE, &account(self.token), &self.amount.to_be_bytes()]);
        let witness = match self.facilitator {
            None => keccak256(&[&scheme.witness_type(), &account(self.to), &moment(self.valid_after)]),
            Some(facilitator) => keccak256(&[
                &scheme.witness_type(),
                &account(self.to),
                &account(facilitator),
                &moment(self.valid_after),
            ]),
        };
        let message = keccak256(&[
            &scheme.permit_type(),
            &permitted,
            &account(self.spender),
            &self.nonce,
            &moment(self.deadline),
            &witness,
        ]);
        keccak256(&[b"\x19\x01", &domain_separator(network), &message])
    }
}

/// Returns the domain separator, equal to the contract's.
pub(in crate::protocol) fn domain_separator(network: Network) -> [u8; 32] {
    let name = keccak256(&[b"Permit2"]);
    keccak256(&[&DOMAIN_TYPE, &name, &number(network.chain_id()), &account(PERMIT2)])
}

fn account(address: Address) -> [u8; 32] {
    let mut word = [0; 32];
    word[12..].copy_from_slice(address.as_bytes());
    word
}

fn moment(time: ChainTime) -> [u8; 32] {
    number(time.unix())
}

fn number(number: u64) -> [u8; 32] {
    let mut word = [0; 32];
    word[24..].copy_from_slice(&number.to_be_bytes());
    word
}
