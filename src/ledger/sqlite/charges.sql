-- What payers allowed for sales whose handler set the charge, which is the amount of the sale. A row is written with its sale.
CREATE TABLE ledger_charges (
    payment TEXT PRIMARY KEY NOT NULL,       -- the payment's id
    maximum TEXT NOT NULL                    -- base units
) STRICT, WITHOUT ROWID;
