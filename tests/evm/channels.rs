//! The contract of payment channels on the development chain: it states what the official one states, and refuses what that refuses.

use alloy::{
    primitives::{B256, Bytes, U256, Uint, keccak256},
    signers::{Signature, SignerSync as _, local::PrivateKeySigner},
    sol_types::{SolCall as _, SolValue as _},
};
use serde_json::{Value, json};
use tower_x402::{
    protocol::{
        Address, Amount, ChainTime, Network, PaymentSignature, TokenDomain,
        channel::{
            BATCH_SETTLEMENT, ChannelConfig, ChannelId, ERC3009_COLLECTOR, Erc3009Deposit, PERMIT2_COLLECTOR,
            Permit2Deposit, Voucher, VoucherClaim, claim_digest,
        },
        permit2::PERMIT2,
    },
    testing::{
        DevChain,
        contracts::{self, Word},
    },
};

use super::Duration;

/// Of the development chain's accounts.
const SENDER: usize = 0;
const PAYER: usize = 1;
const RECEIVER: usize = 2;
const AUTHORIZER: usize = 3;

mod sol {
    alloy::sol! {
        struct ChannelConfig {
            address payer; address payerAuthorizer; address receiver; address receiverAuthorizer; address token;
            uint40 withdrawDelay; bytes32 salt;
        }
        struct Voucher { ChannelConfig channel; uint128 maxClaimableAmount; }
        struct VoucherClaim { Voucher voucher; bytes signature; uint128 totalClaimed; }
        function deposit(ChannelConfig config, uint128 amount, address collector, bytes data) external;
        function claim(VoucherClaim[] claims) external;
        function claimWithSignature(VoucherClaim[] claims, bytes signature) external;
        function settle(address receiver, address token) external;
        function initiateWithdraw(ChannelConfig config, uint128 amount) external;
        function finalizeWithdraw(ChannelConfig config) external;
        function refund(ChannelConfig config, uint128 amount) external;
        function refundWithSignature(ChannelConfig config, uint128 amount, uint256 nonce, bytes signature) external;
        function multicall(bytes[] data) external returns (bytes[] results);
        function getChannelId(ChannelConfig config) external view returns (bytes32);
        function getVoucherDigest(bytes32 id, uint128 maxClaimableAmount) external view returns (bytes32);
        function getRefundDigest(bytes32 id, uint256 nonce, uint128 amount) external view returns (bytes32);
        function getClaimBatchDigest(VoucherClaim[] claims) external view returns (bytes32);
        function collect(address payer, address token, uint256 amount, bytes32 channelId, bytes data) external;
    }
}

/// A chain with a channel's parties.
struct Bank {
    chain: DevChain,
    network: Network,
    config: ChannelConfig,
}

impl Bank {
    async fn open() -> Self {
        Self::open_on(84_532).await
    }

    async fn open_on(id: u64) -> Self {
        let builder = DevChain::builder().install_with_npm(true).mine_every(None).chain_id(id).with_channels();
        let chain = builder.start().await.unwrap();
        chain.mine(3).await.unwrap();
        let [payer, receiver, authorizer] = [PAYER, RECEIVER, AUTHORIZER].map(|who| chain.accounts()[who].address());
        let config = ChannelConfig::new(payer, receiver, chain.usdc()).with_receiver_authorizer(authorizer);
        Self { network: Network::eip155(id), config, chain }
    }

    /// One whose channel holds so much.
    async fn with(amount: u128) -> Self {
        let bank = Self::open().await;
        assert!(bank.sent(SENDER, &bank.deposit(&bank.config, amount, 7).await).await);
        bank
    }

    fn key(&self, who: usize) -> PrivateKeySigner {
        self.chain.accounts()[who].private_key().parse().unwrap()
    }

    fn signed(&self, who: usize, digest: [u8; 32]) -> Vec<u8> {
        self.key(who).sign_hash_sync(&B256::new(digest)).unwrap().as_bytes().to_vec()
    }

