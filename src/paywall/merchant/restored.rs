//! `LoggedSale` and `RestoredSales`: records the sales again that a restored ledger lost, from a log.

use std::{collections::HashMap, sync::Arc};

use crate::{
    ledger::{Claim, CommitOutcome, LedgerError, ReserveOutcome, accounts_of},
    paywall::{
        error::HealthError,
        merchant::{
            Merchant,
            restored_channels::{LastVouchers, recharge, voucher_of},
        },
        seller::{channels::record::ChannelMemo, time_limits::ledger_in_time},
    },
    protocol::{Amount, ChainTime, IntentKey, Network, Payment, PaymentId, Transfer, channel::VoucherPayment},
    verify::{TransferHistory, TransferQuery},
};

/// A sale in a log, as the event `sold` records it.
///
/// ```
/// use tower_x402::LoggedSale;
/// let payment = format!("eip155:8453/0x{}/3", "ab".repeat(32));
/// let line = format!(r#"2026-11-23T08:00:00Z INFO tower_x402: sold payment={payment} intent={} resource="insights""#, "07".repeat(16));
/// let sale = LoggedSale::from_line(&line).expect("a sale");
/// assert_eq!((sale.payment.to_string(), sale.resource.as_str()), (payment, "insights"));
/// assert!(LoggedSale::from_line("INFO selling recipient=0x…").is_none());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoggedSale {
    /// The payment's id.
    pub payment: PaymentId,
    /// The seller's name of the sold resource.
    pub resource: String,
    /// The ledger's key of the intent. `None` if the log lacks it: then only the payment is recorded as used.
    pub intent: Option<IntentKey>,
    /// The voucher that paid for it, with its channel and everything charged so far.
    pub(super) voucher: Option<Box<ChannelMemo>>,
}

impl LoggedSale {
    /// Returns the sale of this payment, with an unknown intent.
    #[must_use]
    pub fn new(payment: PaymentId, resource: impl Into<String>) -> Self {
        Self { payment, resource: resource.into(), intent: None, voucher: None }
    }

    /// Sets the ledger's key of the intent.
    #[must_use]
    pub fn with_intent(self, intent: Option<IntentKey>) -> Self {
        Self { intent, ..self }
    }

    /// Reads the event `sold` as `tracing-subscriber` writes it, as text without colours or as JSON. `None` for every other line.
    #[must_use]
    pub fn from_line(line: &str) -> Option<Self> {
        let at = event_in(line);
        let value = |name| match at.and_then(|at| line.get(at..)) {
            Some(event) => value(event, &format!(" {name}=")),
            None => value(line, &format!("\"{name}\":")),
        };
        // Text lines have no such field.
        if value("message").is_some_and(|message| message != "sold") {
            return None;
        }
        let payment = value("payment")?.parse().ok()?;
        let intent = value("intent").and_then(|hex| const_hex::decode_to_array(hex).ok());
        let voucher = value("voucher").and_then(|hex| voucher_of(&payment, hex));
        let sale = Self::new(payment, value("resource").unwrap_or_default()).with_intent(intent.map(IntentKey::new));
        Some(Self { voucher, ..sale })
    }
}

/// How the event begins in a line of text.
const TEXT: &str = " sold payment=";

/// Returns where the event begins in a line of text. It does not count if it is quoted from a client, in a field of a span or of another
/// event. A client may also have left a single quotation mark in a span. Then the event is recognised by its last field, with which no
/// quotation ends.
fn event_in(line: &str) -> Option<usize> {
    let is_quoted = |before: &str| before.replace(r"\\", "").replace(r#"\""#, "").matches('"').count() % 2 == 1;
    let all: Vec<_> = line.match_indices(TEXT).filter_map(|(at, _)| Some((at, line.get(..at)?))).collect();
    let mut open = all.into_iter().filter(|(_, before)| !before.ends_with(" not"));
    let amount = line.rsplit_once(" amount=").map_or("", |(_, amount)| amount);
    let ends_the_line = !amount.is_empty() && amount.bytes().all(|byte| byte.is_ascii_digit());
    let found = open.clone().find(|(_, before)| !is_quoted(before));
    found.or_else(|| open.next_back().filter(|_| ends_the_line)).map(|(at, _)| at)
}

/// Returns the value after the first such beginning.
fn value<'l>(line: &'l str, beginning: &str) -> Option<&'l str> {
    let (_, rest) = line.split_once(beginning)?;
    match rest.strip_prefix('"') {
        Some(quoted) => quoted.split('"').next(),
        None => rest.split(' ').next(),
    }
}

