//! Shows the steps of a purchase to people.

use tower_x402::client::PurchaseEvent;

/// Prints the current step on standard error. A seller's text is escaped: it could carry control characters.
pub(crate) fn show(step: &PurchaseEvent) {
    let text = match step {
        PurchaseEvent::Quoted(quote) => {
            let (price, symbol) = (quote.amount.to_decimal(quote.decimals), quote.symbol.escape_debug());
            let (label, chain) = (&quote.label, quote.network.chain_id());
            format!("quoted      {label:?} costs {price} {symbol}, to {} on chain {chain}", quote.recipient)
        }
        PurchaseEvent::Resumed { transaction: Some(transaction), .. } => format!("resumed     paid with {transaction}"),
        PurchaseEvent::Resumed { .. } => "resumed     the payment was not named yet".into(),
        PurchaseEvent::Paying { payer, recipient, amount, decimals, transaction, .. } => {
            let by = transaction.map(|transaction| format!(" with {transaction}")).unwrap_or_default();
            format!("paying      {} from {payer} to {recipient}{by}", amount.to_decimal(*decimals))
        }
        PurchaseEvent::Authorized { payer, recipient, amount, decimals, valid_before, .. } => format!(
            "signed      {} from {payer} to {recipient}, to be settled before {}",
            amount.to_decimal(*decimals),
            valid_before.unix()
        ),
        PurchaseEvent::Vouched { channel, amount, total, deposit, withdraw_delay, decimals, .. } => {
            let shown = |amount: &tower_x402::protocol::Amount| amount.to_decimal(*decimals);
            let hours = withdraw_delay.as_secs_f64() / 3_600.0;
            let with = deposit.as_ref().map(|deposit| {
                format!(", with a deposit of {}, whose rest the seller can keep for {hours} h", shown(deposit))
            });
            format!(
                "signed      {} by channel {channel}, {} in all{}",
                shown(amount),
                shown(total),
                with.unwrap_or_default()
            )
        }
        PurchaseEvent::Corrected { charged, decimals } => {
            format!("corrected   the seller has charged {} so far, and proves it", charged.to_decimal(*decimals))
        }
        PurchaseEvent::Bumping { transaction: Some(transaction) } => {
            format!("paying      dearer, instead: {transaction}")
        }
        PurchaseEvent::Confirming { confirmations, wanted, .. } => format!("confirming  {confirmations}/{wanted}"),
        PurchaseEvent::Redeeming { attempt: 1, .. } => "redeeming".into(),
        PurchaseEvent::Redeeming { attempt, .. } => format!("redeeming   attempt {attempt}"),
        PurchaseEvent::Renewed => "redeeming   the same payment, with a fresh intent".into(),
        PurchaseEvent::Signing => "signing     the seller wants to know who paid".into(),
        PurchaseEvent::Waiting { code, pause } => {
            let code = code.map_or("no answer", |code| code.as_str());
            format!("waiting     {code}: asking again in {:.1} s", pause.as_secs_f64())
        }
        PurchaseEvent::Mischarged { maximum, decimals } => format!(
            "mischarged  the seller's statement of its charge cannot be true: it counts as {}",
            maximum.to_decimal(*decimals)
        ),
        PurchaseEvent::Answered(status) => format!("answered    {status}"),
        _ => return,
    };
    eprintln!("  {text}");
}
