//! Vouchers that match no offer of this route: it may have another name now, the quote's key may be dropped, or the terms may differ. Such
//! a voucher gets a new bill only if nothing shows that it bought an answer or may be buying one. Otherwise one answer would be charged
//! twice.
//!
//! If the quote opens and is not too old, the ledger says what its intent bought. Otherwise the channel's account decides, as it does for an
//! intent that bought nothing if the voucher is of a contract account that the seller does not accept. The account knows only the total
//! charged and the last voucher. So a metered voucher before the last one is billed again if its total is above the total
//! charged, and a voucher that was never sold is not billed if its total is not above it.

use super::{
    deposited::expiry,
    shown::{channel, is_signed},
    units::{after_all_that_is_forgotten, busy, units},
};
use crate::{
    ledger::{Account, accounts_of},
    paywall::{
        priced_request::PricedRequest,
        refusal::{ASK_AGAIN, Problem, Rejection},
        sale::{kept_answer::Shown, opened::Opened},
        seller::{
            attempts::Claimed,
            chain::SellingChain,
            channels::{Channel, Channels, record::ChannelMemo},
            pricing::Cost,
            time_limits::{ledger_in_time, verifier_in_time},
        },
        way::signed::CONFIRM,
    },
    protocol::{
        Amount, ChainTime, Network, ProblemCode,
        channel::{ChannelDeposit, ChannelPayload, Voucher, VoucherPayment},
        v2::{PaymentPayload, Reason},
    },
};

/// A voucher that matches no offer, with the request and the network that it is shown on.
struct Unmatched<'a> {
    request: &'a PricedRequest,
    chain: &'a SellingChain,
    channels: &'a Channels,
    /// The network that the voucher names.
    network: Network,
    channel: Channel,
    voucher: &'a Voucher,
    deposit: Option<&'a ChannelDeposit>,
}

/// Returns the reply: a bill at the present price, unless the voucher bought an answer or may be buying one. `reason` says what differs.
pub(super) async fn refuse(
    request: &PricedRequest,
    (chain, channels): (&SellingChain, &Channels),
    (payload, reason): (&PaymentPayload, Reason),
    now: Cost,
) -> Rejection {
    let shown = channel(payload).ok();
    let payer = shown.map(|(_, shown)| shown.config().payer);
    let bill = || request.requote(now).refuse(reason, chain.network, payer);
    let Some((accepted, shown)) = shown else { return bill() };
    let deposit = match shown {
        // A refund request buys nothing, whatever was charged.
        ChannelPayload::Refund { .. } => return bill(),
        ChannelPayload::Deposit { deposit, .. } => Some(deposit),
        ChannelPayload::Voucher { .. } => None,
    };
    let network = accepted.network;
    let channel = Channel::new(*shown.config(), network);
    let unmatched = Unmatched { request, chain, channels, network, channel, voucher: shown.voucher(), deposit };
    // This chain's head says nothing about an intent for another network.
    let intent = accepted.intent().ok().flatten().filter(|_| network == chain.network);
    let opened = intent.and_then(|intent| Opened::open(&request.route, &intent));
    match unmatched.unless_taken(opened).await {
        Ok(()) => bill(),
        Err(rejection) => rejection,
    }
}

