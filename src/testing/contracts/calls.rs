//! The call data of the contracts.

use alloy::primitives::keccak256;

use super::Word;
use crate::protocol::{Address, Amount};

/// Encodes a call of any function whose arguments are one word each, such as `"transfer(address,uint256)"`.
#[must_use]
pub fn calldata(signature: &str, arguments: &[Word]) -> Vec<u8> {
    let selector = keccak256(signature);
    let words = arguments.iter().flat_map(|word| word.as_bytes());
    selector.iter().take(4).chain(words).copied().collect()
}

/// Encodes ERC-20 `transfer`.
#[must_use]
pub fn transfer(to: Address, amount: Amount) -> Vec<u8> {
    calldata("transfer(address,uint256)", &[to.into(), amount.into()])
}

/// Encodes ERC-20 `transferFrom`.
#[must_use]
pub fn transfer_from(from: Address, to: Address, amount: Amount) -> Vec<u8> {
    calldata("transferFrom(address,address,uint256)", &[from.into(), to.into(), amount.into()])
}

/// Encodes ERC-20 `approve`.
#[must_use]
pub fn approve(spender: Address, amount: Amount) -> Vec<u8> {
    calldata("approve(address,uint256)", &[spender.into(), amount.into()])
}

/// Encodes ERC-20 `balanceOf`.
#[must_use]
pub fn balance_of(owner: Address) -> Vec<u8> {
    calldata("balanceOf(address)", &[owner.into()])
}

/// Encodes minting, a transfer from the zero address, at [`USDC`](super::USDC) or [`COIN`](super::COIN).
#[must_use]
pub fn mint(to: Address, amount: Amount) -> Vec<u8> {
    calldata("mint(address,uint256)", &[to.into(), amount.into()])
}

/// Encodes one transfer from `payer` to `to` at [`RELAY`](super::RELAY) or [`REVERTER`](super::REVERTER), whichever `payer`
/// has approved.
#[must_use]
pub fn pay(token: Address, payer: Address, to: Address, amount: Amount) -> Vec<u8> {
    let arguments = [token.into(), payer.into(), to.into(), amount.into()];
    calldata("pay(address,address,address,uint256)", &arguments)
}

/// Encodes two transfers at [`RELAY`](super::RELAY): from `payer` to the relay, and from the relay to `to`.
#[must_use]
pub fn forward(token: Address, payer: Address, to: Address, amount: Amount) -> Vec<u8> {
    let arguments = [token.into(), payer.into(), to.into(), amount.into()];
    calldata("forward(address,address,address,uint256)", &arguments)
}

/// Encodes three transfers to `to` at [`BATCH`](super::BATCH), in this order, each from a payer who has approved it.
#[must_use]
pub fn collect(token: Address, to: Address, payments: [(Address, Amount); 3]) -> Vec<u8> {
    let mut arguments = vec![token.into(), to.into()];
    arguments.extend(payments.map(|(payer, _)| Word::from(payer)));
    arguments.extend(payments.map(|(_, amount)| Word::from(amount)));
    calldata("collect(address,address,address[3],uint256[3])", &arguments)
}

/// Encodes one transfer to `to` from a [`WALLET`](super::WALLET) or [`ODD_WALLET`](super::ODD_WALLET).
#[must_use]
pub fn wallet_pay(token: Address, to: Address, amount: Amount) -> Vec<u8> {
    calldata("pay(address,address,uint256)", &[token.into(), to.into(), amount.into()])
}

/// The response of an [`ODD_WALLET`](super::ODD_WALLET) to the question about a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Oddity {
    /// Returns the magic value with an extra bit set after it.
    DirtyWord,
    /// Returns the magic value at the low end of the word.
    WrongEnd,
    /// Returns the four bytes alone.
    ShortWord,
    /// Returns a correct word and another one.
    TwoWords,
    /// Returns a megabyte.
    Megabyte,
    /// Runs out of gas.
    BurnsGas,
    /// Reverts, with the magic value as its reason.
    Reverts,
    /// Has code that cannot run.
    InvalidCode,
    /// Accepts, after about ten million gas.
    AcceptsLate,
}

impl Oddity {
    /// Every response.
    pub const ALL: [Self; 9] = [
        Self::DirtyWord,
        Self::WrongEnd,
        Self::ShortWord,
        Self::TwoWords,
        Self::Megabyte,
        Self::BurnsGas,
        Self::Reverts,
        Self::InvalidCode,
        Self::AcceptsLate,
    ];
}

/// Encodes the response as the constructor's argument.
impl From<Oddity> for Word {
    fn from(oddity: Oddity) -> Self {
        Self::from(oddity as u128)
    }
}

/// The shapes of the events that [`LIAR`](super::LIAR) emits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Lie {
    /// Exactly the shape of an ERC-20 transfer.
    Plain,
    /// No topic, four words of data.
    NoTopics,
    /// The signature alone, three words of data.
    OneTopic,
    /// Signature and sender, two words of data.
    TwoTopics,
    /// The value as fourth topic, no data, as in ERC-721.
    FourTopics,
    /// The value as fourth topic and as data.
    FourTopicsAndData,
    /// Three topics, no data.
    NoData,
    /// Three topics, 31 bytes of data.
    ShortData,
    /// Three topics, 64 bytes of data.
    LongData,
    /// A bit set in the padding of the sender.
    DirtySender,
    /// A bit set in the padding of the recipient.
    DirtyRecipient,
    /// `Approval` instead of `Transfer`.
    OtherEvent,
    /// All of the above but [`Lie::Plain`], in one transaction.
    Everything,
}

impl Lie {
    /// All shapes that are not a transfer's, one by one.
    pub const CROOKED: [Self; 11] = [
        Self::NoTopics,
        Self::OneTopic,
        Self::TwoTopics,
        Self::FourTopics,
        Self::FourTopicsAndData,
        Self::NoData,
        Self::ShortData,
        Self::LongData,
        Self::DirtySender,
        Self::DirtyRecipient,
        Self::OtherEvent,
    ];

    const fn function(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::NoTopics => "noTopics",
            Self::OneTopic => "oneTopic",
            Self::TwoTopics => "twoTopics",
            Self::FourTopics => "fourTopics",
            Self::FourTopicsAndData => "fourTopicsAndData",
            Self::NoData => "noData",
            Self::ShortData => "shortData",
            Self::LongData => "longData",
            Self::DirtySender => "dirtySender",
            Self::DirtyRecipient => "dirtyRecipient",
            Self::OtherEvent => "otherEvent",
            Self::Everything => "everything",
        }
    }
}

/// Encodes a call of [`LIAR`](super::LIAR) that emits an event claiming that `from` paid `amount` to `to`.
#[must_use]
pub fn lie(shape: Lie, from: Address, to: Address, amount: Amount) -> Vec<u8> {
    let signature = format!("{}(address,address,uint256)", shape.function());
    calldata(&signature, &[from.into(), to.into(), amount.into()])
}
