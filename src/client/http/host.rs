//! The canonical form of a request's host.

use std::net::IpAddr;

use http::uri::Authority;
use url::Url;

/// The common name for all addresses of this machine.
const THIS_MACHINE: &str = "localhost";

/// Returns a host name or address in the canonical form of the WHATWG URL standard, by which limits and recipients are
/// looked up: lower case, addresses in their usual form (`127.1`, `0x7f.1` and `2130706433` are `127.0.0.1`), and no
/// trailing dot. Returns `None` if it is no valid host.
pub(crate) fn spelled(host: &str) -> Option<String> {
    let parsed = |host: &str| Some(Url::parse(&format!("http://{host}/")).ok()?.host_str()?.to_owned());
    if host.contains(['/', '\\', '?', '#', '@']) {
        return None;
    }
    // Parse again, to remove trailing dots that were percent-encoded.
    let once = parsed(host.trim_end_matches('.'))?;
    parsed(once.trim_end_matches('.'))
}

/// Returns the name under which a budget counts a host. It removes user, password and port, unwraps an IPv4 address
/// within IPv6, and maps all names of this machine to one.
pub(crate) fn without_port(authority: &str) -> Option<String> {
    let host = spelled(authority.parse::<Authority>().ok()?.host())?;
    let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(&host);
    match inner.parse::<IpAddr>().map(|address| address.to_canonical()) {
        Ok(address) if address.is_loopback() || address.is_unspecified() => Some(THIS_MACHINE.to_owned()),
        Ok(IpAddr::V4(address)) => Some(address.to_string()),
        Err(_) if host == THIS_MACHINE || host.ends_with(".localhost") => Some(THIS_MACHINE.to_owned()),
        Ok(IpAddr::V6(_)) | Err(_) => Some(host),
    }
}

/// Returns the same for the host of a journal entry, which may have a port.
pub(crate) fn of_entry(host: &str) -> String {
    without_port(host).unwrap_or_else(|| host.to_owned())
}

/// Returns the canonical host with its port, unless that is the scheme's default.
pub(crate) fn with_port(authority: &Authority, usual: Option<u16>) -> Option<String> {
    let host = spelled(authority.host())?;
    Some(match authority.port_u16().filter(|port| Some(*port) != usual) {
        Some(port) => format!("{host}:{port}"),
        None => host,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_host_has_one_spelling() {
        let spellings = [
            ("seller.example", &["SELLER.example", "seller.example.", "seller.example..", "seller.example%2e"][..]),
            (
                "127.0.0.1",
                &["127.1", "127.0.1", "0x7f.1", "0x7f000001", "2130706433", "0177.0.0.1", "127.1..", "127.0.0.1."],
            ),
            ("[::1]", &["[0:0:0:0:0:0:0:1]", "[::0001]", "[::0.0.0.1]"]),
            ("xn--bcher-kva.example", &["XN--BCHER-KVA.example"]),
        ];
        for (host, others) in spellings {
            for other in others.iter().chain([&host]) {
                assert_eq!(spelled(other).as_deref(), Some(host), "{other}");
            }
        }
        for none in ["", ".", "..", "a b", "a/b", "1.2.3.256", "[::1", "[::1%25lo]"] {
            assert_eq!(spelled(none), None, "{none}");
        }
        assert_eq!(without_port("me:pass@Seller.Example.:8443").as_deref(), Some("seller.example"));
        assert_eq!(without_port("[2001:db8::1]:8080").as_deref(), Some("[2001:db8::1]"));
        assert_eq!(without_port("[::ffff:192.0.2.7]:8080").as_deref(), Some("192.0.2.7"));
        for own in ["[::1]:8080", "127.0.0.1", "127.8.8.8:1", "0.0.0.0", "[::]", "[::ffff:127.0.0.1]", "a.Localhost."] {
            assert_eq!(without_port(own).as_deref(), Some(THIS_MACHINE), "{own}");
        }
        assert_eq!(of_entry("odd host"), "odd host");
    }
}