    fn id(&self) -> ChannelId {
        self.config.id(self.network)
    }

    async fn end(&self) -> ChainTime {
        self.chain.timestamp().await.unwrap().after(Duration::from_secs(3_600))
    }

    /// The payer's deposit of so much by EIP-3009.
    async fn deposit(&self, config: &ChannelConfig, amount: u128, salt: u8) -> Vec<u8> {
        let mut deposit = Erc3009Deposit::new([salt; 32], [ChainTime::from_unix(0), self.end().await], any_signature());
        let usdc =
            TokenDomain::new(self.chain.usdc(), if self.network == Network::BASE { "USD Coin" } else { "USDC" }, "2");
        let signature = self.signed(PAYER, deposit.digest(config, amount, &usdc, self.network));
        deposit.signature = PaymentSignature::new(signature).unwrap();
        by_erc3009(config, amount, &deposit)
    }

    /// A claim of so much of the payer's voucher.
    fn claim(&self, config: &ChannelConfig, most: u128, total: u128) -> VoucherClaim {
        let id = config.id(self.network);
        let signature = self.signed(PAYER, id.voucher_digest(most, self.network));
        VoucherClaim::new(*config, Voucher::new(id, most, PaymentSignature::new(signature).unwrap()), total)
    }

    /// The call that claims them, signed by the authorizer.
    fn claims(&self, claims: &[VoucherClaim]) -> Vec<u8> {
        let signature = self.signed(AUTHORIZER, claim_digest(claims, self.network)).into();
        sol::claimWithSignatureCall { claims: rows(claims), signature }.abi_encode()
    }

    fn refund(&self, who: usize, amount: u128, nonce: u64) -> Vec<u8> {
        let signature = self.signed(who, self.id().refund_digest(nonce, amount, self.network)).into();
        let config = config(&self.config);
        sol::refundWithSignatureCall { config, amount, nonce: U256::from(nonce), signature }.abi_encode()
    }

    fn settle(&self) -> Vec<u8> {
        sol::settleCall { receiver: of(self.config.receiver), token: of(self.config.token) }.abi_encode()
    }

    /// The receipt of a call of the contract by that account.
    async fn receipt(&self, who: usize, call: &[u8]) -> Value {
        let hash = self.chain.send(self.chain.accounts()[who].address(), BATCH_SETTLEMENT, call).await.unwrap();
        self.chain.mine(1).await.unwrap();
        self.chain.wait_until_mined(hash).await.unwrap()
    }

    async fn sent(&self, who: usize, call: &[u8]) -> bool {
        self.receipt(who, call).await["status"] == "0x1"
    }

    /// Why a call of the contract by that account fails.
    async fn refuses(&self, who: usize, call: &[u8], error: &str) {
        self.refuses_at(BATCH_SETTLEMENT, who, call, error).await;
    }

    async fn refuses_at(&self, to: Address, who: usize, call: &[u8], error: &str) {
        let from = self.chain.accounts()[who].address().to_string();
        let call = json!({ "from": from, "to": to.to_string(), "data": const_hex::encode_prefixed(call) });
        let said = self.chain.rpc("eth_call", json!([call, "latest"])).await.unwrap_err().to_string();
        let hash = keccak256(error);
        // A selector of four letters is told as a text.
        let (selector, letters) = (const_hex::encode(&hash[..4]), String::from_utf8_lossy(&hash[..4]));
        let told = [&*selector, error, &*letters].iter().any(|text| said.contains(text));
        assert!(told, "{error} ({selector}): {said}");
    }

    async fn stated(&self, call: &[u8]) -> Vec<u8> {
        self.chain.call(BATCH_SETTLEMENT, call).await.unwrap()
    }

    /// Two numbers that the contract states of the channel.
    async fn pair(&self, function: &str, arguments: &[Word]) -> [u128; 2] {
        let words = self.stated(&contracts::calldata(function, arguments)).await;
        let number = |word: &[u8]| u128::from_be_bytes(word[16..32].try_into().unwrap());
        [number(&words[..32]), number(&words[32..64])]
    }

