-- Grants the first candidate at once where nothing is known of it, nor of the intent, nor of the sale of any other candidate, which
-- may have to be kept longer; else tells what is known of all, a line for each, and one where there is none. What is written down is
-- the first candidate's.
CREATE OR REPLACE FUNCTION ledger_reserve(p_intent bytea, p_payments text[], p_hash bytea, p_position bigint, p_chains bigint[],
    p_resource text, p_payer bytea, p_recipient bytea, p_token bytea, p_amount numeric, p_block_number bigint,
    p_block_time bigint, p_keep_until bigint, p_lease bigint, p_purchase bytea)
RETURNS TABLE (r_version bigint, r_mark bigint, r_intent_sold boolean, r_intent_left bigint, r_sold boolean,
    r_left bigint, r_block_time bigint, r_fence bigint, r_booked boolean, r_barred boolean, r_purchase text,
    r_purchase_sold boolean, r_purchase_left bigint, r_purchase_begun boolean)
LANGUAGE plpgsql AS $function$
BEGIN
    IF (SELECT memory.version = 3
            AND (SELECT begun.mark FROM ledger_marks AS begun WHERE begun.chain_id = p_chains[1]) < p_block_time
            AND NOT EXISTS (SELECT FROM ledger_sales AS own WHERE own.intent = p_intent)
            AND NOT EXISTS (SELECT FROM ledger_sales AS sale WHERE sale.payment = p_payments[1])
            AND (cardinality(p_payments) = 1
                OR NOT EXISTS (SELECT FROM ledger_sales AS sale WHERE sale.payment = ANY (p_payments[2:])))
            AND NOT EXISTS (SELECT FROM ledger_book AS book WHERE book.intent = p_intent)
            AND NOT EXISTS (SELECT FROM ledger_book AS book WHERE book.payment = p_payments[1])
            AND NOT EXISTS (SELECT FROM ledger_settling AS begun WHERE begun.intent = p_intent)
            AND NOT EXISTS (SELECT FROM ledger_settling AS begun WHERE begun.payment = p_payments[1])
            AND (p_purchase IS NULL OR (NOT EXISTS (SELECT FROM ledger_sales AS sale WHERE sale.purchase = p_purchase)
                AND NOT EXISTS (SELECT FROM ledger_settling AS begun WHERE begun.purchase = p_purchase)))
        FROM ledger_memory AS memory)
    THEN
        -- A settlement that was begun since belongs into the lease: then, too, all is looked at again.
        SELECT g_fence, g_mark, g_booked, g_barred OR g_request IS NOT NULL
        INTO r_fence, r_mark, r_booked, r_barred
        FROM ledger_grant(p_intent, p_payments[1], p_hash, p_position, p_chains[1], p_resource, p_payer, p_recipient, p_token,
            p_amount, p_block_number, p_block_time, p_keep_until, p_lease, p_purchase, false);
        IF r_fence IS NOT NULL THEN
            r_version := 3;
            r_intent_sold := false;
            r_sold := false;
            r_purchase_sold := false;
            r_purchase_begun := false;
            RETURN NEXT;
            RETURN;
        END IF;
    END IF;
    RETURN QUERY
    WITH now AS MATERIALIZED (SELECT clock_timestamp() AS at)
    SELECT memory.version, begun_on.mark,
        own.consumed_at IS NOT NULL OR EXISTS (SELECT FROM ledger_book AS book WHERE book.intent = p_intent),
        (extract(epoch FROM own.lease_until - now.at) * 1000000)::bigint,
        -- One row at most, or the planner reads the whole book for what it takes for many candidates.
        sale.consumed_at IS NOT NULL
            OR (SELECT true FROM ledger_book AS book WHERE book.payment = wish.payment LIMIT 1) IS NOT NULL,
        (extract(epoch FROM sale.lease_until - now.at) * 1000000)::bigint,
        sale.block_time, NULL::bigint, false,
        -- Likewise.
        (SELECT true FROM ledger_settling AS begun WHERE begun.payment = wish.payment AND begun.intent <> p_intent LIMIT 1) IS NOT NULL
            OR EXISTS (SELECT FROM ledger_settling AS begun WHERE begun.intent = p_intent AND begun.payment <> wish.payment),
        encode(bought.purchase, 'hex'),
        rival.consumed_at IS NOT NULL,
        (extract(epoch FROM rival.lease_until - now.at) * 1000000)::bigint,
        (SELECT true FROM ledger_settling AS begun
            WHERE begun.purchase = bought.purchase AND begun.payment <> wish.payment AND begun.intent <> p_intent LIMIT 1) IS NOT NULL
    FROM now JOIN ledger_memory AS memory ON memory.only_row
    LEFT JOIN ledger_sales AS own ON own.intent = p_intent
    LEFT JOIN unnest(p_payments, p_chains) WITH ORDINALITY AS wish (payment, chain_id, place) ON true
    LEFT JOIN ledger_marks AS begun_on ON begun_on.chain_id = wish.chain_id
    LEFT JOIN ledger_sales AS sale ON sale.payment = wish.payment
    LEFT JOIN LATERAL (SELECT COALESCE(ledger_purchase(p_intent, wish.payment), p_purchase) AS purchase) AS bought ON true
    -- Another payment's entry of the purchase.
    LEFT JOIN LATERAL (
        SELECT other.consumed_at, other.lease_until FROM ledger_sales AS other
        WHERE other.purchase = bought.purchase AND other.payment <> wish.payment LIMIT 1
    ) AS rival ON true
    ORDER BY wish.place;
END
$function$;