/// The result of a replay into a restored ledger.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RestoredSales {
    /// The number of sales that were recorded now.
    pub recorded: usize,
    /// The number of sales that were on record before.
    pub known: usize,
    /// The payments at or below the low-water mark: they are refused, and cannot be recorded any more.
    pub below_mark: Vec<PaymentId>,
    /// The payments that the chain does not have in that span, or that went to another recipient or in another token.
    pub not_found: Vec<PaymentId>,
    /// The payments that a lease holds. They can be recorded once it has run out.
    pub held: Vec<PaymentId>,
}

/// The result for one sale.
enum Recorded {
    Now,
    Before,
    BelowMark,
    Held,
}

impl Merchant {
    /// Records the sales of a log that the merchant's ledger lacks, after a backup was restored: each payment counts as
    /// sold from then on, and so does its intent if the log names it. Only sales on the merchant's first network are
    /// recorded: [`restore_sales_on`](Self::restore_sales_on) does the same for another one.
    ///
    /// The sale of a [`Pass`](crate::Pass) opens its account again, with all of its calls, if the log names its intent and the pass was
    /// defined before this call: by its [`service`](crate::Pass::service), or by a route that takes it. Its time begins anew.
    ///
    /// A sale by the voucher of a [channel](crate::MerchantBuilder::channel_settler) has no transfer, but the log has its voucher. The
    /// channel's account is charged up to its last voucher in the log, so that this is claimed.
    ///
    /// Call it before the first sale, and before you [raise](crate::ledger::Maintenance::raise_mark_to) the mark: a
    /// payment below the mark can no longer be recorded. The transfers are read from `history`, from chain time `since`
    /// on. The call is repeatable. The book shows these sales with the time of their second recording; kept answers do
    /// not return.
    ///
    #[cfg_attr(feature = "evm", doc = "```no_run")]
    #[cfg_attr(not(feature = "evm"), doc = "```ignore")]
    /// # async fn run(
    /// #     merchant: tower_x402::Merchant,
    /// #     verifier: tower_x402::verify::EvmVerifier,
    /// #     log: &str,
    /// # ) -> Result<(), tower_x402::HealthError> {
    /// use tower_x402::{LoggedSale, protocol::ChainTime};
    ///
    /// let sales: Vec<_> = log.lines().filter_map(LoggedSale::from_line).collect();
    /// let restored = merchant.restore_sales(&verifier, &sales, ChainTime::from_unix(1_795_280_400)).await?;
    /// println!("{} sales were lost, {} were not", restored.recorded, restored.known);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`HealthError`] names the backend that does not answer. What was recorded before that stays recorded.
    pub async fn restore_sales(
        &self,
        history: &impl TransferHistory,
        sales: &[LoggedSale],
        since: ChainTime,
    ) -> Result<RestoredSales, HealthError> {
        self.restore_sales_on(self.network(), history, sales, since).await
    }

