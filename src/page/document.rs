//! The page as HTML: for a quote, and for a form that did not redeem.

use std::fmt::{Display, Write as _};

use bytes::Bytes;
use http::{Response, Uri, header, request::Parts};
use serde_json::Value;

use super::{
    data,
    escape::{Escaped, json_in_html},
    language::Language,
    qr, request,
    settings::{Page, Script},
    text::Text,
    time,
};
use crate::{
    Offer,
    protocol::{Asset, Network, Quote, Redemption, headers::X_PRICE_INTENT},
};

/// Returns the page for a quote.
pub(super) fn quote(page: &Page, script: &Script, head: &Parts, offer: &Offer) -> String {
    let words = Words { page, language: page.language(&head.headers), quote: Some(&offer.quote) };
    let title = format!("{} · {} {}", offer.quote.label, data::asked(offer), offer.quote.symbol);
    let mut main = String::from(r#"<div class="sum">"#);
    what_is_sold(&mut main, &words, &head.uri, offer);
    main.push_str(
        r#"</div><div class="way"><p id="status" role="status"></p><div id="busy" class="row" hidden><progress id="bar" aria-labelledby="status"></progress><span id="clock" class="soft" aria-hidden="true"></span></div><div id="actions" class="row"></div><p id="said" class="sr" aria-live="polite"></p>"#,
    );
    wallets(&mut main, &words, offer);
    passes(&mut main, &words, offer);
    if offer.takes_transfers {
        elsewhere(&mut main, &words, offer);
        form(&mut main, &words, offer);
    }
    main.push_str("</div>");
    answer(&mut main, &words);
    footer(&mut main, &words, offer.contact.as_deref());
    let texts: Vec<_> = script.said.iter().map(|text| page.words(words.language, *text)).collect();
    let block = json_in_html(&data::block(&texts, offer));
    let script =
        format!(r#"<script type="application/json" id="data">{block}</script><script>{}</script>"#, script.text);
    document(&words, &title, &main, &script)
}

/// Returns the page for a form that did not redeem: the reason, and the same form to send again.
pub(super) fn refusal(page: &Page, head: &Parts, shown: Option<&Redemption>, problem: &Response<Bytes>) -> String {
    let words = Words { page, language: page.language(&head.headers), quote: None };
    let told: Value = serde_json::from_slice(problem.body()).unwrap_or_default();
    let member = |name: &str| told[name].as_str().unwrap_or_default();
    let code = member("error");
    let fresh = problem.headers().get(X_PRICE_INTENT).and_then(|intent| intent.to_str().ok());
    let asks_again = fresh.is_some() || problem.headers().contains_key(header::RETRY_AFTER);
    let title = words.of(if asks_again { Text::NotYet } else { Text::NotDelivered });
    // The detail contains the amounts.
    let words_of =
        |code| Text::of_error(code).map(|text| page.words(words.language, text)).filter(|words| !words.contains('{'));
    let detail = words_of(code).unwrap_or(member("detail"));
    let mut main = String::new();
    let _ = write!(
        main,
        r#"<section class="card"><h1>{title}</h1><p>{} <span class="soft">({})</span></p></section>"#,
        Escaped(detail),
        Escaped(code)
    );
    if let Some(shown) = shown {
        send_again(&mut main, &words, shown, fresh);
    }
    footer(&mut main, &words, None);
    document(&words, &title, &main, "")
}

/// Returns the common frame of both pages.
fn document(words: &Words<'_>, title: &str, main: &str, script: &str) -> String {
    let (page, language) = (words.page, words.language);
    let shop = page.shown_title();
    let full_title = shop.map_or_else(|| title.to_owned(), |shop| format!("{title} · {shop}"));
    let mut head = String::new();
    if page.shown_logo().is_some() || shop.is_some() {
        head.push_str("<header>");
        if let Some(logo) = page.shown_logo() {
            // The title beside the picture describes it.
            let _ = write!(head, r#"<img src="{}" alt="">"#, Escaped(logo));
        }
        let _ = write!(head, "<span>{}</span></header>", Escaped(shop.unwrap_or_default()));
    }
    format!(
        r#"<!doctype html><html lang="{}" dir="{}"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1"><title>{}</title><style>{}</style></head><body>{head}<main>{main}</main>{script}</body></html>"#,
        Escaped(language.tag),
        language.direction(),
        Escaped(&full_title),
        page.style(),
    )
}

// Writing to a String cannot fail.

fn what_is_sold(out: &mut String, words: &Words<'_>, uri: &Uri, offer: &Offer) {
    let quote = &offer.quote;
    let until = time::shown(quote.expiry);
    let until = format!(r#"<time datetime="{}">{until}</time>"#, time::machine(quote.expiry));
    let _ = write!(
        out,
        r#"<section class="card"><p class="label" id="host"></p><p class="label">{}</p><h1 dir="auto">{}</h1>{}<p class="price">{}{} {}</p>{}<div id="terms"><p>{}</p><p id="static" class="soft">{}</p><p id="left" class="soft"></p><div id="late" hidden><p>{}</p><button id="renew">{}</button></div></div></section>"#,
        words.of(Text::Buying),
        Escaped(&quote.label),
        question(words, uri, offer),
        price(offer),
        Escaped(&quote.symbol),
        words.on(Text::OnNetwork, &data::network_names(offer)),
        testnet(words, quote),
        words.of(Text::Intro),
        words.of(Text::HoldsUntil).replace("{time}", &until),
        words.of(Text::Expired),
        words.of(Text::NewPrice),
    );
    if offer.bound_only {
        let _ = write!(out, r#"<p class="card">{}</p>"#, words.of(Text::BoundOnly));
    }
    if !offer.takes_transfers {
        let _ = write!(out, r#"<p class="card" id="needed">{}</p>"#, words.of(Text::SignedOnly));
    }
}

/// Formats the price for people: in dollars too, if the token is USDC on a network where it has a value.
fn price(offer: &Offer) -> String {
    let (quote, amount) = (&offer.quote, grouped(&data::price(&offer.quote)));
    // The handler sets the charge.
    let most = if offer.up_to { "≤ " } else { "" };
    let dollars = Asset::usdc_of(quote.network).filter(|_| quote.network != Network::BASE_SEPOLIA);
    match dollars.is_some_and(|usdc| quote.contracts.first() == Some(&usdc.contract())) {
        true => format!("<strong>{most}${amount}</strong> · {most}{amount} "),
        false => format!("<strong>{most}{amount}</strong> "),
    }
}

/// Formats an amount with narrow spaces between thousands, from five digits on.
fn grouped(price: &str) -> String {
    let (whole, rest) = price.find('.').map_or((price, ""), |point| price.split_at(point));
    if whole.len() < 5 {
        return price.to_owned();
    }
    let mut shown = String::new();
    for (index, digit) in whole.char_indices() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            shown.push('\u{202f}');
        }
        shown.push(digit);
    }
    shown + rest
}

/// States that a test network's money has no value.
fn testnet(words: &Words<'_>, quote: &Quote) -> String {
    match quote.network {
        Network::BASE_SEPOLIA => format!(r#"<p class="badge">TESTNET · {}</p>"#, words.of(Text::TestNetwork)),
        _ => String::new(),
    }
}

/// Shows the visitor's question from the address, if there is one: as a quotation, because anyone can invent an
/// address.
fn question(words: &Words<'_>, uri: &Uri, offer: &Offer) -> String {
    match request::question(uri, &offer.parameters) {
        Some(asked) => format!(
            r#"<p class="label">{}</p><blockquote class="asked" dir="auto">“{}”</blockquote>"#,
            words.of(Text::Asked),
            Escaped(&asked)
        ),
        None => String::new(),
    }
}

/// Writes what applies in every state, and the seller's contact.
fn footer(out: &mut String, words: &Words<'_>, contact: Option<&str>) {
    let _ = write!(out, "<footer><p>{}</p>", words.of(Text::Once));
    if let Some(contact) = contact {
        let leads = match contact {
            address if address.starts_with("https://") || address.starts_with("http://") => Some(String::new()),
            address if address.contains('@') && !address.contains([' ', '?', '&']) => Some("mailto:".to_owned()),
            _ => None,
        };
        let shown = Escaped(contact);
        let _ = match leads {
            Some(scheme) => {
                write!(
                    out,
                    r#"<p>{} <a href="{scheme}{shown}" rel="noreferrer">{shown}</a></p>"#,
                    words.of(Text::Contact)
                )
            }
            None => write!(out, "<p>{} {shown}</p>", words.of(Text::Contact)),
        };
    }
    out.push_str("</footer>");
}

/// Writes the part that needs the script.
fn wallets(out: &mut String, words: &Words<'_>, offer: &Offer) {
    let none = if offer.takes_transfers { Text::NoWallet } else { Text::SignedOnly };
    let _ = write!(
        out,
        r#"<section class="card" id="pay" hidden aria-labelledby="pay-title"><h2 id="pay-title">{}</h2><fieldset id="wallets"></fieldset><p id="will" class="hint">{}</p><div id="none" hidden><p class="soft">{}</p><div id="apps" class="row"></div><div id="phone" class="pay" hidden><img id="code" class="qr" alt="{}"><p class="soft">{}</p></div></div></section>"#,
        words.of(Text::WithWallet),
        words.of(Text::WillShow),
        words.of(none),
        words.of(Text::PageCode),
        words.of(Text::ScanPage),
    );
}

/// Writes links to pages that sell several answers at once; they work without script too.
fn passes(out: &mut String, words: &Words<'_>, offer: &Offer) {
    // Only on this origin: this page's storage does not hold passes that are bought elsewhere.
    let here = |url: &&str| url.starts_with('/') && !url.starts_with("//");
    let sold = offer.passes.iter().filter_map(|pass| Some((pass, pass.url.as_deref().filter(here)?)));
    let links: String = sold
        .map(|(pass, url)| {
            let price = grouped(&pass.price.to_decimal(offer.quote.decimals));
            format!(
                r#"<a class="button plain" href="{}">{} · {price} {}</a>"#,
                Escaped(url),
                Escaped(&pass.label),
                Escaped(&offer.quote.symbol)
            )
        })
        .collect();
    if !links.is_empty() {
        let title = words.of(Text::BuyPass);
        let _ = write!(
            out,
            r#"<section class="card" id="passes" aria-labelledby="passes-title"><h2 id="passes-title">{title}</h2><div class="row">{links}</div></section>"#
        );
    }
}

fn elsewhere(out: &mut String, words: &Words<'_>, offer: &Offer) {
    let quote = &offer.quote;
    let _ = write!(
        out,
        r#"<details class="card" id="else" open><summary><h2>{}</h2></summary><p>{}</p><div class="pay">"#,
        words.of(Text::Elsewhere),
        words.of(Text::Scan)
    );
    let label = words.of(Text::QrLabel);
    if let Some(code) = qr::payment_url(quote).and_then(|url| qr::image(&url, &label)) {
        out.push_str(&code);
    }
    out.push_str("<dl>");
    let amount = data::price(quote);
    detail(out, words, Text::Amount, "c-amount", &amount, Some(&quote.symbol));
    detail(out, words, Text::Recipient, "c-recipient", &quote.recipient.to_string(), None);
    for (index, asset) in offer.assets.iter().enumerate() {
        let unit = (offer.assets.len() > 1).then_some(asset.symbol());
        detail(out, words, Text::Token, &format!("c-token-{index}"), &asset.contract().to_string(), unit);
    }
    let chain = format!("{} ({})", data::network_name(quote.network), quote.network.chain_id());
    let _ = write!(out, "<dt>{}</dt><dd>{}</dd></dl></div>", words.of(Text::Network), Escaped(&chain));
    let _ = write!(out, r#"<p class="hint">{}</p></details>"#, words.of(Text::PlainTransfer));
}

/// Writes one detail of a transfer. The script adds a button that copies it.
fn detail(out: &mut String, words: &Words<'_>, name: Text, id: &str, value: &str, unit: Option<&str>) {
    let unit = unit.map(|unit| format!(" <span>{}</span>", Escaped(unit))).unwrap_or_default();
    let _ = write!(
        out,
        r#"<dt id="{id}-name">{}</dt><dd><span class="value"><code id="{id}">{}</code>{unit}</span></dd>"#,
        words.of(name),
        Escaped(value),
    );
}

/// Writes the form for a transaction hash, which the script sends; without script it works if the route accepts
/// forms.
fn form(out: &mut String, words: &Words<'_>, offer: &Offer) {
    let hidden = if offer.takes_forms { "" } else { " hidden" };
    let _ = write!(
        out,
        r#"<details class="card" id="paid" open{hidden}><summary><h2>{}</h2></summary><form id="form" method="post">"#,
        words.of(Text::HavePaid),
    );
    hidden_field(out, "intentId", offer.quote.intent.as_str());
    hash_field(out, words, "");
    let _ = write!(out, r#"<button type="submit">{}</button></form></details>"#, words.of(Text::Redeem));
}

fn hash_field(out: &mut String, words: &Words<'_>, value: &str) {
    let _ = write!(
        out,
        r#"<label for="hash">{}</label><input id="hash" name="txHash" value="{}" required pattern="0x[0-9a-fA-F]{{64}}" autocomplete="off" autocapitalize="off" spellcheck="false" aria-describedby="hint"><p class="hint" id="hint">{}</p>"#,
        words.of(Text::Hash),
        Escaped(value),
        words.of(Text::HashHint),
    );
}

/// Writes a form that sends the same payment again: with a fresh intent, if there is one, and the old one as its
/// secret.
fn send_again(out: &mut String, words: &Words<'_>, shown: &Redemption, fresh: Option<&str>) {
    let (intent, secret) = (shown.intent.as_str(), shown.secret.as_ref().map(|secret| secret.as_str()));
    out.push_str(r#"<form class="card" method="post">"#);
    hidden_field(out, "intentId", fresh.unwrap_or(intent));
    if let Some(secret) = secret.or(fresh.map(|_| intent)) {
        hidden_field(out, "paymentSecret", secret);
    }
    hash_field(out, words, &shown.transaction.to_string());
    let _ = write!(out, r#"<button type="submit">{}</button></form>"#, words.of(Text::Again));
}

fn hidden_field(out: &mut String, name: &str, value: &str) {
    let _ = write!(out, r#"<input type="hidden" name="{name}" value="{}">"#, Escaped(value));
}

/// Writes the place where the script shows the answer.
fn answer(out: &mut String, words: &Words<'_>) {
    let _ = write!(
        out,
        r##"<section class="card" id="answer" hidden tabindex="-1" aria-labelledby="answer-title"><h2 id="answer-title">{}</h2><div id="shown" tabindex="0" role="group" aria-labelledby="answer-title"></div><p id="saved" class="row"><a id="download" class="button" href="#" download>{}</a><button class="plain" id="copy-answer" hidden>{}</button></p><dl id="receipt"></dl></section>"##,
        words.of(Text::Answer),
        words.of(Text::Download),
        words.of(Text::Copy),
    );
}

/// The page's texts with the quote's values filled in, escaped.
struct Words<'a> {
    page: &'a Page,
    language: Language<'a>,
    quote: Option<&'a Quote>,
}

impl Words<'_> {
    fn of(&self, text: Text) -> String {
        self.on(text, &self.quote.map(|quote| data::network_name(quote.network)).unwrap_or_default())
    }

    fn on(&self, text: Text, network: &str) -> String {
        let words = self.page.words(self.language, text);
        let words = match self.quote {
            None => words.to_owned(),
            Some(quote) => {
                let filled = |words: String, name: &str, value: &dyn Display| words.replace(name, &value.to_string());
                let words = filled(words.to_owned(), "{price}", &data::price(quote));
                let words = filled(words, "{network}", &network);
                let words = filled(words, "{recipient}", &quote.recipient);
                filled(words, "{symbol}", &quote.symbol)
            }
        };
        Escaped(&words).to_string()
    }
}
