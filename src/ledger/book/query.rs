//! `SalesQuery`: which sales.

use std::{sync::Arc, time::SystemTime};

use super::record::BookedSale;

/// Which sales are asked for: those of a span of time, of one resource or of all.
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
    /// Asks for sales at that time or later, by the ledger's clock.
    pub const fn since(time: SystemTime) -> Self {
        Self { since: time, until: None, resource: None }
    }

    /// Asks for sales before that time only.
    pub fn until(self, time: SystemTime) -> Self {
        Self { until: Some(time), ..self }
    }

    /// Asks for one resource only, by the name that the seller gave it.
    pub fn resource(self, name: impl Into<Arc<str>>) -> Self {
        Self { resource: Some(name.into()), ..self }
    }

    /// Returns the first moment.
    #[must_use]
    pub const fn start(&self) -> SystemTime {
        self.since
    }

    /// Returns the first moment that is no longer asked for.
    #[must_use]
    pub const fn end(&self) -> Option<SystemTime> {
        self.until
    }

    /// Returns the resource, where one is asked for.
    #[must_use]
    pub fn of_resource(&self) -> Option<&str> {
        self.resource.as_deref()
    }

    /// Returns whether this sale is one of them.
    #[must_use]
    pub fn has(&self, sale: &BookedSale) -> bool {
        sale.sold_at >= self.since
            && self.until.is_none_or(|until| sale.sold_at < until)
            && self.resource.as_deref().is_none_or(|resource| resource == sale.resource)
    }
}
