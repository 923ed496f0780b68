-- Fails, and with it the transaction, unless the sale of this fence is known, or the mark of its chain has passed its time.
CREATE OR REPLACE PROCEDURE ledger_knows(p_payment text, p_fence bigint, p_block_time bigint, p_chain bigint)
LANGUAGE plpgsql AS $procedure$
BEGIN
    IF NOT COALESCE((SELECT begun.mark >= p_block_time FROM ledger_marks AS begun WHERE begun.chain_id = p_chain), false)
        AND NOT EXISTS (SELECT FROM ledger_sales AS sale
            WHERE sale.payment = p_payment AND sale.fence = p_fence AND sale.consumed_at IS NOT NULL)
        AND NOT EXISTS (SELECT FROM ledger_book AS book WHERE book.payment = p_payment)
    THEN
        RAISE EXCEPTION USING ERRCODE = 'X4020', MESSAGE = 'the last sale is not known';
    END IF;
END
$procedure$;
