-- Definitions of events. A name may be defined again: the newest is in force.

CREATE TABLE events (
    workspace_id TEXT NOT NULL,
    id TEXT NOT NULL,
    name TEXT NOT NULL,
    -- What the index holds of a name: PostgreSQL refuses entries of more than
    -- 2,704 bytes, and a name may have 4,096.
    name_start TEXT GENERATED ALWAYS AS (substr(name, 1, 128)) STORED,
    schema TEXT,
    created_at BIGINT NOT NULL,
    updated_at BIGINT,
    PRIMARY KEY (workspace_id, id)
) /* WITHOUT ROWID */;
CREATE INDEX events_by_name ON events (workspace_id, name_start, id);
