//! Combines several questions to the channel contract in one call, so that their answers belong to one state.

use alloy::primitives::Bytes;

use crate::{
    evm::channel,
    protocol::{Amount, ChainTime, channel::ChannelId},
    settle::ChannelOnChain,
};

/// Asks for the state of these channels.
pub(super) fn states(channels: &[ChannelId]) -> Vec<u8> {
    let of_one =
        |id: &ChannelId| [channel::channels(*id), channel::pending_withdrawals(*id), channel::refund_nonce(*id)];
    channel::multicall(channels.iter().flat_map(of_one))
}

/// Reads the answer about this many channels; returns `None` if it is malformed.
pub(super) fn read_states(returned: &[u8], channels: usize) -> Option<Vec<ChannelOnChain>> {
    let results = channel::read_results(returned)?;
    let (results, rest) = results.as_chunks::<3>();
    if results.len() != channels || !rest.is_empty() {
        return None;
    }
    results.iter().map(read_state).collect()
}

fn read_state([holding, withdrawal, nonce]: &[Bytes; 3]) -> Option<ChannelOnChain> {
    let (holding, withdrawal) = (channel::read_channel(holding)?, channel::read_withdrawal(withdrawal)?);
    let [balance, claimed, withdrawing] =
        [holding.balance, holding.total_claimed, withdrawal.amount].map(Amount::from_base_units);
    let state = ChannelOnChain::new(balance, claimed).with_refund_nonce(channel::read_refund_nonce(nonce)?);
    Some(match withdrawal.initiated_at {
        0 => state,
        at => state.with_withdrawal(withdrawing, ChainTime::from_unix(at)),
    })
}

/// Asks for the claimed total of each of these channels.
pub(super) fn claimed_of(channels: impl IntoIterator<Item = ChannelId>) -> Vec<u8> {
    channel::multicall(channels.into_iter().map(channel::channels))
}

/// Reads that answer, in the same order.
pub(super) fn read_claimed_of(returned: &[u8]) -> Option<Vec<u128>> {
    let results = channel::read_results(returned)?;
    results.iter().map(|result| Some(channel::read_channel(result)?.total_claimed)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Encodes `bytes[]` as in the ABI, for items of whole words.
    fn results(results: &[&[u128]]) -> Vec<u8> {
        let word = |number: u128| [&[0; 16][..], &number.to_be_bytes()].concat();
        let mut at = 32 * results.len() as u128;
        let (mut offsets, mut items) = (Vec::new(), Vec::new());
        for words in results {
            offsets.extend(word(at));
            items.extend(word(32 * words.len() as u128));
            items.extend(words.iter().flat_map(|number| word(*number)));
            at += 32 + 32 * words.len() as u128;
        }
        [word(32), word(results.len() as u128), offsets, items].concat()
    }

    #[test]
    fn a_state_is_read_whole_or_not() {
        let units = Amount::from_base_units;
        let state = ChannelOnChain::new(units(90), units(40)).with_refund_nonce(3);
        assert_eq!(read_states(&results(&[&[90, 40], &[0, 0], &[3]]), 1), Some(vec![state]));
        let withdrawing = state.with_withdrawal(units(50), ChainTime::from_unix(7));
        assert_eq!(read_states(&results(&[&[90, 40], &[50, 7], &[3]]), 1), Some(vec![withdrawing]));
        let two = results(&[&[90, 40], &[0, 0], &[3], &[90, 40], &[50, 7], &[3]]);
        assert_eq!(read_states(&two, 2), Some(vec![state, withdrawing]));
        assert_eq!(read_states(&two, 1), None);
        for other in [
            &results(&[&[90, 40], &[0, 0]])[..],
            &results(&[&[90, 40], &[0, 0], &[]]),
            &results(&[&[90], &[0, 0], &[3]]),
            &results(&[&[90, 40], &[0, 0], &[3], &[0]]),
            &[],
            &[0; 32],
        ] {
            assert_eq!(read_states(other, 1), None);
        }
        assert_eq!(read_claimed_of(&results(&[&[90, 40], &[5, 5]])), Some(vec![40, 5]));
        assert_eq!(read_claimed_of(&results(&[&[90, 40], &[5]])), None);
    }
}
