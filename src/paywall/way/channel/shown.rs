//! `Vouched`: a voucher that answers an offer of this route.

use crate::{
    paywall::{
        priced_request::PricedRequest,
        refusal::{ASK_AGAIN, Problem, Requote},
        sale::{kept_answer::Shown, opened::Opened},
        seller::{
            chain::SellingChain,
            channels::{Channel, Channels},
            inner::MerchantInner,
            pricing::{Cost, Tariff},
            time_limits::settler_in_time,
        },
    },
    protocol::{
        IntentId, Network, ProblemCode,
        channel::{ChannelConfig, ChannelPayload, ChannelTerms, Voucher, VoucherPayment, WITHDRAW_DELAYS},
        v2::{ChannelRequirements, PaymentOption, PaymentPayload, Reason, SchemePayload},
    },
};

/// The longest signature that an account keeps with its channel, in bytes.
const LONGEST_SIGNATURE: usize = 640;

/// A voucher that matches its offer. Its signature is yet to be checked.
pub(super) struct Vouched<'a> {
    pub(super) opened: Opened<'a>,
    pub(super) intent: IntentId,
    pub(super) channel: Channel,
    pub(super) voucher: Voucher,
    /// The payment of the whole offered amount.
    pub(super) payment: VoucherPayment,
}

/// Returns the channel payment of a payload, and the offer that its payer accepted.
pub(super) fn channel(payload: &PaymentPayload) -> Result<(&ChannelRequirements, &ChannelPayload), Reason> {
    match (&payload.accepted, &payload.payload) {
        (PaymentOption::Channel(accepted), SchemePayload::Channel(shown)) => Ok((accepted, shown)),
        _ => Err(Reason::INVALID_PAYLOAD),
    }
}

impl<'a> Vouched<'a> {
    /// Compares a voucher with the offer, and its channel with the terms.
    ///
    /// # Errors
    /// The standard's reason for what differs.
    pub(super) fn read(
        request: &'a PricedRequest,
        chain: &SellingChain,
        channels: &Channels,
        payload: &PaymentPayload,
    ) -> Result<Self, Reason> {
        let (accepted, shown) = channel(payload)?;
        if accepted.network != chain.network {
            return Err(Reason::INVALID_BATCH_SETTLEMENT_EVM_NETWORK_MISMATCH);
        }
        let intent = accepted.intent().ok().flatten().ok_or(Reason::INVALID_PAYMENT_REQUIREMENTS)?;
        let opened = Opened::open(&request.route, &intent).ok_or(Reason::INVALID_PAYMENT_REQUIREMENTS)?;
        let (channel, voucher) = (Channel::new(*shown.config(), chain.network), shown.voucher());
        if voucher.channel != channel.id {
            return Err(Reason::INVALID_BATCH_SETTLEMENT_EVM_CHANNEL_ID_MISMATCH);
        }
        fits(&channel.config, &opened, channels, &request.route.merchant)?;
        if !accepted.echoes(&offered(accepted, &opened, channels, &intent).ok_or(Reason::INVALID_PAYMENT_REQUIREMENTS)?)
        {
            return Err(Reason::INVALID_PAYMENT_REQUIREMENTS);
        }
        if voucher.signature.as_bytes().len() > LONGEST_SIGNATURE {
            return Err(Reason::INVALID_BATCH_SETTLEMENT_EVM_VOUCHER_SIGNATURE);
        }
        let of = (&channel.config, channel.id);
        let payment = VoucherPayment::of_channel(chain.network, of, voucher.max_claimable, opened.key)
            .with_amount(opened.terms.amount);
        Ok(Self { opened, intent, channel, voucher: voucher.clone(), payment })
    }

    /// Returns whether the quote's time allows a new sale.
    pub(super) fn is_in_time(&self) -> bool {
        self.opened.route.merchant.clock.unix() <= self.opened.pay_until().unix()
    }

    /// Returns a quote like the one that the voucher was shown for.
    pub(super) fn requote(&self, request: &PricedRequest, tariff: Tariff) -> Requote {
        request.requote(Cost { amount: self.opened.terms.amount, tariff })
    }

    /// Returns the proof with which a client asks for a sold answer again.
    pub(super) const fn shown(&self) -> Shown {
        Shown::Authorization(self.payment.payment_id())
    }
}

/// Returns whether the channel's key, or the account that decides for it, signed a voucher.
///
/// # Errors
/// If the settler must be asked and does not answer, or too many requests wait for it already.
pub(super) async fn is_signed(
    channels: &Channels,
    network: Network,
    channel: &Channel,
    voucher: &Voucher,
) -> Result<bool, Problem> {
    let unavailable = || Problem::after(ProblemCode::VerificationUnavailable, ASK_AGAIN);
    match channel.config.voucher_key() {
        #[cfg(any(feature = "evm", feature = "wallet"))]
        Some(key) => Ok(voucher.signer(network) == Some(key)),
        // An account; or any key, where this crate recovers none.
        _ => {
            let _place = channels.may_check().await.ok_or_else(unavailable)?;
            settler_in_time(channels.settler.is_signed_by_account(network, &channel.config, voucher))
                .await
                .map_err(|_| unavailable())
        }
    }
}

/// Returns the offer that `accepted` has to echo.
fn offered(
    accepted: &ChannelRequirements,
    opened: &Opened<'_>,
    channels: &Channels,
    intent: &IntentId,
) -> Option<ChannelRequirements> {
    let token = channels.token(accepted.asset)?;
    let (amount, pay_to, timeout) = (opened.terms.amount, opened.recipient, accepted.max_timeout_seconds);
    let offered = ChannelRequirements::new(&token.asset, amount, pay_to, timeout, &token.terms);
    Some(offered.with_intent(intent))
}

/// Checks that this seller can claim sales in such a channel, and in time.
fn fits(
    config: &ChannelConfig,
    opened: &Opened<'_>,
    channels: &Channels,
    merchant: &MerchantInner,
) -> Result<(), Reason> {
    let token = channels.token(config.token).ok_or(Reason::INVALID_BATCH_SETTLEMENT_EVM_TOKEN_MISMATCH)?;
    let ChannelTerms { receiver_authorizer, withdraw_delay, .. } = token.terms;
    match () {
        () if config.receiver != opened.recipient => Err(Reason::INVALID_BATCH_SETTLEMENT_EVM_RECEIVER_MISMATCH),
        () if config.receiver_authorizer != receiver_authorizer => {
            Err(Reason::INVALID_BATCH_SETTLEMENT_EVM_RECEIVER_AUTHORIZER_MISMATCH)
        }
        () if !WITHDRAW_DELAYS.contains(&config.withdraw_delay) => {
            Err(Reason::INVALID_BATCH_SETTLEMENT_EVM_WITHDRAW_DELAY_OUT_OF_RANGE)
        }
        // More time to claim is no harm.
        () if config.withdraw_delay < withdraw_delay => {
            Err(Reason::INVALID_BATCH_SETTLEMENT_EVM_WITHDRAW_DELAY_MISMATCH)
        }
        () if merchant.recipients.contains(&config.payer) => Err(Reason::INVALID_PAYLOAD),
        () if config.voucher_key().is_none() && !channels.policy.contract_payers => {
            Err(Reason::INVALID_BATCH_SETTLEMENT_EVM_VOUCHER_SIGNATURE)
        }
        () => Ok(()),
    }
}
