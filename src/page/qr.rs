//! QR codes of a transfer and of the page's address.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use qrcode::{Color, EcLevel, QrCode};

use crate::protocol::Quote;

/// Returns the transfer as a URL that wallets understand (EIP-681).
pub(super) fn payment_url(quote: &Quote) -> Option<String> {
    let token = quote.contracts.first()?;
    let (chain, recipient, amount) = (quote.network.chain_id(), quote.recipient, quote.amount);
    Some(format!("ethereum:{token}@{chain}/transfer?address={recipient}&uint256={amount}"))
}

/// Draws a text, dark on light in any colour scheme; `None` if it is too long. `label` must be escaped. The style
/// draws the light border that readers need.
pub(super) fn image(text: &str, label: &str) -> Option<String> {
    let data = STANDARD.encode(bitmap(text)?);
    Some(format!(r#"<img class="qr" alt="{label}" src="data:image/bmp;base64,{data}">"#))
}

/// Returns a text's code as a BMP bitmap; `None` if the text is too long.
pub(super) fn bitmap(text: &str) -> Option<Vec<u8>> {
    let code = QrCode::with_error_correction_level(text, EcLevel::L).ok()?;
    Some(drawn(code.width(), &code.to_colors()))
}

/// Draws one bit per module: a fifth of the size of an SVG drawing, and every browser can read it.
fn drawn(width: usize, modules: &[Color]) -> Vec<u8> {
    const HEADERS: u32 = 14 + 40 + 2 * 4;
    // A line is padded to words of four bytes.
    let line = width.div_ceil(32) * 4;
    let mut pixels = vec![0; line * width];
    for (at, _) in modules.iter().enumerate().filter(|(_, module)| **module == Color::Dark) {
        let (x, y) = (at % width, at / width);
        // The lowest line comes first.
        pixels[(width - 1 - y) * line + x / 8] |= 0x80 >> (x % 8);
    }
    let (side, length) = (small(width), small(pixels.len()));
    let mut image = b"BM".to_vec();
    // The file's header: its length, zero, and the offset of the pixels. Then width, height, one plane of one bit, no
    // compression.
    let words = [HEADERS + length, 0, HEADERS, 40, side, side, 1 | 1 << 16, 0, length, 0, 0, 2, 2, 0x00ff_ffff, 0];
    image.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    image.extend(pixels);
    image
}

/// Codes have some hundred modules at most.
fn small(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{Address, Amount, ChainTime, IntentId, Network};

    #[test]
    fn the_url_is_that_of_a_token_transfer() {
        let quote = Quote {
            intent: IntentId::new("AUbX").unwrap(),
            recipient: "0x70997970C51812dc3A010C7d01b50e0d17dc79C8".parse().unwrap(),
            network: Network::BASE,
            label: String::new(),
            expiry: ChainTime::from_unix(0),
            amount: Amount::from_base_units(490_000),
            decimals: 6,
            symbol: "USDC".to_owned(),
            contracts: vec!["0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913".parse().unwrap(), Address::new([1; 20])],
        };
        assert_eq!(
            payment_url(&quote).unwrap(),
            "ethereum:0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913@8453/transfer?address=0x70997970C51812dc3A010C7d01b50e0d17dc79C8&uint256=490000"
        );
        assert_eq!(payment_url(&Quote { contracts: Vec::new(), ..quote }), None);
    }

    /// Compares each module with the crate's.
    #[test]
    fn the_image_has_every_dark_module() {
        let code = QrCode::with_error_correction_level("ethereum:0x1", EcLevel::L).unwrap();
        let drawn = image("ethereum:0x1", "a label").unwrap();
        let bytes = STANDARD.decode(drawn.split("base64,").nth(1).unwrap().trim_end_matches("\">")).unwrap();
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
        let side = code.width();
        assert_eq!((word(2), word(18), word(22), word(54), word(58)), (bytes.len(), side, side, 0xff_ffff, 0));
        let line = (bytes.len() - word(10)) / side;
        for y in 0..side {
            for x in 0..side {
                let dark = bytes[word(10) + (side - 1 - y) * line + x / 8] >> (7 - x % 8) & 1 == 1;
                assert_eq!(dark, code[(x, y)] == Color::Dark, "{x} {y}");
            }
        }
        assert!(drawn.contains(r#"alt="a label""#));
        assert!(image(&"x".repeat(5_000), "").is_none());
    }
}
