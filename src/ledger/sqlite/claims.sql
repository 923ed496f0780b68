-- Claimable accounts: those of which something is owed, and those that are not closed. As their records say.
ALTER TABLE ledger_accounts ADD COLUMN owed INTEGER NOT NULL DEFAULT 0;
ALTER TABLE ledger_accounts ADD COLUMN claimable INTEGER NOT NULL DEFAULT 0;
CREATE INDEX ledger_accounts_owed ON ledger_accounts (id) WHERE owed = 1;
CREATE INDEX ledger_accounts_claimable ON ledger_accounts (id) WHERE claimable = 1;
