//! `/demand-insights`: what visitor chats say about a question.

use std::{
    collections::{BTreeSet, HashSet},
    fmt::Write,
};

use super::{
    data::{Chat, Data, Speaker},
    report::{self, Quoted},
    search::{Index, TurnAt},
    text,
};

/// One aspect of demand, and the beginnings of the words that belong to it.
struct Lens {
    title: &'static str,
    stems: &'static [&'static str],
}

const LENSES: [Lens; 3] = [
    Lens {
        title: "Messaging",
        stems: &[
            "accura",
            "advert",
            "claim",
            "compar",
            "confus",
            "demo",
            "differen",
            "documentation",
            "error",
            "example",
            "explain",
            "headline",
            "honest",
            "language",
            "mean",
            "mistake",
            "number",
            "page",
            "post",
            "promis",
            "proof",
            "prove",
            "reference",
            "sentence",
            "site",
            "stor",
            "tone",
            "trust",
            "understand",
            "video",
            "website",
            "word",
            "wrong",
        ],
    },
    Lens {
        title: "Pricing",
        stems: &[
            "afford", "annual", "bill", "budget", "cap", "card", "cash", "charg", "cheap", "cost", "credit", "currenc",
            "discount", "dollar", "expens", "fee", "flat", "free", "invoic", "margin", "money", "monthly", "paid",
            "pay", "plan", "pric", "rate", "refund", "return", "saving", "seat", "spend", "trial", "usdc", "vat",
        ],
    },
    Lens {
        title: "Go-to-market",
        stems: &[
            "agenc",
            "agreement",
            "api",
            "approv",
            "brand",
            "bring",
            "call",
            "client",
            "colleague",
            "communit",
            "compan",
            "contract",
            "countr",
            "integrat",
            "launch",
            "legal",
            "listing",
            "market",
            "migrat",
            "onboard",
            "partner",
            "pilot",
            "procurement",
            "recommend",
            "referral",
            "resell",
            "review",
            "rollout",
            "sales",
            "security",
            "self",
            "setup",
            "switch",
            "tender",
            "tool",
        ],
    },
];

/// Writes the answer.
///
/// # Errors
/// Fails with the error of SQLite.
pub(crate) async fn answer(data: &Data, index: &Index, question: &str) -> sqlx::Result<String> {
    let chats = &data.chats.records;
    let terms = text::terms(question);
    let mut rows = index.chats(&terms).await?;
    let matched = !rows.is_empty();
    if !matched {
        rows = (0..chats.len()).collect();
    }
    let found: Vec<&Chat> = rows.iter().map(|row| &chats[*row]).collect();

    let mut out = format!("# Demand insights: {}\n\n", text::heading(question));
    summary(&mut out, &found, chats.len(), matched);
    let tags = report::count(found.iter().map(|c| tags(c)), chats.iter().map(tags));
    report::themes(&mut out, &tags, "Chats", found.len());

    let turns = in_order(&rows, chats, index.turns(&terms).await?);
    let mut quoted = Quoted::default();
    if matched {
        out.push_str("\n## Closest to the question\n");
        quotes(&mut out, chats, turns.iter().take(60), &mut quoted, 3);
    }
    for lens in &LENSES {
        section(&mut out, lens, chats, &rows, &turns, &mut quoted);
    }
    words(&mut out, &found, chats);
    let _ = writeln!(out, "\n*Source: {} anonymized visitor chats. Quotations are verbatim.*", chats.len());
    Ok(out)
}

fn summary(out: &mut String, found: &[&Chat], total: usize, matched: bool) {
    if !matched {
        let _ = writeln!(out, "No chat uses the words of this question. This is what all {total} chats are about.");
        return;
    }
    let countries: BTreeSet<_> = found.iter().map(|chat| &chat.country).collect();
    let pages = report::count(found.iter().map(|chat| HashSet::from([chat.page.as_str()])), std::iter::empty());
    let _ = writeln!(
        out,
        "**{} of {total} chats** ({}) speak about this, from {}. They began on: {}.",
        found.len(),
        report::percent(found.len(), total),
        match countries.len() {
            1 => "one country".to_owned(),
            many => format!("{many} countries"),
        },
        report::listed(&pages, 3),
    );
}

fn tags(chat: &Chat) -> HashSet<&str> {
    chat.tags.iter().map(String::as_str).collect()
}

