//! `NoPayer`: for clients that redeem what was paid elsewhere, and pay nothing.

use super::{Fate, Payer, PayerError, Payment, Prepared, Turn};
use crate::protocol::TxHash;

/// Pays nothing. With it a client redeems what was paid by hand: see [`Paid`](super::Paid).
#[derive(Clone, Copy, Debug, Default)]
pub struct NoPayer;

const REFUSAL: PayerError = PayerError::Refused("this client has no wallet");

impl Payer for NoPayer {
    async fn turn(&self) -> Turn {
        Turn::free()
    }

    async fn prepare(&self, _: &Payment) -> Result<Prepared, PayerError> {
        Err(REFUSAL)
    }

    async fn send(&self, _: &Prepared) -> Result<TxHash, PayerError> {
        Err(REFUSAL)
    }

    async fn fate(&self, _: &[Prepared]) -> Result<Fate, PayerError> {
        Err(REFUSAL)
    }

    async fn replace(&self, _: &[Prepared]) -> Result<Option<Prepared>, PayerError> {
        Err(REFUSAL)
    }
}
