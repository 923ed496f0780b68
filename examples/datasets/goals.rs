//! `/ai-early-adopters-goals`: what subscribers want to reach within twelve months.

use std::{collections::HashSet, fmt::Write};

use super::{
    data::{Data, Goal},
    report::{self, Quoted},
    search::Index,
    text,
};

/// Writes the answer.
///
/// # Errors
/// Fails with the error of SQLite.
pub(crate) async fn answer(data: &Data, index: &Index, question: &str) -> sqlx::Result<String> {
    let goals = &data.goals.records;
    let mut rows = index.goals(&text::terms(question)).await?;
    let matched = !rows.is_empty();
    if !matched {
        rows = (0..goals.len()).collect();
    }
    let found: Vec<&Goal> = rows.iter().map(|row| &goals[*row]).collect();

    let mut out = format!("# Goals of AI early adopters: {}\n\n", text::heading(question));
    summary(&mut out, &found, goals.len(), matched);
    let tags = report::count(found.iter().map(|g| tags(g)), goals.iter().map(tags));
    report::themes(&mut out, &tags, "Goals", found.len());
    who(&mut out, &found, goals);
    quotes(&mut out, &found);
    words(&mut out, &found, goals);
    let _ = writeln!(out, "\n*Source: {} twelve-month goals. Quotations are verbatim.*", goals.len());
    Ok(out)
}

fn summary(out: &mut String, found: &[&Goal], total: usize, matched: bool) {
    if matched {
        let share = report::percent(found.len(), total);
        let _ = writeln!(out, "**{} of {total} goals** ({share}) speak about this.", found.len());
    } else {
        let _ = writeln!(out, "No goal uses the words of this question. This is what all {total} goals are about.");
    }
}

fn tags(goal: &Goal) -> HashSet<&str> {
    goal.tags.iter().map(String::as_str).collect()
}

fn who(out: &mut String, found: &[&Goal], all: &[Goal]) {
    let roles = report::count(
        found.iter().map(|goal| HashSet::from([goal.role.as_str()])),
        all.iter().map(|goal| HashSet::from([goal.role.as_str()])),
    );
    let countries = report::count(
        found.iter().map(|goal| HashSet::from([goal.country.as_str()])),
        all.iter().map(|goal| HashSet::from([goal.country.as_str()])),
    );
    let (roles, countries) = (report::listed(&roles, 5), report::listed(&countries, 5));
    let _ = writeln!(out, "\n## Who wants it\n\n- Roles: {roles}\n- Countries: {countries}");
}

fn quotes(out: &mut String, found: &[&Goal]) {
    let mut quoted = Quoted::default();
    out.push_str("\n## In their own words\n");
    for goal in found.iter().filter(|goal| quoted.is_new(&goal.goal)).take(6) {
        let who = format!("{} from {}, {} (goal {})", goal.role, goal.country, goal.date, goal.id);
        report::quote(out, &goal.goal, &who);
    }
}

fn words(out: &mut String, found: &[&Goal], all: &[Goal]) {
    let found: Vec<_> = found.iter().map(|goal| goal.goal.clone()).collect();
    let all: Vec<_> = all.iter().map(|goal| goal.goal.clone()).collect();
    let telling = report::telling_words(&found, &all);
    if !telling.is_empty() {
        let _ = writeln!(out, "\n## Telling words\n\n{}", report::listed(&telling, 10));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn answers_differ_and_quote_real_goals() {
        let data = Data::example().unwrap();
        let index = Index::build(&data).await.unwrap();
        let voice = answer(&data, &index, "Who wants a voice agent for phone calls?").await.unwrap();
        let learn = answer(&data, &index, "learning to program with AI").await.unwrap();
        assert_ne!(voice, learn);
        assert!(voice.contains("| voice agents |") && learn.contains("| learning to build with AI |"));
        for line in voice.lines().filter_map(|l| l.strip_prefix("> ")).filter(|l| !l.starts_with('—')) {
            assert!(data.goals.records.iter().any(|goal| goal.goal == line), "{line}");
        }
    }
}
