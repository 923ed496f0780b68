//! `Maintenance`: the operator's view of a ledger.

use std::{future::Future, sync::Arc};

use super::{Ledger, LedgerError};
use crate::protocol::{ChainTime, Network};

/// The operator's side of a [`Ledger`]: its size and its low-water marks, one for each network.
///
/// Every ledger of this crate implements it. Sales do not depend on it.
///
/// ```
/// use tower_x402::{
///     ledger::{Ledger, LedgerError, Maintenance, MemoryLedger},
///     protocol::{ChainTime, Network},
/// };
///
/// /// After a backup was restored: payments mined until `now` that the backup does not know of are refused.
/// async fn restored(ledger: &impl Maintenance, now: ChainTime) -> Result<(), LedgerError> {
///     match ledger.raise_mark_to(Network::BASE, now).await? {
///         Some(mark) => println!("payments up to {} are refused", mark.unix()),
///         None => println!("the ledger has not begun: it begins when the server starts"),
///     }
///     Ok(())
/// }
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let ledger = MemoryLedger::new();
/// ledger.begin(Network::BASE, ChainTime::from_unix(1_795_280_400)).await?;
/// restored(&ledger, ChainTime::from_unix(1_795_290_000)).await?;
/// assert_eq!(ledger.low_water_mark(Network::BASE).await?, Some(ChainTime::from_unix(1_795_290_000)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Maintenance: Ledger {
    /// Returns the present number of records. SQL ledgers count their rows. That takes time in proportion to the rows,
    /// and fails after the ledger's time limit.
    ///
    /// # Errors
    /// [`LedgerError`] if the backend does not answer, or its contents belong to another version.
    fn size(&self) -> impl Future<Output = Result<LedgerSize, LedgerError>> + Send;

    /// Returns the low-water mark of a network: its payments up to this block time are refused unless the ledger knows them as sold.
    /// `None` until the ledger has [begun](Ledger::begin) there.
    ///
    /// # Errors
    /// [`LedgerError`] if the backend does not answer, or its contents belong to another version.
    fn low_water_mark(&self, network: Network) -> impl Future<Output = Result<Option<ChainTime>, LedgerError>> + Send;

    /// Raises a network's low-water mark to `time`if it is lower, and returns the resulting mark. Returns `None` and
    /// changes nothing if the ledger has not [begun](Ledger::begin) there, since it will begin in the present.
    ///
    /// For a restored backup, and for a fail-over to a replica that may lack the last sales. Pass the verifier's
    /// [`horizon`](crate::verify::Verifier::horizon). Payments of lost sales are then refused as too old, and so is
    /// every payment up to `time` that was not redeemed yet. If a log has the sales, record them first:
    /// [`Merchant::restore_sales`](crate::Merchant::restore_sales).
    ///
    /// # Errors
    /// [`LedgerError`] if the backend does not answer, lost its records, or has contents of another version.
    fn raise_mark_to(
        &self,
        network: Network,
        time: ChainTime,
    ) -> impl Future<Output = Result<Option<ChainTime>, LedgerError>> + Send;

    /// Lowers a network's low-water mark to `time`if it is higher, and returns the resulting mark. Returns `None` and
    /// changes nothing if the ledger has not [begun](Ledger::begin) there.
    ///
    /// For an operator who has imported the records of all sales of payments later than `time`. A payment with a
    /// missing record can be sold again.
    ///
    /// # Errors
    /// As [`raise_mark_to`](Self::raise_mark_to).
    fn lower_mark_to(
        &self,
        network: Network,
        time: ChainTime,
    ) -> impl Future<Output = Result<Option<ChainTime>, LedgerError>> + Send;
}

/// The number of records of a ledger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LedgerSize {
    /// Leases that are held, including expired ones that were not taken over.
    pub held: u64,
    /// Sales on record, except those that are only in the book.
    pub remembered: u64,
}

/// A shared handle.
impl<L: Maintenance> Maintenance for Arc<L> {
    fn size(&self) -> impl Future<Output = Result<LedgerSize, LedgerError>> + Send {
        L::size(self)
    }

    fn low_water_mark(&self, network: Network) -> impl Future<Output = Result<Option<ChainTime>, LedgerError>> + Send {
        L::low_water_mark(self, network)
    }

    fn raise_mark_to(
        &self,
        network: Network,
        time: ChainTime,
    ) -> impl Future<Output = Result<Option<ChainTime>, LedgerError>> + Send {
        L::raise_mark_to(self, network, time)
    }

    fn lower_mark_to(
        &self,
        network: Network,
        time: ChainTime,
    ) -> impl Future<Output = Result<Option<ChainTime>, LedgerError>> + Send {
        L::lower_mark_to(self, network, time)
    }
}
