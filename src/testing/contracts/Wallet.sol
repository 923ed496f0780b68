// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity 0.8.37;

import "./Erc20.sol";

/// A contract account of one owner, who signs for it (EIP-1271). Anyone may have it pay: on a development chain there is
/// nothing to protect, and so the sender of the transaction says nothing about whose payment it is.
contract Wallet {
    address private holder;

    constructor(address owner) {
        holder = owner;
    }

    function pay(Erc20 token, address to, uint256 value) external {
        require(token.transfer(to, value), "transfer refused");
    }

    function isValidSignature(bytes32 hash, bytes calldata signature) external view returns (bytes4) {
        require(signature.length == 65, "no signature");
        uint8 v = uint8(signature[64]);
        address signer = ecrecover(hash, v < 27 ? v + 27 : v, bytes32(signature[:32]), bytes32(signature[32:64]));
        return signer != address(0) && signer == holder ? bytes4(0x1626ba7e) : bytes4(0xffffffff);
    }
}
