//! `ClientInner`: the state that all calls of one layer share.

use std::sync::Arc;

use super::{
    Budget, PayerError,
    flow::{progress::OnProgress, registry::PurchaseRegistry},
    payer::{ErasedAuthorizer, ErasedChannelSigner, ErasedPayer, ErasedPermitSigner},
    settings::Settings,
    way::DispatchContext,
};
use crate::{clock::Clock, protocol::ChainTime};

pub(super) struct ClientInner {
    pub(super) payer: Box<dyn ErasedPayer>,
    pub(super) budget: Budget,
    pub(super) registry: PurchaseRegistry,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) on_progress: Option<Arc<OnProgress>>,
    pub(super) settings: Settings,
}

impl ClientInner {
    pub(super) fn now(&self) -> ChainTime {
        ChainTime::from_unix(self.clock.unix())
    }

    /// Returns the payer's capability to sign authorizations.
    pub(super) fn authorizer(&self) -> Result<&dyn ErasedAuthorizer, PayerError> {
        self.payer.authorizations().ok_or(PayerError::Refused("this payer signs no authorizations"))
    }

    /// Returns the payer's capability to sign permits.
    pub(super) fn permit_signer(&self) -> Result<&dyn ErasedPermitSigner, PayerError> {
        self.payer.permits().ok_or(PayerError::Refused("this payer signs no permits"))
    }

    /// Returns the payer's capability to pay by channels.
    pub(super) fn channel_signer(&self) -> Result<&dyn ErasedChannelSigner, PayerError> {
        self.payer.channels().ok_or(PayerError::Refused("this payer opens no channels"))
    }

    /// Returns the parts of the client that drive a transaction.
    pub(super) fn dispatch_context(&self) -> DispatchContext<'_> {
        let Self { budget, registry, settings, .. } = self;
        DispatchContext { payer: &*self.payer, clock: &*self.clock, settings, budget, registry }
    }
}
