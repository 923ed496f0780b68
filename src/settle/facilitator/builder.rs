//! `FacilitatorSettlerBuilder`: the settings of a [`FacilitatorSettler`].

use std::{error::Error, fmt, future::Future, time::Duration};

use http::HeaderMap;

#[cfg(feature = "wallet")]
use super::keeper::{ChannelSettings, Keeper};
use super::{
    call::{Authorizer, FacilitatorCall},
    endpoint::Endpoint,
    settler::{FacilitatorSettler, Inner, Limits},
    transport::Transport,
};
use crate::{
    protocol::TokenDomain,
    settle::{SettleError, SettleErrorKind},
};

/// The upper limit of the verification time limit: the layer waits little longer.
const VERIFY_MAX: Duration = Duration::from_secs(60);
/// The upper limit of the other time limits.
const LIMIT_MAX: Duration = Duration::from_secs(3_600);

/// Configures a [`FacilitatorSettler`].
///
/// ```
/// use http::{HeaderMap, HeaderValue, header::AUTHORIZATION};
/// use tower_x402::settle::{FacilitatorCall, FacilitatorSettler};
///
/// /// A token for this request alone. (Its signature is left out.)
/// async fn token_for(call: FacilitatorCall) -> Result<HeaderMap, http::Error> {
///     let token = format!("Bearer {} {}{}", call.method(), call.host, call.path);
///     Ok(HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::try_from(token)?)]))
/// }
///
/// let settler = FacilitatorSettler::builder()
///     .url("https://facilitator.example/x402")
///     .url("https://another.example")
///     .authorize(token_for)
///     .build()?;
/// assert_eq!(format!("{settler:?}"), "FacilitatorSettler { facilitators: 2, .. }");
/// # Ok::<(), tower_x402::settle::SettleError>(())
/// ```
#[derive(Clone)]
#[must_use]
pub struct FacilitatorSettlerBuilder {
    urls: Vec<String>,
    authorizer: Option<Authorizer>,
    domains: Vec<TokenDomain>,
    limits: Limits,
    #[cfg(feature = "wallet")]
    channels: Option<ChannelSettings>,
}

impl FacilitatorSettler {
    /// Returns a builder with the default settings.
    pub fn builder() -> FacilitatorSettlerBuilder {
        FacilitatorSettlerBuilder::new()
    }
}

/// Omits the URLs, because they may hold keys.
impl fmt::Debug for FacilitatorSettlerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FacilitatorSettlerBuilder")
            .field("facilitators", &self.urls.len())
            .field("domains", &self.domains)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

impl FacilitatorSettlerBuilder {
    fn new() -> Self {
        Self {
            urls: Vec::new(),
            authorizer: None,
            domains: Vec::new(),
            limits: Limits::default(),
            #[cfg(feature = "wallet")]
            channels: None,
        }
    }

    /// Adds a facilitator by its base URL, below which are `/verify`, `/settle` and `/supported`. It must be `https`,
    /// or `http` on loopback.
    ///
    /// With several facilitators, the first is asked first. The next one is asked if that one cannot be reached, but
    /// never after one may have been told to settle.
    pub fn url(mut self, url: impl Into<String>) -> Self {
        self.urls.push(url.into());
        self
    }

    /// Sets the function that makes the authorization headers of a request. It is called for each request, within its
    /// time limit.
    ///
    /// If it fails, the request is not sent, as if the facilitator could not be reached. Its error is dropped, so log
    /// it in the function.
    pub fn authorize<F, Fut, E>(mut self, headers: F) -> Self
    where
        F: Fn(FacilitatorCall) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<HeaderMap, E>> + Send + 'static,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        self.authorizer = Some(Authorizer::new(headers));
        self
    }

    /// Sets the EIP-712 domain of a token, for a seller without a verifier that reads it from the chain. The domains of
    /// USDC on Base and Base Sepolia are built in.
    pub fn domain(mut self, domain: TokenDomain) -> Self {
        self.domains.push(domain);
        self
    }

    /// Sets the time limit of a verification, for all facilitators together: each gets an equal share of the remaining
    /// time. Default: 10 s. At most 60 s, the limit of the layer.
    pub const fn verify_timeout(mut self, limit: Duration) -> Self {
        self.limits.verify = limit;
        self
    }

    /// Sets the time limit of settling a payment, after which its outcome is unknown. Default: 90 s.
    pub const fn settle_timeout(mut self, limit: Duration) -> Self {
        self.limits.settle = limit;
        self
    }

    /// Sets the time limit of one facilitator's answer to `/supported`. Default: 10 s.
    pub const fn supported_timeout(mut self, limit: Duration) -> Self {
        self.limits.supported = limit;
        self
    }

    /// Enables [payment channels](crate::settle::ChannelSettler) with these settings. They are off by default.
    #[cfg(feature = "wallet")]
    pub fn channels(mut self, settings: ChannelSettings) -> Self {
        self.channels = Some(settings);
        self
    }

    /// Builds the settler. Nothing is sent yet.
    ///
    /// # Errors
    /// Returns [`SettleErrorKind::InvalidEndpoint`] without a URL, or if one is neither `https` nor on loopback.
    /// Returns [`SettleErrorKind::InvalidSetting`] for a time limit of zero or of more than an hour, or for verifying
    /// of more than a minute. The settings of [`channels`](Self::channels) can fail in the same ways.
    pub fn build(self) -> Result<FacilitatorSettler, SettleError> {
        for (what, limit, most) in [
            ("verify_timeout", self.limits.verify, VERIFY_MAX),
            ("settle_timeout", self.limits.settle, LIMIT_MAX),
            ("supported_timeout", self.limits.supported, LIMIT_MAX),
        ] {
            if limit.is_zero() || limit > most {
                return Err(SettleError::new(SettleErrorKind::InvalidSetting { what }));
            }
        }
        let transport = |url: &String| Transport::new(url, self.authorizer.clone()).map(Endpoint::new);
        let endpoints: Option<Vec<_>> = self.urls.iter().map(transport).collect();
        match endpoints.filter(|endpoints| !endpoints.is_empty()) {
            Some(endpoints) => {
                let inner = Inner::new(endpoints, self.domains, self.limits);
                #[cfg(feature = "wallet")]
                let inner = inner.keeping(self.channels.map(Keeper::build).transpose()?);
                Ok(FacilitatorSettler::new(inner))
            }
            None => Err(SettleError::new(SettleErrorKind::InvalidEndpoint)),
        }
    }
}
