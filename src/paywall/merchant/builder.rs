//! `MerchantBuilder`: the settings of a merchant, and their checks.

use std::{fmt, sync::Arc, time::Duration};

use crate::{
    clock::{Clock, SystemClock},
    ledger::{ErasedLedger, LONGEST_LEASE, Ledger},
    metrics,
    paywall::{
        error::BuildError,
        merchant::{Merchant, chain::Chain},
        seller::{
            catalog::Catalog,
            chain::SellingChain,
            channels::policy::ChannelPolicy,
            inner::{Chains, MerchantInner},
            mpp::Mpp,
            payment_identifier::PaymentIdentifier,
            quote_page::{PageHook, QuotePage},
            text,
            unbound::UnboundPolicy,
        },
        way::signed::check_timeout,
    },
    protocol::{Address, Asset, Network, SealingKeys},
    settle::{ChannelSettler, PermitSettler, Settler},
    verify::Verifier,
};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// The default hold of an unbound payment: two blocks of Base, and one second.
const HOLD_UNBOUND: Duration = Duration::from_secs(5);

/// Configures a [`Merchant`]. Created by [`Merchant::builder`].
///
/// [`verifier`](Self::verifier), [`settler`](Self::settler) or both, [`ledger`](Self::ledger) and
/// [`sealing_keys`](Self::sealing_keys) are required.
/// [`build`](Self::build) refuses every setting that would sell wrongly.
///
/// ```
/// # #[cfg(feature = "test-util")]
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// use std::time::Duration;
/// use tower_x402::{Merchant, ledger::MemoryLedger, protocol::{Network, SealingKeys}};
/// # use tower_x402::{protocol::ChainTime, testing::ScriptedVerifier};
/// # let verifier = ScriptedVerifier::new(ChainTime::from_unix(1_795_280_000));
///
/// let merchant = Merchant::builder("0x70997970C51812dc3A010C7d01b50e0d17dc79C8".parse()?)
///     .network(Network::BASE_SEPOLIA)
///     .verifier(verifier)
///     .ledger(MemoryLedger::new())
///     .sealing_keys(SealingKeys::random()?)
///     .quote_ttl(Duration::from_secs(5 * 60))
///     .contact("billing@example.com")
///     .build()
///     .await?;
/// assert_eq!(merchant.network(), Network::BASE_SEPOLIA);
/// # Ok::<(), tower_x402::BuildError>(())
/// # }).unwrap();
/// ```
#[must_use]
pub struct MerchantBuilder {
    /// The merchant's first network.
    first: Chain,
    others: Vec<Chain>,
    recipients: Vec<Address>,
    realm: String,
    keys: Option<SealingKeys>,
    client_submitted: bool,
    x402_v1: bool,
    mpp: Option<Mpp>,
    payment_identifier: Option<PaymentIdentifier>,
    gas_sponsoring: bool,
    public_url: Option<String>,
    ledger: Option<Arc<dyn ErasedLedger>>,
    clock: Arc<dyn Clock>,
    quote_ttl: Duration,
    quote_grace: Duration,
    max_payment_age: Duration,
    max_hold: Duration,
    lease: Duration,
    contact: Option<String>,
    /// `None` is the default.
    hold_unbound: Option<Duration>,
    require_bound: bool,
    page: Option<PageHook>,
    lazily: bool,
}

impl Merchant {
    /// Returns a builder for a merchant that is paid at this address: on Base, in USDC, unless set otherwise.
    pub fn builder(recipient: Address) -> MerchantBuilder {
        MerchantBuilder::new(recipient)
    }
}

