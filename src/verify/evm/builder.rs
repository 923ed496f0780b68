//! `EvmVerifierBuilder`: the settings of an [`EvmVerifier`].

use std::{collections::HashSet, fmt, sync::Arc, time::Duration};

use futures_util::future::join_all;

use super::{
    authorizations::Authorizations,
    endpoint::Endpoint,
    endpoint_check::{EndpointCheck, network_of},
    endpoint_pool::EndpointPool,
    finality::Finality,
    gate::Gate,
    head::Head,
    judge::Policy,
    receipts::Receipts,
    reorg_monitor::ReorgMonitor,
    signatures::SignerInquiries,
    verifier::{EvmVerifier, Inner},
};
use crate::{
    clock::{Clock, SystemClock},
    evm::json_rpc::Transport,
    protocol::{Address, Network},
    verify::{VerifyError, VerifyErrorKind},
};

/// Configures an [`EvmVerifier`].
///
/// ```no_run
/// # async fn example() -> Result<(), tower_x402::verify::VerifyError> {
/// use tower_x402::verify::{EvmVerifier, Finality};
/// let verifier = EvmVerifier::builder()
///     .endpoints(["https://mainnet.base.org", "https://base-rpc.example"])
///     .finality(Finality::Confirmations(3))
///     .connect()
///     .await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
#[must_use]
pub struct EvmVerifierBuilder {
    urls: Vec<String>,
    finality: Finality,
    block_time: Duration,
    call_timeout: Duration,
    total_timeout: Duration,
    max_concurrency: usize,
    max_queue: usize,
    max_head_age: Option<Duration>,
    deny: HashSet<Address>,
    cache_bytes: u64,
    clock: Arc<dyn Clock>,
}

impl EvmVerifier {
    /// Connects to these JSON-RPC endpoints, http or https, with the default settings.
    ///
    /// # Errors
    /// Fails as [`EvmVerifierBuilder::connect`] does.
    pub async fn connect(urls: impl IntoIterator<Item = impl Into<String>>) -> Result<Self, VerifyError> {
        Self::builder().endpoints(urls).connect().await
    }

    /// Returns a builder with the default settings.
    pub fn builder() -> EvmVerifierBuilder {
        EvmVerifierBuilder::new()
    }
}

/// Omits the URLs, because they hold keys.
impl fmt::Debug for EvmVerifierBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EvmVerifierBuilder")
            .field("endpoints", &self.urls.len())
            .field("finality", &self.finality)
            .finish_non_exhaustive()
    }
}

impl EvmVerifierBuilder {
    fn new() -> Self {
        Self {
            urls: Vec::new(),
            finality: Finality::default(),
            block_time: Duration::from_secs(2),
            call_timeout: Duration::from_secs(2),
            total_timeout: Duration::from_secs(5),
            max_concurrency: 32,
            max_queue: 512,
            max_head_age: Some(Duration::from_secs(180)),
            deny: HashSet::new(),
            cache_bytes: 32 * 1024 * 1024,
            clock: Arc::new(SystemClock),
        }
    }

    /// Adds JSON-RPC endpoints, http or https, all of the same chain. The first is called first.
    pub fn endpoints(mut self, urls: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.urls.extend(urls.into_iter().map(Into::into));
        self
    }

    /// Sets how deep a payment must be before it counts. Default: [`Finality::Confirmations`]`(1)`.
    pub const fn finality(mut self, finality: Finality) -> Self {
        self.finality = finality;
        self
    }

    /// Sets the time between two blocks of the chain. Default: 2 s, as on Base.
    ///
    /// A head is fresh for this long. A transaction that is unknown or pays nothing is looked up again only after this long, or when a
    /// new block is seen. While payments wait to be mined, the head is refreshed up to four times a second.
    pub const fn block_time(mut self, block_time: Duration) -> Self {
        self.block_time = block_time;
        self
    }

