// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity 0.8.37;

import "./Permit2.sol";
import "./Erc2612.sol";

struct Permit2612 {
    uint256 value;
    uint256 deadline;
    bytes32 r;
    bytes32 s;
    uint8 v;
}

/// What x402's two proxies have in common: they spend permits of Permit2, and pay only the recipient that the payer signed.
abstract contract Proxy {
    Permit2 public constant PERMIT2 = Permit2(0x000000000022D473030F116dDEE9F6B43aC78BA3);

    bool private entered;

    event Settled();
    event SettledWithPermit();

    error InvalidDestination();
    error InvalidOwner();
    error PaymentTooEarly();
    error Permit2612AmountMismatch();
    error ReentrancyGuardReentrantCall();

    modifier once() {
        if (entered) revert ReentrancyGuardReentrantCall();
        entered = true;
        _;
        entered = false;
    }

    /// An allowance that is not taken is no reason to stop: one may be there already.
    function allow(PermitTransferFrom calldata permit, address owner, Permit2612 calldata allowance) internal {
        if (allowance.value != permit.permitted.amount) revert Permit2612AmountMismatch();
        Erc2612 token = Erc2612(permit.permitted.token);
        try token.permit(
            owner, address(PERMIT2), allowance.value, allowance.deadline, allowance.v, allowance.r, allowance.s
        ) {} catch {}
    }

    function pay(
        PermitTransferFrom calldata permit,
        uint256 amount,
        address owner,
        address to,
        uint256 validAfter,
        bytes32 witness,
        string memory witnessType,
        bytes calldata signature
    ) internal {
        if (owner == address(0)) revert InvalidOwner();
        if (to == address(0)) revert InvalidDestination();
        if (block.timestamp < validAfter) revert PaymentTooEarly();
        PERMIT2.permitWitnessTransferFrom(
            permit, SignatureTransferDetails(to, amount), owner, witness, witnessType, signature
        );
    }
}
