//! The object-safe twins of [`Settler`], [`PermitSettler`] and [`ChannelSettler`], so that the layer is not generic
//! over them.

use std::{future::Future, pin::Pin};

use super::{
    ChannelOnChain, ChannelRefund, ChannelSettler, ClaimOutcome, PermitPayment, PermitSettler, PermitTerms,
    SettleError, Settlement, Settler, SignedPayment, SweepOutcome, TransactionRecorder, Validity,
};
use crate::protocol::{
    Address, Amount, Network, TokenDomain,
    channel::{ChannelConfig, ChannelDeposit, Voucher, VoucherClaim},
    permit2::PermitScheme,
};

type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

pub(crate) trait ErasedSettler: Send + Sync + 'static {
    fn domain<'a>(
        &'a self,
        network: Network,
        token: Address,
        stated: Option<&'a TokenDomain>,
    ) -> Boxed<'a, Result<Option<TokenDomain>, SettleError>>;
    fn verify<'a>(&'a self, payment: &'a SignedPayment) -> Boxed<'a, Result<Validity, SettleError>>;
    fn is_signed_by_key(&self, payment: &SignedPayment) -> bool;
    fn settle<'a>(&'a self, payment: &'a SignedPayment, recorder: &'a TransactionRecorder) -> Boxed<'a, Settlement>;
    fn health(&self) -> Boxed<'_, Result<(), SettleError>>;
}

impl<S: Settler> ErasedSettler for S {
    fn domain<'a>(
        &'a self,
        network: Network,
        token: Address,
        stated: Option<&'a TokenDomain>,
    ) -> Boxed<'a, Result<Option<TokenDomain>, SettleError>> {
        Box::pin(Settler::domain(self, network, token, stated))
    }

    fn verify<'a>(&'a self, payment: &'a SignedPayment) -> Boxed<'a, Result<Validity, SettleError>> {
        Box::pin(Settler::verify(self, payment))
    }

    fn is_signed_by_key(&self, payment: &SignedPayment) -> bool {
        Settler::is_signed_by_key(self, payment)
    }

    fn settle<'a>(&'a self, payment: &'a SignedPayment, recorder: &'a TransactionRecorder) -> Boxed<'a, Settlement> {
        Box::pin(Settler::settle(self, payment, recorder))
    }

    fn health(&self) -> Boxed<'_, Result<(), SettleError>> {
        Box::pin(Settler::health(self))
    }
}

pub(crate) trait ErasedPermitSettler: Send + Sync + 'static {
    fn terms(
        &self,
        network: Network,
        token: Address,
        scheme: PermitScheme,
    ) -> Boxed<'_, Result<Option<PermitTerms>, SettleError>>;
    fn verify<'a>(&'a self, payment: &'a PermitPayment) -> Boxed<'a, Result<Validity, SettleError>>;
    fn is_signed_by_key(&self, payment: &PermitPayment) -> bool;
    fn settle<'a>(
        &'a self,
        payment: &'a PermitPayment,
        charge: Amount,
        recorder: &'a TransactionRecorder,
    ) -> Boxed<'a, Settlement>;
}

impl<S: PermitSettler> ErasedPermitSettler for S {
    fn terms(
        &self,
        network: Network,
        token: Address,
        scheme: PermitScheme,
    ) -> Boxed<'_, Result<Option<PermitTerms>, SettleError>> {
        Box::pin(PermitSettler::permit_terms(self, network, token, scheme))
    }

    fn verify<'a>(&'a self, payment: &'a PermitPayment) -> Boxed<'a, Result<Validity, SettleError>> {
        Box::pin(PermitSettler::verify_permit(self, payment))
    }

    fn is_signed_by_key(&self, payment: &PermitPayment) -> bool {
        PermitSettler::is_permit_signed_by_key(self, payment)
    }

    fn settle<'a>(
        &'a self,
        payment: &'a PermitPayment,
        charge: Amount,
        recorder: &'a TransactionRecorder,
    ) -> Boxed<'a, Settlement> {
        Box::pin(PermitSettler::settle_permit(self, payment, charge, recorder))
    }
}

