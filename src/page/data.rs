//! The data for the page's script: the quote, and the prepared requests to a wallet.

use const_hex::ToHexExt as _;
use serde_json::{Map, Value, json};

use super::text::Text;
use crate::{
    Offer,
    protocol::{
        Address, Asset, Network, PaymentTag, Quote,
        v2::{PaymentRequired, PaymentRequirements, TransferMethod},
    },
};

/// What stands before the arguments of an ERC-20 `transfer`.
const TRANSFER: &str = "a9059cbb";
/// What stands before the argument of an ERC-20 `balanceOf`.
const BALANCE_OF: &str = "70a08231";

/// Whether passes count or are sold here.
pub(super) fn has_passes(offer: &Offer) -> bool {
    !offer.passes.is_empty() || offer.sells_pass.is_some()
}

/// All of it, with these texts.
pub(super) fn block<'a>(texts: impl Iterator<Item = (Text, &'a str)>, offer: &Offer) -> Value {
    let quote = &offer.quote;
    let mut block = json!({
        "intent": quote.intent.as_str(),
        "issued": offer.issued.unix(),
        "expiry": quote.expiry.unix(),
        "words": { "price": asked(offer), "symbol": quote.symbol, "network": network_names(offer) },
        "label": quote.label,
        "amount": quote.amount.to_string(),
        "decimals": quote.decimals,
        "balance": format!("0x{BALANCE_OF}"),
        "contact": offer.contact,
        "resource": offer.required.as_ref().map(|required| &required.resource),
        "chains": chains(offer),
        "texts": texts.map(|(text, words)| (text.key().to_owned(), words.into())).collect::<Map<_, _>>(),
    });
    if has_passes(offer) {
        block["passes"] = offer.passes.iter().map(|pass| Value::from(&*pass.name)).collect();
        block["sells"] = offer.sells_pass.as_deref().into();
    }
    block
}

/// Each network with the ways to pay there, that of the quote first.
fn chains(offer: &Offer) -> Vec<Value> {
    let quote = &offer.quote;
    let first = (quote.network, quote.contracts.first().copied(), offer.takes_transfers);
    let further = offer
        .further_networks
        .iter()
        .map(|further| (further.network, further.assets.first().map(Asset::contract), further.takes_transfers));
    let all = std::iter::once(first).chain(further);
    all.map(|(id, token, takes_transfers)| {
        json!({
            "network": network(id),
            "name": network_name(id),
            "explorer": explorer(id),
            "token": token.map(|token| token.to_string()),
            "transfer": token.filter(|_| takes_transfers).map(|token| transfer(quote, token)),
            "signed": offer.required.as_ref().and_then(|required| signed(quote, id, required)),
        })
    })
    .collect()
}

/// The names of all networks, for people.
pub(super) fn network_names(offer: &Offer) -> String {
    let further = offer.further_networks.iter().map(|further| further.network);
    let names = std::iter::once(offer.quote.network).chain(further).map(network_name);
    names.collect::<Vec<_>>().join(" · ")
}

pub(super) fn price(quote: &Quote) -> String {
    quote.amount.to_decimal(quote.decimals)
}

/// The price, or the most that it can be, in a way that every language reads.
pub(super) fn asked(offer: &Offer) -> String {
    let price = price(&offer.quote);
    if offer.up_to { format!("≤ {price}") } else { price }
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

/// The transfer of a token, bound to this intent by its tag.
fn transfer(quote: &Quote, token: Address) -> Value {
    let words = [&[0; 12], quote.recipient.as_bytes().as_slice(), &quote.amount.to_be_bytes()].concat();
    let tag = PaymentTag::of(quote.intent.as_str()).to_call_data();
    json!({
        "to": token.to_string(),
        "data": format!("0x{TRANSFER}{}{}", words.encode_hex(), tag.encode_hex()),
    })
}

/// The authorization (EIP-3009), bound to this intent by its nonce, without signer and end of validity.
fn signed(quote: &Quote, network: Network, required: &PaymentRequired) -> Option<Value> {
    let mut offers =
        required.accepts.iter().filter_map(|option| option.exact()).filter(|offer| offer.network == network);
    let accepted = offers.find(|offer| offer.transfer_method() == TransferMethod::Eip3009)?;
    Some(json!({
        "accepted": accepted,
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
