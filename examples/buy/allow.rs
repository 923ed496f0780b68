//! `buy allow`: lets Permit2 move a token of the account, so that metered answers can be paid.

use tower_x402::{
    client::WalletPayer,
    protocol::{Address, Amount, Asset, Network},
};

use super::{BoxError, args::Allow, means, report, screen};

const TOKEN: &str = "--token takes the symbol USDC, or the address of a token contract of six decimals";

/// Sets the allowance; returns the exit code.
pub(crate) async fn run(args: &Allow) -> u8 {
    report::code(act(args).await)
}

async fn act(args: &Allow) -> Result<u8, BoxError> {
    let wallet = means::wallet(&args.payer, &args.rpc_url, []).await?;
    let asset = asset(&wallet, &args.token)?;
    let amount = Amount::parse_decimal(&args.amount, asset.decimals())
        .map_err(|_| "--amount is no amount of the token: write decimals such as 5.00, or 0 to revoke")?;
    let shown = |amount: Amount| format!("{} {}", amount.to_decimal(asset.decimals()), args.symbol(&asset));
    let account = wallet.address();
    eprintln!("{account} allows Permit2 to move {}, by a transaction that costs it gas.", shown(amount));
    let approval = wallet.allow_permit2(&asset, amount).await?;
    eprintln!("approved    {}", approval.transaction);
    println!("{}", shown(approval.allowance));
    Ok(0)
}

/// Returns the token on the chain of the wallet's nodes.
fn asset(wallet: &WalletPayer, token: &str) -> Result<Asset, BoxError> {
    let mut networks = wallet.networks();
    let (Some(network), None) = (networks.next(), networks.next()) else {
        return Err("name the endpoints of one chain: an allowance is made on one".into());
    };
    named(network, token).ok_or_else(|| TOKEN.into())
}

fn named(network: Network, token: &str) -> Option<Asset> {
    if token.eq_ignore_ascii_case("USDC") {
        return Asset::usdc_of(network);
    }
    let contract: Address = token.parse().ok()?;
    let usdc = Asset::usdc_of(network).filter(|usdc| usdc.contract() == contract);
    Some(usdc.unwrap_or_else(|| Asset::new(network, contract, 6, "")))
}

impl Allow {
    fn symbol(&self, asset: &Asset) -> String {
        if asset.symbol().is_empty() { screen::on_a_line(&self.token) } else { asset.symbol().to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_usdc_or_an_address() {
        let usdc = Asset::usdc_of(Network::BASE).unwrap();
        for name in ["USDC", "usdc", &usdc.contract().to_string()] {
            assert_eq!(named(Network::BASE, name), Some(usdc.clone()), "{name}");
        }
        let other = "0x0909090909090909090909090909090909090909";
        assert_eq!(named(Network::BASE, other).unwrap().contract().to_string().to_lowercase(), other);
        assert_eq!(named(Network::BASE, "EURC"), None);
        assert_eq!(named(Network::eip155(31_337), "USDC"), None);
    }
}
