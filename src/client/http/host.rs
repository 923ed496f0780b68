//! The host of a request, in one spelling.

use std::net::IpAddr;

use http::uri::Authority;
use url::Url;

/// All addresses of this machine are counted under this name.
const THIS_MACHINE: &str = "localhost";

/// A host name or address in the one spelling that limits and recipients go by, as the WHATWG's URL standard has it:
/// lower case, addresses in their usual form (`127.1`, `0x7f.1` and `2130706433` are `127.0.0.1`), no dot at the end.
/// `None` where it is none.
pub(crate) fn spelled(host: &str) -> Option<String> {
    let parsed = |host: &str| Some(Url::parse(&format!("http://{host}/")).ok()?.host_str()?.to_owned());
    if host.contains(['/', '\\', '?', '#', '@']) {
        return None;
    }
    // Once more, for what an escaped dot at the end hid.
    let once = parsed(host.trim_end_matches('.'))?;
    parsed(once.trim_end_matches('.'))
}

/// The name under which a budget counts a host. User, password and port are removed, an IPv4 address within IPv6
/// becomes that address, and all names of this machine are one.
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

/// The same for the host of a journal's entry, which has its port.
pub(crate) fn of_entry(host: &str) -> String {
    without_port(host).unwrap_or_else(|| host.to_owned())
}

/// With its port, where that is not the one that is usual for its scheme.
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
