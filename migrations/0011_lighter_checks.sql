-- First SQLite alone: PostgreSQL does all of this well as it is.
--
-- Against a list of more than two values, SQLite checks a row with a table that it
-- makes for the row; and where an index holds what a function returns, it keeps a
-- copy of each page it changes, for the function might fail. A table without rowids
-- that grows in several places (the runs of each automation) is split over and over.

/*
CREATE TABLE lighter_runs (
    automation_id TEXT NOT NULL,
    id TEXT NOT NULL,
    workspace_id TEXT NOT NULL,
    version BIGINT NOT NULL,
    contact_id TEXT NOT NULL,
    occurrence_id TEXT NOT NULL,
    since BIGINT NOT NULL,
    status TEXT NOT NULL
        CHECK (status = 'running' OR status = 'completed' OR status = 'failed' OR status = 'cancelled'),
    state TEXT NOT NULL,
    waiting_for TEXT,
    exit_on TEXT,
    due_at BIGINT,
    attempt BIGINT NOT NULL,
    settled BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    completed_at BIGINT,
    PRIMARY KEY (automation_id, id)
);
INSERT INTO lighter_runs SELECT * FROM runs;
DROP TABLE runs;
ALTER TABLE lighter_runs RENAME TO runs;
CREATE INDEX runs_due ON runs (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX runs_by_contact ON runs (contact_id, automation_id);
CREATE INDEX runs_listening ON runs (contact_id)
    WHERE status = 'running' AND (waiting_for IS NOT NULL OR exit_on IS NOT NULL);

CREATE TABLE lighter_messages (
    id TEXT PRIMARY KEY,
    workspace_id TEXT NOT NULL,
    recipient TEXT NOT NULL,
    subject TEXT NOT NULL,
    body TEXT NOT NULL,
    status TEXT NOT NULL
        CHECK (status = 'queued' OR status = 'captured' OR status = 'sent' OR status = 'failed'),
    created_at BIGINT NOT NULL,
    due_at BIGINT,
    attempt BIGINT NOT NULL,
    lease_until BIGINT,
    error TEXT
);
INSERT INTO lighter_messages SELECT * FROM messages;
DROP TABLE messages;
ALTER TABLE lighter_messages RENAME TO messages;
CREATE INDEX messages_by_workspace ON messages (workspace_id, id);
CREATE INDEX messages_due ON messages (due_at) WHERE due_at IS NOT NULL;

DROP INDEX occurrences_by_name;
CREATE INDEX occurrences_by_name ON occurrences (workspace_id, name, id);
*/

-- What failed is looked for among very many that did not.
CREATE INDEX runs_failed ON runs (automation_id, id) WHERE status = 'failed';
