// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity 0.8.37;

import "./Collecting.sol";
import "./Erc3009.sol";

/// Stands at the address of x402's collector of deposits by EIP-3009: it receives what a payer signed for a channel, and passes it on.
contract Erc3009Collector is Collecting {
    function collect(address payer, address token, uint256 amount, bytes32 channelId, bytes calldata data)
        external
        onlyChannels
    {
        (uint256 validAfter, uint256 validBefore, uint256 salt, bytes memory signature) =
            abi.decode(data, (uint256, uint256, uint256, bytes));
        bytes32 nonce = keccak256(abi.encode(channelId, salt));
        Erc3009(token).receiveWithAuthorization(
            payer, address(this), amount, validAfter, validBefore, nonce, signature
        );
        require(Erc20(token).transfer(CHANNELS, amount), "TRANSFER_FAILED");
    }
}
