//! By pass: the request was paid for before. A pass shows no payment, so one that holds nothing more is answered with a quote.

use std::{sync::Arc, time::Duration};

use http::HeaderValue;

use crate::{
    ledger::{Draw, DrawLease, DrawOutcome},
    paywall::{
        priced_request::PricedRequest,
        refusal::{ASK_AGAIN, Problem, Rejection},
        sale::{
            call::Call,
            draw::{DrawGuard, PendingDraw},
        },
        seller::{
            pass::{memo, terms::PassTerms, ticket::TicketState},
            pricing::Cost,
            time_limits::ledger_in_time,
        },
    },
    protocol::{IntentId, ProblemCode, Receipt, headers::X402_PASS},
};

/// The longest value of the header that is read, in bytes.
const LONGEST: usize = 256;

/// What a shown pass buys.
pub(crate) enum PassShown {
    /// The answer, for a held part of the pass.
    Call(Box<Call>),
    /// Nothing was held: the request is free.
    Free,
    /// Nothing was held: this request was sold before, and has a ticket.
    Ticket,
    /// A new quote, with the reason.
    Spent(&'static str),
}

/// Reserves a part of the pass that a request shows.
pub(crate) async fn reserve(request: &PricedRequest) -> Result<PassShown, Rejection> {
    let Some(token) = shown(request) else { return Err(ProblemCode::InvalidPass.into()) };
    if let Some(tickets) = &request.route.tickets {
        let now = request.route.merchant.clock.unix();
        match tickets.judge(token, &request.ticket_digest(tickets), now) {
            Some(TicketState::Good) => return Ok(PassShown::Ticket),
            Some(TicketState::Expired) => return Ok(PassShown::Spent("expired")),
            Some(TicketState::Foreign) => return Err(ProblemCode::InvalidPass.into()),
            None => {}
        }
    }
    let opened = request.route.passes.iter().find_map(|pass| Some((pass, pass.open(token)?)));
    let Some((pass, account)) = opened else { return Err(ProblemCode::InvalidPass.into()) };
    let Some(cost) = request.cost().await? else { return Ok(PassShown::Free) };
    let merchant = &request.route.merchant;
    let draw = Draw::new(account, pass.draws(cost.amount), merchant.lease);
    let outcome = ledger_in_time(PendingDraw::new(&merchant.ledger, draw)).await;
    tracing::debug!(%account, pass = &*pass.name, ?outcome, "drawn");
    match outcome {
        Ok(DrawOutcome::Granted(lease)) => match call(request, pass, cost, lease) {
            Some(call) => Ok(PassShown::Call(call)),
            None => Err(Problem::after(ProblemCode::LedgerUnavailable, ASK_AGAIN).into()),
        },
        Ok(DrawOutcome::Expired) => Ok(PassShown::Spent("expired")),
        Ok(DrawOutcome::UsedUp { .. }) => Ok(PassShown::Spent("used_up")),
        Ok(DrawOutcome::Busy { retry_after }) => {
            Err(Problem::after(ProblemCode::PassBusy, retry_after.min(ASK_AGAIN).max(Duration::from_secs(1))).into())
        }
        Ok(DrawOutcome::Closed) => {
            Err(Problem { contact: merchant.contact.clone(), ..Problem::pass_is_closed() }.into())
        }
        // This ledger does not know the account: a restored one may have lost it.
        Ok(DrawOutcome::Unknown) => {
            tracing::info!(%account, "a pass with a valid seal is not known");
            Err(Problem { contact: merchant.contact.clone(), ..ProblemCode::InvalidPass.into() }.into())
        }
        Ok(DrawOutcome::Mismatch { .. }) | Err(_) => {
            Err(Problem::after(ProblemCode::LedgerUnavailable, ASK_AGAIN).into())
        }
    }
}

/// Returns the token in the header, if the header occurs once.
fn shown(request: &PricedRequest) -> Option<&str> {
    let mut values = request.parts.headers.get_all(X402_PASS).iter();
    let value = values.next().filter(|value| value.len() <= LONGEST).map(HeaderValue::to_str)?.ok()?;
    values.next().is_none().then_some(value)
}

/// Returns the held call. If the account does not record what was paid for it, gives the part back and returns `None`.
fn call(request: &PricedRequest, pass: &Arc<PassTerms>, cost: Cost, lease: DrawLease) -> Option<Box<Call>> {
    let paid = memo::read(lease.memo());
    let (account, number, route) = (lease.account(), lease.number(), &request.route);
    let guard = DrawGuard::new(Arc::clone(&route.merchant.ledger), lease);
    // An account that this crate opened has both.
    let (Some(paid), Ok(name)) = (paid, IntentId::new(account.to_string())) else {
        tracing::error!(%account, "the account of a pass does not say what was paid for it");
        return None;
    };
    let receipt = Receipt::new(Arc::clone(&route.resource), name, paid).with_pass(Arc::clone(&pass.name), number);
    let receipt = match pass.is_charged(cost) {
        true => receipt.with_maximum(guard.amount()),
        false => receipt,
    };
    Some(Box::new(Call { guard, receipt, pass: Arc::clone(pass), cost }))
}