impl MerchantBuilder {
    fn new(recipient: Address) -> Self {
        Self {
            first: Chain::new(Network::BASE),
            others: Vec::new(),
            recipients: vec![recipient],
            realm: String::new(),
            keys: None,
            client_submitted: false,
            x402_v1: true,
            mpp: None,
            payment_identifier: None,
            gas_sponsoring: false,
            public_url: None,
            ledger: None,
            clock: Arc::new(SystemClock),
            quote_ttl: Duration::from_secs(15 * 60),
            quote_grace: Duration::from_secs(60),
            max_payment_age: DAY,
            max_hold: Duration::from_secs(10 * 60),
            lease: Duration::from_secs(60),
            contact: None,
            hold_unbound: None,
            require_bound: false,
            page: None,
            lazily: false,
        }
    }

    /// Sets the verifier of payments. Required, unless there is a [`settler`](Self::settler).
    ///
    /// Without a verifier, the merchant needs no node and takes no transfers: quotes have the header `PAYMENT-REQUIRED`
    /// only. The merchant then trusts the settler's reports, of settlements as well as refusals. While the settler does
    /// not know an outcome, the payer gets `outcome_unknown`.
    pub fn verifier(mut self, verifier: impl Verifier) -> Self {
        self.first = self.first.verifier(verifier);
        self
    }

    /// Sets the settler of signed payments. Quotes then have the standard's header `PAYMENT-REQUIRED` as well. Clients of x402 version 2
    /// can pay by `PAYMENT-SIGNATURE`, those of version 1 by `X-PAYMENT`.
    ///
    /// The settler checks a payment before the handler runs, and settles it once the answer is there. If there is a
    /// [`verifier`](Self::verifier), it judges the settler's reports.
    pub fn settler(mut self, settler: impl Settler) -> Self {
        self.first = self.first.settler(settler);
        self
    }

    /// Sets the settler of Permit2 permits. Routes that charge [up to](Merchant::charge_up_to) an amount can then be paid by the scheme
    /// `upto` of the x402 standard, and tokens without EIP-3009 by `exact`. It needs a [`verifier`](Self::verifier): only the chain tells
    /// what settled a permit.
    ///
    /// [`settler`](Self::settler) is for signed authorizations (EIP-3009). A `WalletSettler` or a `FacilitatorSettler` is both: give a
    /// clone to each.
    pub fn permit_settler(mut self, settler: impl PermitSettler) -> Self {
        self.first = self.first.permit_settler(settler);
        self
    }

    /// Sets the settler of payment channels. Every route can then be paid by the scheme `batch-settlement` of the x402 standard, with a
    /// signature for each answer. It needs a [`verifier`](Self::verifier) that checks signatures, and a ledger with accounts, such as those
    /// of this crate.
    ///
    /// [`Merchant::claimer`] claims what is sold, and has to run. A voucher names its seller only by recipient and receiver authorizer:
    /// sellers with separate ledgers need separate receiver authorizers.
    pub fn channel_settler(mut self, settler: impl ChannelSettler) -> Self {
        self.first = self.first.channel_settler(settler);
        self
    }

    /// Sets the terms for channels, and when they are claimed.
    pub fn channel_policy(mut self, policy: ChannelPolicy) -> Self {
        self.first = self.first.channel_policy(policy);
        self
    }

    /// Accepts an EIP-2612 allowance for Permit2, which a payer without gas signs along with its permit. This is the extension
    /// `eip2612GasSponsoring`, which quotes with permits then declare. Off by default: the Python client of x402 fails at quotes that
    /// declare extensions, unless it is installed as `x402[extensions]`.
    pub const fn sponsor_allowances(mut self) -> Self {
        self.gas_sponsoring = true;
        self
    }

    /// Accepts transfers in the standard's header as well: the client-submitted family of x402 version 2, method `txid`. Off by default: a
    /// payment is then redeemed there only by its payer's signature, such as a signed payment that was settled and bought nothing.
    ///
    /// Quotes then have an entry for each token in `PAYMENT-REQUIRED`, after those for signed payments, and a client shows its transfer in
    /// `PAYMENT-SIGNATURE`. Such a transfer must be [bound](crate::protocol::Binding) to the quote, or its payer must sign, regardless of
    /// [`hold_unbound`](Self::hold_unbound). See the guide [`payment_proof`](crate::guide::payment_proof). It needs a
    /// [`verifier`](Self::verifier).
    pub const fn accept_submitted_transfers(mut self) -> Self {
        self.client_submitted = true;
        self
    }

