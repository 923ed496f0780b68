//! What to send to the contracts.

use alloy::primitives::keccak256;

use super::Word;
use crate::protocol::{Address, Amount};

/// A call of any function whose arguments are all one word wide, such as `"transfer(address,uint256)"`.
#[must_use]
pub fn calldata(signature: &str, arguments: &[Word]) -> Vec<u8> {
    let selector = keccak256(signature);
    let words = arguments.iter().flat_map(|word| word.as_bytes());
    selector.iter().take(4).chain(words).copied().collect()
}

/// ERC-20 `transfer`.
#[must_use]
pub fn transfer(to: Address, amount: Amount) -> Vec<u8> {
    calldata("transfer(address,uint256)", &[to.into(), amount.into()])
}

/// ERC-20 `transferFrom`.
#[must_use]
pub fn transfer_from(from: Address, to: Address, amount: Amount) -> Vec<u8> {
    calldata("transferFrom(address,address,uint256)", &[from.into(), to.into(), amount.into()])
}

/// ERC-20 `approve`.
#[must_use]
pub fn approve(spender: Address, amount: Amount) -> Vec<u8> {
    calldata("approve(address,uint256)", &[spender.into(), amount.into()])
}

/// ERC-20 `balanceOf`.
#[must_use]
pub fn balance_of(owner: Address) -> Vec<u8> {
    calldata("balanceOf(address)", &[owner.into()])
}

/// New money out of nothing, from the zero address, at [`USDC`](super::USDC) or [`COIN`](super::COIN).
#[must_use]
pub fn mint(to: Address, amount: Amount) -> Vec<u8> {
    calldata("mint(address,uint256)", &[to.into(), amount.into()])
}

/// One transfer from `payer` to `to` at [`RELAY`](super::RELAY) or [`REVERTER`](super::REVERTER), whichever `payer` has approved.
#[must_use]
pub fn pay(token: Address, payer: Address, to: Address, amount: Amount) -> Vec<u8> {
    let arguments = [token.into(), payer.into(), to.into(), amount.into()];
    calldata("pay(address,address,address,uint256)", &arguments)
}

/// Two transfers at [`RELAY`](super::RELAY): from `payer` to the relay, from the relay to `to`.
#[must_use]
pub fn forward(token: Address, payer: Address, to: Address, amount: Amount) -> Vec<u8> {
    let arguments = [token.into(), payer.into(), to.into(), amount.into()];
    calldata("forward(address,address,address,uint256)", &arguments)
}

/// Three transfers to `to` at [`BATCH`](super::BATCH), in this order, each from one payer who has approved it.
#[must_use]
pub fn collect(token: Address, to: Address, payments: [(Address, Amount); 3]) -> Vec<u8> {
    let mut arguments = vec![token.into(), to.into()];
    arguments.extend(payments.map(|(payer, _)| Word::from(payer)));
    arguments.extend(payments.map(|(_, amount)| Word::from(amount)));
    calldata("collect(address,address,address[3],uint256[3])", &arguments)
}

/// The shapes of event that [`LIAR`](super::LIAR) writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Lie {
    /// Exactly that of an ERC-20 transfer.
    Plain,
    /// No topic, four words of data.
    NoTopics,
    /// The signature alone, three words of data.
    OneTopic,
    /// Signature and sender, two words of data.
    TwoTopics,
    /// The value as fourth topic, no data: ERC-721's.
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
    /// Every single shape that is not a transfer's.
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

/// An event at [`LIAR`](super::LIAR) that claims `from` paid `amount` to `to`.
#[must_use]
pub fn lie(shape: Lie, from: Address, to: Address, amount: Amount) -> Vec<u8> {
    let signature = format!("{}(address,address,uint256)", shape.function());
    calldata(&signature, &[from.into(), to.into(), amount.into()])
}
