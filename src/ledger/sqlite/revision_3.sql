-- Revision 3: sales that wait for their announcement. An earlier program sells on as before, and marks none.

CREATE TABLE ledger_unannounced (
    payment TEXT PRIMARY KEY NOT NULL,       -- the payment's id
    sold_at INTEGER NOT NULL                 -- Unix milliseconds: `consumed_at` of its sale
) STRICT, WITHOUT ROWID;
CREATE INDEX ledger_unannounced_sold ON ledger_unannounced (sold_at, payment);
