-- Revision 3: sales that wait for their announcement. An earlier program sells on as before, and marks none.

CREATE TABLE ledger_unannounced (
    payment text COLLATE "C" PRIMARY KEY,    -- the payment's id
    sold_at timestamptz NOT NULL             -- `consumed_at` of its sale
);
CREATE INDEX ledger_unannounced_sold ON ledger_unannounced (sold_at, payment);

-- As `ledger_commit`; what is sold only now waits for its announcement.
CREATE OR REPLACE FUNCTION ledger_commit_to_announce(p_intent bytea, p_payment text, p_fence bigint, p_hash bytea,
    p_position bigint, p_block_number bigint, p_block_time bigint, p_keep_until bigint)
RETURNS boolean LANGUAGE plpgsql AS $function$
DECLARE
    is_sold boolean;
BEGIN
    is_sold := ledger_commit(p_intent, p_payment, p_fence, p_hash, p_position, p_block_number, p_block_time, p_keep_until);
    IF is_sold THEN
        INSERT INTO ledger_unannounced (payment, sold_at)
        SELECT sale.payment, sale.consumed_at FROM ledger_sales AS sale WHERE sale.payment = p_payment
        ON CONFLICT DO NOTHING;
    END IF;
    RETURN is_sold;
END
$function$;
