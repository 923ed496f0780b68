//! What a voucher can pay by, once it is reserved.

use super::{
    charging::Charge,
    drawing::{Drawn, draw},
    shown::Vouched,
    units::{busy, units},
};
use crate::{
    ledger::Account,
    paywall::{
        refusal::{ASK_AGAIN, Problem},
        sale::{
            reservation::LeaseGuard,
            unanswered::{LastCharge, take_back_last},
        },
        seller::{
            channels::{Channel, Channels, Mirrored, record::ChannelMemo},
            time_limits::settler_in_time,
        },
    },
    protocol::{
        Amount, ChainTime, IntentKey, ProblemCode,
        channel::{ChannelDeposit, DepositAuthorization},
        v2::Reason,
    },
    settle::{ChannelOnChain, Validity},
};

/// What is sold, apart from the voucher.
#[derive(Clone, Copy)]
pub(super) struct Sale {
    /// The digest of the request.
    pub(super) request: [u8; 16],
    /// Whether the quote covers the request at the present price.
    pub(super) honoured: bool,
    /// The chain's head.
    pub(super) head: ChainTime,
}

/// What was found.
pub(super) enum Found {
    /// It pays so, in a channel of that state.
    Pays(Charge, ChannelOnChain),
    /// It does not follow on what was charged.
    Corrected(Account),
    Refused(Reason),
}

/// Finds what a reserved voucher pays by.
///
/// # Errors
/// If the ledger or the chain does not say.
pub(super) async fn find(
    vouched: &Vouched<'_>,
    channels: &Channels,
    deposit: Option<&ChannelDeposit>,
    sale: &Sale,
    guard: &LeaseGuard,
) -> Result<Found, Problem> {
    let (ledger, channel) = (&vouched.opened.route.merchant.ledger, &vouched.channel);
    let known = channels.is_fresh(channel).filter(|_| deposit.is_none());
    let mut state = match known {
        Some(known) => known.state,
        None => {
            let mirrored = channels.read(&**ledger, channel, sale.head).await?;
            if let Some(deposit) = deposit
                && let Some(found) = deposited(vouched, channels, (deposit, &mirrored), sale, guard).await?
            {
                return Ok(found);
            }
            mirrored.state
        }
    };
    let is_payable = sale.honoured && vouched.is_in_time();
    for is_last in [false, true] {
        let drawn = || draw(channels, ledger, channel, (vouched.voucher.max_claimable, &vouched.payment), &state);
        let outcome = match drawn().await? {
            Drawn::Mismatch(account)
                if follows_after_all(vouched, &account, (vouched.payment.amount, sale.head), Some(guard.intent()))
                    .await? =>
            {
                drawn().await?
            }
            outcome => outcome,
        };
        let too_little = match outcome {
            Drawn::Granted(drawn, memo) if is_payable => {
                return Ok(Found::Pays(Charge::Drawn(drawn, memo), state));
            }
            // Given back before the answer: the next voucher must not find the channel busy.
            Drawn::Granted(drawn, _) => {
                drawn.release().await;
                return Ok(Found::Refused(Reason::INVALID_PAYMENT_REQUIREMENTS));
            }
            Drawn::Busy => return Err(busy()),
            Drawn::Mismatch(account) => return Ok(Found::Corrected(account)),
            Drawn::TooLittle => Some(Reason::INVALID_BATCH_SETTLEMENT_EVM_CUMULATIVE_EXCEEDS_BALANCE),
            Drawn::Missing => Some(Reason::INVALID_BATCH_SETTLEMENT_EVM_CHANNEL_NOT_FOUND),
            Drawn::Unsure => None,
            Drawn::Public => {
                return Ok(Found::Refused(Reason::INVALID_BATCH_SETTLEMENT_EVM_CUMULATIVE_AMOUNT_MISMATCH));
            }
        };
        if is_last || channels.is_just_read(channel) {
            let unsure = Problem::after(ProblemCode::VerificationUnavailable, ASK_AGAIN);
            return too_little.map(Found::Refused).ok_or(unsure);
        }
        // A deposit may have been made since.
        state = channels.read(&**ledger, channel, sale.head).await?.state;
    }
    Err(Problem::after(ProblemCode::LedgerUnavailable, ASK_AGAIN))
}

/// Whether a voucher follows on what was charged before the last charge, whose answer never left: then that is taken back.
pub(super) async fn follows_after_all(
    vouched: &Vouched<'_>,
    account: &Account,
    (amount, head): (Amount, ChainTime),
    held: Option<IntentKey>,
) -> Result<bool, Problem> {
    let last = ChannelMemo::read(&account.memo).and_then(|memo| memo.last);
    let before = last.map(|last| last.charged.saturating_sub(last.charge));
    let total = before.and_then(|before| before.checked_add(units(amount)));
    if total != Some(vouched.voucher.max_claimable) {
        return Ok(false);
    }
    match take_back_last(&vouched.opened.route.merchant, &vouched.channel, account, (head, held)).await {
        Ok(LastCharge::TakenBack) => Ok(true),
        Ok(LastCharge::Stands) => Ok(false),
        Ok(LastCharge::UnderWay) => Err(busy()),
        Err(_) => Err(Problem::after(ProblemCode::LedgerUnavailable, ASK_AGAIN)),
    }
}

