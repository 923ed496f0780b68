//! The extension `eip2612GasSponsoring`: a payer without gas lets Permit2 move its tokens by a signature.

use serde_json::{Value, json};

use super::{Extensions, values};
use crate::protocol::{Address, Amount, ChainTime, ParseError, PaymentSignature};

/// The name of the extension.
const NAME: &str = "eip2612GasSponsoring";
/// Its only version.
const VERSION: &str = "1";
/// The length of a signature that tokens with EIP-2612 accept.
const SIGNATURE_LEN: usize = 65;

const INVALID: ParseError = ParseError::new(
    "invalid eip2612GasSponsoring: `info` has `from`, `asset`, `spender`, `amount`, `nonce`, `deadline`, `signature` (65 bytes) and `version` 1",
);

/// An allowance that a payer signed by EIP-2612 and sends along with a [permit](crate::protocol::permit2::Permit): it
/// lets Permit2 move an amount of a token.
///
/// ```
/// use serde_json::json;
/// use tower_x402::protocol::{permit2::PERMIT2, v2::Extensions};
/// let info = json!({
///     "from": "0x70997970C51812dc3A010C7d01b50e0d17dc79C8", "asset": "0x036CbD53842c5426634e7929541eC2318f3dCF7e",
///     "spender": PERMIT2.to_string(), "amount": "10000", "nonce": "0", "deadline": "1893456000",
///     "signature": format!("0x{}", "1b".repeat(65)), "version": "1",
/// });
/// let sent = Extensions::new().with("eip2612GasSponsoring", info, None);
/// assert_eq!(sent.eip2612_permit()?.map(|permit| permit.spender), Some(PERMIT2));
/// // Clients that sign nothing repeat what was declared.
/// assert_eq!(Extensions::new().declaring_eip2612().eip2612_permit(), Ok(None));
/// # Ok::<(), tower_x402::protocol::ParseError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Eip2612Permit {
    /// The holder of the tokens, who signed.
    pub from: Address,
    /// The token contract.
    pub asset: Address,
    /// The account that gets the allowance: Permit2.
    pub spender: Address,
    /// The allowance, in base units.
    pub amount: Amount,
    /// The holder's next nonce in the token: 32 big-endian bytes.
    pub nonce: [u8; 32],
    /// The signature is valid up to this moment.
    pub deadline: ChainTime,
    /// The holder's signature, of 65 bytes.
    pub signature: PaymentSignature,
}

impl Eip2612Permit {
    fn read(info: &Value) -> Option<Self> {
        let text = |name: &str| info.get(name)?.as_str();
        (text("version")? == VERSION).then_some(())?;
        let signature: PaymentSignature = text("signature")?.parse().ok()?;
        (signature.as_bytes().len() == SIGNATURE_LEN).then_some(())?;
        Some(Self {
            from: values::address(text("from")?)?,
            asset: values::address(text("asset")?)?,
            spender: values::address(text("spender")?)?,
            amount: values::amount(text("amount")?)?,
            nonce: values::word(text("nonce")?)?,
            deadline: values::time(text("deadline")?)?,
            signature,
        })
    }

    fn written(&self) -> Value {
        json!({
            "from": self.from.to_string(),
            "asset": self.asset.to_string(),
            "spender": self.spender.to_string(),
            "amount": self.amount.to_string(),
            "nonce": Amount::from_be_bytes(self.nonce).to_string(),
            "deadline": self.deadline.unix().to_string(),
            "signature": self.signature.to_string(),
            "version": VERSION,
        })
    }
}

