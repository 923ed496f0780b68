//! Refusals, as values: why the handler does not answer a request. The door writes them.

use std::{fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Method, Response};

use crate::{
    paywall::{
        error::HealthError,
        seller::{
            channels::Unread,
            pricing::{Refusal, Tariff},
            route::Route,
        },
    },
    protocol::{
        Address, Amount, IntentTerms, Network, ProblemCode, RedeemBy,
        channel::Correction,
        v2::{Reason, SettleResponse},
    },
};

/// When to ask again if a backend did not answer, or another redemption is under way.
pub(crate) const ASK_AGAIN: Duration = Duration::from_secs(5);

/// What to do if the payment was made before the handler ran, and no answer was sold for it.
pub(crate) const MADE: &str =
    "The payment was made, and has bought nothing yet. Send the same payment again. Do not pay again.";

/// The details of a refusal beside its code.
#[derive(Debug)]
pub(crate) struct Problem {
    pub(crate) code: ProblemCode,
    pub(crate) retry_after: Option<Duration>,
    /// A fresh intent for this very request.
    pub(crate) intent: Option<String>,
    /// The amount paid, and the price, if that is higher.
    pub(crate) short: Option<(Amount, Amount)>,
    pub(crate) contact: Option<String>,
    /// The message for the payer's signature.
    pub(crate) message: Option<String>,
    /// The outcome of a signed payment, in the standard's form.
    pub(crate) settlement: Option<Box<SettleResponse>>,
    /// The next step, in place of the code's own.
    pub(crate) detail: Option<&'static str>,
}

impl From<ProblemCode> for Problem {
    fn from(code: ProblemCode) -> Self {
        Self {
            code,
            retry_after: None,
            intent: None,
            short: None,
            contact: None,
            message: None,
            settlement: None,
            detail: None,
        }
    }
}

impl From<HealthError> for Problem {
    fn from(error: HealthError) -> Self {
        let code = match error {
            HealthError::Verifier(_)
            | HealthError::Settler(_)
            | HealthError::HeadBehindMark { .. }
            | HealthError::ChannelAtRisk { .. }
            | HealthError::NotSoldOn { .. } => ProblemCode::VerificationUnavailable,
            HealthError::Ledger(_) => ProblemCode::LedgerUnavailable,
            HealthError::Network { error, .. } => return (*error).into(),
        };
        Self::after(code, ASK_AGAIN)
    }
}

impl From<Unread> for Problem {
    fn from(unread: Unread) -> Self {
        let code = match unread {
            Unread::Chain => ProblemCode::VerificationUnavailable,
            Unread::Ledger => ProblemCode::LedgerUnavailable,
        };
        Self::after(code, ASK_AGAIN)
    }
}

impl Problem {
    pub(crate) fn after(code: ProblemCode, wait: Duration) -> Self {
        Self { retry_after: Some(wait), ..code.into() }
    }

    /// For a signed payment, if none are taken.
    pub(crate) fn takes_transfers_only() -> Self {
        let detail =
            "This seller takes transfers only: send one as the quote says, and show it in the x402-payment header.";
        Self { detail: Some(detail), ..ProblemCode::InvalidRedemption.into() }
    }

    /// For a permit, if none are taken.
    pub(crate) fn takes_no_permits() -> Self {
        let detail =
            "This seller takes no Permit2 permits: pay in one of the ways that its quote names. Nothing was taken.";
        Self { detail: Some(detail), ..ProblemCode::InvalidRedemption.into() }
    }

    /// For a voucher on a network where the seller takes none. It may have bought an answer while the seller took them.
    pub(crate) fn takes_no_channels() -> Self {
        let detail = "This seller takes no vouchers of channels on this network: pay for a new request in one of the ways that its quote names. If this voucher was for an answer before, do not pay for that again.";
        Self { detail: Some(detail), ..ProblemCode::InvalidRedemption.into() }
    }

    /// For a voucher that matches no offer, and whose quote does not open here or is too old, if its channel is charged for it.
    pub(crate) fn voucher_is_counted() -> Self {
        let detail = "The channel is charged for this voucher already, under a quote that does not count here any more. Nothing was taken now. Do not pay again for what it was for.";
        Self { detail: Some(detail), ..ProblemCode::AlreadyConsumed.into() }
    }

