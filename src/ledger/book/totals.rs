//! `DayTotal`: the exact income of a day.

use std::collections::BTreeMap;

use super::{day::UtcDay, record::BookedSale, stream::Sales};
use crate::{
    ledger::LedgerError,
    protocol::{Address, Amount, Network},
};

/// The sum of the sales of one resource, in one token, on one UTC day.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DayTotal {
    /// The day of the sales, by the ledger's clock.
    pub day: UtcDay,
    /// The resource.
    pub resource: String,
    /// The chain.
    pub network: Network,
    /// The token contract.
    pub token: Address,
    /// The number of sales.
    pub sales: u64,
    /// The sum of their payments, in base units.
    pub base_units: Amount,
    /// The number of refunded sales, refunded on any day.
    pub refunds: u64,
    /// The sum of their refunds, in base units. Each refund counts in full.
    pub refunded: Amount,
}

type Key = (UtcDay, String, u64, Address);

struct Sum {
    sales: u64,
    base_units: Amount,
    refunds: u64,
    refunded: Amount,
}

impl Sum {
    const NOTHING: Self = Self { sales: 0, base_units: Amount::ZERO, refunds: 0, refunded: Amount::ZERO };
}

pub(super) async fn of(mut sales: Sales<'_>) -> Result<Vec<DayTotal>, LedgerError> {
    let mut sums = BTreeMap::<Key, Sum>::new();
    while let Some(sale) = sales.next().await {
        let sale = sale?;
        let sum = sums.entry(key(&sale)).or_insert(Sum::NOTHING);
        sum.sales += 1;
        sum.base_units = plus(sum.base_units, sale.amount);
        if sale.refund.is_some() {
            sum.refunds += 1;
            sum.refunded = plus(sum.refunded, sale.amount);
        }
    }
    Ok(sums.into_iter().map(total).collect())
}

fn key(sale: &BookedSale) -> Key {
    (UtcDay::of(sale.sold_at), sale.resource.clone(), sale.network.chain_id(), sale.token)
}

fn total(((day, resource, chain_id, token), sum): (Key, Sum)) -> DayTotal {
    let Sum { sales, base_units, refunds, refunded } = sum;
    DayTotal { day, resource, network: Network::eip155(chain_id), token, sales, base_units, refunds, refunded }
}

/// Saturates; no token has a supply that large.
fn plus(sum: Amount, amount: Amount) -> Amount {
    sum.checked_add(amount).unwrap_or(Amount::MAX)
}
