//! The status of a purchase's signed payment on the chain.

use crate::client::{AuthorizationStatus, Failure, JournalEntry, Signed, inner::ClientInner};

/// Asks the chain. Once a settlement was reported, a later contrary report does not permit another signature.
pub(crate) async fn status(inner: &ClientInner, entry: &JournalEntry) -> Result<AuthorizationStatus, Failure> {
    let unsettled = |reason| Failure::Unsettled { purchase: entry.id, transaction: entry.transaction, reason };
    let said = match entry.signed().ok_or_else(|| unsettled(None))? {
        Signed::Authorization(prepared) => {
            let authorizer = inner.authorizer().map_err(|reason| unsettled(Some(reason)))?;
            authorizer.authorization_status(prepared, entry.at).await
        }
        Signed::Permit(prepared) => {
            let signer = inner.permit_signer().map_err(|reason| unsettled(Some(reason)))?;
            signer.permit_status(prepared).await
        }
        Signed::Voucher(vouched) => {
            // A voucher itself has no state on the chain; only its deposit has.
            let Some(deposit) = vouched.deposit() else { return Ok(AuthorizationStatus::Unused) };
            let signer = inner.channel_signer().map_err(|reason| unsettled(Some(reason)))?;
            signer.deposit_status(vouched.network, vouched.config(), deposit, entry.at).await
        }
    };
    match said {
        Ok(AuthorizationStatus::Unused | AuthorizationStatus::Void) if entry.is_settled() => {
            Ok(AuthorizationStatus::Used { transaction: entry.transaction })
        }
        said => said.map_err(|reason| unsettled(Some(reason))),
    }
}
