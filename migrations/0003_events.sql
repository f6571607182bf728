-- Definitions of events. A name may be defined again: the newest is in force.

CREATE TABLE events (
    workspace_id TEXT NOT NULL,
    id TEXT NOT NULL,
    name TEXT NOT NULL,
    schema TEXT,
    created_at BIGINT NOT NULL,
    updated_at BIGINT,
    PRIMARY KEY (workspace_id, id)
) /* WITHOUT ROWID */;
-- PostgreSQL refuses index entries of more than 2,704 bytes, and a name may have
-- 4,096: the index holds its start.
CREATE INDEX events_by_name ON events (workspace_id, substr(name, 1, 128), id);
