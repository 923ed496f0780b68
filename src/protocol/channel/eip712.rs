//! The signed messages: EIP-712 over the domain of the channels' contract; for deposits, over the domain of the token
//! or of Permit2.

use std::sync::OnceLock;

use super::{
    BATCH_SETTLEMENT, ChannelConfig, ChannelId, ERC3009_COLLECTOR, Erc3009Deposit, Permit2Deposit, Voucher,
    VoucherClaim,
};
use crate::protocol::{Address, Network, TokenDomain, keccak::keccak256, permit2};

/// The hash of a domain's type, `EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)`.
pub(super) const DOMAIN_TYPE: [u8; 32] = *b"\x8b\x73\xc3\xc6\x9b\xb8\xfe\x3d\x51\x2e\xcc\x4c\xf7\x59\xcc\x79\x23\x9f\x7b\x17\x9b\x0f\xfa\xca\xa9\xa7\x5d\x52\x2b\x39\x40\x0f";
/// The hash of the domain's name, `x402 Batch Settlement`.
pub(super) const NAME: [u8; 32] = *b"\xe0\x3c\x50\x2b\x90\x66\xcc\x6f\x23\xa8\xf0\xf4\x8e\xd3\x2c\xb7\xd5\x06\xf9\xf0\xa2\xd0\x05\x54\x49\xf2\x56\x84\x6a\x77\x0e\x9a";
/// The hash of the domain's version, `1`.
pub(super) const VERSION: [u8; 32] = *b"\xc8\x9e\xfd\xaa\x54\xc0\xf2\x0c\x7a\xdf\x61\x28\x82\xdf\x09\x50\xf5\xa9\x51\x63\x7e\x03\x07\xcd\xcb\x4c\x67\x2f\x29\x8b\x8b\xc6";

/// The hashes of the types of the contract.
pub(super) const CONFIG_TYPE: [u8; 32] = *b"\x1c\x9a\x06\xce\xab\x9b\x0e\xbb\xd3\x30\x1d\xc5\x6c\x91\x11\xbb\x6d\x9a\xf4\x21\x35\x6d\xc9\xcc\xb3\xb7\x08\x4c\x75\x5d\xb3\x08";
pub(super) const VOUCHER_TYPE: [u8; 32] = *b"\x1e\x1b\xd6\xff\x84\xc3\xe0\xd9\x02\x9a\x29\x2b\x21\x2e\x03\x9c\x0c\xa9\x7e\xc4\x97\xc5\x51\x91\xa4\xa5\x87\x42\x94\x60\x9a\x69";
pub(super) const REFUND_TYPE: [u8; 32] = *b"\xbe\x23\xad\x08\x74\x35\x07\x2c\xd6\x9b\x49\xcc\x5b\x92\xde\x10\xee\x61\x0f\xce\x7a\xe0\xab\x42\x83\x07\x97\x2d\x76\x4b\xb2\x16";
pub(super) const CLAIMS_TYPE: [u8; 32] = *b"\x42\xbd\x57\xc0\x10\xb8\x70\xc2\xe9\x62\x03\xc6\x63\x41\xf2\x8a\x6a\x19\xb4\xd5\x6a\x74\x53\x3a\x8e\xb5\xf7\x06\xb9\xfd\x6d\x57";
pub(super) const CLAIM_TYPE: [u8; 32] = *b"\x30\xb9\xa0\x36\x75\x28\xfc\xa1\x3c\x3e\x8e\xc6\x13\x4c\x31\x13\xf1\x88\x7e\xbe\x7a\x1a\xd6\x1d\xe0\x95\x5a\xac\x28\x8b\x0c\xf5";

/// The hash of EIP-3009's type `ReceiveWithAuthorization`.
pub(super) const RECEIVE_TYPE: [u8; 32] = *b"\xd0\x99\xcc\x98\xef\x71\x10\x7a\x61\x6c\x4f\x0f\x94\x1f\x04\xc3\x22\xd8\xe2\x54\xfe\x26\xb3\xc6\x66\x8d\xb8\x7a\xae\x41\x3d\xe8";
/// The hash of the witness `DepositWitness(bytes32 channelId)`.
pub(super) const WITNESS_TYPE: [u8; 32] = *b"\xba\x00\x00\x09\x7e\x86\xda\xbe\x64\x17\x8a\xfe\x31\x10\x92\x21\x19\x33\x39\xa6\x86\x15\x98\xf2\x13\x3f\xcb\xdc\x92\xc8\x44\x79";
/// The hash of Permit2's type `PermitWitnessTransferFrom` with that witness.
pub(super) const PERMIT_TYPE: [u8; 32] = *b"\x43\x6a\x25\xc0\x1a\x21\xa6\xed\x02\x58\x16\xc4\xc9\xea\x3d\x61\x32\xaa\x87\x9d\xd7\xef\x16\xf6\x18\x8d\xd3\xb0\xae\xbc\xcc\x52";

impl ChannelConfig {
    /// Returns the id of this channel on this chain.
    #[must_use]
    pub fn id(&self, network: Network) -> ChannelId {
        let [payer, payer_authorizer] = [self.payer, self.payer_authorizer].map(account);
        let [receiver, receiver_authorizer] = [self.receiver, self.receiver_authorizer].map(account);
        let config = keccak256(&[
            &CONFIG_TYPE,
            &payer,
            &payer_authorizer,
            &receiver,
            &receiver_authorizer,
            &account(self.token),
            &number(self.withdraw_delay.into()),
            &self.salt,
        ]);
        ChannelId::new(signed(&domain_separator(network), &config))
    }
}

