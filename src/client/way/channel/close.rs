//! What is left in a channel comes back: by the seller's refund, or without the seller by a withdrawal. Only the chain's word counts.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body::Body;
use tokio::time::{Instant, sleep, timeout};
use tower_service::Service;

use crate::{
    client::{
        ChannelFunds, ChannelPhase, ChannelRecord, Failure, ReplayBody, SettledFunds,
        box_error::BoxError,
        dialect::{ChannelTerms, reply, signed_proof},
        flow::{ChannelGuard, FoundChannel, Offered, Replied, Seller},
        http::ReplayRequest,
        inner::ClientInner,
        payer::PreparedVoucher,
        way::channel::{correction::Correction, sign},
    },
    protocol::{Amount, Network, channel::ChannelId, v2::Reason},
};

const MISMATCH: &str = "invalid_batch_settlement_evm_cumulative_amount_mismatch";
const NO_BALANCE: &str = "invalid_batch_settlement_evm_refund_no_balance";

/// A channel that is being closed.
struct Closing<'a> {
    inner: &'a ClientInner,
    held: ChannelGuard,
    network: Network,
    deadline: Instant,
}

/// Asks the seller for the rest, and waits until the chain shows it.
pub(crate) async fn close<S, B, R>(inner: &ClientInner, service: S, channel: ChannelId) -> Result<(), Failure>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
    S::Error: Into<BoxError>,
    B: ReplayBody,
    R: Body<Data = Bytes>,
{
    let closing = Closing::of(inner, channel).await?;
    let Some(settled) = closing.begun().await? else { return Ok(()) };
    let record = closing.record()?;
    if !settled.left().is_zero() {
        let (mut seller, terms) = closing.offer(service, &record).await?;
        let record = closing.record()?;
        let refund = sign::refund(inner, closing.deadline, closing.network, &record, &terms).await?;
        if let Some(again) = closing.ask(&mut seller, refund).await? {
            // It counts otherwise, and is believed: it is asked once more.
            if closing.ask(&mut seller, again).await?.is_some() {
                return Err(closing.failed("the seller counts another total each time"));
            }
        }
    }
    closing.came_back(settled).await
}

/// Begins a withdrawal without the seller, or ends one whose delay is over.
pub(crate) async fn withdraw(inner: &ClientInner, channel: ChannelId) -> Result<(), Failure> {
    let closing = Closing::of(inner, channel).await?;
    // Recorded first: from then on nothing more is bought by it.
    let Some(settled) = closing.begun().await? else { return Ok(()) };
    let record = closing.record()?;
    let signer = inner.channel_signer()?;
    let left = settled.left();
    let delay = Duration::from_secs(record.config.withdraw_delay.into());
    match closing.funds().await?.withdrawing {
        _ if left.is_zero() => return closing.came_back(settled).await,
        Some((_, since)) if since.after(delay) <= inner.now() => {
            let sent = signer.end_withdrawal(closing.network, &record.config).await;
            sent.map_err(|error| closing.failed(error))?;
            return closing.came_back(settled).await;
        }
        Some(_) => {}
        None => {
            let units = left.to_u128().ok_or_else(|| closing.failed("the channel holds too much"))?;
            let sent = signer.begin_withdrawal(closing.network, &record.config, units).await;
            sent.map_err(|error| closing.failed(error))?;
        }
    }
    let since = closing.funds().await?.withdrawing.map_or(inner.now(), |(_, since)| since);
    closing.change(|record| record.phase = ChannelPhase::Withdrawing(since.after(delay))).await
}

impl<'a> Closing<'a> {
    async fn of(inner: &'a ClientInner, channel: ChannelId) -> Result<Self, Failure> {
        let deadline = Instant::now() + inner.settings.patience;
        let entries = inner.registry.channels();
        let is_it = |record: &ChannelRecord, network| record.config.id(network) == channel;
        let network = entries
            .iter()
            .find(|entry| entry.channel_record().is_some_and(|record| is_it(record, entry.network)))
            .map(|entry| entry.network)
            .ok_or(Failure::NoChannel { channel })?;
        loop {
            match inner.registry.hold_channel_named(channel).ok_or(Failure::NoChannel { channel })? {
                FoundChannel::Held(held) => return Ok(Self { inner, held, network, deadline }),
                FoundChannel::Left(purchase) => return Err(Failure::ChannelLeft { purchase }),
                FoundChannel::Busy | FoundChannel::Broken(_) if Instant::now() < deadline => {
                    inner.registry.channel_changes().await;
                }
                FoundChannel::Busy | FoundChannel::Broken(_) => {
                    return Err(Failure::TimedOut("waiting for the channel"));
                }
            }
        }
    }

    fn record(&self) -> Result<ChannelRecord, Failure> {
        self.held.record().ok_or(Failure::NoChannel { channel: self.held.id() })
    }

    async fn funds(&self) -> Result<ChannelFunds, Failure> {
        let funds = self.inner.channel_signer()?.channel_funds(self.network, self.held.id()).await;
        funds.map_err(|error| self.failed(error))
    }

