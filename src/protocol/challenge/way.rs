//! `Way`: one way to pay, as the standard's quote names it.

use crate::protocol::{Address, Network, TokenDomain, ascii_json, channel::ChannelTerms, permit2::PermitScheme};

/// One way to pay a route: network, token, and what hangs on the way.
#[derive(Clone, Debug)]
pub(crate) struct Way {
    pub(super) scheme: &'static str,
    pub(super) network: Network,
    pub(super) token: Address,
    pub(super) timeout: u64,
    /// The members of `extra` in JSON, but for the intent.
    pub(super) extra: String,
    /// The token's domain, where the payer signs for it.
    pub(super) signed: Option<TokenDomain>,
    pub(super) by_permit: bool,
    pub(super) by_channel: bool,
}

impl Way {
    /// By a method of that name, which needs nothing else.
    #[cfg(all(test, feature = "test-util"))]
    pub(crate) fn by_method(network: Network, token: Address, timeout: u64, method: &str) -> Self {
        Self {
            scheme: EXACT,
            network,
            token,
            timeout,
            extra: format!(r#""assetTransferMethod":{}"#, ascii_json(method)),
            signed: None,
            by_permit: false,
            by_channel: false,
        }
    }

    /// By an authorization, which is settled for the payer. `timeout`: how long clients are asked to make it valid, in seconds.
    pub(crate) fn authorization(network: Network, token: &TokenDomain, timeout: u64) -> Self {
        let (name, version) = (ascii_json(&token.name), ascii_json(&token.version));
        let extra = format!(r#""name":{name},"version":{version}"#);
        Self {
            scheme: EXACT,
            network,
            token: token.token,
            timeout,
            extra,
            signed: Some(token.clone()),
            by_permit: false,
            by_channel: false,
        }
    }

    /// Whether it is a permit.
    pub(crate) const fn is_by_permit(&self) -> bool {
        self.by_permit
    }

    /// Whether it is an authorization of this token.
    pub(crate) fn is_signed_for(&self, network: Network, token: Address) -> bool {
        (self.network, self.token) == (network, token) && self.signed.is_some()
    }

    /// By a transfer that the payer sends and shows. It counts for `max_age` seconds.
    pub(crate) fn submitted_transfer(network: Network, token: Address, quote_life: u64, max_age: u64) -> Self {
        let extra = format!(
            r#""assetTransferMethod":"txid","paymentFlow":"upfront","binding":["tag","nonce","signature"],"maxProofAge":{max_age}"#
        );
        Self {
            scheme: EXACT,
            network,
            token,
            timeout: quote_life,
            extra,
            signed: None,
            by_permit: false,
            by_channel: false,
        }
    }

    /// By a voucher for a channel of these terms, whose deposits are EIP-3009 authorizations of this token.
    pub(crate) fn channel(network: Network, token: &TokenDomain, timeout: u64, terms: &ChannelTerms) -> Self {
        let (name, version) = (ascii_json(&token.name), ascii_json(&token.version));
        let extra = format!(r#"{},"name":{name},"version":{version}"#, asked_of_channels(terms));
        let (scheme, token) = (BATCH_SETTLEMENT, token.token);
        Self { scheme, network, token, timeout, extra, signed: None, by_permit: false, by_channel: true }
    }

    /// The same with deposits by Permit2. `domain`: name and version of the token's, where it has one.
    pub(crate) fn channel_by_permit2(
        network: Network,
        token: Address,
        timeout: u64,
        terms: &ChannelTerms,
        domain: Option<(&str, &str)>,
    ) -> Self {
        let (scheme, extra) = (BATCH_SETTLEMENT, format!("{},{}", asked_of_channels(terms), by_permit2(domain)));
        Self { scheme, network, token, timeout, extra, signed: None, by_permit: false, by_channel: true }
    }

    /// By a permit of the whole amount, which is settled for the payer. `domain`: name and version of the token's, where it has one.
    pub(crate) fn permit(network: Network, token: Address, timeout: u64, domain: Option<(&str, &str)>) -> Self {
        let (scheme, extra) = (PermitScheme::Exact.name(), by_permit2(domain));
        Self { scheme, network, token, timeout, extra, signed: None, by_permit: true, by_channel: false }
    }

    /// The same of a permit up to the amount, which this account settles.
    pub(crate) fn up_to(
        network: Network,
        token: Address,
        timeout: u64,
        facilitator: Address,
        domain: Option<(&str, &str)>,
    ) -> Self {
        let extra = format!(r#"{},"facilitatorAddress":"{facilitator}""#, by_permit2(domain));
        let scheme = PermitScheme::UpTo.name();
        Self { scheme, network, token, timeout, extra, signed: None, by_permit: true, by_channel: false }
    }
}

/// The scheme of channels.
const BATCH_SETTLEMENT: &str = "batch-settlement";

/// The scheme of most ways.
const EXACT: &str = PermitScheme::Exact.name();

/// The members of `extra` for the terms of channels.
fn asked_of_channels(terms: &ChannelTerms) -> String {
    let ChannelTerms { receiver_authorizer, withdraw_delay, min_deposit } = terms;
    let least = min_deposit.map(|least| format!(r#","minDeposit":"{least}""#)).unwrap_or_default();
    format!(r#""receiverAuthorizer":"{receiver_authorizer}","withdrawDelay":{withdraw_delay}{least}"#)
}

/// The members of `extra` for a permit. Clients sign an allowance by the domain.
fn by_permit2(domain: Option<(&str, &str)>) -> String {
    let method = r#""assetTransferMethod":"permit2""#;
    match domain {
        Some((name, version)) => {
            format!(r#"{method},"name":{},"version":{}"#, ascii_json(name), ascii_json(version))
        }
        None => method.to_owned(),
    }
}