    /// Balance and total claimed.
    async fn holds(&self, config: &ChannelConfig) -> [u128; 2] {
        self.pair("channels(bytes32)", &[Word::new(*config.id(self.network).as_bytes())]).await
    }

    async fn withdrawal(&self) -> [u128; 2] {
        self.pair("pendingWithdrawals(bytes32)", &[Word::new(*self.id().as_bytes())]).await
    }

    async fn refunds(&self) -> u128 {
        let call = contracts::calldata("refundNonce(bytes32)", &[Word::new(*self.id().as_bytes())]);
        u128::from_be_bytes(self.stated(&call).await[16..].try_into().unwrap())
    }

    async fn owns(&self, account: Address) -> u128 {
        u128::from_be_bytes(self.chain.usdc_balance(account).await.unwrap().to_be_bytes()[16..].try_into().unwrap())
    }

    async fn wait(&self, seconds: u64) {
        self.chain.rpc("evm_increaseTime", json!([seconds])).await.unwrap();
        self.chain.mine(1).await.unwrap();
    }
}

fn any_signature() -> PaymentSignature {
    PaymentSignature::new([1; 65]).unwrap()
}

fn of(address: Address) -> alloy::primitives::Address {
    address.as_bytes().into()
}

fn config(channel: &ChannelConfig) -> sol::ChannelConfig {
    sol::ChannelConfig {
        payer: of(channel.payer),
        payerAuthorizer: of(channel.payer_authorizer),
        receiver: of(channel.receiver),
        receiverAuthorizer: of(channel.receiver_authorizer),
        token: of(channel.token),
        withdrawDelay: Uint::from(channel.withdraw_delay),
        salt: channel.salt.into(),
    }
}

fn rows(claims: &[VoucherClaim]) -> Vec<sol::VoucherClaim> {
    let row = |claim: &VoucherClaim| sol::VoucherClaim {
        voucher: sol::Voucher { channel: config(&claim.config), maxClaimableAmount: claim.voucher.max_claimable },
        signature: claim.voucher.signature.as_bytes().to_vec().into(),
        totalClaimed: claim.total_claimed,
    };
    claims.iter().map(row).collect()
}

fn by_erc3009(channel: &ChannelConfig, amount: u128, deposit: &Erc3009Deposit) -> Vec<u8> {
    let [after, before] = [deposit.valid_after, deposit.valid_before].map(|time| U256::from(time.unix()));
    let signature = Bytes::copy_from_slice(deposit.signature.as_bytes());
    let data = (after, before, U256::from_be_bytes(deposit.salt), signature).abi_encode_params();
    let collector = of(ERC3009_COLLECTOR);
    sol::depositCall { config: config(channel), amount, collector, data: data.into() }.abi_encode()
}

fn word(text: &str) -> Vec<u8> {
    const_hex::decode(text).unwrap()
}

