//! The headers that carry a signed payment.

use base64::{Engine as _, engine::general_purpose::STANDARD};

use crate::{
    client::{Standard, http::CarriedProof},
    protocol::{
        headers::{PAYMENT_SIGNATURE, X_PAYMENT},
        mpp,
    },
};

/// Returns the headers for a message. Their names depend on the standard, and in MPP on the challenge.
pub(crate) fn proof(message: &str) -> CarriedProof {
    let name = match Standard::of_message(message) {
        Standard::X402 => PAYMENT_SIGNATURE,
        Standard::X402V1 => X_PAYMENT,
        Standard::Mpp => {
            let mpp::Shown { header, credential, purchase } = mpp::Shown::of(message);
            return CarriedProof::in_header(header, credential).naming(purchase);
        }
    };
    CarriedProof::in_header(name, STANDARD.encode(message))
}
