//! The theft table: every way to pay, whoever comes first, under every setting.

use std::{fmt::Write as _, time::Duration};

use tower_x402::MerchantBuilder;

use super::{
    SECURITY,
    payments::Payment,
    scene::{HOLD, Order, Party, Scene},
};
use crate::{
    market::{Market, PRICE},
    shop::Shop,
};

/// What the seller does about unbound payments.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Setting {
    Held,
    NotHeld,
    Required,
}

impl Setting {
    const ALL: [Self; 3] = [Self::Held, Self::NotHeld, Self::Required];

    const fn name(self) -> &'static str {
        match self {
            Self::Held => "held 5 s",
            Self::NotHeld => "not held",
            Self::Required => "bound required",
        }
    }

    fn set(self, builder: MerchantBuilder) -> MerchantBuilder {
        match self {
            Self::Held => builder.hold_unbound(HOLD),
            Self::NotHeld => builder.hold_unbound(Duration::ZERO),
            Self::Required => builder.hold_unbound(HOLD).require_bound(),
        }
    }
}

/// What may come of it: it follows from the rules.
struct Rule {
    answered: &'static [Option<Party>],
    told: &'static str,
}

impl Rule {
    const fn of(payment: Payment, order: Order, setting: Setting) -> Self {
        const PAYER: &[Option<Party>] = &[Some(Party::Payer)];
        let first: &[_] = match order {
            Order::ThiefFirst => &[Some(Party::Thief)],
            Order::PayerFirst => PAYER,
            Order::AtOnce => &[Some(Party::Payer), Some(Party::Thief)],
        };
        let (answered, told): (&[_], _) = match (payment, setting) {
            (Payment::Unbound, Setting::Required) => (&[None], "`payer_proof_required`"),
            (_, Setting::Required) => (PAYER, "`payer_proof_required`"),
            (Payment::Tagged | Payment::Nonce, _) => (PAYER, "`payment_bound`"),
            (Payment::Signed, Setting::Held) => (PAYER, "`tx_not_confirmed`, `tx_already_used`"),
            (Payment::Unbound, Setting::Held) => (first, "`tx_not_confirmed`, `tx_already_used`"),
            (_, Setting::NotHeld) => (first, "`tx_already_used`"),
        };
        Self { answered, told }
    }

    /// Who is answered, and who paid for nothing.
    fn words(&self) -> (&'static str, &'static str) {
        match self.answered {
            [Some(Party::Payer)] => ("the payer", "nobody"),
            [Some(Party::Thief)] => ("**the thief**", "**the payer**"),
            [None] => ("nobody", "**the payer**, unless it signs"),
            _ => ("whoever is faster", "**the payer**, if the thief is faster"),
        }
    }
}

fn heading() -> String {
    let columns =
        ["Payment", "Order", "Unbound payments", "Who is answered", "What the other is told", "Who paid for nothing"];
    format!("| {} |\n|{}\n", columns.join(" | "), "---|".repeat(columns.len()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_but_the_payer_gets_the_answer_to_a_bound_payment() {
    let market = Market::new().await;
    let mut shops = Vec::new();
    for setting in Setting::ALL {
        shops.push((setting, Shop::open(setting.set(market.merchant().await)).await));
    }
    let (mut table, mut payments) = (heading(), 0);
    for payment in Payment::ALL {
        for (setting, shop) in &shops {
            for order in Order::ALL {
                let fate = Scene::set(&market, shop, payment, order).await.play().await;
                let rule = Rule::of(payment, order, *setting);
                assert!(rule.answered.contains(&fate.answered), "{payment:?}, {order:?}, {setting:?}: {fate:?}");
                assert_eq!(fate.told, rule.told, "{payment:?}, {order:?}, {setting:?}");
                let ((answered, lost), told) = (rule.words(), rule.told);
                let (payment, order, setting) = (payment.name(), order.name(), setting.name());
                let _ = writeln!(table, "| {payment} | {order} | {setting} | {answered} | {told} | {lost} |");
                payments += 1;
            }
        }
    }
    println!("{table}");
    assert_eq!(market.takings().await, payments * PRICE);
    assert_eq!(shops.iter().map(|(_, shop)| shop.runs() as u128).sum::<u128>(), payments, "an answer for each");
    assert!(SECURITY.contains(&table), "threats.md has another table than\n{table}");
}
