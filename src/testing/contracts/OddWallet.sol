// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity 0.8.37;

import "./Erc20.sol";

/// Contract accounts that pay and answer for no signature as they should, each in a way of its own: the constructor says which.
contract OddWallet {
    uint256 private way;

    constructor(uint256 chosen) {
        way = chosen;
    }

    function pay(Erc20 token, address to, uint256 value) external {
        require(token.transfer(to, value), "transfer refused");
    }

    /// Without a return type: what is returned is written byte by byte.
    function isValidSignature(bytes32, bytes calldata) external view {
        uint256 chosen = way;
        assembly {
            let magic := shl(224, 0x1626ba7e)
            switch chosen
            // Garbage: the magic value with a bit set behind it, ...
            case 0 {
                mstore(0, or(magic, 1))
                return(0, 32)
            }
            // ... at the wrong end of the word, ...
            case 1 {
                mstore(0, 0x1626ba7e)
                return(0, 32)
            }
            // ... cut short, ...
            case 2 {
                mstore(0, magic)
                return(0, 4)
            }
            // ... with more behind it, ...
            case 3 {
                mstore(0, magic)
                return(0, 64)
            }
            // ... and in every word of a megabyte.
            case 4 {
                mstore(0, magic)
                return(0, 1000000)
            }
            // Burns gas until there is none left.
            case 5 {
                for {} 1 {} {}
            }
            // Reverts, with the magic value as its reason.
            case 6 {
                mstore(0, magic)
                revert(0, 32)
            }
            // No code that can be run.
            case 7 {
                invalid()
            }
            // Says yes, after more gas than anybody should have to give.
            default {
                for { let i := 0 } lt(i, 200000) { i := add(i, 1) } {}
                mstore(0, magic)
                return(0, 32)
            }
        }
    }
}
