//! The ways in which money moves: by a transfer that the payer sends, by an authorization or a permit that the seller
//! settles, or by a voucher that the seller charges to a channel.

pub(crate) mod authorization;
pub(crate) mod channel;
pub(crate) mod choice;
mod dispatch;
pub(crate) mod permit;
pub(crate) mod status;
pub(crate) mod transfer;
mod watch;

pub(crate) use authorization::sign::Authorizing;
pub(crate) use channel::{plan::ChannelPlan, sign::Vouching};
pub(crate) use choice::{Asking, Way};
pub(crate) use dispatch::DispatchContext;
pub(crate) use permit::{
    charge::{self, Charged},
    sign::Permitting,
};
pub(crate) use transfer::{Followed, TransferDriver};