    /// For a transfer in the standard's header, if transfers are not taken there.
    pub(crate) fn takes_no_payment_proofs() -> Self {
        let detail = "This seller takes no proofs of transfers in the PAYMENT-SIGNATURE header: show the transfer in the x402-payment header. Do not pay again.";
        Self { detail: Some(detail), ..ProblemCode::InvalidRedemption.into() }
    }

    /// For a compressed body whose text sets the price, wherever the proof is.
    pub(crate) fn reads_uncompressed_only() -> Self {
        Self { detail: Some("Send the body uncompressed."), ..ProblemCode::UnsupportedEncoding.into() }
    }

    /// For a body in another charset that has to be read.
    pub(crate) fn reads_utf_8_only() -> Self {
        let detail = "Send the body in UTF-8, with one Content-Type that names no other charset.";
        Self { detail: Some(detail), ..ProblemCode::UnsupportedEncoding.into() }
    }

    /// Returns the problem for a payment that was made before the handler ran: its text does not say that nothing was taken.
    pub(crate) fn after_payment(self) -> Self {
        match self.code {
            ProblemCode::AnswerTimeout
            | ProblemCode::AnswerBroken
            | ProblemCode::AnswerTooLarge
            | ProblemCode::BodyTimeout
            | ProblemCode::UpstreamPaymentRequired => Self { detail: Some(MADE), ..self },
            _ => self,
        }
    }

    /// For a transfer in the standard's header that does not have the required form.
    pub(crate) fn is_no_payment_proof() -> Self {
        let detail = "The payload that shows a transfer has `type` (`payment-proof`) and `txRef` (0x and 64 hexadecimal digits), and may have `paymentSecret` and `paymentSignature`; `accepted` is the entry of PAYMENT-REQUIRED with `extra.assetTransferMethod` `txid`, as it was offered. Do not pay again.";
        Self { detail: Some(detail), ..ProblemCode::InvalidRedemption.into() }
    }

    /// For a credential of MPP whose challenge differs from the one that was sent.
    pub(crate) fn is_no_echo() -> Self {
        let detail = "The credential repeats its challenge to the letter (`id`, `realm`, `method`, `intent`, `request`, `expires`), and the nonce of its authorization is the hash of that challenge. This one differs from what was sent. Show the challenge as it was sent. Do not pay again.";
        Self { detail: Some(detail), ..ProblemCode::InvalidRedemption.into() }
    }

    /// For a payment that has to name its purchase, and does not.
    pub(crate) fn names_no_purchase() -> Self {
        ProblemCode::PaymentIdRequired.into()
    }

    /// For the name of a purchase in an invalid form.
    pub(crate) fn misnames_purchase() -> Self {
        let detail = "A payment identifier has 16 to 128 characters of [A-Za-z0-9_-], and is given once: as `info.id` of the extension `payment-identifier`, or in MPP in the header Idempotency-Key. Correct it and send the same payment again; nothing was taken. Do not pay again.";
        Self { detail: Some(detail), ..ProblemCode::InvalidRedemption.into() }
    }

    /// For a pass that its seller has closed.
    pub(crate) fn pass_is_closed() -> Self {
        let detail = "The seller has closed this pass, and owes what is left of it by its own terms. Send the request without `x402-pass` for a quote, or with another pass.";
        Self { detail: Some(detail), ..ProblemCode::InvalidPass.into() }
    }

    /// For a transfer, if nothing reads the chain.
    pub(crate) fn takes_signed_only() -> Self {
        let detail =
            "This seller takes signed payments only, in the PAYMENT-SIGNATURE header, as PAYMENT-REQUIRED says.";
        Self { detail: Some(detail), ..ProblemCode::InvalidRedemption.into() }
    }

    /// For a payment on a network on which the seller takes none.
    pub(crate) fn unknown_network() -> Self {
        let detail = "The member `chainId` names a network on which this seller takes no payments. Correct it to the network of the transaction, if that is one of those in the quote; otherwise find out why it was paid there. Do not pay again.";
        Self { detail: Some(detail), ..ProblemCode::InvalidRedemption.into() }
    }

    /// Asks the client to prove that it is the payer, by a signature over `message`.
    pub(crate) fn to_prove(code: ProblemCode, message: String) -> Self {
        Self { message: Some(message), ..code.into() }
    }
}

