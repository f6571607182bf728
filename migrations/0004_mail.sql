-- Messages on their way, or captured where nothing leaves the machine.

CREATE TABLE messages (
    id TEXT PRIMARY KEY,
    workspace_id TEXT NOT NULL,
    recipient TEXT NOT NULL,
    subject TEXT NOT NULL,
    body TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('queued', 'captured', 'sent', 'failed')),
    created_at BIGINT NOT NULL,
    due_at BIGINT,
    attempt BIGINT NOT NULL,
    lease_until BIGINT,
    error TEXT
);
CREATE INDEX messages_by_workspace ON messages (workspace_id, id);
CREATE INDEX messages_due ON messages (due_at) WHERE due_at IS NOT NULL;
