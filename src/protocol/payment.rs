//! `Payment`: what a ledger reserves and records as sold; one variant for each way to pay.

use super::{
    Address, Amount, ChainTime, Network, PaymentId, Transfer, TxHash, channel::VoucherPayment, permit2::Permit,
    v2::Authorization,
};

/// A payment: what a ledger reserves and records a sale with.
///
/// ```
/// use tower_x402::protocol::{Address, ChainTime, Network, Payment, SignedTransfer, Transfer, TxHash};
/// let mined = Transfer::new(Network::BASE, TxHash::new([0xab; 32]), 3).with_block(22_000_000, ChainTime::from_unix(1_795_280_400));
/// let signed = SignedTransfer::new(Network::BASE, Address::new([0x83; 20]), Address::new([0x11; 20]), [0x42; 32]);
/// let [mined, signed] = [Payment::from(mined), Payment::from(signed)];
/// assert_eq!((mined.transaction(), mined.block_number()), (Some(TxHash::new([0xab; 32])), Some(22_000_000)));
/// assert_eq!((signed.transaction(), signed.block_number()), (None, None));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Payment {
    /// A mined transfer.
    Transfer(Transfer),
    /// An EIP-3009 authorization that its payer signed. Its block, if any, is unknown.
    Authorization(SignedTransfer),
    /// A [permit](Permit) that its payer signed for Permit2. Its block, if any, is unknown. Once it is settled, its
    /// amount is the charge.
    Permit(SignedTransfer),
    /// A [voucher](super::channel::Voucher) that its payer signed for a channel. It never has a transaction of its
    /// own: its charge is claimed later, together with other charges.
    Voucher(VoucherPayment),
}

/// A signed transfer that was not seen in a block.
///
/// [`new`](Self::new) identifies it; the rest is set on the result.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SignedTransfer {
    /// The chain.
    pub network: Network,
    /// The token contract.
    pub token: Address,
    /// The account that signed.
    pub payer: Address,
    /// The nonce of the authorization, or of the permit.
    pub nonce: [u8; 32],
    /// The account that is paid.
    pub recipient: Address,
    /// The amount, in base units.
    pub amount: Amount,
    /// When the payment was shown, in chain time.
    pub shown: ChainTime,
    /// The transaction that settled it, as reported by the settler if nothing reads the chain.
    pub transaction: Option<TxHash>,
}

impl SignedTransfer {
    /// Returns the payment of at most a permit's amount, shown at that time.
    ///
    /// ```
    /// use tower_x402::protocol::{Address, ChainTime, Network, Payment, SignedTransfer, permit2::{Permit, PermitScheme}};
    /// let permit = Permit::new(PermitScheme::UpTo, Address::new([0x11; 20]), [0x42; 32]);
    /// let signed = SignedTransfer::of_permit(Network::BASE, &permit, ChainTime::from_unix(1_795_280_400));
    /// assert_eq!(Payment::Permit(signed).id(), permit.payment_id(Network::BASE));
    /// ```
    #[must_use]
    pub fn of_permit(network: Network, permit: &Permit, shown: ChainTime) -> Self {
        Self::new(network, permit.token, permit.from, permit.nonce)
            .with_recipient(permit.to)
            .with_amount(permit.amount)
            .with_shown(shown)
    }

    /// Returns an authorization with amount, recipient and time of showing zero: the rest is set on it.
    #[must_use]
    pub const fn new(network: Network, token: Address, payer: Address, nonce: [u8; 32]) -> Self {
        let (recipient, amount, shown) = (Address::ZERO, Amount::ZERO, ChainTime::from_unix(0));
        Self { network, token, payer, nonce, recipient, amount, shown, transaction: None }
    }

    /// Returns the payment of an authorization of this token, shown at that time.
    #[must_use]
    pub fn of(network: Network, token: Address, authorization: &Authorization, shown: ChainTime) -> Self {
        Self::new(network, token, authorization.from, authorization.nonce)
            .with_recipient(authorization.to)
            .with_amount(authorization.value)
            .with_shown(shown)
    }

    /// Sets the account that is paid.
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

    /// Sets when the payment was shown, in chain time.
    #[must_use]
    pub const fn with_shown(mut self, shown: ChainTime) -> Self {
        self.shown = shown;
        self
    }

    /// Sets the transaction that settled it, as reported by the settler.
    #[must_use]
    pub const fn with_transaction(mut self, transaction: TxHash) -> Self {
        self.transaction = Some(transaction);
        self
    }

    /// Returns the id of this payment if it is an authorization: the id of the transfer that will be made from it.
    /// The id of a permit is returned by [`Payment::id`].
    #[must_use]
    pub const fn payment_id(&self) -> PaymentId {
        PaymentId::of_authorization(self.network, self.token, self.payer, self.nonce)
    }
}

impl From<Transfer> for Payment {
    fn from(transfer: Transfer) -> Self {
        Self::Transfer(transfer)
    }
}

impl From<SignedTransfer> for Payment {
    fn from(signed: SignedTransfer) -> Self {
        Self::Authorization(signed)
    }
}