/// A refused signed payment that is certainly unused.
#[derive(Debug)]
pub(crate) struct RefusedPayment {
    pub(crate) requote: Requote,
    pub(crate) reason: Reason,
    /// The network of the payment.
    pub(crate) network: Network,
    /// The signer, if known.
    pub(crate) payer: Option<Address>,
    /// Where the vouchers of the payer's channel continue, if only their total is wrong.
    pub(crate) correction: Option<Box<Correction>>,
}

/// The parts of a new quote for a request that already belongs to the handler.
#[derive(Clone, Debug)]
pub(crate) struct Requote {
    pub(crate) route: Arc<Route>,
    pub(crate) terms: IntentTerms,
    pub(crate) tariff: Tariff,
    pub(crate) redeem_by: RedeemBy,
    pub(crate) method: Method,
    pub(crate) url: String,
}

impl Requote {
    /// Refuses a payment with a new quote.
    pub(crate) fn refuse(self, reason: Reason, network: Network, payer: Option<Address>) -> Rejection {
        Rejection::Quoted(Box::new(RefusedPayment { requote: self, reason, network, payer, correction: None }))
    }

    /// Refuses a voucher, and states where the channel's vouchers continue.
    pub(crate) fn correct(self, network: Network, payer: Address, correction: Correction) -> Rejection {
        let reason = Reason::INVALID_BATCH_SETTLEMENT_EVM_CUMULATIVE_AMOUNT_MISMATCH;
        let (payer, correction) = (Some(payer), Some(Box::new(correction)));
        Rejection::Quoted(Box::new(RefusedPayment { requote: self, reason, network, payer, correction }))
    }
}

/// Why the handler does not answer a request.
#[derive(Debug)]
pub(crate) enum Rejection {
    Problem(Problem),
    /// The service's own answer to a request that it does not price.
    Refusal(Refusal),
    Fault(Fault),
    /// The answer that was sold for this payment before.
    Replay(Box<Response<Bytes>>),
    /// The refund that the payer of a channel asked for.
    GivenBack(Box<Response<Bytes>>),
    /// A new quote, for a refused signed payment that is certainly unused.
    Quoted(Box<RefusedPayment>),
}

/// The service is misconfigured: nothing is served or charged.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// The price is zero.
    ZeroPrice,
    /// Two layers around one service ask for two payments, and neither honours the other's intents.
    NestedPrice,
    /// The handler's charge cannot be taken from this payment.
    Charge(ChargeFault),
}

/// Why a charge cannot be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChargeFault {
    AboveMaximum { charge: Amount, maximum: Amount },
    NotThePrice { charge: Amount, price: Amount },
    Unreadable,
}

impl fmt::Display for ChargeFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AboveMaximum { charge, maximum } => {
                write!(f, "it charges {charge} base units, and the payer allowed {maximum}")
            }
            Self::NotThePrice { charge, price } => {
                write!(f, "it charges {charge} base units, and the price is fixed at {price}")
            }
            Self::Unreadable => f.write_str(
                "Settlement-Overrides cannot be read: send it once, as {\"amount\":\"…\"} with base units, \"50%\", \"33.33%\" or \"$0.05\"",
            ),
        }
    }
}

impl From<Problem> for Rejection {
    fn from(problem: Problem) -> Self {
        Self::Problem(problem)
    }
}

impl From<Box<Problem>> for Rejection {
    fn from(problem: Box<Problem>) -> Self {
        Self::Problem(*problem)
    }
}

impl From<HealthError> for Rejection {
    fn from(error: HealthError) -> Self {
        Self::Problem(error.into())
    }
}

impl From<ProblemCode> for Rejection {
    fn from(code: ProblemCode) -> Self {
        Self::Problem(code.into())
    }
}

impl From<Refusal> for Rejection {
    fn from(refusal: Refusal) -> Self {
        Self::Refusal(refusal)
    }
}

impl From<Fault> for Rejection {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl Rejection {
    /// Returns the outcome of such a request, in a word.
    pub(crate) const fn outcome(&self) -> &'static str {
        match self {
            Self::Problem(problem) => problem.code.as_str(),
            Self::Refusal(_) => "refused_by_service",
            Self::Fault(_) => "misconfigured",
            Self::Replay(_) => "redelivered",
            Self::GivenBack(_) => "given_back",
            Self::Quoted(_) => ProblemCode::AuthorizationRefused.as_str(),
        }
    }
}
