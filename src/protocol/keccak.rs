//! Keccak-256, as Ethereum uses it.

/// The block size, in bytes.
const RATE: usize = 136;

/// Returns the Keccak-256 hash of the concatenated parts.
pub(super) fn keccak256(parts: &[&[u8]]) -> [u8; 32] {
    let mut input = parts.concat();
    // Pads to whole blocks, as Keccak did before it became SHA-3: a one bit, zeros, a one bit.
    let length = input.len();
    input.resize(length + RATE - length % RATE, 0);
    input[length] |= 0x01;
    if let Some(last) = input.last_mut() {
        *last |= 0x80;
    }
    let mut state = [0_u64; 25];
    keccak::Keccak::new().with_f1600(|f1600| {
        for block in input.chunks_exact(RATE) {
            for (lane, bytes) in state.iter_mut().zip(block.chunks_exact(8)) {
                *lane ^= bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
            }
            f1600(&mut state);
        }
    });
    let mut hash = [0; 32];
    for (bytes, lane) in hash.chunks_exact_mut(8).zip(state) {
        bytes.copy_from_slice(&lane.to_le_bytes());
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_ethereum() {
        let empty = "c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470";
        assert_eq!(const_hex::encode(keccak256(&[])), empty);
        assert_eq!(const_hex::encode(&keccak256(&[b"transfer", b"(address,uint256)"])[..4]), "a9059cbb");
    }

    #[cfg(any(feature = "evm", feature = "wallet"))]
    #[test]
    fn every_length_is_hashed_as_another_implementation_does() {
        for length in 0..=3 * RATE {
            let bytes: Vec<u8> = (0..=255).cycle().take(length).collect();
            assert_eq!(keccak256(&[&bytes]), alloy::primitives::keccak256(&bytes).0, "{length}");
        }
    }
}
