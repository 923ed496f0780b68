//! Gets back what is left in a channel: by the seller's refund, or by a withdrawal without the seller. Only the chain
//! confirms it.

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body::Body;
use tokio::time::{Instant, sleep, timeout};
use tower_service::Service;

use crate::{
    client::{
        ChannelFunds, ChannelPhase, ChannelRecord, Failure, PayerError, ReplayBody, SettledFunds,
        box_error::BoxError,
        dialect::{ChannelTerms, reply, signed_proof},
        flow::{ChannelGuard, FoundChannel, Offered, Replied, Seller},
        http::ReplayRequest,
        inner::ClientInner,
        payer::PreparedVoucher,
        way::channel::{
            correction::{Believed, Correction},
            sign,
        },
    },
    protocol::{Amount, ChainTime, Network, channel::ChannelId, v2::Reason},
};

const MISMATCH: &str = "invalid_batch_settlement_evm_cumulative_amount_mismatch";
const NO_BALANCE: &str = "invalid_batch_settlement_evm_refund_no_balance";

/// The seller's reply to a refund request.
enum Told {
    Made,
    /// By the seller's count, nothing is left.
    NothingLeft,
    /// The seller's other count is believed; this is the next refund request.
    Corrected(Box<PreparedVoucher>),
}

/// A channel in the process of closing.
struct Closing<'a> {
    inner: &'a ClientInner,
    held: ChannelGuard,
    network: Network,
    deadline: Instant,
}

/// Asks the seller for a refund of the rest, and waits until the chain shows it.
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
        let told = match closing.ask(&mut seller, refund).await? {
            // The seller's other count is believed, so ask once more.
            Told::Corrected(again) => closing.ask(&mut seller, *again).await?,
            told => told,
        };
        match told {
            Told::Corrected(_) => return Err(closing.failed("the seller counts another total each time")),
            // Both sides agree. The chain shows it once the seller has claimed, and there is no need to wait for that.
            Told::NothingLeft if closing.record()?.is_used_up(&settled) => {
                return closing.change(|record| record.phase = ChannelPhase::Closed).await;
            }
            Told::NothingLeft | Told::Made => {}
        }
    }
    closing.came_back(settled).await
}

/// Begins a withdrawal without the seller, or completes one after its delay.
pub(crate) async fn withdraw(inner: &ClientInner, channel: ChannelId) -> Result<(), Failure> {
    let closing = Closing::of(inner, channel).await?;
    // Record it first: from then on the channel buys nothing more.
    let Some(settled) = closing.begun().await? else { return Ok(()) };
    if settled.left().is_zero() {
        return closing.came_back(settled).await;
    }
    let record = closing.record()?;
    let funds = closing.funds().await?;
    let said = funds.withdrawing.map(|(_, since)| since.after(record.withdraw_delay()));
    let ready = match said.or(record.withdrawing_until()) {
        Some(ready) if ready <= inner.now() => {
            match inner.channel_signer()?.end_withdrawal(closing.network, &record.config).await {
                // It had not begun after all, or is already over.
                Err(PayerError::Refused(_)) if said.is_none() => closing.begin_withdrawal(&record, &funds).await?,
                ended => {
                    ended.map_err(|error| closing.failed(error))?;
                    return closing.came_back(settled).await;
                }
            }
        }
        // Beginning again would restart the delay.
        Some(ready) => ready,
        None => closing.begin_withdrawal(&record, &funds).await?,
    };
    closing.change(|record| record.phase = ChannelPhase::Withdrawing(ready)).await
}

/// Returns what the chain shows of a channel.
pub(crate) async fn funds(inner: &ClientInner, channel: ChannelId) -> Result<ChannelFunds, Failure> {
    Ok(inner.channel_signer()?.channel_funds(network_of(inner, channel)?, channel).await?)
}

fn network_of(inner: &ClientInner, channel: ChannelId) -> Result<Network, Failure> {
    let is_it = |record: &ChannelRecord, network| record.config.id(network) == channel;
    let entries = inner.registry.channels();
    let found = entries.iter().find(|entry| entry.channel_record().is_some_and(|record| is_it(record, entry.network)));
    found.map(|entry| entry.network).ok_or(Failure::NoChannel { channel })
}

/// Returns the amounts that may be left for a withdrawal, the largest first. One comes from what the nodes report now.
/// As a node may lag or lie, the other is what the payer deposited minus what it signed. The seller cannot claim more
/// than was signed, but may already have refunded a part.
fn amounts(record: &ChannelRecord, funds: &ChannelFunds) -> impl Iterator<Item = Amount> {
    let left = |balance: Amount, claimed| balance.checked_sub(claimed).unwrap_or(Amount::ZERO);
    let mut amounts = [left(funds.balance, funds.claimed), left(record.deposited, record.signed)];
    amounts.sort_by(|one, other| other.cmp(one));
    amounts.into_iter().filter(|amount| !amount.is_zero())
}

