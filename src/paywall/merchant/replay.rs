//! Runs the hooks of sales that were never announced.

use tokio::runtime::Handle;

use crate::{ledger::LedgerError, paywall::merchant::Merchant};

/// How many sales are read at once.
const PAGE: usize = 100;

impl Merchant {
    /// Runs the hooks of [`on_sold`](crate::X402Layer::on_sold) for the sales that were not announced yet, and returns how many it ran.
    ///
    /// Call it at each start, after the routes are built. It runs the hooks that a crash between a sale and its hook
    /// prevented, so that each hook runs at least once for each sale. The hooks run one after the other, oldest sale
    /// first. A finished hook does not run again, but a hook that is running at this moment, in any process of this
    /// seller, may run twice. Sales of other recipients, and of resources without a hook, keep their marks. A mark
    /// names recipient and resource, but no [realm](crate::MerchantBuilder::realm): services with one ledger and one
    /// recipient must give their resources different names, or one would run its hook for the sales of another.
    /// [Refunded](crate::ledger::SalesBook::note_refund) sales are not announced.
    ///
    #[cfg_attr(feature = "sqlite", doc = "```no_run")]
    #[cfg_attr(not(feature = "sqlite"), doc = "```ignore")]
    /// # async fn start(merchant: tower_x402::Merchant) -> Result<(), Box<dyn std::error::Error>> {
    /// let paid = merchant.charge("top-up", "5 USDC")?.settle_first().on_sold(|sale| async move {
    ///     // Keyed by the payment: `INSERT … ON CONFLICT DO NOTHING`.
    ///     println!("credit {} for {}", sale.payer, sale.payment);
    /// })?;
    /// # drop(paid);
    /// merchant.replay_sales().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`LedgerError`] if the ledger does not answer. The hooks of the sales before that have run.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn replay_sales(&self) -> Result<usize, LedgerError> {
        let (inner, runtime) = (self.inner(), Handle::current());
        let Some(waiting) = inner.ledger.announcements() else { return Ok(0) };
        let (mut ran, mut last) = (0, None);
        loop {
            let sales = waiting.unannounced(last.as_ref(), PAGE).await?;
            let is_all = sales.len() < PAGE;
            last = sales.last().cloned();
            for sale in sales {
                let own = inner.on(sale.network).is_some() && inner.recipients.contains(&sale.recipient);
                let Some(hook) = inner.catalog.sold_hook(&sale.resource).filter(|_| own) else { continue };
                if sale.refund.is_some() {
                    waiting.announced(sale.payment).await?;
                } else {
                    hook.announce(&runtime, &inner.ledger, sale).await;
                    ran += 1;
                }
            }
            if is_all {
                return Ok(ran);
            }
        }
    }
}
