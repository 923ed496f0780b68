//! Recognises the hosts that are this machine.

use std::net::IpAddr;

/// Returns whether a host is certainly this machine, however the connection is made: `localhost`, or a loopback address in
/// its usual form.
pub(crate) fn is_loopback(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    // For 127.0.0.1, 0:0:0:0:0:0:0:1, ::1. Names rarely begin like this, and parsing them would be wasted.
    let begins_so = bare.starts_with(['1', '0', ':']);
    host.eq_ignore_ascii_case("localhost") || begins_so && bare.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_certain_by_its_usual_names_only() {
        for host in ["localhost", "LocalHost", "127.0.0.1", "127.9.9.9", "[::1]", "[0:0::1]", "[0000:0::1]"] {
            assert!(is_loopback(host), "{host}");
        }
        for host in
            ["localhost.", "127.1", "0x7f.1", "2130706433", "localhost.example", "[::ffff:127.0.0.1]", "0.0.0.0"]
        {
            assert!(!is_loopback(host), "{host}");
        }
    }
}
