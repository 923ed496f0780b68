//! What an answer was charged: by the seller's word, which must add up.

use http::{HeaderMap, response::Parts};

use crate::{
    client::{ChannelRecord, JournalEntry, PermitCharge, inner::ClientInner, payer::PreparedVoucher, way::Charged},
    protocol::{Amount, v2::SettleResponse},
};

/// Counts what an answer was charged, before any other request of the channel; `None` where it is not paid by a channel.
///
/// What does not add up counts as the whole price, and nothing more is signed in that channel.
pub(crate) async fn count(inner: &ClientInner, entry: &JournalEntry, answer: &Parts) -> Option<Charged> {
    let vouched = entry.vouched()?;
    let stated = charge(&answer.headers, vouched, entry.amount);
    let amount = stated.unwrap_or(entry.amount);
    let (key, purchase, deposit) = ((vouched.network, vouched.channel()), entry.id, vouched.deposited());
    let charged = vouched.before.checked_add(amount).unwrap_or(vouched.total());
    let count = |record: &mut ChannelRecord| {
        // A late word about another request says nothing about the channel as it is now.
        let is_open = record.is_open_for(purchase);
        record.charge(purchase, charged, deposit);
        if is_open && stated.is_none() {
            record.breaks();
        }
    };
    inner.registry.note_channel(key, count).await;
    // The payer's own count: no chain is asked.
    Some(Charged { charge: PermitCharge { amount, is_certain: true }, is_plausible: stated.is_some() })
}

/// The charge that the seller states; `None` where it is above the price, of another channel, or not what was added to the count.
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
