-- Version 1 of the schema. `ledger_` stands for the table prefix.

-- One row: what the ledger knows of itself.
CREATE TABLE ledger_memory (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    version  bigint NOT NULL,
    mark     bigint                          -- chain time; payments up to here are refused; null until begun
);
INSERT INTO ledger_memory (version) VALUES (0);

-- What is sold, and what is held. One row carries both keys, so that they change state together.
CREATE TABLE ledger_sales (
    fence        bigint GENERATED ALWAYS AS IDENTITY,
    intent       bytea NOT NULL,             -- short name of the intent, 16 bytes
    chain_id     bigint NOT NULL,            -- above 2^63 - 1: less 2^64
    tx_hash      bytea NOT NULL,
    log_position bigint NOT NULL,            -- inside the transaction's receipt
    resource     text NOT NULL,
    payer        bytea NOT NULL,
    recipient    bytea NOT NULL,
    token        bytea NOT NULL,
    amount       numeric(78, 0) NOT NULL,    -- base units
    block_number bigint NOT NULL,            -- as chain_id
    block_time   bigint NOT NULL,            -- chain time: Unix seconds
    keep_until   bigint NOT NULL,            -- chain time
    lease_until  timestamptz NOT NULL,
    reserved_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    consumed_at  timestamptz,                -- null: held, not sold
    CONSTRAINT ledger_sales_payment PRIMARY KEY (tx_hash, log_position, chain_id),
    CONSTRAINT ledger_sales_intent UNIQUE (intent)
);
CREATE INDEX ledger_sales_kept ON ledger_sales (keep_until) WHERE consumed_at IS NOT NULL;
CREATE INDEX ledger_sales_held ON ledger_sales (lease_until) WHERE consumed_at IS NULL;

-- How often intent and payment were tried together in vain.
CREATE TABLE ledger_attempts (
    intent       bytea NOT NULL,
    chain_id     bigint NOT NULL,
    tx_hash      bytea NOT NULL,
    log_position bigint NOT NULL,
    times        bigint NOT NULL,
    ended_at     timestamptz NOT NULL,       -- of the last one
    PRIMARY KEY (intent, tx_hash, log_position, chain_id)
);
CREATE INDEX ledger_attempts_ended ON ledger_attempts (ended_at);

-- Sales that age keeps from coming back: the seller's book. It decides nothing; delete from it what is booked elsewhere.
CREATE TABLE ledger_book (
    fence        bigint NOT NULL,
    intent       bytea NOT NULL,
    chain_id     bigint NOT NULL,
    tx_hash      bytea NOT NULL,
    log_position bigint NOT NULL,
    resource     text NOT NULL,
    payer        bytea NOT NULL,
    recipient    bytea NOT NULL,
    token        bytea NOT NULL,
    amount       numeric(78, 0) NOT NULL,
    block_number bigint NOT NULL,
    block_time   bigint NOT NULL,
    reserved_at  timestamptz NOT NULL,
    consumed_at  timestamptz NOT NULL
);
CREATE INDEX ledger_book_consumed ON ledger_book USING brin (consumed_at);

-- Everything that was sold.
CREATE VIEW ledger_sold AS
    SELECT fence, intent, chain_id, tx_hash, log_position, resource, payer, recipient, token, amount,
           block_number, block_time, reserved_at, consumed_at
    FROM ledger_sales WHERE consumed_at IS NOT NULL
    UNION ALL
    SELECT fence, intent, chain_id, tx_hash, log_position, resource, payer, recipient, token, amount,
           block_number, block_time, reserved_at, consumed_at
    FROM ledger_book;
