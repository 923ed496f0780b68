-- Version 3 of the schema. `ledger_` stands for the table prefix.

-- One row: what the ledger knows of itself. `version` changes where an earlier program can no longer read the schema, `revision`
-- wherever it changes.
CREATE TABLE ledger_memory (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    version  bigint NOT NULL,
    revision bigint NOT NULL
);
INSERT INTO ledger_memory (version, revision) VALUES (0, 0);

-- The chains on which the ledger has begun.
CREATE TABLE ledger_marks (
    chain_id bigint PRIMARY KEY,             -- above 2^63 - 1: less 2^64
    mark     bigint NOT NULL                 -- chain time; the chain's payments up to here are refused
);

-- What is sold, and what is held. One row carries both keys, so that they change state together.
CREATE TABLE ledger_sales (
    -- A grant is not flushed to disk, nor would be a sequence that it moved: after a crash a sequence could repeat itself. The
    -- clock's microseconds since 2020, and twelve random bits for where it was set back.
    fence        bigint NOT NULL DEFAULT
        ((extract(epoch FROM clock_timestamp()) - 1577836800) * 1000000)::bigint * 4096 + floor(random() * 4096)::bigint,
    intent       bytea NOT NULL,             -- short name of the intent, 16 bytes
    payment      text COLLATE "C" NOT NULL,  -- the payment's id
    purchase     bytea,                      -- the purchase that the client named, 16 bytes; null: none
    chain_id     bigint NOT NULL,            -- as in ledger_marks
    tx_hash      bytea NOT NULL,             -- where it was shown; the id alone tells payments apart
    log_position bigint NOT NULL,            -- inside the transaction's receipt
    resource     text NOT NULL,
    payer        bytea NOT NULL,
    recipient    bytea NOT NULL,
    token        bytea NOT NULL,
    amount       numeric(78, 0) NOT NULL,    -- base units
    block_number bigint NOT NULL,            -- as chain_id
    block_time   bigint NOT NULL,            -- chain time: Unix seconds
    keep_until   bigint NOT NULL,            -- chain time
    lease_until  timestamptz NOT NULL,
    reserved_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    consumed_at  timestamptz,                -- null: held, not sold
    CONSTRAINT ledger_sales_payment PRIMARY KEY (payment),
    CONSTRAINT ledger_sales_intent UNIQUE (intent)
);
CREATE UNIQUE INDEX ledger_sales_purchase ON ledger_sales (purchase) WHERE purchase IS NOT NULL;
CREATE INDEX ledger_sales_kept ON ledger_sales (chain_id, keep_until) WHERE consumed_at IS NOT NULL;
CREATE INDEX ledger_sales_held ON ledger_sales (lease_until) WHERE consumed_at IS NULL;
CREATE INDEX ledger_sales_sold ON ledger_sales (consumed_at) WHERE consumed_at IS NOT NULL;

-- Settlements that were begun. A row outlives its lease, and keeps the payment for its intent until either is sold.
CREATE TABLE ledger_settling (
    payment    text COLLATE "C" NOT NULL,
    intent     bytea NOT NULL,
    purchase   bytea,                        -- as in ledger_sales
    chain_id   bigint NOT NULL,              -- as in ledger_marks
    request    bytea NOT NULL,               -- digest of the request that it is settled for
    head       bigint NOT NULL,              -- chain time, before it was settled for the first time
    tx_hash    bytea,                        -- what settles it, where that is known
    keep_until bigint NOT NULL,              -- chain time
    CONSTRAINT ledger_settling_payment PRIMARY KEY (payment),
    CONSTRAINT ledger_settling_intent UNIQUE (intent)
);
CREATE INDEX ledger_settling_purchase ON ledger_settling (purchase) WHERE purchase IS NOT NULL;
CREATE INDEX ledger_settling_kept ON ledger_settling (chain_id, keep_until);

-- Answers that were sold, for as long as they are delivered again. They are the buyers' data.
CREATE TABLE ledger_answers (
    intent     bytea PRIMARY KEY,
    kept_until timestamptz NOT NULL,
    content    bytea NOT NULL
);
CREATE INDEX ledger_answers_kept ON ledger_answers (kept_until);

-- Sales that wait for their announcement.
CREATE TABLE ledger_unannounced (
    payment text COLLATE "C" PRIMARY KEY,    -- the payment's id
    sold_at timestamptz NOT NULL             -- `consumed_at` of its sale
);
CREATE INDEX ledger_unannounced_sold ON ledger_unannounced (sold_at, payment);