impl From<VoucherPayment> for Payment {
    fn from(voucher: VoucherPayment) -> Self {
        Self::Voucher(voucher)
    }
}

impl PartialEq<Transfer> for Payment {
    fn eq(&self, other: &Transfer) -> bool {
        matches!(self, Self::Transfer(transfer) if transfer == other)
    }
}

impl PartialEq<SignedTransfer> for Payment {
    fn eq(&self, other: &SignedTransfer) -> bool {
        matches!(self, Self::Authorization(signed) if signed == other)
    }
}

impl Payment {
    /// Returns the id of this payment. It stays the same when an authorization becomes a transfer, and when a permit
    /// is settled.
    #[must_use]
    pub const fn id(&self) -> PaymentId {
        match self {
            Self::Transfer(transfer) => transfer.payment_id(),
            Self::Authorization(signed) => signed.payment_id(),
            Self::Permit(signed) => PaymentId::of_permit(signed.network, signed.payer, signed.nonce),
            Self::Voucher(voucher) => voucher.payment_id(),
        }
    }

    /// Returns the chain.
    #[must_use]
    pub const fn network(&self) -> Network {
        match self {
            Self::Transfer(transfer) => transfer.network,
            Self::Authorization(signed) | Self::Permit(signed) => signed.network,
            Self::Voucher(voucher) => voucher.network(),
        }
    }

    /// Returns the token contract.
    #[must_use]
    pub const fn token(&self) -> Address {
        match self {
            Self::Transfer(transfer) => transfer.token,
            Self::Authorization(signed) | Self::Permit(signed) => signed.token,
            Self::Voucher(voucher) => voucher.token,
        }
    }

    /// Returns the account that pays.
    #[must_use]
    pub const fn payer(&self) -> Address {
        match self {
            Self::Transfer(transfer) => transfer.payer,
            Self::Authorization(signed) | Self::Permit(signed) => signed.payer,
            Self::Voucher(voucher) => voucher.payer,
        }
    }

    /// Returns the account that is paid.
    #[must_use]
    pub const fn recipient(&self) -> Address {
        match self {
            Self::Transfer(transfer) => transfer.recipient,
            Self::Authorization(signed) | Self::Permit(signed) => signed.recipient,
            Self::Voucher(voucher) => voucher.recipient,
        }
    }

    /// Returns the amount, in base units.
    #[must_use]
    pub const fn amount(&self) -> Amount {
        match self {
            Self::Transfer(transfer) => transfer.amount,
            Self::Authorization(signed) | Self::Permit(signed) => signed.amount,
            Self::Voucher(voucher) => voucher.amount,
        }
    }

    /// Replaces the amount that the payer allowed by the charge. A mined transfer keeps its amount.
    pub(crate) fn charged(self, charge: Amount) -> Self {
        match self {
            Self::Transfer(transfer) => Self::Transfer(transfer),
            Self::Authorization(signed) => Self::Authorization(signed.with_amount(charge)),
            Self::Permit(signed) => Self::Permit(signed.with_amount(charge)),
            Self::Voucher(voucher) => Self::Voucher(voucher.with_amount(charge)),
        }
    }

    /// Returns the transaction that made the payment, if one did.
    #[must_use]
    pub const fn transaction(&self) -> Option<TxHash> {
        match self {
            Self::Transfer(transfer) => Some(transfer.transaction),
            Self::Authorization(signed) | Self::Permit(signed) => signed.transaction,
            Self::Voucher(_) => None,
        }
    }

    /// Returns whether the payment has a transaction. A voucher never has one; it counts once it is charged.
    #[must_use]
    pub const fn is_settled(&self) -> bool {
        self.transaction().is_some()
    }

    /// Returns the position of its log in the transaction's receipt, from 0; `None` unless it is a mined transfer.
    #[must_use]
    pub const fn position(&self) -> Option<u32> {
        match self {
            Self::Transfer(transfer) => Some(transfer.position),
            Self::Authorization(_) | Self::Permit(_) | Self::Voucher(_) => None,
        }
    }

    /// Returns the height of its block; `None` unless it is a mined transfer.
    #[must_use]
    pub const fn block_number(&self) -> Option<u64> {
        match self {
            Self::Transfer(transfer) => Some(transfer.block_number),
            Self::Authorization(_) | Self::Permit(_) | Self::Voucher(_) => None,
        }
    }

    /// Returns the chain time from which its age counts: its block's, or the time at which it was shown.
    #[must_use]
    pub const fn time(&self) -> ChainTime {
        match self {
            Self::Transfer(transfer) => transfer.block_time,
            Self::Authorization(signed) | Self::Permit(signed) => signed.shown,
            Self::Voucher(voucher) => voucher.shown,
        }
    }

    /// Returns the nonce of its authorization or permit, or the bytes that identify a voucher's payment.
    #[must_use]
    pub const fn nonce(&self) -> Option<&[u8; 32]> {
        match self {
            Self::Transfer(transfer) => transfer.binding.nonce(),
            Self::Authorization(signed) | Self::Permit(signed) => Some(&signed.nonce),
            Self::Voucher(voucher) => Some(voucher.nonce()),
        }
    }
}
