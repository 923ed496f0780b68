//! `Tickets`: let the same request fetch a sold answer again for a while.

use std::{fmt, time::Duration};

use crate::protocol::{DigestKey, RequestDigest, SealingKeys, TokenSeal};

/// The first characters of a ticket.
const PREFIX: &str = "x402t_";

/// The tickets of one route.
#[derive(Clone)]
pub(crate) struct Tickets {
    lasts: Duration,
    seal: TokenSeal,
}

/// What a ticket is worth for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TicketState {
    Good,
    Expired,
    /// It belongs to another request.
    Foreign,
}

impl Tickets {
    pub(crate) fn new(keys: &SealingKeys, realm: &str, resource: &str, lasts: Duration) -> Self {
        Self { lasts, seal: TokenSeal::new(keys, PREFIX, &[realm.as_bytes(), resource.as_bytes()]) }
    }

    /// Returns the key of the digests of requests. It is no secret, so that a ticket outlives a change of the sealing key or of the
    /// recipient. The ticket's seal vouches for the digest.
    pub(crate) const fn digest_key(&self) -> DigestKey<'static> {
        DigestKey::Purpose("tower-x402 2026-11 request of a ticket")
    }

    /// Returns the ticket for a request that was sold now.
    pub(crate) fn issue(&self, digest: &RequestDigest, now: u64) -> String {
        let mut payload = [0; 24];
        let (end, bytes) = payload.split_at_mut(8);
        end.copy_from_slice(&now.saturating_add(self.lasts.as_secs()).to_be_bytes());
        bytes.copy_from_slice(digest.as_bytes());
        self.seal.seal(&payload)
    }

    /// Judges a ticket; `None` if it is not of this route.
    pub(crate) fn judge(&self, ticket: &str, digest: &RequestDigest, now: u64) -> Option<TicketState> {
        let payload: [u8; 24] = self.seal.open(ticket)?;
        let (end, of) = payload.split_first_chunk::<8>()?;
        Some(match u64::from_be_bytes(*end) {
            _ if of != digest.as_bytes() => TicketState::Foreign,
            end if now >= end => TicketState::Expired,
            _ => TicketState::Good,
        })
    }
}

impl fmt::Debug for Tickets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tickets").field("lasts", &self.lasts).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_is_good_for_its_request_and_its_time() {
        let tickets = |resource| Tickets::new(&SealingKeys::new([1; 32]), "", resource, Duration::from_secs(60));
        let (one, other) = (RequestDigest::new([1; 16]), RequestDigest::new([2; 16]));
        let ticket = tickets("film").issue(&one, 1_000);
        for (digest, now, state) in [
            (&one, 1_000, TicketState::Good),
            (&one, 1_059, TicketState::Good),
            (&one, 1_060, TicketState::Expired),
            // The clock was set back.
            (&one, 0, TicketState::Good),
            (&other, 1_000, TicketState::Foreign),
            (&other, 9_000, TicketState::Foreign),
        ] {
            assert_eq!(tickets("film").judge(&ticket, digest, now), Some(state), "{now}");
        }
        assert_eq!(tickets("song").judge(&ticket, &one, 1_000), None);
    }
}
