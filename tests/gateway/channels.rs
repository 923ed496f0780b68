//! The gateway sells by vouchers of a channel before a Python service on a real chain, and claims what was sold while it runs.

use std::time::Duration;

use reqwest::{Client, Response};
use serde_json::Value;
use tokio::time::{Instant, sleep};
use tower_x402::{
    protocol::{
        headers::PAYMENT_SIGNATURE,
        v2::{ChannelRequirements, PaymentOption, PaymentPayload, PaymentRequired, SettleResponse},
    },
    testing::DevChain,
};

use crate::{
    program::{NOWHERE, PATIENT, Running, SELLER, Shop, python},
    support::{channel_payer::ChannelPayer, tools::write_secret},
};

const ROUTES: &str = "[[route]]\nmatch = \"GET /reports/{id}\"\nprice = \"0.05 USDC\"\n[default]\naction = \"deny\"";
const KEYS: &str = "settle_key_file = \"settle.key\"\nchannel_key_file = \"channel.key\"";
const PRICE: u128 = 50_000;

/// A gateway with channels before a service, both in a process of their own.
struct Market {
    chain: DevChain,
    shop: Shop,
    gateway: Running,
    client: Client,
    _upstream: Running,
}

async fn market() -> Market {
    let builder = DevChain::builder().install_with_npm(true).with_permit2().with_channels();
    let chain = builder.mine_every(Duration::from_secs(1)).start().await.unwrap();
    let upstream = python("examples/gateway/upstream.py", &["0"]);
    let shop = Shop::new(chain.rpc_url(), &upstream.url);
    write_secret(shop.folder.path().join("settle.key"), chain.accounts()[3].private_key());
    write_secret(shop.folder.path().join("channel.key"), chain.accounts()[4].private_key());
    shop.write("", KEYS, ROUTES);
    let gateway = shop.start();
    let client = Client::builder().no_proxy().build().unwrap();
    Market { chain, shop, gateway, client, _upstream: upstream }
}

impl Market {
    async fn ask(&self, payment: Option<PaymentPayload>) -> Response {
        let request = self.client.get(format!("{}/reports/7", self.gateway.url));
        let request = match payment {
            Some(payment) => request.header(PAYMENT_SIGNATURE, payment.to_header()),
            None => request,
        };
        request.send().await.unwrap()
    }

    /// The first offers wait for a block, and for what the node says of the contract.
    async fn offer(&self) -> ChannelRequirements {
        let deadline = Instant::now() + PATIENT;
        loop {
            let quote = self.ask(None).await;
            let required = PaymentRequired::from_headers(quote.headers()).unwrap();
            let channel = required.into_iter().flat_map(|required| required.accepts).find_map(|option| match option {
                PaymentOption::Channel(offer) => Some(offer),
                _ => None,
            });
            if let Some(offer) = channel {
                assert_eq!(offer.amount.to_string(), PRICE.to_string());
                return offer;
            }
            assert!(Instant::now() < deadline, "no channels are offered: {quote:?}");
            sleep(Duration::from_millis(300)).await;
        }
    }

    /// Shows a payment that buys the answer, after which this is charged in all.
    async fn buys(&self, payer: &ChannelPayer<'_>, payment: PaymentPayload, charged: u128) {
        let answer = self.ask(Some(payment)).await;
        assert_eq!(answer.status(), 200, "{:?}\n{}", answer.headers(), self.gateway.said());
        let told = SettleResponse::from_headers(answer.headers()).unwrap().unwrap();
        let state = told.channel_state().unwrap();
        assert_eq!(state.charged_cumulative_amount.unwrap().to_string(), charged.to_string());
        let sold: Value = serde_json::from_slice(&answer.bytes().await.unwrap()).unwrap();
        assert_eq!(
            (&sold["report"], &sold["paid"]["X402-Amount"]),
            (&Value::from("7"), &Value::from(PRICE.to_string())),
            "{sold}"
        );
        assert_eq!(sold["paid"]["X402-Payer"], payer.address.to_string());
    }

    /// Runs `claim` beside the gateway: in how many channels something was claimed, and the seller's takings then.
    async fn claims(&self) -> (Option<i32>, String, u128) {
        let (code, out, complaint) = tokio::task::block_in_place(|| self.shop.run(&["claim"]));
        let takings = self.chain.usdc_balance(SELLER).await.unwrap().to_string().parse().unwrap();
        let line = out.lines().last().unwrap_or_else(|| panic!("{complaint}")).to_owned();
        (code, line, takings)
    }
}

fn claimed(channels: usize) -> String {
    format!("claimed what was sold in {channels} channels")
}

#[tokio::test(flavor = "multi_thread")]
async fn vouchers_buy_and_what_they_paid_is_claimed_once_while_the_gateway_runs() {
    let market = market().await;
    let offer = market.offer().await;
    let payer = ChannelPayer::of(&market.chain, 1, &offer);
    market.buys(&payer, payer.deposits(&offer, PRICE, 20 * PRICE).await, PRICE).await;
    for sale in 2..=3 {
        let offer = market.offer().await;
        market.buys(&payer, payer.pays(&offer, sale * PRICE), sale * PRICE).await;
    }
    // One voucher buys once.
    let again = market.ask(Some(payer.pays(&market.offer().await, 3 * PRICE))).await;
    assert_eq!(again.status(), 402);
    assert_eq!(payer.state().await, (20 * PRICE, 0));

    assert_eq!(market.claims().await, (Some(0), claimed(1), 3 * PRICE));
    assert_eq!(payer.state().await, (20 * PRICE, 3 * PRICE));
    assert_eq!(market.claims().await, (Some(0), claimed(0), 3 * PRICE), "repeated");
    // The gateway sells on from there.
    market.buys(&payer, payer.pays(&market.offer().await, 4 * PRICE), 4 * PRICE).await;
    assert_eq!(market.claims().await, (Some(0), claimed(1), 4 * PRICE));
    let (code, out, complaint) = market.shop.run(&["sales", "--since", "2020-01-01", "--json"]);
    assert_eq!(code, Some(0), "{complaint}");
    assert_eq!(serde_json::from_str::<Value>(&out).unwrap().as_array().unwrap().len(), 4, "{out}");
}

#[test]
fn without_its_channel_key_nothing_is_sold_or_claimed() {
    let shop = Shop::new(NOWHERE, NOWHERE);
    write_secret(shop.folder.path().join("settle.key"), crate::program::KEY);
    for (network, words) in [
        (KEYS, "network.channel_key_file: cannot read"),
        (
            "settle_key_file = \"settle.key\"\nchannel_key_file = \"bad.key\"",
            "network.channel_key_file: the file must have one private key",
        ),
        ("channel_key_file = \"settle.key\"", "channels need settle_key_file too"),
    ] {
        write_secret(shop.folder.path().join("bad.key"), "hunter3");
        shop.write("", network, ROUTES);
        for arguments in [&["claim"][..], &[]] {
            let (code, out, complaint) = shop.run(arguments);
            assert_eq!((code, out.as_str(), complaint.lines().count()), (Some(2), "", 1), "{complaint}");
            assert!(complaint.contains(words) && !complaint.contains("hunter3"), "{complaint}");
        }
    }
}
