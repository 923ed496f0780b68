//! Visitor chats: an opening, answers, follow-ups, at times a second topic, an ending.

use super::{
    super::data::{Chat, Speaker, Turn},
    COUNTRIES, INDUSTRIES,
    rng::Rng,
    template::{Filled, Slots, Topic, topics},
};

const COUNT: usize = 480;
const PAGES: [&str; 7] = ["pricing", "home", "marketplace", "documentation", "security", "category", "checkout"];

pub(super) fn file() -> String {
    let (topics, slots) = (topics(include_str!("chats.txt")), Slots::new());
    let mut rng = Rng::new(0x0c4a_7500);
    super::lines((1..=COUNT).map(|number| chat(number, &topics, &slots, &mut rng)))
}

fn chat(number: usize, topics: &[Topic], slots: &Slots, rng: &mut Rng) -> Chat {
    let country = COUNTRIES[rng.index(COUNTRIES.len())];
    let words = slots.draw(INDUSTRIES[rng.index(INDUSTRIES.len())], country, rng);
    // Every topic occurs, the first ones of the file more often.
    let first = &topics[if rng.chance(60) { number % topics.len() } else { rng.front(topics.len()) }];
    let second = &topics[rng.index(topics.len())];
    let mut tags = vec![first.name.to_owned()];
    let mut turns = conversation(first, &words, rng);
    if rng.chance(40) && second.name != first.name {
        tags.push(second.name.to_owned());
        turns.push(say(Speaker::Visitor, second.line("o", rng), &words));
        turns.push(say(Speaker::Team, second.line("a", rng), &words));
    }
    if rng.chance(70) {
        turns.push(say(Speaker::Visitor, first.line("c", rng), &words));
    }
    Chat {
        id: format!("c{number:04}"),
        date: rng.date(),
        country: country.to_owned(),
        page: PAGES[rng.front(PAGES.len())].to_owned(),
        tags,
        turns,
    }
}

fn conversation(topic: &Topic, words: &Filled, rng: &mut Rng) -> Vec<Turn> {
    let mut turns = vec![
        say(Speaker::Visitor, topic.line("o", rng), words),
        say(Speaker::Team, topic.line("a", rng), words),
        say(Speaker::Visitor, topic.line("v", rng), words),
    ];
    let answer = say(Speaker::Team, topic.line("a", rng), words);
    if answer.text != turns[1].text {
        turns.push(answer);
    }
    turns
}

fn say(by: Speaker, line: &str, words: &Filled) -> Turn {
    Turn { by, text: words.fill(line) }
}
