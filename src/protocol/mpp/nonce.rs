//! The hash of a challenge, which is the nonce of the authorization that pays it.

use crate::protocol::{ascii_json, keccak::keccak256};

/// Returns the two forms of the hash that are in use. Each binds an authorization to a challenge of this id and
/// realm.
///
/// The first is the draft's: the Keccak-256 of id and realm, concatenated. The second, of `mppx` from 0.13 and
/// `pympp`, is the Keccak-256 of a JSON array of both.
///
/// ```
/// use tower_x402::protocol::mpp::challenge_hashes;
/// let [draft, array] = challenge_hashes("3n_xVE4G0MJ6qb4Vy1JjIPTU-8EEQBGAtB4LYZLufhE", "api.example.com");
/// assert_eq!(&draft[..4], [0x60, 0x8e, 0x2a, 0x68]);
/// assert_eq!(&array[..4], [0x13, 0xbb, 0x13, 0xe8]);
/// ```
#[must_use]
pub fn challenge_hashes(id: &str, realm: &str) -> [[u8; 32]; 2] {
    // Ids and realms are printable ASCII, so every JSON writer produces the same text.
    let array = format!("[{},{}]", ascii_json(id), ascii_json(realm));
    [keccak256(&[id.as_bytes(), realm.as_bytes()]), keccak256(&[array.as_bytes()])]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Measured with `mppx` 0.11.0 and `pympp` 0.16.
    #[test]
    fn hashes_are_those_of_the_official_clients() {
        let hashes = challenge_hashes("3n_xVE4G0MJ6qb4Vy1JjIPTU-8EEQBGAtB4LYZLufhE", "api.example.com");
        assert_eq!(
            hashes.map(const_hex::encode),
            [
                "608e2a682196d33771f276376aa11f012bf9f69b78d4b2402273af150c27d7ea",
                "13bb13e8e9256ad2f75a52166e609962ce69ecc4bda50e5c004f96449b381c07",
            ]
        );
    }
}
