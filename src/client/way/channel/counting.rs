//! Counts the charge of an answer, which the seller states and which must add up.

use http::{HeaderMap, response::Parts};

use crate::{
    client::{ChannelRecord, JournalEntry, PermitCharge, inner::ClientInner, payer::PreparedVoucher, way::Charged},
    protocol::{Amount, v2::SettleResponse},
};

/// Counts the charge of an answer before any other request of the channel; returns `None` if it was not paid by a
/// channel.
///
/// A charge that does not add up counts as the whole price, and nothing more is signed in that channel.
pub(crate) async fn count(inner: &ClientInner, entry: &JournalEntry, answer: &Parts) -> Option<Charged> {
    let vouched = entry.vouched()?;
    let stated = charge(&answer.headers, vouched, entry.amount);
    let amount = stated.unwrap_or(entry.amount);
    let (key, purchase, deposit) = ((vouched.network, vouched.channel()), entry.id, vouched.deposited());
    let charged = vouched.before.checked_add(amount).unwrap_or(vouched.total());
    let count = |record: &mut ChannelRecord| {
        // A late report about another request says nothing about the channel now.
        let is_open = record.is_open_for(purchase);
        record.charge(purchase, charged, deposit);
        if is_open && stated.is_none() {
            record.mark_broken();
        }
    };
    inner.registry.note_channel(key, count).await;
    // This is the payer's own count, so no chain is asked.
    Some(Charged { charge: PermitCharge { amount, is_certain: true }, is_plausible: stated.is_some() })
}

/// Returns the charge that the seller states; `None` if it exceeds the price, is for another channel, or does not match
/// the count.
fn charge(headers: &HeaderMap, vouched: &PreparedVoucher, price: Amount) -> Option<Amount> {
    let told = SettleResponse::from_headers(headers).ok()??;
    let (charge, state) = (told.charged_amount()?, told.channel_state()?);
    let counted = vouched.before.checked_add(charge)?;
    let adds_up = told.success
        && charge <= price
        && state.channel_id == vouched.channel()
        && state.charged_cumulative_amount == Some(counted)
        && state.balance >= counted;
    adds_up.then_some(charge)
}
