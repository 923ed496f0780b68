//! A purchase's steps, for people.

use tower_x402::client::Step;

/// Says on standard error what is being done. What a seller wrote is shown escaped: it could carry control characters.
pub(crate) fn show(step: &Step) {
    let text = match step {
        Step::Quoted(quote) => {
            let (price, symbol) = (quote.amount.to_decimal(quote.decimals), quote.symbol.escape_debug());
            let (label, chain) = (&quote.label, quote.network.chain_id());
            format!("quoted      {label:?} costs {price} {symbol}, to {} on chain {chain}", quote.recipient)
        }
        Step::Resumed { transaction: Some(transaction), .. } => format!("resumed     paid with {transaction}"),
        Step::Resumed { .. } => "resumed     the payment was not named yet".into(),
        Step::Paying { payer, transaction: Some(transaction) } => {
            format!("paying      from {payer} with {transaction}")
        }
        Step::Paying { payer, .. } => format!("paying      from {payer}"),
        Step::Bumping { transaction: Some(transaction) } => format!("paying      dearer, instead: {transaction}"),
        Step::Confirming { confirmations, wanted, .. } => format!("confirming  {confirmations}/{wanted}"),
        Step::Redeeming { attempt: 1, .. } => "redeeming".into(),
        Step::Redeeming { attempt, .. } => format!("redeeming   attempt {attempt}"),
        Step::Renewed => "redeeming   the same payment, with a fresh intent".into(),
        Step::Waiting { code, pause } => {
            let code = code.map_or("no answer", |code| code.as_str());
            format!("waiting     {code}: asking again in {:.1} s", pause.as_secs_f64())
        }
        Step::Answered(status) => format!("answered    {status}"),
        _ => return,
    };
    eprintln!("  {text}");
}
