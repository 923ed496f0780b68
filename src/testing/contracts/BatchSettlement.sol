// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity 0.8.37;

import "./Erc20.sol";
import "./Erc3009.sol";

interface Collector {
    function collect(address payer, address token, uint256 amount, bytes32 channelId, bytes calldata data) external;
}

/// Stands at the address of x402's contract of payment channels: deposits, claims by voucher, and three ways for a deposit to go back.
/// No constructor and no immutables, so that the runtime code alone is the whole contract.
contract BatchSettlement {
    struct ChannelConfig {
        address payer;
        address payerAuthorizer;
        address receiver;
        address receiverAuthorizer;
        address token;
        uint40 withdrawDelay;
        bytes32 salt;
    }

    struct Voucher {
        ChannelConfig channel;
        uint128 maxClaimableAmount;
    }

    struct VoucherClaim {
        Voucher voucher;
        bytes signature;
        uint128 totalClaimed;
    }

    struct Channel {
        uint128 balance;
        uint128 totalClaimed;
    }

    struct Withdrawal {
        uint128 amount;
        uint40 initiatedAt;
    }

    struct Receiver {
        uint128 totalClaimed;
        uint128 totalSettled;
    }

    uint40 public constant MIN_WITHDRAW_DELAY = 15 minutes;
    uint40 public constant MAX_WITHDRAW_DELAY = 30 days;

    bytes32 public constant CHANNEL_CONFIG_TYPEHASH = keccak256(
        "ChannelConfig(address payer,address payerAuthorizer,address receiver,address receiverAuthorizer,address token,uint40 withdrawDelay,bytes32 salt)"
    );
    bytes32 public constant VOUCHER_TYPEHASH = keccak256("Voucher(bytes32 channelId,uint128 maxClaimableAmount)");
    bytes32 public constant REFUND_TYPEHASH = keccak256("Refund(bytes32 channelId,uint256 nonce,uint128 amount)");
    bytes32 public constant CLAIM_ENTRY_TYPEHASH =
        keccak256("ClaimEntry(bytes32 channelId,uint128 maxClaimableAmount,uint128 totalClaimed)");
    bytes32 public constant CLAIM_BATCH_TYPEHASH = keccak256(
        "ClaimBatch(ClaimEntry[] claims)ClaimEntry(bytes32 channelId,uint128 maxClaimableAmount,uint128 totalClaimed)"
    );
    bytes32 private constant DOMAIN =
        keccak256("EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)");

    mapping(bytes32 => Channel) public channels;
    mapping(bytes32 => Withdrawal) public pendingWithdrawals;
    mapping(bytes32 => uint256) public refundNonce;
    mapping(address => mapping(address => Receiver)) public receivers;
    bool private entered;

    event ChannelCreated(bytes32 indexed channelId, ChannelConfig config);
    event ChannelClosed(bytes32 indexed channelId, ChannelConfig config);
    event Deposited(bytes32 indexed channelId, address indexed sender, uint128 amount, uint128 newBalance);
    event Claimed(bytes32 indexed channelId, address indexed sender, uint128 claimAmount, uint128 newTotalClaimed);
    event Settled(address indexed receiver, address indexed token, address indexed sender, uint128 amount);
    event Refunded(bytes32 indexed channelId, address indexed sender, uint128 amount);
    event WithdrawInitiated(bytes32 indexed channelId, uint128 amount, uint40 finalizeAfter);
    event WithdrawFinalized(bytes32 indexed channelId, address indexed sender, uint128 amount);

    error InvalidChannel();
    error WithdrawDelayOutOfRange();
    error ZeroDeposit();
    error InvalidCollector();
    error DepositOverflow();
    error DepositCollectionFailed();
    error EmptyBatch();
    error NotAuthorizedToClaim();
    error NotReceiverAuthorizer();
    error ClaimExceedsCeiling();
    error ClaimExceedsBalance();
    error InvalidSignature();
    error NothingToWithdraw();
    error WithdrawAmountExceedsAvailable();
    error WithdrawalAlreadyPending();
    error WithdrawalNotPending();
    error WithdrawDelayNotElapsed();
    error NotAuthorizedToFinalizeWithdraw();
    error NotAuthorizedToRefund();
    error InvalidRefundNonce();
    error ZeroRefund();
    error ReentrancyGuardReentrantCall();
    // As OpenZeppelin's ECDSA names them.
    error ECDSAInvalidSignature();
    error ECDSAInvalidSignatureLength(uint256 length);
    error ECDSAInvalidSignatureS(bytes32 s);

    modifier once() {
        if (entered) revert ReentrancyGuardReentrantCall();
        entered = true;
        _;
        entered = false;
    }

    /// What the collector pulled is seen in the balance, whatever the collector is.
    function deposit(ChannelConfig calldata config, uint128 amount, address collector, bytes calldata data)
        external
        once
    {
        if (config.payer == address(0) || config.receiver == address(0)) revert InvalidChannel();
        if (config.receiverAuthorizer == address(0) || config.token == address(0)) revert InvalidChannel();
        uint40 delay = config.withdrawDelay;
        if (delay < MIN_WITHDRAW_DELAY || delay > MAX_WITHDRAW_DELAY) revert WithdrawDelayOutOfRange();
        if (amount == 0) revert ZeroDeposit();
        if (collector == address(0)) revert InvalidCollector();
        bytes32 id = getChannelId(config);
        Channel storage channel = channels[id];
        bool isNew = channel.balance == 0 && channel.totalClaimed == 0;
        if (uint256(channel.balance) + amount > type(uint128).max) revert DepositOverflow();
        channel.balance += amount;
        uint256 before = Erc20(config.token).balanceOf(address(this));
        Collector(collector).collect(config.payer, config.token, amount, id, data);
        if (Erc20(config.token).balanceOf(address(this)) != before + amount) revert DepositCollectionFailed();
        if (isNew) emit ChannelCreated(id, config);
        emit Deposited(id, msg.sender, amount, channel.balance);
    }

    function claim(VoucherClaim[] calldata claims) external once {
        if (claims.length == 0) revert EmptyBatch();
        for (uint256 i = 0; i < claims.length; i++) {
            if (!isOfReceiver(claims[i].voucher.channel)) revert NotAuthorizedToClaim();
            take(claims[i]);
        }
    }

    function claimWithSignature(VoucherClaim[] calldata claims, bytes calldata signature) external once {
        if (claims.length == 0) revert EmptyBatch();
        address authorizer = claims[0].voucher.channel.receiverAuthorizer;
        if (!isSigned(authorizer, getClaimBatchDigest(claims), signature)) revert InvalidSignature();
        for (uint256 i = 0; i < claims.length; i++) {
            if (claims[i].voucher.channel.receiverAuthorizer != authorizer) revert NotReceiverAuthorizer();
            take(claims[i]);
        }
    }

    /// A total that is claimed already is no error: claims may be repeated, and overtake each other.
    function take(VoucherClaim calldata row) private {
        ChannelConfig calldata config = row.voucher.channel;
        bytes32 id = getChannelId(config);
        Channel storage channel = channels[id];
        if (row.totalClaimed <= channel.totalClaimed) return;
        if (row.totalClaimed > row.voucher.maxClaimableAmount) revert ClaimExceedsCeiling();
        if (row.totalClaimed > channel.balance) revert ClaimExceedsBalance();
        bytes32 digest = getVoucherDigest(id, row.voucher.maxClaimableAmount);
        bool signed = config.payerAuthorizer == address(0)
            ? isSigned(config.payer, digest, row.signature)
            : recover(digest, row.signature) == config.payerAuthorizer;
        if (!signed) revert InvalidSignature();
        uint128 more = row.totalClaimed - channel.totalClaimed;
        channel.totalClaimed = row.totalClaimed;
        receivers[config.receiver][config.token].totalClaimed += more;
        emit Claimed(id, msg.sender, more, row.totalClaimed);
    }

    function settle(address receiver, address token) external once {
        Receiver storage due = receivers[receiver][token];
        uint128 amount = due.totalClaimed - due.totalSettled;
        if (amount == 0) return;
        due.totalSettled = due.totalClaimed;
        pay(token, receiver, amount);
        emit Settled(receiver, token, msg.sender, amount);
    }

    function initiateWithdraw(ChannelConfig calldata config, uint128 amount) external once {
        if (!isOfPayer(config)) revert InvalidChannel();
        if (amount == 0) revert NothingToWithdraw();
        bytes32 id = getChannelId(config);
        if (pendingWithdrawals[id].initiatedAt != 0) revert WithdrawalAlreadyPending();
        if (amount > unclaimed(id)) revert WithdrawAmountExceedsAvailable();
        pendingWithdrawals[id] = Withdrawal(amount, uint40(block.timestamp));
        emit WithdrawInitiated(id, amount, uint40(block.timestamp) + config.withdrawDelay);
    }

    function finalizeWithdraw(ChannelConfig calldata config) external once {
        if (!isOfPayer(config)) revert NotAuthorizedToFinalizeWithdraw();
        bytes32 id = getChannelId(config);
        Withdrawal memory pending = pendingWithdrawals[id];
        if (pending.initiatedAt == 0) revert WithdrawalNotPending();
        if (block.timestamp < uint256(pending.initiatedAt) + config.withdrawDelay) revert WithdrawDelayNotElapsed();
        delete pendingWithdrawals[id];
        uint128 amount = least(pending.amount, unclaimed(id));
        channels[id].balance -= amount;
        emit WithdrawFinalized(id, msg.sender, amount);
        close(id, config);
        if (amount > 0) pay(config.token, config.payer, amount);
    }

    function refund(ChannelConfig calldata config, uint128 amount) external once {
        if (!isOfReceiver(config)) revert NotAuthorizedToRefund();
        giveBack(config, amount);
    }

    function refundWithSignature(ChannelConfig calldata config, uint128 amount, uint256 nonce, bytes calldata signature)
        external
        once
    {
        bytes32 id = getChannelId(config);
        if (nonce != refundNonce[id]) revert InvalidRefundNonce();
        if (!isSigned(config.receiverAuthorizer, getRefundDigest(id, nonce, amount), signature)) revert InvalidSignature();
        giveBack(config, amount);
    }

    /// The nonce is used also where nothing is left to give back.
    function giveBack(ChannelConfig calldata config, uint128 wanted) private {
        if (wanted == 0) revert ZeroRefund();
        bytes32 id = getChannelId(config);
        refundNonce[id] += 1;
        uint128 amount = least(wanted, unclaimed(id));
        if (amount == 0) return;
        channels[id].balance -= amount;
        Withdrawal storage pending = pendingWithdrawals[id];
        if (amount >= pending.amount) delete pendingWithdrawals[id];
        else pending.amount -= amount;
        emit Refunded(id, msg.sender, amount);
        close(id, config);
        pay(config.token, config.payer, amount);
    }

    /// Each call is this contract's own, by the same sender; one that fails undoes all.
    function multicall(bytes[] calldata data) external returns (bytes[] memory results) {
        results = new bytes[](data.length);
        for (uint256 i = 0; i < data.length; i++) {
            (bool done, bytes memory said) = address(this).delegatecall(data[i]);
            if (!done) {
                assembly {
                    revert(add(said, 0x20), mload(said))
                }
            }
            results[i] = said;
        }
    }

    function getChannelId(ChannelConfig calldata config) public view returns (bytes32) {
        return typed(keccak256(abi.encode(CHANNEL_CONFIG_TYPEHASH, config)));
    }

    function getVoucherDigest(bytes32 id, uint128 maxClaimableAmount) public view returns (bytes32) {
        return typed(keccak256(abi.encode(VOUCHER_TYPEHASH, id, maxClaimableAmount)));
    }

    function getRefundDigest(bytes32 id, uint256 nonce, uint128 amount) public view returns (bytes32) {
        return typed(keccak256(abi.encode(REFUND_TYPEHASH, id, nonce, amount)));
    }

    function getClaimBatchDigest(VoucherClaim[] calldata claims) public view returns (bytes32) {
        bytes memory entries;
        for (uint256 i = 0; i < claims.length; i++) {
            Voucher calldata voucher = claims[i].voucher;
            bytes memory entry = abi.encode(
                CLAIM_ENTRY_TYPEHASH, getChannelId(voucher.channel), voucher.maxClaimableAmount, claims[i].totalClaimed
            );
            entries = bytes.concat(entries, keccak256(entry));
        }
        return typed(keccak256(abi.encode(CLAIM_BATCH_TYPEHASH, keccak256(entries))));
    }

    function eip712Domain()
        external
        view
        returns (bytes1, string memory, string memory, uint256, address, bytes32, uint256[] memory)
    {
        return (hex"0f", "x402 Batch Settlement", "1", block.chainid, address(this), bytes32(0), new uint256[](0));
    }

    function typed(bytes32 message) private view returns (bytes32) {
        bytes32 domain = keccak256(
            abi.encode(DOMAIN, keccak256("x402 Batch Settlement"), keccak256("1"), block.chainid, address(this))
        );
        return keccak256(abi.encodePacked(hex"1901", domain, message));
    }

    function isOfReceiver(ChannelConfig calldata config) private view returns (bool) {
        return msg.sender == config.receiver || msg.sender == config.receiverAuthorizer;
    }

    function isOfPayer(ChannelConfig calldata config) private view returns (bool) {
        return msg.sender == config.payer || msg.sender == config.payerAuthorizer;
    }

    function unclaimed(bytes32 id) private view returns (uint128) {
        return channels[id].balance - channels[id].totalClaimed;
    }

    function close(bytes32 id, ChannelConfig calldata config) private {
        if (channels[id].balance == 0 && channels[id].totalClaimed == 0) emit ChannelClosed(id, config);
    }

    function least(uint128 one, uint128 other) private pure returns (uint128) {
        return one < other ? one : other;
    }

    function isSigned(address signer, bytes32 digest, bytes calldata signature) private view returns (bool) {
        if (signer.code.length > 0) {
            (bool done, bytes memory said) =
                signer.staticcall(abi.encodeCall(Account.isValidSignature, (digest, signature)));
            return done && said.length >= 32 && bytes32(said) == bytes32(Account.isValidSignature.selector);
        }
        return signature.length == 65 && uint256(bytes32(signature[32:64])) <= HIGHEST_S
            && signer != address(0) && ecrecover(digest, uint8(signature[64]), bytes32(signature[:32]), bytes32(signature[32:64])) == signer;
    }

    /// Half of the curve's order: the twin of a signature with a higher `s` has a lower one.
    uint256 private constant HIGHEST_S = 0x7FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF5D576E7357A4501DDFE92F46681B20A0;

    function recover(bytes32 digest, bytes calldata signature) private pure returns (address signer) {
        if (signature.length != 65) revert ECDSAInvalidSignatureLength(signature.length);
        bytes32 s = bytes32(signature[32:64]);
        if (uint256(s) > HIGHEST_S) revert ECDSAInvalidSignatureS(s);
        signer = ecrecover(digest, uint8(signature[64]), bytes32(signature[:32]), s);
        if (signer == address(0)) revert ECDSAInvalidSignature();
    }

    /// Also of tokens that return nothing.
    function pay(address token, address to, uint256 amount) private {
        (bool done, bytes memory said) = token.call(abi.encodeCall(Erc20.transfer, (to, amount)));
        require(done && (said.length == 0 ? token.code.length > 0 : abi.decode(said, (bool))), "TRANSFER_FAILED");
    }
}
