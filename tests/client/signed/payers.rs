//! Payers that do not do what they are asked to, and what the chain says meanwhile.

use std::time::Duration;

use tower_x402::{
    client::{
        AuthorizationRequest, AuthorizationStatus, Authorizer, PayLayer, Payer, PayerError, PreparedAuthorization,
        PreparedTransfer, PurchaseState, SubmitGuard, TransferRequest, TransferStatus,
    },
    protocol::{Address, Amount, PaymentSignature, TokenDomain, v2::SignedAuthorization},
    testing::{ScriptedPayer, Sending},
};

use super::{mpp::Challenge, *};

/// What a payer changes of what it is asked to sign; and whether it cancels what it signed.
#[derive(Clone)]
struct Odd {
    wallet: ScriptedPayer,
    change: fn(&mut tower_x402::protocol::v2::Authorization),
    cancels: bool,
}

impl Payer for Odd {
    async fn submit_guard(&self, network: Network) -> SubmitGuard {
        self.wallet.submit_guard(network).await
    }

    async fn prepare(&self, payment: &TransferRequest) -> Result<PreparedTransfer, PayerError> {
        self.wallet.prepare(payment).await
    }

    async fn send(&self, prepared: &PreparedTransfer) -> Result<TxHash, PayerError> {
        self.wallet.send(prepared).await
    }

    async fn status(&self, prepared: &[PreparedTransfer]) -> Result<TransferStatus, PayerError> {
        self.wallet.status(prepared).await
    }

    async fn replace(&self, prepared: &[PreparedTransfer]) -> Result<Option<PreparedTransfer>, PayerError> {
        self.wallet.replace(prepared).await
    }

    async fn sign(&self, message: &str, account: Address) -> Result<Option<PaymentSignature>, PayerError> {
        self.wallet.sign(message, account).await
    }

    fn authorizations(&self) -> Option<&impl Authorizer> {
        Some(self)
    }
}

impl Authorizer for Odd {
    async fn authorizes(&self, asset: &Asset, amount: Amount) -> Result<Option<TokenDomain>, PayerError> {
        self.wallet.authorizes(asset, amount).await
    }

    async fn authorize(&self, request: &AuthorizationRequest) -> Result<SignedAuthorization, PayerError> {
        let mut signed = self.wallet.authorize(request).await?;
        (self.change)(&mut signed.authorization);
        Ok(signed)
    }

    async fn authorization_status(
        &self,
        prepared: &PreparedAuthorization,
        since: ChainTime,
    ) -> Result<AuthorizationStatus, PayerError> {
        self.wallet.authorization_status(prepared, since).await
    }

    async fn prepare_cancellation(&self, authorized: &PreparedAuthorization) -> Result<PreparedTransfer, PayerError> {
        if self.cancels {
            self.wallet.prepare_cancellation(authorized).await
        } else {
            Err(PayerError::Refused("about to be used"))
        }
    }
}

