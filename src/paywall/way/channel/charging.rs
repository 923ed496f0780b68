//! `Charging`: a reserved voucher, which pays by a charge of its channel's account. Only a deposit sends a transaction.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use tokio::time::{Instant, sleep};

use crate::{
    ledger::{AccountMemo, ErasedLedger, Settling},
    paywall::{
        refusal::{ASK_AGAIN, Problem, Requote},
        sale::{
            draw::{Charged, RenewedDraw},
            kept_answer::Shown,
            reservation::Records,
            settle::{Outcome, Settled, Unsettled},
        },
        seller::channels::{
            Channel, Channels,
            record::{ChannelMemo, LastSale},
        },
        way::{
            channel::{
                channel_response,
                drawing::{Drawn, draw},
                units::{busy, units},
            },
            signed::{CONFIRM, LOOK_AGAIN},
        },
    },
    protocol::{
        Amount, ChainTime, ProblemCode, TxHash,
        channel::{ChannelDeposit, Voucher, VoucherPayment},
        v2::{Reason, SettleResponse},
    },
    settle::{ChannelOnChain, Settlement},
};

/// How a voucher pays.
pub(super) enum Charge {
    /// By an amount drawn from the account; with the account's memo.
    Drawn(RenewedDraw, Box<ChannelMemo>),
    /// By a deposit, which is made first.
    Deposit(Box<ChannelDeposit>),
}

/// A reserved voucher.
pub(super) struct Charging {
    pub(super) ledger: Arc<dyn ErasedLedger>,
    pub(super) channels: Channels,
    pub(super) channel: Channel,
    pub(super) voucher: Voucher,
    /// The payment of the whole amount that the voucher adds.
    pub(super) payment: VoucherPayment,
    pub(super) is_metered: bool,
    /// The last time at which the intent can be paid.
    pub(super) pay_until: ChainTime,
    /// The record of a deposit that is about to be made.
    pub(super) begun: Settling,
    /// The time from which the deposit can no longer be made; `None` without a deposit.
    pub(super) comes_until: Option<ChainTime>,
    /// The channel's state, as last read from the chain.
    pub(super) state: ChannelOnChain,
    pub(super) requote: Requote,
    pub(super) charge: Mutex<Option<Charge>>,
    pub(super) sold: OnceLock<Sold>,
    /// How the sale ends if nothing was charged.
    pub(super) ended: Mutex<Option<Outcome>>,
}

/// The result of a sale.
pub(super) struct Sold {
    charge: u128,
    state: ChannelOnChain,
    deposit: Option<(TxHash, u128)>,
    /// The account's memo of the sale, or what it would be if the sale had cost anything.
    memo: AccountMemo,
}

impl Charging {
    /// Returns the total charged before this voucher.
    fn before(&self) -> u128 {
        self.voucher.max_claimable.saturating_sub(units(self.payment.amount))
    }

    fn paid(&self, charge: u128) -> Settled {
        Settled::Done(self.payment.clone().with_amount(Amount::from_base_units(charge)).into())
    }

    /// Ends the sale without a charge.
    fn ends(&self, outcome: Outcome) -> Settled {
        *self.ended.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
        Settled::Refused(Reason::UNEXPECTED_SETTLE_ERROR)
    }

    /// Ends the sale for now, as the channel is busy. The same voucher can buy later, with the deposit that was made for it.
    fn ends_busy(&self) -> Settled {
        self.ends(Outcome::Keep(busy().into()))
    }

    async fn pay(&self, charge: u128, records: &Records) -> Settled {
        if let Some(sold) = self.sold.get() {
            return self.paid(sold.charge);
        }
        let how = self.charge.lock().unwrap_or_else(PoisonError::into_inner).take();
        match how {
            Some(Charge::Drawn(drawn, memo)) => self.spend((drawn, &memo), charge, (self.state, None)).await,
            Some(Charge::Deposit(deposit)) => self.deposit(&deposit, charge, records).await,
            // A second call, after a failure.
            None => Settled::Unknown(None),
        }
    }

    /// Charges the account durably, and stores the voucher that covers the charge with it.
    async fn spend(
        &self,
        (mut drawn, before): (RenewedDraw, &ChannelMemo),
        charge: u128,
        (state, deposit): (ChannelOnChain, Option<(TxHash, u128)>),
    ) -> Settled {
        let last = LastSale {
            total: self.voucher.max_claimable,
            signature: self.voucher.signature.clone(),
            intent: self.payment.intent(),
            request: self.begun.request,
            pay_until: self.pay_until,
            charge,
            charged: self.before().saturating_add(charge),
        };
        // The new voucher covers this charge and all before it.
        let (network, config) = (self.channels.network(), self.channel.config);
        // One of a few nodes may lie about what is claimed.
        let public = match state.of_few {
            true => before.public.clone(),
            false => before.public_above(units(state.claimed_at_most)),
        };
        let memo = ChannelMemo { network, config, refund: before.refund, lost: 0, public, last: Some(last) };
        // The signature was short enough when the voucher was read.
        let Some(memo) = memo.write() else { return Settled::Unknown(None) };
        // A sale at no cost stores no voucher: its claim would show a voucher that covers more than was sold.
        let kept = Some(&memo).filter(|_| charge > 0);
        match drawn.guard.charge_part(Amount::from_base_units(charge), kept).await {
            Charged::Done(_) => {
                let _ = self.sold.set(Sold { charge, state, deposit, memo });
                self.paid(charge)
            }
            Charged::LeaseLost => self.ends_busy(),
            Charged::Unknown => Settled::Unknown(deposit.map(|(transaction, _)| transaction)),
        }
    }

