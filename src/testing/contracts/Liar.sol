// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity 0.8.37;

/// Says `Transfer` and moves nothing. Each function says it in another shape; only
/// `plain` has the shape of ERC-20. It claims six decimals, so that a seller who was
/// talked into accepting it gets to see every shape.
contract Liar {
    bytes32 private constant TRANSFER = keccak256("Transfer(address,address,uint256)");

    function decimals() external pure returns (uint8) {
        return 6;
    }

    function symbol() external pure returns (string memory) {
        return "USDC";
    }

    /// Three topics, 32 bytes of data: an ERC-20 transfer, if only it came from the token.
    function plain(address from, address to, uint256 value) public {
        bytes32 sig = TRANSFER;
        assembly ("memory-safe") {
            mstore(0, value)
            log3(0, 32, sig, from, to)
        }
    }

    /// The signature in the data, no topic at all.
    function noTopics(address from, address to, uint256 value) public {
        bytes memory data = abi.encode(TRANSFER, from, to, value);
        assembly ("memory-safe") {
            log0(add(data, 32), mload(data))
        }
    }

    /// The signature alone is a topic.
    function oneTopic(address from, address to, uint256 value) public {
        bytes memory data = abi.encode(from, to, value);
        bytes32 sig = TRANSFER;
        assembly ("memory-safe") {
            log1(add(data, 32), mload(data), sig)
        }
    }

    /// The recipient is in the data.
    function twoTopics(address from, address to, uint256 value) public {
        bytes memory data = abi.encode(to, value);
        bytes32 sig = TRANSFER;
        assembly ("memory-safe") {
            log2(add(data, 32), mload(data), sig, from)
        }
    }

    /// Shape of ERC-721: the value is a topic and the data is empty.
    function fourTopics(address from, address to, uint256 value) public {
        bytes32 sig = TRANSFER;
        assembly ("memory-safe") {
            log4(0, 0, sig, from, to, value)
        }
    }

    /// Four topics and the value in the data as well.
    function fourTopicsAndData(address from, address to, uint256 value) public {
        bytes32 sig = TRANSFER;
        assembly ("memory-safe") {
            mstore(0, value)
            log4(0, 32, sig, from, to, value)
        }
    }

    function noData(address from, address to, uint256) public {
        bytes32 sig = TRANSFER;
        assembly ("memory-safe") {
            log3(0, 0, sig, from, to)
        }
    }

    /// 31 bytes: the value without its last byte.
    function shortData(address from, address to, uint256 value) public {
        bytes32 sig = TRANSFER;
        assembly ("memory-safe") {
            mstore(0, value)
            log3(0, 31, sig, from, to)
        }
    }

    /// 64 bytes: the value twice.
    function longData(address from, address to, uint256 value) public {
        bytes memory data = abi.encode(value, value);
        bytes32 sig = TRANSFER;
        assembly ("memory-safe") {
            log3(add(data, 32), mload(data), sig, from, to)
        }
    }

    /// A bit set above the 20 bytes of the sender.
    function dirtySender(address from, address to, uint256 value) public {
        bytes32 sig = TRANSFER;
        assembly ("memory-safe") {
            mstore(0, value)
            log3(0, 32, sig, or(from, shl(160, 1)), to)
        }
    }

    /// A bit set above the 20 bytes of the recipient.
    function dirtyRecipient(address from, address to, uint256 value) public {
        bytes32 sig = TRANSFER;
        assembly ("memory-safe") {
            mstore(0, value)
            log3(0, 32, sig, from, or(to, shl(255, 1)))
        }
    }

    /// Shape of a transfer under another name.
    function otherEvent(address from, address to, uint256 value) public {
        bytes32 sig = keccak256("Approval(address,address,uint256)");
        assembly ("memory-safe") {
            mstore(0, value)
            log3(0, 32, sig, from, to)
        }
    }

    /// Every crooked shape in one transaction, `plain` not among them.
    function everything(address from, address to, uint256 value) external {
        noTopics(from, to, value);
        oneTopic(from, to, value);
        twoTopics(from, to, value);
        fourTopics(from, to, value);
        fourTopicsAndData(from, to, value);
        noData(from, to, value);
        shortData(from, to, value);
        longData(from, to, value);
        dirtySender(from, to, value);
        dirtyRecipient(from, to, value);
        otherEvent(from, to, value);
    }
}