async fn layer(market: &Market, change: fn(&mut tower_x402::protocol::v2::Authorization)) -> PayLayer {
    let payer = Odd { wallet: market.wallet.clone(), change, cancels: true };
    let builder = PayLayer::builder(payer, Market::budget().build().unwrap(), market.journal.clone());
    builder.clock(market.shop.clock.clone()).patience(Duration::from_secs(60)).build().await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn what_was_not_asked_for_is_shown_to_nobody() {
    let changes: [fn(&mut tower_x402::protocol::v2::Authorization); 3] = [
        |signed| signed.to = Address::new([8; 20]),
        |signed| signed.value = Amount::from_base_units(490_001),
        |signed| signed.nonce[31] ^= 1,
    ];
    for change in changes {
        let market = Market::open().await;
        let seller = seller(|_, _| panic!("shown"));
        let error = ask(&layer(&market, change).await, &seller, question("{}")).await.unwrap_err();
        assert!(
            error.kind() == PayErrorKind::Payer && matches!(cause(&error), Some(PayerError::Refused(_))),
            "{error}"
        );
        assert!(market.journal.entries().is_empty());
    }
}

/// What outlives its challenge could be used when the seller no longer answers for it.
#[tokio::test(start_paused = true)]
async fn what_ends_after_its_challenge_is_shown_to_nobody() {
    let market = Market::open().await;
    let seller = Seller::new(|asked| {
        assert!(!asked.headers.contains_key("authorization"), "shown");
        Challenge { lasts: 30, ..Challenge::new("challenge") }.reply()
    });
    let late = layer(&market, |signed| signed.valid_before = signed.valid_before.after(Duration::from_secs(1))).await;
    let error = ask(&late, &seller, question("{}")).await.unwrap_err();
    assert!(error.kind() == PayErrorKind::Payer && market.journal.entries().is_empty(), "{error}");
}

/// A transaction that is sent is none that is mined: the authorization can still be used.
#[tokio::test(start_paused = true)]
async fn what_was_sent_to_cancel_has_cancelled_nothing_until_the_chain_says_so() {
    let market = Market::open().await;
    let seller = seller(|_, _| refusal("insufficient_funds", &[way("490000")]));
    let layer = layer(&market, |_| {}).await;
    assert!(ask(&layer, &seller, question("{}")).await.is_err());
    let open = layer.unfinished().remove(0);
    market.wallet.script([Sending::Held; 100]);
    let error = layer.cancel(open.id).await.unwrap_err();
    assert!(error.kind() == PayErrorKind::Unsettled, "{error}");
    let still_open = layer.unfinished().remove(0);
    assert_eq!((still_open.id, still_open.state), (open.id, open.state));
    assert!(!still_open.cancellations().is_empty() && market.wallet.sent() > 0);
    assert!(ask(&layer, &seller, question("{}")).await.is_err_and(|error| error.kind() == PayErrorKind::Outstanding));
    assert_eq!(market.wallet.authorizations_signed(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_seller_that_settles_and_only_ever_fails_is_paid_once() {
    for failure in [|| Reply::Broken, || reply(500, &[], "broken")] as [fn() -> Reply; 2] {
        let market = Market::open().await;
        let chain = market.shop.chain.clone();
        let seller = seller(move |payment, _| {
            settle(&chain, payment);
            failure()
        });
        for _ in 0..4 {
            let error = buy(&market, &seller).await.unwrap_err();
            assert!(error.transaction().is_some() && error.is_resumable(), "{error}");
        }
        assert_eq!((nonces(&seller).0.len(), market.wallet.authorizations_signed()), (1, 1));
        assert_eq!(market.journal.entries()[0].state, PurchaseState::Redeeming);
    }
}

/// The service refused the request, the seller took the money all the same, and asks for more now.
#[tokio::test(start_paused = true)]
async fn what_was_settled_behind_a_refusal_is_not_followed_by_a_dearer_payment() {
    let market = Market::open().await;
    let seller = Seller::new(move |asked| match shown(asked) {
        Some(_) => reply(400, &[], "no"),
        None => demand(&[way(&(490_000 + asked.before).to_string())]),
    });
    assert_eq!(buy(&market, &seller).await.unwrap().status.as_u16(), 400);
    let payment = seller.asked().iter().find_map(shown).unwrap();
    let transaction = settle(&market.shop.chain, &payment);
    let error = buy(&market, &seller).await.unwrap_err();
    assert!(error.kind() == PayErrorKind::NotCovered && error.transaction() == Some(transaction), "{error}");
    assert_eq!(market.wallet.authorizations_signed(), 1);
}

/// The seller's settlement may be on its way: no error says that nothing is paid.
#[tokio::test(start_paused = true)]
async fn a_cancellation_that_is_refused_says_that_the_payment_may_yet_be_used() {
    let market = Market::open().await;
    let payer = Odd { wallet: market.wallet.clone(), change: |_| {}, cancels: false };
    let builder = PayLayer::builder(payer, Market::budget().build().unwrap(), market.journal.clone());
    let layer = builder.clock(market.shop.clock.clone()).build().await.unwrap();
    let seller = seller(|_, _| refusal("insufficient_funds", &[way("490000")]));
    assert!(ask(&layer, &seller, question("{}")).await.is_err());
    let open = layer.unfinished().remove(0);
    let error = layer.cancel(open.id).await.unwrap_err();
    assert_eq!(error.money(), Money::AtRisk { until: Some(open.expiry) });
    assert_eq!((error.purchase(), error.is_resumable()), (Some(open.id), true));
    assert!(!error.to_string().contains("nothing was paid"), "{error}");
    assert_eq!(layer.unfinished(), [open]);
}
