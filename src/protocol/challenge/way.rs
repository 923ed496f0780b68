//! `Way`: one way to pay, in the form of the standard's quote.

use crate::protocol::{Address, Network, TokenDomain, ascii_json, channel::ChannelTerms, permit2::PermitScheme};

/// One way to pay for a route: network, token, and what the way needs besides.
#[derive(Clone, Debug)]
pub(crate) struct Way {
    pub(super) scheme: &'static str,
    pub(super) network: Network,
    pub(super) token: Address,
    pub(super) timeout: u64,
    /// The JSON members of `extra`, without the intent.
    pub(super) extra: String,
    /// The token's domain, if the payer signs an authorization.
    pub(super) signed: Option<TokenDomain>,
    pub(super) by_permit: bool,
    pub(super) by_channel: bool,
}

impl Way {
    /// Returns a way with this transfer method and no other members.
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

    /// Returns payment by an authorization that is settled for the payer. `timeout`: how many seconds clients should
    /// make it valid.
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

    /// Returns whether it is paid by a permit.
    pub(crate) const fn is_by_permit(&self) -> bool {
        self.by_permit
    }

    /// Returns whether it is paid by an authorization of this token.
    pub(crate) fn is_signed_for(&self, network: Network, token: Address) -> bool {
        (self.network, self.token) == (network, token) && self.signed.is_some()
    }

    /// Returns payment by a transfer that the payer sends and shows. The transfer counts for `max_age` seconds.
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

    /// Returns payment by a voucher for a channel of these terms, whose deposits are EIP-3009 authorizations of this
    /// token.
    pub(crate) fn channel(network: Network, token: &TokenDomain, timeout: u64, terms: &ChannelTerms) -> Self {
        let (name, version) = (ascii_json(&token.name), ascii_json(&token.version));
        let extra = format!(r#"{},"name":{name},"version":{version}"#, asked_of_channels(terms));
        let (scheme, token) = (BATCH_SETTLEMENT, token.token);
        Self { scheme, network, token, timeout, extra, signed: None, by_permit: false, by_channel: true }
    }

    /// Returns the same with deposits by Permit2. `domain`: name and version of the token's domain, if it has one.
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

    /// Returns payment by a permit of the whole amount, settled for the payer. `domain`: name and version of the
    /// token's domain, if it has one.
    pub(crate) fn permit(network: Network, token: Address, timeout: u64, domain: Option<(&str, &str)>) -> Self {
        let (scheme, extra) = (PermitScheme::Exact.name(), by_permit2(domain));
        Self { scheme, network, token, timeout, extra, signed: None, by_permit: true, by_channel: false }
    }

    /// Returns payment by a permit of up to the amount, which only `facilitator` can settle.
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

/// Returns the members of `extra` for the terms of channels.
fn asked_of_channels(terms: &ChannelTerms) -> String {
    let ChannelTerms { receiver_authorizer, withdraw_delay, min_deposit } = terms;
    let least = min_deposit.map(|least| format!(r#","minDeposit":"{least}""#)).unwrap_or_default();
    format!(r#""receiverAuthorizer":"{receiver_authorizer}","withdrawDelay":{withdraw_delay}{least}"#)
}

/// Returns the members of `extra` for a permit. Clients sign an EIP-2612 allowance for this domain.
fn by_permit2(domain: Option<(&str, &str)>) -> String {
    let method = r#""assetTransferMethod":"permit2""#;
    match domain {
        Some((name, version)) => {
            format!(r#"{method},"name":{},"version":{}"#, ascii_json(name), ascii_json(version))
        }
        None => method.to_owned(),
    }
}
