-- The time that timers, leases and windows count in, which no clock that is set
-- moves. One row: what all processes on the store agree on.
CREATE TABLE clock (
    -- What has to be added to the store's own clock to get that time.
    shift BIGINT NOT NULL,
    -- That time is known to have come so far.
    seen BIGINT NOT NULL,
    -- When the store's clock was last found to have been set, as it showed
    -- afterwards, and by how much.
    stepped_at BIGINT,
    stepped_by BIGINT
);
INSERT INTO clock (shift, seen) VALUES (0, 0);
