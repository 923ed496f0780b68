//! The log events of a durable ledger. Metrics layers take their field names for counters.

use super::Lease;

pub(super) fn reserved(lease: &Lease) {
    tracing::debug!(monotonic_counter.x402_reserved = 1_u64, intent = %lease.intent(),
        payment = %lease.payment().id(), fence = lease.fencing_token(), "reserved");
}

pub(super) fn consumed(lease: &Lease) {
    tracing::debug!(monotonic_counter.x402_consumed = 1_u64, intent = %lease.intent(),
        payment = %lease.payment().id(), fence = lease.fencing_token(), "consumed");
}

pub(super) fn released(lease: &Lease) {
    tracing::debug!(monotonic_counter.x402_released = 1_u64, intent = %lease.intent(),
        payment = %lease.payment().id(), fence = lease.fencing_token(), "released");
}

/// Expired leases that were taken over or forgotten: their holders crashed, or hang.
pub(super) fn expired(count: u64) {
    if count > 0 {
        tracing::info!(monotonic_counter.x402_expired = count, "leases expired");
    }
}

pub(super) fn forgotten(count: u64) {
    if count > 0 {
        tracing::debug!(count, "sales forgotten");
    }
}
