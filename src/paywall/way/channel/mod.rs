//! By channel: the payer deposited before, and signs vouchers over a growing total. A sale sends no transaction. It charges the channel's
//! account in the ledger, and the seller claims many charges at once.

mod channel_response;
mod charging;
mod deposited;
mod drawing;
mod finding;
mod found;
mod refund;
mod shown;
mod units;
mod unmatched;

use std::{
    pin::pin,
    sync::{Arc, Mutex, OnceLock},
};

use charging::{Charge, Charging};
use deposited::expiry;
use finding::find;
use found::{Found, Sale};
use shown::{Vouched, channel, is_signed};
use units::after_all_that_is_forgotten;

use crate::{
    ledger::Settling,
    paywall::{
        dialect::purchase::{Named, named_in_payload},
        priced_request::PricedRequest,
        refusal::{ASK_AGAIN, Problem, Rejection},
        sale::{
            deliver::Purchase,
            reservation::{LeaseGuard, UntilNow},
            upkeep::HoldOutcome,
        },
        seller::{
            attempts::Claimed,
            chain::SellingChain,
            channels::{ChannelToken, Channels},
            inner::MerchantInner,
            pricing::{Cost, Tariff},
            time_limits::{SETTLER, verifier_in_time},
        },
        way::{signed::timeout, way_to_pay::WayToPay},
    },
    protocol::{
        Amount, ProblemCode, Proof, ProvedBy, Receipt, Way,
        channel::{ChannelDeposit, ChannelPayload, Voucher, VoucherPayment},
        v2::{PaymentOption, PaymentPayload, Reason, SchemePayload},
    },
    settle::ChannelOnChain,
};

/// Payments by the voucher of a channel.
pub(crate) struct ByChannel;

impl WayToPay for ByChannel {
    fn offers(&self, merchant: &MerchantInner, chain: &SellingChain, _: Tariff) -> Vec<Way> {
        let Some(channels) = &chain.channels else { return Vec::new() };
        let Some(tokens) = channels.tokens() else {
            channels.learn_later();
            return Vec::new();
        };
        let timeout = timeout(merchant);
        let way = |token: &ChannelToken| match &token.domain {
            Some(domain) if !token.by_permit2 => Way::channel(chain.network, domain, timeout, &token.terms),
            domain => {
                let named = domain.as_ref().map(|domain| (&*domain.name, &*domain.version));
                Way::channel_by_permit2(chain.network, token.asset.contract(), timeout, &token.terms, named)
            }
        };
        tokens.iter().map(way).collect()
    }

    fn recognises(&self, proof: &Proof) -> bool {
        matches!(proof, Proof::Payment(payment) if is_of_channel(payment))
    }

    async fn reserve(
        &self,
        request: &PricedRequest,
        proof: Proof,
        price: Result<Cost, Rejection>,
    ) -> Result<Purchase, Rejection> {
        let Proof::Payment(payment) = proof else { return Err(ProblemCode::InvalidRedemption.into()) };
        let purchase = named_in_payload(&request.route, &payment);
        // Boxed, so that the other ways do not carry its state.
        Box::pin(accept(request, &payment, purchase, price)).await
    }
}

/// Returns whether a payment is by a channel, or claims to be.
pub(crate) fn is_of_channel(payment: &PaymentPayload) -> bool {
    matches!(payment.payload, SchemePayload::Channel(_)) || matches!(payment.accepted, PaymentOption::Channel(_))
}

