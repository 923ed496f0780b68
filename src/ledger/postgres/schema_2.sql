-- Revision 2 of the schema. Whoever knows the first one can still read and write it. `ledger_` stands for the table prefix.

-- `version` changes where an earlier program can no longer read the schema, `revision` wherever it changes.
ALTER TABLE ledger_memory ADD COLUMN revision bigint NOT NULL DEFAULT 2;

-- A grant is not flushed to disk, nor is a sequence that it moved: after a crash a sequence could repeat itself. The
-- clock's microseconds since 2020, and twelve random bits for where it was set back.
ALTER TABLE ledger_sales ALTER COLUMN fence DROP IDENTITY;
ALTER TABLE ledger_sales ALTER COLUMN fence SET DEFAULT
    ((extract(epoch FROM clock_timestamp()) - 1577836800) * 1000000)::bigint * 4096 + floor(random() * 4096)::bigint;

-- What was sold and forgotten is refused for as long as it is in the book.
CREATE INDEX ledger_book_payment ON ledger_book (tx_hash, log_position, chain_id);
CREATE INDEX ledger_book_intent ON ledger_book (intent);

DROP VIEW ledger_sold;
CREATE VIEW ledger_sold AS
    SELECT sale.fence, '0x' || encode(sale.intent, 'hex') AS intent, sale.chain_id,
        '0x' || encode(sale.tx_hash, 'hex') AS tx_hash, sale.log_position, sale.resource,
        '0x' || encode(sale.payer, 'hex') AS payer, '0x' || encode(sale.recipient, 'hex') AS recipient,
        '0x' || encode(sale.token, 'hex') AS token, sale.amount, sale.block_number, sale.block_time, sale.reserved_at,
        sale.consumed_at
    FROM (
        SELECT fence, intent, chain_id, tx_hash, log_position, resource, payer, recipient, token, amount,
            block_number, block_time, reserved_at, consumed_at
        FROM ledger_sales WHERE consumed_at IS NOT NULL
        UNION ALL
        SELECT fence, intent, chain_id, tx_hash, log_position, resource, payer, recipient, token, amount,
            block_number, block_time, reserved_at, consumed_at
        FROM ledger_book
    ) AS sale;

-- The questions that every sale asks. As functions they keep their plans for as long as a connection lasts, also behind a
-- pooler, and are one round trip each. At READ COMMITTED each statement in them sees what was committed when it began.

-- Ends what ran out and is in the way, if asked to; writes, which decides; counts the attempt; tells what holds now
-- that nobody else can change it. No fence: intent or payment is another's.
CREATE OR REPLACE FUNCTION ledger_grant(p_intent bytea, p_hash bytea, p_position bigint, p_chain bigint, p_resource text,
    p_payer bytea, p_recipient bytea, p_token bytea, p_amount numeric, p_block_number bigint, p_block_time bigint,
    p_keep_until bigint, p_lease bigint, p_takes_over boolean)
RETURNS TABLE (g_fence bigint, g_times bigint, g_since bigint, g_mark bigint, g_booked boolean, g_expired bigint)
LANGUAGE plpgsql AS $function$
BEGIN
    g_expired := 0;
    IF p_takes_over THEN
        WITH gone AS (
            DELETE FROM ledger_sales AS sale
            WHERE (sale.intent = p_intent
                    OR sale.tx_hash = p_hash AND sale.log_position = p_position AND sale.chain_id = p_chain)
                AND sale.consumed_at IS NULL AND sale.lease_until <= clock_timestamp()
            RETURNING sale.intent, sale.tx_hash, sale.log_position, sale.chain_id, sale.lease_until
        ), noted AS (
            UPDATE ledger_attempts AS tried SET ended_at = gone.lease_until FROM gone
            WHERE (tried.intent, tried.tx_hash, tried.log_position, tried.chain_id)
                = (gone.intent, gone.tx_hash, gone.log_position, gone.chain_id)
        )
        SELECT count(*) INTO g_expired FROM gone;
    END IF;
    INSERT INTO ledger_sales (intent, tx_hash, log_position, chain_id, resource, payer, recipient, token, amount,
        block_number, block_time, keep_until, lease_until)
    VALUES (p_intent, p_hash, p_position, p_chain, p_resource, p_payer, p_recipient, p_token, p_amount,
        p_block_number, p_block_time, p_keep_until, clock_timestamp() + p_lease * interval '1 microsecond')
    ON CONFLICT DO NOTHING
    RETURNING fence INTO g_fence;
    IF g_fence IS NOT NULL THEN
        INSERT INTO ledger_attempts AS tried (intent, tx_hash, log_position, chain_id, times, ended_at)
        VALUES (p_intent, p_hash, p_position, p_chain, 1, clock_timestamp())
        ON CONFLICT (intent, tx_hash, log_position, chain_id) DO UPDATE SET times = LEAST(tried.times, 1000000) + 1
        RETURNING tried.times, (extract(epoch FROM clock_timestamp() - tried.ended_at) * 1000000)::bigint
        INTO g_times, g_since;
        SELECT memory.mark INTO g_mark FROM ledger_memory AS memory;
        g_booked := EXISTS (SELECT FROM ledger_book AS book WHERE book.intent = p_intent)
            OR EXISTS (SELECT FROM ledger_book AS book
                WHERE book.tx_hash = p_hash AND book.log_position = p_position AND book.chain_id = p_chain);
    END IF;
    RETURN NEXT;