impl Extensions {
    /// Declares `eip2612GasSponsoring` in a quote: its seller sends a payer's EIP-2612 allowance along with the payment.
    #[must_use]
    pub fn declaring_eip2612(self) -> Self {
        let info = json!({ "description": "Takes an EIP-2612 allowance for Permit2 along with the payment.", "version": VERSION });
        let address = json!({ "type": "string", "pattern": "^0x[a-fA-F0-9]{40}$" });
        let number = json!({ "type": "string", "pattern": "^[0-9]+$" });
        let schema = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "properties": {
                "from": address, "asset": address, "spender": address, "amount": number, "nonce": number, "deadline": number,
                "signature": { "type": "string", "pattern": "^0x[a-fA-F0-9]+$" },
                "version": { "type": "string", "pattern": "^[0-9]+(\\.[0-9]+)*$" },
            },
            "required": ["from", "asset", "spender", "amount", "nonce", "deadline", "signature", "version"],
        });
        self.with(NAME, info, Some(schema))
    }

    /// Returns whether a quote declares `eip2612GasSponsoring`.
    #[must_use]
    pub fn takes_eip2612(&self) -> bool {
        self.info(NAME).is_some_and(Value::is_object)
    }

    /// Adds an allowance to a payment.
    #[must_use]
    pub fn with_eip2612_permit(self, permit: &Eip2612Permit) -> Self {
        self.with(NAME, permit.written(), None)
    }

    /// Returns the allowance that comes with a payment. One without a signature counts as none: clients repeat what a
    /// quote declares.
    ///
    /// # Errors
    /// Returns [`ParseError`] if it has a signature but is not in the extension's form.
    pub fn eip2612_permit(&self) -> Result<Option<Eip2612Permit>, ParseError> {
        let signed = self.info(NAME).filter(|info| info.get("signature").is_some_and(|signature| !signature.is_null()));
        signed.map(|info| Eip2612Permit::read(info).ok_or(INVALID)).transpose()
    }
}

/// Returns the declaration as a JSON member of the extensions: with its schema, and in short.
pub(crate) fn eip2612_declarations() -> [String; 2] {
    let whole = Extensions::new().declaring_eip2612();
    let short = json!({ "info": { "description": "Takes an EIP-2612 allowance for Permit2.", "version": VERSION } });
    let whole = json!({ "info": whole.info(NAME), "schema": whole.schema(NAME) });
    [whole, short].map(|extension| format!(r#""{NAME}":{extension}"#))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::permit2::PERMIT2;

    fn permit() -> Eip2612Permit {
        Eip2612Permit {
            from: Address::new([1; 20]),
            asset: Address::new([2; 20]),
            spender: PERMIT2,
            amount: Amount::MAX,
            nonce: [0xff; 32],
            deadline: ChainTime::from_unix(1_893_456_000),
            signature: PaymentSignature::new([7; 65]).unwrap(),
        }
    }

    #[test]
    fn an_allowance_is_read_as_it_was_sent() {
        let sent = Extensions::new().with_eip2612_permit(&permit());
        assert_eq!(sent.eip2612_permit(), Ok(Some(permit())));
        assert!(Extensions::new().declaring_eip2612().takes_eip2612() && !Extensions::new().takes_eip2612());
        assert_eq!(Extensions::new().eip2612_permit(), Ok(None));
        for unsigned in [Value::Null, json!({ "description": "a", "version": "1" }), json!([]), json!("text")] {
            assert_eq!(Extensions::new().with(NAME, unsigned, None).eip2612_permit(), Ok(None));
        }
    }

    #[test]
    fn an_allowance_of_another_form_is_an_error() {
        for (name, other) in [
            ("signature", json!("")),
            ("signature", json!(5)),
            ("signature", json!(format!("0x{}", "07".repeat(64)))),
            ("signature", json!(format!("0x{}", "07".repeat(66)))),
            ("from", json!("0x01")),
            ("from", Value::Null),
            ("asset", json!(2)),
            ("spender", json!("")),
            ("amount", json!(10_000)),
            ("amount", json!("0x10")),
            ("amount", json!("-1")),
            ("nonce", json!("")),
            ("nonce", json!("0x")),
            ("nonce", json!(format!("0x1{}", "0".repeat(64)))),
            ("deadline", json!(1_893_456_000_u64)),
            ("deadline", json!("18446744073709551616")),
            ("version", json!("2")),
            ("version", json!(1)),
        ] {
            let mut info = permit().written();
            info[name] = other.clone();
            let read = Extensions::new().with(NAME, info, None).eip2612_permit();
            assert_eq!(read, Err(INVALID), "{name} {other}");
        }
    }
}
