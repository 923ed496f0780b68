//! `Redelivery`: whether and how long a route's answers are kept.

use std::time::Duration;

/// Keeps a route's sold answers for a while, so that they are not lost with a connection.
///
/// The same intent with the same transaction gets the same answer, byte for byte, without a run of the handler. The
/// ledger keeps the response as the payer got it: status, headers and body, unencrypted, for the time that is set here.
/// Answers may contain personal data, and every reader of the ledger can read them. The sale is remembered for that much
/// longer as well.
///
/// An answer is read to its end before it is sold. An answer that is larger than [`up_to`](Self::up_to), that takes longer than ten seconds
/// to end, or that has trailers is delivered without being kept. So are a switch of protocols (101), event streams and gRPC, which are not
/// waited for. An answer that breaks off, or is not as long as its `Content-Length`, is not sold: the client gets 502 `answer_broken`.
///
/// ```
/// use std::time::Duration;
/// use tower_x402::Redelivery;
/// # fn layer(layer: tower_x402::X402Layer) -> tower_x402::X402Layer {
/// layer.redeliver(Redelivery::lasting(Duration::from_secs(15 * 60)).up_to(64 * 1024))
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Redelivery {
    keep_for: Duration,
    limit: usize,
}

impl Redelivery {
    /// Keeps answers of up to 256 KiB for that long, at least a second and at most 30 days. Zero keeps none.
    pub const fn lasting(keep_for: Duration) -> Self {
        Self { keep_for, limit: 256 * 1024 }
    }

    /// Sets the largest body that is kept, in bytes. An answer that the ledger does not store within two seconds is sold without being
    /// kept.
    pub const fn up_to(mut self, bytes: usize) -> Self {
        self.limit = bytes;
        self
    }

    pub(crate) const fn is_on(&self) -> bool {
        !self.keep_for.is_zero()
    }

    pub(crate) const fn limit(&self) -> usize {
        self.limit
    }

    /// Returns how long an answer is kept, within what every ledger can keep.
    pub(crate) fn keep_for(&self) -> Duration {
        self.keep_for.clamp(Duration::from_secs(1), LONGEST)
    }
}

/// Fifteen minutes, 256 KiB.
impl Default for Redelivery {
    fn default() -> Self {
        Self::lasting(Duration::from_secs(15 * 60))
    }
}

/// The longest time for which an answer is kept: a ledger need not hold answers that payers no longer ask for.
const LONGEST: Duration = Duration::from_secs(30 * 24 * 60 * 60);
