//! Metrics through the `metrics` facade: they go to the recorder that the program installed, if any.
#![allow(dead_code, reason = "each of the other features that are on calls some of these")]

use std::{fmt, future::Future, sync::Arc, time::Instant};

use ::metrics::{Counter, Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};

use crate::protocol::{Amount, Network};

const QUOTES: &str = "x402_quotes_total";
const REFUSALS: &str = "x402_refusals_total";
const REDEMPTIONS: &str = "x402_redemptions_total";
const SALES: &str = "x402_sales_total";
const BASE_UNITS: &str = "x402_sold_base_units_total";
const ALLOWED: &str = "x402_allowed_base_units_total";
const CLAIMED: &str = "x402_channels_claimed_base_units_total";
const LOST: &str = "x402_channels_lost_base_units_total";
const OWING: &str = "x402_channels_unclaimed";
const UNCLAIMED: &str = "x402_channels_unclaimed_base_units";
const AT_RISK: &str = "x402_channels_at_risk_base_units";
const HANDLER: &str = "x402_handler_seconds";
const BLOCK_TO_ANSWER: &str = "x402_block_to_answer_seconds";
const VERIFICATION: &str = "x402_verification_seconds";
const LEDGER: &str = "x402_ledger_seconds";
const RPC_CALLS: &str = "x402_rpc_calls_total";
const RPC_FAILURES: &str = "x402_rpc_failures_total";
const FACILITATOR: &str = "x402_facilitator_calls_total";
const HEAD_LAG: &str = "x402_head_lag_seconds";
const LEASES: &str = "x402_leases_held";
const REORGANISED: &str = "x402_reorganised_sales_total";

/// The outcomes of a question.
const ANSWERED: &str = "answered";
const FAILED: &str = "failed";
/// The caller no longer waits for the answer: it timed out, or the caller has left.
const ABANDONED: &str = "abandoned";

/// Describes each metric to the recorder.
pub(crate) fn describe() {
    describe_counter!(QUOTES, Unit::Count, "Quotes (402) that were sent to requests without a payment.");
    describe_counter!(REFUSALS, Unit::Count, "Requests that were refused before a payment was looked at.");
    describe_counter!(REDEMPTIONS, Unit::Count, "Requests that showed a payment, by what became of them.");
    describe_counter!(SALES, Unit::Count, "Answers that were sold and recorded.");
    describe_counter!(BASE_UNITS, Unit::Count, "Base units of the token that sales brought in.");
    describe_counter!(
        ALLOWED,
        Unit::Count,
        "Base units of the token that payers allowed for sales whose handler set the charge."
    );
    describe_counter!(CLAIMED, Unit::Count, "Base units of the token that the claimer claimed in channels.");
    describe_counter!(
        LOST,
        Unit::Count,
        "Base units of the token that were sold in channels and cannot be claimed any more."
    );
    describe_gauge!(
        OWING,
        Unit::Count,
        "Channels in which something is sold and not claimed, after this process last claimed."
    );
    describe_gauge!(UNCLAIMED, Unit::Count, "Base units of the token that are sold in channels and not claimed.");
    describe_gauge!(
        AT_RISK,
        Unit::Count,
        "What of that can be lost: its payer withdraws, or its claim was tried and is not made."
    );
    describe_histogram!(
        HANDLER,
        Unit::Seconds,
        "Time that the service behind the paywall took for an answer that was paid for."
    );
    describe_histogram!(BLOCK_TO_ANSWER, Unit::Seconds, "Time from the block of a payment to its recorded sale.");
    describe_histogram!(VERIFICATION, Unit::Seconds, "Time that the verifier took for a question.");
    describe_histogram!(LEDGER, Unit::Seconds, "Time that the ledger took for a question.");
    describe_counter!(RPC_CALLS, Unit::Count, "Calls to each JSON-RPC endpoint of the verifier.");
    describe_counter!(RPC_FAILURES, Unit::Count, "Questions to which an endpoint gave no usable answer.");
    describe_counter!(FACILITATOR, Unit::Count, "Requests to facilitators, by what was asked and what became of it.");
    describe_gauge!(
        HEAD_LAG,
        Unit::Seconds,
        "How far the chain's head was behind the local clock when it was last looked at."
    );
    describe_gauge!(LEASES, Unit::Count, "Leases on payments that this process holds.");
    describe_counter!(REORGANISED, Unit::Count, "Accepted payments that a reorganisation removed from the chain.");
}