    /// Records the sales as [`restore_sales`](Self::restore_sales) does, on one of the merchant's [networks](Self::networks); `history`
    /// reads that chain. Call it for each network: sales on the others are skipped.
    ///
    /// # Errors
    /// [`HealthError`] names the backend that does not answer, or the network if the merchant does not sell there. What was recorded
    /// before that stays recorded.
    pub async fn restore_sales_on(
        &self,
        network: Network,
        history: &impl TransferHistory,
        sales: &[LoggedSale],
        since: ChainTime,
    ) -> Result<RestoredSales, HealthError> {
        let inner = self.inner();
        let chain = inner.sold_on(network)?;
        let head = chain.view.head().await?;
        // A ledger grants nothing before it has begun. It begins as it would at the merchant's start.
        ledger_in_time(inner.ledger.begin(network, chain.view.horizon().await?)).await?;
        let query = TransferQuery::new(inner.recipients.iter().copied(), chain.accepted.iter().cloned()).since(since);
        let transfers = history.transfers(&query).await?;
        let transfers: HashMap<PaymentId, Transfer> =
            transfers.into_iter().map(|transfer| (transfer.payment_id(), transfer)).collect();
        let (mut restored, mut vouchers) = (RestoredSales::default(), LastVouchers::default());
        let is_of_another = |sale: &&LoggedSale| {
            let other = sale.payment.network();
            other != network && inner.on(other).is_some()
        };
        for sale in sales.iter().filter(|sale| !is_of_another(sale)) {
            let recorded = match (transfers.get(&sale.payment), &sale.voucher) {
                (Some(paid), _) => self.record(sale, paid, head).await?,
                (None, Some(voucher))
                    if chain.channels.is_some() && inner.recipients.contains(&voucher.config.receiver) =>
                {
                    let recorded = self.record_voucher(sale, voucher, head).await?;
                    // A voucher without a recorded sale is not charged: its charge may have been taken back.
                    if matches!(recorded, Recorded::Now | Recorded::Before) {
                        vouchers.add(voucher);
                    }
                    recorded
                }
                (None, _) => {
                    restored.not_found.push(sale.payment);
                    continue;
                }
            };
            match recorded {
                Recorded::Now => restored.recorded += 1,
                Recorded::Before => restored.known += 1,
                Recorded::BelowMark => restored.below_mark.push(sale.payment),
                Recorded::Held => restored.held.push(sale.payment),
            }
        }
        // Last, so that an account never has a charge whose sale is not on record.
        if let Some(channels) = &chain.channels {
            for voucher in vouchers.into_all() {
                if !recharge(&inner.ledger, channels, &voucher, head).await? {
                    restored.held.extend(voucher.payment_id());
                }
            }
        }
        Ok(restored)
    }

    /// Opens the account of a pass, which the ledger lacks along with its sale.
    async fn reopen(&self, resource: &str, intent: IntentKey, paid: &Payment) -> Result<(), LedgerError> {
        let inner = self.inner();
        let Some(pass) = inner.catalog.pass(resource) else { return Ok(()) };
        ledger_in_time(accounts_of(&*inner.ledger)?.open_account(&pass.opening(intent, paid))).await.map(drop)
    }

    /// Records that a voucher bought an answer.
    async fn record_voucher(
        &self,
        sale: &LoggedSale,
        voucher: &ChannelMemo,
        head: ChainTime,
    ) -> Result<Recorded, LedgerError> {
        let (inner, Some(last)) = (self.inner(), &voucher.last) else { return Ok(Recorded::Held) };
        let payment = VoucherPayment::new(voucher.network, &voucher.config, last.total, last.intent)
            .with_amount(Amount::from_base_units(last.charge))
            .with_shown(ChainTime::from_unix(head.unix().saturating_add(1)));
        let claim = Claim::builder(sale.resource.as_str(), last.intent)
            .payments([payment])
            .pay_until(last.pay_until.max(head.after(inner.quote_ttl.saturating_add(inner.quote_grace))))
            .head(head)
            .max_payment_age(inner.max_payment_age)
            .lease(inner.lease)
            .build();
        Ok(match ledger_in_time(Arc::clone(&inner.ledger).reserve(claim)).await? {
            ReserveOutcome::Granted(lease) => match ledger_in_time(inner.ledger.commit(&lease, None)).await? {
                CommitOutcome::Done => Recorded::Now,
                CommitOutcome::LeaseLost => Recorded::Held,
            },
            ReserveOutcome::PaymentUsed | ReserveOutcome::IntentConsumed => Recorded::Before,
            ReserveOutcome::BeforeMemory => Recorded::BelowMark,
            ReserveOutcome::IntentHeld { .. } | ReserveOutcome::Busy { .. } | ReserveOutcome::PurchaseConsumed => {
                Recorded::Held
            }
        })
    }

