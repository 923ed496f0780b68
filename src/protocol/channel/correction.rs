//! `Correction`: the members of a corrective 402's `extra`, from which a payer that lost count recovers.

use super::{ChannelState, VoucherState};
use crate::protocol::{Address, Network, v2::ascii::to_ascii_json};

/// The JSON members of a corrective 402, for the one way to pay by this channel's token.
#[derive(Debug)]
pub(crate) struct Correction {
    network: Network,
    token: Address,
    members: String,
}

impl Correction {
    /// Creates a correction. `voucher` is the last known voucher, which only its payer may see. Without one, a client
    /// starts from the claimed total.
    pub(crate) fn new(network: Network, token: Address, state: &ChannelState, voucher: Option<&VoucherState>) -> Self {
        let mut members = format!(r#","channelState":{}"#, to_ascii_json(state));
        if let Some(voucher) = voucher {
            members.push_str(&format!(r#","voucherState":{}"#, to_ascii_json(voucher)));
        }
        Self { network, token, members }
    }

    /// Returns the members, each preceded by a comma, if they are for this token.
    pub(crate) fn members_for(&self, network: Network, token: Address) -> Option<&str> {
        ((self.network, self.token) == (network, token)).then_some(&*self.members)
    }

    /// Returns the length of the members.
    pub(crate) const fn len(&self) -> usize {
        self.members.len()
    }
}
