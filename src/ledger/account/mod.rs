//! Accounts: prepaid calls and amounts that were not used yet. [`AccountLedger`] draws them down; [`decide_account`] is
//! its rule.

mod accounts;
mod by_question;
mod claim;
mod id;
mod outcome;
mod record;
mod reflection;
mod rule;
mod time;
#[cfg(any(feature = "postgres", feature = "redis"))]
pub(super) mod turns;

pub use accounts::AccountLedger;
pub(super) use accounts::{AccountList, NoAccounts};
pub(super) use by_question::account_ledger;
pub use claim::{Draw, DrawLease, Opening};
pub use id::{AccountId, AccountMemo};
pub use outcome::{
    Account, ChargeOutcome, Claims, ClosedAccount, DrawOutcome, DrawRenewal, OpenOutcome, ReflectOutcome,
};
pub use record::AccountRecord;
pub use reflection::Reflection;
pub use rule::{AccountAnswer, AccountQuestion, AccountVerdict, decide_account};
pub use time::AccountTime;