/// Returns the visitors' messages of the chats in `rows`: those that match the question first, then the others.
fn in_order(rows: &[usize], chats: &[Chat], matching: Vec<TurnAt>) -> Vec<TurnAt> {
    let wanted: HashSet<_> = rows.iter().collect();
    let mut turns: Vec<_> = matching.into_iter().filter(|(row, _)| wanted.contains(row)).collect();
    let known: HashSet<_> = turns.iter().copied().collect();
    for row in rows {
        let said = chats[*row].turns.iter().enumerate().filter(|(_, turn)| turn.by == Speaker::Visitor);
        turns.extend(said.map(|(at, _)| (*row, at)).filter(|turn| !known.contains(turn)));
    }
    turns
}

fn quotes<'a>(
    out: &mut String,
    chats: &[Chat],
    turns: impl Iterator<Item = &'a TurnAt>,
    quoted: &mut Quoted,
    most: usize,
) {
    let new = turns.filter(|(row, at)| quoted.is_new(&chats[*row].turns[*at].text));
    for (row, at) in new.take(most) {
        let chat = &chats[*row];
        let who = format!("visitor from {}, {} (chat {})", chat.country, chat.date, chat.id);
        report::quote(out, &chat.turns[*at].text, &who);
    }
}

fn section(out: &mut String, lens: &Lens, chats: &[Chat], rows: &[usize], turns: &[TurnAt], quoted: &mut Quoted) {
    let about = |turn: &&TurnAt| lens.sees(&chats[turn.0].turns[turn.1].text);
    let seen: HashSet<_> = turns.iter().filter(about).map(|(row, _)| *row).collect();
    let _ = writeln!(out, "\n## {}\n", lens.title);
    if seen.is_empty() {
        let _ = writeln!(out, "None of these chats touches it.");
        return;
    }
    let counts = report::count(seen.iter().map(|row| tags(&chats[*row])), chats.iter().map(tags));
    let (part, total) = (seen.len(), rows.len());
    let _ = write!(out, "{part} of these {total} chats touch it ({})", report::percent(part, total));
    match report::listed(&counts, 3) {
        themes if themes.is_empty() => out.push_str(".\n"),
        themes => {
            let _ = writeln!(out, ", most often with {themes}.");
        }
    }
    quotes(out, chats, turns.iter().filter(about), quoted, 2);
}

impl Lens {
    fn sees(&self, said: &str) -> bool {
        text::words(said).any(|word| self.stems.iter().any(|stem| word.starts_with(stem)))
    }
}

fn words(out: &mut String, found: &[&Chat], all: &[Chat]) {
    let found: Vec<_> = found.iter().map(|chat| visitor_text(chat)).collect();
    let all: Vec<_> = all.iter().map(visitor_text).collect();
    let telling = report::telling_words(&found, &all);
    if !telling.is_empty() {
        let _ = writeln!(out, "\n## In the visitors' own words\n\n{}", report::listed(&telling, 10));
    }
}

fn visitor_text(chat: &Chat) -> String {
    let said = chat.turns.iter().filter(|turn| turn.by == Speaker::Visitor);
    said.map(|turn| turn.text.as_str()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn answers_differ_and_fit_the_question() {
        let data = Data::example().unwrap();
        let index = Index::build(&data).await.unwrap();
        let refund = answer(&data, &index, "What do visitors say about refunds?").await.unwrap();
        let privacy = answer(&data, &index, "GDPR and where data is stored").await.unwrap();
        assert_ne!(refund, privacy);
        assert!(refund.contains("| refund policy |") && privacy.contains("| data privacy |"));
        for part in ["## Themes", "## Messaging", "## Pricing", "## Go-to-market", "\n> ", " chats**"] {
            assert!(refund.contains(part), "{part} in {refund}");
        }
    }

    #[tokio::test]
    async fn quotations_are_verbatim() {
        let data = Data::example().unwrap();
        let index = Index::build(&data).await.unwrap();
        let reply = answer(&data, &index, "annual discount").await.unwrap();
        let quoted: Vec<_> =
            reply.lines().filter_map(|l| l.strip_prefix("> ")).filter(|l| !l.starts_with('—')).collect();
        assert!(quoted.len() >= 5, "{reply}");
        for line in quoted {
            let said = data.chats.records.iter().flat_map(|c| &c.turns).any(|turn| turn.text == line);
            assert!(said, "{line}");
        }
    }

    #[tokio::test]
    async fn a_question_of_stop_words_gets_the_overview() {
        let data = Data::example().unwrap();
        let index = Index::build(&data).await.unwrap();
        let reply = answer(&data, &index, "what is it?").await.unwrap();
        assert!(reply.contains("No chat uses the words of this question") && reply.contains("## Themes"), "{reply}");
    }
}
