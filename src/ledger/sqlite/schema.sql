-- Version 1 of the schema.

-- One row: what the ledger knows of itself.
CREATE TABLE ledger_memory (
    only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
    version  INTEGER NOT NULL,
    mark     INTEGER                         -- chain time; payments up to here are refused; null until begun
) STRICT;
INSERT INTO ledger_memory (only_row, version) VALUES (1, 0);

-- What is sold, and what is held. One row carries both keys, so that they change state together.
CREATE TABLE ledger_sales (
    fence        INTEGER PRIMARY KEY AUTOINCREMENT,
    intent       BLOB NOT NULL UNIQUE,       -- short name of the intent, 16 bytes
    chain_id     INTEGER NOT NULL,           -- above 2^63 - 1: less 2^64
    tx_hash      BLOB NOT NULL,
    log_position INTEGER NOT NULL,           -- inside the transaction's receipt
    resource     TEXT NOT NULL,
    payer        BLOB NOT NULL,
    recipient    BLOB NOT NULL,
    token        BLOB NOT NULL,
    amount       TEXT NOT NULL,              -- base units
    block_number INTEGER NOT NULL,           -- as chain_id
    block_time   INTEGER NOT NULL,           -- chain time: Unix seconds
    keep_until   INTEGER NOT NULL,           -- chain time
    lease_until  INTEGER NOT NULL,           -- Unix milliseconds, as are the next two
    reserved_at  INTEGER NOT NULL,
    consumed_at  INTEGER,                    -- null: held, not sold
    UNIQUE (tx_hash, log_position, chain_id)
) STRICT;
CREATE INDEX ledger_sales_kept ON ledger_sales (keep_until) WHERE consumed_at IS NOT NULL;
CREATE INDEX ledger_sales_held ON ledger_sales (lease_until) WHERE consumed_at IS NULL;

-- How often intent and payment were tried together in vain.
CREATE TABLE ledger_attempts (
    intent       BLOB NOT NULL,
    chain_id     INTEGER NOT NULL,
    tx_hash      BLOB NOT NULL,
    log_position INTEGER NOT NULL,
    times        INTEGER NOT NULL,
    ended_at     INTEGER NOT NULL,           -- of the last one
    PRIMARY KEY (intent, tx_hash, log_position, chain_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX ledger_attempts_ended ON ledger_attempts (ended_at);

-- Sales that age keeps from coming back: the seller's book. It decides nothing; delete from it what is booked elsewhere.
CREATE TABLE ledger_book (
    fence        INTEGER PRIMARY KEY,
    intent       BLOB NOT NULL,
    chain_id     INTEGER NOT NULL,
    tx_hash      BLOB NOT NULL,
    log_position INTEGER NOT NULL,
    resource     TEXT NOT NULL,
    payer        BLOB NOT NULL,
    recipient    BLOB NOT NULL,
    token        BLOB NOT NULL,
    amount       TEXT NOT NULL,
    block_number INTEGER NOT NULL,
    block_time   INTEGER NOT NULL,
    reserved_at  INTEGER NOT NULL,
    consumed_at  INTEGER NOT NULL
) STRICT;
CREATE INDEX ledger_book_consumed ON ledger_book (consumed_at);

-- Everything that was sold.
CREATE VIEW ledger_sold AS
    SELECT fence, intent, chain_id, tx_hash, log_position, resource, payer, recipient, token, amount,
           block_number, block_time, reserved_at, consumed_at
    FROM ledger_sales WHERE consumed_at IS NOT NULL
    UNION ALL
    SELECT fence, intent, chain_id, tx_hash, log_position, resource, payer, recipient, token, amount,
           block_number, block_time, reserved_at, consumed_at
    FROM ledger_book;
