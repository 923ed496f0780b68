//! Signs authorizations (EIP-3009): chooses the token and the end of validity.

use std::{sync::PoisonError, time::Duration};

use alloy::primitives::B256;

use super::{
    account::Account,
    prepare::{balance, has_decimals},
};
use crate::{
    client::{AuthorizationRequest, PayerError, PreparedAuthorization},
    evm::{
        eip3009,
        wallet::{
            account,
            median::lower_median,
            node::{Failure, Node},
            nodes::Nodes,
            token_domain::token_domain,
        },
    },
    protocol::{Address, Amount, Asset, ChainTime, PaymentSignature, TokenDomain, v2::SignedAuthorization},
};

/// The time limit for asking nodes for the chain's time. An authorization can be signed without it.
const TIME_LIMIT: Duration = Duration::from_secs(2);

/// How far ahead of this machine's clock the chain's time is believed: as far as a network-synchronized clock may be
/// slow. A signature can outlive the seller's request by that much.
const AHEAD_MAX: Duration = Duration::from_secs(5 * 60);

const UNSIGNED: PayerError = PayerError::Refused("the key would not sign the authorization");

/// Returns the domain under which this amount of an asset can be authorized.
pub(super) async fn authorizes(
    account: &Account,
    asset: &Asset,
    amount: Amount,
) -> Result<Option<TokenDomain>, PayerError> {
    let token = asset.contract();
    if asset.network() != account.key.network || !has_decimals(account, asset).await? {
        return Ok(None);
    }
    let Some(domain) = domain(account, token).await? else { return Ok(None) };
    Ok((balance(account, token).await? >= amount).then_some(domain))
}

/// Returns a token's domain, built in or as its contract states it. A missing domain is not cached, because a node may
/// err.
pub(super) async fn domain(account: &Account, token: Address) -> Result<Option<TokenDomain>, Failure> {
    if let Some(usdc) = TokenDomain::usdc_of(account.key.network).filter(|usdc| usdc.token == token) {
        return Ok(Some(usdc));
    }
    let known = || account.domains.lock().unwrap_or_else(PoisonError::into_inner);
    let cached = known().get(&token).cloned();
    if cached.is_some() {
        return Ok(cached);
    }
    let stated = token_domain(&account.key, token).await?;
    known().extend(stated.clone().map(|domain| (token, domain)));
    Ok(stated)
}

/// Signs the request. It does not need the wallet's turn, because an authorization has its own nonce.
pub(super) async fn authorize(
    account: &account::Account,
    request: &AuthorizationRequest,
) -> Result<SignedAuthorization, PayerError> {
    if request.network != account.network {
        return Err(PayerError::WrongNetwork(request.network));
    }
    sign(account, request, believed_time(account, request.now).await).await
}

/// Returns the chain's time, unless it is minutes ahead of this machine's clock.
pub(super) async fn believed_time(account: &account::Account, now: ChainTime) -> Option<ChainTime> {
    let chain_time = chain_time(&account.nodes).await;
    let believed = chain_time.filter(|time| *time <= now.after(AHEAD_MAX));
    if chain_time != believed {
        tracing::warn!(
            "the nodes' newest block is minutes ahead of this machine's clock, which is signed by: check the clock"
        );
    }
    believed
}

/// Returns the newest block's time. It is the lower median of the nodes, so a single node that is ahead does not
/// decide.
async fn chain_time(nodes: &Nodes) -> Option<ChainTime> {
    let ask = |node| Node::head(node);
    let heads = nodes.most(TIME_LIMIT, &ask).await.ok()?;
    lower_median(heads.into_iter().map(|head| head.time))
}

/// Signs the request, given the chain's time.
pub(super) async fn sign(
    account: &account::Account,
    request: &AuthorizationRequest,
    chain_time: Option<ChainTime>,
) -> Result<SignedAuthorization, PayerError> {
    let authorization = request.authorization(account.address, chain_time);
    let signature = signed(account, eip3009::digest(&authorization, &request.domain, account.network)).await?;
    Ok(SignedAuthorization::new(authorization, signature))
}