pub(crate) trait ErasedChannelSettler: Send + Sync + 'static {
    fn receiver_authorizer(&self, network: Network, token: Address) -> Boxed<'_, Result<Option<Address>, SettleError>>;
    fn deposits_by_permit2(&self, network: Network, token: Address) -> Boxed<'_, Result<bool, SettleError>>;
    fn channel_state<'a>(
        &'a self,
        network: Network,
        config: &'a ChannelConfig,
    ) -> Boxed<'a, Result<ChannelOnChain, SettleError>>;
    fn channel_states<'a>(
        &'a self,
        network: Network,
        configs: &'a [ChannelConfig],
    ) -> Boxed<'a, Result<Vec<ChannelOnChain>, SettleError>>;
    fn is_signed_by_account<'a>(
        &'a self,
        network: Network,
        config: &'a ChannelConfig,
        voucher: &'a Voucher,
    ) -> Boxed<'a, Result<bool, SettleError>>;
    fn verify_deposit<'a>(
        &'a self,
        network: Network,
        config: &'a ChannelConfig,
        deposit: &'a ChannelDeposit,
        voucher: &'a Voucher,
    ) -> Boxed<'a, Result<Validity, SettleError>>;
    fn deposit<'a>(
        &'a self,
        network: Network,
        config: &'a ChannelConfig,
        deposit: &'a ChannelDeposit,
        voucher: &'a Voucher,
        recorder: &'a TransactionRecorder,
    ) -> Boxed<'a, Settlement>;
    fn claim<'a>(
        &'a self,
        network: Network,
        claims: &'a [VoucherClaim],
    ) -> Boxed<'a, Result<ClaimOutcome, SettleError>>;
    fn claim_cost(
        &self,
        network: Network,
        token: Address,
        channels: usize,
    ) -> Boxed<'_, Result<Option<Amount>, SettleError>>;
    fn sweep(
        &self,
        network: Network,
        receiver: Address,
        token: Address,
    ) -> Boxed<'_, Result<SweepOutcome, SettleError>>;
    fn refund<'a>(
        &'a self,
        network: Network,
        refund: &'a ChannelRefund,
        recorder: &'a TransactionRecorder,
    ) -> Boxed<'a, Settlement>;
}

impl<S: ChannelSettler> ErasedChannelSettler for S {
    fn receiver_authorizer(&self, network: Network, token: Address) -> Boxed<'_, Result<Option<Address>, SettleError>> {
        Box::pin(ChannelSettler::receiver_authorizer(self, network, token))
    }

    fn deposits_by_permit2(&self, network: Network, token: Address) -> Boxed<'_, Result<bool, SettleError>> {
        Box::pin(ChannelSettler::deposits_by_permit2(self, network, token))
    }

    fn channel_state<'a>(
        &'a self,
        network: Network,
        config: &'a ChannelConfig,
    ) -> Boxed<'a, Result<ChannelOnChain, SettleError>> {
        Box::pin(ChannelSettler::channel_state(self, network, config))
    }

    fn channel_states<'a>(
        &'a self,
        network: Network,
        configs: &'a [ChannelConfig],
    ) -> Boxed<'a, Result<Vec<ChannelOnChain>, SettleError>> {
        Box::pin(ChannelSettler::channel_states(self, network, configs))
    }

    fn is_signed_by_account<'a>(
        &'a self,
        network: Network,
        config: &'a ChannelConfig,
        voucher: &'a Voucher,
    ) -> Boxed<'a, Result<bool, SettleError>> {
        Box::pin(ChannelSettler::is_signed_by_account(self, network, config, voucher))
    }

    fn verify_deposit<'a>(
        &'a self,
        network: Network,
        config: &'a ChannelConfig,
        deposit: &'a ChannelDeposit,
        voucher: &'a Voucher,
    ) -> Boxed<'a, Result<Validity, SettleError>> {
        Box::pin(ChannelSettler::verify_deposit(self, network, config, deposit, voucher))
    }

    fn deposit<'a>(
        &'a self,
        network: Network,
        config: &'a ChannelConfig,
        deposit: &'a ChannelDeposit,
        voucher: &'a Voucher,
        recorder: &'a TransactionRecorder,
    ) -> Boxed<'a, Settlement> {
        Box::pin(ChannelSettler::deposit(self, network, config, deposit, voucher, recorder))
    }

    fn claim<'a>(
        &'a self,
        network: Network,
        claims: &'a [VoucherClaim],
    ) -> Boxed<'a, Result<ClaimOutcome, SettleError>> {
        Box::pin(ChannelSettler::claim(self, network, claims))
    }

    fn claim_cost(
        &self,
        network: Network,
        token: Address,
        channels: usize,
    ) -> Boxed<'_, Result<Option<Amount>, SettleError>> {
        Box::pin(ChannelSettler::claim_cost(self, network, token, channels))
    }

    fn sweep(
        &self,
        network: Network,
        receiver: Address,
        token: Address,
    ) -> Boxed<'_, Result<SweepOutcome, SettleError>> {
        Box::pin(ChannelSettler::sweep(self, network, receiver, token))
    }

    fn refund<'a>(
        &'a self,
        network: Network,
        refund: &'a ChannelRefund,
        recorder: &'a TransactionRecorder,
    ) -> Boxed<'a, Settlement> {
        Box::pin(ChannelSettler::refund(self, network, refund, recorder))
    }
}
