//! `PayLayer`: the layer that makes a client pay.

use std::{fmt, sync::Arc};

use tower_layer::Layer;

use super::{
    Budget, ChannelFunds, HeldChannel, JournalEntry, JournalError, Pay, PayError, PurchaseId, PurchaseState,
    flow::budget::Spent, http::host, inner::ClientInner, way::authorization::cancel, way::channel::adopt,
    way::channel::close,
};
use crate::protocol::{
    Amount, Network,
    channel::{ChannelConfig, ChannelId},
};

/// A [`Layer`] that makes an HTTP client pay: see [the module](super), with an example.
///
/// Clones share one payer, one budget and one journal.
#[derive(Clone)]
pub struct PayLayer {
    inner: Arc<ClientInner>,
}

impl PayLayer {
    pub(super) fn new(inner: ClientInner) -> Self {
        Self { inner: Arc::new(inner) }
    }

    /// Returns the budget.
    #[must_use]
    pub fn budget(&self) -> &Budget {
        &self.inner.budget
    }

    /// Returns what counts against the budget's limit per day now, in base units: the payments of the last 24 hours
    /// and those under way.
    ///
    /// ```
    /// # #[cfg(feature = "test-util")] {
    /// # use tower_x402::{client::{Budget, MemoryJournal, PayLayer}, protocol::{Address, Asset, ChainTime}, testing::*};
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let budget = Budget::in_assets([Asset::USDC_BASE]).per_payment("0.50").per_day("10").build()?;
    /// # let wallet = ScriptedPayer::new(ScriptedVerifier::new(ChainTime::from_unix(0)), Address::new([2; 20]));
    /// let layer = PayLayer::builder(wallet, budget, MemoryJournal::new()).build().await?;
    /// let shown = |amount: tower_x402::protocol::Amount| amount.to_decimal(layer.budget().decimals());
    /// assert_eq!((shown(layer.spent()), shown(layer.remaining())), ("0".into(), "10".into()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn spent(&self) -> Amount {
        self.spent_at("").in_all
    }

    /// Returns what the limit per day leaves, in base units. Another payment may use it up before yours.
    #[must_use]
    pub fn remaining(&self) -> Amount {
        self.inner.budget.left(self.spent_at("")).0
    }

    /// Returns what counts against the limit per host now, in base units. `host` may be in any spelling, with or
    /// without a port.
    #[must_use]
    pub fn spent_on(&self, host: &str) -> Amount {
        self.spent_at(host).by_host
    }

    /// Returns what the limits per host and per day together leave for this host, in base units.
    #[must_use]
    pub fn remaining_for(&self, host: &str) -> Amount {
        self.inner.budget.left(self.spent_at(host)).1
    }

    fn spent_at(&self, host: &str) -> Spent {
        self.inner.registry.spent(&host::of_entry(host), &self.inner.budget)
    }

    /// Returns the purchases that are not finished, oldest first. Each continues when its request is sent again.
    #[must_use]
    pub fn unfinished(&self) -> Vec<JournalEntry> {
        self.inner.registry.unfinished()
    }

    /// Closes an unfinished purchase once you have its answer, or do not need it: the same request then pays anew.
    ///
    /// A purchase closes by itself once its answer's body is read to the end. Use this method to drop a body early on
    /// purpose, or with [`PayLayerBuilder::acknowledged_by_caller`](super::PayLayerBuilder::acknowledged_by_caller).
    /// Returns `false` if there is no unfinished purchase of that name with a sold answer.
    ///
    /// ```
    /// # use tower_x402::client::{JournalError, PayLayer, Purchase, ResponseBody};
    /// # async fn example(layer: PayLayer, answer: http::Response<ResponseBody<http_body_util::Full<bytes::Bytes>>>) -> Result<(), JournalError> {
    /// let bought = answer.extensions().get::<Purchase>().cloned();
    /// drop(answer); // the status was all that was wanted
    /// if let Some(bought) = bought {
    ///     layer.acknowledge(bought.id).await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`JournalError`] if that was not recorded: the purchase stays open.
    pub async fn acknowledge(&self, purchase: PurchaseId) -> Result<bool, JournalError> {
        self.inner.registry.acknowledge(purchase).await
    }

    /// Gives up an unfinished purchase: the same request then pays anew. Its payment is lost, unless the seller refunds
    /// it. Returns `false` if there is no such purchase, or a call is working on it.
    ///
    /// # Errors
    /// [`JournalError`] if that was not recorded: the purchase may be open again after a restart.
    pub async fn abandon(&self, purchase: PurchaseId) -> Result<bool, JournalError> {
        self.inner.registry.abandon(purchase).await
    }

    /// Cancels the authorization of an unfinished purchase by a transaction of the payer, which costs gas, and waits
    /// until the chain shows the outcome.
    ///
    /// The transaction is recorded before it is sent, and is replaced by one with a higher fee while no block contains
    /// it. If a call is dropped, the next one for the same purchase continues it, also after a restart. The gas counts
    /// against the budget's [limits](super::BudgetBuilder::gas_per_day).
    ///
    /// Meanwhile the same request pays nothing, and ends in
    /// [`PayErrorKind::Outstanding`](super::PayErrorKind::Outstanding).
    ///
    /// A permit cannot be cancelled, because it expires by itself: the call ends in
    /// [`PayErrorKind::NotCancelled`](super::PayErrorKind::NotCancelled).
    ///
    /// Returns [`PurchaseState::Void`] if the authorization was cancelled: the same request then pays anew. Returns
    /// [`PurchaseState::Redeeming`] if it had already been used: the same request asks for its answer. Returns `None`
    /// if there is no unfinished purchase of that name with an authorization that is not known to be used, or if a call
    /// is working on it.
    ///
    /// # Errors
    /// [`PayErrorKind::NotCancelled`](super::PayErrorKind::NotCancelled) if no transaction was sent; [`PayErrorKind::Unsettled`](super::PayErrorKind::Unsettled) if its outcome is unknown within
    /// the layer's [patience](super::PayLayerBuilder::patience). The purchase stays as it is.
    pub async fn cancel(&self, purchase: PurchaseId) -> Result<Option<PurchaseState>, PayError> {
        let Some(guard) = self.inner.registry.to_cancel(purchase) else { return Ok(None) };
        Ok(cancel::cancel(&self.inner, guard).await?)
    }

    /// Returns the payment channels of this payer, oldest first; closed ones for a day. [`Pay::close_channel`] closes one.
    #[must_use]
    pub fn channels(&self) -> Vec<HeldChannel> {
        self.inner.registry.channels().iter().filter_map(HeldChannel::of).collect()
    }

    /// Returns what the chain shows of a payment channel; [`channels`](Self::channels) does not ask the chain. If nodes
    /// differ, the worse answer counts.
    ///
    /// # Errors
    /// [`PayErrorKind::Channel`](super::PayErrorKind::Channel) if the journal has no such channel; [`PayErrorKind::Payer`](super::PayErrorKind::Payer)
    /// if the chain does not answer.
    pub async fn channel_funds(&self, channel: ChannelId) -> Result<ChannelFunds, PayError> {
        Ok(Box::pin(close::funds(&self.inner, channel)).await?)
    }

    /// Adopts a payment channel whose journal was lost, so that it can be closed or used again. `config` fully
    /// describes the channel: find it in the call data of its deposit, in the contract's event `ChannelCreated`, or in
    /// any request that the channel paid. `seller` is an address that was bought through the channel.
    ///
    /// The journal of signed totals is lost. So until the seller shows a voucher of this payer, nothing is signed above
    /// what the chain shows as claimed plus one price. The count then continues from that voucher. If the journal has
    /// the channel, it stays unchanged.
    ///
    /// # Errors
    /// [`PayErrorKind::Payer`](super::PayErrorKind::Payer) if the channel does not belong to this payer, or the chain
    /// does not answer; [`PayErrorKind::Channel`](super::PayErrorKind::Channel) if the chain shows nothing in it;
    /// [`PayErrorKind::Journal`](super::PayErrorKind::Journal).
    pub async fn adopt_channel(
        &self,
        network: Network,
        config: ChannelConfig,
        seller: http::Uri,
    ) -> Result<Option<HeldChannel>, PayError> {
        Box::pin(adopt::adopt(&self.inner, network, config, seller)).await?;
        Ok(self.channels().into_iter().find(|held| held.id == config.id(network)))
    }

    /// Withdraws what is left in a channel without its seller, by two transactions of the payer, which cost gas.
    /// Between them lies the channel's [delay](crate::protocol::channel::ChannelConfig::withdraw_delay): 15 minutes to
    /// 30 days, a day at sellers of this crate.
    ///
    /// The first call begins the withdrawal, and returns the channel with the time from which a second call completes
    /// it ([`ChannelPhase::Withdrawing`](super::ChannelPhase::Withdrawing)). Meanwhile the seller can claim what it is
    /// owed, and the channel buys nothing more. [`Pay::close_channel`] is quicker, and free, if the seller answers.
    ///
    /// The transactions are not recorded before they are sent: sending one again moves no money twice.
    ///
    /// # Errors
    /// [`PayErrorKind::Channel`](super::PayErrorKind::Channel) if there is no such channel, a purchase was left in it, or the withdrawal
    /// failed; its source says why.
    pub async fn withdraw_channel(&self, channel: ChannelId) -> Result<Option<HeldChannel>, PayError> {
        Box::pin(close::withdraw(&self.inner, channel)).await?;
        Ok(self.channels().into_iter().find(|held| held.id == channel))
    }
}

impl<S> Layer<S> for PayLayer {
    type Service = Pay<S>;

    fn layer(&self, service: S) -> Pay<S> {
        Pay::new(service, Arc::clone(&self.inner))
    }
}

impl fmt::Debug for PayLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PayLayer")
            .field("budget", &self.inner.budget)
            .field("settings", &self.inner.settings)
            .finish_non_exhaustive()
    }
}
