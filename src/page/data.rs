//! The data for the page's script: the quote, and the prepared requests to a wallet.

use const_hex::ToHexExt as _;
use serde_json::{Map, Value, json};

use super::{settings::Page, text::Text};
use crate::{
    Offer,
    protocol::{
        Network, PaymentTag, Quote,
        v2::{PaymentRequired, PaymentRequirements, TransferMethod},
    },
};

/// What stands before the arguments of an ERC-20 `transfer`.
const TRANSFER: &str = "a9059cbb";
/// What stands before the argument of an ERC-20 `balanceOf`.
const BALANCE_OF: &str = "70a08231";

/// All of it.
pub(super) fn block(page: &Page, offer: &Offer) -> Value {
    let quote = &offer.quote;
    json!({
        "intent": quote.intent.as_str(),
        "issued": offer.issued.unix(),
        "expiry": quote.expiry.unix(),
        "network": network(quote.network),
        "words": { "price": price(quote), "symbol": quote.symbol, "network": network_name(quote.network) },
        "label": quote.label,
        "explorer": explorer(quote.network),
        "money": money(quote),
        "contact": offer.contact,
        "transfer": offer.takes_transfers.then(|| transfer(quote)).flatten(),
        "signed": offer.required.as_ref().and_then(|required| signed(quote, required)),
        "texts": Text::ALL.iter().map(|text| (text.key().to_owned(), page.words(*text).into())).collect::<Map<_, _>>(),
    })
}

pub(super) fn price(quote: &Quote) -> String {
    quote.amount.to_decimal(quote.decimals)
}

/// What people call a chain.
pub(super) fn network_name(network: Network) -> String {
    match network {
        Network::BASE => "Base".to_owned(),
        Network::BASE_SEPOLIA => "Base Sepolia".to_owned(),
        other => format!("chain {}", other.chain_id()),
    }
}

/// The public page about a transaction, without its hash.
fn explorer(network: Network) -> Option<&'static str> {
    match network {
        Network::BASE => Some("https://basescan.org/tx/"),
        Network::BASE_SEPOLIA => Some("https://sepolia.basescan.org/tx/"),
        _ => None,
    }
}

/// The chain, as wallets name it, with the details that they need to add it (EIP-3085), if known.
fn network(network: Network) -> Value {
    let hex = format!("{:#x}", network.chain_id());
    let known = match network {
        Network::BASE => Some(("https://mainnet.base.org", "https://basescan.org")),
        Network::BASE_SEPOLIA => Some(("https://sepolia.base.org", "https://sepolia.basescan.org")),
        _ => None,
    };
    let add = known.map(|(rpc, explorer)| {
        json!({
            "chainId": hex,
            "chainName": network_name(network),
            "nativeCurrency": { "name": "Ether", "symbol": "ETH", "decimals": 18 },
            "rpcUrls": [rpc],
            "blockExplorerUrls": [explorer],
        })
    });
    json!({ "id": network.chain_id(), "hex": hex, "add": add })
}

/// The balance that an account needs: the token, the call that reads the balance, and the amount in base units.
fn money(quote: &Quote) -> Option<Value> {
    let token = quote.contracts.first()?;
    Some(json!({
        "token": token.to_string(),
        "balance": format!("0x{BALANCE_OF}"),
        "amount": quote.amount.to_string(),
        "decimals": quote.decimals,
    }))
}

/// The transfer, bound to this intent by its tag.
fn transfer(quote: &Quote) -> Option<Value> {
    let token = quote.contracts.first()?;
    let words = [&[0; 12], quote.recipient.as_bytes().as_slice(), &quote.amount.to_be_bytes()].concat();
    let tag = PaymentTag::of(quote.intent.as_str()).to_call_data();
    Some(json!({
        "to": token.to_string(),
        "data": format!("0x{TRANSFER}{}{}", words.encode_hex(), tag.encode_hex()),
    }))
}

/// The authorization (EIP-3009), bound to this intent by its nonce, without signer and end of validity.
fn signed(quote: &Quote, required: &PaymentRequired) -> Option<Value> {
    let offers = required.accepts.iter().filter_map(|option| option.exact());
    let accepted = offers.into_iter().find(|offer| offer.transfer_method() == TransferMethod::Eip3009)?;
    Some(json!({
        "accepted": accepted,
        "resource": required.resource,
        "timeout": accepted.max_timeout_seconds,
        "typed": typed_data(quote, accepted)?,
    }))
}

fn typed_data(quote: &Quote, accepted: &PaymentRequirements) -> Option<Value> {
    let member = |name: &str, kind: &str| json!({ "name": name, "type": kind });
    let nonce = PaymentTag::of(quote.intent.as_str());
    Some(json!({
        "types": {
            "EIP712Domain": [
                member("name", "string"),
                member("version", "string"),
                member("chainId", "uint256"),
                member("verifyingContract", "address"),
            ],
            "TransferWithAuthorization": [
                member("from", "address"),
                member("to", "address"),
                member("value", "uint256"),
                member("validAfter", "uint256"),
                member("validBefore", "uint256"),
                member("nonce", "bytes32"),
            ],
        },
        "primaryType": "TransferWithAuthorization",
        "domain": {
            "name": accepted.extra.text("name")?,
            "version": accepted.extra.text("version")?,
            "chainId": accepted.network.chain_id(),
            "verifyingContract": accepted.asset.to_string(),
        },
        "message": {
            "to": accepted.pay_to.to_string(),
            "value": accepted.amount.to_string(),
            "validAfter": "0",
            "nonce": nonce.to_string(),
        },
    }))
}
