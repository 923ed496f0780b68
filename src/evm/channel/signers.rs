//! The signers of vouchers and deposits.

use alloy::primitives::B256;

use crate::{
    evm::signature,
    protocol::{
        Address, Network, TokenDomain,
        channel::{ChannelConfig, ChannelDeposit, DepositAuthorization, Voucher},
    },
};

impl Voucher {
    /// Returns the key that signed this voucher on this chain; `None` if the contract would not accept the signature
    /// from any key.
    ///
    /// The contract accepts 65 bytes with a low `s` and a `v` of 27 or 28. A voucher with any other signature is worth
    /// nothing, since it makes a whole transaction of claims fail.
    #[must_use]
    pub fn signer(&self, network: Network) -> Option<Address> {
        signature::signer_on_chain(&B256::new(self.digest(network)), self.signature.as_bytes())
    }
}

/// Returns the plain account that signed this deposit; `None` if the bytes are no valid signature, or if the deposit is
/// signed under the token's domain and that is not known.
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
        // Permit2 also accepts 64 bytes.
        DepositAuthorization::Permit2(of) => signature::signer(&B256::new(of.digest(network)), of.signature.as_bytes()),
    }
}
