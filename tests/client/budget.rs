//! What may be spent: to the unit, per host and per day, by calls at the same time and across a restart; who is asked,
//! and who may be paid.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::future::join_all;
use http::Request;
use tokio::sync::Semaphore;
use tower_x402::{
    client::{
        Body, Budget, BudgetBuilder, BudgetDenial, Journal as _, JournalEntry, PayErrorKind, PayLayer, PurchaseState,
    },
    protocol::{Address, Asset, ChainTime, Network},
    testing::Sending,
};

use super::{
    Market, question,
    rig::{Bill, Diary, Seller, Slip, ask, reply, sold},
    signed::{demand, way},
    told::Told,
};
use crate::support::{NOW, recipient};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

async fn layer(market: &Market, budget: BudgetBuilder) -> PayLayer {
    let budget = budget.build().unwrap();
    let builder = PayLayer::builder(market.wallet.clone(), budget, market.journal.clone());
    builder.clock(market.shop.clock.clone()).build().await.unwrap()
}

fn usdc() -> BudgetBuilder {
    Budget::in_assets([Asset::USDC_BASE])
}

/// A seller at a price, whose quotes hold for ever, each under an intent of its own.
fn at(amount: &str) -> Seller {
    static QUOTES: AtomicUsize = AtomicUsize::new(0);
    let bill = Bill { expiry: u64::MAX, ..Bill::of(amount) };
    Seller::new(move |asked| {
        let intent = format!("quote-{}", QUOTES.fetch_add(1, Ordering::SeqCst));
        if asked.proof.is_some() { sold() } else { Bill { intent, ..bill.clone() }.reply() }
    })
}

fn get(uri: &str) -> Request<Body> {
    Request::get(uri).body(Body::empty()).unwrap()
}

async fn declined(layer: &PayLayer, seller: &Seller, request: Request<Body>) -> BudgetDenial {
    denied(layer, seller, request).await.0
}

/// The rule, and what is said of it.
async fn denied(layer: &PayLayer, seller: &Seller, request: Request<Body>) -> (BudgetDenial, String) {
    let error = ask(layer, seller, request).await.unwrap_err();
    assert_eq!((error.kind(), error.transaction(), error.is_resumable()), (PayErrorKind::Declined, None, false));
    let text = error.to_string();
    (error.denial().unwrap(), text.strip_suffix(": nothing was paid").unwrap_or(&text).to_owned())
}

