// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity 0.8.37;

/// What the two collectors of deposits have in common: only the contract of the channels calls them.
abstract contract Collecting {
    address internal constant CHANNELS = 0x4020074e9dF2ce1deE5A9C1b5c3f541D02a10003;

    error OnlyX402BatchSettlement();

    modifier onlyChannels() {
        if (msg.sender != CHANNELS) revert OnlyX402BatchSettlement();
        _;
    }

    function x402BatchSettlement() external pure returns (address) {
        return CHANNELS;
    }
}
