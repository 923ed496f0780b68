//! `DevChainBuilder`: configures and starts a development chain.

use std::{path::PathBuf, time::Duration};

use serde_json::json;

use super::{
    accounts::{DevAccount, KEYS, MNEMONIC},
    chain::DevChain,
    error::{DevChainError, Failure},
    install::install,
    locate::Places,
    process::Anvil,
    rpc::{Rpc, unexpected},
};
use crate::{
    protocol::{Address, Amount, Asset, ChainTime, Network, channel, permit2},
    testing::contracts::{self, Contract},
};

/// The initial balance of each account, in base units: 1,000,000 USDC.
const USDC_OF_AN_ACCOUNT: u128 = 1_000_000_000_000;

/// Configures a [`DevChain`].
#[derive(Clone, Debug)]
#[must_use = "a chain runs once `start` is awaited"]
pub struct DevChainBuilder {
    npm: bool,
    tools: Option<PathBuf>,
    chain_id: u64,
    every: Option<Duration>,
    genesis: Option<ChainTime>,
    epoch: u64,
    permit2: bool,
    channels: bool,
}

impl DevChain {
    /// Starts a chain with the defaults of [`DevChainBuilder`].
    ///
    /// # Errors
    ///
    /// Returns the errors of [`DevChainBuilder::start`].
    pub async fn start() -> Result<Self, DevChainError> {
        Self::builder().start().await
    }

    /// Returns a builder of a chain.
    pub fn builder() -> DevChainBuilder {
        DevChainBuilder::default()
    }
}

impl Default for DevChainBuilder {
    fn default() -> Self {
        Self {
            npm: false,
            tools: None,
            chain_id: 8453,
            every: Some(Duration::from_secs(2)),
            genesis: None,
            epoch: 1,
            permit2: false,
            channels: false,
        }
    }
}

impl DevChainBuilder {
    /// Sets whether npm may install `anvil` if none is found: in `tools/` of the target folder, without running scripts. Off by
    /// default.
    pub fn install_with_npm(mut self, allowed: bool) -> Self {
        self.npm = allowed;
        self
    }

