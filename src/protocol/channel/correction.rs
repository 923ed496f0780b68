//! `Correction`: what a corrective 402 says in `extra`, so that a payer who lost count goes on.

use super::{ChannelState, VoucherState};
use crate::protocol::{Address, Network, v2::ascii::to_ascii_json};

/// The members of a corrective 402, in JSON, for the one way to pay that is by this channel's token.
#[derive(Debug)]
pub(crate) struct Correction {
    network: Network,
    token: Address,
    members: String,
}

impl Correction {
    /// `voucher`: the last one that is known, which only its payer may see. A client that is told of none begins at what is claimed.
    pub(crate) fn new(network: Network, token: Address, state: &ChannelState, voucher: Option<&VoucherState>) -> Self {
        let mut members = format!(r#","channelState":{}"#, to_ascii_json(state));
        if let Some(voucher) = voucher {
            members.push_str(&format!(r#","voucherState":{}"#, to_ascii_json(voucher)));
        }
        Self { network, token, members }
    }

    /// The members, each behind a comma, if they are for a way to pay of this token.
    pub(crate) fn members_for(&self, network: Network, token: Address) -> Option<&str> {
        ((self.network, self.token) == (network, token)).then_some(&*self.members)
    }

    /// How long the members are.
    pub(crate) const fn len(&self) -> usize {
        self.members.len()
    }
}
