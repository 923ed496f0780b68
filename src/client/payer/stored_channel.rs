//! The journal's form of a channel and of its payments: the standard's own.

/// A channel.
pub(in crate::client) mod config {
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer, de::Error as _};
    use serde_json::Value;

    use crate::protocol::channel::ChannelConfig;

    pub(in crate::client) fn serialize<S: Serializer>(config: &ChannelConfig, to: S) -> Result<S::Ok, S::Error> {
        config.serialize(to)
    }

    pub(in crate::client) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<ChannelConfig, D::Error> {
        let written = Value::deserialize(from)?.to_string();
        ChannelConfig::from_json(&written).ok_or_else(|| D::Error::custom("no channel"))
    }
}

/// A payment by a channel.
pub(in crate::client) mod payload {
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer, de::Error as _};
    use serde_json::Value;

    use crate::protocol::channel::ChannelPayload;

    pub(in crate::client) fn serialize<S: Serializer>(payload: &ChannelPayload, to: S) -> Result<S::Ok, S::Error> {
        payload.serialize(to)
    }

    pub(in crate::client) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<ChannelPayload, D::Error> {
        let written = Value::deserialize(from)?.to_string();
        ChannelPayload::from_json(&written).ok_or_else(|| D::Error::custom("no payment by a channel"))
    }
}
