//! The checks that every settler passes.

use std::{collections::HashMap, sync::Mutex};

use tower_x402::{
    protocol::permit2::{PERMIT2, Permit},
    settle::conformance,
    verify::NonceState,
};

use super::*;

/// A chain, and the keys of its payers: of contract accounts, their owners'.
struct Market {
    chain: DevChain,
    keys: Mutex<HashMap<Address, PrivateKeySigner>>,
}

impl Market {
    fn remember(&self, account: Address, key: PrivateKeySigner) -> Address {
        self.keys.lock().unwrap().insert(account, key);
        account
    }

    fn key(&self, account: Address) -> PrivateKeySigner {
        self.keys.lock().unwrap()[&account].clone()
    }

    /// By an account that is not the settler's, and mined.
    async fn send(&self, call: &[u8]) {
        let stranger = self.chain.accounts()[8].address();
        let hash = self.chain.send(stranger, self.chain.usdc(), call).await.unwrap();
        self.chain.mine(1).await.unwrap();
        let receipt = self.chain.wait_until_mined(hash).await.unwrap();
        assert_eq!(receipt["status"], "0x1");
    }
}

impl conformance::Harness for Market {
    type Settler = WalletSettler;

    /// Each from an account of its own: one process settles from one.
    async fn settler(&self) -> WalletSettler {
        let key = PrivateKeySigner::random();
        self.chain.fund(address(&key), Amount::ZERO).await.unwrap();
        let builder = WalletSettler::builder().signer(key).endpoint(self.chain.rpc_url()).final_after(0);
        builder.replace_after(Duration::from_secs(1)).connect().await.unwrap()
    }

    fn token(&self) -> Asset {
        Asset::USDC_BASE
    }

    fn domain(&self) -> TokenDomain {
        domain(&self.chain)
    }

    async fn now(&self) -> ChainTime {
        self.chain.timestamp().await.unwrap()
    }

    async fn payer(&self, funds: Amount) -> Address {
        let key = PrivateKeySigner::random();
        self.chain.fund(address(&key), funds).await.unwrap();
        self.remember(address(&key), key)
    }

    async fn contract_payer(&self, funds: Amount) -> Option<Address> {
        let owner = PrivateKeySigner::random();
        let wallet = self.chain.deploy(contracts::WALLET.creation, &[address(&owner).into()]).await.unwrap();
        self.chain.fund(wallet, funds).await.unwrap();
        Some(self.remember(wallet, owner))
    }

    async fn sign(&self, signer: Address, authorization: &Authorization) -> PaymentSignature {
        let signature = self.key(signer).sign_hash_sync(&digest(&self.chain, authorization)).unwrap();
        PaymentSignature::new(signature.as_bytes()).unwrap()
    }

    async fn submit(&self, signed: &SignedAuthorization) {
        let Authorization { from, to, value, valid_after, valid_before, nonce, .. } = signed.authorization;
        let [valid_after, valid_before] = [valid_after, valid_before].map(|time| Word::from(u128::from(time.unix())));
        let bytes = signed.signature.as_bytes();
        let word = |at: usize| Word::new(bytes[at..at + 32].try_into().unwrap());
        let v = Word::from(u128::from(bytes[64]));
        let words =
            [from.into(), to.into(), value.into(), valid_after, valid_before, Word::new(nonce), v, word(0), word(32)];
        let function =
            "transferWithAuthorization(address,address,uint256,uint256,uint256,bytes32,uint8,bytes32,bytes32)";
        self.send(&contracts::calldata(function, &words)).await;
    }

    async fn cancel(&self, payer: Address, nonce: [u8; 32]) {
        self.send(&cancellation(&self.chain, &self.key(payer), payer, nonce).await).await;
    }

    async fn balance(&self, owner: Address) -> Amount {
        self.chain.usdc_balance(owner).await.unwrap()
    }

