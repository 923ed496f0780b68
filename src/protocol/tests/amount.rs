//! Amounts: refused rather than rounded or guessed.

use proptest::prelude::*;
use ruint::aliases::U256;

use super::cases;
use crate::protocol::{
    Amount,
    amount::{MALFORMED, TOO_LARGE, TOO_MANY_DECIMALS},
};

const MAX: &str = "115792089237316195423570985008687907853269984665640564039457584007913129639935";
const MAX_PLUS_ONE: &str = "115792089237316195423570985008687907853269984665640564039457584007913129639936";
const MAX_MINUS_ONE: &str = "115792089237316195423570985008687907853269984665640564039457584007913129639934";

#[test]
fn decimals_that_are_read() {
    for (text, decimals, units) in [
        ("0", 6, 0),
        ("0.0", 6, 0),
        ("0.000000", 6, 0),
        ("1", 6, 1_000_000),
        ("0.49", 6, 490_000),
        ("0.490000", 6, 490_000),
        ("0.489999", 6, 489_999),
        ("0.490001", 6, 490_001),
        ("0.000001", 6, 1),
        ("10.50", 2, 1_050),
        ("7", 0, 7),
        ("1000000", 6, 1_000_000_000_000),
        ("0.49", 18, 490_000_000_000_000_000),
    ] {
        assert_eq!(Amount::parse_decimal(text, decimals), Ok(Amount::from_base_units(units)), "{text}");
    }
}

#[test]
fn decimals_that_are_refused() {
    for (text, why) in [
        ("", MALFORMED),
        (".", MALFORMED),
        (".5", MALFORMED),
        ("5.", MALFORMED),
        ("1.2.3", MALFORMED),
        ("1..2", MALFORMED),
        ("1e3", MALFORMED),
        ("1E3", MALFORMED),
        ("1.0e-3", MALFORMED),
        ("1,50", MALFORMED),
        ("1,000.00", MALFORMED),
        ("1_000", MALFORMED),
        ("0._1", MALFORMED),
        ("+1", MALFORMED),
        ("-1", MALFORMED),
        ("0.+1", MALFORMED),
        ("0.-1", MALFORMED),
        (" 1", MALFORMED),
        ("1 ", MALFORMED),
        ("1 .5", MALFORMED),
        ("1\n", MALFORMED),
        ("01", MALFORMED),
        ("00", MALFORMED),
        ("00.49", MALFORMED),
        ("0x10", MALFORMED),
        ("0b1", MALFORMED),
        ("NaN", MALFORMED),
        ("inf", MALFORMED),
        ("Infinity", MALFORMED),
        ("$0.49", MALFORMED),
        ("0.49 USDC", MALFORMED),
        ("٠.٤٩", MALFORMED),
        ("１", MALFORMED),
        ("½", MALFORMED),
        ("\0", MALFORMED),
        ("0.0000019", TOO_MANY_DECIMALS),
        ("0.4900000", TOO_MANY_DECIMALS),
        ("0.0000000", TOO_MANY_DECIMALS),
        (MAX, TOO_LARGE),
    ] {
        assert_eq!(Amount::parse_decimal(text, 6), Err(why), "{text:?}");
    }
    assert_eq!(Amount::parse_decimal("1.0", 0), Err(TOO_MANY_DECIMALS), "a token without decimals has no point");
}

#[test]
fn base_units_that_are_refused() {
    for text in [
        "", "-1", "+1", " 1", "1 ", "1.0", "1.", ".1", "1e3", "1_0", "1,0", "01", "00", "0x1", "0b1", "NaN", "１",
        "null",
    ] {
        assert_eq!(Amount::parse_base_units(text), Err(MALFORMED), "{text:?}");
    }
}

#[test]
fn the_upper_edge() {
    assert_eq!(Amount::parse_base_units(MAX), Ok(Amount::MAX));
    assert_eq!(Amount::parse_decimal(MAX, 0), Ok(Amount::MAX));
    assert_eq!(Amount::MAX.to_string(), MAX);
    assert_eq!(Amount::parse_base_units(MAX_MINUS_ONE).unwrap().checked_add(units(1)), Some(Amount::MAX));
    assert_eq!(Amount::MAX.checked_add(units(1)), None);
    assert_eq!(Amount::parse_base_units(MAX_PLUS_ONE), Err(TOO_LARGE));
    assert_eq!(Amount::parse_decimal(MAX_PLUS_ONE, 0), Err(TOO_LARGE));
    assert_eq!(Amount::parse_base_units(&"9".repeat(100_000)), Err(TOO_LARGE));

    let (whole, fraction) = MAX.split_at(MAX.len() - 6);
    assert_eq!(Amount::parse_decimal(&format!("{whole}.{fraction}"), 6), Ok(Amount::MAX));
    let (whole, fraction) = MAX_PLUS_ONE.split_at(MAX.len() - 6);
    assert_eq!(Amount::parse_decimal(&format!("{whole}.{fraction}"), 6), Err(TOO_LARGE));
}