/// The values of the deployed contracts.
#[tokio::test]
async fn contracts_state_what_the_official_ones_state() {
    let bank = Bank::open().await;
    for (constant, hash) in [
        ("CHANNEL_CONFIG_TYPEHASH()", "1c9a06ceab9b0ebbd3301dc56c9111bb6d9af421356dc9ccb3b7084c755db308"),
        ("VOUCHER_TYPEHASH()", "1e1bd6ff84c3e0d9029a292b212e039c0ca97ec497c55191a4a5874294609a69"),
        ("REFUND_TYPEHASH()", "be23ad087435072cd69b49cc5b92de10ee610fce7ae0ab428307972d764bb216"),
        ("CLAIM_BATCH_TYPEHASH()", "42bd57c010b870c2e96203c66341f28a6a19b4d56a74533a8eb5f706b9fd6d57"),
        ("CLAIM_ENTRY_TYPEHASH()", "30b9a0367528fca13c3e8ec6134c3113f1887ebe7a1ad61de0955aac288b0cf5"),
    ] {
        assert_eq!(bank.stated(&contracts::calldata(constant, &[])).await, word(hash), "{constant}");
    }
    // The vectors' channel: the development chain's accounts are its parties.
    let id = "e94a435ba5c4a651c4c975bc5e2a208275f95d4199785ab0d7fbbf56bc9469ec";
    let channel = config(&bank.config);
    assert_eq!(bank.stated(&sol::getChannelIdCall { config: channel }.abi_encode()).await, word(id));
    let id = B256::from_slice(&word(id));
    let digest = sol::getVoucherDigestCall { id, maxClaimableAmount: 10_000 }.abi_encode();
    let expected = "0b2a2af5cb785c1e906b44248711577077a90b21fdf93105c3a423762c942d9f";
    assert_eq!(bank.stated(&digest).await, word(expected));
    let digest = sol::getRefundDigestCall { id, nonce: U256::ZERO, amount: 90_000 }.abi_encode();
    let expected = "ee23aecaac138e6b69d32c98d88a2782b629a370fe34a8bde1a5ef841b828eca";
    assert_eq!(bank.stated(&digest).await, word(expected));
    let claim = bank.claim(&bank.config, 10_000, 7_000);
    let expected = "96ab9f2f2e9956e705fa4ed0238d1a92a28aa1400766685e754c481db780113b0821b72babda6a7005473b5f92863e9e22ce28e0e88fa3156933ac4bd628e56f1c";
    assert_eq!(claim.voucher.signature.as_bytes(), word(expected));
    let digest = sol::getClaimBatchDigestCall { claims: rows(&[claim]) }.abi_encode();
    let expected = "38a4c9279a4fc015d05b5f600331ed06bf81a6dd1b3e2c35d191d173d734f133";
    assert_eq!(bank.stated(&digest).await, word(expected));
    for collector in [ERC3009_COLLECTOR, PERMIT2_COLLECTOR] {
        let channels = bank.chain.call(collector, &contracts::calldata("x402BatchSettlement()", &[])).await.unwrap();
        assert_eq!(channels, Word::from(BATCH_SETTLEMENT).as_bytes());
    }
}

#[tokio::test]
async fn hashes_are_the_contracts_on_every_chain() {
    let bank = Bank::open_on(8_453).await;
    let other = bank.config.with_salt([9; 32]).with_withdraw_delay(2_592_000).with_payer_authorizer(Address::ZERO);
    for channel in [bank.config, other] {
        let stated = bank.stated(&sol::getChannelIdCall { config: config(&channel) }.abi_encode()).await;
        assert_eq!(stated, channel.id(Network::BASE).as_bytes());
    }
    let claims = [bank.claim(&bank.config, u128::MAX, 7), bank.claim(&other, 9, 8)];
    let stated = bank.stated(&sol::getClaimBatchDigestCall { claims: rows(&claims) }.abi_encode()).await;
    assert_eq!(stated, claim_digest(&claims, Network::BASE));
    assert!(bank.sent(SENDER, &bank.deposit(&bank.config, 5, 1).await).await, "under the name of the token there");
}

