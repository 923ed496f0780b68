//! The boxed twin of [`Payer`], so that the layer is not generic over it.

use std::{future::Future, pin::Pin};

use super::{Fate, Payer, PayerError, Payment, Prepared, Turn};
use crate::protocol::TxHash;

type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

pub(in crate::client) trait ErasedPayer: Send + Sync + 'static {
    fn turn(&self) -> Boxed<'_, Turn>;
    fn prepare<'a>(&'a self, payment: &'a Payment) -> Boxed<'a, Result<Prepared, PayerError>>;
    fn send<'a>(&'a self, prepared: &'a Prepared) -> Boxed<'a, Result<TxHash, PayerError>>;
    fn fate<'a>(&'a self, prepared: &'a [Prepared]) -> Boxed<'a, Result<Fate, PayerError>>;
    fn replace<'a>(&'a self, prepared: &'a [Prepared]) -> Boxed<'a, Result<Option<Prepared>, PayerError>>;
}

impl<P: Payer> ErasedPayer for P {
    fn turn(&self) -> Boxed<'_, Turn> {
        Box::pin(Payer::turn(self))
    }

    fn prepare<'a>(&'a self, payment: &'a Payment) -> Boxed<'a, Result<Prepared, PayerError>> {
        Box::pin(Payer::prepare(self, payment))
    }

    fn send<'a>(&'a self, prepared: &'a Prepared) -> Boxed<'a, Result<TxHash, PayerError>> {
        Box::pin(Payer::send(self, prepared))
    }

    fn fate<'a>(&'a self, prepared: &'a [Prepared]) -> Boxed<'a, Result<Fate, PayerError>> {
        Box::pin(Payer::fate(self, prepared))
    }

    fn replace<'a>(&'a self, prepared: &'a [Prepared]) -> Boxed<'a, Result<Option<Prepared>, PayerError>> {
        Box::pin(Payer::replace(self, prepared))
    }
}
