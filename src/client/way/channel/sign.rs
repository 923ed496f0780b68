//! Signs a voucher, and records it before a seller is shown it.

use std::time::Duration;

use tokio::time::Instant;

use crate::{
    client::{
        ChannelRecord, DepositRequest, Failure, JournalPayment, PayerError, PermitDepositRequest, PurchaseEvent,
        PurchaseId,
        dialect::{ChannelTerms, channel_terms::with_payload},
        flow::{Progress, PurchaseGuard},
        inner::ClientInner,
        payer::PreparedVoucher,
        way::{
            channel::plan::{ChannelPlan, DepositedBy},
            transfer::in_time,
        },
    },
    protocol::{
        Amount, Network,
        channel::{ChannelConfig, ChannelDeposit, ChannelPayload, Voucher},
    },
};

/// The context of signing a voucher.
pub(crate) struct Vouching<'a> {
    pub(crate) inner: &'a ClientInner,
    pub(crate) progress: &'a Progress,
    /// The deadline of the signatures.
    pub(crate) deadline: Instant,
    /// How long a deposit should be valid.
    pub(crate) valid_for: Duration,
    /// The address and the method of the request.
    pub(crate) place: (String, String),
}

const TOO_LARGE: PayerError = PayerError::Refused("the channel cannot hold such an amount");
const OTHER: PayerError = PayerError::Refused("the payer signed something else than it was asked to");

impl Vouching<'_> {
    /// Signs for a purchase with reserved money, and records it. If another purchase of the same request was left
    /// meanwhile, returns that one instead.
    pub(crate) async fn sign(
        &self,
        mut guard: PurchaseGuard,
        terms: &ChannelTerms,
        ChannelPlan { held, deposit }: ChannelPlan,
    ) -> Result<PurchaseGuard, Failure> {
        let (purchase, at) = (guard.entry().id, guard.entry().at);
        let (network, price) = (terms.quote.network, terms.quote.amount);
        let ChannelRecord { config, charged: before, .. } = held.record().ok_or(TOO_LARGE)?;
        let total = before.checked_add(price).ok_or(TOO_LARGE)?;
        let voucher = self.voucher(network, &config, total).await?;
        let payload = match &deposit {
            Some((amount, by)) => {
                let deposit = self.deposit(guard.entry().id, network, config, (*amount, by)).await?;
                ChannelPayload::Deposit { channel_config: config, voucher, deposit }
            }
            None => ChannelPayload::Voucher { channel_config: config, voucher },
        };
        // A human's signature may take long. A voucher that no seller was shown is dropped.
        if let Some(left) = self.inner.registry.left(&guard.entry().fingerprint)? {
            return Ok(left);
        }
        let message = terms.message(&payload, purchase);
        let (url, method) = self.place.clone();
        let vouched = PreparedVoucher { network, before, payload, message };
        let (payer, channel, valid_before) = (config.payer, held.id(), vouched.valid_before());
        let deposit = deposit.map(|(amount, _)| amount);
        let begun = held.change(|record| {
            record.begin(purchase, at, price);
            (record.url, record.method) = (url, method);
            if let Some(amount) = deposit {
                record.expect_deposit(amount, purchase, valid_before);
            }
        });
        if let Err(error) = begun.await {
            guard.discard();
            return Err(Failure::Journal(error));
        }
        let recorded = guard.record(|entry| {
            entry.payment = JournalPayment::Voucher(Box::new(vouched));
            if deposit.is_some() {
                entry.expiry = valid_before;
            }
        });
        if let Err(error) = recorded.await {
            guard.discard();
            return Err(Failure::Journal(error));
        }
        let decimals = terms.quote.decimals;
        let recipient = config.receiver;
        self.progress.report(PurchaseEvent::Vouched {
            channel,
            payer,
            recipient,
            amount: price,
            total,
            deposit,
            withdraw_delay: terms.withdraw_delay(),
            decimals,
        });
        Ok(guard)
    }

    async fn voucher(&self, network: Network, config: &ChannelConfig, total: Amount) -> Result<Voucher, Failure> {
        voucher(self.inner, self.deadline, network, config, total).await
    }

    async fn deposit(
        &self,
        purchase: PurchaseId,
        network: Network,
        channel: ChannelConfig,
        (amount, by): (Amount, &DepositedBy),
    ) -> Result<ChannelDeposit, Failure> {
        let amount = amount.to_u128().ok_or(TOO_LARGE)?;
        let (signer, now, valid_for) = (self.inner.channel_signer()?, self.inner.now(), self.valid_for);
        const WHAT: &str = "signing the deposit";
        match by {
            DepositedBy::Authorization(domain) => {
                let (domain, salt) = (domain.clone(), rand::random());
                let request = DepositRequest { purchase, network, domain, channel, amount, salt, now, valid_for };
                let signing = in_time(self.deadline, WHAT, signer.deposit(&request));
                let signed = signing.await?.map_err(Failure::Payer)?;
                (signed.salt == salt).then(|| ChannelDeposit::new(amount, signed)).ok_or(OTHER.into())
            }
            DepositedBy::Permit => {
                let nonce = rand::random();
                let request = PermitDepositRequest { purchase, network, channel, amount, nonce, now, valid_for };
                let signing = in_time(self.deadline, WHAT, signer.permit_deposit(&request));
                let signed = signing.await?.map_err(Failure::Payer)?;
                request.is_met_by(&signed).then(|| ChannelDeposit::new(amount, signed)).ok_or(OTHER.into())
            }
        }
    }
}

