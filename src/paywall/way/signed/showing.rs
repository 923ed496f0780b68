//! `Showing`: the occasion on which a signed payment is shown: its quote and request, and the head of the chain.

use std::{sync::Arc, time::Duration};

use crate::{
    ledger::Settling,
    paywall::{
        refusal::{ASK_AGAIN, Problem},
        sale::{kept_answer::Shown, opened::Opened},
        seller::{chain::SellingChain, inner::MerchantInner, time_limits::verifier_in_time},
        way::signed::judgement::Case,
    },
    protocol::{
        Address, Amount, ChainTime, IntentId, Network, PaymentId, ProblemCode, TxHash, redemption_message,
        v2::SettleResponse,
    },
};

/// How long before its quote a payment may seem to have been settled, by other clocks.
const SKEW: Duration = Duration::from_secs(120);
/// How long after its expiry a payment counts as possibly forgotten by the ledger. The ledger keeps it for a day more.
const FORGOTTEN: Duration = Duration::from_secs(12 * 60 * 60);
/// How long before it is sent a transaction may seem to be mined, by the local clock: two blocks of Base.
const EARLY: Duration = Duration::from_secs(4);

/// The quote that a payment is shown for.
pub(crate) struct ShownQuote {
    /// The intent as the client showed it; the payment's id if it showed none.
    pub(crate) intent: IntentId,
    /// The intent under which the payer can redeem the payment once it is made, if it names no quote.
    pub(crate) fresh: Option<IntentId>,
    /// Whether the payment names a quote. Only the payer knows the quote's intent.
    pub(crate) quoted: bool,
    /// Whether the quote, or without one the present price, covers this request. A payment that was settled for another request does not
    /// buy this one.
    pub(crate) honoured: bool,
}

/// The payer, the amount and the expiry that are signed.
#[derive(Clone, Copy)]
pub(crate) struct SignedTerms {
    pub(crate) payer: Address,
    pub(crate) amount: Amount,
    /// The time from which it can no longer be settled.
    pub(crate) until: ChainTime,
}

/// The occasion on which a signed payment is shown.
pub(crate) struct Showing {
    pub(crate) merchant: Arc<MerchantInner>,
    /// The network on which it is paid.
    pub(crate) chain: Arc<SellingChain>,
    quote: ShownQuote,
    signed: SignedTerms,
    /// Whether it is settled before the handler runs.
    first: bool,
    /// A payment that names a quote was not settled before this time.
    pub(crate) since: ChainTime,
    /// The digest of the request that it pays for.
    request: [u8; 16],
    /// The chain's head when it was reserved.
    pub(crate) head: ChainTime,
    /// The earliest time at which a settlement that begins now can be mined.
    from: ChainTime,
}

impl Showing {
    /// `request`: the digest of the request.
    pub(crate) fn new(
        chain: &Arc<SellingChain>,
        opened: &Opened<'_>,
        (quote, signed): (ShownQuote, SignedTerms),
        request: [u8; 16],
        head: ChainTime,
    ) -> Self {
        let (merchant, chain) = (Arc::clone(&opened.route.merchant), Arc::clone(chain));
        let since = ChainTime::from_unix(opened.terms.issued.saturating_sub(SKEW.as_secs()));
        let first = opened.route.settle_first;
        Self { merchant, chain, quote, signed, first, since, request, head, from: head }
    }

    /// Learns the earliest time of a settlement from the clock as well. A node may be minutes behind, and not know yet what a relayer
    /// settled for the payer.
    pub(crate) async fn begin(&mut self) {
        let now = verifier_in_time(self.chain.view.horizon()).await.unwrap_or(self.head);
        self.from = self.head.max(ChainTime::from_unix(now.unix().saturating_sub(EARLY.as_secs())));
    }

    /// Returns the record that it is about to be settled.
    pub(crate) const fn begun(&self) -> Settling {
        Settling::new(self.request, self.from)
    }

