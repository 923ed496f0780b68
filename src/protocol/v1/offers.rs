//! `Offers`: the demand in a 402's body.

use super::networks::name_of;
use crate::protocol::{Address, Network, TokenDomain, ascii_json};

/// The members `x402Version` and `accepts` of a quote's body, with everything written that is the same for every request.
#[derive(Clone, Debug)]
pub(crate) struct Offers {
    entries: Vec<Entry>,
}

/// One way to pay: the texts before the amount and after the URL.
#[derive(Clone, Debug)]
struct Entry {
    before_amount: Box<str>,
    behind_url: Box<str>,
}

const BEFORE_URL: &str = r#"","resource":""#;

impl Offers {
    /// Creates the demand. `tokens` can be paid by authorization, valid for this many seconds. It has as many of them
    /// as fit into `room` bytes, and always the first. `None` if no network has a name.
    pub(crate) fn new<'a>(
        recipient: Address,
        description: &str,
        tokens: impl Iterator<Item = (Network, &'a TokenDomain, u64)>,
        room: usize,
        url: usize,
    ) -> Option<Self> {
        let description = ascii_json(description);
        let mut offers = Self { entries: Vec::new() };
        for (network, TokenDomain { token, name, version, .. }, timeout) in tokens {
            let Some(chain) = name_of(network) else { continue };
            let before_amount = format!(r#"{{"scheme":"exact","network":"{chain}","maxAmountRequired":""#);
            let behind_url = format!(
                r#"","description":{description},"mimeType":"","payTo":"{recipient}","maxTimeoutSeconds":{timeout},"asset":"{token}","extra":{{"name":{},"version":{}}}}}"#,
                ascii_json(name),
                ascii_json(version),
            );
            offers.entries.push(Entry { before_amount: before_amount.into(), behind_url: behind_url.into() });
            if offers.longest(20, url) > room && offers.entries.len() > 1 {
                offers.entries.pop();
                break;
            }
        }
        Some(offers).filter(|offers| !offers.entries.is_empty())
    }

    /// Returns an upper bound of the text's length for a price and a URL of these lengths.
    pub(crate) fn longest(&self, price: usize, url: usize) -> usize {
        let entry =
            |entry: &Entry| entry.before_amount.len() + entry.behind_url.len() + BEFORE_URL.len() + price + url + 1;
        BEGIN.len() + 1 + self.entries.iter().map(entry).sum::<usize>()
    }

    /// Appends the two members, preceded by a comma. `url` is escaped for a JSON string.
    pub(crate) fn write(&self, price: &str, url: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(BEGIN.as_bytes());
        for (index, Entry { before_amount, behind_url }) in self.entries.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            out.extend_from_slice(before_amount.as_bytes());
            out.extend_from_slice(price.as_bytes());
            out.extend_from_slice(BEFORE_URL.as_bytes());
            out.extend_from_slice(url);
            out.extend_from_slice(behind_url.as_bytes());
        }
        out.push(b']');
    }
}

const BEGIN: &str = r#","x402Version":1,"accepts":["#;
