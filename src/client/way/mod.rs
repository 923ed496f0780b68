//! How the money moves: by a transfer that the payer sends, or an authorization or a permit that the seller settles.

pub(crate) mod authorization;
pub(crate) mod choice;
mod dispatch;
pub(crate) mod permit;
pub(crate) mod status;
pub(crate) mod transfer;
mod watch;

pub(crate) use authorization::sign::Authorizing;
pub(crate) use choice::{Asking, Way};
pub(crate) use dispatch::DispatchContext;
pub(crate) use permit::{
    charge::{self, Charged},
    sign::Permitting,
};
pub(crate) use transfer::{Followed, TransferDriver};