END
$function$;

-- Grants the first candidate at once where nothing is known of it, nor of the intent; else tells what is known of all, a
-- line for each, and one where there is none.
CREATE OR REPLACE FUNCTION ledger_reserve(p_intent bytea, p_hashes bytea[], p_positions bigint[], p_chains bigint[],
    p_resource text, p_payer bytea, p_recipient bytea, p_token bytea, p_amount numeric, p_block_number bigint,
    p_block_time bigint, p_keep_until bigint, p_lease bigint)
RETURNS TABLE (r_version bigint, r_mark bigint, r_intent_sold boolean, r_intent_left bigint, r_sold boolean,
    r_left bigint, r_own boolean, r_times bigint, r_since bigint, r_block_time bigint, r_fence bigint, r_booked boolean)
LANGUAGE plpgsql AS $function$
BEGIN
    IF (SELECT memory.version = 1 AND memory.mark < p_block_time
            AND NOT EXISTS (SELECT FROM ledger_sales AS own WHERE own.intent = p_intent)
            AND NOT EXISTS (SELECT FROM ledger_sales AS sale WHERE sale.tx_hash = p_hashes[1]
                AND sale.log_position = p_positions[1] AND sale.chain_id = p_chains[1])
            AND NOT EXISTS (SELECT FROM ledger_attempts AS tried WHERE tried.intent = p_intent
                AND tried.tx_hash = p_hashes[1] AND tried.log_position = p_positions[1] AND tried.chain_id = p_chains[1])
            AND NOT EXISTS (SELECT FROM ledger_book AS book WHERE book.intent = p_intent)
            AND NOT EXISTS (SELECT FROM ledger_book AS book WHERE book.tx_hash = p_hashes[1]
                AND book.log_position = p_positions[1] AND book.chain_id = p_chains[1])
        FROM ledger_memory AS memory)
    THEN
        SELECT g_fence, g_times, g_since, g_mark, g_booked INTO r_fence, r_times, r_since, r_mark, r_booked
        FROM ledger_grant(p_intent, p_hashes[1], p_positions[1], p_chains[1], p_resource, p_payer, p_recipient, p_token,
            p_amount, p_block_number, p_block_time, p_keep_until, p_lease, false);
        IF r_fence IS NOT NULL THEN
            r_version := 1;
            r_intent_sold := false;
            r_sold := false;
            r_own := false;
            RETURN NEXT;
            RETURN;
        END IF;
    END IF;
    RETURN QUERY
    WITH now AS MATERIALIZED (SELECT clock_timestamp() AS at)
    SELECT memory.version, memory.mark,
        own.consumed_at IS NOT NULL OR EXISTS (SELECT FROM ledger_book AS book WHERE book.intent = p_intent),
        (extract(epoch FROM own.lease_until - now.at) * 1000000)::bigint,
        -- One row at most, or the planner reads the whole book for what it takes for many candidates.
        sale.consumed_at IS NOT NULL OR (SELECT true FROM ledger_book AS book WHERE book.tx_hash = wish.tx_hash
            AND book.log_position = wish.log_position AND book.chain_id = wish.chain_id LIMIT 1) IS NOT NULL,
        (extract(epoch FROM sale.lease_until - now.at) * 1000000)::bigint,
        COALESCE(sale.intent = p_intent, false),
        tried.times,
        (extract(epoch FROM now.at - tried.ended_at) * 1000000)::bigint,
        sale.block_time, NULL::bigint, false
    FROM now JOIN ledger_memory AS memory ON memory.only_row
    LEFT JOIN ledger_sales AS own ON own.intent = p_intent
    LEFT JOIN unnest(p_hashes, p_positions, p_chains) WITH ORDINALITY
        AS wish (tx_hash, log_position, chain_id, place) ON true
    LEFT JOIN ledger_sales AS sale
        ON (sale.tx_hash, sale.log_position, sale.chain_id) = (wish.tx_hash, wish.log_position, wish.chain_id)
    LEFT JOIN ledger_attempts AS tried ON tried.intent = p_intent
        AND (tried.tx_hash, tried.log_position, tried.chain_id) = (wish.tx_hash, wish.log_position, wish.chain_id)
    ORDER BY wish.place;