    /// Sets whether quotes also ask for signed payments in the format of x402 version 1, in their body; on by default. It needs a
    /// [`settler`](Self::settler), and a network that has a name in version 1. A payment in `X-PAYMENT` is read in any case.
    pub const fn x402_v1(mut self, x402_v1: bool) -> Self {
        self.x402_v1 = x402_v1;
        self
    }

    /// Also asks for payments in the format of MPP, in `WWW-Authenticate: Payment`, and accepts them in `Authorization: Payment`: method
    /// `evm`, intent `charge`. Off by default. The argument is the realm, or [`Mpp`] settings.
    ///
    /// Signed payments need a [`settler`](Self::settler), and hashes of transfers a [`verifier`](Self::verifier). See the guide
    /// [`standard`](crate::guide::standard). Other schemes of `Authorization` are the service's own.
    pub fn mpp(mut self, mpp: impl Into<Mpp>) -> Self {
        self.mpp = Some(mpp.into());
        self
    }

    /// Lets a client name its purchase, and charges each purchase once, even if the client signs it again. The name is in the x402
    /// extension `payment-identifier`, which `PAYMENT-REQUIRED` then declares, or in the header `Idempotency-Key` beside a credential of
    /// MPP. Off by default: both are then ignored.
    ///
    /// The name has 16 to 128 characters of `[A-Za-z0-9_-]`; any other gets 400 `invalid_redemption`. It is reserved together with intent
    /// and payment. While a first payment for it is undecided, a second one gets 409 `redemption_in_progress`. Once the first bought the
    /// answer, the second gets 409 `payment_id_conflict` and is not settled. The name is remembered as long as the sale, at least the
    /// [`max_payment_age`](Self::max_payment_age). See the guide [`standard`](crate::guide::standard).
    ///
    /// The name must be hard to guess. A stranger who knows it gets no answer by it, but could use it up by a purchase of
    /// its own on the same resource.
    pub const fn payment_identifier(mut self, payment_identifier: PaymentIdentifier) -> Self {
        self.payment_identifier = Some(payment_identifier);
        self
    }

    /// Sets the URL under which clients reach the service, such as `https://shop.example/api`: the resource in the
    /// standard's quote is this URL with the request's path. The default is the host that the client names.
    pub fn public_url(mut self, url: impl Into<String>) -> Self {
        self.public_url = Some(url.into());
        self
    }

    /// Sets the ledger of sales. Required.
    ///
    /// One recipient on one network must have exactly one ledger, however many merchants and processes there are: share it among
    /// them, and give them all the same [`max_payment_age`](Self::max_payment_age). With two ledgers one payment buys twice.
    pub fn ledger(mut self, ledger: impl Ledger) -> Self {
        self.ledger = Some(Arc::new(ledger));
        self
    }

    /// Sets the keys with which quotes are sealed. Required, and the same for all replicas.
    pub fn sealing_keys(mut self, keys: SealingKeys) -> Self {
        self.keys = Some(keys);
        self
    }

    /// Sets the network; [`Network::BASE`] by default.
    pub fn network(mut self, network: Network) -> Self {
        self.first.network = network;
        self
    }

