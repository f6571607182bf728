-- Files of contacts that are being imported, or have been.

CREATE TABLE contact_imports (
    workspace_id TEXT NOT NULL,
    id TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('queued', 'in_progress', 'completed', 'failed')),
    -- JSON: which column is what, and what the contacts are tied to.
    plan TEXT NOT NULL,
    size BIGINT NOT NULL,
    -- Where the next row begins, in bytes and in lines. It moves in the commit
    -- that imports the rows before it.
    position BIGINT NOT NULL,
    line BIGINT NOT NULL,
    total BIGINT NOT NULL,
    created BIGINT NOT NULL,
    updated BIGINT NOT NULL,
    skipped BIGINT NOT NULL,
    failed BIGINT NOT NULL,
    -- JSON: the first rows that failed, each with its line and the reason.
    errors TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    completed_at BIGINT,
    due_at BIGINT,
    attempt BIGINT NOT NULL,
    lease_until BIGINT,
    PRIMARY KEY (workspace_id, id)
);
CREATE INDEX contact_imports_due ON contact_imports (due_at) WHERE due_at IS NOT NULL;

-- The file, in pieces of one size, until it is imported.
CREATE TABLE contact_import_chunks (
    workspace_id TEXT NOT NULL,
    import_id TEXT NOT NULL,
    number BIGINT NOT NULL,
    bytes BYTEA NOT NULL,
    PRIMARY KEY (workspace_id, import_id, number)
);
