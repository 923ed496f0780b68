//! The journal's form of a signed permit, with everything needed to read it back.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use crate::protocol::{
    Address, Amount, ChainTime, TxHash,
    permit2::{Permit, PermitScheme, SignedPermit},
};

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Stored {
    from: Address,
    to: Address,
    token: Address,
    amount: Amount,
    /// Only in the scheme `upto`.
    facilitator: Option<Address>,
    spender: Address,
    valid_after: ChainTime,
    deadline: ChainTime,
    nonce: TxHash,
    signature: String,
}

pub(super) fn serialize<S: Serializer>(signed: &SignedPermit, to: S) -> Result<S::Ok, S::Error> {
    let Permit { from, to: recipient, token, amount, facilitator, spender, valid_after, deadline, nonce } =
        signed.permit;
    let (nonce, signature) = (TxHash::new(nonce), signed.signature.to_string());
    let stored =
        Stored { from, to: recipient, token, amount, facilitator, spender, valid_after, deadline, nonce, signature };
    stored.serialize(to)
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<SignedPermit, D::Error> {
    let stored = Stored::deserialize(from)?;
    let scheme = stored.facilitator.map_or(PermitScheme::Exact, |_| PermitScheme::UpTo);
    let permit = Permit::new(scheme, stored.from, *stored.nonce.as_bytes())
        .paying(stored.to, stored.token, stored.amount)
        .valid_between(stored.valid_after, stored.deadline);
    let permit = Permit { facilitator: stored.facilitator, spender: stored.spender, ..permit };
    let signature = stored.signature.parse().map_err(|_| D::Error::custom("no signature"))?;
    Ok(SignedPermit::new(permit, signature))
}
