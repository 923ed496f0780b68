//! The data for the page's script: the quote, and the requests prepared for a wallet.

use const_hex::ToHexExt as _;
use serde_json::{Value, json};

use crate::{
    Offer,
    protocol::{
        Address, Asset, Network, PaymentTag, Quote,
        v2::{PaymentRequired, TransferMethod},
    },
};

/// The selector of an ERC-20 `transfer`.
const TRANSFER: &str = "a9059cbb";

/// Returns whether passes are accepted or sold here.
pub(super) fn has_passes(offer: &Offer) -> bool {
    !offer.passes.is_empty() || offer.sells_pass.is_some()
}

/// Returns all data, with these texts.
pub(super) fn block(texts: &[&str], offer: &Offer) -> Value {
    let quote = &offer.quote;
    let mut block = json!({
        "intent": quote.intent.as_str(),
        "issued": offer.issued.unix(),
        "expiry": quote.expiry.unix(),
        "words": { "price": asked(offer), "symbol": quote.symbol, "network": network_names(offer) },
        "label": quote.label,
        "amount": quote.amount.to_string(),
        "decimals": quote.decimals,
        "contact": offer.contact,
        "resource": offer.required.as_ref().map(|required| &required.resource),
        "chains": chains(offer),
        "texts": texts,
    });
    if has_passes(offer) {
        block["passes"] = offer.passes.iter().map(|pass| Value::from(&*pass.name)).collect();
        block["sells"] = offer.sells_pass.as_deref().into();
    }
    block
}

/// Returns each network with its ways to pay; the quote's network comes first.
fn chains(offer: &Offer) -> Vec<Value> {
    let quote = &offer.quote;
    let first = (quote.network, quote.contracts.first().copied(), offer.takes_transfers);
    let further = offer
        .further_networks
        .iter()
        .map(|further| (further.network, further.assets.first().map(Asset::contract), further.takes_transfers));
    let all = std::iter::once(first).chain(further);
    all.map(|(network, token, takes_transfers)| {
        let (rpc, explorer) = known(network).unzip();
        json!({
            "id": network.chain_id(),
            "name": network_name(network),
            "rpc": rpc,
            "explorer": explorer,
            "token": token.map(|token| token.to_string()),
            "transfer": token.filter(|_| takes_transfers).map(|token| transfer(quote, token)),
            "signed": offer.required.as_ref().and_then(|required| signed(quote, network, required)),
        })
    })
    .collect()
}

/// Returns the names of all networks, for people.
pub(super) fn network_names(offer: &Offer) -> String {
    let further = offer.further_networks.iter().map(|further| further.network);
    let names = std::iter::once(offer.quote.network).chain(further).map(network_name);
    names.collect::<Vec<_>>().join(" · ")
}

pub(super) fn price(quote: &Quote) -> String {
    quote.amount.to_decimal(quote.decimals)
}

/// Returns the price, or the maximum in a notation that every language understands.
pub(super) fn asked(offer: &Offer) -> String {
    let price = price(&offer.quote);
    if offer.up_to { format!("≤ {price}") } else { price }
}

/// Returns the common name of a chain.
pub(super) fn network_name(network: Network) -> String {
    match network {
        Network::BASE => "Base".to_owned(),
        Network::BASE_SEPOLIA => "Base Sepolia".to_owned(),
        other => format!("chain {}", other.chain_id()),
    }
}

/// Returns a node that a wallet needs to add the chain, and a site that shows transactions under `/tx/`, if they are
/// known.
fn known(network: Network) -> Option<(&'static str, &'static str)> {
    match network {
        Network::BASE => Some(("https://mainnet.base.org", "https://basescan.org")),
        Network::BASE_SEPOLIA => Some(("https://sepolia.base.org", "https://sepolia.basescan.org")),
        _ => None,
    }
}

/// Returns the transfer of a token, bound to this intent by its tag.
fn transfer(quote: &Quote, token: Address) -> Value {
    let words = [&[0; 12], quote.recipient.as_bytes().as_slice(), &quote.amount.to_be_bytes()].concat();
    let tag = PaymentTag::of(quote.intent.as_str()).to_call_data();
    json!({
        "to": token.to_string(),
        "data": format!("0x{TRANSFER}{}{}", words.encode_hex(), tag.encode_hex()),
    })
}

/// Returns what the payer signs for an authorization (EIP-3009), bound to this intent by its nonce. A payment echoes
/// `accepted` unchanged.
fn signed(quote: &Quote, network: Network, required: &PaymentRequired) -> Option<Value> {
    let mut offers =
        required.accepts.iter().filter_map(|option| option.exact()).filter(|offer| offer.network == network);
    let accepted = offers.find(|offer| offer.transfer_method() == TransferMethod::Eip3009)?;
    // The domain of the signature needs both.
    let _named = (accepted.extra.text("name")?, accepted.extra.text("version")?);
    let nonce = PaymentTag::of(quote.intent.as_str());
    Some(json!({ "accepted": accepted, "nonce": nonce.to_string() }))
}