#[test]
fn a_token_with_more_decimals_than_an_amount_has_digits() {
    assert_eq!(Amount::parse_decimal("0", 255), Ok(Amount::ZERO));
    assert_eq!(Amount::parse_decimal("1", 255), Err(TOO_LARGE));
    assert_eq!(Amount::parse_decimal(&format!("0.{}1", "0".repeat(254)), 255), Ok(units(1)));
    assert_eq!(units(1).to_decimal(255), format!("0.{}1", "0".repeat(254)));
}

#[test]
fn decimals_that_are_written() {
    for (amount, decimals, text) in [
        (0, 6, "0"),
        (0, 0, "0"),
        (1, 6, "0.000001"),
        (490_000, 6, "0.49"),
        (1_000_000, 6, "1"),
        (1_500_000, 6, "1.5"),
        (10_000_000, 6, "10"),
        (100, 0, "100"),
    ] {
        assert_eq!(units(amount).to_decimal(decimals), text);
    }
}

#[test]
fn json_is_a_string_of_base_units_and_nothing_else() {
    assert_eq!(serde_json::to_string(&units(490_000)).unwrap(), r#""490000""#);
    assert_eq!(serde_json::from_str::<Amount>(r#""490000""#).unwrap(), units(490_000));
    for json in ["490000", "490000.0", "4.9e5", "null", "[]", "{}", r#""""#, r#""0.49""#, r#""-1""#, r#"" 1""#] {
        assert!(serde_json::from_str::<Amount>(json).is_err(), "{json}");
    }
}

#[test]
fn padding_and_alignment_are_kept() {
    assert_eq!(format!("{:>8}|{:<4}|{:?}", units(49), units(1), units(7)), "      49|1   |7");
}

fn units(units: u128) -> Amount {
    Amount::from_base_units(units)
}

fn any_amount() -> impl Strategy<Value = Amount> {
    // Small and large numbers are equally likely.
    (any::<[u8; 32]>(), 0..=256_usize).prop_map(|(bytes, shift)| {
        let number = U256::from_be_bytes(bytes).checked_shr(shift).unwrap_or_default();
        Amount::from_be_bytes(number.to_be_bytes())
    })
}

proptest! {
    #![proptest_config(cases(1024))]

    #[test]
    fn every_amount_survives_its_texts(amount in any_amount(), decimals: u8) {
        prop_assert_eq!(Amount::parse_base_units(&amount.to_string()), Ok(amount));
        prop_assert_eq!(Amount::parse_decimal(&amount.to_decimal(decimals), decimals), Ok(amount));
        prop_assert_eq!(Amount::from_be_bytes(amount.to_be_bytes()), amount);
        let json = serde_json::to_string(&amount).unwrap();
        prop_assert_eq!(serde_json::from_str::<Amount>(&json).unwrap(), amount);
    }

    #[test]
    fn order_is_the_order_of_numbers(a: u128, b: u128) {
        prop_assert_eq!(units(a).cmp(&units(b)), a.cmp(&b));
        prop_assert_eq!(units(a).checked_add(units(b)).unwrap().to_string(),
            (U256::from(a) + U256::from(b)).to_string());
    }

    /// Compares with an independent reading: 128-bit integers.
    #[test]
    fn decimals_mean_what_they_say(whole in 0_u64.., fraction in "[0-9]{1,9}", decimals in 0_u8..12) {
        let text = format!("{whole}.{fraction}");
        let read = Amount::parse_decimal(&text, decimals);
        match usize::from(decimals).checked_sub(fraction.len()) {
            None => prop_assert_eq!(read, Err(TOO_MANY_DECIMALS)),
            Some(missing) => {
                let fraction: u128 = fraction.parse().unwrap();
                let expected = u128::from(whole) * 10_u128.pow(decimals.into())
                    + fraction * 10_u128.pow(missing.try_into().unwrap());
                prop_assert_eq!(read, Ok(units(expected)));
            }
        }
    }

    #[test]
    fn any_text_is_refused_or_canonical(text in "\\PC{0,90}|[0-9.]{0,90}|[0-9_,.eE+ -]{0,12}", decimals: u8) {
        if let Ok(amount) = Amount::parse_base_units(&text) {
            prop_assert_eq!(amount.to_string(), &*text);
        }
        match Amount::parse_decimal(&text, decimals) {
            Ok(amount) => prop_assert_eq!(
                amount.to_decimal(decimals),
                if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text }
            ),
            Err(why) => {
                let digits = text.bytes().filter(u8::is_ascii_digit).count();
                prop_assert!(why != TOO_LARGE || digits + usize::from(decimals) >= 78);
            }
        }
    }
}

#[test]
fn cents_are_never_less_than_was_meant() {
    for (cents, decimals, units) in [
        (49, 6, "490000"),
        (1, 2, "1"),
        (0, 6, "0"),
        (u64::MAX, 2, "18446744073709551615"),
        (49, 18, "490000000000000000"),
        // Rounded up: 0.49 of a token without decimals.
        (49, 0, "1"),
        (100, 0, "1"),
        (101, 0, "2"),
        (49, 1, "5"),
    ] {
        assert_eq!(Amount::from_cents(cents, decimals).to_string(), units, "{cents} cents, {decimals} decimals");
    }
    for decimals in [78, 79, 255] {
        assert!(Amount::from_cents(2, decimals) >= Amount::from_cents(2, 77), "{decimals}");
    }
    assert_eq!(Amount::from_cents(2, 255), Amount::MAX);
}
