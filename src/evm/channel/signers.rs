//! Who signed.

use alloy::primitives::B256;

use crate::{
    evm::signature,
    protocol::{
        Address, Network, TokenDomain,
        channel::{ChannelConfig, ChannelDeposit, DepositAuthorization, Voucher},
    },
};

impl Voucher {
    /// Returns the key that signed this voucher on this chain; `None` where the contract takes no such signature from any key.
    ///
    /// That is 65 bytes with a low `s`, and a `v` of 27 or 28. One voucher with any other signature makes a whole transaction of claims
    /// fail, so that it is worth nothing.
    #[must_use]
    pub fn signer(&self, network: Network) -> Option<Address> {
        signature::signer_on_chain(&B256::new(self.digest(network)), self.signature.as_bytes())
    }
}

/// Returns the plain account that signed this deposit; `None` where those bytes are no signature of one, or where the token's domain is not
/// known and the deposit is signed by it.
pub(crate) fn deposit_signer(
    channel: &ChannelConfig,
    deposit: &ChannelDeposit,
    domain: Option<&TokenDomain>,
    network: Network,
) -> Option<Address> {
    match &deposit.authorization {
        DepositAuthorization::Erc3009(of) => {
            let digest = of.digest(channel, deposit.amount, domain?, network);
            signature::signer_of_65(&B256::new(digest), of.signature.as_bytes())
        }
        // Permit2 takes 64 bytes too.
        DepositAuthorization::Permit2(of) => signature::signer(&B256::new(of.digest(network)), of.signature.as_bytes()),
    }
}
