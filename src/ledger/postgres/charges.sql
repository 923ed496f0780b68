-- What payers allowed for sales whose handler set the charge, which is the amount of the sale. A row is written with its sale.
CREATE TABLE ledger_charges (
    payment text COLLATE "C" PRIMARY KEY,    -- the payment's id
    maximum numeric(78, 0) NOT NULL          -- base units
);

-- As `ledger_commit`, or `ledger_commit_to_announce`, of a sale that is recorded with this charge in place of what its payer allowed.
CREATE OR REPLACE FUNCTION ledger_commit_charge(p_intent bytea, p_payment text, p_fence bigint, p_hash bytea,
    p_position bigint, p_block_number bigint, p_block_time bigint, p_keep_until bigint, p_charge numeric, p_announce boolean)
RETURNS boolean LANGUAGE plpgsql AS $function$
DECLARE
    allowed numeric;
BEGIN
    SELECT sale.amount INTO allowed FROM ledger_sales AS sale
    WHERE sale.intent = p_intent AND sale.payment = p_payment AND sale.fence = p_fence AND sale.consumed_at IS NULL
    FOR UPDATE;
    IF FOUND THEN
        INSERT INTO ledger_charges (payment, maximum) VALUES (p_payment, allowed)
        ON CONFLICT (payment) DO UPDATE SET maximum = EXCLUDED.maximum;
        UPDATE ledger_sales AS sale SET amount = p_charge WHERE sale.payment = p_payment AND sale.fence = p_fence;
    END IF;
    IF p_announce THEN
        RETURN ledger_commit_to_announce(p_intent, p_payment, p_fence, p_hash, p_position, p_block_number, p_block_time,
            p_keep_until);
    END IF;
    RETURN ledger_commit(p_intent, p_payment, p_fence, p_hash, p_position, p_block_number, p_block_time, p_keep_until);
END
$function$;
