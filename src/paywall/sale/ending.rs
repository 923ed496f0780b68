//! `Ending`: what happens to a lease once the handler is done.

use http::Response;

use crate::paywall::{
    body::ResponseBody,
    refusal::{Problem, Rejection},
};

/// What happens to the lease once the handler is done.
pub(crate) enum Ending<A, ResB, E> {
    /// The lease is committed, and only then this answer leaves.
    Sale(A),
    /// The lease is released, and this is the answer.
    NoSale(Result<Response<ResponseBody<ResB>>, Unsold<E>>),
    /// The lease belongs to another request: there is nothing to release.
    LeaseLost,
    /// It is unknown whether the payment is settled. If this lease may have sent it, the lease is left to expire; otherwise it is released.
    Unknown(Problem),
}

impl<A, ResB, E> Ending<A, ResB, E> {
    /// Returns the answer to sell, or the other ending.
    #[expect(clippy::result_large_err, reason = "it is as large as what it is made of, and is moved on at once")]
    pub(crate) fn split<B>(self) -> Result<A, Ending<B, ResB, E>> {
        match self {
            Self::Sale(sold) => Ok(sold),
            Self::NoSale(answer) => Err(Ending::NoSale(answer)),
            Self::LeaseLost => Err(Ending::LeaseLost),
            Self::Unknown(problem) => Err(Ending::Unknown(problem)),
        }
    }
}

/// Why no answer of the handler leaves.
pub(crate) enum Unsold<E> {
    Rejected(Rejection),
    /// The service's own error, passed on unchanged.
    Failed(E),
}

impl<E, R: Into<Rejection>> From<R> for Unsold<E> {
    fn from(rejection: R) -> Self {
        Self::Rejected(rejection.into())
    }
}
