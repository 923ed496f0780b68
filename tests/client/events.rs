//! What the caller is told of a purchase: the price and the recipient that are paid, and no others.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::json;
use tower_x402::{
    client::{MemoryJournal, PayLayer, PurchaseEvent},
    protocol::{Address, Amount},
};

use super::{
    Market,
    agent::approval,
    question,
    rig::{Bill, Seller, ask, reply, sold},
    signed::{delivered, demand, settle, shown, way},
};
use crate::support::{NOW, payer, recipient};

/// A layer whose events are kept.
async fn heard(market: &Market) -> (PayLayer, Arc<Mutex<Vec<PurchaseEvent>>>) {
    let events = Arc::<Mutex<Vec<PurchaseEvent>>>::default();
    let kept = Arc::clone(&events);
    let layer =
        market.layer_with(move |builder| builder.on_event(move |event| kept.lock().unwrap().push(event.clone())));
    (layer.await, events)
}

/// A seller of the standard that lists a cheap way first that nobody can take.
fn decoy(market: &Market) -> Seller {
    let mut cheap = way("1");
    cheap["payTo"] = json!(Address::new([0x42; 20]));
    cheap["asset"] = json!(Address::new([9; 20]));
    let chain = market.shop.chain.clone();
    Seller::new(move |asked| match shown(asked) {
        Some(payment) => delivered(settle(&chain, &payment)),
        None => demand(&[cheap.clone(), way("990000")]),
    })
}

#[tokio::test(start_paused = true)]
async fn a_quote_that_is_not_taken_is_not_reported() {
    let market = Market::open().await;
    let (layer, events) = heard(&market).await;
    ask(&layer, &decoy(&market), question("{}")).await.unwrap();
    let events = events.lock().unwrap();
    let quoted: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            PurchaseEvent::Quoted(quote) => Some((quote.recipient, quote.amount)),
            _ => None,
        })
        .collect();
    assert_eq!(quoted, [(recipient(), Amount::from_base_units(990_000))], "{events:?}");
}

/// Whatever a person or a program is shown of a payment, it is the payment that is made.
#[tokio::test(start_paused = true)]
async fn proposal_and_events_name_the_amount_and_the_recipient_that_are_paid() {
    let (dear, to) = (Amount::from_base_units(990_000), recipient());
    let market = Market::open().await;
    let honest = Seller::new(|asked| match asked.proof {
        Some(_) => sold(),
        None => Bill::of("990000").reply(),
    });
    for (seller, valid_for) in [(decoy(&market), Some(Duration::from_secs(60))), (honest, None)] {
        let (events, proposals) = (Arc::<Mutex<Vec<_>>>::default(), Arc::<Mutex<Vec<_>>>::default());
        let (heard, proposed) = (Arc::clone(&events), Arc::clone(&proposals));
        let budget = Market::budget().approve(move |proposal| {
            proposed.lock().unwrap().push(proposal);
            async { true }
        });
        let builder = PayLayer::builder(market.wallet.clone(), budget.build().unwrap(), MemoryJournal::new())
            .clock(market.shop.clock.clone())
            .on_event(move |event| heard.lock().unwrap().push(event.clone()));
        let got = ask(&builder.build().await.unwrap(), &seller, question("{}")).await.unwrap();
        let bought = got.purchase.unwrap();
        assert_eq!((bought.amount, bought.recipient), (dear, to));

        let proposal = proposals.lock().unwrap().pop().unwrap();
        assert_eq!((proposal.amount, proposal.recipient, proposal.paid_by), (dear, to, bought.paid_by));
        assert_eq!(proposal.valid_for, valid_for);
        let paid = events.lock().unwrap().iter().find_map(|event| match event {
            PurchaseEvent::Paying { payer, recipient, amount, decimals, .. } => {
                Some((*payer, *recipient, *amount, *decimals, None))
            }
            PurchaseEvent::Authorized { payer, recipient, amount, decimals, valid_before, .. } => {
                Some((*payer, *recipient, *amount, *decimals, Some(valid_before.unix() - NOW)))
            }
            _ => None,
        });
        assert_eq!(paid, Some((payer(), to, dear, 6, valid_for.map(|valid| valid.as_secs()))));
    }
}

/// Logs and screens show events; an intent is half of a bearer proof.
#[tokio::test(start_paused = true)]
async fn events_do_not_show_the_intent() {
    let market = Market::open().await;
    let (layer, events) = heard(&market).await;
    let secret = "AUbX-9_kSecretIntent";
    let seller = Seller::new(move |asked| match asked.proof {
        Some(_) => sold(),
        None => Bill { intent: secret.into(), ..Bill::default() }.reply(),
    });
    ask(&layer, &seller, question("{}")).await.unwrap();
    let shown = format!("{:?}", events.lock().unwrap());
    assert!(shown.contains("Quoted") && !shown.contains(secret) && !shown.contains(&secret[..8]), "{shown}");
}

#[tokio::test(start_paused = true)]
async fn a_confirmation_is_one_only_where_it_says_success() {
    let settled = |json: &str| STANDARD.encode(json);
    let cases = [
        ("%%%".to_owned(), false),
        (String::new(), false),
        (settled("{}"), false),
        (settled("[1]"), false),
        (settled(r#"{"success":"true"}"#), false),
        (settled(r#"{"transaction":"0x1111111111111111111111111111111111111111111111111111111111111111"}"#), false),
        (settled(r#"{"success":true}"#), true),
    ];
    for (told, confirmed) in cases {
        let market = Market::open().await;
        let (chain, header) = (market.shop.chain.clone(), told.clone());
        let seller = Seller::new(move |asked| match shown(asked) {
            Some(payment) => {
                settle(&chain, &payment);
                reply(200, &[("payment-response", &header)], "the answer")
            }
            None => demand(&[way("490000")]),
        });
        let bought = ask(&market.layer().await, &seller, question("{}")).await.unwrap().purchase.unwrap();
        assert_eq!((bought.confirmed, bought.transaction), (confirmed, None), "{told:?}");
    }
}

/// What a person is asked begins with what the seller cannot write, and shows characters that a terminal would not.
#[tokio::test(start_paused = true)]
async fn the_agents_question_names_host_and_recipient_before_a_short_label() {
    let market = Market::open().await;
    let asked = Arc::<Mutex<Vec<String>>>::default();
    let questions = Arc::clone(&asked);
    let budget = Market::budget().approve(move |proposal| {
        questions.lock().unwrap().push(approval::question(&proposal));
        async { false }
    });
    let builder = PayLayer::builder(market.wallet.clone(), budget.build().unwrap(), MemoryJournal::new());
    let layer = builder.clock(market.shop.clock.clone()).build().await.unwrap();
    let label = format!(r"to\u200bfriend\u2060 at bank.example? \udb40\udc41{}", "x".repeat(3_000));
    let bill = Bill { label, ..Bill::default() };
    let seller = Seller::new(move |_| bill.reply());
    let _ = ask(&layer, &seller, question("{}")).await;
    let question = asked.lock().unwrap().pop().unwrap();
    let at = |part: &str| question.find(part).unwrap_or_else(|| panic!("{part} in {question}"));
    let to = recipient().to_string();
    assert!(at("0.49") < at("seller.example") && at("seller.example") < at("friend") && at(&to) < at("friend"));
    assert!(question.is_ascii() && question.chars().count() < 400, "{question}");
    assert!(question.contains(r"\u200b") && question.contains(r"\u2060"), "{question}");
}