#[tokio::test]
async fn a_deposit_counts_once_for_its_channel() {
    let bank = Bank::with(100_000).await;
    assert_eq!((bank.holds(&bank.config).await, bank.owns(BATCH_SETTLEMENT).await), ([100_000, 0], 100_000));
    let again = bank.deposit(&bank.config, 100_000, 7).await;
    bank.refuses(SENDER, &again, "authorization is used or canceled").await;
    assert!(bank.sent(SENDER, &bank.deposit(&bank.config, 50_000, 8).await).await);
    assert_eq!(bank.holds(&bank.config).await, [150_000, 0]);

    // Signed for something else.
    let usdc = TokenDomain::new(bank.chain.usdc(), "USDC", "2");
    let mut deposit = Erc3009Deposit::new([9; 32], [ChainTime::from_unix(0), bank.end().await], any_signature());
    let signature = bank.signed(PAYER, deposit.digest(&bank.config, 10, &usdc, bank.network));
    deposit.signature = PaymentSignature::new(signature).unwrap();
    let mut salted = deposit.clone();
    salted.salt = [10; 32];
    for call in [
        by_erc3009(&bank.config, 11, &deposit),
        by_erc3009(&bank.config.with_salt([1; 32]), 10, &deposit),
        by_erc3009(&bank.config, 10, &salted),
    ] {
        bank.refuses(SENDER, &call, "invalid signature").await;
    }
    // Of no channel that can be.
    let nobody = Address::ZERO;
    for (config, amount, error) in [
        (ChannelConfig::new(bank.config.payer, nobody, bank.config.token), 10, "InvalidChannel()"),
        (bank.config.with_receiver_authorizer(nobody), 10, "InvalidChannel()"),
        (bank.config.with_withdraw_delay(899), 10, "WithdrawDelayOutOfRange()"),
        (bank.config.with_withdraw_delay(2_592_001), 10, "WithdrawDelayOutOfRange()"),
        (bank.config, 0, "ZeroDeposit()"),
    ] {
        bank.refuses(SENDER, &by_erc3009(&config, amount, &deposit), error).await;
    }
    let (payer, token) = (of(bank.config.payer), of(bank.config.token));
    let collect = sol::collectCall { payer, token, amount: U256::from(10), channelId: B256::ZERO, data: Bytes::new() };
    for collector in [ERC3009_COLLECTOR, PERMIT2_COLLECTOR] {
        bank.refuses_at(collector, PAYER, &collect.abi_encode(), "OnlyX402BatchSettlement()").await;
    }
    assert_eq!(bank.holds(&bank.config).await, [150_000, 0]);
}

#[tokio::test]
async fn a_deposit_by_permit2_names_its_channel() {
    let bank = Bank::open().await;
    let approve = contracts::approve(PERMIT2, Amount::MAX);
    bank.chain.send(bank.config.payer, bank.chain.usdc(), &approve).await.unwrap();
    bank.chain.mine(1).await.unwrap();
    let deadline = bank.end().await;
    let mut permit = Permit2Deposit::new(&bank.config, (bank.id(), 100_000), [5; 32], deadline, any_signature());
    permit.signature = PaymentSignature::new(bank.signed(PAYER, permit.digest(bank.network))).unwrap();
    let call = |channel: &ChannelConfig, amount| {
        let signature = Bytes::copy_from_slice(permit.signature.as_bytes());
        let (nonce, until) = (U256::from_be_bytes(permit.nonce), U256::from(deadline.unix()));
        let data = (nonce, until, signature, Bytes::new()).abi_encode_params().into();
        sol::depositCall { config: config(channel), amount, collector: of(PERMIT2_COLLECTOR), data }.abi_encode()
    };
    bank.refuses(SENDER, &call(&bank.config.with_salt([1; 32]), 100_000), "InvalidSigner()").await;
    bank.refuses(SENDER, &call(&bank.config, 99_999), "InvalidSigner()").await;
    assert!(bank.sent(SENDER, &call(&bank.config, 100_000)).await);
    assert_eq!(bank.holds(&bank.config).await, [100_000, 0]);
    bank.refuses(SENDER, &call(&bank.config, 100_000), "InvalidNonce()").await;
}

