//! Checks whether the payer can pay an amount by permit.

use crate::{
    client::{Failure, MissingAllowance, PayerError, PermitFunds, inner::ClientInner},
    protocol::{Amount, Asset},
};

const SIGNS_NO_PERMITS: PayerError = PayerError::Refused("the payer signs no permits of this token");
const HOLDS_TOO_LITTLE: PayerError = PayerError::Refused("the payer has too little of the token");

/// Checks that the account has this amount and allows Permit2 to move it. Nothing is signed.
pub(crate) async fn covers(inner: &ClientInner, asset: &Asset, needed: Amount) -> Result<(), Failure> {
    let funds = inner.permit_signer()?.permit_funds(asset).await?;
    let PermitFunds { balance, allowance } = funds.ok_or(SIGNS_NO_PERMITS)?;
    if balance < needed {
        return Err(HOLDS_TOO_LITTLE.into());
    }
    if allowance < needed {
        let (token, decimals) = (asset.contract(), asset.decimals());
        let missing = MissingAllowance { token, allowance, needed, decimals };
        return Err(PayerError::Allowance(Box::new(missing)).into());
    }
    Ok(())
}
