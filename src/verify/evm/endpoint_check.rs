//! `EndpointCheck`: the proof that an endpoint serves our chain and our tokens, before any of its answers is believed.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures_util::future::{join_all, try_join_all};
use serde_json::json;
use tokio::time::timeout;

use super::{
    decode,
    endpoint::{Due, Endpoint},
    single_flight::SingleFlight,
};
use crate::{
    clock::Clock,
    evm::json_rpc::{Fault, Question, Transport},
    protocol::{Address, Network},
    verify::{VerifyError, VerifyErrorKind},
};

/// A token and the decimals that it must state.
pub(super) type Token = (Address, u8);

#[derive(Debug)]
pub(super) struct EndpointCheck {
    network: Network,
    /// The tokens whose decimals a failed endpoint must state before it is believed again.
    tokens: Mutex<Vec<Token>>,
    under_way: SingleFlight<usize, ()>,
    call_timeout: Duration,
    clock: Arc<dyn Clock>,
}

/// Why an endpoint proved nothing.
#[derive(Clone, Debug)]
enum Failure {
    Silent(Fault),
    Wrong(VerifyErrorKind),
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        Self::Silent(fault)
    }
}

impl EndpointCheck {
    pub(super) fn new(network: Network, call_timeout: Duration, clock: Arc<dyn Clock>) -> Self {
        Self { network, tokens: Mutex::default(), under_way: SingleFlight::default(), call_timeout, clock }
    }

    /// Lets one endpoint prove what is due. An endpoint with a wrong answer rests, and is not believed until it has
    /// proved everything.
    pub(super) async fn prove(&self, endpoint: &Arc<Endpoint>) -> Result<(), VerifyError> {
        self.under_way.join(endpoint.index, || self.proof(Arc::clone(endpoint))).await
    }

    fn proof(&self, endpoint: Arc<Endpoint>) -> impl Future<Output = Result<(), VerifyError>> + Send + 'static {
        let tokens = if endpoint.due(self.clock.monotonic()) == Due::Everything { self.tokens() } else { Vec::new() };
        let (network, limit, clock) = (self.network, self.call_timeout, Arc::clone(&self.clock));
        let round = endpoint.round();
        async move {
            // Callers that waited for a failed proof return at once.
            if endpoint.is_shut(clock.monotonic()) {
                return Err(VerifyError::new(endpoint.wrong().unwrap_or(VerifyErrorKind::Unavailable)));
            }
            match state_all(&endpoint.transport, network, &tokens, limit).await {
                Ok(()) => {
                    endpoint.proved(round, clock.monotonic());
                    Ok(())
                }
                Err(Failure::Silent(_)) => Err(VerifyError::unavailable()),
                Err(Failure::Wrong(why)) => {
                    let error = VerifyError::new(why.clone());
                    tracing::error!(endpoint = endpoint.index, %error, "endpoint not believed until it proves otherwise");
                    endpoint.found_wrong(why, clock.monotonic());
                    Err(error)
                }
            }
        }
    }

    /// Asks all endpoints for these tokens' decimals, and remembers the tokens if no endpoint contradicts.
    pub(super) async fn accept(&self, endpoints: &[Arc<Endpoint>], tokens: Vec<Token>) -> Result<(), VerifyError> {
        let now = self.clock.monotonic();
        let heard = endpoints.iter().filter(|endpoint| endpoint.wrong().is_none() || endpoint.is_live(now));
        let tokens = &tokens;
        let statements = join_all(heard.map(|endpoint| async move {
            let round = endpoint.round();
            let stated = state_all(&endpoint.transport, self.network, tokens, self.call_timeout).await;
            let now = self.clock.monotonic();
            match &stated {
                Ok(()) => {
                    endpoint.proved(round, now);
                    endpoint.answered(round);
                }
                Err(Failure::Silent(fault)) if fault.is_of_the_endpoint() => endpoint.failed(round, now, fault.wait()),
                Err(_) => {}
            }
            stated
        }));
        let mut answer = Err(VerifyError::unavailable());
        for stated in statements.await {
            match stated {
                Ok(()) => answer = Ok(()),
                Err(Failure::Wrong(why)) => return Err(VerifyError::new(why)),
                Err(Failure::Silent(_)) => {}
            }
        }
        answer.inspect(|()| {
            let mut known = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
            let new: Vec<_> = tokens.iter().filter(|token| !known.contains(token)).copied().collect();
            known.extend(new);
        })
    }

    fn tokens(&self) -> Vec<Token> {
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Returns the chain that an endpoint claims to serve.
pub(super) async fn network_of(transport: &Transport, limit: Duration) -> Result<Network, Fault> {
    let question = Question { method: "eth_chainId", params: json!([]) };
    let answer = timeout(limit, transport.call(&question)).await.map_err(|_| Fault::Endpoint)??;
    decode::chain_id(&answer).map(Network::eip155)
}

async fn state_all(transport: &Transport, network: Network, tokens: &[Token], limit: Duration) -> Result<(), Failure> {
    let found = network_of(transport, limit).await?;
    if found != network {
        return Err(Failure::Wrong(VerifyErrorKind::WrongChain { expected: network, found }));
    }
    try_join_all(tokens.iter().map(|&token| state(transport, token, limit))).await.map(drop)
}

async fn state(transport: &Transport, (contract, expected): Token, limit: Duration) -> Result<(), Failure> {
    let question = Question { method: "eth_call", params: decode::decimals_call(contract) };
    let found = match timeout(limit, transport.call(&question)).await.unwrap_or(Err(Fault::Endpoint)) {
        Ok(answer) => decode::decimals(&answer)?,
        Err(Fault::Reverted) => None,
        Err(fault) => return Err(fault.into()),
    };
    if found == Some(expected) {
        return Ok(());
    }
    Err(Failure::Wrong(VerifyErrorKind::WrongToken { contract, expected, found }))
}