/// Reserves a voucher, and the amount that it pays in its channel.
async fn accept(
    request: &PricedRequest,
    payload: &PaymentPayload,
    purchase: Named,
    price: Result<Cost, Rejection>,
) -> Result<Purchase, Rejection> {
    let merchant = &request.route.merchant;
    let named = channel(payload).ok().and_then(|(accepted, _)| merchant.on(accepted.network));
    // A payment that is on another network, or cannot be read, is refused on behalf of any chain with channels.
    let has_channels = || merchant.chains.iter().find(|chain| chain.channels.is_some());
    let chain: &Arc<SellingChain> = named.or_else(has_channels).unwrap_or(merchant.first());
    let Some(channels) = &chain.channels else { return Err(Problem::takes_no_channels().into()) };
    chain.ready_for_channels(channels).await?;
    let vouched = match Vouched::read(request, chain, channels, payload) {
        Ok(vouched) => vouched,
        Err(reason) => return Err(unmatched::refuse(request, (chain, channels), (payload, reason), price?).await),
    };
    // Before the reply reveals anything about the channel, or the chain is asked.
    if !is_signed(channels, chain.network, &vouched.channel, &vouched.voucher).await? {
        let reason = Reason::INVALID_BATCH_SETTLEMENT_EVM_VOUCHER_SIGNATURE;
        return Err(request.requote(price?).refuse(reason, chain.network, None));
    }
    let deposit = match channel(payload) {
        Ok((_, ChannelPayload::Refund { amount, .. })) => {
            // Without a price for the request, the refusal's quote uses the tariff that promises the least.
            let tariff = price.map_or(Tariff::UpTo, |now| now.tariff);
            return Err(refund::give_back(request, (chain, channels), (&vouched, tariff), *amount).await);
        }
        Ok((_, ChannelPayload::Deposit { deposit, .. })) => Some(deposit),
        _ => None,
    };
    let shown = vouched.shown();
    let (now, purchase) = match (price, purchase) {
        (Ok(now), Ok(purchase)) => (now, purchase),
        (Err(unpriced), _) => return Err(vouched.opened.unless_consumed(shown, unpriced).await),
        (_, Err(problem)) => return Err(vouched.opened.unless_consumed(shown, problem.into()).await),
    };
    let known = channels.fresh_reading(&vouched.channel);
    let is_covered =
        deposit.is_none() && known.is_some_and(|known| covers(&known.state, &vouched.voucher, vouched.payment.amount));
    let head = match known {
        Some(known) => Ok(known.head),
        None => verifier_in_time(chain.view.head()).await,
    };
    let Ok(head) = head else {
        let unavailable = Problem::after(ProblemCode::VerificationUnavailable, ASK_AGAIN);
        return Err(vouched.opened.unless_consumed(shown, unavailable.into()).await);
    };
    let payment = vouched.payment.clone().with_shown(after_all_that_is_forgotten(head));
    let claim = vouched.opened.claim(head).purchase(purchase).payments([payment.clone()]).covered(is_covered);
    let guard = match vouched.opened.grant(claim, |_| Claimed::ByPayer).await {
        Ok(guard) => guard,
        Err(problem) => return Err(vouched.opened.refused(shown, problem).await),
    };
    let sale =
        Sale { request: vouched.opened.digest(request), honoured: vouched.opened.honours(request, now.amount), head };
    match find_kept(&vouched, channels, deposit, &sale, &guard).await {
        Ok(Found::Pays(how, state)) => Ok(buy(request, channels, vouched, (payment, sale), (guard, how, state), now)),
        // This voucher buys nothing. If its record stayed, the quote would not take the next voucher.
        Ok(Found::Corrected(account)) => match unless_anothers(guard).await {
            Ok(()) => Err(channel_response::correct(request.requote(now), channels, &vouched, &account)),
            Err(problem) => Err(problem.into()),
        },
        // The deposit of this voucher may be on its way. That can be checked only if the request shows the deposit.
        Ok(Found::Refused(_)) if deposit.is_none() && guard.begun().is_some() => {
            guard.release().await;
            Err(Problem::after(ProblemCode::RedemptionInProgress, ASK_AGAIN).into())
        }
        Ok(Found::Refused(reason)) => match unless_anothers(guard).await {
            Ok(()) => Err(request.requote(now).refuse(reason, chain.network, Some(vouched.channel.config.payer))),
            Err(problem) => Err(problem.into()),
        },
        Err(problem) => {
            guard.release().await;
            Err(problem.into())
        }
    }
}

/// Releases the reservation of a voucher that buys nothing, and removes the record of its deposit.
///
/// # Errors
/// If a deposit was begun, and the lease may be lost: another request may be selling by that deposit.
async fn unless_anothers(mut guard: LeaseGuard) -> Result<(), Problem> {
    let is_anothers = guard.begun().is_some() && guard.is_not_settled().await != UntilNow::Held;
    guard.release().await;
    match is_anothers {
        true => Err(Problem::after(ProblemCode::RedemptionInProgress, ASK_AGAIN)),
        false => Ok(()),
    }
}

