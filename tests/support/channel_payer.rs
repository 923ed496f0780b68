//! `ChannelPayer`: opens a payment channel on a local chain by hand, signs vouchers, and withdraws.

use alloy::{
    primitives::B256,
    signers::{SignerSync as _, local::PrivateKeySigner},
};
use tower_x402::{
    protocol::{
        Address, ChainTime, Network, PaymentSignature, TokenDomain,
        channel::{
            BATCH_SETTLEMENT, ChannelConfig, ChannelDeposit, ChannelPayload, Erc3009Deposit, Permit2Deposit, Voucher,
        },
        v2::{ChannelRequirements, PaymentPayload},
    },
    testing::{
        DevChain,
        contracts::{self, Word},
    },
};

/// How the contract names a channel.
const CONFIG: &str = "(address,address,address,address,address,uint40,bytes32)";

/// A payer with one channel.
pub struct ChannelPayer<'a> {
    chain: &'a DevChain,
    key: PrivateKeySigner,
    pub address: Address,
    pub config: ChannelConfig,
}

impl<'a> ChannelPayer<'a> {
    /// An account of the chain, with the channel that this offer asks for.
    pub fn of(chain: &'a DevChain, account: usize, offer: &ChannelRequirements) -> Self {
        let account = &chain.accounts()[account];
        let (key, address) = (account.private_key().parse().unwrap(), account.address());
        Self { chain, key, address, config: offer.channel_of(address, [1; 32]).unwrap() }
    }

    fn sign(&self, digest: [u8; 32]) -> PaymentSignature {
        PaymentSignature::new(self.key.sign_hash_sync(&B256::new(digest)).unwrap().as_bytes()).unwrap()
    }

    fn voucher(&self, total: u128) -> Voucher {
        let id = self.config.id(Network::BASE);
        Voucher::new(id, total, self.sign(id.voucher_digest(total, Network::BASE)))
    }

    pub fn voucher_payload(&self, total: u128) -> ChannelPayload {
        ChannelPayload::Voucher { channel_config: self.config, voucher: self.voucher(total) }
    }

    pub fn pays(&self, offer: &ChannelRequirements, total: u128) -> PaymentPayload {
        PaymentPayload::new(offer.clone(), self.voucher_payload(total))
    }

    /// A permit of so much for the channel, of that nonce.
    pub async fn permit(&self, amount: u128, nonce: u8) -> Permit2Deposit {
        let end = self.chain.timestamp().await.unwrap().after(std::time::Duration::from_secs(900));
        let of = (self.config.id(Network::BASE), amount);
        let mut permit = Permit2Deposit::new(&self.config, of, [nonce; 32], end, self.sign([0; 32]));
        permit.signature = self.sign(permit.digest(Network::BASE));
        permit
    }

    /// Pays with a deposit by that permit.
    pub fn deposits_by(
        &self,
        offer: &ChannelRequirements,
        total: u128,
        amount: u128,
        permit: Permit2Deposit,
    ) -> PaymentPayload {
        let (voucher, deposit) = (self.voucher(total), ChannelDeposit::new(amount, permit));
        PaymentPayload::new(offer.clone(), ChannelPayload::Deposit { channel_config: self.config, voucher, deposit })
    }

    /// The same with a deposit that is made for it.
    pub async fn deposits(&self, offer: &ChannelRequirements, total: u128, amount: u128) -> PaymentPayload {
        let end = self.chain.timestamp().await.unwrap().after(std::time::Duration::from_secs(900));
        let mut signed = Erc3009Deposit::new([9; 32], [ChainTime::from_unix(0), end], self.sign([0; 32]));
        let domain = TokenDomain::new(self.chain.usdc(), "USD Coin", "2");
        signed.signature = self.sign(signed.digest(&self.config, amount, &domain, Network::BASE));
        let (voucher, deposit) = (self.voucher(total), ChannelDeposit::new(amount, signed));
        PaymentPayload::new(offer.clone(), ChannelPayload::Deposit { channel_config: self.config, voucher, deposit })
    }

    /// Begins to withdraw so much, and waits until that is on the chain.
    pub async fn withdraws(&self, amount: u128) {
        self.send(&format!("initiateWithdraw({CONFIG},uint128)"), &[amount.into()]).await;
    }

    /// Takes what was to be withdrawn.
    pub async fn takes_it(&self) {
        self.send(&format!("finalizeWithdraw({CONFIG})"), &[]).await;
    }

    async fn send(&self, function: &str, more: &[Word]) {
        let ChannelConfig {
            payer, payer_authorizer, receiver, receiver_authorizer, token, withdraw_delay, salt, ..
        } = self.config;
        let parties = [payer, payer_authorizer, receiver, receiver_authorizer, token].map(Word::from);
        let rule = [u128::from(withdraw_delay).into(), Word::new(salt)];
        let call = contracts::calldata(function, &[&parties[..], &rule, more].concat());
        let sent = self.chain.send(payer, BATCH_SETTLEMENT, &call).await.unwrap();
        assert_eq!(self.chain.wait_until_mined(sent).await.unwrap()["status"], "0x1", "{function}");
    }

    /// What the contract says is in the channel, and claimed.
    pub async fn state(&self) -> (u128, u128) {
        let id = Word::new(*self.config.id(Network::BASE).as_bytes());
        let told = self.chain.call(BATCH_SETTLEMENT, &contracts::calldata("channels(bytes32)", &[id])).await.unwrap();
        let word = |at: usize| u128::from_be_bytes(told[32 * at + 16..32 * (at + 1)].try_into().unwrap());
        (word(0), word(1))
    }
}