    /// Begins, or goes on, by what the chain shows; `None` where nothing is left of a channel that was closed.
    async fn begun(&self) -> Result<Option<SettledFunds>, Failure> {
        let settled = self.settled().await?;
        let is_closed = self.record()?.phase == ChannelPhase::Closed;
        if is_closed && settled.left().is_zero() {
            return Ok(None);
        }
        self.change(|record| record.closes(&settled)).await?;
        Ok(Some(settled))
    }

    async fn settled(&self) -> Result<SettledFunds, Failure> {
        let settled = self.inner.channel_signer()?.settled_funds(self.network, self.held.id()).await;
        settled.map_err(|error| self.failed(error))
    }

    async fn change(&self, change: impl FnOnce(&mut ChannelRecord)) -> Result<(), Failure> {
        self.held.change(change).await.map_err(|error| self.failed(error))
    }

    fn failed(&self, reason: impl Into<BoxError>) -> Failure {
        Failure::NotClosed { channel: self.held.id(), reason: reason.into() }
    }

    /// The seller's present terms of this channel, where its last answer was bought: by a GET, as the standard has it, or as that was
    /// asked for.
    async fn offer<S, B, R>(&self, service: S, record: &ChannelRecord) -> Result<(Seller<S, B>, ChannelTerms), Failure>
    where
        S: Service<Request<B>, Response = Response<R>> + Clone,
        S::Error: Into<BoxError>,
        B: ReplayBody,
        R: Body<Data = Bytes>,
    {
        let own = Method::try_from(record.method.as_str()).unwrap_or(Method::GET);
        for method in [Method::GET, own] {
            let body = B::from_bytes(Bytes::new()).ok_or(Failure::NotReplayable)?;
            let request = Request::builder().method(method).uri(&record.url).body(body);
            let request = request.map_err(|error| self.failed(error))?;
            let mut seller = Seller::new(service.clone(), ReplayRequest::new(request));
            let patience = self.inner.settings.patience_until(self.deadline);
            let asked = timeout(patience, seller.bill(None, &self.inner.budget, self.inner.now())).await;
            let offered = asked.map_err(|_| self.failed("the seller did not answer in time"))?;
            if let Ok(Offered::Billed(bill, _)) = offered
                && let Some(terms) =
                    bill.channels.into_iter().find(|terms| terms.fits(&record.config, record.config.payer))
            {
                return Ok((seller, terms));
            }
        }
        Err(self.failed("the seller offers no such channel any more: withdraw without it"))
    }

    /// Asks for the refund; returns another request for it, where the seller counts otherwise and is believed.
    async fn ask<S, B, R>(
        &self,
        seller: &mut Seller<S, B>,
        refund: PreparedVoucher,
    ) -> Result<Option<PreparedVoucher>, Failure>
    where
        S: Service<Request<B>, Response = Response<R>> + Clone,
        S::Error: Into<BoxError>,
        B: ReplayBody,
        R: Body<Data = Bytes>,
    {
        let proven = seller.request().proven(&signed_proof::proof(&refund.message)).ok_or(Failure::NotReplayable)?;
        let replied = seller.present(proven, self.inner.settings.patience_until(self.deadline)).await;
        let Some(Replied { parts, .. }) = replied else {
            return Err(self.failed("the seller did not answer, and may yet make the refund: ask again"));
        };
        if parts.status.is_success() {
            return Ok(None);
        }
        let reason = reply::refusal(&parts.headers);
        match reason.as_ref().map(Reason::as_str) {
            // The chain tells.
            Some(NO_BALANCE) => Ok(None),
            Some(MISMATCH) => {
                let claim = Correction::read(&parts.headers, &refund);
                let claim = claim.ok_or_else(|| self.failed("the seller's count cannot be read"))?;
                let believed = claim.believed(self.inner, &refund, &self.record()?).await?;
                let charged = believed.ok_or_else(|| self.failed("the seller's count is not believed"))?;
                let again = sign::again(self.inner, self.deadline, &refund, charged, Amount::ZERO).await?;
                self.change(|record| record.correct(charged)).await?;
                Ok(Some(again))
            }
            Some(word) => Err(self.failed(format!("the seller refuses: {word}"))),
            None => Err(self.failed(format!("the seller answers {}", parts.status.as_u16()))),
        }
    }

    /// Waits until the chain shows that something came back, in blocks that stay, and records what.
    async fn came_back(&self, before: SettledFunds) -> Result<(), Failure> {
        loop {
            let settled = self.settled().await?;
            let is_empty = settled.left().is_zero();
            if is_empty || settled.balance < before.balance {
                let mut due = None;
                self.change(|record| {
                    due = record.gives_back(&settled);
                    // Once it is forgotten, what came into it later would be lost.
                    if is_empty && due.is_none() {
                        record.phase = ChannelPhase::Closed;
                    }
                })
                .await?;
                return due.map_or(Ok(()), |until| {
                    let until = until.unix();
                    Err(self.failed(format!("a deposit can still be made until {until} (Unix time): ask again then")))
                });
            }
            if Instant::now() + self.inner.settings.poll_every >= self.deadline {
                return Err(self.failed("the chain does not show yet that anything came back: ask again"));
            }
            sleep(self.inner.settings.poll_every).await;
        }
    }
}