impl<'a> Closing<'a> {
    async fn of(inner: &'a ClientInner, channel: ChannelId) -> Result<Self, Failure> {
        let deadline = Instant::now() + inner.settings.patience;
        let network = network_of(inner, channel)?;
        loop {
            match inner.registry.hold_channel_named(channel).ok_or(Failure::NoChannel { channel })? {
                FoundChannel::Held(held) => return Ok(Self { inner, held, network, deadline }),
                FoundChannel::Left(purchase) => return Err(Failure::ChannelLeft { purchase }),
                FoundChannel::Busy | FoundChannel::Broken(_) | FoundChannel::Doubtful(_)
                    if Instant::now() < deadline =>
                {
                    inner.registry.channel_changes().await;
                }
                FoundChannel::Busy | FoundChannel::Broken(_) | FoundChannel::Doubtful(_) => {
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

    /// Begins or continues closing, based on the chain; returns `None` if the channel was closed and nothing is left.
    async fn begun(&self) -> Result<Option<SettledFunds>, Failure> {
        let settled = self.settled().await?;
        let is_closed = self.record()?.phase == ChannelPhase::Closed;
        if is_closed && settled.left().is_zero() {
            return Ok(None);
        }
        self.change(|record| record.begin_closing(&settled)).await?;
        Ok(Some(settled))
    }

    async fn settled(&self) -> Result<SettledFunds, Failure> {
        let settled = self.inner.channel_signer()?.settled_funds(self.network, self.held.id()).await;
        settled.map_err(|error| self.failed(error))
    }

    /// Begins to withdraw what is left now, because the contract refuses more. Returns when the withdrawal can be
    /// completed.
    async fn begin_withdrawal(&self, record: &ChannelRecord, funds: &ChannelFunds) -> Result<ChainTime, Failure> {
        let mut refused = None;
        for amount in amounts(record, funds) {
            let units = amount.to_u128().ok_or_else(|| self.failed("the channel holds too much"))?;
            let signer = self.inner.channel_signer()?;
            match signer.begin_withdrawal(self.network, &record.config, units).await {
                Ok(_) => {
                    let since = self.funds().await?.withdrawing.map_or(self.inner.now(), |(_, since)| since);
                    return Ok(since.after(record.withdraw_delay()));
                }
                Err(error @ PayerError::Refused(_)) => refused = Some(error),
                Err(error) => return Err(self.failed(error)),
            }
        }
        Err(refused.map_or_else(
            || self.failed("the nodes do not agree on what is left: ask again"),
            |error| self.failed(error),
        ))
    }

    async fn change(&self, change: impl FnOnce(&mut ChannelRecord)) -> Result<(), Failure> {
        self.held.change(change).await.map_err(|error| self.failed(error))
    }

    fn failed(&self, reason: impl Into<BoxError>) -> Failure {
        Failure::NotClosed { channel: self.held.id(), reason: reason.into() }
    }

    /// Requests the seller's current terms for this channel where its last answer was bought: by a GET, as the standard
    /// specifies, then by the recorded method.
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

    /// Requests the refund.
    async fn ask<S, B, R>(&self, seller: &mut Seller<S, B>, refund: PreparedVoucher) -> Result<Told, Failure>
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
            return Ok(Told::Made);
        }
        let reason = reply::refusal(&parts.headers);
        match reason.as_ref().map(Reason::as_str) {
            Some(NO_BALANCE) => Ok(Told::NothingLeft),
            Some(MISMATCH) => {
                let claim = Correction::read(&parts.headers, &refund);
                let claim = claim.ok_or_else(|| self.failed("the seller's count cannot be read"))?;
                let believed = claim.believed(self.inner, &refund, &self.record()?).await?;
                // No request is open here, so none could have been sold.
                let Some(Believed::Before(charged)) = believed else {
                    return Err(self.failed("the seller's count is not believed"));
                };
                let again = sign::again(self.inner, self.deadline, &refund, charged, Amount::ZERO).await?;
                self.change(|record| record.correct(charged)).await?;
                Ok(Told::Corrected(Box::new(again)))
            }
            Some(word) => Err(self.failed(format!("the seller refuses: {word}"))),
            None => Err(self.failed(format!("the seller answers {}", parts.status.as_u16()))),
        }
    }

    /// Waits until the chain shows a refund in blocks that stay, and records it.
    async fn came_back(&self, before: SettledFunds) -> Result<(), Failure> {
        loop {
            let settled = self.settled().await?;
            let is_empty = settled.left().is_zero();
            if settled.is_deep && (is_empty || settled.balance < before.balance) {
                let mut due = None;
                self.change(|record| {
                    due = record.gives_back(&settled);
                    // A closed channel is forgotten, and a later deposit would be lost.
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
                if !settled.is_deep {
                    return Err(self.failed(
                        "the chain is younger than the depth at which a block is believed to stay: ask again later, or set a lower depth",
                    ));
                }
                return Err(self.failed("the chain does not show yet that anything came back: ask again"));
            }
            sleep(self.inner.settings.poll_every).await;
        }
    }
}
