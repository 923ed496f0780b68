//! One purchase, from the first request to the answer: budget, journal, and the conversation with the seller.

pub(crate) mod budget;
pub(crate) mod conversation;
pub(crate) mod from_quote;
pub(crate) mod journal;
pub(crate) mod left_over;
pub(crate) mod pacing;
pub(crate) mod progress;
pub(crate) mod purchase;
pub(crate) mod registry;
pub(crate) mod seller;

pub(crate) use budget::{DAY, Offer, Spent};
pub(crate) use conversation::{Conversation, Outcome};
pub(crate) use journal::ErasedJournal;
pub(crate) use left_over::LeftOver;
pub(crate) use pacing::Pacing;
pub(crate) use progress::Progress;
pub(crate) use registry::{ChannelGuard, Delivery, FoundChannel, PurchaseGuard, PurchaseRegistry, WantedChannel};
pub(crate) use seller::{Offered, Replied, Seller};