/// Signs a digest in the form that tokens accept: 65 bytes, with a low `s` and a `v` of 27 or 28.
pub(super) async fn signed(account: &account::Account, digest: B256) -> Result<PaymentSignature, PayerError> {
    let signature = account.signer.sign_hash(&digest).await.map_err(|_| UNSIGNED)?;
    PaymentSignature::new(signature.normalized_s().as_bytes()).map_err(|_| UNSIGNED)
}

/// Returns the earlier authorization of a payment, if this account signed it for this chain.
///
/// The signature covers the chain: the state of the same nonce on another chain must not decide.
pub(super) async fn ours<'a>(
    account: &Account,
    prepared: &'a PreparedAuthorization,
) -> Result<(&'a SignedAuthorization, TokenDomain), PayerError> {
    let account::Account { address, network, .. } = account.key;
    let signed = Some(&prepared.signed).filter(|signed| signed.authorization.from == address);
    let signed = signed.ok_or(PayerError::Foreign)?;
    let domain = domain(account, prepared.token).await.map_err(|_| UNKNOWN_DOMAIN)?.ok_or(PayerError::Foreign)?;
    let is_signed = eip3009::signer(signed, &domain, network) == Some(address);
    if is_signed { Ok((signed, domain)) } else { Err(PayerError::Foreign) }
}

const UNKNOWN_DOMAIN: PayerError =
    PayerError::Unavailable("no node says under which name the token's authorizations are signed");

#[cfg(test)]
mod tests {
    use alloy::{
        primitives::Signature,
        signers::{SignerSync as _, local::PrivateKeySigner},
    };

    use super::*;
    use crate::{
        client::PurchaseId,
        protocol::{Network, PaymentTag},
    };

    /// The private key of anvil's second default account.
    const KEY: &str = "59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d";
    /// The signature that official clients make with it.
    const SIGNATURE: &str = "0x00a85e971266610be8a13b6aac294f29cd7461c1ae62fbc22f974c43b4ab2b1128016c5fd66fc9073ff0bf79f558194eaf294d0b68db9a54807c79cf4cc54cb91c";

    fn account(signer: PrivateKeySigner) -> account::Account {
        account::Account::new(Nodes::new(Vec::new(), 84532), Box::new(signer))
    }

    /// A request that ends at 1893456000 by the layer's clock.
    fn request() -> AuthorizationRequest {
        let domain = TokenDomain::usdc_of(Network::BASE_SEPOLIA).unwrap();
        let recipient = "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC".parse().unwrap();
        let (amount, now) = (Amount::from_base_units(10_000), ChainTime::from_unix(1_893_456_000 - 60));
        let purchase = PurchaseId::new([1; 16]);
        let request = AuthorizationRequest::new(purchase, Network::BASE_SEPOLIA, domain, recipient, amount, now);
        AuthorizationRequest { nonce: PaymentTag::new([0x42; 32]), ..request }
    }

    #[tokio::test]
    async fn it_signs_what_official_clients_sign() {
        let account = account(KEY.parse().unwrap());
        let signed = authorize(&account, &request()).await.unwrap();
        assert_eq!(signed.authorization.valid_before, ChainTime::from_unix(1_893_456_000));
        assert_eq!(signed.signature.to_string(), SIGNATURE);
        let elsewhere = AuthorizationRequest { network: Network::BASE, ..request() };
        let error = authorize(&account, &elsewhere).await.unwrap_err();
        assert!(matches!(error, PayerError::WrongNetwork(Network::BASE)));
    }

    #[tokio::test]
    async fn signatures_are_as_tokens_take_them() {
        let key = PrivateKeySigner::random();
        let account = account(key.clone());
        for byte in 0..50 {
            let digest = B256::repeat_byte(byte);
            let signature = signed(&account, digest).await.unwrap();
            let bytes = signature.as_bytes();
            assert!(bytes.len() == 65 && [27, 28].contains(&bytes[64]), "{signature}");
            assert_eq!(Signature::from_raw(bytes).unwrap().normalize_s(), None, "a low s");
            assert_eq!(bytes, key.sign_hash_sync(&digest).unwrap().as_bytes());
        }
    }
}
