// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity 0.8.37;

import "./Proxy.sol";

/// Stands at the address of the proxy for the scheme `exact`: anyone may settle, and the signed amount is paid.
contract ExactProxy is Proxy {
    struct Witness {
        address to;
        uint256 validAfter;
    }

    string public constant WITNESS_TYPE_STRING =
        "Witness witness)TokenPermissions(address token,uint256 amount)Witness(address to,uint256 validAfter)";
    bytes32 public constant WITNESS_TYPEHASH = keccak256("Witness(address to,uint256 validAfter)");

    error InvalidAmount();

    function settle(PermitTransferFrom calldata permit, address owner, Witness calldata witness, bytes calldata signature)
        external
        once
    {
        finish(permit, owner, witness, signature);
        emit Settled();
    }

    function settleWithPermit(
        Permit2612 calldata allowance,
        PermitTransferFrom calldata permit,
        address owner,
        Witness calldata witness,
        bytes calldata signature
    ) external once {
        allow(permit, owner, allowance);
        finish(permit, owner, witness, signature);
        emit SettledWithPermit();
    }

    function finish(PermitTransferFrom calldata permit, address owner, Witness calldata witness, bytes calldata signature)
        private
    {
        uint256 amount = permit.permitted.amount;
        if (amount == 0) revert InvalidAmount();
        bytes32 hash = keccak256(abi.encode(WITNESS_TYPEHASH, witness.to, witness.validAfter));
        pay(permit, amount, owner, witness.to, witness.validAfter, hash, WITNESS_TYPE_STRING, signature);
    }
}
