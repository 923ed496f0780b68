//! Tools that cost what their answers cost: the payer allows a maximum, and the server says the charge.

use tower_x402::{
    Charge, Price,
    protocol::{
        Amount, ChainTime,
        permit2::{Permit, PermitScheme, SignedPermit},
        v2::{PaymentOption, PaymentPayload, UpToRequirements},
    },
};

use super::rig::*;
use crate::support::{NOW, payer};

const MAXIMUM: u128 = 100_000;

fn units(units: u128) -> Amount {
    Amount::from_base_units(units)
}

async fn rig() -> (Rig, Service) {
    let rig = Rig::open_settling(|builder, settler| builder.settler(settler.clone()).permit_settler(settler)).await;
    let tools = rig.shop.merchant.tools();
    let service = rig.behind(&tools.price_with("search", |_| Price::UpTo(units(MAXIMUM))).unwrap());
    (rig, service)
}

fn up_to(answer: &Answer) -> UpToRequirements {
    match &answer.bill().accepts[..] {
        [PaymentOption::UpTo(offer)] => offer.clone(),
        other => panic!("{other:?}"),
    }
}

fn sign(offer: &UpToRequirements, nonce: [u8; 32]) -> PaymentPayload {
    let permit = Permit::new(PermitScheme::UpTo, payer(), nonce)
        .paying(offer.pay_to, offer.asset, offer.amount)
        .by_facilitator(offer.facilitator().unwrap())
        .valid_between(ChainTime::from_unix(0), ChainTime::from_unix(NOW + 300));
    PaymentPayload::new(offer.clone(), SignedPermit::new(permit, format!("0x{}", "11".repeat(65)).parse().unwrap()))
}

/// The server's answers say this of their charge.
fn charging(rig: &Rig, charge: Option<u128>) {
    rig.plays(move |message| {
        let mut reply = json_reply(result(&message, serde_json::json!({ "content": [] })));
        if let Some(charge) = charge {
            reply.extensions_mut().insert(Charge(units(charge)));
        }
        async move { reply }
    });
}

#[tokio::test(start_paused = true)]
async fn a_tool_is_charged_what_its_answer_costs() {
    for (charge, settled, settlements) in
        [(None, MAXIMUM, 1), (Some(1_858), 1_858, 1), (Some(MAXIMUM), MAXIMUM, 1), (Some(0), 0, 0)]
    {
        let (rig, service) = rig().await;
        charging(&rig, charge);
        let offer = up_to(&say(&service, &search()).await);
        assert_eq!(offer.amount, units(MAXIMUM));
        let answer = say(&service, &with_payment(search(), &sign(&offer, NONCE))).await;
        assert_eq!(answer.sold().amount, Some(units(settled)), "{charge:?}: {}", answer.text);
        assert_eq!((rig.settler.settlements(), rig.runs.runs()), (settlements, 1), "{charge:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_charge_above_the_maximum_sells_nothing_and_the_permit_stays_good() {
    let (rig, service) = rig().await;
    charging(&rig, Some(MAXIMUM + 1));
    let paid = with_payment(search(), &sign(&up_to(&say(&service, &search()).await), NONCE));
    let answer = say(&service, &paid).await;
    assert_eq!(answer.message()["error"]["code"], -32603, "{}", answer.text);
    assert_eq!(rig.settler.settlements(), 0);
    charging(&rig, Some(7));
    let answer = say(&service, &paid).await;
    assert_eq!((answer.sold().amount, rig.settler.settlements()), (Some(units(7)), 1), "{}", answer.text);
}