    /// Adds another network on which the merchant sells. Networks added here come after the first one, in their order.
    ///
    /// [`network`](Self::network), [`verifier`](Self::verifier), [`settler`](Self::settler), [`asset`](Self::asset) and
    /// [`former_asset`](Self::former_asset) of the builder apply to the first network only. All other settings apply to all networks: the
    /// recipients are paid at the same addresses, and prices are the same, in the first network's first token.
    ///
    /// The header `Pay` names the first network; `PAYMENT-REQUIRED` names all that headers have room for. A quote may be paid on any of
    /// them, and buys one answer. A node that does not answer stops only its own network.
    ///
    /// ```
    /// # #[cfg(feature = "test-util")]
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// use tower_x402::{Chain, Merchant, ledger::MemoryLedger, protocol::{Network, SealingKeys}};
    /// # use tower_x402::{protocol::ChainTime, testing::ScriptedVerifier};
    /// # let now = ChainTime::from_unix(1_795_280_000);
    /// # let (base, sepolia) = (ScriptedVerifier::new(now), ScriptedVerifier::on(Network::BASE_SEPOLIA, now));
    ///
    /// let merchant = Merchant::builder("0x70997970C51812dc3A010C7d01b50e0d17dc79C8".parse()?)
    ///     .verifier(base)
    ///     .chain(Chain::new(Network::BASE_SEPOLIA).verifier(sepolia))
    ///     .ledger(MemoryLedger::new())
    ///     .sealing_keys(SealingKeys::random()?)
    ///     .build()
    ///     .await?;
    /// assert!(merchant.networks().eq([Network::BASE, Network::BASE_SEPOLIA]));
    /// # Ok::<(), tower_x402::BuildError>(())
    /// # }).unwrap();
    /// ```
    pub fn chain(mut self, chain: Chain) -> Self {
        self.others.push(chain);
        self
    }

    /// Adds an accepted token. The first one is the currency of prices. If none is added, that is the network's USDC.
    pub fn asset(mut self, asset: Asset) -> Self {
        self.first = self.first.asset(asset);
        self
    }

    /// Adds a token that quotes no longer name, but in which payments still count.
    pub fn former_asset(mut self, asset: Asset) -> Self {
        self.first = self.first.former_asset(asset);
        self
    }

    /// Adds a former recipient. Its open quotes are still honoured: payments to it count for them. A signed payment without a quote counts
    /// for the present recipient only.
    ///
    /// Name an address only while its key is safe. The thief of a leaked key gets all payments to its address,
    /// including those for open quotes.
    pub fn former_recipient(mut self, recipient: Address) -> Self {
        self.recipients.push(recipient);
        self
    }

    /// Sets a realm, which separates merchants that share their sealing keys: none honours the quotes of another.
    pub fn realm(mut self, realm: impl Into<String>) -> Self {
        self.realm = realm.into();
        self
    }

    /// Sets how long a quote can be paid; 15 minutes by default, 1 second to 30 days.
    pub fn quote_ttl(mut self, ttl: Duration) -> Self {
        self.quote_ttl = ttl;
        self
    }

    /// Sets how long after a quote's expiry its payment may still be mined; 1 minute by default, at most a day.
    pub fn quote_grace(mut self, grace: Duration) -> Self {
        self.quote_grace = grace;
        self
    }

    /// Sets how old a payment may be, in chain time, when it is redeemed; 24 hours by default, 1 second to a year.
    ///
    /// The ledger must remember sales for that long. Signed payments must be over by then, so clients are asked to sign for at least half a
    /// minute less: with a settler this must be 40 seconds or more.
    pub fn max_payment_age(mut self, age: Duration) -> Self {
        self.max_payment_age = age;
        self
    }

    /// Sets how long a handler may take for a paid answer; 10 minutes by default, 1 second to a day.
    ///
    /// Signed payments are settled when the handler is done. Clients are asked to make them valid for two minutes longer than this, at
    /// most for as long as a [quote can be paid](Self::quote_ttl), and half a minute less than [payments count](Self::max_payment_age).
    pub fn max_hold(mut self, hold: Duration) -> Self {
        self.max_hold = hold;
        self
    }

    /// Sets how long a reservation outlives a crash of the process that holds it; 60 seconds by default, 1 second to an hour.
    ///
    /// A reservation that is held is renewed every third of this.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// Sets the seller's contact, which late payers receive.
    pub fn contact(mut self, contact: impl Into<String>) -> Self {
        self.contact = Some(contact.into());
        self
    }