#[tokio::test]
async fn vouchers_are_claimed_in_parts_and_paid_out_together() {
    let bank = Bank::with(100_000).await;
    let second = bank.config.with_salt([2; 32]);
    assert!(bank.sent(SENDER, &bank.deposit(&second, 1_000, 1).await).await);
    let (receiver, sum) = (bank.config.receiver, |claimed: u128, settled: u128| [claimed, settled]);
    let parties = [receiver.into(), bank.config.token.into()];
    let due = || bank.pair("receivers(address,address)", &parties);
    let before = bank.owns(receiver).await;

    assert!(bank.sent(SENDER, &bank.claims(&[bank.claim(&bank.config, 10_000, 7_000)])).await);
    assert_eq!((bank.holds(&bank.config).await, due().await), ([100_000, 7_000], sum(7_000, 0)));
    // More of the same voucher, and of another channel; then a lower total, which moves nothing.
    let batch = [bank.claim(&bank.config, 10_000, 10_000), bank.claim(&second, 1_000, 1_000)];
    for claims in [&batch[..], &batch, &[bank.claim(&bank.config, 10_000, 7_000)]] {
        assert!(bank.sent(SENDER, &bank.claims(claims)).await);
        assert_eq!((bank.holds(&bank.config).await, bank.holds(&second).await), ([100_000, 10_000], [1_000, 1_000]));
        assert_eq!((due().await, bank.owns(receiver).await), (sum(11_000, 0), before));
    }
    let receipt = bank.receipt(SENDER, &bank.claims(&batch)).await;
    assert_eq!(receipt["logs"].as_array().unwrap().len(), 0, "of a repeated claim");

    // Anyone pays out, once.
    assert!(bank.sent(PAYER, &bank.settle()).await);
    assert_eq!((due().await, bank.owns(receiver).await), (sum(11_000, 11_000), before + 11_000));
    let receipt = bank.receipt(SENDER, &bank.settle()).await;
    assert_eq!((&receipt["status"], receipt["logs"].as_array().unwrap().len()), (&json!("0x1"), 0), "nothing is due");
    assert_eq!((bank.owns(receiver).await, bank.owns(BATCH_SETTLEMENT).await), (before + 11_000, 90_000));
}

#[tokio::test]
async fn one_claim_that_is_not_taken_undoes_its_batch() {
    let bank = Bank::with(100_000).await;
    let second = bank.config.with_salt([2; 32]);
    assert!(bank.sent(SENDER, &bank.deposit(&second, 1_000, 1).await).await);
    let good = bank.claim(&bank.config, 10_000, 7_000);
    let of_second = bank.claim(&second, 1_000, 1_000);
    let signature = Signature::from_raw(of_second.voucher.signature.as_bytes()).unwrap();
    let order = U256::from_be_slice(&word("fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141"));
    let high = Signature::new(signature.r(), order - signature.s(), !signature.v()).as_bytes();
    let mut from_zero = signature.as_bytes();
    from_zero[64] -= 27;
    let signed = |bytes: &[u8]| {
        let mut claim = of_second.clone();
        claim.voucher.signature = PaymentSignature::new(bytes).unwrap();
        assert_eq!(claim.voucher.signer(bank.network), None);
        claim
    };
    let mut by_another = of_second.clone();
    let stranger = bank.signed(AUTHORIZER, of_second.voucher.digest(bank.network));
    by_another.voucher.signature = PaymentSignature::new(stranger).unwrap();
    for (bad, error) in [
        (signed(&high), "ECDSAInvalidSignatureS(bytes32)"),
        (signed(&from_zero), "ECDSAInvalidSignature()"),
        (signed(&signature.as_erc2098()), "ECDSAInvalidSignatureLength(uint256)"),
        (by_another, "InvalidSignature()"),
        (bank.claim(&second, 1_001, 1_001), "ClaimExceedsBalance()"),
        (bank.claim(&second, 999, 1_000), "ClaimExceedsCeiling()"),
        (bank.claim(&second.with_receiver_authorizer(second.receiver), 9, 9), "NotReceiverAuthorizer()"),
    ] {
        let call = bank.claims(&[good.clone(), bad]);
        bank.refuses(SENDER, &call, error).await;
        assert!(!bank.sent(SENDER, &call).await);
    }
    assert_eq!((bank.holds(&bank.config).await, bank.holds(&second).await), ([100_000, 0], [1_000, 0]));
    bank.refuses(SENDER, &bank.claims(&[]), "EmptyBatch()").await;
    // Signed by another key, or for other claims.
    let claims = [good, of_second];
    for (who, signed) in [(PAYER, &claims[..]), (RECEIVER, &claims), (AUTHORIZER, &claims[..1])] {
        let signature = bank.signed(who, claim_digest(signed, bank.network)).into();
        let call = sol::claimWithSignatureCall { claims: rows(&claims), signature }.abi_encode();
        bank.refuses(SENDER, &call, "InvalidSignature()").await;
    }
    // Without its signature, only the two may.
    let call = sol::claimCall { claims: rows(&claims) }.abi_encode();
    for who in [SENDER, PAYER] {
        bank.refuses(who, &call, "NotAuthorizedToClaim()").await;
    }
    assert!(bank.sent(RECEIVER, &call).await && bank.sent(AUTHORIZER, &call).await);
    assert_eq!((bank.holds(&bank.config).await, bank.holds(&second).await), ([100_000, 7_000], [1_000, 1_000]));
}