/// Finds how a reserved voucher pays. Renews its lease meanwhile, because the ledger and the chain may take longer than the lease. Once the
/// lease is lost, only another request may sell by what was found.
async fn find_kept(
    vouched: &Vouched<'_>,
    channels: &Channels,
    deposit: Option<&ChannelDeposit>,
    sale: &Sale,
    guard: &LeaseGuard,
) -> Result<Found, Problem> {
    let found = pin!(find(vouched, channels, deposit, sale, guard));
    match guard.keep(SETTLER + SETTLER, None, found).await {
        HoldOutcome::Finished(found) => found,
        HoldOutcome::LeaseLost => Err(Problem::after(ProblemCode::RedemptionInProgress, ASK_AGAIN)),
        HoldOutcome::HeldTooLong | HoldOutcome::BodyLate => {
            Err(Problem::after(ProblemCode::VerificationUnavailable, ASK_AGAIN))
        }
    }
}

/// Returns whether a channel holds this voucher's total, and the voucher's whole price lies above the claimed total, as with each voucher
/// of an honest payer. A claimed voucher is public, and costs a stranger nothing.
fn covers(state: &ChannelOnChain, voucher: &Voucher, amount: Amount) -> bool {
    let (total, claimed) = (Amount::from_base_units(voucher.max_claimable), state.claimed_at_most);
    let is_behind_claims = claimed < total && claimed.checked_add(amount).is_some_and(|least| least <= total);
    is_behind_claims && total <= state.covers()
}

/// Returns the purchase by a voucher that is reserved in both the ledger and its channel's account.
fn buy(
    request: &PricedRequest,
    channels: &Channels,
    vouched: Vouched<'_>,
    (payment, sale): (VoucherPayment, Sale),
    (guard, how, state): (LeaseGuard, Charge, ChannelOnChain),
    now: Cost,
) -> Purchase {
    let pay_until = vouched.opened.pay_until();
    let Vouched { intent, channel, voucher, .. } = vouched;
    let (route, is_metered) = (&request.route, now.tariff.is_metered());
    let maximum = payment.amount;
    let receipt =
        Receipt::new(Arc::clone(&route.resource), intent, payment.clone()).with_proof(ProvedBy::Authorization);
    let receipt = if is_metered { receipt.with_maximum(maximum) } else { receipt };
    let comes_until = match &how {
        Charge::Deposit(deposit) => Some(expiry(deposit)),
        Charge::Drawn(..) => None,
    };
    let charging = Charging {
        ledger: Arc::clone(&route.merchant.ledger),
        channels: channels.clone(),
        channel,
        voucher,
        payment,
        is_metered,
        pay_until,
        begun: Settling::new(sale.request, sale.head),
        comes_until,
        state,
        requote: request.requote(now),
        charge: Mutex::new(Some(how)),
        sold: OnceLock::new(),
        ended: Mutex::default(),
    };
    Purchase { receipt, guard, unsettled: Some(Box::new(charging)), cost: now, made: None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{ChainTime, PaymentSignature, channel::ChannelId};

    #[test]
    fn a_voucher_costs_its_author_a_deposit_where_it_is_covered_and_not_claimed() {
        let units = Amount::from_base_units;
        let voucher = |total| Voucher::new(ChannelId::new([1; 32]), total, PaymentSignature::new([7; 65]).unwrap());
        let state = ChannelOnChain::new(units(100), units(30));
        let withdrawing = state.with_withdrawal(units(60), ChainTime::from_unix(1_795_280_400));
        for (state, total, amount, covered) in [
            (state, 29, 1, false),
            (state, 30, 0, false),
            (state, 31, 1, true),
            (state, 31, 2, false),
            (state, 79, 50, false),
            (state, 80, 50, true),
            (state, 100, 1, true),
            (state, 100, u128::MAX, false),
            (state, 101, 1, false),
            (withdrawing, 40, 1, true),
            (withdrawing, 41, 1, false),
            (ChannelOnChain::default(), 0, 0, false),
        ] {
            assert_eq!(covers(&state, &voucher(total), units(amount)), covered, "{total} {amount}");
        }
    }
}