#[tokio::test(start_paused = true)]
async fn one_payment_costs_at_most_its_limit() {
    let market = Market::open().await;
    let layer = layer(&market, usdc().per_payment("0.49").per_day("10")).await;
    ask(&layer, &at("489999"), question("{}")).await.unwrap();
    ask(&layer, &at("490000"), question("{}")).await.unwrap();
    let (why, said) = denied(&layer, &at("490001"), question("{}")).await;
    assert_eq!(why, BudgetDenial::PerPayment);
    assert_eq!(said, "0.490001 would exceed the limit of 0.49 for one payment");
    assert_eq!((market.wallet.transfers(), market.wallet.prepared()), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn a_day_costs_at_most_its_limit_and_passes() {
    let market = Market::open().await;
    let layer = layer(&market, usdc().per_payment("1").per_day("1.47")).await;
    for hours in 0..3 {
        ask(&layer, &at("490000"), question("{}")).await.unwrap();
        market.shop.clock.set_unix(NOW + 3600 * (hours + 1));
    }
    let said = denied(&layer, &at("1"), question("{}")).await;
    let limit = "0.000001 would exceed the daily limit of 1.47 (1.47 already spent)".to_owned();
    assert_eq!(said, (BudgetDenial::PerDay, limit));
    // The first payment counts for 24 hours, to the second.
    market.shop.clock.set_unix(NOW + DAY.as_secs() - 1);
    assert_eq!(declined(&layer, &at("1"), question("{}")).await, BudgetDenial::PerDay);
    market.shop.clock.set_unix(NOW + DAY.as_secs());
    declined(&layer, &at("490001"), question("{}")).await;
    ask(&layer, &at("490000"), question("{}")).await.unwrap();
    declined(&layer, &at("1"), question("{}")).await;
    market.shop.clock.set_unix(NOW + DAY.as_secs() + 3600);
    ask(&layer, &at("490000"), question("{}")).await.unwrap();
    assert_eq!(market.wallet.transfers(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_host_has_at_most_its_limit_however_it_is_spelled() {
    let spellings = [
        ["https://seller.example/a", "https://SELLER.example/b", "https://user:pass@Seller.Example/c"],
        ["https://seller.example/a", "https://seller.example:443/b", "https://seller.example:443/c"],
        ["http://127.0.0.1/a", "http://127.0.0.1:80/b", "http://me@127.0.0.1:80/c"],
        ["https://seller.example:8443/a", "https://Seller.example:8443/b", "https://me@seller.example:8443/c"],
        ["http://[::1]:8080/a", "http://[::1]:8080/b", "http://me@[::1]:8080/c"],
        ["https://seller.example./a", "https://seller.example/b", "https://seller.example.:443/c"],
        ["https://seller.example/a", "https://seller.example:8443/b", "https://seller.example..:9443/c"],
        ["https://127.0.0.1/a", "https://127.1/b", "https://0x7f000001:8443/c"],
        ["https://2130706433/a", "https://0177.0.0.1/b", "https://127.0.0.1:1/c"],
        ["https://[0:0:0:0:0:0:0:1]/a", "https://[::1]:8443/b", "https://[::0.0.0.1]/c"],
        ["https://[::ffff:127.0.0.1]/a", "https://127.0.0.1/b", "https://0.0.0.0/c"],
        ["https://localhost/a", "https://[::1]/b", "https://[::ffff:7f00:1]/c"],
        ["https://a.LOCALHOST./a", "https://[::]/b", "https://127.0.0.2/c"],
        ["https://[::ffff:192.0.2.7]/a", "https://192.0.2.7:8443/b", "https://[::ffff:c000:207]/c"],
    ];
    for [first, second, third] in spellings {
        let market = Market::open().await;
        let layer = layer(&market, usdc().per_payment("1").per_host("0.98").per_day("10")).await;
        let seller = at("490000");
        ask(&layer, &seller, get(first)).await.unwrap();
        ask(&layer, &seller, get(second)).await.unwrap();
        let why = declined(&layer, &seller, get(third)).await;
        assert!(why == BudgetDenial::PerHost, "{third}: {why:?}");
        ask(&layer, &seller, get("https://another.example/")).await.unwrap();
        assert_eq!(market.wallet.transfers(), 3);
    }
}

/// A client that is connected to one server is given paths only; then `Host` says which.
#[tokio::test(start_paused = true)]
async fn a_request_without_authority_goes_to_its_host_header() {
    let market = Market::open().await;
    let budget = || usdc().per_payment("1").per_host("0.49").per_day("10");
    let trusting = layer(&market, budget().allow_plain_http()).await;
    let to = |host: &str| Request::get("/a").header("host", host).body(Body::empty()).unwrap();
    ask(&trusting, &at("490000"), to("seller.example")).await.unwrap();
    for host in ["Seller.Example", "seller.example:443", "seller.example.."] {
        let why = declined(&trusting, &at("490000"), to(host)).await;
        assert!(why == BudgetDenial::PerHost, "{host}: {why:?}");
    }
    ask(&trusting, &at("490000"), to("other.example")).await.unwrap();
    assert_eq!(market.journal.entries().len(), 2);
    // How it travels nobody knows, and the header may say what it likes.
    let careful = layer(&market, budget()).await;
    for host in ["new.example", "localhost", "127.0.0.1:8402"] {
        assert_eq!(declined(&careful, &at("490000"), to(host)).await, BudgetDenial::PlainHttp, "{host}");
    }
    let ftp = Request::get("ftp://new.example/a").body(Body::empty()).unwrap();
    assert_eq!(declined(&careful, &at("490000"), ftp).await, BudgetDenial::PlainHttp);
}

/// Without a host there is nothing that a limit per host could mean, and nobody whom the quote could be from.
#[tokio::test(start_paused = true)]
async fn a_request_without_a_host_is_not_paid() {
    let market = Market::open().await;
    let trusting = layer(&market, usdc().per_payment("1").per_day("10").allow_plain_http()).await;
    let hosts: [&[&str]; 6] = [&[], &[""], &["a b"], &["a.example", "b.example"], &["1.2.3.256"], &["."]];
    for hosts in hosts {
        let mut request = Request::get("/a").body(Body::empty()).unwrap();
        for host in hosts {
            request.headers_mut().append("host", host.parse().unwrap());
        }
        assert_eq!(declined(&trusting, &at("490000"), request).await, BudgetDenial::NoHost, "{hosts:?}");
    }
    let odd = Request::get("https://1.2.3.256/").body(Body::empty()).unwrap();
    assert_eq!(declined(&trusting, &at("490000"), odd).await, BudgetDenial::NoHost);
    // What is free needs no host.
    let free = Seller::new(|_| reply(200, &[], "free"));
    ask(&trusting, &free, Request::get("/a").body(Body::empty()).unwrap()).await.unwrap();
    assert_eq!(market.wallet.prepared(), 0);
}

/// A subdomain is a host of its own, unless one says that it is not.
#[tokio::test(start_paused = true)]
async fn subdomains_count_together_where_they_are_grouped() {
    let hosts = ["seller.example", "a.seller.example", "b.a.Seller.example.", "seller.example:8443"];
    let others = ["otherseller.example", "example", "seller.example.org"];
    let market = Market::open().await;
    let budget = usdc().per_payment("1").per_host("0.49").per_day("10").group_subdomains(["Seller.example."]);
    let grouping = layer(&market, budget).await;
    let url = |host: &str| get(&format!("https://{host}/"));
    ask(&grouping, &at("490000"), url("c.seller.example")).await.unwrap();
    for host in hosts {
        let why = declined(&grouping, &at("490000"), url(host)).await;
        assert!(why == BudgetDenial::PerHost, "{host}: {why:?}");
        assert_eq!(grouping.spent_on(host).to_string(), "490000", "{host}");
        assert_eq!(grouping.remaining_for(host).to_string(), "0", "{host}");
    }
    for host in others {
        ask(&grouping, &at("490000"), url(host)).await.unwrap();
    }
    assert_eq!(market.wallet.transfers(), 4);
    let single = layer(&Market::open().await, usdc().per_payment("1").per_host("0.49").per_day("10")).await;
    for host in ["seller.example", "a.seller.example", "b.seller.example"] {
        ask(&single, &at("490000"), url(host)).await.unwrap();
    }
}

/// A shop that passes on another seller's quote is told from the seller by whom it may ask to pay.
#[tokio::test(start_paused = true)]
async fn a_host_that_has_a_recipient_is_paid_by_no_other_name() {
    let (market, other) = (Market::open().await, Address::new([9; 20]));
    let budget = usdc().per_payment("1").per_day("10").recipient_for("Relay.example:443", other);
    let budget = budget.recipient_for("seller.example", other).recipient_for("seller.example", recipient());
    let pinned = layer(&market, budget.group_subdomains(["relay.example"])).await;
    for relay in ["https://relay.example/", "https://RELAY.example.:8443/", "https://a.relay.example/"] {
        assert_eq!(declined(&pinned, &at("490000"), get(relay)).await, BudgetDenial::Recipient, "{relay}");
    }
    for free in ["https://seller.example/", "https://a.seller.example/", "https://another.example/"] {
        ask(&pinned, &at("490000"), get(free)).await.unwrap();
    }
    for host in ["", "a b", "https://seller.example/"] {
        let budget = usdc().per_payment("1").per_day("10");
        let built = budget.clone().recipient_for(host, other).build().unwrap_err().to_string();
        assert!(built.contains("`recipient_for`"), "{host}: {built}");
        let built = budget.group_subdomains([host]).build().unwrap_err().to_string();
        assert!(built.contains("`group_subdomains`"), "{host}: {built}");
    }
}

/// Nobody sells under these addresses: money sent there is gone, or never left.
#[tokio::test(start_paused = true)]
async fn who_cannot_be_a_seller_is_not_paid() {
    let market = Market::open().await;
    let layer = layer(&market, usdc().per_payment("1").per_day("10")).await;
    let foreign = Address::new([9; 20]);
    for recipient in [crate::support::payer(), Asset::USDC_BASE.contract(), foreign, Address::new([0; 20])] {
        let contracts = format!("{}, {foreign}", Asset::USDC_BASE.contract());
        let bill = Bill { recipient: recipient.to_string(), contracts, ..Bill::default() };
        let seller = Seller::new(move |asked| if asked.proof.is_some() { sold() } else { bill.reply() });
        assert_eq!(declined(&layer, &seller, question("{}")).await, BudgetDenial::NoSeller);
    }
    assert_eq!((market.wallet.sent(), market.journal.entries().len()), (0, 0));
    assert_eq!(layer.spent().to_string(), "0");
}

/// What is paid in the last second is in a block too late.
#[tokio::test(start_paused = true)]
async fn a_quote_that_expires_before_it_can_be_paid_is_declined() {
    let market = Market::open().await;
    let until = |expiry| {
        let bill = Bill { expiry, ..Bill::default() };
        Seller::new(move |asked| if asked.proof.is_some() { sold() } else { bill.reply() })
    };
    let budget = || usdc().per_payment("1").per_day("10");
    let usual = layer(&market, budget()).await;
    for left in [1, 9] {
        let said = denied(&usual, &until(NOW + left), question("{}")).await;
        let soon = format!("the quote expires in {left}s, and a payment takes at least 10s");
        assert_eq!(said, (BudgetDenial::ExpiresSoon, soon));
    }
    ask(&usual, &until(NOW + 10), question("{}")).await.unwrap();
    let of = |time| market.layer_with(move |builder| builder.least_time_to_pay(time));
    ask(&of(Duration::ZERO).await, &until(NOW + 1), question("{}")).await.unwrap();
    let patient = of(Duration::from_secs(60)).await;
    let said = denied(&patient, &until(NOW + 59), question("{}")).await;
    let soon = "the quote expires in 59s, and a payment takes at least 60s".to_owned();
    assert_eq!(said, (BudgetDenial::ExpiresSoon, soon));
    assert_eq!(market.wallet.transfers(), 2);
}

/// A limit is read where it is met, and asked for before.
#[tokio::test(start_paused = true)]
async fn limits_say_what_they_are_and_what_is_left() {
    let market = Market::open().await;
    let layer = layer(&market, usdc().per_payment("0.5").per_host("0.98").per_day("1.47")).await;
    let (here, there) = ("https://seller.example/", "https://other.example/");
    let left = |host: &str| {
        [layer.spent(), layer.remaining(), layer.spent_on(host), layer.remaining_for(host)]
            .map(|amount| amount.to_decimal(layer.budget().decimals()))
    };
    assert_eq!(left("seller.example"), ["0", "1.47", "0", "0.98"]);
    ask(&layer, &at("490000"), get(here)).await.unwrap();
    assert_eq!(left("Seller.example:8443"), ["0.49", "0.98", "0.49", "0.49"]);
    assert_eq!(left("other.example"), ["0.49", "0.98", "0", "0.98"]);
    ask(&layer, &at("490000"), get(here)).await.unwrap();
    assert_eq!(left("other.example"), ["0.98", "0.49", "0", "0.49"]);
    let says = async |amount: &str, uri: &str| ask(&layer, &at(amount), get(uri)).await.unwrap_err().to_string();
    for (text, limit) in [
        (says("500001", there).await, "0.5 for one payment"),
        (says("1", here).await, "this host's daily limit of 0.98"),
        (says("490001", there).await, "the daily limit of 1.47"),
    ] {
        assert!(text.contains(limit) && text.contains("nothing was paid"), "{text}");
    }
    market.shop.clock.advance(DAY);
    assert_eq!(left("seller.example"), ["0", "1.47", "0", "0.98"]);
}

/// However often a seller names a token, the wallet is asked for it once.
#[tokio::test(start_paused = true)]
async fn an_asset_is_proposed_once_in_the_sellers_order() {
    let market = Market::open().await;
    let second = Asset::new(Network::BASE, Address::new([8; 20]), 6, "OTHR");
    let proposed = Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen = Arc::clone(&proposed);
    let approve = move |proposal: tower_x402::client::Proposal| {
        seen.lock().unwrap().push((proposal.method.to_string(), proposal.path, proposal.assets));
        std::future::ready(true)
    };
    let budget = Budget::in_assets([Asset::USDC_BASE, second.clone()]).per_payment("1").per_day("10");
    let layer = layer(&market, budget.approve(approve)).await;
    let (usdc, other) = (Asset::USDC_BASE.contract(), second.contract());
    let named = std::iter::repeat_n([other, usdc], 500).flatten().map(|token| token.to_string());
    let bill = Bill { contracts: named.collect::<Vec<_>>().join(", "), ..Bill::default() };
    let seller = Seller::new(move |asked| if asked.proof.is_some() { sold() } else { bill.reply() });
    let request = Request::put("https://seller.example/a/b?secret").body(Body::empty()).unwrap();
    ask(&layer, &seller, request).await.unwrap();
    let proposed = proposed.lock().unwrap().pop().unwrap();
    assert_eq!(proposed, ("PUT".to_owned(), "/a/b".to_owned(), vec![second, Asset::USDC_BASE]));
}

#[tokio::test(start_paused = true)]
async fn calls_at_the_same_time_do_not_spend_more_together() {
    let market = Market::open().await;
    market.wallet.script([Sending::Held; 3]);
    let layer = layer(&market, usdc().per_payment("1").per_day("3.43")).await;
    let seller = at("490000");
    let calls = (0..40).map(|number| ask(&layer, &seller, get(&format!("https://seller.example/{number}"))));
    let (outcomes, ()) = tokio::join!(join_all(calls), async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        market.wallet.release();
    });
    let paid = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
    let over = outcomes
        .iter()
        .filter(|outcome| outcome.as_ref().is_err_and(|error| error.denial() == Some(BudgetDenial::PerDay)))
        .count();
    assert_eq!((paid, over, market.wallet.transfers()), (7, 33, 7));
}

#[tokio::test(start_paused = true)]
async fn a_restart_does_not_forget_what_was_spent() {
    let market = Market::open().await;
    let budget = || usdc().per_payment("1").per_host("0.98").per_day("1.47");
    let seller = at("490000");
    for spent in 0..2 {
        ask(&layer(&market, budget()).await, &seller, question("{}")).await.unwrap();
        assert_eq!(market.wallet.transfers(), spent + 1);
    }
    let why = declined(&layer(&market, budget()).await, &seller, question("{}")).await;
    assert!(why == BudgetDenial::PerHost, "{why:?}");
    let elsewhere = || get("https://another.example/");
    ask(&layer(&market, budget()).await, &seller, elsewhere()).await.unwrap();
    let why = declined(&layer(&market, budget()).await, &seller, elsewhere()).await;
    assert!(why == BudgetDenial::PerDay, "{why:?}");
    market.shop.clock.advance(DAY);
    ask(&layer(&market, budget()).await, &seller, question("{}")).await.unwrap();
}

/// Money that may yet move counts until it is known not to, and for a day from then: that it did not is a node's word.
#[tokio::test(start_paused = true)]
async fn what_is_under_way_counts_and_what_came_to_nothing_counts_for_a_day() {
    for restarts in [false, true] {
        let market = Market::open().await;
        let budget = || usdc().per_payment("1").per_day("0.49");
        let mut layers = vec![layer(&market, budget()).await];
        macro_rules! layer {
            () => {{
                if restarts {
                    layers.push(layer(&market, budget()).await);
                }
                layers.last().unwrap()
            }};
        }
        let elsewhere = || get("https://another.example/");
        market.wallet.script([Sending::Reverted, Sending::Held]);
        let reverted = ask(layer!(), &at("490000"), question("{}")).await;
        assert!(reverted.as_ref().is_err_and(|error| error.kind() == PayErrorKind::Reverted), "{reverted:?}");
        market.shop.clock.advance(DAY - Duration::from_secs(1));
        declined(layer!(), &at("1"), elsewhere()).await;
        market.shop.clock.advance(Duration::from_secs(1));

        let seller = at("490000");
        let mut held = Box::pin(ask(layer!(), &seller, question("{}")));
        assert!(tokio::time::timeout(Duration::from_secs(5), &mut held).await.is_err());
        drop(held);
        // Much longer than anything else is remembered for.
        for days in [2, 40] {
            market.shop.clock.advance(days * DAY);
            let why = declined(layer!(), &at("1"), elsewhere()).await;
            assert!(why == BudgetDenial::PerDay, "{why:?}");
        }
        // Displaced: another transfer for the same request is another transfer that may have moved.
        market.wallet.displace();
        let why = declined(layer!(), &at("490000"), question("{}")).await;
        assert!(why == BudgetDenial::PerDay, "{why:?}");
        market.shop.clock.advance(DAY);
        ask(layer!(), &at("490000"), question("{}")).await.unwrap();
        assert_eq!(market.wallet.transfers(), 1);
    }
}

/// A node that says that nothing was transferred, again and again, frees nothing.
#[tokio::test(start_paused = true)]
async fn a_node_that_denies_every_payment_does_not_raise_the_limit() {
    let market = Market::open().await;
    market.wallet.script([Sending::Reverted; 20]);
    let layer = layer(&market, usdc().per_payment("0.49").per_day("0.50")).await;
    for _ in 0..10 {
        ask(&layer, &at("490000"), question("{}")).await.unwrap_err();
    }
    assert_eq!(market.wallet.sent(), 1);
}

/// What is sent on one day and mined on another is spent on the other.
#[tokio::test(start_paused = true)]
async fn a_payment_that_is_mined_late_counts_in_the_day_in_which_it_is_mined() {
    for restarts in [false, true] {
        let market = Market::open().await;
        let budget = || usdc().per_payment("1").per_day("0.49");
        let mut paying = layer(&market, budget()).await;
        market.wallet.script([Sending::Held]);
        let seller = at("490000");
        assert!(tokio::time::timeout(Duration::from_secs(5), ask(&paying, &seller, question("{}"))).await.is_err());
        market.shop.clock.advance(3 * DAY);
        market.wallet.release();
        ask(&paying, &seller, question("{}")).await.unwrap();
        if restarts {
            paying = layer(&market, budget()).await;
        }
        market.shop.clock.advance(DAY - Duration::from_secs(1));
        let why = declined(&paying, &seller, question("{}")).await;
        assert!(why == BudgetDenial::PerDay, "{why:?}");
        market.shop.clock.advance(Duration::from_secs(1));
        ask(&paying, &seller, question("{}")).await.unwrap();
        assert_eq!(market.wallet.transfers(), 2, "restarts: {restarts}");
    }
}

/// So is what is approved on another day; while it is thought about, its money is set aside.
#[tokio::test(start_paused = true)]
async fn a_payment_that_is_approved_late_counts_from_then() {
    let market = Market::open().await;
    let door = Arc::new(Semaphore::new(0));
    let approve = {
        let door = Arc::clone(&door);
        move |_| {
            let door = Arc::clone(&door);
            async move { door.acquire().await.map(tokio::sync::SemaphorePermit::forget).is_ok() }
        }
    };
    let layer = layer(&market, usdc().per_payment("1").per_day("0.49").approve(approve)).await;
    let seller = at("490000");
    let mut thinking = Box::pin(ask(&layer, &seller, question("{}")));
    assert!(tokio::time::timeout(Duration::from_secs(3600), &mut thinking).await.is_err());
    market.shop.clock.advance(DAY + Duration::from_secs(1));
    let elsewhere = || get("https://another.example/");
    let why = declined(&layer, &at("1"), elsewhere()).await;
    assert!(why == BudgetDenial::PerDay, "set aside: {why:?}");
    door.add_permits(2);
    // Longer than the patience: a human's time is no matter of it.
    thinking.await.unwrap();
    market.shop.clock.advance(DAY - Duration::from_secs(1));
    let why = declined(&layer, &at("490000"), elsewhere()).await;
    assert!(why == BudgetDenial::PerDay, "spent: {why:?}");
    market.shop.clock.advance(Duration::from_secs(1));
    ask(&layer, &at("490000"), elsewhere()).await.unwrap();
    assert_eq!(market.wallet.transfers(), 2);
}

/// Its money moved when it was paid: a purchase that never came to an end does not lower the budget for ever.
#[tokio::test(start_paused = true)]
async fn what_was_paid_and_never_answered_counts_for_a_day() {
    let market = Market::open().await;
    let layer = layer(&market, usdc().per_payment("0.49").per_day("0.49")).await;
    let billed_again = Seller::paid(|_| reply(402, &[], ""));
    ask(&layer, &billed_again, question("[1]")).await.unwrap_err();
    declined(&layer, &at("490000"), question("[2]")).await;
    market.shop.clock.set_unix(NOW + DAY.as_secs());
    assert_eq!(ask(&layer, &at("490000"), question("[2]")).await.unwrap().text, "the answer");
    assert_eq!((market.wallet.transfers(), layer.unfinished().len()), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn who_approves_is_asked_last_and_once() {
    let market = Market::open().await;
    let (asked, yes) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let approve = {
        let (asked, yes) = (Arc::clone(&asked), Arc::clone(&yes));
        move |proposal: tower_x402::client::Proposal| {
            assert_eq!((proposal.host.as_str(), proposal.label.as_str()), ("seller.example", "an answer"));
            assert_eq!((proposal.recipient, proposal.network), (recipient(), Network::BASE));
            assert_eq!(proposal.amount.to_decimal(proposal.decimals), "0.49");
            assert_eq!(proposal.assets, [Asset::USDC_BASE]);
            asked.fetch_add(1, Ordering::SeqCst);
            std::future::ready(yes.load(Ordering::SeqCst))
        }
    };
    let layer = layer(&market, usdc().per_payment("0.49").per_day("0.49").approve(approve)).await;
    declined(&layer, &at("490001"), question("{}")).await;
    assert_eq!(asked.load(Ordering::SeqCst), 0, "asked beyond the limit");
    for denials in 1..=3 {
        assert_eq!(declined(&layer, &at("490000"), question("{}")).await, BudgetDenial::NotApproved);
        assert_eq!(asked.load(Ordering::SeqCst), denials);
    }
    assert_eq!((market.wallet.prepared(), market.journal.entries().len()), (0, 0));
    yes.store(true, Ordering::SeqCst);
    ask(&layer, &at("490000"), question("{}")).await.unwrap();
    declined(&layer, &at("490000"), question("{}")).await;
    assert_eq!((asked.load(Ordering::SeqCst), market.wallet.transfers()), (4, 1));
}

/// While somebody thinks it over the money is set aside; whoever leaves or panics meanwhile frees it.
#[tokio::test(start_paused = true)]
async fn an_approval_may_take_its_time() {
    let market = Market::open().await;
    let door = Arc::new(Semaphore::new(0));
    let waits = {
        let door = Arc::clone(&door);
        move |_| {
            let door = Arc::clone(&door);
            async move { door.acquire().await.map(|permit| permit.forget()).is_ok() }
        }
    };
    let layer = layer(&market, usdc().per_payment("1").per_day("0.49").approve(waits)).await;
    let seller = Seller::paid(|_| sold());
    let mut thinking = Box::pin(ask(&layer, &seller, question("{}")));
    assert!(tokio::time::timeout(Duration::from_secs(1), &mut thinking).await.is_err());
    let why = declined(&layer, &seller, question("{}")).await;
    assert!(why == BudgetDenial::PerDay, "{why:?}");
    drop(thinking);
    // The quote is over by the time that the approval comes.
    let mut thinking = Box::pin(ask(&layer, &seller, question("{}")));
    assert!(tokio::time::timeout(Duration::from_secs(1), &mut thinking).await.is_err());
    market.shop.clock.set_unix(NOW + 600);
    door.add_permits(1);
    assert!(thinking.await.unwrap_err().denial() == Some(BudgetDenial::Expired));
    market.shop.clock.set_unix(NOW);
    door.add_permits(1);
    ask(&layer, &seller, question("{}")).await.unwrap();
    assert_eq!((market.wallet.prepared(), market.wallet.transfers()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn an_approval_that_panics_frees_the_money() {
    let market = Market::open().await;
    let broken = Arc::new(AtomicBool::new(true));
    let hook = {
        let broken = Arc::clone(&broken);
        move |_| {
            let broken = Arc::clone(&broken);
            async move { !broken.load(Ordering::SeqCst) || panic!("the hook is broken") }
        }
    };
    let layer = layer(&market, usdc().per_payment("0.49").per_day("0.49").approve(hook)).await;
    let seller = at("490000");
    for _ in 0..3 {
        let (layer, seller) = (layer.clone(), seller.clone());
        let call = tokio::spawn(async move { ask(&layer, &seller, question("{}")).await.is_ok() });
        assert!(call.await.unwrap_err().is_panic());
    }
    broken.store(false, Ordering::SeqCst);
    ask(&layer, &seller, question("{}")).await.unwrap();
    assert_eq!(market.wallet.transfers(), 1);
}

#[tokio::test(start_paused = true)]
async fn plain_http_is_paid_on_this_machine_only() {
    let budget = || usdc().per_payment("1").per_day("10");
    let market = Market::open().await;
    let careful = layer(&market, budget()).await;
    for uri in
        ["http://127.0.0.1:8402/", "http://127.9.9.9/", "http://[::1]:8402/", "http://LocalHost:8402/", "https://a/"]
    {
        ask(&careful, &at("490000"), get(uri)).await.unwrap();
    }
    let far = [
        "http://seller.example/",
        "http://localhost.seller.example/",
        "http://127.0.0.1.seller.example/",
        "http://localhost@seller.example/",
        "http://128.0.0.1/",
        "http://0.0.0.0/",
        "http://[::2]/",
        "http://[::ffff:10.0.0.1]/",
        "HTTP://seller.example/",
    ];
    for uri in far {
        assert_eq!(declined(&careful, &at("490000"), get(uri)).await, BudgetDenial::PlainHttp, "{uri}");
    }
    assert_eq!(market.wallet.transfers(), 5);
    let trusting = layer(&market, budget().allow_plain_http()).await;
    ask(&trusting, &at("490000"), get("http://seller.example/")).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn only_who_is_named_is_paid_in_what_is_named() {
    let market = Market::open().await;
    let other = Address::new([9; 20]);
    let strict = layer(&market, usdc().per_payment("1").per_day("10").recipients([other])).await;
    assert_eq!(declined(&strict, &at("1"), question("{}")).await, BudgetDenial::Recipient);
    let nobody = layer(&market, usdc().per_payment("1").per_day("10").recipients([])).await;
    assert_eq!(declined(&nobody, &at("1"), question("{}")).await, BudgetDenial::Recipient);
    let named = layer(&market, usdc().per_payment("1").per_day("10").recipients([other, recipient()])).await;
    ask(&named, &at("1"), question("{}")).await.unwrap();

    // One address may be another token on every chain.
    let twin = Asset::new(Network::eip155(10), Asset::USDC_BASE.contract(), 6, "TWIN");
    let two = Budget::in_assets([twin.clone(), Asset::USDC_BASE]).per_payment("1").per_day("10");
    ask(&layer(&market, two).await, &at("1"), question("{}")).await.unwrap();
    let elsewhere = Budget::in_assets([twin]).per_payment("1").per_day("10");
    assert_eq!(declined(&layer(&market, elsewhere).await, &at("1"), question("{}")).await, BudgetDenial::Network);
    let foreign = Asset::new(Network::BASE, other, 6, "FRGN");
    let foreign = Budget::in_assets([foreign]).per_payment("1").per_day("10");
    assert_eq!(declined(&layer(&market, foreign).await, &at("1"), question("{}")).await, BudgetDenial::Asset);

    // Of several that the seller accepts, what is allowed is paid with.
    let both = Bill { contracts: format!("{other}, {}", Asset::USDC_BASE.contract()), ..Bill::default() };
    let seller = Seller::new(move |asked| if asked.proof.is_some() { sold() } else { both.reply() });
    let purchase = ask(&named, &seller, question("{}")).await.unwrap().purchase.unwrap();
    assert_eq!((purchase.token, purchase.state), (Some(Asset::USDC_BASE.contract()), PurchaseState::Answered));
}

#[test]
fn a_budget_without_limits_is_none() {
    let error = |budget: BudgetBuilder| budget.build().unwrap_err().to_string();
    let missing = |limit| format!("the limit `{limit}` is missing: set it, in decimals such as 0.50");
    let malformed =
        |limit| format!("the limit `{limit}` is not an amount of the budget's assets: write decimals such as 0.50");
    let nothing: [Asset; 0] = [];
    assert!(error(Budget::in_assets(nothing).per_payment("1").per_day("1")).contains("has no asset"));
    assert_eq!(error(usdc().per_payment("1")), missing("per_day"));
    assert_eq!(error(usdc().per_day("1")), missing("per_payment"));
    let mixed = [Asset::USDC_BASE, Asset::new(Network::BASE, Address::new([9; 20]), 18, "DAI")];
    assert!(error(Budget::in_assets(mixed).per_payment("1").per_day("1")).contains("different decimals"));
    for limit in ["", "-1", "1,5", "1.0000001", ".5", "1.", "1e3", " 1", "one", "∞"] {
        assert_eq!(error(usdc().per_payment(limit).per_day("1")), malformed("per_payment"), "{limit}");
        assert_eq!(error(usdc().per_payment("1").per_day(limit)), malformed("per_day"), "{limit}");
        let host = usdc().per_payment("1").per_day("1").per_host(limit);
        assert_eq!(error(host), malformed("per_host"), "{limit}");
    }
    let shown = format!("{:?}", usdc().per_payment("0.5").per_day("2").build().unwrap());
    assert!(shown.contains("0.5") && shown.contains('2'), "{shown}");
}

/// While a seller can use an authorization, it counts, also days after it was signed and whatever became of its purchase here.
#[tokio::test(start_paused = true)]
async fn an_authorization_counts_for_as_long_as_it_can_be_used() {
    for state in [PurchaseState::Unspent, PurchaseState::Refused, PurchaseState::Answered] {
        let market = Market::open().await;
        let seller = Seller::new(|_| demand(&[way("490000")]));
        assert!(ask(&market.layer().await, &seller, question("{}")).await.is_err());
        let mut entry = market.journal.entries().remove(0);
        let end = ChainTime::from_unix(NOW + 40 * 3_600);
        let record = entry.to_record().unwrap();
        let signed_until = entry.authorization().unwrap().authorization.valid_before.unix().to_string();
        entry = JournalEntry::from_record(&record.replace(&signed_until, &end.unix().to_string())).unwrap();
        assert_eq!(entry.authorization().unwrap().authorization.valid_before, end);
        (entry.state, entry.settled) = (state, Some(ChainTime::from_unix(NOW + 1)));
        market.journal.record(&entry).await.unwrap();
        for (hours, counts) in [(25, true), (39, true), (40, true), (63, true), (64, false)] {
            market.shop.clock.set_unix(NOW + hours * 3_600);
            let spent = !market.layer().await.spent().is_zero();
            assert_eq!(spent, counts, "{state:?}, {hours} h");
            assert!(entry.is_kept_at(ChainTime::from_unix(NOW + hours * 3_600)) || !counts);
        }
    }
}

/// A clock that is days ahead for a moment does not make what was spent forgotten.
#[tokio::test(start_paused = true)]
async fn a_clock_that_was_ahead_for_a_moment_frees_nothing() {
    let market = Market::open().await;
    let layer = layer(&market, usdc().per_payment("1").per_day("0.98")).await;
    ask(&layer, &at("490000"), question("{}")).await.unwrap();
    market.shop.clock.set_unix(NOW + 3 * DAY.as_secs());
    ask(&layer, &at("490000"), question("{}")).await.unwrap();
    market.shop.clock.set_unix(NOW + 3_600);
    assert!(declined(&layer, &at("1"), question("{}")).await == BudgetDenial::PerDay);
}

/// 0.0001 ether, in wei.
const FEE: u128 = 100_000_000_000_000;

async fn paying_gas(market: &Market, fees: &[u128]) -> PayLayer {
    let payer = Told::of(&market.wallet);
    payer.fees.lock().unwrap().extend(fees);
    let budget =
        usdc().per_payment("1").per_day("10").gas_per_payment("0.0001").gas_per_day("0.00025").build().unwrap();
    let builder = PayLayer::builder(payer, budget, market.journal.clone()).clock(market.shop.clock.clone());
    builder.bump_after(Duration::from_secs(30)).patience(Duration::from_secs(50)).build().await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn gas_has_limits_of_its_own_across_a_restart() {
    let market = Market::open().await;
    let layer = paying_gas(&market, &[FEE + 1, FEE, FEE]).await;
    let (why, said) = denied(&layer, &at("490000"), question("{}")).await;
    assert_eq!(why, BudgetDenial::GasPerPayment);
    assert!(said.starts_with("a network fee of 0.000100000000000001 would exceed the limit of 0.0001 "), "{said}");
    assert_eq!((market.wallet.sent(), layer.spent().is_zero(), market.journal.entries().len()), (0, true, 0));
    ask(&layer, &at("490000"), question("{}")).await.unwrap();
    ask(&layer, &at("490000"), question("{}")).await.unwrap();
    let layer = paying_gas(&market, &[FEE, FEE / 2, FEE]).await;
    let (why, said) = denied(&layer, &at("490000"), question("{}")).await;
    assert_eq!(why, BudgetDenial::GasPerDay);
    let limit = "a network fee of 0.0001 would exceed the daily limit of 0.00025 (0.0002 already spent)";
    assert!(said.starts_with(limit), "{said}");
    ask(&layer, &at("490000"), question("{}")).await.unwrap();
    market.shop.clock.set_unix(NOW + DAY.as_secs());
    ask(&layer, &at("490000"), question("{}")).await.unwrap();
    assert_eq!((market.wallet.transfers(), market.wallet.sent()), (4, 4));
}

/// Of two transactions with one nonce one is mined: the dearer one counts, and is not sent where it costs too much.
#[tokio::test(start_paused = true)]
async fn a_higher_fee_is_within_the_limits_too() {
    for (dearer, sent) in [(FEE, 2), (FEE + 1, 1)] {
        let market = Market::open().await;
        market.wallet.script([Sending::Held, Sending::Held]);
        let layer = paying_gas(&market, &[FEE / 2, dearer]).await;
        let error = ask(&layer, &at("490000"), question("{}")).await.unwrap_err();
        assert!(error.is_resumable(), "{error}");
        assert_eq!((market.wallet.prepared(), market.wallet.sent()), (2, sent));
        assert_eq!(layer.unfinished()[0].transfers().len(), sent);
    }
}

/// Whatever is not in the journal for certain is not sent.
#[tokio::test(start_paused = true)]
async fn a_higher_fee_that_the_journal_refuses_is_not_sent() {
    for slip in [Slip::Fails, Slip::FailsWritten] {
        let market = Market::open().await;
        market.wallet.script([Sending::Held]);
        let journal = Diary::of(market.journal.clone()).slip(2, slip);
        let budget = usdc().per_payment("1").per_day("10").build().unwrap();
        let builder = PayLayer::builder(market.wallet.clone(), budget, journal).clock(market.shop.clock.clone());
        let builder = builder.bump_after(Duration::from_secs(30)).patience(Duration::from_secs(50));
        let error = ask(&builder.build().await.unwrap(), &at("490000"), question("{}")).await.unwrap_err();
        assert!(error.is_resumable(), "{error}");
        assert_eq!((market.wallet.prepared(), market.wallet.sent()), (2, 1));
    }
}
