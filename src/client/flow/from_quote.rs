//! Builds a journal entry, a proposal and a transfer from a quote that may be paid.

use std::time::Duration;

use crate::{
    client::{
        JournalEntry, JournalPayment, PaymentMethod, Proposal, PurchaseId, PurchaseState, ReplayBody, TransferRequest,
        http::{ReplayRequest, RequestIdentity},
    },
    protocol::{Address, Amount, Asset, ChainTime, Network, Quote},
};

/// Returns the entry of a purchase with no prepared payment yet.
pub(crate) fn entry<B: ReplayBody>(
    request: &ReplayRequest<B>,
    quote: &Quote,
    id: PurchaseId,
    at: ChainTime,
) -> JournalEntry {
    let identity = &request.identity;
    JournalEntry {
        id,
        at,
        state: PurchaseState::Paying,
        host: identity.host.clone(),
        request: identity.what.clone(),
        fingerprint: identity.fingerprint.clone().unwrap_or_default(),
        intent: quote.intent.as_str().to_owned(),
        secret: None,
        expiry: quote.expiry,
        recipient: quote.recipient,
        network: quote.network,
        is_elsewhere: false,
        amount: quote.amount,
        decimals: quote.decimals,
        payment: JournalPayment::None,
        transaction: None,
        settled: None,
        delivered: false,
        billed: 0,
        charged: None,
        is_pass: identity.is_pass,
    }
}

/// Returns the entry of a channel that is about to be opened at this seller.
pub(crate) fn channel(identity: &RequestIdentity, quote: &Quote, at: ChainTime) -> JournalEntry {
    channel_of(identity, (quote.network, quote.recipient, quote.decimals), at)
}

/// Returns the entry of a channel on that network, for that recipient, in a token with that many decimals.
pub(crate) fn channel_of(
    identity: &RequestIdentity,
    (network, recipient, decimals): (Network, Address, u8),
    at: ChainTime,
) -> JournalEntry {
    JournalEntry {
        id: PurchaseId::random(),
        at,
        state: PurchaseState::Paying,
        host: identity.host.clone(),
        request: identity.what.clone(),
        fingerprint: String::new(),
        intent: String::new(),
        secret: None,
        expiry: at,
        recipient,
        network,
        is_elsewhere: false,
        amount: Amount::ZERO,
        decimals,
        payment: JournalPayment::None,
        transaction: None,
        settled: None,
        delivered: false,
        billed: 0,
        charged: None,
        is_pass: false,
    }
}

/// Returns the proposal for the approval hook. `valid_for` is set if a signature is to be made.
pub(crate) fn proposal<B: ReplayBody>(
    request: &ReplayRequest<B>,
    quote: &Quote,
    purchase: PurchaseId,
    assets: Vec<Asset>,
    paid_by: PaymentMethod,
    valid_for: Option<Duration>,
) -> Proposal {
    Proposal {
        purchase,
        host: request.identity.host.clone(),
        method: request.method().clone(),
        path: request.path().to_owned(),
        label: quote.label.clone(),
        recipient: quote.recipient,
        network: quote.network,
        amount: quote.amount,
        decimals: quote.decimals,
        assets,
        paid_by,
        deposit: None,
        withdraw_delay: None,
        valid_for,
    }
}

/// Returns the transfer that a proposal asks for.
pub(crate) fn payment(proposal: &Proposal, quote: &Quote) -> TransferRequest {
    let assets = proposal.assets.iter().cloned();
    let payment = TransferRequest::new(proposal.purchase, quote.network, quote.recipient, quote.amount, assets);
    payment.tagged(quote.intent.as_str())
}
