//! Properties: written messages read back unchanged, and no bytes make a reader panic.

use http::{HeaderMap, HeaderValue};
use proptest::{collection::vec, option, prelude::*};

use super::{
    PROOF, payment, proof, quote,
    strategies::{authorization, extensions, object, payment_proof, requirements, resource, response},
};
use crate::protocol::{
    HEADER_MAX,
    headers::{PAYMENT_REQUIRED, PAYMENT_RESPONSE, PAYMENT_SIGNATURE},
    tests::cases,
    v2::{
        FacilitatorRequest, PaymentPayload, PaymentRequired, Reason, SchemePayload, SettleResponse, Supported,
        VerifyResponse,
    },
};

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn quotes_survive(first in requirements(), more in vec(requirements(), 0..3), resource in option::of(resource()), extensions in extensions()) {
        let quote = more.into_iter().fold(PaymentRequired::new(first), PaymentRequired::or);
        let quote = resource.into_iter().fold(quote, PaymentRequired::with_resource).with_extensions(extensions);
        let quote = quote.with_error(&Reason::INVALID_PAYLOAD);
        let json = quote.to_json();
        prop_assert!(json.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{}", json);
        prop_assert_eq!(&PaymentRequired::from_json(&json), &Ok(quote.clone()));
        let mut headers = HeaderMap::new();
        headers.insert(PAYMENT_REQUIRED, quote.to_header());
        prop_assert_eq!(PaymentRequired::from_headers_up_to(usize::MAX, &headers), Ok(Some(quote)));
    }

    #[test]
    fn payments_survive(accepted in requirements(), resource in resource(), signed in authorization(), proof in payment_proof(), extensions in extensions()) {
        let by_signature = PaymentPayload::new(accepted.clone(), signed);
        let by_transfer = PaymentPayload::new(accepted.clone().with_client_submitted_transfer(), proof);
        for payment in [by_signature, by_transfer] {
            let payment = payment.with_resource(resource.clone()).with_extensions(extensions.clone());
            prop_assert_eq!(&PaymentPayload::from_json(payment.to_json()), &Ok(payment.clone()));
            let request = FacilitatorRequest::new(payment, accepted.clone());
            prop_assert_eq!(FacilitatorRequest::from_json(request.to_json()), Ok(request));
        }
    }

    #[test]
    fn payloads_that_are_not_known_survive(accepted in requirements(), object in object()) {
        let other = SchemePayload::Other(object);
        let payment = PaymentPayload::new(accepted.with_extra("assetTransferMethod", "permit2"), other);
        prop_assert_eq!(PaymentPayload::from_json(payment.to_json()), Ok(payment));
    }

    #[test]
    fn responses_survive(response in response()) {
        prop_assert_eq!(SettleResponse::from_json(response.to_json()), Ok(response));
    }

    #[test]
    fn no_bytes_make_a_reader_panic(bytes in vec(any::<u8>(), 0..200)) {
        read_everything(&bytes)?;
    }

    /// Messages with a few changed bytes reach deeper than arbitrary bytes.
    #[test]
    fn no_change_makes_a_reader_panic(which in 0_usize..5, changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4)) {
        let messages = [payment(), proof(), quote(), PROOF.to_owned(), r#"{"success":false,"isValid":true,"kinds":[]}"#.to_owned()];
        let mut bytes = messages[which].clone().into_bytes();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        read_everything(&bytes)?;
    }
}

/// Reads these bytes as every message, and checks that what was read round-trips.
fn read_everything(bytes: &[u8]) -> Result<(), TestCaseError> {
    macro_rules! again {
        ($($message:ident),+) => {$(
            if let Ok(message) = $message::from_json(bytes) {
                prop_assert_eq!($message::from_json(message.to_json()), Ok(message));
            }
        )+};
    }
    again!(PaymentRequired, PaymentPayload, SettleResponse, VerifyResponse, FacilitatorRequest, Supported);
    let base64 = crate::protocol::encoding::base64_header(bytes);
    for value in [HeaderValue::from_bytes(bytes).ok(), Some(base64)].into_iter().flatten() {
        let mut headers = HeaderMap::new();
        for name in [PAYMENT_REQUIRED, PAYMENT_SIGNATURE, PAYMENT_RESPONSE] {
            headers.insert(name, value.clone());
        }
        let read = PaymentPayload::from_headers(&headers);
        prop_assert_eq!(&read, &PaymentPayload::from_headers_up_to(HEADER_MAX, &headers));
        let _ = (PaymentRequired::from_headers(&headers), SettleResponse::from_headers(&headers));
    }
    Ok(())
}
