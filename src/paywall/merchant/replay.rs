//! Hooks of sales, run again from the book.

use std::time::SystemTime;

use tokio::runtime::Handle;

use crate::{
    ledger::{LedgerError, SalesBook, SalesQuery},
    paywall::merchant::Merchant,
};

impl Merchant {
    /// Runs the hooks of [`on_sold`](crate::X402Layer::on_sold) again for the sales in the book from `since` on, and returns how many
    /// it ran.
    ///
    /// Call it at each start, once the routes are built, with a `since` that is before the previous stop. It makes good what a crash
    /// between a sale and its hook left undone: with it, each hook runs at least once for each sale. The hooks run one after the
    /// other, oldest sale first. Sales that were [given back](SalesBook::note_refund), of other recipients, or of resources without a
    /// hook are passed over.
    ///
    #[cfg_attr(feature = "sqlite", doc = "```no_run")]
    #[cfg_attr(not(feature = "sqlite"), doc = "```ignore")]
    /// # async fn start(merchant: tower_x402::Merchant, ledger: std::sync::Arc<tower_x402::ledger::SqliteLedger>) -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::{Duration, SystemTime};
    ///
    /// let paid = merchant.charge("top-up", "5 USDC")?.settle_first().on_sold(|sale| async move {
    ///     // Keyed by the payment: `INSERT … ON CONFLICT DO NOTHING`.
    ///     println!("credit {} for {}", sale.payer, sale.payment);
    /// })?;
    /// # drop(paid);
    /// merchant.replay_sales(&*ledger, SystemTime::now() - Duration::from_secs(24 * 60 * 60)).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`LedgerError`] if the book cannot be read. The hooks of the sales before that have run.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn replay_sales(&self, book: &impl SalesBook, since: SystemTime) -> Result<usize, LedgerError> {
        let (inner, runtime) = (self.inner(), Handle::current());
        let mut sales = book.sales(SalesQuery::since(since));
        let mut ran = 0;
        while let Some(sale) = sales.next().await {
            let sale = sale?;
            let own = sale.network == inner.network && inner.recipients.contains(&sale.recipient);
            if let Some(hook) = inner.catalog.sold_hook(&sale.resource).filter(|_| own && sale.refund.is_none()) {
                hook.run(&runtime, sale).await;
                ran += 1;
            }
        }
        Ok(ran)
    }
}
