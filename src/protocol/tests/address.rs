//! Addresses: the official EIP-55 vectors, and what is refused.

use proptest::prelude::*;

use super::cases;
use crate::protocol::{Address, Asset};

/// From <https://eips.ethereum.org/EIPS/eip-55>: all upper, all lower, mixed.
const EIP_55: [&str; 8] = [
    "0x52908400098527886E0F7030069857D2E4169EE7",
    "0x8617E340B3D01FA5F11F306F4090FD50E238070D",
    "0xde709f2102306220921060314715629080e2fb77",
    "0x27b1fdb04752bbc536007a920d24acb045561c26",
    "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
    "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359",
    "0xdbF03B407c01E7cD3CBea99509d93f8DDDC8C6FB",
    "0xD1220A0cf47c7B9Be7A2E6BA89F429762e7b9aDb",
];

#[test]
fn official_vectors_are_read_and_written() {
    for text in EIP_55 {
        assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        let lower = text.to_ascii_lowercase();
        assert_eq!(lower.parse::<Address>().unwrap().to_string(), text, "lower case is read, and written checksummed");
        assert_eq!(format!("{:x}", text.parse::<Address>().unwrap()), lower);
        let upper = format!("0x{}", text[2..].to_ascii_uppercase());
        assert_eq!(upper.parse::<Address>().unwrap().to_string(), text, "so is upper case");
    }
}

#[test]
fn the_tokens_of_the_contract_are_what_it_says() {
    for (asset, text) in [
        (Asset::USDC_BASE, "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"),
        (Asset::USDBC_BASE, "0xd9aAEc86B65D86f6A7B5B1b0c42FFA531710b6CA"),
        (Asset::USDC_BASE_SEPOLIA, "0x036CbD53842c5426634e7929541eC2318f3dCF7e"),
    ] {
        assert_eq!(asset.contract().to_string(), text);
        assert_eq!(asset.decimals(), 6);
        assert_eq!(text.parse::<Address>(), Ok(asset.contract()));
    }
}

#[test]
fn a_wrong_letter_case_anywhere_is_refused() {
    for text in EIP_55.iter().skip(4) {
        for (i, letter) in text.char_indices().skip(2).filter(|(_, c)| c.is_ascii_alphabetic()) {
            let flipped =
                if letter.is_ascii_lowercase() { letter.to_ascii_uppercase() } else { letter.to_ascii_lowercase() };
            let mut wrong = (*text).to_owned();
            wrong.replace_range(i..=i, &flipped.to_string());
            assert!(wrong.parse::<Address>().is_err(), "{wrong}");
        }
    }
}

#[test]
fn anything_else_is_refused() {
    let good = "833589fcd6edb6e08f4c7c32d4f71b54bda02913";
    for text in [
        String::new(),
        "0x".to_owned(),
        good.to_owned(),
        format!("0X{good}"),
        format!(" 0x{good}"),
        format!("0x{good} "),
        format!("0x{good}\n"),
        format!("0x{good}0"),
        format!("0x{}", &good[1..]),
        format!("0x0x{}", &good[2..]),
        format!("0x{}g", &good[1..]),
        format!("0x{}_", &good[1..]),
        // Forty bytes, but not forty digits.
        format!("0x{}é", &good[2..]),
        // A full-width digit.
        format!("0x{}３", &good[3..]),
        "vitalik.eth".to_owned(),
    ] {
        assert!(text.parse::<Address>().is_err(), "{text:?}");
    }
}

proptest! {
    #![proptest_config(cases(512))]

    #[test]
    fn every_address_survives_its_text(bytes: [u8; 20]) {
        let address = Address::new(bytes);
        prop_assert_eq!(address.to_string().parse(), Ok(address));
        prop_assert_eq!(format!("{address:x}").parse(), Ok(address));
        prop_assert_eq!(address.as_bytes(), &bytes);
    }

    #[test]
    fn any_text_is_refused_or_is_the_address_it_spells(text in "\\PC{0,50}|(0x)?[0-9a-fA-F]{38,42}") {
        if let Ok(address) = text.parse::<Address>() {
            prop_assert_eq!(address.to_string().to_ascii_lowercase(), text.to_ascii_lowercase());
        }
    }
}
