//! `SalesQuery`: a selection of sales.

use std::{sync::Arc, time::SystemTime};

use super::record::BookedSale;

/// A selection of sales: those of a span of time, of one resource or of all.
///
/// ```
/// use tower_x402::ledger::{SalesQuery, UtcDay};
/// let day: UtcDay = "2026-11-22".parse()?;
/// let query = SalesQuery::since(day.start()).until(day.end()).resource("demand-insights");
/// assert_eq!(query.end(), Some(day.end()));
/// # Ok::<(), tower_x402::protocol::ParseError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct SalesQuery {
    since: SystemTime,
    until: Option<SystemTime>,
    resource: Option<Arc<str>>,
}

impl SalesQuery {
    /// Selects sales at that time or later, by the ledger's clock.
    pub const fn since(time: SystemTime) -> Self {
        Self { since: time, until: None, resource: None }
    }

    /// Selects only sales before that time.
    pub fn until(self, time: SystemTime) -> Self {
        Self { until: Some(time), ..self }
    }

    /// Selects only one resource, by the seller's name for it.
    pub fn resource(self, name: impl Into<Arc<str>>) -> Self {
        Self { resource: Some(name.into()), ..self }
    }

    /// Returns the first moment of the span.
    #[must_use]
    pub const fn start(&self) -> SystemTime {
        self.since
    }

    /// Returns the first moment after the span, if it ends.
    #[must_use]
    pub const fn end(&self) -> Option<SystemTime> {
        self.until
    }

    /// Returns the selected resource, if there is one.
    #[must_use]
    pub fn of_resource(&self) -> Option<&str> {
        self.resource.as_deref()
    }

    /// Returns whether the query selects this sale.
    #[must_use]
    pub fn has(&self, sale: &BookedSale) -> bool {
        sale.sold_at >= self.since
            && self.until.is_none_or(|until| sale.sold_at < until)
            && self.resource.as_deref().is_none_or(|resource| resource == sale.resource)
    }
}
