// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity 0.8.37;

import "./Collecting.sol";
import "./Erc2612.sol";
import "./Permit2.sol";

/// Stands at the address of x402's collector of deposits by Permit2: the channel is the permit's witness.
contract Permit2Collector is Collecting {
    Permit2 public constant PERMIT2 = Permit2(0x000000000022D473030F116dDEE9F6B43aC78BA3);
    string public constant DEPOSIT_WITNESS_TYPE_STRING =
        "DepositWitness witness)DepositWitness(bytes32 channelId)TokenPermissions(address token,uint256 amount)";
    bytes32 public constant DEPOSIT_WITNESS_TYPEHASH = keccak256("DepositWitness(bytes32 channelId)");

    error Permit2612AmountMismatch();

    function collect(address payer, address token, uint256 amount, bytes32 channelId, bytes calldata data)
        external
        onlyChannels
    {
        (uint256 nonce, uint256 deadline, bytes memory signature, bytes memory allowance) =
            abi.decode(data, (uint256, uint256, bytes, bytes));
        if (allowance.length > 0) allow(payer, token, amount, allowance);
        PERMIT2.permitWitnessTransferFrom(
            PermitTransferFrom(TokenPermissions(token, amount), nonce, deadline),
            SignatureTransferDetails(CHANNELS, amount),
            payer,
            keccak256(abi.encode(DEPOSIT_WITNESS_TYPEHASH, channelId)),
            DEPOSIT_WITNESS_TYPE_STRING,
            signature
        );
    }

    /// An allowance that is not taken is no reason to stop: one may be there already.
    function allow(address payer, address token, uint256 amount, bytes memory allowance) private {
        (uint256 value, uint256 deadline, uint8 v, bytes32 r, bytes32 s) =
            abi.decode(allowance, (uint256, uint256, uint8, bytes32, bytes32));
        if (value != amount) revert Permit2612AmountMismatch();
        try Erc2612(token).permit(payer, address(PERMIT2), value, deadline, v, r, s) {} catch {}
    }
}
