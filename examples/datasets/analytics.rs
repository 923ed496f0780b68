//! `/analytics/agent-conversions`: sums of the marketplace's conversions.

use std::{cmp::Reverse, collections::BTreeMap};

use serde::Serialize;

use super::data::{Conversion, Data};

/// The column that groups the rows.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Aggregate {
    #[default]
    Category,
    Industry,
    Agent,
    Country,
}

impl Aggregate {
    pub(crate) const ALL: [Self; 4] = [Self::Category, Self::Industry, Self::Agent, Self::Country];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Category => "category",
            Self::Industry => "industry",
            Self::Agent => "agent",
            Self::Country => "country",
        }
    }

    fn of(self, record: &Conversion) -> &str {
        match self {
            Self::Category => &record.category,
            Self::Industry => &record.industry,
            Self::Agent => &record.agent,
            Self::Country => &record.country,
        }
    }
}

/// The records to add up: all of them, or those with one value in one column.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Filters {
    pub(crate) aggregate: Aggregate,
    pub(crate) only: Option<(Aggregate, String)>,
}

/// The values that filters may have, as `GET /developer/analytics-filters` lists them.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Allowed {
    pub(crate) aggregates: [Aggregate; 4],
    pub(crate) countries: Vec<String>,
    pub(crate) categories: Vec<String>,
    pub(crate) industries: Vec<String>,
}

impl Allowed {
    pub(crate) fn new(data: &Data) -> Self {
        Self {
            aggregates: Aggregate::ALL,
            countries: data.distinct(|record| &record.country),
            categories: data.distinct(|record| &record.category),
            industries: data.distinct(|record| &record.industry),
        }
    }
}

/// The answer: one row per group, most conversions first.
#[derive(Debug, Serialize)]
pub(crate) struct Stats {
    aggregate: Aggregate,
    rows: Vec<Row>,
}

#[derive(Debug, Serialize)]
struct Row {
    group: String,
    conversions: u64,
    visitors: u64,
    /// Conversions per visitor, four decimals.
    rate: f64,
}

/// Adds up the records that `filters` accept.
pub(crate) fn answer(data: &Data, filters: &Filters) -> Stats {
    let mut groups: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for record in data.conversions.records.iter().filter(|record| filters.accept(record)) {
        let (conversions, visitors) = groups.entry(filters.aggregate.of(record)).or_default();
        *conversions += record.conversions;
        *visitors += record.visitors;
    }
    let mut rows: Vec<_> = groups.into_iter().map(|(group, sums)| row(group, sums)).collect();
    // The sort is stable: groups with equal conversions stay in alphabetical order.
    rows.sort_by_key(|row| Reverse(row.conversions));
    Stats { aggregate: filters.aggregate, rows }
}

impl Filters {
    fn accept(&self, record: &Conversion) -> bool {
        self.only.as_ref().is_none_or(|(column, value)| column.of(record) == value)
    }
}

fn row(group: &str, (conversions, visitors): (u64, u64)) -> Row {
    let rate = conversions as f64 / visitors.max(1) as f64;
    Row { group: group.to_owned(), conversions, visitors, rate: (rate * 10_000.0).round() / 10_000.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_grouping_adds_up_to_the_same_total() {
        let data = Data::example().unwrap();
        let total: u64 = data.conversions.records.iter().map(|record| record.conversions).sum();
        for aggregate in Aggregate::ALL {
            let stats = answer(&data, &Filters { aggregate, only: None });
            assert_eq!(stats.rows.iter().map(|row| row.conversions).sum::<u64>(), total);
            assert!(stats.rows.is_sorted_by_key(|row| Reverse(row.conversions)));
            assert!(stats.rows.iter().all(|row| row.rate > 0.0 && row.rate < 0.5), "{stats:?}");
        }
    }

    #[test]
    fn a_filter_leaves_only_its_records() {
        let data = Data::example().unwrap();
        let only = Some((Aggregate::Country, "Germany".to_owned()));
        let german = answer(&data, &Filters { aggregate: Aggregate::Agent, only });
        let by_country = answer(&data, &Filters { aggregate: Aggregate::Country, only: None });
        let germany = by_country.rows.iter().find(|row| row.group == "Germany").unwrap();
        assert_eq!(german.rows.iter().map(|row| row.visitors).sum::<u64>(), germany.visitors);
        assert!(german.rows.len() > 20 && german.rows.len() <= 65);
    }
}
