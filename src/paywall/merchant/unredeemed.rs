//! `Unredeemed`: what was paid and bought nothing, for the seller to give back.

use std::collections::HashSet;

use crate::{
    ledger::{Refund, SalesBook},
    paywall::{error::HealthError, merchant::Merchant, seller::time_limits::ledger_in_time},
    protocol::{Amount, ChainTime, PaymentId, Transfer},
    verify::{TransferHistory, TransferQuery},
};

/// How many payments a book is asked about at once.
const AT_ONCE: usize = 500;

/// A transfer to the merchant that bought nothing, as far as chain and book tell.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unredeemed {
    /// The payment's id. Its refund is noted under it.
    pub payment: PaymentId,
    /// Who paid, what, when and where.
    pub transfer: Transfer,
    /// Why it bought nothing.
    pub reason: UnredeemedReason,
    /// Until this chain time it can still be redeemed: what is given back before can buy an answer all the same. `None` where it can no
    /// longer, or never could.
    pub redeemable_until: Option<ChainTime>,
    /// How it was given back, where the seller noted that.
    pub refund: Option<Refund>,
}

/// Why a transfer bought nothing, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UnredeemedReason {
    /// It was never redeemed, and still can be: for a payment that came too late for its quote, with a fresh intent.
    NotRedeemed,
    /// It is older than payments may be, and can no longer be redeemed.
    TooOld,
    /// It was mined at or below the ledger's low-water mark, and is refused: it may have bought an answer that the ledger has no record
    /// of, because a backup was restored, or the sale was deleted from the book. What a log says of it decides.
    BelowMark,
    /// It is below every present price of the merchant, and above the mark.
    BelowEveryPrice {
        /// The lowest price.
        lowest: Amount,
    },
}

impl Merchant {
    /// Lists the transfers to this merchant, present recipient and former ones, that bought nothing: never redeemed, too late, below
    /// every price, or paid twice for one intent. The seller may give them back; the paywall does not. Nothing is changed by this, except
    /// that a ledger whose memory has not [begun](crate::ledger::Ledger::begin) begins it, as at the start of the server.
    ///
    /// `history` reads the chain, `book` is that of the merchant's ledger, and the span is in chain time, from `since` until before
    /// `until`. Transfers are told from sales by their payment id, as when they are sold.
    ///
    /// - A payment that is being redeemed at this moment is listed as well.
    /// - What was mined at or below the ledger's low-water mark is [below the mark](UnredeemedReason::BelowMark): do not give it back
    ///   before a log shows that it bought nothing. [`restore_sales`](Self::restore_sales) records what a log has.
    /// - What a book does not know as sold is listed: sales that the seller deleted from it, and on Redis, unless it
    ///   keeps the book, all sales of more than two days ago.
    /// - What the seller sent itself, from a present or former recipient, is not listed.
    ///
    #[cfg_attr(all(feature = "evm", feature = "sqlite"), doc = "```no_run")]
    #[cfg_attr(not(all(feature = "evm", feature = "sqlite")), doc = "```ignore")]
    /// # async fn run(
    /// #     merchant: tower_x402::Merchant,
    /// #     verifier: tower_x402::verify::evm::EvmVerifier,
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
    /// [`HealthError`] names the backend that does not answer: half a list is none.
    pub async fn unredeemed(
        &self,
        history: &impl TransferHistory,
        book: &impl SalesBook,
        since: ChainTime,
        until: Option<ChainTime>,
    ) -> Result<Vec<Unredeemed>, HealthError> {
        let inner = &self.inner;
        let query = TransferQuery::new(inner.recipients.iter().copied(), inner.accepted.iter().cloned()).since(since);
        let query = until.into_iter().fold(query, TransferQuery::until);
        let head = inner.chain.head().await?;
        let mark = ledger_in_time(inner.ledger.begin(head)).await?;
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
        let reason = match lowest.filter(|lowest| transfer.amount < *lowest) {
            // Whatever its age, and whatever prices are today: a sale that is not on record must not be given back.
            _ if transfer.block_time <= mark => UnredeemedReason::BelowMark,
            Some(lowest) => UnredeemedReason::BelowEveryPrice { lowest },
            None if last < head => UnredeemedReason::TooOld,
            None => UnredeemedReason::NotRedeemed,
        };
        let redeemable_until = (reason == UnredeemedReason::NotRedeemed).then_some(last);
        Unredeemed { payment: transfer.payment_id(), transfer: transfer.clone(), reason, redeemable_until, refund }
    }
}
