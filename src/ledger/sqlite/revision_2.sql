-- Revision 2: refunds that the seller notes, and the order in which the book is read. An earlier program sells on as before.

CREATE TABLE ledger_refunds (
    payment  TEXT PRIMARY KEY NOT NULL,      -- the payment's id, sold or not
    tx_hash  BLOB NOT NULL,                  -- what gave it back
    noted_at INTEGER NOT NULL                -- Unix milliseconds
) STRICT, WITHOUT ROWID;
CREATE INDEX ledger_sales_sold ON ledger_sales (consumed_at) WHERE consumed_at IS NOT NULL;