    /// Sets the folder that npm installs into and that is searched for its installation. Default: `tools/` in the target folder
    /// of the running program.
    pub fn tools_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.tools = Some(folder.into());
        self
    }

    /// Sets the EIP-155 chain id, 8453 by default. USDC has its real address on that chain, or its address on Base if
    /// that chain has no USDC.
    pub fn chain_id(mut self, id: u64) -> Self {
        self.chain_id = id;
        self
    }

    /// Sets the time between blocks, two seconds by default. With `None` a block is mined only when [`DevChain::mine`] is called. Such
    /// a chain does not follow the wall clock, so give its verifier `max_head_age(None)`, or a clock that follows its blocks.
    pub fn mine_every(mut self, time: impl Into<Option<Duration>>) -> Self {
        self.every = time.into();
        self
    }

    /// Sets the time of the first block, now by default. The clock of the chain runs on from there.
    pub fn genesis_time(mut self, time: ChainTime) -> Self {
        self.genesis = Some(time);
        self
    }

    /// Sets the number of blocks that `safe` is behind `latest`, one by default. `finalized` is behind by twice as many.
    pub fn safe_depth(mut self, blocks: u64) -> Self {
        self.epoch = blocks;
        self
    }

    /// Puts Permit2 and the standard's two proxies at their official addresses: the contracts that settle a
    /// [permit](crate::protocol::permit2).
    pub fn with_permit2(mut self) -> Self {
        self.permit2 = true;
        self
    }

    /// Puts the standard's contract of [payment channels](crate::protocol::channel) and its two collectors of deposits at their official
    /// addresses, and Permit2, which one of them uses.
    pub fn with_channels(mut self) -> Self {
        self.channels = true;
        self
    }

    /// Starts the chain. Looks for `anvil` in `$X402_ANVIL`, on `PATH` and in `tools/` of the target folder.
    ///
    /// # Errors
    ///
    /// Returns [`DevChainError`], which names the missing program and its source, or the reason why `anvil` does not
    /// run.
    pub async fn start(self) -> Result<DevChain, DevChainError> {
        let places = Places::of_this_process(self.tools.clone());
        let program = match (places.find()?, self.npm) {
            (Some(program), _) => program,
            (None, true) => install(&places.tools.ok_or(Failure::NoToolsFolder)?).await?,
            (None, false) => return Err(Failure::NotFound.into()),
        };
        let anvil = Anvil::start(&program, &self.arguments()).await?;
        let rpc = Rpc::new(format!("http://127.0.0.1:{}", anvil.port()))?;
        let chain = DevChain {
            accounts: accounts(&rpc).await?,
            rpc,
            chain_id: self.chain_id,
            usdc: usdc_of(self.chain_id),
            every: self.every.map(|time| time.as_secs() + u64::from(time.subsec_nanos() > 0)),
            sending: tokio::sync::Mutex::default(),
            anvil,
        };
        chain.set_code(chain.usdc, contracts::USDC.runtime).await?;
        for (address, contract) in self.contracts() {
            chain.set_code(address, contract.runtime).await?;
        }
        for account in &chain.accounts {
            chain.set_usdc(account.address(), Amount::from_base_units(USDC_OF_AN_ACCOUNT)).await?;
        }
        Ok(chain)
    }

    /// Returns the contracts to install, with their official addresses.
    fn contracts(&self) -> Vec<(Address, Contract)> {
        let permit2 = [(permit2::PERMIT2, contracts::PERMIT2)];
        let proxies = [(permit2::EXACT_PROXY, contracts::EXACT_PROXY), (permit2::UPTO_PROXY, contracts::UPTO_PROXY)];
        let channels = [
            (channel::BATCH_SETTLEMENT, contracts::BATCH_SETTLEMENT),
            (channel::ERC3009_COLLECTOR, contracts::ERC3009_COLLECTOR),
            (channel::PERMIT2_COLLECTOR, contracts::PERMIT2_COLLECTOR),
        ];
        let wanted =
            [(self.permit2 || self.channels, &permit2[..]), (self.permit2, &proxies), (self.channels, &channels)];
        wanted.into_iter().filter(|(wanted, _)| *wanted).flat_map(|(_, contracts)| contracts.to_vec()).collect()
    }

    fn arguments(&self) -> Vec<String> {
        let mut arguments = vec![format!("--mnemonic={MNEMONIC}"), format!("--chain-id={}", self.chain_id)];
        arguments.push(format!("--slots-in-an-epoch={}", self.epoch));
        // Blocks keep the order in which transactions were sent, and have room for all of them.
        arguments.extend(["--order=fifo".to_owned(), "--gas-limit=400000000".to_owned()]);
        arguments.push(match self.every {
            Some(time) => format!("--block-time={}", time.as_secs_f64()),
            None => "--no-mining".to_owned(),
        });
        arguments.extend(self.genesis.map(|time| format!("--timestamp={}", time.unix())));
        arguments
    }
}

/// Returns the real address of USDC on this chain, or its address on Base if there is none.
fn usdc_of(chain_id: u64) -> Address {
    Asset::usdc_of(Network::eip155(chain_id)).unwrap_or(Asset::USDC_BASE).contract()
}

async fn accounts(rpc: &Rpc) -> Result<Vec<DevAccount>, DevChainError> {
    let method = "eth_accounts";
    let answer = rpc.call(method, json!([])).await?;
    let addresses: Vec<String> = serde_json::from_value(answer).map_err(|_| unexpected(method))?;
    let account = |(address, key): (&String, _)| address.parse().ok().map(|address| DevAccount::new(address, key));
    let accounts: Option<Vec<_>> = addresses.iter().zip(KEYS).map(account).collect();
    accounts.filter(|accounts| accounts.len() == KEYS.len()).ok_or_else(|| unexpected(method))
}
