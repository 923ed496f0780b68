-- Claimable accounts: those of which something is owed, and those that are not closed. As their records say.
ALTER TABLE ledger_accounts
    ADD COLUMN owed boolean NOT NULL DEFAULT false,
    ADD COLUMN claimable boolean NOT NULL DEFAULT false;
CREATE INDEX ledger_accounts_owed ON ledger_accounts (id) WHERE owed;
CREATE INDEX ledger_accounts_claimable ON ledger_accounts (id) WHERE claimable;
