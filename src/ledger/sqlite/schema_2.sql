-- Revision 2 of the schema. Version 1 reads and writes it as it did: it asks for its own columns by name, and nothing that
-- it knows is gone but the view's bytes.

ALTER TABLE ledger_memory ADD COLUMN revision INTEGER NOT NULL DEFAULT 1;
ALTER TABLE ledger_memory ADD COLUMN beats INTEGER NOT NULL DEFAULT 0;   -- how often its health was asked for

-- What is in the book is refused, whatever the mark.
CREATE INDEX ledger_book_intent ON ledger_book (intent);
CREATE INDEX ledger_book_payment ON ledger_book (tx_hash, log_position, chain_id);

-- Everything that was sold. Hashes and addresses as they are written elsewhere.
DROP VIEW ledger_sold;
CREATE VIEW ledger_sold AS
    SELECT fence, '0x' || lower(hex(intent)) AS intent, chain_id, '0x' || lower(hex(tx_hash)) AS tx_hash, log_position,
           resource, '0x' || lower(hex(payer)) AS payer, '0x' || lower(hex(recipient)) AS recipient,
           '0x' || lower(hex(token)) AS token, amount, block_number, block_time, reserved_at, consumed_at
    FROM ledger_sales WHERE consumed_at IS NOT NULL
    UNION ALL
    SELECT fence, '0x' || lower(hex(intent)), chain_id, '0x' || lower(hex(tx_hash)), log_position,
           resource, '0x' || lower(hex(payer)), '0x' || lower(hex(recipient)),
           '0x' || lower(hex(token)), amount, block_number, block_time, reserved_at, consumed_at
    FROM ledger_book;
