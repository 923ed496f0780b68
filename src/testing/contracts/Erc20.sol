// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity 0.8.37;

/// The ERC-20 a payment needs, and an open `mint`. For development chains only.
///
/// `balances` is the first storage slot: the dev chain writes balances there directly,
/// so `totalSupply` counts what was minted and not what was written.
abstract contract Erc20 {
    mapping(address => uint256) private balances;
    mapping(address => mapping(address => uint256)) internal allowances;
    uint256 public totalSupply;

    event Transfer(address indexed from, address indexed to, uint256 value);
    event Approval(address indexed owner, address indexed spender, uint256 value);

    function name() public view virtual returns (string memory);
    function symbol() external pure virtual returns (string memory);
    function decimals() external view virtual returns (uint8);

    function balanceOf(address owner) external view returns (uint256) {
        return balances[owner];
    }

    function allowance(address owner, address spender) external view returns (uint256) {
        return allowances[owner][spender];
    }

    function approve(address spender, uint256 value) external returns (bool) {
        allowances[msg.sender][spender] = value;
        emit Approval(msg.sender, spender, value);
        return true;
    }

    function transfer(address to, uint256 value) external returns (bool) {
        move(msg.sender, to, value);
        return true;
    }

    function transferFrom(address from, address to, uint256 value) external returns (bool) {
        uint256 allowed = allowances[from][msg.sender];
        require(allowed >= value, "transfer amount exceeds allowance");
        allowances[from][msg.sender] = allowed - value;
        move(from, to, value);
        return true;
    }

    /// Anyone may mint: there is nothing here to protect.
    function mint(address to, uint256 value) external {
        totalSupply += value;
        balances[to] += value;
        emit Transfer(address(0), to, value);
    }

    function move(address from, address to, uint256 value) internal {
        require(to != address(0), "transfer to the zero address");
        require(balances[from] >= value, "transfer amount exceeds balance");
        unchecked {
            balances[from] -= value;
        }
        balances[to] += value;
        emit Transfer(from, to, value);
    }
}
