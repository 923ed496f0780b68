//! The final report: the answer, or what went wrong and what helps.

use std::fmt;

use serde_json::{Value, json};
use tower_x402::{
    client::{Money, PayError, PayErrorKind, Purchase, PurchaseId, PurchaseState, Standard},
    protocol::ChainTime,
};

use super::{BoxError, screen, when};

/// An incomplete answer.
#[derive(Debug)]
pub(crate) struct Torn {
    pub(crate) why: &'static str,
    pub(crate) purchase: Option<Purchase>,
    pub(crate) part: Vec<u8>,
    /// Whether the same command asks for it again, and pays nothing more.
    pub(crate) is_kept: bool,
}

impl std::error::Error for Torn {}

impl fmt::Display for Torn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(Purchase { transaction, .. }) = &self.purchase else { return f.write_str(self.why) };
        let whose = if self.is_sold() { "the seller counts it as sold" } else { "the payment is kept" };
        let by = transaction.map_or("an authorization".to_owned(), |transaction| transaction.to_string());
        write!(f, "paid with {by}, and {}: {whose}", self.why)
    }
}

impl Torn {
    fn is_sold(&self) -> bool {
        self.purchase.as_ref().is_some_and(|purchase| purchase.state == PurchaseState::Answered)
    }

    fn code(&self) -> u8 {
        match &self.purchase {
            Some(_) if self.is_kept || !self.is_sold() => 4,
            Some(_) => 5,
            None => 1,
        }
    }
}

/// The outcome of a purchase.
pub(crate) struct Bought {
    pub(crate) status: http::StatusCode,
    pub(crate) purchase: Option<Purchase>,
    pub(crate) answer: Vec<u8>,
}

impl Bought {
    /// Returns the exit code.
    pub(crate) fn code(&self) -> u8 {
        match &self.purchase {
            // Not every seller confirms a purchase; an answer is an answer.
            _ if self.status.is_success() => 0,
            Some(purchase) if purchase.state == PurchaseState::Answered => 0,
            Some(_) => 4,
            None => 1,
        }
    }

    /// Prints what the answer alone does not show: the charge of a maximum, or that there was no purchase.
    pub(crate) fn remark(&self) {
        if let Some(Purchase { charged: Some(charged), amount, decimals, .. }) = &self.purchase {
            eprintln!("  charged     {} of at most {}", charged.to_decimal(*decimals), amount.to_decimal(*decimals));
        }
        if self.purchase.is_some() || self.status.is_success() {
            return;
        }
        eprintln!("error: the seller answered {}: nothing was paid", self.status);
        if self.status == http::StatusCode::PAYMENT_REQUIRED {
            eprintln!(
                "It asks for money, but neither by a `Pay` header nor by one of those schemes of the x402 standard that are known here, \
                 which are `exact` and `upto` on an EVM chain."
            );
        }
    }

    /// Returns the text for standard output.
    pub(crate) fn shown(&self, as_json: bool) -> Vec<u8> {
        if !as_json {
            // The answer is written already.
            return b"\n".to_vec();
        }
        let answer = serde_json::from_slice(&self.answer).unwrap_or_else(|_| text(&self.answer));
        let purchase = self.purchase.as_ref().map(|purchase| {
            json!({
                "id": purchase.id.to_string(),
                "amount": purchase.amount.to_decimal(purchase.decimals),
                "charged": purchase.charged.map(|charged| charged.to_decimal(purchase.decimals)),
                "token": purchase.token,
                "network": purchase.network,
                "payer": purchase.payer,
                "recipient": purchase.recipient,
                "paidBy": purchase.paid_by.name(),
                "standard": purchase.standard.map(Standard::name),
                "transaction": purchase.transaction,
                "answered": purchase.state == PurchaseState::Answered,
                "confirmed": purchase.confirmed,
                "attempts": purchase.attempts,
                "milliseconds": {
                    "quote": purchase.timings.quote.as_millis(),
                    "pay": purchase.timings.pay.as_millis(),
                    "confirm": purchase.timings.confirm.as_millis(),
                    "redeem": purchase.timings.redeem.as_millis(),
                },
            })
        });
        line(&json!({ "status": self.status.as_u16(), "purchase": purchase, "answer": answer }))
    }
}

/// Returns the exit code of an action that is no purchase, and reports its failure.
pub(crate) fn code(outcome: Result<u8, BoxError>) -> u8 {
    outcome.unwrap_or_else(|error| {
        complaint(&error, false, false);
        failure(&error)
    })
}

/// Returns the exit code of a failure.
pub(crate) fn failure(error: &BoxError) -> u8 {
    match error.downcast_ref::<PayError>() {
        Some(error) => unanswered(error.kind(), error.money(), error.is_resumable()),
        None => error.downcast_ref().map_or(1, Torn::code),
    }
}

/// Returns the exit code for an error, by where the money is and whether the same request resumes the purchase.
const fn unanswered(kind: PayErrorKind, money: Money, resumable: bool) -> u8 {
    match (kind, money) {
        (PayErrorKind::Declined, _) => 3,
        _ if resumable => 4,
        (_, Money::Untouched | Money::FeeSpent { .. }) => 1,
        _ => 5,
    }
}

