//! Entry points of the benchmarks (feature `bench-internals`). Not part of the public API: they change without notice.

use alloy::{primitives::B256, signers::local::PrivateKeySigner};
use futures_util::FutureExt as _;

use super::authorization;
use crate::{
    client::{AuthorizationRequest, PurchaseId},
    evm::{
        eip3009,
        wallet::{account::Account, nodes::Nodes},
    },
    protocol::{Address, Amount, ChainTime, Network, TokenDomain, v2::SignedAuthorization},
};

const NETWORK: Network = Network::BASE;
const NOW: ChainTime = ChainTime::from_unix(1_795_280_000);

fn request() -> Option<AuthorizationRequest> {
    let (domain, recipient) = (TokenDomain::usdc_of(NETWORK)?, Address::new([0x5a; 20]));
    let (purchase, amount) = (PurchaseId::new([1; 16]), Amount::from_base_units(490_000));
    Some(AuthorizationRequest::new(purchase, NETWORK, domain, recipient, amount, NOW))
}

/// Returns a function that signs an authorization like the wallet once it knows the chain's time. It returns `None` if
/// the key does not sign.
pub fn signing(key: PrivateKeySigner) -> impl Fn() -> Option<SignedAuthorization> {
    let account = Account::new(Nodes::new(Vec::new(), NETWORK.chain_id()), Box::new(key));
    let request = request();
    // A key in memory signs without waiting.
    move || authorization::sign(&account, request.as_ref()?, Some(NOW)).now_or_never()?.ok()
}

/// Returns the digest of the signed message.
#[must_use]
pub fn digest(payer: Address) -> Option<B256> {
    let request = request()?;
    Some(eip3009::digest(&request.authorization(payer, Some(NOW)), &request.domain, NETWORK))
}
