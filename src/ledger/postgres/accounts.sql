-- Accounts: what was paid for and not used yet. A record changes by compare-and-set of its version.
CREATE TABLE ledger_accounts (
    id      bytea PRIMARY KEY,               -- 16 bytes
    version bigint NOT NULL,
    record  text NOT NULL,                   -- JSON: limit, spent, held, memo
    expires bigint                           -- Unix microseconds, as in the record; null: never
);
CREATE INDEX ledger_accounts_expires ON ledger_accounts (expires) WHERE expires IS NOT NULL;
