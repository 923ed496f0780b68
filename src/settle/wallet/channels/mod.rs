//! Payment channels operated with the seller's own key.

mod claims;
mod cost;
mod deposits;
mod orders;
mod refunds;

use super::{WalletSettler, checks, core::Core};
use crate::{
    protocol::{
        Address, Amount, Network,
        channel::{
            BATCH_SETTLEMENT, ChannelConfig, ChannelDeposit, ERC3009_COLLECTOR, PERMIT2_COLLECTOR, Voucher,
            VoucherClaim,
        },
        permit2::PERMIT2,
        v2::Reason,
    },
    settle::{
        ChannelOnChain, ChannelRefund, ChannelSettler, ClaimOutcome, SettleError, SettleErrorKind, Settlement,
        SweepOutcome, TransactionRecorder, Validity, on_chain,
    },
};

/// Every transaction is tried before it is sent, as for payments. The receiver authorizer sends claims itself; if it is
/// [another account](super::WalletSettlerBuilder::receiver_authorizer_key), the settling account sends them with its
/// signature.
impl ChannelSettler for WalletSettler {
    async fn receiver_authorizer(&self, network: Network, token: Address) -> Result<Option<Address>, SettleError> {
        let core = self.on(network)?;
        core.depths().check()?;
        if !core.account.nodes.are_contracts(&[BATCH_SETTLEMENT, ERC3009_COLLECTOR, token]).await? {
            return Ok(None);
        }
        Ok(Some(core.authorizer()))
    }

    async fn deposits_by_permit2(&self, network: Network, token: Address) -> Result<bool, SettleError> {
        let core = self.on(network)?;
        Ok(core.account.nodes.are_contracts(&[PERMIT2, PERMIT2_COLLECTOR, token]).await?)
    }

    async fn channel_state(&self, network: Network, config: &ChannelConfig) -> Result<ChannelOnChain, SettleError> {
        let core = self.on(network)?;
        Ok(on_chain::state(&core.account.nodes, (network, core.depths()), config).await?)
    }

    async fn channel_states(
        &self,
        network: Network,
        configs: &[ChannelConfig],
    ) -> Result<Vec<ChannelOnChain>, SettleError> {
        let core = self.on(network)?;
        Ok(on_chain::states(&core.account.nodes, (network, core.depths()), configs).await?)
    }

    async fn is_signed_by_account(
        &self,
        network: Network,
        config: &ChannelConfig,
        voucher: &Voucher,
    ) -> Result<bool, SettleError> {
        let core = self.on(network)?;
        let told = (network, core.policy.contract_accounts);
        on_chain::is_signed_by_account(&core.account.nodes, told, config, voucher).await
    }

    async fn verify_deposit(
        &self,
        network: Network,
        config: &ChannelConfig,
        deposit: &ChannelDeposit,
        _voucher: &Voucher,
    ) -> Result<Validity, SettleError> {
        deposits::verify(self.on(network)?, config, deposit).await
    }

    async fn deposit(
        &self,
        network: Network,
        config: &ChannelConfig,
        deposit: &ChannelDeposit,
        _voucher: &Voucher,
        recorder: &TransactionRecorder,
    ) -> Settlement {
        let Ok(core) = self.on(network) else { return Settlement::Refused(Reason::INVALID_NETWORK) };
        match deposits::ordered(core, config, deposit).await {
            Ok(Ok(order)) => self.settle_order(order, recorder, self.core.policy.settled_within).await,
            Ok(Err(reason)) => Settlement::Refused(reason),
            Err(_) => Settlement::Unknown(None),
        }
    }

    async fn claim(&self, network: Network, claims: &[VoucherClaim]) -> Result<ClaimOutcome, SettleError> {
        self.on(network)?;
        claims::claim(self, claims).await
    }

    async fn claim_cost(
        &self,
        network: Network,
        token: Address,
        channels: usize,
    ) -> Result<Option<Amount>, SettleError> {
        let core = self.on(network)?;
        let Some(coin) = core.policy.coin_prices.get(&token) else { return Ok(None) };
        Ok(Some(cost::of_claims(channels, core.account.fees().await?, *coin)))
    }

    async fn sweep(&self, network: Network, receiver: Address, token: Address) -> Result<SweepOutcome, SettleError> {
        let core = self.on(network)?;
        let due = on_chain::due(&core.account.nodes, receiver, token).await?;
        let Some(amount) = due.total_claimed.checked_sub(due.total_settled).filter(|amount| *amount > 0) else {
            return Ok(SweepOutcome::Nothing);
        };
        let order = orders::sweep(core, receiver, token, due.total_claimed);
        checks::affords(core, order.gas_max).await?;
        let amount = Amount::from_base_units(amount);
        Ok(match self.settle_order(order, &TransactionRecorder::none(), self.core.policy.settled_within).await {
            Settlement::Settled(transaction) => SweepOutcome::Swept { transaction, amount },
            Settlement::Refused(reason) => SweepOutcome::Refused(reason),
            Settlement::Unknown(transaction) => SweepOutcome::Unknown(transaction),
        })
    }

    async fn refund(&self, network: Network, refund: &ChannelRefund, recorder: &TransactionRecorder) -> Settlement {
        let Ok(core) = self.on(network) else { return Settlement::Refused(Reason::INVALID_NETWORK) };
        match refunds::ordered(core, refund).await {
            Ok(order) => refunds::outcome(self.settle_order(order, recorder, self.core.policy.settled_within).await),
            Err(outcome) => outcome,
        }
    }
}

impl WalletSettler {
    /// Returns the core, if the settler works on this network.
    fn on(&self, network: Network) -> Result<&Core, SettleError> {
        let is_here = network == self.core.account.network;
        is_here.then_some(&*self.core).ok_or_else(|| SettleError::new(SettleErrorKind::WrongChain { network }))
    }
}