    /// Sets the time limit of one call to one endpoint. Default: 2 s. After a fifth of it the next endpoint is called as well.
    pub const fn call_timeout(mut self, call_timeout: Duration) -> Self {
        self.call_timeout = call_timeout;
        self
    }

    /// Sets the time limit of one verification, queueing included. Default: 5 s.
    pub const fn total_timeout(mut self, total_timeout: Duration) -> Self {
        self.total_timeout = total_timeout;
        self
    }

    /// Sets how many transactions are looked up concurrently. Default: 32.
    pub const fn max_concurrency(mut self, look_ups: usize) -> Self {
        self.max_concurrency = look_ups;
        self
    }

    /// Sets how many further look-ups may queue; any more fail with [`VerifyErrorKind::Overloaded`]. Default: 512.
    ///
    /// There are two queues of this length: one for transactions that are looked up for the first time, one for those that were not
    /// found before. They are served in turn.
    pub const fn max_queue(mut self, look_ups: usize) -> Self {
        self.max_queue = look_ups;
        self
    }

    /// Sets how far the head may be from the local clock. Default: 3 min. A head further behind is stale; one further ahead is ignored.
    ///
    /// `None` is for chains that mine on demand. It also turns off two more rules: that a head is stale after a minute of refreshes
    /// without a newer block, and that a new ledger begins at the local clock's time if the head is behind it.
    pub const fn max_head_age(mut self, max_head_age: Option<Duration>) -> Self {
        self.max_head_age = max_head_age;
        self
    }

    /// Adds senders whose transfers to the recipient are not payments, such as a treasury, a bridge or a faucet.
    pub fn deny_payers(mut self, payers: impl IntoIterator<Item = Address>) -> Self {
        self.deny.extend(payers);
        self
    }

    /// Sets the approximate size of the cache of receipts and call data, in bytes. Default: 32 MiB, enough for some 40,000 ordinary
    /// transfers. In addition, up to 65,536 unknown transactions are remembered, in some 20 MB.
    pub const fn cache_bytes(mut self, bytes: u64) -> Self {
        self.cache_bytes = bytes;
        self
    }

    /// Sets the clock that decides freshness and staleness. Default: the system's. Time limits use tokio's.
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Connects: asks every endpoint for its chain id. An endpoint that does not answer now counts once it has answered.
    ///
    /// # Errors
    /// - [`InvalidSetting`](VerifyErrorKind::InvalidSetting): a duration or number is zero, or the limit of a call
    ///   exceeds the total limit;
    /// - [`InvalidEndpoint`](VerifyErrorKind::InvalidEndpoint): no endpoint was named, or one is no http or https URL;
    /// - [`WrongChain`](VerifyErrorKind::WrongChain): two endpoints serve different chains;
    /// - [`Unavailable`](VerifyErrorKind::Unavailable): no endpoint answered.
    pub async fn connect(self) -> Result<EvmVerifier, VerifyError> {
        let transports = self.check()?;
        let networks = join_all(transports.iter().map(|transport| network_of(transport, self.call_timeout))).await;
        let mut answers = networks.iter().flatten().copied();
        let network = answers.next().ok_or_else(VerifyError::unavailable)?;
        if let Some(found) = answers.find(|other| *other != network) {
            return Err(VerifyError::new(VerifyErrorKind::WrongChain { expected: network, found }));
        }
        let now = self.clock.monotonic();
        let endpoints = transports.into_iter().zip(networks).enumerate().map(|(index, (transport, answer))| {
            let endpoint = Endpoint::new(index, transport);
            match answer {
                Ok(_) => endpoint.proved(endpoint.round(), now),
                Err(fault) => {
                    tracing::warn!(endpoint = index, "endpoint does not say which chain it serves");
                    endpoint.failed(endpoint.round(), now, fault.wait());
                }
            }
            Arc::new(endpoint)
        });
        Ok(self.build(network, endpoints.collect()))
    }