#[tokio::test]
async fn a_withdrawal_waits_and_takes_what_is_not_claimed() {
    let bank = Bank::with(100_000).await;
    let channel = config(&bank.config);
    let begin = |amount| sol::initiateWithdrawCall { config: channel.clone(), amount }.abi_encode();
    let finish = sol::finalizeWithdrawCall { config: channel.clone() }.abi_encode();
    bank.refuses(RECEIVER, &begin(1), "InvalidChannel()").await;
    bank.refuses(PAYER, &begin(0), "NothingToWithdraw()").await;
    bank.refuses(PAYER, &begin(100_001), "WithdrawAmountExceedsAvailable()").await;
    bank.refuses(PAYER, &finish, "WithdrawalNotPending()").await;
    assert!(bank.sent(PAYER, &begin(100_000)).await);
    let begun = u128::from(bank.chain.timestamp().await.unwrap().unix());
    assert_eq!(bank.withdrawal().await, [100_000, begun]);
    bank.refuses(PAYER, &begin(1), "WithdrawalAlreadyPending()").await;
    bank.wait(800).await;
    bank.refuses(PAYER, &finish, "WithdrawDelayNotElapsed()").await;
    // In time; the rest goes.
    assert!(bank.sent(SENDER, &bank.claims(&[bank.claim(&bank.config, 10_000, 10_000)])).await);
    bank.wait(100).await;
    bank.refuses(RECEIVER, &finish, "NotAuthorizedToFinalizeWithdraw()").await;
    let before = bank.owns(bank.config.payer).await;
    assert!(bank.sent(PAYER, &finish).await);
    assert_eq!((bank.withdrawal().await, bank.holds(&bank.config).await), ([0, 0], [10_000, 10_000]));
    assert_eq!(bank.owns(bank.config.payer).await, before + 90_000);
    // Too late.
    bank.refuses(SENDER, &bank.claims(&[bank.claim(&bank.config, 20_000, 20_000)]), "ClaimExceedsBalance()").await;
    assert!(bank.sent(SENDER, &bank.settle()).await);
    assert_eq!(bank.owns(BATCH_SETTLEMENT).await, 0);
}

#[tokio::test]
async fn a_refund_is_signed_for_its_turn() {
    let bank = Bank::with(100_000).await;
    assert!(bank.sent(SENDER, &bank.claims(&[bank.claim(&bank.config, 10_000, 10_000)])).await);
    bank.refuses(SENDER, &bank.refund(RECEIVER, 1, 0), "InvalidSignature()").await;
    bank.refuses(SENDER, &bank.refund(AUTHORIZER, 1, 1), "InvalidRefundNonce()").await;
    bank.refuses(SENDER, &bank.refund(AUTHORIZER, 0, 0), "ZeroRefund()").await;
    let begin = sol::initiateWithdrawCall { config: config(&bank.config), amount: 60_000 }.abi_encode();
    assert!(bank.sent(PAYER, &begin).await);
    let before = bank.owns(bank.config.payer).await;
    let first = bank.refund(AUTHORIZER, 50_000, 0);
    assert!(bank.sent(SENDER, &first).await);
    assert_eq!((bank.refunds().await, bank.withdrawal().await[0]), (1, 10_000), "less is left to withdraw");
    assert_eq!(
        (bank.holds(&bank.config).await, bank.owns(bank.config.payer).await),
        ([50_000, 10_000], before + 50_000)
    );
    bank.refuses(SENDER, &first, "InvalidRefundNonce()").await;
    // More than is left: what is left.
    assert!(bank.sent(SENDER, &bank.refund(AUTHORIZER, u128::MAX, 1)).await);
    assert_eq!((bank.refunds().await, bank.withdrawal().await), (2, [0, 0]));
    assert_eq!(
        (bank.holds(&bank.config).await, bank.owns(bank.config.payer).await),
        ([10_000, 10_000], before + 90_000)
    );
    // Nothing moves, and the turn is over all the same.
    let receipt = bank.receipt(SENDER, &bank.refund(AUTHORIZER, 1, 2)).await;
    assert_eq!((&receipt["status"], receipt["logs"].as_array().unwrap().len()), (&json!("0x1"), 0));
    let unsigned = sol::refundCall { config: config(&bank.config), amount: 1 }.abi_encode();
    bank.refuses(PAYER, &unsigned, "NotAuthorizedToRefund()").await;
    assert!(bank.sent(RECEIVER, &unsigned).await);
    assert_eq!(bank.refunds().await, 4);
}

