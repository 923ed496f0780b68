//! The journal's form of a signed authorization, with everything needed to read it back.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use crate::protocol::{
    Address, Amount, ChainTime, TxHash,
    v2::{Authorization, SignedAuthorization},
};

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Stored {
    from: Address,
    to: Address,
    value: Amount,
    valid_after: ChainTime,
    valid_before: ChainTime,
    nonce: TxHash,
    signature: String,
}

pub(super) fn serialize<S: Serializer>(signed: &SignedAuthorization, to: S) -> Result<S::Ok, S::Error> {
    let Authorization { from, to: recipient, value, valid_after, valid_before, nonce } = signed.authorization;
    let (nonce, signature) = (TxHash::new(nonce), signed.signature.to_string());
    Stored { from, to: recipient, value, valid_after, valid_before, nonce, signature }.serialize(to)
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<SignedAuthorization, D::Error> {
    let Stored { from, to, value, valid_after, valid_before, nonce, signature } = Stored::deserialize(from)?;
    let authorization = Authorization::new(from, *nonce.as_bytes()).paying(to, value);
    let signature = signature.parse().map_err(|_| D::Error::custom("no signature"))?;
    Ok(SignedAuthorization::new(authorization.valid_between(valid_after, valid_before), signature))
}