    /// Sets how much chain time must pass after an unbound payment before it can be redeemed without its payer's signature; 5 seconds by
    /// default, and at most an hour and half of [`max_payment_age`](Self::max_payment_age). Fractions of a second are rounded up.
    ///
    /// A transaction's hash is public. The first request redeems an unbound payment
    /// ([`Binding`](crate::protocol::Binding)), and the hold gives its payer time to sign first. [`Duration::ZERO`]
    /// turns the hold off.
    pub const fn hold_unbound(mut self, hold: Duration) -> Self {
        self.hold_unbound = Some(hold);
        self
    }

    /// Refuses to redeem unbound payments without their payer's signature, with 403 `payer_proof_required`.
    ///
    /// Only the payer can then redeem a payment. This excludes payers who can neither tag a transfer nor sign a
    /// message, such as customers of an exchange.
    pub const fn require_bound(mut self) -> Self {
        self.require_bound = true;
        self
    }

    /// Sets the page that browsers get instead of a quote's JSON, for all routes that have no
    /// [page of their own](crate::X402Layer::quote_page). By default there is none.
    ///
    /// It applies to the layers made after this call, and to redeeming by form, as described there.
    pub fn quote_page(mut self, page: impl QuotePage) -> Self {
        self.page = Some(PageHook::new(page));
        self
    }

    /// Sets the clock that dates quotes, for tests.
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Lets [`build`](Self::build) succeed while the chain or the ledger does not answer, so that free requests are served.
    ///
    /// Until the chain id and the decimals are verified and the ledger has begun, priced routes answer every request with 503,
    /// `verification_unavailable` or `ledger_unavailable`: nothing is quoted and nothing is sold. The next priced request, or
    /// [`Merchant::health`], tries again, at most once a second. An answer that contradicts the settings (another chain, other
    /// decimals) is an error of `build` all the same, and of `health` if it comes later.
    ///
    /// The verifier must be built without the chain, too: see
    #[cfg_attr(feature = "evm", doc = "[`connect_lazily`](crate::verify::EvmVerifierBuilder::connect_lazily).")]
    #[cfg_attr(not(feature = "evm"), doc = "`connect_lazily` of the `evm` feature.")]
    pub fn start_lazily(mut self) -> Self {
        self.lazily = true;
        self
    }

    /// Checks the settings, verifies the chain's id and the tokens' decimals, and lets the ledger begin.
    ///
    /// A new or emptied ledger begins in the present, so that it cannot sell an earlier payment again. To accept all
    /// payments for its own quotes, the merchant waits until the chain has reached that time: a block or two, at most
    /// half a minute.
    ///
    /// # Errors
    /// [`BuildError`] names the setting that would sell wrongly, or the [backend](BuildError::Health) that does not answer.
    pub async fn build(self) -> Result<Merchant, BuildError> {
        metrics::describe();
        let ledger = self.ledger.clone().ok_or(BuildError::NoLedger)?;
        let keys = self.keys.clone().ok_or(BuildError::NoSealingKeys)?;
        let lazily = self.lazily;
        let inner = self.check(ledger, keys)?;
        for chain in inner.chains.iter() {
            let started = match lazily {
                true => chain.started().await,
                false => chain.start.open().await,
            };
            let ready = match started {
                Ok(()) => chain.learn_tokens().await,
                failed => failed,
            };
            match ready {
                Err(error) if !(lazily && error.is_transient()) => {
                    return Err(inner.of_network(chain.network, error).into());
                }
                _ => {}
            }
        }
        Ok(Merchant { inner: Arc::new(inner) })
    }