#[tokio::test]
async fn several_calls_go_in_one_or_not_at_all() {
    let bank = Bank::with(100_000).await;
    let [receiver, payer] = [bank.config.receiver, bank.config.payer];
    let (paid, left) = (bank.owns(receiver).await, bank.owns(payer).await);
    let claim = bank.claims(&[bank.claim(&bank.config, 10_000, 10_000)]);
    let all = |calls: &[&[u8]]| {
        let data = calls.iter().map(|call| Bytes::copy_from_slice(call)).collect();
        sol::multicallCall { data }.abi_encode()
    };
    let failing = all(&[&claim, &bank.refund(AUTHORIZER, 90_000, 5)]);
    bank.refuses(SENDER, &failing, "InvalidRefundNonce()").await;
    assert!(!bank.sent(SENDER, &failing).await);
    assert_eq!(bank.holds(&bank.config).await, [100_000, 0]);
    assert!(bank.sent(SENDER, &all(&[&claim, &bank.settle(), &bank.refund(AUTHORIZER, 90_000, 0)])).await);
    assert_eq!(bank.holds(&bank.config).await, [10_000, 10_000]);
    assert_eq!((bank.owns(receiver).await, bank.owns(payer).await), (paid + 10_000, left + 90_000));
    assert_eq!(bank.owns(BATCH_SETTLEMENT).await, 0);
    // Each call is the sender's own.
    let unsigned = sol::claimCall { claims: rows(&[bank.claim(&bank.config, 10_000, 10_000)]) }.abi_encode();
    bank.refuses(PAYER, &all(&[&unsigned]), "NotAuthorizedToClaim()").await;
}

/// Without a key for vouchers, the payer's account is asked.
#[tokio::test]
async fn an_account_with_code_signs_its_own_vouchers() {
    let mut bank = Bank::open().await;
    let owner = Address::new(bank.key(PAYER).address().into_array());
    let wallet = bank.chain.deploy(contracts::WALLET.creation, &[owner.into()]).await.unwrap();
    bank.chain.fund(wallet, Amount::from_base_units(1_000_000)).await.unwrap();
    bank.config.payer = wallet;
    bank.config.payer_authorizer = Address::ZERO;
    assert!(bank.sent(SENDER, &bank.deposit(&bank.config, 100_000, 1).await).await);
    let mut foreign = bank.claim(&bank.config, 10_000, 10_000);
    foreign.voucher.signature =
        PaymentSignature::new(bank.signed(RECEIVER, foreign.voucher.digest(bank.network))).unwrap();
    bank.refuses(SENDER, &bank.claims(&[foreign]), "InvalidSignature()").await;
    assert!(bank.sent(SENDER, &bank.claims(&[bank.claim(&bank.config, 10_000, 10_000)])).await);
    assert_eq!(bank.holds(&bank.config).await, [100_000, 10_000]);
}
