//! `PaymentMethod`: the ways in which a purchase is paid.

/// How a purchase is paid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PaymentMethod {
    /// By a signed authorization (EIP-3009), which the seller turns into a transfer. It costs the payer no gas and no
    /// wait for a block.
    #[default]
    Authorization,
    /// By a transfer that the payer sends itself, and proves by its transaction.
    Transfer,
    /// By a signed permit (Permit2), which the seller turns into a transfer: up to a maximum (`upto`), or of a token
    /// without EIP-3009. It costs the payer no gas once Permit2 may move the token.
    Permit,
    /// By the voucher of a payment channel (`batch-settlement`), into which the payer deposits once for many answers.
    /// It costs the payer no gas, and saves the seller the gas of each answer. A layer opens channels only if this is
    /// its [preferred](crate::client::PayLayerBuilder::prefer) method.
    Channel,
}

impl PaymentMethod {
    /// Returns a name for logs and tables: `authorization`, `transfer`, `permit` or `channel`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Authorization => "authorization",
            Self::Transfer => "transfer",
            Self::Permit => "permit",
            Self::Channel => "channel",
        }
    }
}