/// The counter of one resource's quotes, from the recorder that was installed when its layer was made, so that counting
/// a quote costs nothing else.
#[derive(Clone)]
pub(crate) struct Quotes(Counter);

impl Quotes {
    pub(crate) fn of(resource: &Arc<str>) -> Self {
        Self(counter!(QUOTES, "resource" => Arc::clone(resource)))
    }

    pub(crate) fn count(&self) {
        self.0.increment(1);
    }
}

/// Counts a request that was refused before its payment was examined.
pub(crate) fn refused(resource: &Arc<str>, outcome: &'static str) {
    counter!(REFUSALS, "resource" => Arc::clone(resource), "outcome" => outcome).increment(1);
}

/// Counts a request that showed a payment.
pub(crate) fn redeemed(resource: &Arc<str>, outcome: &'static str) {
    counter!(REDEMPTIONS, "resource" => Arc::clone(resource), "outcome" => outcome).increment(1);
}

/// Counts a sold answer, and its price in base units of the token.
pub(crate) fn sold(resource: &Arc<str>, network: Network, token: &dyn fmt::Display, base_units: impl FnOnce() -> u64) {
    redeemed(resource, "sold");
    let [network, token]: [Arc<str>; 2] = [network.to_string().into(), token.to_string().into()];
    counter!(SALES, "resource" => Arc::clone(resource), "network" => Arc::clone(&network), "token" => Arc::clone(&token))
        .increment(1);
    counter!(BASE_UNITS, "resource" => Arc::clone(resource), "network" => network, "token" => token)
        .increment(base_units());
}

/// Adds the maximum that the payer of a sale allowed, if the handler set the charge.
pub(crate) fn allowed(
    resource: &Arc<str>,
    network: Network,
    token: &dyn fmt::Display,
    base_units: impl FnOnce() -> u64,
) {
    let [network, token]: [Arc<str>; 2] = [network.to_string().into(), token.to_string().into()];
    counter!(ALLOWED, "resource" => Arc::clone(resource), "network" => network, "token" => token)
        .increment(base_units());
}

/// Adds the amount that a claim brought from one channel.
pub(crate) fn claimed_of_channels(network: Network, token: &dyn fmt::Display, amount: Amount) {
    of_channels(CLAIMED, network, token, amount.to_u128().unwrap_or(u128::MAX));
}

/// Adds the amount that was sold in a channel and that the chain no longer covers.
pub(crate) fn lost_in_channels(network: Network, token: &dyn fmt::Display, amount: u128) {
    of_channels(LOST, network, token, amount);
}

/// Sets the unclaimed sales in channels: the number of channels, the amount, and the part of it that is at risk.
#[expect(clippy::cast_precision_loss, reason = "a gauge has a floating-point number")]
pub(crate) fn owed_in_channels(
    network: Network,
    token: &dyn fmt::Display,
    channels: u32,
    [unclaimed, at_risk]: [u128; 2],
) {
    let [network, token]: [Arc<str>; 2] = [network.to_string().into(), token.to_string().into()];
    for (name, now) in [(OWING, f64::from(channels)), (UNCLAIMED, unclaimed as f64), (AT_RISK, at_risk as f64)] {
        gauge!(name, "network" => Arc::clone(&network), "token" => Arc::clone(&token)).set(now);
    }
}

fn of_channels(name: &'static str, network: Network, token: &dyn fmt::Display, amount: u128) {
    counter!(name, "network" => network.to_string(), "token" => token.to_string())
        .increment(u64::try_from(amount).unwrap_or(u64::MAX));
}

