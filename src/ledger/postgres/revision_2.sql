-- Revision 2: refunds that the seller notes, and the order in which the book is read. An earlier program sells on as before.

CREATE TABLE ledger_refunds (
    payment  text COLLATE "C" PRIMARY KEY,   -- the payment's id, sold or not
    tx_hash  bytea NOT NULL,                 -- what gave it back
    noted_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX ledger_book_sold ON ledger_book (consumed_at, payment);
-- Last: no sale is recorded from here to the end of the transaction.
CREATE INDEX ledger_sales_sold ON ledger_sales (consumed_at) WHERE consumed_at IS NOT NULL;
