//! Payment channels, kept by a key of the seller's own.

mod claims;
mod deposits;
mod orders;
mod refunds;
mod state;

use super::{SETTLED_WITHIN, WalletSettler, checks, core::Core};
use crate::{
    evm::{
        channel::{self, Due},
        wallet::node::{Call, Failure},
    },
    protocol::{
        Address, Amount, Network,
        channel::{BATCH_SETTLEMENT, ChannelConfig, ChannelDeposit, ERC3009_COLLECTOR, Voucher, VoucherClaim},
        v2::Reason,
    },
    settle::{
        ChannelOnChain, ChannelRefund, ChannelSettler, ClaimOutcome, SettleError, SettleErrorKind, Settlement,
        SweepOutcome, TransactionRecorder, Validity,
    },
};

/// The most gas that the contract may take to tell what is claimed for a receiver.
const RECEIVER_GAS: u64 = 100_000;

/// Everything is tried before it is sent, as it is for payments. Claims are sent by the receiver authorizer itself, or with its signature
/// where that is [another account](super::WalletSettlerBuilder::receiver_authorizer_key).
impl ChannelSettler for WalletSettler {
    async fn receiver_authorizer(&self, network: Network, token: Address) -> Result<Option<Address>, SettleError> {
        let core = self.on(network)?;
        for contract in [BATCH_SETTLEMENT, ERC3009_COLLECTOR, token] {
            if !core.account.nodes.first(|node| node.has_code(contract)).await? {
                return Ok(None);
            }
        }
        Ok(Some(core.authorizer()))
    }

    async fn channel_state(&self, network: Network, config: &ChannelConfig) -> Result<ChannelOnChain, SettleError> {
        Ok(state::read(self.on(network)?, config).await?)
    }

    async fn channel_states(
        &self,
        network: Network,
        configs: &[ChannelConfig],
    ) -> Result<Vec<ChannelOnChain>, SettleError> {
        Ok(state::read_all(self.on(network)?, configs).await?)
    }

    async fn is_signed_by_account(
        &self,
        network: Network,
        config: &ChannelConfig,
        voucher: &Voucher,
    ) -> Result<bool, SettleError> {
        state::is_signed_by_account(self.on(network)?, config, voucher).await
    }

    async fn verify_deposit(
        &self,
        network: Network,
        config: &ChannelConfig,
        deposit: &ChannelDeposit,
    ) -> Result<Validity, SettleError> {
        deposits::verify(self.on(network)?, config, deposit).await
    }

    async fn deposit(
        &self,
        network: Network,
        config: &ChannelConfig,
        deposit: &ChannelDeposit,
        recorder: &TransactionRecorder,
    ) -> Settlement {
        let Ok(core) = self.on(network) else { return Settlement::Refused(Reason::INVALID_NETWORK) };
        match deposits::ordered(core, config, deposit).await {
            Ok(Ok(order)) => self.settle_order(order, recorder, SETTLED_WITHIN).await,
            Ok(Err(reason)) => Settlement::Refused(reason),
            Err(_) => Settlement::Unknown(None),
        }
    }

    async fn claim(&self, network: Network, claims: &[VoucherClaim]) -> Result<ClaimOutcome, SettleError> {
        self.on(network)?;
        claims::claim(self, claims).await
    }

    async fn sweep(&self, network: Network, receiver: Address, token: Address) -> Result<SweepOutcome, SettleError> {
        let core = self.on(network)?;
        let due = receiver_of(core, receiver, token).await?;
        let Some(amount) = due.total_claimed.checked_sub(due.total_settled).filter(|amount| *amount > 0) else {
            return Ok(SweepOutcome::Nothing);
        };
        let order = orders::sweep(core, receiver, token, due.total_claimed);
        checks::affords(core, order.gas_max).await?;
        let amount = Amount::from_base_units(amount);
        Ok(match self.settle_order(order, &TransactionRecorder::none(), SETTLED_WITHIN).await {
            Settlement::Settled(transaction) => SweepOutcome::Swept { transaction, amount },
            Settlement::Refused(reason) => SweepOutcome::Refused(reason),
            Settlement::Unknown(transaction) => SweepOutcome::Unknown(transaction),
        })
    }

    async fn refund(&self, network: Network, refund: &ChannelRefund, recorder: &TransactionRecorder) -> Settlement {
        let Ok(core) = self.on(network) else { return Settlement::Refused(Reason::INVALID_NETWORK) };
        match refunds::ordered(core, refund).await {
            Ok(order) => refunds::outcome(self.settle_order(order, recorder, SETTLED_WITHIN).await),
            Err(outcome) => outcome,
        }
    }
}

impl WalletSettler {
    /// What it has in common with its clones, if it settles on this chain.
    fn on(&self, network: Network) -> Result<&Core, SettleError> {
        let is_here = network == self.core.account.network;
        is_here.then_some(&*self.core).ok_or_else(|| SettleError::new(SettleErrorKind::WrongChain { network }))
    }
}

/// How much was ever claimed for a receiver in a token, and how much of it was swept.
async fn receiver_of(core: &Core, receiver: Address, token: Address) -> Result<Due, Failure> {
    let question = channel::receivers(receiver, token);
    let call = Call { from: receiver, to: BATCH_SETTLEMENT, data: &question, gas: RECEIVER_GAS, fees: None };
    let returned = core.account.nodes.first(|node| node.run(&call, "latest")).await?;
    returned.ok().and_then(|returned| channel::read_due(&returned)).ok_or(Failure::Nonsense)
}
