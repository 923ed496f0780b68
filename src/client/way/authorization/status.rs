//! What became of a purchase's authorization, by the chain.

use crate::client::{AuthorizationStatus, Failure, JournalEntry, inner::ClientInner};

/// Asks the chain. After one report of a settlement, a later contrary report does not permit another signature.
pub(crate) async fn status(inner: &ClientInner, entry: &JournalEntry) -> Result<AuthorizationStatus, Failure> {
    let unsettled = |reason| Failure::Unsettled { purchase: entry.id, transaction: entry.transaction, reason };
    let prepared = entry.authorized().ok_or_else(|| unsettled(None))?;
    let authorizer = inner.authorizer().map_err(|reason| unsettled(Some(reason)))?;
    match authorizer.authorization_status(prepared, entry.at).await {
        Ok(AuthorizationStatus::Unused | AuthorizationStatus::Void) if entry.is_settled() => {
            Ok(AuthorizationStatus::Used { transaction: entry.transaction })
        }
        said => said.map_err(|reason| unsettled(Some(reason))),
    }
}
