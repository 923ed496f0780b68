//! Decides whether a channel pays for an answer, and what must be deposited first. Nothing is signed.

use crate::{
    client::{
        ChannelRecord, Denial, Failure, PayerError,
        dialect::ChannelTerms,
        flow::{ChannelGuard, FoundChannel, WantedChannel, from_quote},
        http::RequestIdentity,
        inner::ClientInner,
        way::{channel::deposit, permit},
    },
    protocol::{Address, Amount, Asset, Network, TokenDomain},
};

/// A channel that can pay.
pub(crate) struct ChannelPlan {
    pub(crate) held: ChannelGuard,
    /// The necessary deposit, and how it is signed.
    pub(crate) deposit: Option<(Amount, DepositedBy)>,
}

/// How a deposit is signed.
pub(crate) enum DepositedBy {
    /// By an EIP-3009 authorization, under this domain of the token.
    Authorization(TokenDomain),
    /// By a permit of Permit2.
    Permit,
}

impl ChannelPlan {
    /// Returns what counts against the budget.
    pub(crate) fn deposited(&self) -> Amount {
        self.deposit.as_ref().map_or(Amount::ZERO, |(amount, _)| *amount)
    }
}

const OPENS_NONE: PayerError = PayerError::Refused("the payer opens no channels in this token");
const TOO_LITTLE: PayerError =
    PayerError::Refused("the payer holds too little of the token for a deposit, or signs no authorizations of it");
const OTHER_DOMAIN: PayerError =
    PayerError::Refused("the seller names another name or version of the token than the token's own");
const DOUBTFUL: PayerError = PayerError::Unavailable(
    "an earlier deposit may have been made, or be made yet; nothing more is deposited before the chain tells: try again later",
);
/// The error if only some nodes report the claim, because a single node ends nothing.
pub(super) const DISPUTED: PayerError = PayerError::Unavailable(
    "not all nodes show, in blocks that stay, that so much is claimed of the channel: try again later",
);
const PUBLIC: PayerError = PayerError::Refused(
    "a claim has shown everyone the voucher of this total, and its seller takes it no more: another price, or another way to pay, is not affected",
);
const ODD: PayerError = PayerError::Refused("the chain shows more claimed of a channel than was ever signed for it");

/// Finds a channel that meets these terms, or begins one; waits while another call signs in it.
///
/// # Errors
/// [`Failure::ChannelLeft`] if an earlier purchase of the channel has no answer, [`Failure::ChannelBroken`] if its
/// seller is no longer believed. If a deposit is needed, also errors of the budget and the payer.
pub(crate) async fn plan(
    inner: &ClientInner,
    identity: &RequestIdentity,
    terms: &ChannelTerms,
    asset: &Asset,
) -> Result<ChannelPlan, Failure> {
    let signer = inner.channel_signer()?;
    let payer = signer.channel_account(asset).await?.ok_or(OPENS_NONE)?;
    if payer == terms.quote.recipient {
        return Err(Denial::NoSeller(payer).into());
    }
    let held = hold(inner, identity, terms, payer).await?;
    let price = terms.quote.amount;
    let record = held.record().ok_or(OPENS_NONE)?;
    if record.public.is_some() && record.public == record.charged.checked_add(price) {
        return Err(PUBLIC.into());
    }
    if record.left() >= price {
        return Ok(ChannelPlan { held, deposit: None });
    }
    if !record.deposits.is_empty() {
        look(inner, &held, terms).await?;
    }
    let missing = price.checked_sub(held.record().ok_or(OPENS_NONE)?.left()).filter(|missing| !missing.is_zero());
    let Some(missing) = missing else { return Ok(ChannelPlan { held, deposit: None }) };
    inner.budget.allows_withdraw_delay(terms.withdraw_delay())?;
    let spent = inner.registry.spent(&identity.host, &inner.budget);
    let amount =
        deposit::size((price, missing, terms.min_deposit()), inner.settings.deposit_for, &inner.budget, spent)?;
    let by = if terms.is_by_permit2() {
        permit::covers(inner, asset, amount).await?;
        DepositedBy::Permit
    } else {
        let domain = inner.authorizer()?.authorizes(asset, amount).await?.ok_or(TOO_LITTLE)?;
        if domain.token != asset.contract() || !terms.names(&domain) {
            return Err(OTHER_DOMAIN.into());
        }
        DepositedBy::Authorization(domain)
    };
    Ok(ChannelPlan { held, deposit: Some((amount, by)) })
}

/// Holds the channel for this call.
async fn hold(
    inner: &ClientInner,
    identity: &RequestIdentity,
    terms: &ChannelTerms,
    payer: Address,
) -> Result<ChannelGuard, Failure> {
    let network = terms.quote.network;
    let fits = |config: &_| terms.fits(config, payer);
    let wanted = WantedChannel { host: &identity.host, budget: &inner.budget, network, fits: &fits };
    loop {
        let new = || {
            let record = ChannelRecord::new(terms.channel_of(payer, rand::random()));
            (from_quote::channel(identity, &terms.quote, inner.now()), record)
        };
        match inner.registry.hold_channel(&wanted, new) {
            FoundChannel::Held(held) => return Ok(held),
            FoundChannel::Busy => inner.registry.channel_changes().await,
            FoundChannel::Broken(channel) => return Err(Failure::ChannelBroken { channel }),
            FoundChannel::Doubtful(other) => resolve(inner, &other, network).await?,
            FoundChannel::Left(purchase) => {
                // If it is old enough, it is given up like any other payment.
                let begun = inner.registry.begun(purchase);
                let is_old = begun.is_some_and(|begun| begun.after(inner.settings.payment_age) <= inner.now());
                if !is_old || !inner.registry.abandon(purchase).await.map_err(Failure::Journal)? {
                    return Err(Failure::ChannelLeft { purchase });
                }
            }
        }
    }
}

/// Reads the channel's balance from the chain, because a deposit may have been made without an answer. Until that is
/// known, no other deposit follows.
async fn look(inner: &ClientInner, held: &ChannelGuard, terms: &ChannelTerms) -> Result<(), Failure> {
    let (signer, network) = (inner.channel_signer()?, terms.quote.network);
    let funds = signer.channel_funds(network, held.id()).await?;
    let record = held.record().ok_or(OPENS_NONE)?;
    // Earlier signatures in an adopted channel are unknown.
    let is_odd = |claimed| claimed > record.signed && !record.is_adopted;
    if is_odd(funds.claimed) {
        if !is_odd(signer.settled_funds(network, held.id()).await?.claimed) {
            return Err(DISPUTED.into());
        }
        held.change(ChannelRecord::mark_broken).await.map_err(Failure::Journal)?;
        return Err(ODD.into());
    }
    if funds.withdrawing.is_some() {
        held.change(ChannelRecord::mark_broken).await.map_err(Failure::Journal)?;
        return Err(Failure::ChannelBroken { channel: held.id() });
    }
    if !record.doubts_a_deposit() {
        held.learn(|record| record.set_balance(funds.balance));
        return Ok(());
    }
    resolve(inner, held, network).await
}

/// Determines the outcome of a deposit from a majority of the nodes, because a single one may lag.
async fn resolve(inner: &ClientInner, held: &ChannelGuard, network: Network) -> Result<(), Failure> {
    let settled = inner.channel_signer()?.settled_funds(network, held.id()).await?;
    let mut is_known = false;
    held.learn(|record| is_known = record.resolves(&settled));
    if is_known { Ok(()) } else { Err(DOUBTFUL.into()) }
}
