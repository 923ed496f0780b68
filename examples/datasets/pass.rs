//! The pass that is sold beside single answers.

use std::str::FromStr;

use tower_x402::{BuildError, Merchant, Pass};

/// The path where the pass is sold.
pub(crate) const PATH: &str = "/pass";

/// The number of answers, and the price in whole tokens: `10:3.90`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PassOffer {
    calls: u64,
    price: String,
}

impl PassOffer {
    /// Defines the pass.
    ///
    /// # Errors
    /// Fails if the price is invalid.
    pub(crate) fn pass(&self, merchant: &Merchant) -> Result<Pass, BuildError> {
        let Self { calls, price } = self;
        let symbol = merchant.assets().first().map_or("", |asset| asset.symbol());
        let pass = merchant.pass("answers", format!("{price} {symbol}"))?.calls(*calls)?;
        pass.label(&format!("{calls} answers from three datasets"))?.at(PATH)
    }
}

impl FromStr for PassOffer {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const FORM: &str = "a pass is a number of answers and its price in whole tokens, such as 10:3.90";
        let (calls, price) = text.split_once(':').ok_or(FORM)?;
        let calls = calls.parse().ok().filter(|calls| *calls > 0).ok_or(FORM)?;
        let is_price =
            |price: &str| !price.is_empty() && price.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        if is_price(price) { Ok(Self { calls, price: price.to_owned() }) } else { Err(FORM) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_is_a_number_and_a_price() {
        assert_eq!("10:3.90".parse(), Ok(PassOffer { calls: 10, price: "3.90".to_owned() }));
        for wrong in ["", "10", "0:1", "-1:1", "ten:1", "10:", "10:1 USDC", "10:-1"] {
            assert!(wrong.parse::<PassOffer>().is_err(), "{wrong}");
        }
    }
}
