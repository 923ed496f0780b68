//! The seller that the flags describe, for commands that sell nothing.

use std::time::SystemTime;

use tower_x402::{HealthError, Merchant, Unredeemed, ledger::AnyLedger, protocol::SealingKeys, verify::EvmVerifier};

use super::{
    args::Args,
    book::{Seller, chain_time},
    merchant,
    run::Failure,
};

impl Seller for Args {
    async fn book(&self) -> Result<AnyLedger, Failure> {
        self.ledger().map_err(Failure::usage)?.book(self.network()).await
    }

    async fn owed(&self, since: SystemTime, until: Option<SystemTime>) -> Result<Vec<Unredeemed>, Failure> {
        let asked = Asked::of(self).await?;
        // Registers the price, so that payments below it are recognised. A default could be another service's price.
        if let Some(price) = &self.price {
            let price = super::amount(&asked.merchant, price).map_err(Failure::usage)?;
            drop(asked.merchant.charge("any", price).map_err(Failure::usage)?);
        }
        let until = until.map(chain_time);
        let owed = asked.merchant.unredeemed(&asked.verifier, &asked.book, chain_time(since), until).await;
        owed.map_err(unhealthy)
    }
}

/// A merchant that sells nothing, with the chain and the ledger that the flags name.
pub(crate) struct Asked {
    pub(crate) merchant: Merchant,
    pub(crate) verifier: EvmVerifier,
    book: AnyLedger,
}

impl Asked {
    /// # Errors
    /// Fails on wrong flags and on errors of the chain or the ledger.
    pub(crate) async fn of(args: &Args) -> Result<Self, Failure> {
        let Some(recipient) = args.recipient.filter(|_| !args.rpc_url.is_empty()) else {
            return Err(Failure::usage("name who was paid with --recipient 0x…, and an endpoint with --rpc-url URL"));
        };
        let book = args.book().await?;
        let verifier = merchant::verifier(args, args.network()).await?;
        // This key seals no quotes.
        let keys = SealingKeys::random().map_err(Failure::environment)?;
        let builder = Merchant::builder(recipient).verifier(verifier.clone()).sealing_keys(keys);
        let builder = merchant::tokens(builder.network(args.network()), args, &verifier).await?;
        let builder = builder.ledger(book.clone()).start_lazily().max_payment_age(args.max_payment_age);
        let merchant = builder.build().await.map_err(Failure::usage)?;
        Ok(Self { merchant, verifier, book })
    }
}

/// Returns the failure of the backend that does not answer.
pub(crate) fn unhealthy(error: HealthError) -> Failure {
    match error {
        HealthError::Verifier(error) => merchant::chain(error),
        other => Failure::environment(other),
    }
}
