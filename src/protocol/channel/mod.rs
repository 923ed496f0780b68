//! Payment channels: the scheme `batch-settlement` of the x402 standard, on EVM chains.
//!
//! A payer deposits once into a [contract](BATCH_SETTLEMENT) that has one address on every chain. Each request then carries a [`Voucher`],
//! a signature over a growing total: no transaction, and no gas. The seller claims the last voucher of many channels in one transaction,
//! up to what it charged, and pays back the rest.
//!
//! | Step | Message | Who signs |
//! |---|---|---|
//! | open, top up | [`ChannelPayload::Deposit`] | the payer, for its token or for Permit2 |
//! | pay | [`ChannelPayload::Voucher`] | the channel's payer authorizer |
//! | claim | [`claim_digest`] | the channel's receiver authorizer |
//! | pay back | [`ChannelPayload::Refund`], [`ChannelId::refund_digest`] | payer authorizer, receiver authorizer |
//!
//! Amounts are 128-bit numbers of base units, as in the contract. All types here are values: none of them asks a
//! chain.
//!
//! ```
//! use tower_x402::protocol::{Asset, Network, PaymentSignature, channel::{ChannelConfig, Voucher}};
//! let token = Asset::USDC_BASE_SEPOLIA.contract();
//! let channel = ChannelConfig::new("0x70997970C51812dc3A010C7d01b50e0d17dc79C8".parse()?, "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC".parse()?, token)
//!     .with_receiver_authorizer("0x90F79bf6EB2c4f870365E785982E1f101E93b906".parse()?)
//!     .with_withdraw_delay(900);
//! let id = channel.id(Network::BASE_SEPOLIA);
//! assert_eq!(id.to_string(), "0xe94a435ba5c4a651c4c975bc5e2a208275f95d4199785ab0d7fbbf56bc9469ec");
//! // What its payer signs, on this chain.
//! let digest = id.voucher_digest(10_000, Network::BASE_SEPOLIA);
//! assert_eq!(Voucher::new(id, 10_000, PaymentSignature::new([0x1b; 65])?).digest(Network::BASE_SEPOLIA), digest);
//! # Ok::<(), tower_x402::protocol::ParseError>(())
//! ```

mod config;
mod correction;
mod deposit;
mod eip712;
mod id;
mod payload;
mod payment;
mod state;
mod terms;
#[cfg(test)]
mod tests;
mod voucher;

use std::ops::RangeInclusive;

pub use config::ChannelConfig;
pub(crate) use correction::Correction;
pub use deposit::{ChannelDeposit, DepositAuthorization, Erc3009Deposit, Permit2Deposit};
pub use eip712::claim_digest;
pub use id::ChannelId;
pub use payload::ChannelPayload;
pub use payment::VoucherPayment;
pub use state::{ChannelState, VoucherState};
pub use terms::ChannelTerms;
pub use voucher::{Voucher, VoucherClaim};

use super::Address;

/// The contract that holds the deposits of all channels, at the same address on every chain.
pub const BATCH_SETTLEMENT: Address =
    Address::new(*b"\x40\x20\x07\x4e\x9d\xf2\xce\x1d\xee\x5a\x9c\x1b\x5c\x3f\x54\x1d\x02\xa1\x00\x03");

/// The contract that takes deposits by EIP-3009, the recipient of their authorizations.
pub const ERC3009_COLLECTOR: Address =
    Address::new(*b"\x40\x20\x80\x60\x89\x47\x0a\x89\x82\x6c\xb9\xfb\x1f\x40\x59\x15\x0b\x55\x00\x04");

/// The contract that takes deposits by Permit2, the spender of their permits.
pub const PERMIT2_COLLECTOR: Address =
    Address::new(*b"\x40\x20\x42\x5f\xaf\x3b\x74\x6c\x08\x2c\x2f\x94\x2b\x4e\x51\x59\x88\x7b\x00\x05");

/// The seconds that the contract allows for `withdraw_delay`: how long a channel's payer waits for a withdrawal.
pub const WITHDRAW_DELAYS: RangeInclusive<u32> = 900..=2_592_000;