    fn check(self, ledger: Arc<dyn ErasedLedger>, keys: SealingKeys) -> Result<MerchantInner, BuildError> {
        let backends = (&ledger, &self.clock, self.lease);
        let first = self.first.check(&self.recipients, self.client_submitted, backends)?;
        let decimals = first.assets.first().map_or(0, Asset::decimals);
        let mut others: Vec<SellingChain> = Vec::new();
        for chain in self.others {
            let chain = chain.check(&self.recipients, self.client_submitted, backends)?;
            let network = chain.network;
            if std::iter::once(&first).chain(&others).any(|known| known.network == network) {
                return Err(BuildError::NetworkTwice { network });
            }
            if let Some(other) = chain.assets.iter().find(|asset| asset.decimals() != decimals) {
                let (contract, found) = (other.contract(), other.decimals());
                return Err(BuildError::MixedDecimals { contract, expected: decimals, found });
            }
            others.push(chain);
        }
        if !self.realm.is_empty() {
            text::check("a realm", &self.realm)?;
        }
        if let Some(mpp) = &self.mpp {
            mpp.check()?;
        }
        if let Some(contact) = &self.contact {
            text::check("a contact", contact)?;
        }
        let second = Duration::from_secs(1);
        check_duration("quote_ttl", self.quote_ttl, second, 30 * DAY)?;
        check_duration("quote_grace", self.quote_grace, Duration::ZERO, DAY)?;
        check_duration("max_payment_age", self.max_payment_age, second, 365 * DAY)?;
        check_duration("max_hold", self.max_hold, second, DAY)?;
        check_duration("lease", self.lease, second, LONGEST_LEASE)?;
        // In whole seconds. A hold that outlives a payment would make it worthless.
        let longest_hold = Duration::from_secs((self.max_payment_age.as_secs() / 2).min(60 * 60));
        let hold = self.hold_unbound.unwrap_or(HOLD_UNBOUND.min(longest_hold));
        check_duration("hold_unbound", hold, Duration::ZERO, longest_hold)?;
        if let Some(url) = &self.public_url {
            check_url(url)?;
        }
        let inner = MerchantInner {
            chains: Chains::new(first, others),
            recipients: self.recipients,
            realm: self.realm,
            keys,
            client_submitted: self.client_submitted,
            x402_v1: self.x402_v1,
            mpp: self.mpp,
            payment_identifier: self.payment_identifier,
            gas_sponsoring: self.gas_sponsoring,
            public_url: self.public_url,
            ledger,
            clock: self.clock,
            quote_ttl: self.quote_ttl,
            quote_grace: self.quote_grace,
            max_payment_age: self.max_payment_age,
            max_hold: self.max_hold,
            lease: self.lease,
            contact: self.contact,
            unbound: UnboundPolicy { hold: whole_seconds(hold), refuse: self.require_bound },
            page: self.page,
            catalog: Catalog::default(),
            attempts: Arc::default(),
        };
        check_timeout(&inner)?;
        Ok(inner)
    }
}

/// Prints no keys and no backends, and so no secrets.
impl fmt::Debug for MerchantBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MerchantBuilder")
            .field("first", &self.first)
            .field("others", &self.others)
            .field("recipients", &self.recipients)
            .finish_non_exhaustive()
    }
}

fn check_url(url: &str) -> Result<(), BuildError> {
    let plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\' | b'?' | b'#');
    let is_http =
        ["https://", "http://"].iter().any(|scheme| url.strip_prefix(scheme).is_some_and(|rest| !rest.is_empty()));
    let fits = is_http && url.len() <= 200 && url.bytes().all(plain);
    fits.then_some(()).ok_or(BuildError::OutOfRange { what: "public_url" })
}

/// Rounds up. Chain time has no fractions of a second, so rounding down could turn a hold off.
fn whole_seconds(span: Duration) -> Duration {
    Duration::from_secs(span.as_secs() + u64::from(span.subsec_nanos() > 0))
}

fn check_duration(what: &'static str, span: Duration, min: Duration, max: Duration) -> Result<(), BuildError> {
    if (min..=max).contains(&span) { Ok(()) } else { Err(BuildError::InvalidDuration { what, min, max }) }
}
