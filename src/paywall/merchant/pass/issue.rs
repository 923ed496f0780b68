//! `PassIssuer`: the handler that issues a pass.

use std::{
    convert::Infallible,
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::UNIX_EPOCH,
};

use http::{HeaderValue, Request, Response, StatusCode, header};
use serde_json::json;
use tower_service::Service;

use crate::{
    ledger::{Account, LedgerError, OpenOutcome, accounts_of},
    paywall::{
        sale::deliver::SoldIntent,
        seller::{
            consumption::Consumption,
            inner::MerchantInner,
            pass::terms::{Holds, PassTerms},
            time_limits::ledger_in_time,
        },
    },
    protocol::Receipt,
};

/// The service that issues a [`Pass`](crate::Pass) to a payment. Only [`Pass::service`](crate::Pass::service) makes it, behind a price.
#[derive(Clone)]
pub struct PassIssuer {
    merchant: Arc<MerchantInner>,
    terms: Arc<PassTerms>,
}

impl PassIssuer {
    pub(super) const fn new(merchant: Arc<MerchantInner>, terms: Arc<PassTerms>) -> Self {
        Self { merchant, terms }
    }

    /// Opens the account first, and then makes the token, so that a token that leaves has an account. It leaves only once its payment is
    /// consumed; before that, a repetition opens the account anew for the same intent.
    async fn issue(self, receipt: Option<Receipt>, intent: Option<SoldIntent>) -> Response<String> {
        let (Some(receipt), Some(SoldIntent(intent))) = (receipt, intent) else {
            return problem(StatusCode::INTERNAL_SERVER_ERROR, "a pass is issued for a payment only");
        };
        let opening = self.terms.opening(intent, receipt.payment());
        let opened = async { accounts_of(&*self.merchant.ledger)?.open_account(&opening).await };
        match ledger_in_time(opened).await {
            Ok(OpenOutcome::Open(account)) => {
                let token = self.terms.token(opening.id());
                let mut issued = answer(StatusCode::OK, &self.described(&token, &account));
                // Whatever the route's rule is, a pass that leaves is sold.
                issued.extensions_mut().insert(Consumption::Consume);
                issued
            }
            Ok(OpenOutcome::Closed) => problem(StatusCode::GONE, "this pass was closed by its seller"),
            Err(LedgerError { .. }) => {
                problem(StatusCode::SERVICE_UNAVAILABLE, "the pass cannot be issued right now; ask again")
            }
        }
    }

    fn described(&self, token: &str, account: &Account) -> serde_json::Value {
        let unix = |end: std::time::SystemTime| end.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let mut told = json!({
            "pass": token,
            "calls": self.terms.calls(),
            "expires": account.expires.map(unix),
        });
        if let (Holds::Worth(amount), Some(members)) = (self.terms.holds, told.as_object_mut()) {
            members.insert("worth".to_owned(), amount.to_decimal(self.merchant.decimals()).into());
        }
        told
    }
}

impl<B> Service<Request<B>> for PassIssuer {
    type Response = Response<String>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<String>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let (receipt, intent) = (request.extensions_mut().remove(), request.extensions_mut().remove());
        let issuer = self.clone();
        Box::pin(async move { Ok(issuer.issue(receipt, intent).await) })
    }
}

fn problem(status: StatusCode, detail: &str) -> Response<String> {
    answer(status, &json!({ "error": "pass_not_issued", "detail": detail }))
}

fn answer(status: StatusCode, body: &serde_json::Value) -> Response<String> {
    let mut response = Response::new(body.to_string());
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

impl fmt::Debug for PassIssuer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PassIssuer").field("terms", &self.terms).finish_non_exhaustive()
    }
}