END
$function$;

-- Whether it was sold only now; null: the lease is lost. What is sold already is written once more, so that whoever
-- asks again waits for the flush, too.
CREATE OR REPLACE FUNCTION ledger_commit(p_intent bytea, p_hash bytea, p_position bigint, p_chain bigint, p_fence bigint)
RETURNS boolean LANGUAGE plpgsql AS $function$
BEGIN
    UPDATE ledger_sales AS sale SET consumed_at = clock_timestamp()
    WHERE sale.intent = p_intent AND sale.tx_hash = p_hash AND sale.log_position = p_position
        AND sale.chain_id = p_chain AND sale.fence = p_fence AND sale.consumed_at IS NULL;
    IF FOUND THEN
        DELETE FROM ledger_attempts AS tried
        WHERE tried.intent = p_intent AND tried.tx_hash = p_hash AND tried.log_position = p_position
            AND tried.chain_id = p_chain;
        RETURN true;
    END IF;
    UPDATE ledger_sales AS sale SET consumed_at = sale.consumed_at
    WHERE sale.intent = p_intent AND sale.tx_hash = p_hash AND sale.log_position = p_position
        AND sale.chain_id = p_chain AND sale.fence = p_fence AND sale.consumed_at IS NOT NULL;
    RETURN CASE WHEN FOUND THEN false END;
END
$function$;

-- Forgets sales from `p_low` on that age keeps from coming back, and raises the mark over each; their rows go into the
-- book. If asked to, forgets idle leases and attempts, too. Every search ends where what is to be kept begins.
CREATE OR REPLACE FUNCTION ledger_sweep(p_low bigint, p_head bigint, p_all boolean, p_kept bigint, p_most bigint)
RETURNS TABLE (s_sales bigint, s_leases bigint, s_attempts bigint)
LANGUAGE plpgsql AS $function$
BEGIN
    WITH gone AS (
        DELETE FROM ledger_sales WHERE ctid = ANY (ARRAY(
            SELECT ctid FROM ledger_sales WHERE consumed_at IS NOT NULL AND keep_until >= p_low AND keep_until < p_head
            ORDER BY keep_until LIMIT p_most FOR UPDATE SKIP LOCKED
        ))
        RETURNING *
    ), booked AS (
        INSERT INTO ledger_book (fence, intent, chain_id, tx_hash, log_position, resource, payer, recipient, token,
            amount, block_number, block_time, reserved_at, consumed_at)
        SELECT fence, intent, chain_id, tx_hash, log_position, resource, payer, recipient, token, amount,
            block_number, block_time, reserved_at, consumed_at
        FROM gone
    ), raised AS (
        UPDATE ledger_memory SET mark = GREATEST(mark, (SELECT max(block_time) FROM gone))
        WHERE mark IS DISTINCT FROM GREATEST(mark, (SELECT max(block_time) FROM gone))
    )
    SELECT count(*) INTO s_sales FROM gone;
    s_leases := 0;
    s_attempts := 0;
    IF p_all THEN
        WITH gone AS (
            DELETE FROM ledger_sales WHERE ctid = ANY (ARRAY(
                SELECT ctid FROM ledger_sales
                WHERE consumed_at IS NULL AND lease_until < clock_timestamp() - p_kept * interval '1 microsecond'
                ORDER BY lease_until LIMIT p_most FOR UPDATE SKIP LOCKED
            ))
            RETURNING true
        )
        SELECT count(*) INTO s_leases FROM gone;
        WITH gone AS (
            DELETE FROM ledger_attempts WHERE ctid = ANY (ARRAY(
                SELECT ctid FROM ledger_attempts
                WHERE ended_at < clock_timestamp() - p_kept * interval '1 microsecond'
                ORDER BY ended_at LIMIT p_most FOR UPDATE SKIP LOCKED
            ))
            RETURNING true
        )
        SELECT count(*) INTO s_attempts FROM gone;
    END IF;
    RETURN NEXT;
END
$function$;