    async fn record(&self, sale: &LoggedSale, paid: &Transfer, head: ChainTime) -> Result<Recorded, LedgerError> {
        let inner = self.inner();
        let own = IntentKey::of_payment(&sale.payment);
        // If the intent conflicts, the payment still counts as used: it must not be sold again.
        for intent in sale.intent.into_iter().chain([own]) {
            let claim = Claim::builder(sale.resource.as_str(), intent)
                .payments(vec![paid.clone()])
                .pay_until(head.after(inner.quote_ttl.saturating_add(inner.quote_grace)))
                .head(head)
                .max_payment_age(inner.max_payment_age)
                .lease(inner.lease)
                .build();
            match ledger_in_time(Arc::clone(&inner.ledger).reserve(claim)).await? {
                ReserveOutcome::Granted(lease) => {
                    if sale.intent == Some(intent) {
                        self.reopen(&sale.resource, intent, lease.payment()).await?;
                    }
                    return Ok(match ledger_in_time(inner.ledger.commit(&lease, None)).await? {
                        CommitOutcome::Done => Recorded::Now,
                        CommitOutcome::LeaseLost => Recorded::Held,
                    });
                }
                ReserveOutcome::PaymentUsed => return Ok(Recorded::Before),
                // Only this payment is ever sold by its own key.
                ReserveOutcome::IntentConsumed if intent == own => return Ok(Recorded::Before),
                ReserveOutcome::BeforeMemory => return Ok(Recorded::BelowMark),
                ReserveOutcome::IntentHeld { .. } | ReserveOutcome::Busy { .. } => return Ok(Recorded::Held),
                ReserveOutcome::IntentConsumed | ReserveOutcome::PurchaseConsumed => {}
            }
        }
        Ok(Recorded::Held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAYMENT: &str = "eip155:8453/0xabababababababababababababababababababababababababababababababab/3";
    const INTENT: &str = "07070707070707070707070707070707";

    #[test]
    fn the_event_is_read_as_text_and_as_json_and_no_other_is() {
        let sale = LoggedSale::new(PAYMENT.parse().unwrap(), "insights");
        let known = sale.clone().with_intent(Some(IntentKey::new([7; 16])));
        let fields = format!(r#"sold payment={PAYMENT} intent={INTENT} resource="insights" payer=0x11 amount=490000"#);
        let json = format!(r#""payment":"{PAYMENT}","intent":"{INTENT}","resource":"insights","payer":"0x11""#);
        let span = r#"x402.checkout{resource="outer"}"#;
        for (line, read) in [
            (format!("2026-11-23T08:00:00Z  INFO {span}: tower_x402::paywall::deliver: {fields}"), Some(&known)),
            (format!("Nov 23 host shop[7]: INFO {fields}"), Some(&known)),
            (format!(r#"{{"level":"INFO","message":"sold",{json},"spans":["x402"]}}"#), Some(&known)),
            (format!(r#"{{"level":"INFO","fields":{{"message":"sold",{json}}}}}"#), Some(&known)),
            (format!("INFO deliver: sold payment={PAYMENT} resource=\"insights\""), Some(&sale)),
            (format!("DEBUG deliver: not sold payment={PAYMENT} status=500"), None),
            (format!(r#"{{"message":"not sold","payment":"{PAYMENT}"}}"#), None),
            (format!("WARN deliver: lease lost; the answer is withheld payment={PAYMENT}"), None),
            ("INFO deliver: sold payment=7".to_owned(), None),
            // A client's text, quoted in the line of another event.
            (format!(r#"DEBUG request{{agent="x sold payment={PAYMENT} "}}: served"#), None),
            (format!(r#"DEBUG request{{agent="\" sold payment={PAYMENT} "}}: served"#), None),
            (format!(r#"INFO request{{agent="\" sold payment=7 "}}: deliver: {fields}"#), Some(&known)),
            (format!(r#"INFO request{{uri=/?"}}: deliver: {fields}"#), Some(&known)),
            (format!(r#"INFO request{{agent="x"}}: deliver: not sold agent="x sold payment={PAYMENT}""#), None),
            (format!(r#"{{"message":"served","agent":"\"message\":\"sold\",\"payment\":\"{PAYMENT}\""}}"#), None),
            (format!(r#"{{"message":"served","agent":"x sold payment={PAYMENT} "}}"#), None),
            (format!(r#"{{"message":"sold","agent":"x sold payment=7 ",{json}}}"#), Some(&known)),
            (String::new(), None),
        ] {
            assert_eq!(LoggedSale::from_line(&line).as_ref(), read, "{line}");
        }
    }
}
