//! Reads and writes all messages as JSON, and those that travel in a header as its value.

use http::{HeaderMap, HeaderName, HeaderValue};
use serde::{Serialize, Serializer};

use super::{
    ascii::to_ascii_json,
    error::{InvalidMessage, InvalidMessageKind},
    object::Object,
};
use crate::protocol::encoding::{base64_header, decode_base64};

/// The member `x402Version`, which is 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Version2;

const VERSION: &str = "x402Version";

impl Version2 {
    /// Reads the version, before anything else: another version has other members.
    pub(super) fn read(object: &Object<'_>) -> Result<Self, InvalidMessage> {
        match object.json::<u64>(VERSION)? {
            Some(2) => Ok(Self),
            Some(_) => Err(InvalidMessage::new(InvalidMessageKind::Version)),
            None => Err(InvalidMessage::member(VERSION)),
        }
    }
}

impl Serialize for Version2 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u8(2)
    }
}

/// Reads a message from JSON.
pub(in crate::protocol) fn from_json<T>(
    json: &[u8],
    read: impl FnOnce(&Object<'_>) -> Result<T, InvalidMessage>,
) -> Result<T, InvalidMessage> {
    // serde_json does not check the UTF-8 of skipped values.
    let object = std::str::from_utf8(json).ok().and_then(Object::parse);
    read(&object.ok_or(InvalidMessage::new(InvalidMessageKind::NotJson))?)
}

/// Decodes the single header of that name to JSON.
pub(in crate::protocol) fn from_headers(
    headers: &HeaderMap,
    name: &HeaderName,
    limit: usize,
) -> Result<Option<Vec<u8>>, InvalidMessage> {
    let mut values = headers.get_all(name).iter();
    let kind = match (values.next(), values.next()) {
        (None, _) => return Ok(None),
        (Some(_), Some(_)) => InvalidMessageKind::Repeated,
        (Some(value), None) if value.len() > limit => InvalidMessageKind::TooLong,
        (Some(value), None) => match decode_base64(value.as_bytes()) {
            Some(json) => return Ok(Some(json)),
            None => InvalidMessageKind::NotBase64,
        },
    };
    Err(InvalidMessage::new(kind))
}

/// Returns base64 of a message's JSON.
pub(in crate::protocol) fn to_header(message: &impl Serialize) -> HeaderValue {
    base64_header(to_ascii_json(message).as_bytes())
}

/// Implements JSON for a message that has `fn read(&Object<'_>) -> Result<Self, InvalidMessage>`.
macro_rules! json_message {
    ($name:ident) => {
        impl $name {
            /// Reads the message from JSON: one object in UTF-8. Members that the standard does not know are ignored.
            /// Reads the message from JSON: one object in UTF-8. Members that are unknown to the standard are
            /// ignored.
            /// # Errors
            /// Returns [`InvalidMessage`](crate::protocol::v2::InvalidMessage), which names the first invalid member.
            pub fn from_json(json: impl AsRef<[u8]>) -> Result<Self, $crate::protocol::v2::InvalidMessage> {
                $crate::protocol::v2::message::from_json(json.as_ref(), Self::read)
            }

            /// Returns the message as compact JSON in ASCII; other characters are escaped.
            #[must_use]
            pub fn to_json(&self) -> String {
                $crate::protocol::v2::ascii::to_ascii_json(self)
            }
        }
    };
}

/// Implements JSON and the header for a message.
macro_rules! header_message {
    ($name:ident, $header:ident) => {
        $crate::protocol::v2::message::json_message!($name);

        impl $name {
            /// Reads the message from its header, up to [`HEADER_MAX`](crate::protocol::HEADER_MAX) bytes. Returns `None` if there is none.
            ///
            /// The header is base64 of JSON, of the standard or the URL-safe alphabet, with or without padding.
            ///
            /// # Errors
            /// Returns [`InvalidMessage`](crate::protocol::v2::InvalidMessage) if the header is sent twice, is too
            /// long, or is not such a message.
            pub fn from_headers(
                headers: &http::HeaderMap,
            ) -> Result<Option<Self>, $crate::protocol::v2::InvalidMessage> {
                Self::from_headers_up_to($crate::protocol::HEADER_MAX, headers)
            }

            /// Reads the message from its header, up to `limit` bytes of base64.
            pub(crate) fn from_headers_up_to(
                limit: usize,
                headers: &http::HeaderMap,
            ) -> Result<Option<Self>, $crate::protocol::v2::InvalidMessage> {
                let name = $crate::protocol::headers::$header;
                let json = $crate::protocol::v2::message::from_headers(headers, &name, limit)?;
                json.map(Self::from_json).transpose()
            }

            /// Returns the value of the message's header: padded base64 of its JSON, in the standard alphabet.
            #[must_use]
            pub fn to_header(&self) -> http::HeaderValue {
                $crate::protocol::v2::message::to_header(self)
            }
        }
    };
}

pub(in crate::protocol) use {header_message, json_message};
