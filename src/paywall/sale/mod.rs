//! One sale: an intent is opened, a payment reserved, the handler run, and the sale recorded.

pub(crate) mod answer;
pub(crate) mod call;
pub(crate) mod charge;
pub(crate) mod deliver;
pub(crate) mod draw;
pub(crate) mod ending;
pub(crate) mod handler;
pub(crate) mod holder;
pub(crate) mod kept_answer;
pub(crate) mod opened;
pub(crate) mod parts;
pub(crate) mod read_ahead;
pub(crate) mod recording;
pub(crate) mod reservation;
pub(crate) mod settle;
pub(crate) mod unanswered;
pub(crate) mod upkeep;
