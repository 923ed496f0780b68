//! Payment channels whose transactions a facilitator sends. The seller's own nodes report the channels' state and the
//! outcome of transactions.

mod asking;
mod claims;
mod deposits;
mod refunds;
mod telling;

use deposits::Question;

use super::{domains::domain_of, keeper::Keeper, settler::FacilitatorSettler};
use crate::{
    protocol::{
        Address, Network,
        channel::{
            BATCH_SETTLEMENT, ChannelConfig, ChannelDeposit, ERC3009_COLLECTOR, PERMIT2_COLLECTOR, Voucher,
            VoucherClaim,
        },
        permit2::PERMIT2,
        v2::{Reason, Supported},
    },
    settle::{
        ChannelOnChain, ChannelRefund, ChannelSettler, ClaimOutcome, SettleError, SettleErrorKind, Settlement,
        SweepOutcome, TransactionRecorder, Validity, on_chain,
    },
};

/// A facilitator checks deposits, and makes deposits, claims, sweeps and refunds. Its reports are not believed: the
/// [seller's nodes](super::ChannelSettings) must confirm them. Without such nodes there are no channels.
impl ChannelSettler for FacilitatorSettler {
    async fn receiver_authorizer(&self, network: Network, token: Address) -> Result<Option<Address>, SettleError> {
        let Some(keeper) = self.keeper(network) else { return Ok(None) };
        keeper.at().1.check()?;
        if !keeper.are_contracts(&[BATCH_SETTLEMENT, ERC3009_COLLECTOR, token]).await? {
            return Ok(None);
        }
        // The token has authorizations, but the seller has not given their domain.
        if domain_of(&self.inner.domains, network, token, None)?.is_none() && keeper.has_authorizations(token).await? {
            return Ok(None);
        }
        let own = keeper.authorizer();
        let keeps = |supported: &Supported| {
            supported.keeps_channels(network) && (own.is_some() || supported.receiver_authorizer(network).is_some())
        };
        let supported = self.inner.settles(network, keeps).await?;
        Ok(supported.and_then(|supported| own.or_else(|| supported.receiver_authorizer(network))))
    }

    async fn deposits_by_permit2(&self, network: Network, token: Address) -> Result<bool, SettleError> {
        let Some(keeper) = self.keeper(network) else { return Ok(false) };
        Ok(keeper.are_contracts(&[PERMIT2, PERMIT2_COLLECTOR, token]).await?)
    }

    async fn channel_state(&self, network: Network, config: &ChannelConfig) -> Result<ChannelOnChain, SettleError> {
        let keeper = self.on(network)?;
        Ok(on_chain::state(&keeper.nodes, keeper.at(), config).await?)
    }

    async fn channel_states(
        &self,
        network: Network,
        configs: &[ChannelConfig],
    ) -> Result<Vec<ChannelOnChain>, SettleError> {
        let keeper = self.on(network)?;
        Ok(on_chain::states(&keeper.nodes, keeper.at(), configs).await?)
    }

    async fn is_signed_by_account(
        &self,
        network: Network,
        config: &ChannelConfig,
        voucher: &Voucher,
    ) -> Result<bool, SettleError> {
        on_chain::is_signed_by_account(&self.on(network)?.nodes, (network, true), config, voucher).await
    }

    async fn verify_deposit(
        &self,
        network: Network,
        config: &ChannelConfig,
        deposit: &ChannelDeposit,
        voucher: &Voucher,
    ) -> Result<Validity, SettleError> {
        let (inner, keeper) = (&*self.inner, self.on(network)?);
        match Question::new((inner, keeper), config, deposit, voucher) {
            Ok(question) => deposits::verify(inner, keeper, &question).await,
            Err(reason) => Ok(Validity::Refused(reason)),
        }
    }

    /// The facilitator sends the transaction, so its hash is known only afterwards.
    async fn deposit(
        &self,
        network: Network,
        config: &ChannelConfig,
        deposit: &ChannelDeposit,
        voucher: &Voucher,
        _recorder: &TransactionRecorder,
    ) -> Settlement {
        let Ok(keeper) = self.on(network) else { return Settlement::Refused(Reason::INVALID_NETWORK) };
        let inner = &*self.inner;
        match Question::new((inner, keeper), config, deposit, voucher) {
            Ok(question) => deposits::make(inner, keeper, &question).await,
            Err(reason) => Settlement::Refused(reason),
        }
    }

    async fn claim(&self, network: Network, claims: &[VoucherClaim]) -> Result<ClaimOutcome, SettleError> {
        claims::claim(&self.inner, self.on(network)?, claims).await
    }

    async fn sweep(&self, network: Network, receiver: Address, token: Address) -> Result<SweepOutcome, SettleError> {
        claims::sweep(&self.inner, self.on(network)?, receiver, token).await
    }

    async fn refund(&self, network: Network, refund: &ChannelRefund, _recorder: &TransactionRecorder) -> Settlement {
        match self.on(network) {
            Ok(keeper) => refunds::give_back(&self.inner, keeper, refund).await,
            Err(_) => Settlement::Refused(Reason::INVALID_NETWORK),
        }
    }
}

impl FacilitatorSettler {
    /// Returns the channel settings of this network.
    fn keeper(&self, network: Network) -> Option<&Keeper> {
        self.inner.keeper.as_ref().filter(|keeper| keeper.network == network)
    }

    fn on(&self, network: Network) -> Result<&Keeper, SettleError> {
        self.keeper(network).ok_or_else(|| SettleError::new(SettleErrorKind::WrongChain { network }))
    }
}
