//! Orders to the channel contract: deposits, claims, sweeps and refunds.

use alloy::primitives::{B256, keccak256};

use crate::{
    evm::{channel, erc1271},
    protocol::{
        Address, Amount, ChainTime, Network, TokenDomain,
        channel::{BATCH_SETTLEMENT, ChannelConfig, ChannelDeposit, DepositAuthorization, VoucherClaim, claim_digest},
    },
    settle::{
        ChannelRefund,
        on_chain::{CALL_GAS, row_gas},
        wallet::{
            core::Core,
            order::{self, CHANNELS_GAS_MAX, Order},
            reasons::Method,
            trace::Trace,
        },
    },
};

/// The gas limit of a deposit, which may include a contract account's check of its signature.
const DEPOSIT_GAS: u64 = 400_000;

impl Core {
    /// Returns the account that signs claims and refunds.
    pub(super) fn authorizer(&self) -> Address {
        match &self.authorizer {
            Some(signer) => Address::new(alloy::network::TxSigner::address(&**signer).into()),
            None => self.account.address,
        }
    }

    /// Signs a claim or a refund; returns `None` if the key does not sign.
    async fn authorize(&self, digest: [u8; 32]) -> Option<Vec<u8>> {
        let signer = self.authorizer.as_ref().unwrap_or(&self.account.signer);
        Some(signer.sign_hash(&B256::new(digest)).await.ok()?.as_bytes().to_vec())
    }
}

/// Returns the order of a deposit; `None` if it needs the token's domain and there is none.
pub(super) fn deposit(
    network: Network,
    config: &ChannelConfig,
    deposit: &ChannelDeposit,
    domain: Option<&TokenDomain>,
) -> Option<Order> {
    let (payer, token) = (config.payer, config.token);
    let (digest, shown, nonce, [after, expires], method, trace) = match &deposit.authorization {
        DepositAuthorization::Erc3009(by) => {
            let nonce = config.id(network).deposit_nonce(&by.salt);
            let digest = by.digest(config, deposit.amount, domain?, network);
            let trace = Trace::Authorization { token, payer, nonce };
            (digest, &by.signature, nonce, [by.valid_after, by.valid_before], Method::Deposit, trace)
        }
        DepositAuthorization::Permit2(by) => {
            // It is still valid at its deadline.
            let expires = ChainTime::from_unix(by.deadline.unix().saturating_add(1));
            let trace = Trace::Permit { payer, nonce: by.nonce };
            let times = [ChainTime::from_unix(0), expires];
            (by.digest(network), &by.signature, by.nonce, times, Method::PermitDeposit, trace)
        }
    };
    let (digest, amount) = (B256::new(digest), Amount::from_base_units(deposit.amount));
    let is_by_key = channel::deposit_signer(config, deposit, domain, network) == Some(payer);
    let input = channel::deposit(config, deposit, domain, network);
    Some(Order {
        payer,
        token,
        value: amount,
        signed: amount,
        nonce,
        valid_after: after,
        expires,
        method,
        trace,
        gas_max: DEPOSIT_GAS,
        target: BATCH_SETTLEMENT,
        shown: keccak256(&input).0,
        input,
        question: erc1271::is_valid_signature(digest, shown.as_bytes()),
        is_by_key,
        is_undeployed: order::is_undeployed(shown.as_bytes()),
    })
}

/// Returns the order of a claim of these rows; `None` if the key does not sign it.
pub(super) async fn claim(core: &Core, claims: &[VoucherClaim]) -> Option<Order> {
    let rows = claims.iter().map(|claim| (claim.voucher.channel, claim.total_claimed)).collect();
    let gas = claims.iter().map(|claim| row_gas(claim) - CALL_GAS).sum::<u64>() + CALL_GAS;
    let token = claims.first().map_or(Address::ZERO, |claim| claim.config.token);
    let name = keccak256(channel::claim_directly(claims)).0;
    Some(own(core, Method::Claim, Trace::Claims(rows), token, name, claiming(core, claims).await?, gas))
}

/// Returns the call that claims these rows, from the settling account.
async fn claiming(core: &Core, claims: &[VoucherClaim]) -> Option<Vec<u8>> {
    if core.authorizer() == core.account.address {
        return Some(channel::claim_directly(claims));
    }
    let digest = claim_digest(claims, core.account.network);
    Some(channel::claim(claims, &core.authorize(digest).await?))
}

/// Returns the order of a sweep of everything that was ever claimed.
pub(super) fn sweep(core: &Core, receiver: Address, token: Address, total: u128) -> Order {
    let input = channel::settle(receiver, token);
    let name = keccak256([&input[..], &total.to_be_bytes()].concat()).0;
    own(core, Method::Sweep, Trace::Sweep { receiver, token, total }, token, name, input, CALL_GAS)
}

/// Returns the order of a refund after its claim; `None` if the key does not sign it.
pub(super) async fn refund(core: &Core, refund: &ChannelRefund) -> Option<Order> {
    let ChannelRefund { config, amount, nonce, claim, .. } = refund;
    let id = config.id(core.account.network);
    let signature = core.authorize(id.refund_digest(*nonce, *amount, core.account.network)).await?;
    let giving_back = channel::refund(config, *amount, *nonce, &signature);
    let (input, gas) = match claim {
        Some(claim) => {
            let calls = [claiming(core, std::slice::from_ref(claim)).await?, giving_back];
            (channel::multicall(calls), CALL_GAS + row_gas(claim))
        }
        None => (giving_back, CALL_GAS),
    };
    // Two refunds with one nonce exclude each other.
    let name = keccak256([&id.as_bytes()[..], &nonce.to_be_bytes()].concat()).0;
    Some(own(core, Method::Refund, Trace::Refund { channel: id, nonce: *nonce }, config.token, name, input, gas))
}

/// Returns an order of the settling account itself.
fn own(core: &Core, method: Method, trace: Trace, token: Address, name: [u8; 32], input: Vec<u8>, gas: u64) -> Order {
    Order {
        payer: core.account.address,
        token,
        value: Amount::ZERO,
        signed: Amount::ZERO,
        nonce: name,
        valid_after: ChainTime::from_unix(0),
        expires: ChainTime::from_unix(u64::MAX),
        method,
        trace,
        gas_max: gas.min(CHANNELS_GAS_MAX),
        target: BATCH_SETTLEMENT,
        shown: keccak256(&input).0,
        input,
        question: Vec::new(),
        is_by_key: true,
        is_undeployed: false,
    }
}
