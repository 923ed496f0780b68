//! One sale: an intent is opened, a payment reserved, the handler run, the sale recorded.

pub(crate) mod answer;
pub(crate) mod consumption;
pub(crate) mod deliver;
pub(crate) mod ending;
pub(crate) mod json_rpc;
pub(crate) mod opened;
pub(crate) mod read_ahead;
pub(crate) mod recording;
pub(crate) mod redelivery;
pub(crate) mod reservation;
pub(crate) mod sold_hook;
