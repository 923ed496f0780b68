//! Passes: bought and shown for `--pass`, stored beside the journal, and listed by `buy passes`.

use std::{
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};
use tower_x402::{
    client::{HeldPass, PassLayer, PayLayer, PurchaseId},
    protocol::ChainTime,
};

use super::{BoxError, args::Passes, report, screen, when};

const HEAD: [&str; 4] = ["PASS", "LEFT", "EXPIRES (UTC)", "BOUGHT AT"];

/// Returns the file of the passes beside this journal.
fn file(journal: &Path) -> PathBuf {
    let mut name = journal.as_os_str().to_owned();
    name.push(".passes.json");
    name.into()
}

/// Returns the layer that buys passes of this name, and shows them.
pub(crate) fn layer(journal: &Path, name: &str) -> Result<PassLayer, BoxError> {
    Ok(PassLayer::new().preferring(name).kept_in(file(journal))?)
}

/// Closes the purchases of passes, whose answers are stored.
pub(crate) async fn acknowledge(passes: &PassLayer, layer: &PayLayer) {
    for purchase in passes.purchases() {
        if let Err(error) = layer.acknowledge(purchase).await {
            eprintln!("The journal did not record that the pass is here; it is asked for again: {error}");
        }
    }
}

/// Explains why a pass was not bought. `open` is its purchase, if that was started and is unfinished.
pub(crate) fn remark(passes: &PassLayer, name: &str, open: Option<PurchaseId>) {
    if let Some(open) = open {
        eprintln!(
            "The purchase {open} of pass {} is not finished. Do not pay again: the same command, without --resume, goes on with it; \
             --abandon {open} gives it up.",
            screen::on_a_line(name)
        );
        return;
    }
    let now = std::time::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs());
    match passes.passes().iter().find(|pass| pass.name.as_deref() == Some(name)) {
        Some(pass) if pass.expires.is_some_and(|end| end <= now) => eprintln!(
            "Pass {} is over by this machine's clock. If it was bought just now, compare the clock with the seller's.",
            screen::on_a_line(name)
        ),
        Some(pass) => eprintln!("Pass {}: {} left", screen::on_a_line(name), left(pass)),
        None => eprintln!(
            "No pass {} is held: it is used up, the seller does not offer it here, or it is above --max or --max-per-day.",
            screen::on_a_line(name)
        ),
    }
}

/// Prints the held passes without their tokens; returns the exit code.
pub(crate) fn run(args: &Passes) -> u8 {
    report::code(act(args))
}

fn act(args: &Passes) -> Result<u8, BoxError> {
    let path = file(&args.journal.journal);
    let passes: Vec<HeldPass> = match fs::read(&path) {
        Ok(bytes) => serde_json::from_slice(&bytes).map_err(|_| format!("{} has no passes", path.display()))?,
        Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(format!("cannot read {}: {}", path.display(), error.kind()).into()),
    };
    // A sold answer without a valid pass has an entry too, so that it is not bought again at once.
    let passes: Vec<HeldPass> = passes.into_iter().filter(|pass| !pass.token.is_empty()).collect();
    if args.json {
        let passes: Vec<Value> = passes.iter().map(as_json).collect();
        println!("{:#}", Value::from(passes));
    } else {
        print!("{}", table(&passes));
    }
    Ok(0)
}

fn left(pass: &HeldPass) -> String {
    pass.remaining.as_deref().map_or_else(|| "all".to_owned(), screen::on_a_line)
}

fn as_json(pass: &HeldPass) -> Value {
    json!({ "name": pass.name, "url": pass.url, "remaining": pass.remaining, "expires": pass.expires })
}

fn table(passes: &[HeldPass]) -> String {
    let expires = |end: Option<u64>| end.map_or_else(|| "never".to_owned(), |end| when::utc(ChainTime::from_unix(end)));
    let rows = passes.iter().map(|pass| {
        let name = screen::on_a_line(pass.name.as_deref().unwrap_or("-"));
        [name, left(pass), expires(pass.expires), screen::on_a_line(&pass.url)]
    });
    let rows: Vec<[String; 4]> = std::iter::once(HEAD.map(str::to_owned)).chain(rows).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths = [width(0), width(1), width(2), 0];
    let line = |row: &[String; 4]| {
        let cells: Vec<_> = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        format!("{}\n", cells.join("  ").trim_end())
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_token_is_listed() {
        let held = r#"[{"url":"https://shop.example/pass","name":"ten","token":"x402p_secret","remaining":"7","expires":0},
            {"url":"https://other.example/p","token":"x402p_secret"}]"#;
        let passes: Vec<HeldPass> = serde_json::from_str(held).unwrap();
        let (shown, json) = (table(&passes), passes.iter().map(as_json).collect::<Value>().to_string());
        assert!(!shown.contains("secret") && !json.contains("secret"), "{shown} {json}");
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines[1], "ten   7     1970-01-01 00:00:00  https://shop.example/pass");
        assert_eq!(lines[2], "-     all   never                https://other.example/p");
    }
}
