//! `PaymentIdentifier`: whether a merchant reads the names that clients give their purchases.

/// A setting of [`MerchantBuilder::payment_identifier`](crate::MerchantBuilder::payment_identifier).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PaymentIdentifier {
    /// A client may name its purchase, and is then charged for it once.
    Optional,
    /// A client must name its purchase wherever its payment has a place for the name. Without one, the answer is 400
    /// `payment_id_required`, and nothing is taken.
    ///
    /// A hash in `x402-payment` or in the body, and a payment of x402 version 1, have no such place, and need no name: a
    /// transfer is made already, and its intent names the purchase.
    Required,
}

impl PaymentIdentifier {
    pub(crate) const fn is_required(self) -> bool {
        matches!(self, Self::Required)
    }
}
