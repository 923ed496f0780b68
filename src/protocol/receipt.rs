//! `Receipt`: what was paid, by whom, in which transfer.

use super::{Address, Amount, ChainTime, IntentId, Network, PaymentId, Transfer, TxHash};

/// The payment that bought an answer, for the handler. The layer puts it into the request's extensions.
///
/// The payer is the account that sent the money, not the client that asks: a receipt authenticates no one.
///
/// A handler under test gets one like this:
///
/// ```
/// use tower_x402::protocol::{Address, Amount, Asset, ChainTime, IntentId, Network, Receipt, Transfer, TxHash};
/// let transfer = Transfer {
///     network: Network::BASE,
///     transaction: TxHash::new([0xab; 32]),
///     position: 3,
///     token: Asset::USDC_BASE.contract(),
///     payer: Address::new([0x11; 20]),
///     recipient: Address::new([0x5a; 20]),
///     amount: Amount::from_base_units(490_000),
///     block_number: 22_000_000,
///     block_time: ChainTime::from_unix(1_795_280_400),
/// };
/// let receipt = Receipt::new("demand-insights", IntentId::new("AUbX-9_k").unwrap(), transfer);
/// assert_eq!(receipt.payment_id().to_string(), format!("eip155:8453/0x{}/3", "ab".repeat(32)));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    resource: std::sync::Arc<str>,
    intent: IntentId,
    transfer: Transfer,
}

impl Receipt {
    /// A receipt for that transfer. The layer makes them; this is for the tests of a service.
    #[must_use]
    pub fn new(resource: impl Into<std::sync::Arc<str>>, intent: IntentId, transfer: Transfer) -> Self {
        Self { resource: resource.into(), intent, transfer }
    }

    /// What names this payment for ever. A handler may be started several times for one payment:
    /// whatever it does to the world, it keys by this.
    #[must_use]
    pub const fn payment_id(&self) -> PaymentId {
        self.transfer.key()
    }

    /// The seller's name for what was bought.
    #[must_use]
    pub fn resource(&self) -> &str {
        &self.resource
    }

    /// The intent of the quote.
    #[must_use]
    pub const fn intent(&self) -> &IntentId {
        &self.intent
    }

    /// Who sent the money.
    #[must_use]
    pub const fn payer(&self) -> Address {
        self.transfer.payer
    }

    /// Who got it.
    #[must_use]
    pub const fn recipient(&self) -> Address {
        self.transfer.recipient
    }

    /// In which token.
    #[must_use]
    pub const fn token(&self) -> Address {
        self.transfer.token
    }

    /// How much, in base units: what was sent, which may be more than the price.
    #[must_use]
    pub const fn amount(&self) -> Amount {
        self.transfer.amount
    }

    /// On which chain.
    #[must_use]
    pub const fn network(&self) -> Network {
        self.transfer.network
    }

    /// In which transaction.
    #[must_use]
    pub const fn transaction(&self) -> TxHash {
        self.transfer.transaction
    }

    /// The position of the transfer's log in the transaction's receipt, from 0.
    #[must_use]
    pub const fn position(&self) -> u32 {
        self.transfer.position
    }

    /// When, by the chain's clock.
    #[must_use]
    pub const fn block_time(&self) -> ChainTime {
        self.transfer.block_time
    }

    /// At which height.
    #[must_use]
    pub const fn block_number(&self) -> u64 {
        self.transfer.block_number
    }
}
