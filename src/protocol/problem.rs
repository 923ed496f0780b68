//! `ProblemCode`: the single table of the layer's answers when it does not sell.

use std::str::FromStr;

use http::StatusCode;

use super::ParseError;

/// What a client should do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RetryRule {
    /// Pay for the quote, then redeem.
    Pay,
    /// Redeem the same transaction with the fresh intent of this answer. Do not pay.
    RedeemWithFreshIntent,
    /// Correct the request and send it again with the same proof. Do not pay.
    Correct,
    /// Prove that the payment is yours: send the same proof with the secret that the transfer is bound to, or with
    /// the payer's signature over the answer's `message`. Do not pay.
    ProvePayer,
    /// Send the same request again, after `Retry-After` if it is given. Do not pay.
    AskAgain,
    /// Nothing was taken by this request; find out why before paying again.
    Investigate,
}

macro_rules! problems {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $status:ident, $rule:ident, $title:literal, $detail:literal;)+) => {
        /// The short codes of the contract, each with its status, title and rule.
        ///
        /// ```
        /// use tower_x402::protocol::{ProblemCode, RetryRule};
        /// let code = ProblemCode::TxNotConfirmed;
        /// assert_eq!((code.as_str(), code.status().as_u16()), ("tx_not_confirmed", 409));
        /// assert_eq!(code.retry(), RetryRule::AskAgain);
        /// // Who is told to pay has paid nothing: without a proof, or with an authorization that is refused.
        /// assert!(ProblemCode::ALL.iter().all(|code| (code.retry() == RetryRule::Pay) == (code.status() == 402)));
        /// ```
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum ProblemCode { $($(#[$doc])* $name,)+ }

        impl ProblemCode {
            /// Every code.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// The short code, as in the body's `error`.
            #[must_use]
            pub const fn as_str(self) -> &'static str { match self { $(Self::$name => $code,)+ } }

            /// The HTTP status.
            #[must_use]
            pub const fn status(self) -> StatusCode { match self { $(Self::$name => StatusCode::$status,)+ } }

            /// What a client should do next.
            #[must_use]
            pub const fn retry(self) -> RetryRule { match self { $(Self::$name => RetryRule::$rule,)+ } }

            /// The body's `title`.
            #[must_use]
            pub const fn title(self) -> &'static str { match self { $(Self::$name => $title,)+ } }

            /// The body's `detail`: what to do next.
            #[must_use]
            pub const fn detail(self) -> &'static str { match self { $(Self::$name => $detail,)+ } }
        }

        // The texts go into JSON without escaping.
        $(const _: () = assert!(is_plain($code) && is_plain($title) && is_plain($detail));)+
    };
}

/// Returns whether a text is ASCII that a JSON string contains without escapes.
const fn is_plain(text: &str) -> bool {
    let mut rest = text.as_bytes();
    while let [first, behind @ ..] = rest {
        if !matches!(first, b' '..=b'~') || matches!(first, b'"' | b'\\') {
            return false;
        }
        rest = behind;
    }
    true
}

const INVALID: ParseError = ParseError::new("unknown problem code: it may be of a later version");

impl FromStr for ProblemCode {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.iter().copied().find(|code| code.as_str() == text).ok_or(INVALID)
    }
}

super::text::serde_as_text!(ProblemCode);

problems! {
    /// No proof was shown; the answer has a quote.
    PaymentRequired = "payment_required", PAYMENT_REQUIRED, Pay, "Payment required",
        "Send a transfer as `pay` says, then send this request again with `intentId` and `txHash`.";
    /// The authorization is refused and unused; the answer has a quote.
    AuthorizationRefused = "authorization_refused", PAYMENT_REQUIRED, Pay, "Authorization refused",
        "The signed authorization was refused for the given reason, and nothing was taken. Sign a new one for the quote in this answer.";
    /// A transaction without an intent.
    IntentRequired = "intent_required", BAD_REQUEST, RedeemWithFreshIntent, "Intent required",
        "Send the same transaction again with the intent in this answer. Do not pay again.";
    /// An intent without a transaction.
    TxRequired = "tx_required", BAD_REQUEST, Correct, "Transaction required",
        "Add `txHash`, the hash of the transaction that paid.";
    /// The proof is malformed.
    InvalidRedemption = "invalid_redemption", BAD_REQUEST, Correct, "Invalid redemption",
        "Send `intentId` (a string) and `txHash` (0x and 64 hexadecimal digits), and where they are needed `paymentSecret` (16 to 192 characters) and `paymentSignature` (0x and hexadecimal digits), each once, in the `x402-payment` header or, where bodies are read, as members of the JSON object in the body; not in a query, a form, an array or a string, and not with HEAD. Do not pay again.";
    /// The content type is JSON, but the body is not.
    InvalidBody = "invalid_body", BAD_REQUEST, Correct, "Invalid body",
        "Send one JSON value in UTF-8, or correct the content type.";
    /// A body that must be read is over the limit.
    BodyTooLarge = "body_too_large", PAYLOAD_TOO_LARGE, Correct, "Body too large",
        "Send a smaller body, or redeem with the x402-payment header.";
    /// A body that must be read did not arrive in time.
    BodyTimeout = "body_timeout", REQUEST_TIMEOUT, AskAgain, "Body time-out",
        "Send the request again, faster.";
    /// A body that must be read is compressed, or may be decoded as something other than UTF-8.
    UnsupportedEncoding = "unsupported_encoding", UNSUPPORTED_MEDIA_TYPE, Correct, "Unsupported encoding",
        "Send the body uncompressed, or redeem with the x402-payment header.";
    /// The intent cannot be opened for this request.
    IntentNotFound = "intent_not_found", NOT_FOUND, RedeemWithFreshIntent, "Intent not found",
        "This intent is not known for this request. Send the same transaction again with the intent in this answer, if there is one. Do not pay again.";
    /// The payment came too late for the quote.
    IntentExpired = "intent_expired", GONE, RedeemWithFreshIntent, "Intent expired",
        "The payment is later than this quote allows. Send the same transaction again with the intent in this answer, if there is one. Do not pay again.";
    /// The transaction is not mined deeply enough, or is unknown.
    TxNotConfirmed = "tx_not_confirmed", CONFLICT, AskAgain, "Transaction not confirmed",
        "The transaction is not confirmed yet. Ask again after Retry-After. Do not pay again.";
    /// The transaction has no transfer to this seller.
    TransferNotFound = "transfer_not_found", UNPROCESSABLE_ENTITY, Investigate, "Transfer not found",
        "The transaction is final, and has no transfer of an accepted token to the recipient. Find out why before paying again; a further payment begins with a new quote.";
    /// The transaction pays too little.
    InsufficientAmount = "insufficient_amount", UNPROCESSABLE_ENTITY, Investigate, "Insufficient amount",
        "No single transfer in the transaction reaches the price; transfers are not added up. Find out why before paying again; a further payment begins with a new quote.";
    /// Every qualifying transfer is bound to another secret.
    PaymentBound = "payment_bound", FORBIDDEN, ProvePayer, "Payment bound",
        "This payment is given only to its payer. Send the same redemption with `paymentSecret`, the secret that it was made for, or with `paymentSignature`, its payer's signature (EIP-191) over `message`. Do not pay again.";
    /// The payment is unbound, and this seller accepts bound payments only.
    PayerProofRequired = "payer_proof_required", FORBIDDEN, ProvePayer, "Proof of payer required",
        "This seller wants to know that you are the payer. Send the same redemption with `paymentSignature`, the payer's signature (EIP-191) over `message`, or with `paymentSecret`, if the payment was made for one. Do not pay again.";
    /// The signature belongs to none of the payers.
    InvalidSignature = "invalid_signature", FORBIDDEN, ProvePayer, "Invalid signature",
        "The signature is by none of this transaction's payers to this recipient. Sign `message` (EIP-191) with the account that sent the tokens. Do not pay again.";
    /// The pass cannot be opened here, or does not count for this request.
    InvalidPass = "invalid_pass", UNAUTHORIZED, Correct, "Invalid pass",
        "This pass is not known, or does not count for this request. Send the request without `x402-pass` for a quote, or with a pass that the quote names.";
    /// The rest of the pass suffices only if pending calls fail.
    PassBusy = "pass_busy", CONFLICT, AskAgain, "Pass busy",
        "Calls that are under way hold what is left of this pass. Ask again after Retry-After; nothing was taken now.";
    /// Another request of the same payment channel is pending.
    ChannelBusy = "channel_busy", CONFLICT, AskAgain, "Channel busy",
        "Another request of this channel is under way, and a channel pays for one at a time. Ask again with the same voucher after Retry-After; nothing was taken now.";
    /// The payment is too old.
    PaymentTooOld = "payment_too_old", UNPROCESSABLE_ENTITY, Investigate, "Payment too old",
        "The payment is older than this seller accepts, or from before the seller's records begin. Contact the seller.";
    /// Every transfer of the transaction has bought something already.
    TxAlreadyUsed = "tx_already_used", CONFLICT, Investigate, "Transaction already used",
        "Every qualifying transfer of this transaction has bought an answer already. Nothing was taken now.";
    /// The intent has bought its answer already.
    AlreadyConsumed = "already_consumed", CONFLICT, Investigate, "Already consumed",
        "This intent has bought its answer already. Nothing was taken now.";
    /// Another payment has bought the answer for the purchase that this payment names.
    PaymentIdConflict = "payment_id_conflict", CONFLICT, Investigate, "Payment identifier used",
        "Another payment has bought the answer for this payment identifier already. This payment was not taken. Show the first payment to ask for its answer again; for a new purchase, choose a new identifier.";
    /// The payment names no purchase, but this seller requires the name.
    PaymentIdRequired = "payment_id_required", BAD_REQUEST, Correct, "Payment identifier required",
        "Name the purchase: 16 to 128 characters of [A-Za-z0-9_-], the same whenever it is tried again, as `info.id` of the extension `payment-identifier`, or in MPP in the header Idempotency-Key. Send the same payment again with it; nothing was taken. Do not pay again.";
    /// The same intent, payment or purchase is being redeemed right now.
    RedemptionInProgress = "redemption_in_progress", CONFLICT, AskAgain, "Redemption in progress",
        "This intent or payment is being redeemed right now. Ask again after Retry-After. Do not pay again.";
    /// The handler was started too often for this intent and payment.
    TooManyAttempts = "too_many_attempts", TOO_MANY_REQUESTS, AskAgain, "Too many attempts",
        "The service did not manage to answer. Ask again after Retry-After; the payment stays good.";
    /// The service did not provide the price in time.
    PriceUnavailable = "price_unavailable", SERVICE_UNAVAILABLE, AskAgain, "Price unavailable",
        "The price of this request cannot be told right now. Ask again after Retry-After; whatever was paid is safe.";
    /// The chain could not be read.
    VerificationUnavailable = "verification_unavailable", SERVICE_UNAVAILABLE, AskAgain, "Verification unavailable",
        "The payment cannot be checked right now. Ask again after Retry-After; the payment is safe.";
    /// The ledger could not be reached.
    LedgerUnavailable = "ledger_unavailable", SERVICE_UNAVAILABLE, AskAgain, "Ledger unavailable",
        "The payment cannot be booked right now. Ask again after Retry-After; the payment is safe.";
    /// The answer was ready, but whether its sale was recorded is unknown.
    OutcomeUnknown = "outcome_unknown", SERVICE_UNAVAILABLE, AskAgain, "Outcome unknown",
        "Whether the sale was recorded is not known. Ask again with the same intent and transaction; if that says already_consumed, contact the seller.";
    /// The handler took too long.
    AnswerTimeout = "answer_timeout", GATEWAY_TIMEOUT, AskAgain, "Answer time-out",
        "The service took too long. Ask again; nothing was taken.";
    /// The handler's answer broke off before it was sold.
    AnswerBroken = "answer_broken", BAD_GATEWAY, AskAgain, "Answer broken off",
        "The service's answer broke off before it was complete. Ask again; nothing was taken.";
    /// The handler's answer is too long to be judged before it is sold.
    AnswerTooLarge = "answer_too_large", BAD_GATEWAY, Correct, "Answer too large",
        "The service's answer is larger than can be checked before it is sold, so it was withheld. Nothing was taken. Ask for less, or contact the seller.";
    /// The handler itself asked for payment.
    UpstreamPaymentRequired = "upstream_payment_required", BAD_GATEWAY, AskAgain, "Upstream payment required",
        "The service itself met a payment it could not make. Ask again later; nothing was taken.";
}

impl std::fmt::Display for ProblemCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}
