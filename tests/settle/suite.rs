//! `FacilitatorSettler` under the conformance suite.

use tower_x402::{
    protocol::{
        Address, Amount, Asset, ChainTime, PaymentSignature, TokenDomain,
        v2::{Authorization, SignedAuthorization},
    },
    settle::{
        FacilitatorSettler, Settler,
        conformance::{self, CHECKS, Harness},
    },
    verify::NonceState,
};

use super::{Facilitator, Market, settler};

/// A market, and settlers on it.
pub struct On<F>(pub Market, pub F);

impl<S: Settler, F: Fn(&Market) -> S + Sync> Harness for On<F> {
    type Settler = S;

    async fn settler(&self) -> S {
        (self.1)(&self.0)
    }

    fn token(&self) -> Asset {
        Asset::USDC_BASE
    }

    fn domain(&self) -> TokenDomain {
        TokenDomain::usdc_of(Asset::USDC_BASE.network()).expect("it is known")
    }

    async fn now(&self) -> ChainTime {
        self.0.now()
    }

    async fn payer(&self, funds: Amount) -> Address {
        self.0.account(funds.to_string().parse().expect("few enough"))
    }

    async fn contract_payer(&self, funds: Amount) -> Option<Address> {
        Some(self.0.contract(funds.to_string().parse().expect("few enough")))
    }

    async fn sign(&self, signer: Address, authorization: &Authorization) -> PaymentSignature {
        self.0.signature(signer, authorization)
    }

    async fn submit(&self, authorization: &SignedAuthorization) {
        // Where a settler did what it must not, it may be too late: the checks see that.
        let _ = self.0.execute(authorization);
    }

    async fn cancel(&self, payer: Address, nonce: [u8; 32]) {
        self.0.cancel(payer, nonce);
    }

    async fn balance(&self, owner: Address) -> Amount {
        self.0.balance(owner)
    }

    async fn nonce(&self, payer: Address, nonce: [u8; 32]) -> NonceState {
        self.0.nonce(payer, nonce)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_facilitator_settles_by_the_rules() {
    let market = Market::new();
    let facilitator = Facilitator::start(&market).await;
    let make = |_: &Market| -> FacilitatorSettler { settler(&[&facilitator]) };
    let report = conformance::run(&On(market, make)).await.unwrap();
    assert_eq!((report.passed.len(), report.left_out.len()), (CHECKS.len(), 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_facilitators_settle_by_the_rules() {
    let market = Market::new();
    let (first, second) = (Facilitator::start(&market).await, Facilitator::start(&market).await);
    let make = |_: &Market| -> FacilitatorSettler { settler(&[&first, &second]) };
    let report = conformance::run(&On(market, make)).await.unwrap();
    assert_eq!(report.passed.len(), CHECKS.len());
    assert_eq!(second.calls("settle"), 0);
}
