//! `Transfer`: one token transfer, the unit of spending.

use super::{Address, Amount, Binding, ByPermit, ChainTime, Network, PaymentId, TxHash};

/// One transfer of an accepted token to the recipient, as it was mined.
///
/// Verifiers create transfers. [`new`](Self::new) identifies the transfer; the fields that follow from the chain are
/// set on the result.
///
/// ```
/// use tower_x402::protocol::{Address, Amount, Asset, ChainTime, Network, Transfer, TxHash};
/// let transfer = Transfer::new(Network::BASE, TxHash::new([0xab; 32]), 3)
///     .with_token(Asset::USDC_BASE.contract())
///     .with_payer(Address::new([0x11; 20]))
///     .with_recipient(Address::new([0x5a; 20]))
///     .with_amount(Amount::from_base_units(490_000))
///     .with_block(22_000_000, ChainTime::from_unix(1_795_280_400));
/// assert_eq!(transfer.payment_id().to_string(), format!("eip155:8453/0x{}/3", "ab".repeat(32)));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Transfer {
    /// The chain.
    pub network: Network,
    /// The transaction.
    pub transaction: TxHash,
    /// The log's position in the receipt, from 0.
    pub position: u32,
    /// The token contract.
    pub token: Address,
    /// The account that sent the money: the transfer's `from`, not the transaction's.
    pub payer: Address,
    /// The account that received it.
    pub recipient: Address,
    /// The amount, in base units.
    pub amount: Amount,
    /// The height of its block.
    pub block_number: u64,
    /// The time of its block.
    pub block_time: ChainTime,
    /// What it is bound to, and so which proof redeems it.
    pub binding: Binding,
}

impl Transfer {
    /// Returns an unbound transfer of nothing, from the zero address to itself, in block 0: the rest is set on it.
    #[must_use]
    pub const fn new(network: Network, transaction: TxHash, position: u32) -> Self {
        Self {
            network,
            transaction,
            position,
            token: Address::ZERO,
            payer: Address::ZERO,
            recipient: Address::ZERO,
            amount: Amount::ZERO,
            block_number: 0,
            block_time: ChainTime::from_unix(0),
            binding: Binding::none(),
        }
    }

    /// Sets the token contract.
    #[must_use]
    pub const fn with_token(mut self, token: Address) -> Self {
        self.token = token;
        self
    }

    /// Sets the account that sent the money.
    #[must_use]
    pub const fn with_payer(mut self, payer: Address) -> Self {
        self.payer = payer;
        self
    }

    /// Sets the account that received the money.
    #[must_use]
    pub const fn with_recipient(mut self, recipient: Address) -> Self {
        self.recipient = recipient;
        self
    }

    /// Sets the amount, in base units.
    #[must_use]
    pub const fn with_amount(mut self, amount: Amount) -> Self {
        self.amount = amount;
        self
    }

    /// Sets height and time of its block.
    #[must_use]
    pub const fn with_block(mut self, number: u64, time: ChainTime) -> Self {
        (self.block_number, self.block_time) = (number, time);
        self
    }

    /// Sets what it is bound to.
    #[must_use]
    pub fn with_binding(mut self, binding: Binding) -> Self {
        self.binding = binding;
        self
    }

    /// Returns the id of this transfer.
    #[must_use]
    pub const fn payment_id(&self) -> PaymentId {
        match (self.binding.nonce(), self.binding.permit()) {
            (Some(nonce), _) => PaymentId::of_authorization(self.network, self.token, self.payer, *nonce),
            (None, Some(ByPermit::Nonce(nonce))) => PaymentId::of_permit(self.network, self.payer, nonce),
            (None, _) => PaymentId::of_transfer(self.network, self.transaction, self.position),
        }
    }
}
