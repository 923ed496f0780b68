//! `Showing`: on what occasion a signed payment is shown: for which quote and request, and at which head of the chain.

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

/// How much before its quote a payment may seem to have been settled, by the clocks of others.
const SKEW: Duration = Duration::from_secs(120);
/// How long after its time a payment may have been forgotten by the ledger, at the earliest: that keeps it for a day more.
const FORGOTTEN: Duration = Duration::from_secs(12 * 60 * 60);
/// How much before it is sent a transaction may seem to be mined, by the local clock: two blocks of Base.
const EARLY: Duration = Duration::from_secs(4);

/// The quote that a payment is shown for.
pub(crate) struct ShownQuote {
    /// The intent as the client showed it; the payment's name where it showed none.
    pub(crate) intent: IntentId,
    /// Under which its payer can redeem it once it is made, where it names no quote.
    pub(crate) fresh: Option<IntentId>,
    /// Whether it names a quote. Only the payer knows its intent.
    pub(crate) quoted: bool,
    /// Whether that, or without one the present price, covers this request. A payment that was settled for another request does not buy
    /// this one.
    pub(crate) honoured: bool,
}

/// What is signed, as far as it says who pays how much, and until when.
#[derive(Clone, Copy)]
pub(crate) struct SignedTerms {
    pub(crate) payer: Address,
    pub(crate) amount: Amount,
    /// From then on it can no longer be settled.
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
    /// It was not settled before, where it names a quote.
    pub(crate) since: ChainTime,
    /// The digest of the request that it pays for.
    request: [u8; 16],
    /// The chain's head when it was reserved.
    pub(crate) head: ChainTime,
    /// From when on a settlement that begins now can be mined.
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

    /// Learns what the clock says of the moment from which on it can be settled: a node may be minutes behind, and know nothing yet of
    /// what a relayer settled for the payer.
    pub(crate) async fn begin(&mut self) {
        let now = verifier_in_time(self.chain.view.horizon()).await.unwrap_or(self.head);
        self.from = self.head.max(ChainTime::from_unix(now.unix().saturating_sub(EARLY.as_secs())));
    }

    /// The record that it is about to be settled.
    pub(crate) const fn begun(&self) -> Settling {
        Settling::new(self.request, self.from)
    }

    /// The case to judge if this settlement had begun earlier. `metered`: whether the handler sets the charge.
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

    /// A time that is later than everything that the ledger has forgotten, where the block is unknown.
    pub(crate) fn now(&self) -> ChainTime {
        ChainTime::from_unix(self.merchant.clock.unix().max(self.head.unix()) + 1)
    }

    /// What to answer where it is settled, and anybody may show it: its payer can say so by a signature.
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

    /// Whether it is settled, or will be, is not known: the same header again goes on.
    pub(crate) fn outcome_unknown(&self, transaction: Option<TxHash>) -> Problem {
        Problem {
            settlement: Some(Box::new(self.pending(transaction))),
            detail: Some(
                "Whether the payment is settled is not known yet. Send the same request with the same PAYMENT-SIGNATURE again after Retry-After; do not sign another.",
            ),
            ..Problem::after(ProblemCode::OutcomeUnknown, ASK_AGAIN)
        }
    }

    /// It is used, and nothing tells by what: only a person can.
    pub(crate) fn used_untold(&self) -> Problem {
        Problem {
            detail: Some(
                "The signed payment is used, and by no transaction that this seller can tell to be its own. If it paid this seller, tell the seller, who can see the payment on the chain and give it back; do not sign another.",
            ),
            contact: self.merchant.contact.clone(),
            ..self.outcome_unknown(None)
        }
    }

    /// The reply about a payment that was made, or may have been, and has bought nothing.
    pub(crate) fn pending(&self, transaction: Option<TxHash>) -> SettleResponse {
        let pending = SettleResponse::pending(transaction, self.network());
        pending.with_payer(self.payer()).with_amount(self.amount())
    }
}

/// What a payment shows of itself. Without a quote it is public once it is settled, and gives no sold answer again.
pub(crate) const fn shown_by(payment: PaymentId, quoted: bool) -> Shown {
    match quoted {
        true => Shown::Authorization(payment),
        false => Shown::Public,
    }
}
