//! The domain of a token's authorizations, which facilitators do not report.

use crate::{
    protocol::{Address, Network, TokenDomain},
    settle::{SettleError, SettleErrorKind},
};

/// Returns the domain that the token states on the chain; else the configured one; else the built-in one of USDC.
pub(super) fn domain_of(
    configured: &[TokenDomain],
    network: Network,
    token: Address,
    stated: Option<&TokenDomain>,
) -> Result<Option<TokenDomain>, SettleError> {
    let configured = configured.iter().rev().find(|domain| domain.token == token);
    match (stated, configured) {
        (Some(stated), Some(configured)) if stated != configured => {
            Err(SettleError::new(SettleErrorKind::WrongDomain { token }))
        }
        (Some(domain), _) | (None, Some(domain)) => Ok(Some(domain.clone())),
        (None, None) => Ok(TokenDomain::usdc_of(network).filter(|domain| domain.token == token)),
    }
}
