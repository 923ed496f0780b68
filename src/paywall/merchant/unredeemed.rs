//! `Unredeemed`: payments that bought nothing, for refunds by the seller.

use std::collections::HashSet;

use crate::{
    ledger::{Refund, SalesBook},
    paywall::{error::HealthError, merchant::Merchant, seller::time_limits::ledger_in_time},
    protocol::{Amount, ByPermit, ChainTime, Network, PaymentId, Transfer},
    verify::{TransferHistory, TransferQuery},
};

/// How many payments a book is asked about at once.
const AT_ONCE: usize = 500;

/// A transfer to the merchant that bought nothing, according to chain and book.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unredeemed {
    /// The payment's id. Its refund is noted under it.
    pub payment: PaymentId,
    /// The transfer: payer, amount, time and place.
    pub transfer: Transfer,
    /// Why it bought nothing.
    pub reason: UnredeemedReason,
    /// Until this chain time it can still be redeemed, even after a refund. `None` if it can no longer be redeemed, or
    /// never could.
    pub redeemable_until: Option<ChainTime>,
    /// Its refund, if the seller noted one.
    pub refund: Option<Refund>,
}

/// Why a transfer bought nothing, if known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UnredeemedReason {
    /// It was never redeemed, and still can be. If it came too late for its quote, it needs a fresh intent.
    NotRedeemed,
    /// It is older than payments may be, and can no longer be redeemed.
    TooOld,
    /// It was mined at or below the ledger's low-water mark, and is refused: it may have bought an answer that the
    /// ledger has no record of, because a backup was restored, or the sale was deleted from the book. The log decides.
    BelowMark,
    /// It was made from a Permit2 permit, by a transaction that does not tell which one. Only the log tells whether that permit bought an
    /// answer. It cannot be redeemed by its transaction.
    PermitUntold,
    /// It is below every present price of the merchant, and above the mark.
    BelowEveryPrice {
        /// The lowest price.
        lowest: Amount,
    },
}

impl Merchant {
    /// Lists the transfers to this merchant on its first network, to present and former recipients, that bought nothing:
    /// never redeemed, too late, below every price, or a second payment for one intent. The seller may refund them; the
    /// paywall does not. The call changes nothing, except that a new ledger [begins](crate::ledger::Ledger::begin), as
    /// at the start of the server.
    ///
    /// `history` reads the chain, `book` belongs to the merchant's ledger, and the span is in chain time, from `since`
    /// until before `until`. Payment ids relate transfers to sales.
    ///
    /// - A payment that is being redeemed at this moment is listed as well.
    /// - A transfer mined at or below the ledger's low-water mark is [below the mark](UnredeemedReason::BelowMark): do
    ///   not refund it before a log shows that it bought nothing. [`restore_sales`](Self::restore_sales) records the
    ///   sales of a log.
    /// - Sales that the book lacks are listed: those that the seller deleted from it, and on Redis, unless it keeps the
    ///   book, sales of more than two days ago.
    /// - Transfers from a present or former recipient, which the seller made itself, are not listed.
    ///
    #[cfg_attr(all(feature = "evm", feature = "sqlite"), doc = "```no_run")]
    #[cfg_attr(not(all(feature = "evm", feature = "sqlite")), doc = "```ignore")]
    /// # async fn run(
    /// #     merchant: tower_x402::Merchant,
    /// #     verifier: tower_x402::verify::EvmVerifier,
    /// #     ledger: tower_x402::ledger::SqliteLedger,
    /// # ) -> Result<(), tower_x402::HealthError> {
    /// use tower_x402::protocol::ChainTime;
    ///
    /// let week = ChainTime::from_unix(1_795_280_400)..ChainTime::from_unix(1_795_885_200);
    /// for owed in merchant.unredeemed(&verifier, &ledger, week.start, Some(week.end)).await? {
    ///     println!("{} paid {} in {}: {:?}", owed.transfer.payer, owed.transfer.amount, owed.payment, owed.reason);
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`HealthError`] names the backend that does not answer. No partial list is returned.
    pub async fn unredeemed(
        &self,
        history: &impl TransferHistory,
        book: &impl SalesBook,
        since: ChainTime,
        until: Option<ChainTime>,
    ) -> Result<Vec<Unredeemed>, HealthError> {
        self.unredeemed_on(self.network(), history, book, since, until).await
    }

    /// Lists what [`unredeemed`](Self::unredeemed) lists, on one of the merchant's [networks](Self::networks); `history` reads that chain.
    ///
    /// # Errors
    /// [`HealthError`] names the backend that does not answer, or the network if the merchant does not sell there.
    pub async fn unredeemed_on(
        &self,
        network: Network,
        history: &impl TransferHistory,
        book: &impl SalesBook,
        since: ChainTime,
        until: Option<ChainTime>,
    ) -> Result<Vec<Unredeemed>, HealthError> {
        let inner = &self.inner;
        let chain = inner.sold_on(network)?;
        let query = TransferQuery::new(inner.recipients.iter().copied(), chain.accepted.iter().cloned()).since(since);
        let query = until.into_iter().fold(query, TransferQuery::until);
        let head = chain.view.head().await?;
        let mark = ledger_in_time(inner.ledger.begin(network, chain.view.horizon().await?)).await?;
        let mut transfers = history.transfers(&query).await?;
        transfers.retain(|transfer| !inner.recipients.contains(&transfer.payer));
        // A payment has one name: nothing is listed twice.
        let mut met = HashSet::new();
        transfers.retain(|transfer| met.insert(transfer.payment_id()));
        let mut unredeemed = Vec::new();
        for transfers in transfers.chunks(AT_ONCE) {
            let payments: Vec<_> = transfers.iter().map(Transfer::payment_id).collect();
            let known = book.known(&payments).await?;
            let unsold = transfers.iter().zip(known).filter(|(_, known)| !known.sold);
            unredeemed.extend(unsold.map(|(transfer, known)| self.listed(transfer, known.refund, head, mark)));
        }
        Ok(unredeemed)
    }

    fn listed(&self, transfer: &Transfer, refund: Option<Refund>, head: ChainTime, mark: ChainTime) -> Unredeemed {
        let last = transfer.block_time.after(self.inner.max_payment_age);
        let lowest = self.inner.catalog.lowest_price();
        // The charge of a permit may be any part of its price, and still buys its answer.
        let is_below = |lowest: &Amount| transfer.binding.permit().is_none() && transfer.amount < *lowest;
        let reason = match lowest.filter(is_below) {
            // At any age and any price: a sale without a record must not be refunded.
            _ if transfer.block_time <= mark => UnredeemedReason::BelowMark,
            _ if transfer.binding.permit() == Some(ByPermit::Untold) => UnredeemedReason::PermitUntold,
            Some(lowest) => UnredeemedReason::BelowEveryPrice { lowest },
            None if last < head => UnredeemedReason::TooOld,
            None => UnredeemedReason::NotRedeemed,
        };
        let redeemable_until = (reason == UnredeemedReason::NotRedeemed).then_some(last);
        Unredeemed { payment: transfer.payment_id(), transfer: transfer.clone(), reason, redeemable_until, refund }
    }
}
