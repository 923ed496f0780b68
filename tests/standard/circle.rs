//! Circle's own bytecode at the address of USDC on Base.

use serde_json::{Value, json};
use tower_x402::{protocol::Address, testing::DevChain};

use super::{
    PURSE, Token, World,
    programs::{lines, script},
};

/// Puts it there, with Multicall3 at its own address, and gives these accounts these amounts.
pub async fn install(chain: &DevChain, purses: &[(Address, u128)]) -> Value {
    let mut command = script("circle.mjs").await;
    command.arg(chain.rpc_url());
    for (owner, units) in purses {
        command.args(["--mint", &format!("{owner}={units}")]);
    }
    lines(&mut command).await.remove(0)
}

/// Bars an account, as its issuer can.
pub async fn blacklist(chain: &DevChain, account: Address) {
    let mut command = script("circle.mjs").await;
    let _ = lines(command.args([chain.rpc_url(), "--blacklist", &account.to_string()])).await;
}

#[tokio::test]
async fn it_is_the_token_that_the_standard_names() {
    let Some(world) = World::with(Token::Circles).await else { return };
    assert_eq!(world.balance(world.buyer().address()).await, PURSE);
    let again = install(&world.chain, &[(world.wallet, 1)]).await;
    assert_eq!(again["name"], "USD Coin");
    assert_eq!(again["version"], "2");
    // Base's own.
    let domain = "0x02fa7265e7c5d81118673727957699e4d68f74cd74b7db77da710fe8a2c7834f";
    assert_eq!(again["domainSeparator"], json!(domain));
    assert_eq!(world.balance(world.wallet).await, PURSE + 1);
}