#[expect(clippy::cast_precision_loss, reason = "seconds of a payment's age")]
pub(crate) fn answered_after(resource: &Arc<str>, seconds: impl FnOnce() -> u64) {
    histogram!(BLOCK_TO_ANSWER, "resource" => Arc::clone(resource)).record(seconds() as f64);
}

/// Times the service's handler until it answers or is given up.
pub(crate) fn handler<F: Future>(resource: &Arc<str>, answer: F) -> impl Future<Output = F::Output> + use<F> {
    let resource = Arc::clone(resource);
    async move {
        let _timer = HandlerTimer { resource, began: Instant::now() };
        answer.await
    }
}

struct HandlerTimer {
    resource: Arc<str>,
    began: Instant,
}

impl Drop for HandlerTimer {
    fn drop(&mut self) {
        histogram!(HANDLER, "resource" => Arc::clone(&self.resource)).record(self.began.elapsed());
    }
}

/// Times a question to the ledger.
pub(crate) fn ledger<T, E>(
    question: &'static str,
    answer: impl Future<Output = Result<T, E>>,
) -> impl Future<Output = Result<T, E>> {
    timed(LEDGER, question, answer)
}

/// Times a question to the verifier.
pub(crate) fn verification<T, E>(
    question: &'static str,
    answer: impl Future<Output = Result<T, E>>,
) -> impl Future<Output = Result<T, E>> {
    timed(VERIFICATION, question, answer)
}

async fn timed<T, E>(
    name: &'static str,
    question: &'static str,
    answer: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    let began = Instant::now();
    let record = move |outcome| {
        histogram!(name, "question" => question, "outcome" => outcome).record(began.elapsed());
    };
    watched(answer, record).await
}

/// Counts a request to a facilitator.
pub(crate) async fn facilitator<T, E>(
    action: &'static str,
    answer: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    let record = move |outcome| counter!(FACILITATOR, "action" => action, "outcome" => outcome).increment(1);
    watched(answer, record).await
}

/// Reports the outcome of a question, once.
async fn watched<T, E>(answer: impl Future<Output = Result<T, E>>, tell: impl FnOnce(&'static str)) -> Result<T, E> {
    let mut watch = Watch { outcome: ABANDONED, tell: Some(tell) };
    let answer = answer.await;
    watch.outcome = if answer.is_ok() { ANSWERED } else { FAILED };
    answer
}

struct Watch<T: FnOnce(&'static str)> {
    outcome: &'static str,
    tell: Option<T>,
}

impl<T: FnOnce(&'static str)> Drop for Watch<T> {
    fn drop(&mut self) {
        if let Some(tell) = self.tell.take() {
            tell(self.outcome);
        }
    }
}

/// Counts a call to the verifier's endpoint with this index; `None` for another node.
pub(crate) fn rpc_call(endpoint: Option<usize>) {
    if let Some(endpoint) = endpoint {
        counter!(RPC_CALLS, "endpoint" => endpoint.to_string()).increment(1);
    }
}

pub(crate) fn rpc_failure(endpoint: usize) {
    counter!(RPC_FAILURES, "endpoint" => endpoint.to_string()).increment(1);
}

/// Sets how many seconds the chain's head is behind the local clock.
#[expect(
    clippy::cast_precision_loss,
    reason = "an endpoint may name any time, and a day more or less is no matter then"
)]
pub(crate) fn head(lag: impl FnOnce() -> u64) {
    gauge!(HEAD_LAG).set(lag() as f64);
}

pub(crate) fn reorganised() {
    counter!(REORGANISED).increment(1);
}

/// Counts a held lease for as long as this value lives.
pub(crate) struct HeldLease(());

impl HeldLease {
    pub(crate) fn new() -> Self {
        gauge!(LEASES).increment(1);
        Self(())
    }
}

impl Drop for HeldLease {
    fn drop(&mut self) {
        gauge!(LEASES).decrement(1);
    }
}
