-- SQLite alone: definitions are kept in the order in which they come, and a workspace's own order is an index. Where many
-- workspaces take turns, each row was put between those of two others, and made room for by moving its neighbours
-- from page to page; an entry of the index is a third of a row, and so moves others a third as often.

/*
CREATE TABLE new_events (
    workspace_id BLOB NOT NULL,
    id BLOB NOT NULL,
    name TEXT NOT NULL,
    schema TEXT,
    created_at BIGINT NOT NULL,
    updated_at BIGINT,
    first_use_key TEXT,
    PRIMARY KEY (workspace_id, id)
);
INSERT INTO new_events (workspace_id, id, name, schema, created_at, updated_at, first_use_key)
SELECT workspace_id, id, name, schema, created_at, updated_at, first_use_key FROM events ORDER BY id;
DROP TABLE events;
ALTER TABLE new_events RENAME TO events;
CREATE INDEX events_by_name ON events (name, workspace_id, id);
CREATE UNIQUE INDEX events_by_first_use ON events (workspace_id, first_use_key) WHERE first_use_key IS NOT NULL;
*/