/// Signs a voucher over this total.
async fn voucher(
    inner: &ClientInner,
    deadline: Instant,
    network: Network,
    config: &ChannelConfig,
    total: Amount,
) -> Result<Voucher, Failure> {
    let units = total.to_u128().ok_or(TOO_LARGE)?;
    let signing = in_time(deadline, "signing the payment", inner.channel_signer()?.voucher(network, config, units));
    let signature = signing.await?.map_err(Failure::Payer)?;
    Ok(Voucher::new(config.id(network), units, signature))
}

/// Signs the same purchase again, on top of another earlier charge. Its deposit stays. Nothing is recorded.
pub(crate) async fn again(
    inner: &ClientInner,
    deadline: Instant,
    vouched: &PreparedVoucher,
    before: Amount,
    price: Amount,
) -> Result<PreparedVoucher, Failure> {
    let (network, config) = (vouched.network, *vouched.config());
    let total = before.checked_add(price).ok_or(TOO_LARGE)?;
    let signed = voucher(inner, deadline, network, &config, total).await?;
    let payload = match vouched.deposit().cloned() {
        Some(deposit) => ChannelPayload::Deposit { channel_config: config, voucher: signed, deposit },
        None => match vouched.payload {
            ChannelPayload::Refund { amount, .. } => {
                ChannelPayload::Refund { channel_config: config, voucher: signed, amount }
            }
            _ => ChannelPayload::Voucher { channel_config: config, voucher: signed },
        },
    };
    let message = with_payload(&vouched.message, &payload).ok_or(OTHER)?;
    Ok(PreparedVoucher { network, before, payload, message })
}

/// Signs a refund request for all that is left, with a voucher over the charges so far, which pays for nothing new.
pub(crate) async fn refund(
    inner: &ClientInner,
    deadline: Instant,
    network: Network,
    record: &ChannelRecord,
    terms: &ChannelTerms,
) -> Result<PreparedVoucher, Failure> {
    let (channel_config, before) = (record.config, record.charged);
    let signed = voucher(inner, deadline, network, &channel_config, before).await?;
    let payload = ChannelPayload::Refund { channel_config, voucher: signed, amount: None };
    let message = terms.message(&payload, PurchaseId::random());
    Ok(PreparedVoucher { network, before, payload, message })
}