    /// Returns the case to judge, with the settlement that was begun before, if any. `metered`: whether the handler sets the charge.
    pub(crate) fn case(&self, metered: bool, begun: Option<&Settling>) -> Case {
        let read = self.is_read();
        // A head that is ahead of the clock may be wrong.
        let now = self.head.min(ChainTime::from_unix(self.merchant.clock.unix()));
        let over = read && self.signed.until <= now;
        let forgotten = !read && self.signed.until.after(FORGOTTEN).unix() < self.merchant.clock.unix();
        let ShownQuote { quoted, honoured, .. } = self.quote;
        let Self { first, request, from, .. } = *self;
        let (first, begun) = (first && !metered, begun.copied());
        Case { quoted, honoured, metered, first, read, over, forgotten, request, from, begun }
    }

    /// Whether it names a quote.
    pub(crate) const fn is_quoted(&self) -> bool {
        self.quote.quoted
    }

    /// Whether anything reads the chain.
    pub(crate) fn is_read(&self) -> bool {
        self.chain.reader().is_some()
    }

    /// Returns a time that is later than everything that the ledger has forgotten, for a payment whose block is unknown.
    pub(crate) fn now(&self) -> ChainTime {
        ChainTime::from_unix(self.merchant.clock.unix().max(self.head.unix()) + 1)
    }

    /// Returns the problem for a payment that is settled, so that anyone may show it: its payer must sign to redeem it.
    pub(crate) fn to_prove(&self, transaction: TxHash) -> Problem {
        let ShownQuote { intent, fresh, .. } = &self.quote;
        let message = redemption_message(self.network(), transaction, fresh.as_ref().unwrap_or(intent));
        let intent = fresh.as_ref().map(IntentId::to_string);
        Problem { intent, ..Problem::to_prove(ProblemCode::PaymentBound, message) }
    }

    /// The intent.
    pub(crate) const fn intent(&self) -> &IntentId {
        &self.quote.intent
    }

    /// The network on which it is paid.
    pub(crate) fn network(&self) -> Network {
        self.chain.network
    }

    /// The payer.
    pub(crate) const fn payer(&self) -> Address {
        self.signed.payer
    }

    /// The amount that is signed for.
    pub(crate) const fn amount(&self) -> Amount {
        self.signed.amount
    }

    /// Returns the problem if it is unknown whether the payment is settled, or will be. The client sends the same header again.
    pub(crate) fn outcome_unknown(&self, transaction: Option<TxHash>) -> Problem {
        Problem {
            settlement: Some(Box::new(self.pending(transaction))),
            detail: Some(
                "Whether the payment is settled is not known yet. Send the same request with the same PAYMENT-SIGNATURE again after Retry-After; do not sign another.",
            ),
            ..Problem::after(ProblemCode::OutcomeUnknown, ASK_AGAIN)
        }
    }

    /// Returns the problem if the payment is used, and nothing shows by what: only a person can find out.
    pub(crate) fn used_untold(&self) -> Problem {
        Problem {
            detail: Some(
                "The signed payment is used, and by no transaction that this seller can tell to be its own. If it paid this seller, tell the seller, who can see the payment on the chain and give it back; do not sign another.",
            ),
            contact: self.merchant.contact.clone(),
            ..self.outcome_unknown(None)
        }
    }

    /// Returns the reply about a payment that was made, or may have been, and has bought nothing.
    pub(crate) fn pending(&self, transaction: Option<TxHash>) -> SettleResponse {
        let pending = SettleResponse::pending(transaction, self.network());
        pending.with_payer(self.payer()).with_amount(self.amount())
    }
}

/// Returns the proof by a payment. Without a quote, the payment is public once it is settled, and gets no sold answer again.
pub(crate) const fn shown_by(payment: PaymentId, quoted: bool) -> Shown {
    match quoted {
        true => Shown::Authorization(payment),
        false => Shown::Public,
    }
}