    async fn nonce(&self, payer: Address, nonce: [u8; 32]) -> NonceState {
        let (payer, nonce) = (Word::from(payer), Word::new(nonce));
        let call = contracts::calldata("authorizationState(address,bytes32)", &[payer, nonce]);
        if self.chain.call(self.chain.usdc(), &call).await.unwrap().iter().all(|byte| *byte == 0) {
            return NonceState::Unused;
        }
        let hex = |word: Word| const_hex::encode_prefixed(word.as_bytes());
        let event = const_hex::encode_prefixed(keccak256("AuthorizationUsed(address,bytes32)"));
        let topics = json!([event, hex(payer), hex(nonce)]);
        let wanted = json!([{"fromBlock": "0x0", "toBlock": "latest", "address": self.chain.usdc().to_string(), "topics": topics}]);
        let logs = self.chain.rpc("eth_getLogs", wanted).await.unwrap();
        match logs[0]["transactionHash"].as_str() {
            Some(hash) => NonceState::Used(hash.parse().unwrap()),
            None => NonceState::Spent,
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wallet_settles_as_every_settler_does() {
    let market = Market { chain: quiet().await, keys: Mutex::default() };
    let report =
        while_mining(&market.chain, conformance::run(&market)).await.unwrap_or_else(|broken| panic!("{broken}"));
    assert!(!report.passed.is_empty() && report.left_out.is_empty(), "{report:?}");
}

/// The same chain with Permit2, for permits.
struct PermitMarket(Market);

impl conformance::PermitHarness for PermitMarket {
    type Settler = WalletSettler;

    async fn settler(&self) -> WalletSettler {
        conformance::Harness::settler(&self.0).await
    }

    fn token(&self) -> Asset {
        Asset::USDC_BASE
    }

    async fn now(&self) -> ChainTime {
        self.0.chain.timestamp().await.unwrap()
    }

    async fn payer(&self, funds: Amount) -> Address {
        let payer = conformance::Harness::payer(&self.0, funds).await;
        let call = contracts::approve(PERMIT2, Amount::MAX);
        let hash = self.0.chain.send(payer, self.0.chain.usdc(), &call).await.unwrap();
        self.0.chain.mine(1).await.unwrap();
        self.0.chain.wait_until_mined(hash).await.unwrap();
        payer
    }

    async fn sign(&self, signer: Address, permit: &Permit) -> PaymentSignature {
        let digest = B256::new(permit.digest(Network::BASE));
        PaymentSignature::new(self.0.key(signer).sign_hash_sync(&digest).unwrap().as_bytes()).unwrap()
    }

    async fn spend(&self, payer: Address) {
        self.0.chain.fund(payer, Amount::ZERO).await.unwrap();
    }

    async fn balance(&self, owner: Address) -> Amount {
        self.0.chain.usdc_balance(owner).await.unwrap()
    }

    async fn is_used(&self, payer: Address, nonce: [u8; 32]) -> bool {
        let mut word = [0; 32];
        word[1..].copy_from_slice(&nonce[..31]);
        let call = contracts::calldata("nonceBitmap(address,uint256)", &[payer.into(), Word::new(word)]);
        let bitmap = self.0.chain.call(PERMIT2, &call).await.unwrap();
        bitmap[31 - usize::from(nonce[31] / 8)] & (1 << (nonce[31] % 8)) != 0
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wallet_settles_permits_as_every_settler_does() {
    let builder = DevChain::builder().install_with_npm(true).mine_every(None).with_permit2();
    let chain = builder.start().await.unwrap();
    chain.mine(3).await.unwrap();
    let market = PermitMarket(Market { chain, keys: Mutex::default() });
    let run = conformance::run_permits(&market);
    let report = while_mining(&market.0.chain, run).await.unwrap_or_else(|broken| panic!("{broken}"));
    assert_eq!(report.passed.len(), conformance::PERMIT_CHECKS.len());
}
