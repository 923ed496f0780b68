//! What is counted of facilitators: what they are asked, and what became of it.

use tower_x402::settle::{Settlement, Settler as _, TransactionRecorder, Validity};

use super::{CANARY, Facilitator, Fault, Market, payment, settler};
use crate::support::metrics::counted;

#[test]
fn what_a_facilitator_is_asked_is_counted() {
    counted(async |metrics| {
        let market = Market::new();
        let facilitator = Facilitator::start(&market).await;
        let settler = settler(&[&facilitator]);
        let calls = |action: &str, outcome: &str| {
            metrics.of("x402_facilitator_calls_total", &[("action", action), ("outcome", outcome)])
        };
        assert_eq!(settler.health().await, Ok(()));
        assert_eq!(calls("supported", "answered"), 1.0);
        let paid = payment(&market);
        assert_eq!(settler.verify(&paid).await, Ok(Validity::Valid));
        assert!(matches!(settler.settle(&paid, &TransactionRecorder::none()).await, Settlement::Settled(_)));
        assert_eq!((calls("verify", "answered"), calls("settle", "answered")), (1.0, 1.0));
        facilitator.fault("verify", Fault::ResetBefore);
        assert!(settler.verify(&payment(&market)).await.is_err());
        assert_eq!((calls("verify", "answered"), calls("verify", "failed")), (1.0, 1.0));
        assert!(!metrics.text().contains(CANARY) && !metrics.text().contains("127.0.0.1"));
    });
}