    /// Makes the deposit first. The deposited amount stays the payer's, whether the answer is sold or not.
    async fn deposit(&self, deposit: &ChannelDeposit, charge: u128, records: &Records) -> Settled {
        let (network, config) = (self.channels.network(), &self.channel.config);
        let transaction =
            match self.channels.settler.deposit(network, config, deposit, &self.voucher, &records.sent).await {
                Settlement::Settled(transaction) => transaction,
                Settlement::Refused(reason) => return Settled::Refused(reason),
                Settlement::Unknown(transaction) => return Settled::Unknown(transaction),
            };
        let unknown = Settled::Unknown(Some(transaction));
        let end = Instant::now() + CONFIRM;
        let state = loop {
            // A node may not have the block yet.
            match self.channels.read(&*self.ledger, &self.channel, self.begun.head).await {
                Ok(mirrored) if units(mirrored.state.covers()) >= self.voucher.max_claimable => break mirrored.state,
                _ if Instant::now() + LOOK_AGAIN >= end => return unknown,
                _ => sleep(LOOK_AGAIN).await,
            }
        };
        match draw(&self.channels, &self.ledger, &self.channel, (self.voucher.max_claimable, &self.payment), &state)
            .await
        {
            Ok(Drawn::Granted(drawn, memo)) => {
                self.spend((drawn, &memo), charge, (state, Some((transaction, deposit.amount)))).await
            }
            // This voucher never buys. The payer must sign another one under the same quote, and a record of this one would prevent that.
            Ok(Drawn::Mismatch(account)) => self.ends(Outcome::Refuse(channel_response::corrected(
                self.requote.clone(),
                &self.channels,
                (&self.channel, self.voucher.max_claimable),
                &account,
            ))),
            Ok(Drawn::Busy) => self.ends_busy(),
            Ok(Drawn::Missing | Drawn::TooLittle(_) | Drawn::Unsure | Drawn::Public) | Err(_) => unknown,
        }
    }
}

impl Unsettled for Charging {
    fn record(&self) -> Settling {
        self.begun
    }

    fn sends(&self) -> bool {
        matches!(*self.charge.lock().unwrap_or_else(PoisonError::into_inner), Some(Charge::Deposit(_)))
    }

    fn is_metered(&self) -> bool {
        self.is_metered
    }

    fn settle<'a>(
        &'a self,
        charge: Amount,
        records: &'a Records,
    ) -> Pin<Box<dyn Future<Output = Settled> + Send + 'a>> {
        Box::pin(self.pay(units(charge), records))
    }

    fn conclude(&self, settled: Settled, begun: Option<&Settling>) -> Outcome {
        match settled {
            Settled::Done(paid) | Settled::Named(paid) => Outcome::Sell(paid),
            Settled::Refused(reason) => {
                let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner).take();
                match (ended, begun) {
                    (Some(outcome), _) => outcome,
                    // A transaction sent for the deposit, now or under an earlier lease, may still be mined, or be sent again by others.
                    (None, Some(begun)) if self.comes_until.is_some_and(|until| until > self.begun.head) => {
                        Outcome::Unknown(self.outcome_unknown(begun.transaction))
                    }
                    (None, _) => {
                        let (network, payer) = (self.channels.network(), self.channel.config.payer);
                        Outcome::Refuse(self.requote.clone().refuse(reason, network, Some(payer)))
                    }
                }
            }
            Settled::Spent => Outcome::Unknown(self.outcome_unknown(None)),
            Settled::Unknown(transaction) => Outcome::Unknown(self.outcome_unknown(transaction)),
        }
    }

    fn outcome_unknown(&self, transaction: Option<TxHash>) -> Problem {
        let (network, payer) = (self.channels.network(), self.channel.config.payer);
        Problem {
            settlement: Some(Box::new(SettleResponse::pending(transaction, network).with_payer(payer))),
            detail: Some(
                "Whether the channel was charged is not known yet. Send the same request with the same PAYMENT-SIGNATURE again after Retry-After; do not sign another voucher.",
            ),
            ..Problem::after(ProblemCode::OutcomeUnknown, ASK_AGAIN)
        }
    }

    fn made_by(&self) -> Option<TxHash> {
        self.sold.get()?.deposit.map(|(transaction, _)| transaction)
    }

    fn made(&self, transaction: TxHash) -> SettleResponse {
        SettleResponse::pending(Some(transaction), self.channels.network())
    }

    fn shown(&self) -> Shown {
        Shown::Authorization(self.payment.payment_id())
    }

    fn let_go(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        let how = self.charge.lock().unwrap_or_else(PoisonError::into_inner).take();
        Box::pin(async move {
            if let Some(Charge::Drawn(drawn, _)) = how {
                drawn.release().await;
            }
        })
    }

    fn logged(&self) -> Option<String> {
        Some(const_hex::encode(self.sold.get()?.memo.as_bytes()))
    }

    fn told(&self) -> Option<SettleResponse> {
        let Sold { charge, state, deposit, .. } = self.sold.get()?;
        let charged = self.before().saturating_add(*charge);
        let state = channel_response::channel_state(&self.channel, state, charged);
        Some(channel_response::sold(self.channels.network(), self.channel.config.payer, (*charge, state), *deposit))
    }
}
