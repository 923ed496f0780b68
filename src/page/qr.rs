//! The QR code of a transfer, as SVG.

use std::fmt::Write as _;

use qrcode::{Color, EcLevel, QrCode};

use crate::protocol::Quote;

/// The light border that readers need, in modules.
const QUIET: usize = 4;

/// The transfer as a URL that wallets understand (EIP-681).
pub(super) fn payment_url(quote: &Quote) -> Option<String> {
    let token = quote.contracts.first()?;
    let (chain, recipient, amount) = (quote.network.chain_id(), quote.recipient, quote.amount);
    Some(format!("ethereum:{token}@{chain}/transfer?address={recipient}&uint256={amount}"))
}

/// Draws a text as one path, dark on light in any colour scheme; `None` if it is too long. `label` is escaped already.
pub(super) fn svg(text: &str, label: &str) -> Option<String> {
    let code = QrCode::with_error_correction_level(text, EcLevel::L).ok()?;
    let (width, modules) = (code.width(), code.to_colors());
    let size = width + 2 * QUIET;
    // Each row is a line of height 1: strokes by relative steps need half of what rectangles need.
    let mut path = String::new();
    for (y, row) in modules.chunks(width).enumerate() {
        let (mut x, mut pen) = (0, None);
        while x < width {
            let run = row[x..].iter().take_while(|module| **module == Color::Dark).count();
            if run > 0 {
                // Writing to a String cannot fail.
                let _ = match pen {
                    None => write!(path, "M{} {}.5h{run}", x + QUIET, y + QUIET),
                    Some(pen) => write!(path, "m{} 0h{run}", x - pen),
                };
                pen = Some(x + run);
            }
            x += run.max(1);
        }
    }
    Some(format!(
        r##"<svg class="qr" role="img" aria-label="{label}" viewBox="0 0 {size} {size}" shape-rendering="crispEdges"><path fill="#fff" d="M0 0h{size}v{size}H0z"/><path stroke="#000" d="{path}"/></svg>"##
    ))
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

    /// Module by module, as the crate has them.
    #[test]
    fn the_path_has_every_dark_module() {
        let code = QrCode::with_error_correction_level("ethereum:0x1", EcLevel::L).unwrap();
        let drawn = svg("ethereum:0x1", "a label").unwrap();
        let path = drawn.rsplit_once("d=\"").unwrap().1.split('"').next().unwrap();
        let mut dark = std::collections::HashSet::new();
        for line in path.split('M').skip(1) {
            let (start, rest) = line.split_once('h').unwrap();
            let (x, y) = start.split_once(' ').unwrap();
            let (mut x, y): (usize, usize) = (x.parse().unwrap(), y.strip_suffix(".5").unwrap().parse().unwrap());
            for step in rest.split('m') {
                let (gap, run) = step.split_once(" 0h").unwrap_or(("0", step));
                let (gap, run): (usize, usize) = (gap.parse().unwrap(), run.parse().unwrap());
                dark.extend((x + gap..x + gap + run).map(|x| (x - QUIET, y - QUIET)));
                x += gap + run;
            }
        }
        for y in 0..code.width() {
            for x in 0..code.width() {
                assert_eq!(dark.contains(&(x, y)), code[(x, y)] == Color::Dark, "{x} {y}");
            }
        }
        assert!(drawn.contains(r#"role="img" aria-label="a label""#));
        assert!(svg(&"x".repeat(5_000), "").is_none());
    }
}
