//! Marketplace conversions: visitors and buyers of one agent, in one month, country and industry.

use std::collections::BTreeSet;

use super::{super::data::Conversion, COUNTRIES, INDUSTRIES, rng::Rng};

const PER_AGENT: usize = 96;
const MONTHS: [&str; 12] = [
    "2025-06", "2025-07", "2025-08", "2025-09", "2025-10", "2025-11", "2025-12", "2026-01", "2026-02", "2026-03",
    "2026-04", "2026-05",
];

/// Category, buyers per thousand visitors, agents.
type Category = (&'static str, u64, [&'static str; 5]);

const CATEGORIES: [Category; 13] = [
    ("Customer support", 46, ["Firstline", "Ticketwise", "Calm Queue", "Echo Desk", "Handover"]),
    ("Sales outreach", 38, ["Leadlight", "Warm Intro", "Followup Fox", "Pipeline Pal", "Coldsmith"]),
    ("Marketing content", 33, ["Draftmill", "Brandvoice", "Postcard", "Headline Hound", "Storyboarder"]),
    ("Data analysis", 29, ["Chartreuse", "Askbase", "Numbers Nightly", "Cohort Crow", "Trendline"]),
    ("Software engineering", 41, ["Patchwork", "Testpilot", "Refactor Robin", "Review Rook", "Buildsmith"]),
    ("Finance and accounting", 35, ["Ledgerline", "Invoice Ibis", "Closing Time", "Expense Owl", "Cashflow Kit"]),
    ("Legal review", 22, ["Clausecheck", "Redliner", "Precedent", "Policy Pen", "Termsheet"]),
    ("Recruiting", 26, ["Shortlist", "Talent Tern", "Interviewer", "Role Writer", "Reference Ray"]),
    ("Research", 24, ["Deepreader", "Cite Kite", "Patent Pilot", "Fieldnotes", "Survey Swift"]),
    ("Scheduling", 52, ["Calendar Cat", "Slotkeeper", "Meeting Mule", "Shiftwise", "Reminder Wren"]),
    ("Translation", 48, ["Polyglot Post", "Tonekeeper", "Subtitle Seal", "Manual Mover", "Glossary Goose"]),
    ("E-commerce operations", 44, ["Returns Raven", "Shelfwriter", "Price Finch", "Stockcaster", "Review Reply"]),
    ("IT help desk", 31, ["Resetter", "Access Ant", "Patch Porter", "Asset Auk", "Runbook Rail"]),
];

pub(super) fn file() -> String {
    let mut rng = Rng::new(0x00c0_4e55);
    let mut records = Vec::new();
    for (category, base, agents) in &CATEGORIES {
        for agent in agents {
            // Agents of a category differ: from two thirds to four thirds of its rate.
            let rate = base * (66 + rng.below(68));
            let reach = 40 + rng.below(260);
            for place in places(&mut rng) {
                records.push(conversion(agent, category, rate, reach, place, &mut rng));
            }
        }
    }
    records.sort_by(|a, b| {
        (&a.month, &a.agent, &a.country, &a.industry).cmp(&(&b.month, &b.agent, &b.country, &b.industry))
    });
    super::lines(records.into_iter())
}

type Place = (usize, usize, usize);

/// Returns distinct (month, country, industry) triples; large markets occur more often.
fn places(rng: &mut Rng) -> BTreeSet<Place> {
    let mut places = BTreeSet::new();
    while places.len() < PER_AGENT {
        let country = COUNTRIES.len() - 1 - rng.front(COUNTRIES.len());
        places.insert((rng.index(MONTHS.len()), country, rng.index(INDUSTRIES.len())));
    }
    places
}

fn conversion(agent: &str, category: &str, rate: u64, reach: u64, place: Place, rng: &mut Rng) -> Conversion {
    let (month, country, industry) = place;
    let visitors = reach / 2 + rng.below(reach) + reach * month as u64 / 24;
    // In percent: how well the country and the industry buy, then chance.
    let country_factor = 70 + (country as u64 * 37) % 61;
    let industry_factor = 60 + (industry as u64 * 53 + category.len() as u64 * 11) % 81;
    let luck = 60 + rng.below(81);
    let conversions = visitors * rate * country_factor * industry_factor * luck / 100_000_000_000;
    Conversion {
        month: MONTHS[month].to_owned(),
        agent: agent.to_owned(),
        category: category.to_owned(),
        industry: INDUSTRIES[industry].to_owned(),
        country: COUNTRIES[country].to_owned(),
        visitors,
        conversions,
    }
}
