//! Implements `AccountLedger` for ledgers that apply the rule to questions.

/// Implements [`AccountLedger`](super::AccountLedger) by three methods of the type: `ask_account`, which answers an
/// [`AccountQuestion`](super::AccountQuestion), `list_accounts`, which reads a page of an [`AccountList`](super::AccountList), and
/// `forget_accounts`.
macro_rules! account_ledger {
    ($ledger:ty) => {
        impl $crate::ledger::account::AccountLedger for $ledger {
            async fn open_account(
                &self,
                opening: &$crate::ledger::account::Opening,
            ) -> Result<$crate::ledger::account::OpenOutcome, $crate::ledger::error::LedgerError> {
                use $crate::ledger::account::{AccountAnswer, AccountQuestion};
                match self.ask_account(AccountQuestion::Open(opening.clone())).await? {
                    AccountAnswer::Opened(outcome) => Ok(outcome),
                    _ => Err($crate::ledger::error::LedgerError::unavailable()),
                }
            }

            async fn draw(
                &self,
                draw: &$crate::ledger::account::Draw,
            ) -> Result<$crate::ledger::account::DrawOutcome, $crate::ledger::error::LedgerError> {
                use $crate::ledger::account::{AccountAnswer, AccountQuestion};
                match self.ask_account(AccountQuestion::Draw(draw.clone())).await? {
                    AccountAnswer::Drawn(outcome) => Ok(outcome),
                    _ => Err($crate::ledger::error::LedgerError::unavailable()),
                }
            }

            async fn renew_draw(
                &self,
                lease: &$crate::ledger::account::DrawLease,
            ) -> Result<$crate::ledger::account::DrawRenewal, $crate::ledger::error::LedgerError> {
                use $crate::ledger::account::{AccountAnswer, AccountQuestion};
                match self.ask_account(AccountQuestion::Renew(lease.clone())).await? {
                    AccountAnswer::Renewed(outcome) => Ok(outcome),
                    _ => Err($crate::ledger::error::LedgerError::unavailable()),
                }
            }

            async fn charge(
                &self,
                lease: &$crate::ledger::account::DrawLease,
                amount: $crate::protocol::Amount,
                memo: Option<&$crate::ledger::account::AccountMemo>,
            ) -> Result<$crate::ledger::account::ChargeOutcome, $crate::ledger::error::LedgerError> {
                use $crate::ledger::account::{AccountAnswer, AccountQuestion};
                match self.ask_account(AccountQuestion::Charge(lease.clone(), amount, memo.cloned())).await? {
                    AccountAnswer::Charged(outcome) => Ok(outcome),
                    _ => Err($crate::ledger::error::LedgerError::unavailable()),
                }
            }

            async fn take_back(
                &self,
                lease: &$crate::ledger::account::DrawLease,
                amount: $crate::protocol::Amount,
                memo: Option<&$crate::ledger::account::AccountMemo>,
            ) -> Result<$crate::ledger::account::ChargeOutcome, $crate::ledger::error::LedgerError> {
                use $crate::ledger::account::{AccountAnswer, AccountQuestion};
                match self.ask_account(AccountQuestion::TakeBack(lease.clone(), amount, memo.cloned())).await? {
                    AccountAnswer::Charged(outcome) => Ok(outcome),
                    _ => Err($crate::ledger::error::LedgerError::unavailable()),
                }
            }

            async fn release_draw(
                &self,
                lease: &$crate::ledger::account::DrawLease,
            ) -> Result<(), $crate::ledger::error::LedgerError> {
                use $crate::ledger::account::AccountQuestion;
                self.ask_account(AccountQuestion::Release(lease.clone())).await.map(drop)
            }

            async fn close_account(
                &self,
                id: $crate::ledger::account::AccountId,
            ) -> Result<Option<$crate::ledger::account::ClosedAccount>, $crate::ledger::error::LedgerError> {
                use $crate::ledger::account::{AccountAnswer, AccountQuestion};
                match self.ask_account(AccountQuestion::Close(id)).await? {
                    AccountAnswer::Closed(closed) => Ok(closed),
                    _ => Err($crate::ledger::error::LedgerError::unavailable()),
                }
            }

            async fn account(
                &self,
                id: $crate::ledger::account::AccountId,
            ) -> Result<Option<$crate::ledger::account::Account>, $crate::ledger::error::LedgerError> {
                use $crate::ledger::account::{AccountAnswer, AccountQuestion};
                match self.ask_account(AccountQuestion::Look(id)).await? {
                    AccountAnswer::Account(account) => Ok(account),
                    _ => Err($crate::ledger::error::LedgerError::unavailable()),
                }
            }

            async fn reflect(
                &self,
                reflection: &$crate::ledger::account::Reflection,
            ) -> Result<$crate::ledger::account::ReflectOutcome, $crate::ledger::error::LedgerError> {
                use $crate::ledger::account::{AccountAnswer, AccountQuestion};
                match self.ask_account(AccountQuestion::Reflect(reflection.clone())).await? {
                    AccountAnswer::Reflected(outcome) => Ok(outcome),
                    _ => Err($crate::ledger::error::LedgerError::unavailable()),
                }
            }

            async fn owed(
                &self,
                after: Option<$crate::ledger::account::AccountId>,
                most: usize,
            ) -> Result<
                Vec<($crate::ledger::account::AccountId, $crate::ledger::account::Account)>,
                $crate::ledger::error::LedgerError,
            > {
                self.list_accounts($crate::ledger::account::AccountList::Owed, after, most).await
            }

            async fn claimable(
                &self,
                after: Option<$crate::ledger::account::AccountId>,
                most: usize,
            ) -> Result<
                Vec<($crate::ledger::account::AccountId, $crate::ledger::account::Account)>,
                $crate::ledger::error::LedgerError,
            > {
                self.list_accounts($crate::ledger::account::AccountList::Claimable, after, most).await
            }

            async fn sweep_accounts(
                &self,
                expired_for: std::time::Duration,
            ) -> Result<u64, $crate::ledger::error::LedgerError> {
                self.forget_accounts(expired_for).await
            }
        }
    };
}
pub(crate) use account_ledger;
