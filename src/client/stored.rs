//! The journal's text for values without their own: times as Unix seconds, an authorization with everything needed to
//! read it again.

/// A moment, in Unix seconds.
pub(in crate::client) mod unix {
    use serde::{Deserialize as _, Deserializer, Serializer};

    use crate::protocol::ChainTime;

    pub(in crate::client) fn serialize<S: Serializer>(time: &ChainTime, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(time.unix())
    }

    pub(in crate::client) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<ChainTime, D::Error> {
        u64::deserialize(from).map(ChainTime::from_unix)
    }
}

/// The same, where there is one.
pub(in crate::client) mod unix_if_any {
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    use crate::protocol::ChainTime;

    pub(in crate::client) fn serialize<S: Serializer>(time: &Option<ChainTime>, to: S) -> Result<S::Ok, S::Error> {
        time.map(ChainTime::unix).serialize(to)
    }

    pub(in crate::client) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<ChainTime>, D::Error> {
        Ok(Option::deserialize(from)?.map(ChainTime::from_unix))
    }
}

/// A signed authorization.
pub(in crate::client) mod signed {
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
        #[serde(with = "super::unix")]
        valid_after: ChainTime,
        #[serde(with = "super::unix")]
        valid_before: ChainTime,
        nonce: TxHash,
        signature: String,
    }

    pub(in crate::client) fn serialize<S: Serializer>(signed: &SignedAuthorization, to: S) -> Result<S::Ok, S::Error> {
        let Authorization { from, to: recipient, value, valid_after, valid_before, nonce } = signed.authorization;
        let (nonce, signature) = (TxHash::new(nonce), signed.signature.to_string());
        Stored { from, to: recipient, value, valid_after, valid_before, nonce, signature }.serialize(to)
    }

    pub(in crate::client) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<SignedAuthorization, D::Error> {
        let Stored { from, to, value, valid_after, valid_before, nonce, signature } = Stored::deserialize(from)?;
        let authorization = Authorization::new(from, *nonce.as_bytes()).paying(to, value);
        let signature = signature.parse().map_err(|_| D::Error::custom("no signature"))?;
        Ok(SignedAuthorization::new(authorization.valid_between(valid_after, valid_before), signature))
    }
}
