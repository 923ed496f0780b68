//! Hooks of sales that were never announced.

use tokio::runtime::Handle;

use crate::{ledger::LedgerError, paywall::merchant::Merchant};

/// How many sales are read at once.
const PAGE: usize = 100;

impl Merchant {
    /// Runs the hooks of [`on_sold`](crate::X402Layer::on_sold) for the sales that were not announced yet, and returns how many it ran.
    ///
    /// Call it at each start, once the routes are built. It makes good what a crash between a sale and its hook left undone: with
    /// it, each hook runs at least once for each sale. The hooks run one after the other, oldest sale first. What was announced is
    /// not announced again, with one exception: a sale whose hook runs at this very moment, in this process or another of this seller.
    /// Sales of other recipients, and of resources without a hook, wait on. A mark names recipient and resource, and no
    /// [realm](crate::MerchantBuilder::realm): services that share a ledger and a recipient give their resources different names, or one
    /// would run its hook for the sales of another. Sales that were
    /// [given back](crate::ledger::SalesBook::note_refund) are no longer announced.
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
                let own = sale.network == inner.network && inner.recipients.contains(&sale.recipient);
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