impl ChannelId {
    /// Returns the hash that the payer authorizer signs for a voucher up to this total, in base units.
    #[must_use]
    pub fn voucher_digest(&self, max_claimable: u128, network: Network) -> [u8; 32] {
        let voucher = keccak256(&[&VOUCHER_TYPE, self.as_bytes(), &number(max_claimable)]);
        signed(&domain_separator(network), &voucher)
    }

    /// Returns the hash that the receiver authorizer signs to pay back this amount, in base units. `nonce`: the
    /// number of earlier refunds of this channel.
    #[must_use]
    pub fn refund_digest(&self, nonce: u64, amount: u128, network: Network) -> [u8; 32] {
        let refund = keccak256(&[&REFUND_TYPE, self.as_bytes(), &number(nonce.into()), &number(amount)]);
        signed(&domain_separator(network), &refund)
    }

    /// Returns the nonce of the EIP-3009 authorization that deposits with this salt.
    #[must_use]
    pub fn deposit_nonce(&self, salt: &[u8; 32]) -> [u8; 32] {
        keccak256(&[self.as_bytes(), salt])
    }
}

impl Voucher {
    /// Returns the hash that the voucher's signature covers on this chain.
    #[must_use]
    pub fn digest(&self, network: Network) -> [u8; 32] {
        self.channel.voucher_digest(self.max_claimable, network)
    }
}

/// Returns the hash that the common receiver authorizer of these channels signs, so that anyone may send the claims
/// in this order.
#[must_use]
pub fn claim_digest(claims: &[VoucherClaim], network: Network) -> [u8; 32] {
    let entry = |claim: &VoucherClaim| {
        let [most, total] = [claim.voucher.max_claimable, claim.total_claimed].map(number);
        keccak256(&[&CLAIM_TYPE, claim.voucher.channel.as_bytes(), &most, &total])
    };
    let entries: Vec<_> = claims.iter().map(entry).collect();
    let batch = keccak256(&[&CLAIMS_TYPE, &keccak256(&[entries.as_flattened()])]);
    signed(&domain_separator(network), &batch)
}

impl Erc3009Deposit {
    /// Returns the hash that the payer signs to deposit this amount, in base units, into the channel: a
    /// `ReceiveWithAuthorization` for the [collector](ERC3009_COLLECTOR). `domain` is that of the channel's token.
    #[must_use]
    pub fn digest(&self, channel: &ChannelConfig, amount: u128, domain: &TokenDomain, network: Network) -> [u8; 32] {
        let receive = keccak256(&[
            &RECEIVE_TYPE,
            &account(channel.payer),
            &account(ERC3009_COLLECTOR),
            &number(amount),
            &number(self.valid_after.unix().into()),
            &number(self.valid_before.unix().into()),
            &channel.id(network).deposit_nonce(&self.salt),
        ]);
        let [name, version] = [&domain.name, &domain.version].map(|text| keccak256(&[text.as_bytes()]));
        signed(&separator(&name, &version, network, domain.token), &receive)
    }
}

impl Permit2Deposit {
    /// Returns the hash that the payer signs: a permit for the [collector](super::PERMIT2_COLLECTOR), if that is its
    /// spender.
    #[must_use]
    pub fn digest(&self, network: Network) -> [u8; 32] {
        let permitted = keccak256(&[&permit2::PERMITTED_TYPE, &account(self.token), &number(self.amount)]);
        let permit = keccak256(&[
            &PERMIT_TYPE,
            &permitted,
            &account(self.spender),
            &self.nonce,
            &number(self.deadline.unix().into()),
            &keccak256(&[&WITNESS_TYPE, self.channel.as_bytes()]),
        ]);
        signed(&permit2::domain_separator(network), &permit)
    }
}

/// Returns the domain separator, equal to the contract's. The first network's is cached: most sellers have one
/// network, and each voucher needs it twice.
pub(super) fn domain_separator(network: Network) -> [u8; 32] {
    static FIRST: OnceLock<(Network, [u8; 32])> = OnceLock::new();
    let separator = || separator(&NAME, &VERSION, network, BATCH_SETTLEMENT);
    match FIRST.get_or_init(|| (network, separator())) {
        (first, kept) if *first == network => *kept,
        _ => separator(),
    }
}

fn separator(name: &[u8; 32], version: &[u8; 32], network: Network, contract: Address) -> [u8; 32] {
    keccak256(&[&DOMAIN_TYPE, name, version, &number(network.chain_id().into()), &account(contract)])
}

fn signed(domain: &[u8; 32], message: &[u8; 32]) -> [u8; 32] {
    keccak256(&[b"\x19\x01", domain, message])
}

fn account(address: Address) -> [u8; 32] {
    let mut word = [0; 32];
    word[12..].copy_from_slice(address.as_bytes());
    word
}

fn number(number: u128) -> [u8; 32] {
    let mut word = [0; 32];
    word[16..].copy_from_slice(&number.to_be_bytes());
    word
}