-- Refunds that the seller notes.
CREATE TABLE ledger_refunds (
    payment  text COLLATE "C" PRIMARY KEY,   -- the payment's id, sold or not
    tx_hash  bytea NOT NULL,                 -- what gave it back
    noted_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- Sales that age keeps from coming back: the seller's book. What is in it is refused, whatever the mark; delete from it what is
-- booked elsewhere.
CREATE TABLE ledger_book (
    fence        bigint NOT NULL,
    intent       bytea NOT NULL,
    payment      text COLLATE "C" NOT NULL,
    chain_id     bigint NOT NULL,
    tx_hash      bytea NOT NULL,
    log_position bigint NOT NULL,
    resource     text NOT NULL,
    payer        bytea NOT NULL,
    recipient    bytea NOT NULL,
    token        bytea NOT NULL,
    amount       numeric(78, 0) NOT NULL,
    block_number bigint NOT NULL,
    block_time   bigint NOT NULL,
    reserved_at  timestamptz NOT NULL,
    consumed_at  timestamptz NOT NULL
);
CREATE INDEX ledger_book_consumed ON ledger_book USING brin (consumed_at);
CREATE INDEX ledger_book_sold ON ledger_book (consumed_at, payment);
CREATE INDEX ledger_book_payment ON ledger_book (payment);
CREATE INDEX ledger_book_intent ON ledger_book (intent);

-- Everything that was sold. Hashes and addresses as they are written elsewhere.
CREATE VIEW ledger_sold AS
    SELECT sale.fence, '0x' || encode(sale.intent, 'hex') AS intent, sale.payment, sale.chain_id,
        '0x' || encode(sale.tx_hash, 'hex') AS tx_hash, sale.log_position, sale.resource,
        '0x' || encode(sale.payer, 'hex') AS payer, '0x' || encode(sale.recipient, 'hex') AS recipient,
        '0x' || encode(sale.token, 'hex') AS token, sale.amount, sale.block_number, sale.block_time, sale.reserved_at,
        sale.consumed_at
    FROM (
        SELECT fence, intent, payment, chain_id, tx_hash, log_position, resource, payer, recipient, token, amount,
            block_number, block_time, reserved_at, consumed_at
        FROM ledger_sales WHERE consumed_at IS NOT NULL
        UNION ALL
        SELECT fence, intent, payment, chain_id, tx_hash, log_position, resource, payer, recipient, token, amount,
            block_number, block_time, reserved_at, consumed_at
        FROM ledger_book
    ) AS sale;

-- The purchase for which this payment, or else this intent, is settled, if it is.
CREATE OR REPLACE FUNCTION ledger_purchase(p_intent bytea, p_payment text) RETURNS bytea LANGUAGE sql STABLE AS $function$
    SELECT COALESCE(
        (SELECT begun.purchase FROM ledger_settling AS begun WHERE begun.payment = p_payment),
        (SELECT begun.purchase FROM ledger_settling AS begun WHERE begun.intent = p_intent)
    )
$function$;

-- The questions that every sale asks. As functions they keep their plans for as long as a connection lasts, also behind a
-- pooler, and are one round trip each. At READ COMMITTED each statement in them sees what was committed when it began.

-- Ends what ran out and is in the way, if asked to; writes, which decides; tells what holds now that no other transaction can
-- change it. No fence: intent, payment or purchase is another's. Booked: intent or payment is in the book, or a settlement was begun
-- by now that the purchase disagrees with: one for another purchase, or one of another payment for this purchase.
CREATE OR REPLACE FUNCTION ledger_grant(p_intent bytea, p_payment text, p_hash bytea, p_position bigint, p_chain bigint,
    p_resource text, p_payer bytea, p_recipient bytea, p_token bytea, p_amount numeric, p_block_number bigint,
    p_block_time bigint, p_keep_until bigint, p_lease bigint, p_purchase bytea, p_takes_over boolean)
RETURNS TABLE (g_fence bigint, g_mark bigint, g_booked boolean, g_barred boolean,
    g_request bytea, g_head bigint, g_hash bytea, g_expired bigint)
LANGUAGE plpgsql AS $function$
BEGIN
    g_expired := 0;
    IF p_takes_over THEN
        WITH gone AS (
            DELETE FROM ledger_sales AS sale
            WHERE (sale.payment = p_payment OR sale.intent = p_intent)
                AND sale.consumed_at IS NULL
                -- An end that is further away than that of the longest lease: the clock was set back.
                AND (sale.lease_until <= clock_timestamp() OR sale.lease_until > clock_timestamp() + interval '62 minutes')
            RETURNING true
        )
        SELECT count(*) INTO g_expired FROM gone;
        IF p_purchase IS NOT NULL THEN
            WITH gone AS (
                DELETE FROM ledger_sales AS sale
                WHERE sale.purchase = p_purchase AND sale.consumed_at IS NULL
                    AND (sale.lease_until <= clock_timestamp() OR sale.lease_until > clock_timestamp() + interval '62 minutes')
                RETURNING true
            )
            SELECT g_expired + count(*) INTO g_expired FROM gone;
        END IF;
    END IF;
    INSERT INTO ledger_sales (intent, payment, tx_hash, log_position, chain_id, resource, payer, recipient, token, amount,
        block_number, block_time, keep_until, lease_until, purchase)
    VALUES (p_intent, p_payment, p_hash, p_position, p_chain, p_resource, p_payer, p_recipient, p_token, p_amount,
        p_block_number, p_block_time, p_keep_until, clock_timestamp() + p_lease * interval '1 microsecond', p_purchase)
    ON CONFLICT DO NOTHING
    RETURNING fence INTO g_fence;
    IF g_fence IS NOT NULL THEN
        SELECT begun.mark INTO g_mark FROM ledger_marks AS begun WHERE begun.chain_id = p_chain;
        g_booked := EXISTS (SELECT FROM ledger_book AS book WHERE book.intent = p_intent)
            OR EXISTS (SELECT FROM ledger_book AS book WHERE book.payment = p_payment);
        SELECT begun.request, begun.head, begun.tx_hash INTO g_request, g_head, g_hash
        FROM ledger_settling AS begun WHERE begun.intent = p_intent AND begun.payment = p_payment;
        g_barred := g_request IS NULL
            AND (EXISTS (SELECT FROM ledger_settling AS begun WHERE begun.intent = p_intent)
                OR EXISTS (SELECT FROM ledger_settling AS begun WHERE begun.payment = p_payment));
        IF p_purchase IS NOT NULL THEN
            g_booked := g_booked OR EXISTS (
                SELECT FROM ledger_settling AS begun
                WHERE begun.purchase = p_purchase AND begun.payment <> p_payment AND begun.intent <> p_intent
            );
        END IF;
        IF g_barred OR g_request IS NOT NULL THEN
            g_booked := g_booked OR COALESCE(ledger_purchase(p_intent, p_payment) IS DISTINCT FROM p_purchase
                AND ledger_purchase(p_intent, p_payment) IS NOT NULL, false);
        END IF;
    END IF;
    RETURN NEXT;
END
$function$;

-- Whether it was sold only now; null: the lease is lost. What is sold already is written once more, so that whoever
-- asks again waits for the flush, too. With a transfer, what was not settled when it was reserved is recorded by that.
CREATE OR REPLACE FUNCTION ledger_commit(p_intent bytea, p_payment text, p_fence bigint, p_hash bytea DEFAULT NULL,
    p_position bigint DEFAULT NULL, p_block_number bigint DEFAULT NULL, p_block_time bigint DEFAULT NULL,
    p_keep_until bigint DEFAULT NULL)
RETURNS boolean LANGUAGE plpgsql AS $function$
DECLARE
    is_sold boolean;
BEGIN
    IF p_hash IS NOT NULL THEN
        UPDATE ledger_sales AS sale SET consumed_at = clock_timestamp(), tx_hash = p_hash, log_position = p_position,
            block_number = p_block_number, block_time = p_block_time,
            keep_until = GREATEST(sale.keep_until, p_keep_until)
        WHERE sale.intent = p_intent AND sale.payment = p_payment AND sale.fence = p_fence AND sale.consumed_at IS NULL;
        is_sold := FOUND;
    END IF;
    IF is_sold IS NOT TRUE THEN
        UPDATE ledger_sales AS sale SET consumed_at = clock_timestamp()
        WHERE sale.intent = p_intent AND sale.payment = p_payment AND sale.fence = p_fence AND sale.consumed_at IS NULL;
        is_sold := FOUND;
    END IF;
    IF is_sold THEN
        DELETE FROM ledger_settling AS begun WHERE begun.intent = p_intent OR begun.payment = p_payment;
        RETURN true;
    END IF;
    UPDATE ledger_sales AS sale SET consumed_at = sale.consumed_at
    WHERE sale.intent = p_intent AND sale.payment = p_payment AND sale.fence = p_fence AND sale.consumed_at IS NOT NULL;
    RETURN CASE WHEN FOUND THEN false END;
END
$function$;

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

-- Records under a lease that is held that its payment is about to be settled, for the lease's purchase, and renews it; tells whether it is held. The lease is
-- written first: a claim that would take it over meanwhile waits for this, and finds it renewed.
CREATE OR REPLACE FUNCTION ledger_settle(p_intent bytea, p_payment text, p_fence bigint, p_lease bigint, p_request bytea,
    p_head bigint, p_hash bytea, p_keep_until bigint, p_chain bigint)
RETURNS boolean LANGUAGE plpgsql AS $function$
DECLARE
    of_lease bytea;
BEGIN
    UPDATE ledger_sales AS sale SET lease_until = clock_timestamp() + p_lease * interval '1 microsecond'
    WHERE sale.intent = p_intent AND sale.payment = p_payment AND sale.fence = p_fence AND sale.consumed_at IS NULL
    RETURNING sale.purchase INTO of_lease;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    DELETE FROM ledger_settling AS begun
    WHERE (begun.intent = p_intent OR begun.payment = p_payment) AND (begun.intent, begun.payment) <> (p_intent, p_payment);
    INSERT INTO ledger_settling AS begun (payment, intent, chain_id, request, head, tx_hash, keep_until, purchase)
    VALUES (p_payment, p_intent, p_chain, p_request, p_head, p_hash, p_keep_until, of_lease)
    ON CONFLICT (payment) DO UPDATE
        SET request = EXCLUDED.request, head = EXCLUDED.head, tx_hash = EXCLUDED.tx_hash, keep_until = EXCLUDED.keep_until,
            purchase = EXCLUDED.purchase;
    RETURN true;
END
$function$;

-- Forgets sales of a chain that age keeps from coming back, with their answers, and raises the chain's mark over each; their rows
-- go into the book. Forgets settlements whose payments cannot come back either, and idle leases and answers after their time. Every
-- search ends where what is to be kept begins.
CREATE OR REPLACE FUNCTION ledger_sweep(p_chain bigint, p_head bigint, p_kept bigint, p_most bigint)
RETURNS TABLE (s_sales bigint, s_leases bigint, s_answers bigint)
LANGUAGE plpgsql AS $function$
BEGIN
    WITH gone AS (
        DELETE FROM ledger_sales WHERE ctid = ANY (ARRAY(
            SELECT ctid FROM ledger_sales WHERE consumed_at IS NOT NULL AND chain_id = p_chain AND keep_until < p_head
            ORDER BY keep_until LIMIT p_most FOR UPDATE SKIP LOCKED
        ))
        RETURNING *
    ), booked AS (
        INSERT INTO ledger_book (fence, intent, payment, chain_id, tx_hash, log_position, resource, payer, recipient, token,
            amount, block_number, block_time, reserved_at, consumed_at)
        SELECT fence, intent, payment, chain_id, tx_hash, log_position, resource, payer, recipient, token, amount,
            block_number, block_time, reserved_at, consumed_at
        FROM gone
    ), dropped AS (
        DELETE FROM ledger_answers WHERE intent = ANY (ARRAY(SELECT intent FROM gone))
    ), raised AS (
        UPDATE ledger_marks SET mark = (SELECT max(block_time) FROM gone)
        WHERE chain_id = p_chain AND mark < (SELECT max(block_time) FROM gone)
    )
    SELECT count(*) INTO s_sales FROM gone;
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
        DELETE FROM ledger_answers WHERE ctid = ANY (ARRAY(
            SELECT ctid FROM ledger_answers WHERE kept_until < clock_timestamp()
            ORDER BY kept_until LIMIT p_most FOR UPDATE SKIP LOCKED
        ))
        RETURNING true
    )
    SELECT count(*) INTO s_answers FROM gone;
    DELETE FROM ledger_settling WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM ledger_settling WHERE chain_id = p_chain AND keep_until < p_head
        ORDER BY keep_until LIMIT p_most FOR UPDATE SKIP LOCKED
    ));
    RETURN NEXT;
END
$function$;
