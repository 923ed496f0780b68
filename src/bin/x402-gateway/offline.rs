//! The seller that the configuration describes, for commands that sell nothing.

use std::time::SystemTime;

use tower_x402::{Unredeemed, ledger::AnyLedger};

use super::{
    backends,
    book::{Seller, chain_time},
    config::Config,
    failure::Failure,
};

impl Seller for Config {
    async fn book(&self) -> Result<AnyLedger, Failure> {
        self.fixed.ledger.book(self.fixed.first().network).await
    }

    async fn owed(&self, since: SystemTime, until: Option<SystemTime>) -> Result<Vec<Unredeemed>, Failure> {
        let book = self.book().await?;
        let (merchant, chains) = backends::asking(&self.fixed, book.clone()).await?;
        // Registers every price, so that payments below the lowest price are recognised.
        for (resource, price) in self.shelf.offers() {
            drop(merchant.charge(&resource, price.most()).map_err(Failure::usage)?);
        }
        let (since, until) = (chain_time(since), until.map(chain_time));
        let mut owed = Vec::new();
        for chain in &chains {
            let found = merchant.unredeemed_on(chain.network, &chain.verifier, &book, since, until).await;
            owed.extend(found.map_err(Failure::environment)?);
        }
        Ok(owed)
    }
}