impl Unmatched<'_> {
    async fn unless_taken(&self, opened: Option<Opened<'_>>) -> Result<(), Rejection> {
        if self.voucher.channel != self.channel.id {
            return Ok(());
        }
        match opened {
            // The ledger still knows all that this intent bought.
            Some(opened) if !opened.aged_out() => self.unless_bought(&opened).await,
            _ => Ok(self.unless_counted().await?),
        }
    }

    /// Checks what an intent bought, by a reservation that is released at once. An answer that it bought is delivered again, if it is kept.
    async fn unless_bought(&self, opened: &Opened<'_>) -> Result<(), Rejection> {
        // Intents are free for everyone. They must not make the nodes call a contract of a stranger's choice to check a signature.
        if !self.is_askable() && !opened.is_consumed().await? {
            return Ok(self.unless_counted().await?);
        }
        if !is_signed(self.channels, self.network, &self.channel, self.voucher).await? {
            return Ok(());
        }
        let of = (&self.channel.config, self.channel.id);
        let payment = VoucherPayment::of_channel(self.network, of, self.voucher.max_claimable, opened.key)
            .with_amount(opened.terms.amount);
        let shown = Shown::Authorization(payment.payment_id());
        let head = match self.head().await {
            Ok(head) => head,
            Err(problem) => return Err(opened.unless_consumed(shown, problem.into()).await),
        };
        let claim = opened.claim(head).payments([payment.with_shown(after_all_that_is_forgotten(head))]);
        let guard = match opened.grant(claim, |_| Claimed::ByPayer).await {
            Ok(guard) => guard,
            Err(problem) => return Err(opened.refused(shown, problem).await),
        };
        let is_begun = guard.begun().is_some();
        guard.release().await;
        match is_begun && self.deposit.is_none_or(|deposit| self.may_come(deposit, head)) {
            true => Err(in_progress().into()),
            false => Ok(()),
        }
    }

    /// Checks the channel's account. It is read before the signature is checked, because the settler has to ask the chain about a contract
    /// account's signature. The finding is revealed only if the signature is valid.
    async fn unless_counted(&self) -> Result<(), Problem> {
        let ledger = &*self.request.route.merchant.ledger;
        let account = ledger_in_time(async { accounts_of(ledger)?.account(self.channel.account).await }).await;
        let account = account.map_err(|_| Problem::after(ProblemCode::LedgerUnavailable, ASK_AGAIN))?;
        let counted = account.and_then(|account| counted(&account, self.voucher.max_claimable));
        let taken = match (counted, self.deposit.filter(|_| self.is_askable())) {
            (Some(problem), _) => Some(problem),
            // The account is charged only once the deposit is made, and does not show it before.
            (None, Some(deposit)) => self.may_come(deposit, self.head().await?).then(in_progress),
            (None, None) => None,
        };
        let Some(taken) = taken else { return Ok(()) };
        if is_signed(self.channels, self.network, &self.channel, self.voucher).await? { Err(taken) } else { Ok(()) }
    }

    /// Returns whether the signature may be checked for a voucher of which the seller knows nothing. That of a contract account is checked
    /// by nodes, which only a seller that accepts such payers has do it.
    fn is_askable(&self) -> bool {
        self.channel.config.voucher_key().is_some() || self.channels.policy.contract_payers
    }

    async fn head(&self) -> Result<ChainTime, Problem> {
        let head = verifier_in_time(self.chain.view.head()).await;
        head.map_err(|_| Problem::after(ProblemCode::VerificationUnavailable, ASK_AGAIN))
    }

    /// Returns whether a deposit may still be made, or is made and may still await its confirmation, so that its voucher may yet be
    /// charged.
    fn may_come(&self, deposit: &ChannelDeposit, head: ChainTime) -> bool {
        let clock = ChainTime::from_unix(self.request.route.merchant.clock.unix());
        // A head that is ahead of the clock may be wrong.
        head.min(clock) < expiry(deposit).after(CONFIRM)
    }
}

/// Returns why a voucher with this total is not billed, according to its channel's account. `None` if the account shows neither a charge
/// nor a sale in progress.
fn counted(account: &Account, total: u128) -> Option<Problem> {
    // A metered answer may cost less than its voucher's price, so the total charged may be lower. The account keeps only the last voucher.
    let last = || ChannelMemo::read(&account.memo).and_then(|memo| memo.last);
    let is_last = || last().is_some_and(|last| last.total == total && last.charge > 0);
    match () {
        () if total > 0 && total <= units(account.spent) || is_last() => Some(Problem::voucher_is_counted()),
        () if account.held > Amount::ZERO => Some(busy()),
        () => None,
    }
}

fn in_progress() -> Problem {
    Problem::after(ProblemCode::RedemptionInProgress, ASK_AGAIN)
}
