//! What became of a purchase's authorization, by the chain.

use crate::client::{AuthorizationStatus, JournalEntry, PayError, inner::ClientInner};

/// Asks the chain. What was settled once, by its word, is not signed again on another word.
pub(crate) async fn status(inner: &ClientInner, entry: &JournalEntry) -> Result<AuthorizationStatus, PayError> {
    let unsettled = |reason| PayError::Unsettled { purchase: entry.id, transaction: entry.transaction, reason };
    let prepared = entry.authorized().ok_or_else(|| unsettled(None))?;
    match inner.payer.authorization_status(prepared, entry.at).await {
        Ok(AuthorizationStatus::Unused | AuthorizationStatus::Void) if entry.is_settled() => {
            Ok(AuthorizationStatus::Used { transaction: entry.transaction })
        }
        said => said.map_err(|reason| unsettled(Some(reason))),
    }
}