/// What a deposit is good for; `None` where it is made, so that the voucher alone counts.
async fn deposited(
    vouched: &Vouched<'_>,
    channels: &Channels,
    (deposit, mirrored): (&ChannelDeposit, &Mirrored),
    sale: &Sale,
    guard: &LeaseGuard,
) -> Result<Option<Found>, Problem> {
    let (total, state) = (vouched.voucher.max_claimable, mirrored.state);
    let unavailable = || Problem::after(ProblemCode::VerificationUnavailable, ASK_AGAIN);
    let verified =
        channels.settler.verify_deposit(channels.network(), &vouched.channel.config, deposit, &vouched.voucher);
    let verified = settler_in_time(verified).await;
    let refused = match verified {
        Ok(Validity::Used) => return Ok(None),
        Ok(_) if !is_taken(channels, &vouched.channel, deposit) => {
            Some(Reason::INVALID_BATCH_SETTLEMENT_EVM_PERMIT2_AUTHORIZATION_REQUIRED)
        }
        Ok(Validity::Valid) => None,
        Ok(Validity::Refused(reason)) => Some(reason),
        Err(_) => return Err(unavailable()),
    };
    // So few nodes answer that the ledger would not believe them what the deposit adds: nothing is made that could not be sold.
    if refused.is_none() && is_too_unsure(mirrored) {
        return Err(unavailable());
    }
    if let Some(reason) = refused {
        // What was sent for it may still be mined, until its time is over.
        let may_come = guard.begun().is_some() && expiry(deposit) > sale.head;
        return if may_come {
            Err(Problem::after(ProblemCode::OutcomeUnknown, ASK_AGAIN))
        } else {
            Ok(Some(Found::Refused(reason)))
        };
    }
    let charged = match &mirrored.account {
        Some(account) if !account.held.is_zero() => return Err(busy()),
        Some(account) => units(account.spent),
        None => units(state.claimed_at_most),
    };
    if charged.checked_add(units(vouched.payment.amount)) != Some(total) {
        match &mirrored.account {
            None => {
                let mismatch = Reason::INVALID_BATCH_SETTLEMENT_EVM_CUMULATIVE_AMOUNT_MISMATCH;
                return Ok(Some(Found::Refused(mismatch)));
            }
            Some(account)
                if follows_after_all(vouched, account, (vouched.payment.amount, sale.head), Some(guard.intent()))
                    .await? => {}
            Some(account) => return Ok(Some(Found::Corrected(account.clone()))),
        }
    }
    let memo = mirrored.account.as_ref().and_then(|account| ChannelMemo::read(&account.memo));
    if memo.as_ref().is_some_and(|memo| memo.is_public(total)) {
        return Ok(Some(Found::Refused(Reason::INVALID_BATCH_SETTLEMENT_EVM_CUMULATIVE_AMOUNT_MISMATCH)));
    }
    let going_back = memo.map_or(0, |memo| memo.going_back(&state));
    let holds = units(state.covers()).saturating_sub(going_back).saturating_add(deposit.amount);
    // Each costs the seller a transaction.
    let least = channels.policy.min_deposit.unwrap_or(vouched.payment.amount);
    Ok(Some(match () {
        () if !sale.honoured || !vouched.is_in_time() => Found::Refused(Reason::INVALID_PAYMENT_REQUIREMENTS),
        () if deposit.amount < units(least) => {
            Found::Refused(Reason::INVALID_BATCH_SETTLEMENT_EVM_DEPOSIT_BELOW_MIN_DEPOSIT)
        }
        () if holds < total => Found::Refused(Reason::INVALID_BATCH_SETTLEMENT_EVM_CUMULATIVE_EXCEEDS_BALANCE),
        () => Found::Pays(Charge::Deposit(Box::new(deposit.clone())), state),
    }))
}

/// Whether deposits of this kind are made in the channel's token: of one without EIP-3009 only those by Permit2.
fn is_taken(channels: &Channels, channel: &Channel, deposit: &ChannelDeposit) -> bool {
    channels.token(channel.config.token).is_some_and(|token| token.takes(deposit))
}

/// Whether the ledger knows the channel at a block, and this reading names none: it only lowers what the channel covers.
fn is_too_unsure(mirrored: &Mirrored) -> bool {
    let claims = mirrored.account.as_ref().and_then(|account| account.claims.as_ref());
    mirrored.state.as_of.is_none() && claims.is_some_and(|claims| claims.as_of.is_some())
}

/// From then on it can no longer be made.
fn expiry(deposit: &ChannelDeposit) -> ChainTime {
    match &deposit.authorization {
        DepositAuthorization::Erc3009(signed) => signed.valid_before,
        // It is valid at its last moment.
        DepositAuthorization::Permit2(signed) => ChainTime::from_unix(signed.deadline.unix().saturating_add(1)),
    }
}
