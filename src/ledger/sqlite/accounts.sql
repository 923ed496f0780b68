-- Accounts: what was paid for and not used yet.
CREATE TABLE ledger_accounts (
    id      BLOB PRIMARY KEY NOT NULL,       -- 16 bytes
    record  TEXT NOT NULL,                   -- JSON: limit, spent, held, memo
    expires INTEGER                          -- Unix microseconds, as in the record; null: never
) STRICT, WITHOUT ROWID;
CREATE INDEX ledger_accounts_expires ON ledger_accounts (expires) WHERE expires IS NOT NULL;
