//! Networks: CAIP-2 names of EIP-155 chains.

use proptest::prelude::*;

use super::cases;
use crate::protocol::Network;

#[test]
fn the_chains_of_the_contract() {
    assert_eq!(Network::BASE.to_string(), "eip155:8453");
    assert_eq!("eip155:84532".parse(), Ok(Network::BASE_SEPOLIA));
}

#[test]
fn anything_else_is_refused() {
    for text in [
        "",
        "8453",
        "eip155",
        "eip155:",
        "eip155:0",
        "eip155:08453",
        "eip155:+1",
        "eip155:-1",
        "eip155: 1",
        "eip155:1 ",
        " eip155:1",
        "eip155:1:2",
        "eip155:0x1",
        "EIP155:1",
        "eip155:１",
        "eip155:18446744073709551616",
        "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp",
    ] {
        assert!(text.parse::<Network>().is_err(), "{text:?}");
    }
}

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn every_chain_survives_its_name(id in 1_u64..) {
        prop_assert_eq!(Network::eip155(id).to_string().parse(), Ok(Network::eip155(id)));
    }

    #[test]
    fn any_text_is_refused_or_canonical(text in "\\PC{0,20}|eip155:[0-9+_x-]{0,21}") {
        if let Ok(network) = text.parse::<Network>() {
            prop_assert_eq!(network.to_string(), text);
        }
    }
}
