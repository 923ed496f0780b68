//! The state of a channel on the chain, and what it means for the money in it.

use std::fmt;

use serde_json::{Value, json};
use tower_x402::{
    client::{ChannelFunds, HeldChannel, PayLayer},
    protocol::Amount,
};

use super::when;

/// A channel's state on the chain, combined with what the journal knows was signed.
pub(crate) struct OnChain {
    funds: ChannelFunds,
    /// Whether the signed total is unknown to the journal.
    is_adopted: bool,
    /// The maximum that the seller can still claim.
    claimable: Amount,
    /// The minimum that comes back.
    returns: Amount,
    delay: u32,
    decimals: u8,
}

impl OnChain {
    /// Reads the chain; `None` if it does not answer.
    pub(crate) async fn of(layer: &PayLayer, held: &HeldChannel) -> Option<Self> {
        let funds = layer.channel_funds(held.id).await.ok()?;
        let left = |from: Amount, taken: Amount| from.checked_sub(taken).unwrap_or(Amount::ZERO);
        let signed = if held.is_adopted { funds.balance } else { held.signed };
        let most = signed.max(funds.claimed).min(funds.balance);
        let (claimable, returns) = (left(most, funds.claimed), left(funds.balance, most));
        let (delay, decimals) = (held.config.withdraw_delay, held.decimals);
        Some(Self { funds, is_adopted: held.is_adopted, claimable, returns, delay, decimals })
    }

    fn shown(&self, amount: Amount) -> String {
        amount.to_decimal(self.decimals)
    }

    /// Returns when a started withdrawal can be finished.
    fn ends(&self) -> Option<String> {
        let (_, since) = self.funds.withdrawing?;
        Some(when::utc(since.after(std::time::Duration::from_secs(self.delay.into()))))
    }

    pub(crate) fn as_json(&self) -> Value {
        json!({
            "deposited": self.shown(self.funds.balance),
            "claimed": self.shown(self.funds.claimed),
            "claimable": self.shown(self.claimable),
            "comesBack": self.shown(self.returns),
            "withdrawing": self.funds.withdrawing.map(|(amount, _)| self.shown(amount)),
            "withdrawableAfter": self.ends().map(|ends| format!("{}Z", ends.replace(' ', "T"))),
        })
    }
}

impl fmt::Display for OnChain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [deposited, claimed] = [self.funds.balance, self.funds.claimed].map(|amount| self.shown(amount));
        let [claimable, returns] = [self.claimable, self.returns].map(|amount| self.shown(amount));
        write!(
            f,
            "has deposits of {deposited}, of which the seller has claimed {claimed} and can claim up to {claimable} more; \
             at least {returns} comes back, "
        )?;
        if self.is_adopted {
            write!(f, "more where the seller does not have vouchers over all of it (the journal that knew is lost), ")?;
        }
        match self.ends() {
            Some(ends) => write!(f, "by the withdrawal that can be ended after {ends} UTC"),
            None => {
                let hours = f64::from(self.delay) / 3_600.0;
                write!(f, "at once through the seller, or {hours} h after a withdrawal is begun")
            }
        }
    }
}
