-- Version 3 of the schema. `ledger_` stands for the table prefix.

-- One row: what the ledger knows of itself. `version` changes where an earlier program can no longer read the schema, `revision`
-- wherever it changes.
CREATE TABLE ledger_memory (
    only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
    version  INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    beats    INTEGER NOT NULL DEFAULT 0,     -- how often its health was asked for
    answers  INTEGER NOT NULL DEFAULT 0      -- what all kept answers take, in bytes: kept up by triggers
) STRICT;
INSERT INTO ledger_memory (only_row, version, revision) VALUES (1, 0, 0);

-- The chains on which the ledger has begun.
CREATE TABLE ledger_marks (
    chain_id INTEGER PRIMARY KEY,            -- above 2^63 - 1: less 2^64
    mark     INTEGER NOT NULL                -- chain time; the chain's payments up to here are refused
) STRICT;

-- What is sold, and what is held. One row carries both keys, so that they change state together.
CREATE TABLE ledger_sales (
    fence        INTEGER PRIMARY KEY AUTOINCREMENT,
    intent       BLOB NOT NULL UNIQUE,       -- short name of the intent, 16 bytes
    payment      TEXT NOT NULL UNIQUE,       -- the payment's id
    purchase     BLOB,                       -- the purchase that the client named, 16 bytes; null: none
    chain_id     INTEGER NOT NULL,           -- as in ledger_marks
    tx_hash      BLOB NOT NULL,              -- where it was shown; the id alone tells payments apart
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
    consumed_at  INTEGER                     -- null: held, not sold
) STRICT;
CREATE UNIQUE INDEX ledger_sales_purchase ON ledger_sales (purchase) WHERE purchase IS NOT NULL;
CREATE INDEX ledger_sales_kept ON ledger_sales (chain_id, keep_until) WHERE consumed_at IS NOT NULL;
CREATE INDEX ledger_sales_held ON ledger_sales (lease_until) WHERE consumed_at IS NULL;
CREATE INDEX ledger_sales_sold ON ledger_sales (consumed_at) WHERE consumed_at IS NOT NULL;

-- Settlements that were begun. A row outlives its lease, and keeps the payment for its intent until either is sold.
CREATE TABLE ledger_settling (
    payment    TEXT PRIMARY KEY NOT NULL,
    intent     BLOB NOT NULL UNIQUE,
    purchase   BLOB,                         -- as in ledger_sales
    chain_id   INTEGER NOT NULL,             -- as in ledger_marks
    request    BLOB NOT NULL,                -- digest of the request that it is settled for
    head       INTEGER NOT NULL,             -- chain time, before it was settled for the first time
    tx_hash    BLOB,                         -- what settles it, where that is known
    keep_until INTEGER NOT NULL              -- chain time
) STRICT, WITHOUT ROWID;
CREATE INDEX ledger_settling_purchase ON ledger_settling (purchase) WHERE purchase IS NOT NULL;
CREATE INDEX ledger_settling_kept ON ledger_settling (chain_id, keep_until);

-- Answers that were sold, for as long as they are delivered again. They are the buyers' data.
CREATE TABLE ledger_answers (
    intent     BLOB PRIMARY KEY NOT NULL,
    kept_until INTEGER NOT NULL,             -- Unix milliseconds
    content    BLOB NOT NULL
) STRICT;
CREATE INDEX ledger_answers_kept ON ledger_answers (kept_until);
CREATE TRIGGER ledger_answers_added AFTER INSERT ON ledger_answers BEGIN
    UPDATE ledger_memory SET answers = answers + 256 + length(NEW.content);
END;
CREATE TRIGGER ledger_answers_changed AFTER UPDATE OF content ON ledger_answers BEGIN
    UPDATE ledger_memory SET answers = answers + length(NEW.content) - length(OLD.content);
END;
CREATE TRIGGER ledger_answers_dropped AFTER DELETE ON ledger_answers BEGIN
    UPDATE ledger_memory SET answers = answers - 256 - length(OLD.content);
END;

-- Sales that wait for their announcement.
CREATE TABLE ledger_unannounced (
    payment TEXT PRIMARY KEY NOT NULL,       -- the payment's id
    sold_at INTEGER NOT NULL                 -- Unix milliseconds: `consumed_at` of its sale
) STRICT, WITHOUT ROWID;
CREATE INDEX ledger_unannounced_sold ON ledger_unannounced (sold_at, payment);

-- Refunds that the seller notes.
CREATE TABLE ledger_refunds (
    payment  TEXT PRIMARY KEY NOT NULL,      -- the payment's id, sold or not
    tx_hash  BLOB NOT NULL,                  -- what gave it back
    noted_at INTEGER NOT NULL                -- Unix milliseconds
) STRICT, WITHOUT ROWID;

-- Sales that age keeps from coming back: the seller's book. What is in it is refused, whatever the mark; delete from it what is
-- booked elsewhere.
CREATE TABLE ledger_book (
    fence        INTEGER PRIMARY KEY,
    intent       BLOB NOT NULL,
    payment      TEXT NOT NULL,
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
CREATE INDEX ledger_book_intent ON ledger_book (intent);
CREATE INDEX ledger_book_payment ON ledger_book (payment);

-- Everything that was sold. Hashes and addresses as they are written elsewhere.
CREATE VIEW ledger_sold AS
    SELECT fence, '0x' || lower(hex(intent)) AS intent, payment, chain_id, '0x' || lower(hex(tx_hash)) AS tx_hash,
           log_position, resource, '0x' || lower(hex(payer)) AS payer, '0x' || lower(hex(recipient)) AS recipient,
           '0x' || lower(hex(token)) AS token, amount, block_number, block_time, reserved_at, consumed_at
    FROM ledger_sales WHERE consumed_at IS NOT NULL
    UNION ALL
    SELECT fence, '0x' || lower(hex(intent)), payment, chain_id, '0x' || lower(hex(tx_hash)),
           log_position, resource, '0x' || lower(hex(payer)), '0x' || lower(hex(recipient)),
           '0x' || lower(hex(token)), amount, block_number, block_time, reserved_at, consumed_at
    FROM ledger_book;
