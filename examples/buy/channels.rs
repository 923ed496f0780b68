//! `buy channels` and `buy close`: the journal's payment channels, and what is left in them.

use serde_json::{Value, json};
use tower_x402::{
    client::{Body, ChannelPhase, HeldChannel, PayLayer},
    protocol::Amount,
};

use super::{
    BoxError,
    args::{Channels, Close},
    journal, means,
    on_chain::OnChain,
    purchase, report, screen, steps, when,
};

const HEAD: [&str; 7] = ["OPENED (UTC)", "SELLER", "DEPOSITED", "SPENT", "LEFT", "STATE", "CHANNEL"];

/// Lists the channels; returns the exit code.
pub(crate) async fn list(args: &Channels) -> u8 {
    report::code(listed(args).await)
}

async fn listed(args: &Channels) -> Result<u8, BoxError> {
    let is_asked = !args.rpc_url.is_empty();
    let layer = if is_asked { means::reader(&args.rpc_url).await? } else { PayLayer::redeem_only() };
    let layer = layer.journal(journal::open(&args.journal.journal).await?).build().await?;
    let channels = layer.channels();
    let mut on_chain = Vec::new();
    for held in channels.iter().filter(|_| is_asked) {
        on_chain.push(OnChain::of(&layer, held).await);
    }
    if args.json {
        let shown = channels.iter().enumerate().map(|(index, held)| {
            let mut shown = as_json(held);
            if let Some(on_chain) = on_chain.get(index) {
                shown["onChain"] = on_chain.as_ref().map_or(Value::Null, OnChain::as_json);
            }
            shown
        });
        println!("{:#}", Value::from(shown.collect::<Vec<_>>()));
        return Ok(0);
    }
    print!("{}", table(&channels));
    for (held, on_chain) in channels.iter().zip(&on_chain) {
        match on_chain {
            Some(on_chain) => println!("{}: {on_chain}", held.id),
            None => println!("{}: what the chain shows of it cannot be read", held.id),
        }
    }
    Ok(0)
}

/// Closes the given channel, or the only one; returns the exit code.
pub(crate) async fn close(args: &Close) -> u8 {
    report::code(closed(args).await)
}

async fn closed(args: &Close) -> Result<u8, BoxError> {
    let journal = journal::open(&args.journal.journal).await?;
    let layer = means::layer(&args.means, journal, []).await?.on_event(steps::show).build().await?;
    let open: Vec<_> = layer.channels().into_iter().filter(|held| held.phase != ChannelPhase::Closed).collect();
    let id = match (args.channel, &open[..]) {
        (Some(channel), _) => channel,
        (None, [only]) => only.id,
        (None, []) => return Err("the journal has no channel that is open".into()),
        (None, _) => return Err("the journal has several channels: name one, as `buy channels` lists them".into()),
    };
    if let Some(held) = layer.channels().into_iter().find(|held| held.id == id)
        && let Some(on_chain) = OnChain::of(&layer, &held).await
    {
        eprintln!("The channel {on_chain}.");
    }
    let held = if args.withdraw {
        layer.withdraw_channel(id).await?
    } else {
        eprintln!("Asking the seller for what is left, and waiting until the chain shows it.");
        purchase::client(&layer)?.close_channel::<Body, _>(id).await?
    };
    let held = held.ok_or("the journal has no such channel")?;
    let shown = |amount: Amount| amount.to_decimal(held.decimals);
    match held.phase {
        ChannelPhase::Closed => {
            // The deposit that remains after the refund is what the seller claimed.
            eprintln!("Closed: {} came back, and the seller has {}.", shown(held.refunded), shown(held.deposited));
            Ok(0)
        }
        ChannelPhase::Withdrawing(ready) => {
            eprintln!(
                "A withdrawal was begun. Nothing has come back yet: run the same command again after {} UTC.",
                when::utc(ready)
            );
            Ok(4)
        }
        _ => {
            eprintln!("A part came back: {}. Run the same command again.", shown(held.refunded));
            Ok(4)
        }
    }
}

fn as_json(held: &HeldChannel) -> Value {
    let shown = |amount: Amount| amount.to_decimal(held.decimals);
    json!({
        "channel": held.id.to_string(),
        "network": held.network,
        "host": held.host,
        "opened": format!("{}Z", when::utc(held.opened).replace(' ', "T")),
        "deposited": shown(held.deposited),
        "spent": shown(held.charged),
        "left": shown(held.left()),
        "refunded": shown(held.refunded),
        "state": state(held),
        "adopted": held.is_adopted,
        "waitsFor": held.waits_for.map(|purchase| purchase.to_string()),
        "withdrawDelay": held.config.withdraw_delay,
    })
}

fn state(held: &HeldChannel) -> &'static str {
    match held.phase {
        ChannelPhase::Open if held.waits_for.is_some() => "waiting",
        ChannelPhase::Open if held.is_adopted => "adopted",
        ChannelPhase::Open => "open",
        ChannelPhase::Broken => "broken",
        ChannelPhase::Closing => "closing",
        ChannelPhase::Withdrawing(_) => "withdrawing",
        ChannelPhase::Closed => "closed",
        _ => "other",
    }
}

/// Formats the channels as a table. The host is the caller's own, but a journal may come from elsewhere, so it is
/// escaped.
fn table(channels: &[HeldChannel]) -> String {
    let rows = channels.iter().map(|held| {
        let shown = |amount: Amount| amount.to_decimal(held.decimals);
        let [deposited, spent, left] = [held.deposited, held.charged, held.left()].map(shown);
        let left = if held.is_adopted { format!("up to {left}") } else { left };
        let host = screen::on_a_line(&held.host);
        [when::utc(held.opened), host, deposited, spent, left, state(held).to_owned(), held.id.to_string()]
    });
    let rows: Vec<[String; 7]> = std::iter::once(HEAD.map(str::to_owned)).chain(rows).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; 7] = std::array::from_fn(width);
    let line = |row: &[String; 7]| {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}  "));
        format!("{}\n", cells.collect::<String>().trim_end())
    };
    rows.iter().map(line).collect()
}
