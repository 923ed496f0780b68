// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity 0.8.37;

import "./Erc20.sol";
import "./Erc3009.sol";

struct TokenPermissions {
    address token;
    uint256 amount;
}

struct PermitTransferFrom {
    TokenPermissions permitted;
    uint256 nonce;
    uint256 deadline;
}

struct SignatureTransferDetails {
    address to;
    uint256 requestedAmount;
}

/// Signed transfers with a witness and unordered nonces, as the contract at Permit2's address has them: the part of it that x402's proxies
/// call. No constructor and no immutables, so that the runtime code alone is the whole contract.
contract Permit2 {
    mapping(address => mapping(uint256 => uint256)) public nonceBitmap;

    bytes32 private constant DOMAIN = keccak256("EIP712Domain(string name,uint256 chainId,address verifyingContract)");
    bytes32 private constant PERMITTED = keccak256("TokenPermissions(address token,uint256 amount)");
    string private constant TYPE =
        "PermitWitnessTransferFrom(TokenPermissions permitted,address spender,uint256 nonce,uint256 deadline,";

    event UnorderedNonceInvalidation(address indexed owner, uint256 word, uint256 mask);

    error SignatureExpired(uint256 signatureDeadline);
    error InvalidAmount(uint256 maxAmount);
    error InvalidNonce();
    error InvalidSignature();
    error InvalidSignatureLength();
    error InvalidSigner();
    error InvalidContractSignature();

    function DOMAIN_SEPARATOR() public view returns (bytes32) {
        return keccak256(abi.encode(DOMAIN, keccak256("Permit2"), block.chainid, address(this)));
    }

    function permitWitnessTransferFrom(
        PermitTransferFrom memory permit,
        SignatureTransferDetails calldata details,
        address owner,
        bytes32 witness,
        string calldata witnessType,
        bytes calldata signature
    ) external {
        if (block.timestamp > permit.deadline) revert SignatureExpired(permit.deadline);
        if (details.requestedAmount > permit.permitted.amount) revert InvalidAmount(permit.permitted.amount);
        use(owner, permit.nonce);
        bytes32 message = keccak256(
            abi.encode(
                keccak256(abi.encodePacked(TYPE, witnessType)),
                keccak256(abi.encode(PERMITTED, permit.permitted.token, permit.permitted.amount)),
                msg.sender,
                permit.nonce,
                permit.deadline,
                witness
            )
        );
        check(owner, keccak256(abi.encodePacked(hex"1901", DOMAIN_SEPARATOR(), message)), signature);
        pull(permit.permitted.token, owner, details.to, details.requestedAmount);
    }

    /// Uses up nonces of the sender: those whose bits are set, of that word.
    function invalidateUnorderedNonces(uint256 word, uint256 mask) external {
        nonceBitmap[msg.sender][word] |= mask;
        emit UnorderedNonceInvalidation(msg.sender, word, mask);
    }

    function use(address owner, uint256 nonce) private {
        uint256 bit = 1 << uint8(nonce);
        uint256 used = nonceBitmap[owner][nonce >> 8];
        if (used & bit != 0) revert InvalidNonce();
        nonceBitmap[owner][nonce >> 8] = used | bit;
    }

    function check(address owner, bytes32 digest, bytes calldata signature) private view {
        if (owner.code.length > 0) {
            bytes4 said = Account(owner).isValidSignature(digest, signature);
            if (said != Account.isValidSignature.selector) revert InvalidContractSignature();
            return;
        }
        bytes32 r;
        bytes32 s;
        uint8 v;
        if (signature.length == 65) {
            (r, s, v) = (bytes32(signature[:32]), bytes32(signature[32:64]), uint8(signature[64]));
        } else if (signature.length == 64) {
            // EIP-2098.
            bytes32 vs = bytes32(signature[32:64]);
            (r, s, v) = (bytes32(signature[:32]), vs & bytes32(type(uint256).max >> 1), uint8(uint256(vs) >> 255) + 27);
        } else {
            revert InvalidSignatureLength();
        }
        address signer = ecrecover(digest, v, r, s);
        if (signer == address(0)) revert InvalidSignature();
        if (signer != owner) revert InvalidSigner();
    }

    /// Also of tokens that return nothing.
    function pull(address token, address from, address to, uint256 amount) private {
        (bool done, bytes memory said) = token.call(abi.encodeCall(Erc20.transferFrom, (from, to, amount)));
        bool agreed = done && (said.length == 0 ? token.code.length > 0 : abi.decode(said, (bool)));
        require(agreed, "TRANSFER_FROM_FAILED");
    }
}