/// Reports an error on standard error, and returns the text for standard output. `by_hand`: no journal has the
/// payment.
pub(crate) fn complaint(whole: &BoxError, as_json: bool, by_hand: bool) -> Vec<u8> {
    let mut text = whole.to_string();
    let mut cause = whole.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    let (error, torn) = (whole.downcast_ref::<PayError>(), whole.downcast_ref::<Torn>());
    let resumable = torn.is_some_and(|torn| torn.code() == 4) || error.is_some_and(PayError::is_resumable);
    eprintln!("error: {}", screen::on_a_line(&text));
    if let Some(help) = help(error, resumable, by_hand) {
        eprintln!("{help}");
    }
    if !as_json {
        // The part that arrived is written already.
        return Vec::new();
    }
    let torn_from = torn.and_then(|torn| torn.purchase.as_ref()).and_then(|purchase| purchase.transaction);
    let transaction = error.and_then(PayError::transaction).or(torn_from);
    let part = torn.map(|torn| self::text(&torn.part));
    let purchase = torn.and_then(|torn| torn.purchase.as_ref()).map(|purchase| purchase.id);
    let purchase = error.and_then(PayError::purchase).or(purchase).map(|id| id.to_string());
    let mut told = json!({
        "error": text, "purchase": purchase, "transaction": transaction, "resumable": resumable, "answer": part,
    });
    if let Some((purchase, valid_before)) = error.and_then(outstanding) {
        told["outstanding"] = json!({ "purchase": purchase.to_string(), "validBefore": valid_before.unix() });
    }
    line(&told)
}

/// Returns the purchase whose signed payment the seller can still use, and until when.
fn outstanding(error: &PayError) -> Option<(PurchaseId, ChainTime)> {
    match error.money() {
        Money::AtRisk { until: Some(until) } if error.kind() == PayErrorKind::Outstanding => {
            Some((error.purchase()?, until))
        }
        _ => None,
    }
}

/// Returns advice about the error.
fn help(error: Option<&PayError>, resumable: bool, by_hand: bool) -> Option<String> {
    if let Some((purchase, valid_before)) = error.and_then(outstanding) {
        return Some(format!(
            "Nothing is paid as far as the chain says, but the seller can use the signed payment until {} UTC. The same command with \
             --resume, or `buy resume`, shows it again. `buy cancel {purchase} --yes` makes it void at once, for gas. After that \
             time the same command signs another one.",
            when::utc(valid_before)
        ));
    }
    let purchase = error.and_then(PayError::purchase);
    match error.map(PayError::kind) {
        Some(PayErrorKind::NotCovered) => purchase.map(|purchase| format!(
            "The same command pays nothing while that payment is kept. With --resume it presents the payment once more, \
             under the quote that it was made for. --abandon {purchase} gives the payment up; then the same command pays \
             the new price."
        )),
        Some(PayErrorKind::Unproven) => Some(
            "Do not pay again. Sign the redemption with the account that paid (EIP-191; the four lines are those of \
             tower_x402::protocol::redemption_message), and send it with paymentSignature beside intentId and txHash."
                .to_owned(),
        ),
        Some(PayErrorKind::Lapsed) => Some("To buy, give the same command again: it signs another payment.".to_owned()),
        Some(PayErrorKind::NothingToResume) => Some(
            "--resume finds a purchase by its URL, BODY and --journal: check that they are the same, or see --unfinished. \
             To buy, leave --resume out."
                .to_owned(),
        ),
        _ if resumable && by_hand => {
            Some("Do not pay again: the same command, with --paid, asks for the answer to this payment.".to_owned())
        }
        _ => resumable.then(|| {
            "Do not pay again: the same command with --resume finishes the purchase with this payment. If it can never be finished, \
             --unfinished shows its name, and --abandon gives it up."
                .to_owned()
        }),
    }
}

fn text(bytes: &[u8]) -> Value {
    String::from_utf8_lossy(bytes).into_owned().into()
}

fn line(value: &Value) -> Vec<u8> {
    format!("{value:#}\n").into_bytes()
}

#[cfg(test)]
mod tests {
    use tower_x402::protocol::TxHash;

    use super::*;

    #[test]
    fn an_exit_code_says_where_the_money_is() {
        let (untouched, at_risk) = (Money::Untouched, Money::AtRisk { until: None });
        let spent = Money::Spent { transaction: TxHash::new([7; 32]) };
        for (kind, money, resumable, code) in [
            (PayErrorKind::Declined, untouched, false, 3),
            (PayErrorKind::Http, untouched, false, 1),
            (PayErrorKind::Lapsed, untouched, false, 1),
            (PayErrorKind::Channel, untouched, false, 1),
            (PayErrorKind::Reverted, Money::FeeSpent { transaction: None }, false, 1),
            (PayErrorKind::Unsettled, at_risk, true, 4),
            (PayErrorKind::Unanswered, spent, true, 4),
            (PayErrorKind::Refused, spent, false, 5),
            // A voucher that was refused, or charged without an answer: the seller has it.
            (PayErrorKind::Refused, at_risk, false, 5),
            (PayErrorKind::AnswerLost, at_risk, false, 5),
            (PayErrorKind::Channel, at_risk, false, 5),
        ] {
            assert_eq!(unanswered(kind, money, resumable), code, "{kind:?} {money:?}");
        }
    }
}
