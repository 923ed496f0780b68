//! Refunds: at most what is left once everything sold is claimed.

use std::slice;

use super::{
    asking::{self, GivesBack},
    telling::Said,
};
use crate::{
    protocol::{Amount, channel::claim_digest, v2::Reason},
    settle::{
        ChannelRefund, Settlement,
        facilitator::{
            keeper::{Fact, Keeper, Refusal, SEEN_WITHIN},
            settler::Inner,
        },
        on_chain,
    },
};

pub(super) async fn give_back(inner: &Inner, keeper: &Keeper, refund: &ChannelRefund) -> Settlement {
    let (network, config) = (keeper.network, &refund.config);
    let authorizer = keeper.authorizer().unwrap_or(config.receiver_authorizer);
    if let Some(reason) = on_chain::misfit_of(network, authorizer, refund) {
        return Settlement::Refused(reason);
    }
    let unknown = Settlement::Unknown(None);
    let Ok(state) = on_chain::state(&keeper.nodes, keeper.at(), config).await else { return unknown };
    if !on_chain::is_next(&state, refund) {
        return unknown;
    }
    if Amount::from_base_units(refund.amount) > on_chain::left(&state, refund) {
        return Settlement::Refused(Reason::INVALID_BATCH_SETTLEMENT_EVM_REFUND_AMOUNT_INVALID);
    }
    let body = match body(keeper, refund).await {
        Ok(Some(body)) => body,
        Ok(None) => return Settlement::Refused(Reason::INVALID_BATCH_SETTLEMENT_EVM_REFUND_PAYLOAD),
        Err(Refusal) => return unknown,
    };
    let is_made = Fact::Refunded(config, refund.nonce);
    match inner.tell(network, keeper.signing(config), &body).await.said {
        Said::Done(transaction) if keeper.becomes(&is_made, SEEN_WITHIN).await => Settlement::Settled(transaction),
        Said::Done(transaction) => Settlement::Unknown(Some(transaction)),
        Said::Refused(reason) => match keeper.is_so(&is_made).await {
            Ok(false) => Settlement::Refused(reason),
            _ => unknown,
        },
        Said::Doubt(transaction) => Settlement::Unknown(transaction),
        Said::Nothing => unknown,
    }
}

/// Returns the request's body; `None` without any voucher, which the facilitator requires.
async fn body(keeper: &Keeper, refund: &ChannelRefund) -> Result<Option<String>, Refusal> {
    let ChannelRefund { config, amount, nonce, claim, voucher } = refund;
    let Some(voucher) = voucher.as_ref().or(claim.as_ref().map(|claim| &claim.voucher)) else { return Ok(None) };
    let (network, claims) = (keeper.network, claim.as_ref().map_or(&[][..], slice::from_ref));
    let by_refund = keeper.authorize(config.id(network).refund_digest(*nonce, *amount, network)).await?;
    let by_claim = if claims.is_empty() { None } else { keeper.authorize(claim_digest(claims, network)).await? };
    let back = GivesBack { config, voucher, amount: *amount, nonce: *nonce, claims };
    Ok(Some(asking::refund(network, &back, [by_refund, by_claim])))
}