    /// Creates the verifier without calling any endpoint, for services that start while their endpoints are down.
    ///
    /// Answers of an endpoint count once it was seen to serve `network` and the tokens given to
    /// [`check`](crate::verify::Verifier::check). Use it with
    /// [`MerchantBuilder::start_lazily`](crate::MerchantBuilder::start_lazily).
    ///
    /// # Errors
    /// [`InvalidSetting`](VerifyErrorKind::InvalidSetting) and [`InvalidEndpoint`](VerifyErrorKind::InvalidEndpoint), as for
    /// [`connect`](Self::connect).
    pub fn connect_lazily(self, network: Network) -> Result<EvmVerifier, VerifyError> {
        let transports = self.check()?.into_iter().enumerate();
        let endpoints = transports.map(|(index, transport)| Arc::new(Endpoint::new(index, transport))).collect();
        Ok(self.build(network, endpoints))
    }

    /// Checks the settings and creates the transports.
    fn check(&self) -> Result<Vec<Transport>, VerifyError> {
        let short = |span: Duration| !span.is_zero() && span <= Duration::from_secs(3600);
        let settings = [
            ("finality", self.finality != Finality::Confirmations(0)),
            ("block_time", short(self.block_time)),
            ("call_timeout", short(self.call_timeout)),
            ("total_timeout", short(self.total_timeout) && self.total_timeout >= self.call_timeout),
            ("max_concurrency", (1..=tokio::sync::Semaphore::MAX_PERMITS).contains(&self.max_concurrency)),
            ("max_head_age", self.max_head_age.is_none_or(|age| !age.is_zero())),
        ];
        let bad = settings.into_iter().find(|(_, good)| !good);
        if let Some((what, _)) = bad {
            return Err(VerifyError::new(VerifyErrorKind::InvalidSetting { what }));
        }
        let transport = |(place, url): (usize, &String)| Some(Transport::new(url)?.counted_as(place));
        let transports = self.urls.iter().enumerate().map(transport).collect::<Option<Vec<_>>>();
        let transports = transports.filter(|transports| !transports.is_empty());
        transports.ok_or(VerifyError::new(VerifyErrorKind::InvalidEndpoint))
    }

    fn build(self, network: Network, endpoints: Vec<Arc<Endpoint>>) -> EvmVerifier {
        let Self { finality, block_time, call_timeout, total_timeout, clock, .. } = self;
        let check = EndpointCheck::new(network, call_timeout, Arc::clone(&clock));
        let pool = Arc::new(EndpointPool::new(endpoints, check, call_timeout, Arc::clone(&clock)));
        // Blocks have a gate of their own: a flood of made-up transactions must not delay the known ones.
        let gate = || Gate::new(self.max_concurrency, self.max_queue);
        let head = Head::new(Arc::clone(&pool), gate(), Arc::clone(&clock), finality, block_time, self.max_head_age);
        let reorgs = matches!(finality, Finality::Confirmations(_));
        let reorgs = reorgs.then(|| Arc::new(ReorgMonitor::new(Arc::clone(&pool), Arc::clone(&clock))));
        let head = Arc::new(head);
        let (asked, known) = (Arc::clone(&pool), Arc::clone(&head));
        let receipts = Receipts::new(asked, known, gate(), clock, block_time, total_timeout, self.cache_bytes);
        let receipts = Arc::new(receipts);
        let signatures = SignerInquiries::new(Arc::clone(&pool), gate());
        let known = Arc::clone(&receipts);
        let authorizations = Authorizations::new(network, Arc::clone(&pool), Arc::clone(&head), known, gate());
        let retry_after = finality.retry_after(block_time);
        let policy = Policy { deny: self.deny, retry_after };
        EvmVerifier {
            inner: Arc::new(Inner {
                network,
                finality,
                pool,
                head,
                receipts,
                signatures,
                authorizations,
                policy,
                reorgs,
                total_timeout,
            }),
        }
    }
}
