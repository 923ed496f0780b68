//! The domain of a token's authorizations (EIP-3009), as its contract states it.

use futures_util::future::try_join4;

use super::{
    account::Account,
    node::{Call, Failure},
};
use crate::{
    evm::eip3009,
    protocol::{Address, TokenDomain},
};

/// The gas limit of each of these calls.
const GAS: u64 = 300_000;

/// Returns the domain; `None` if the token has no authorizations, or if its domain has other parts than name, version,
/// chain and address.
pub(crate) async fn token_domain(account: &Account, token: Address) -> Result<Option<TokenDomain>, Failure> {
    let state = eip3009::authorization_state(account.address, &[0; 32]);
    let (name, version, separator, state) = try_join4(
        stated(account, token, eip3009::name(), eip3009::read_text),
        stated(account, token, eip3009::version(), eip3009::read_text),
        stated(account, token, eip3009::domain_separator_call(), eip3009::read_word),
        stated(account, token, state, eip3009::read_flag),
    )
    .await?;
    let (Some(name), Some(version), Some(separator), Some(_)) = (name, version, separator, state) else {
        return Ok(None);
    };
    let domain = TokenDomain::new(token, name, version);
    if eip3009::domain_separator(&domain, account.network) != separator {
        tracing::warn!(%token, "a token's domain separator is not made of its name and version; its authorizations are not used");
        return Ok(None);
    }
    Ok(Some(domain))
}

/// Returns the parsed result of a contract's function, if it has the expected type.
async fn stated<T>(
    account: &Account,
    token: Address,
    data: Vec<u8>,
    read: impl Fn(&[u8]) -> Option<T>,
) -> Result<Option<T>, Failure> {
    let call = Call { from: account.address, to: token, data: &data, gas: GAS, fees: None };
    let returned = account.nodes.first(|node| node.run(&call, "latest")).await?;
    Ok(returned.ok().and_then(|returned| read(&returned)))
}
