//! The names of chains.

use crate::protocol::Network;

/// The chains that have names in version 1, from the official packages.
const NAMES: [(&str, u64); 16] = [
    ("base", 8453),
    ("base-sepolia", 84532),
    ("ethereum", 1),
    ("sepolia", 11_155_111),
    ("polygon", 137),
    ("polygon-amoy", 80002),
    ("avalanche", 43114),
    ("avalanche-fuji", 43113),
    ("sei", 1329),
    ("sei-testnet", 1328),
    ("iotex", 4689),
    ("peaq", 3338),
    ("abstract", 2741),
    ("abstract-testnet", 11124),
    ("story", 1514),
    ("educhain", 41923),
];

/// Returns the name of a network, if it has one.
pub(crate) fn name_of(network: Network) -> Option<&'static str> {
    NAMES.into_iter().find(|(_, id)| Network::eip155(*id) == network).map(|(name, _)| name)
}

/// Returns the network of that name.
pub(super) fn named(name: &str) -> Option<Network> {
    NAMES.into_iter().find(|(known, _)| *known == name).map(|(_, id)| Network::eip155(id))
}
