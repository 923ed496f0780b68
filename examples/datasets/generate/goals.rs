//! Twelve-month goals: what somebody wants, how it is measured, what hinders it.

use std::collections::HashSet;

use super::{
    super::data::Goal,
    COUNTRIES, INDUSTRIES,
    rng::Rng,
    template::{Slots, Topic, topics},
};

const COUNT: usize = 1_280;
const ROLES: [&str; 14] = [
    "founder",
    "marketer",
    "developer",
    "consultant",
    "operations manager",
    "teacher",
    "designer",
    "analyst",
    "freelancer",
    "product manager",
    "researcher",
    "sales lead",
    "student",
    "retired engineer",
];

pub(super) fn file() -> String {
    let (topics, slots) = (topics(include_str!("goals.txt")), Slots::new());
    let (mut rng, mut seen) = (Rng::new(0x0060_a150), HashSet::new());
    let mut goals = Vec::with_capacity(COUNT);
    while goals.len() < COUNT {
        let goal = goal(goals.len() + 1, &topics, &slots, &mut rng);
        if seen.insert(goal.goal.clone()) {
            goals.push(goal);
        }
    }
    super::lines(goals.into_iter())
}

fn goal(number: usize, topics: &[Topic], slots: &Slots, rng: &mut Rng) -> Goal {
    let country = COUNTRIES[rng.index(COUNTRIES.len())];
    let words = slots.draw(INDUSTRIES[rng.index(INDUSTRIES.len())], country, rng);
    let topic = &topics[if rng.chance(50) { number % topics.len() } else { rng.front(topics.len()) }];
    let mut text = words.fill(topic.line("g", rng));
    for (kind, percent) in [("w", 85), ("b", 75)] {
        if rng.chance(percent) {
            text.push(' ');
            text.push_str(&words.fill(topic.line(kind, rng)));
        }
    }
    Goal {
        id: format!("g{number:04}"),
        date: rng.date(),
        country: country.to_owned(),
        role: rng.pick(&ROLES).to_owned(),
        tags: vec![topic.name.to_owned()],
        goal: text,
    }
}
