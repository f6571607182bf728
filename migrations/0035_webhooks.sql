-- Webhooks: who is told of what happens in a workspace, each event that was told, and its way to each of them.

CREATE TABLE webhooks (
    workspace_id UUID NOT NULL,
    id UUID NOT NULL,
    endpoint TEXT NOT NULL,
    -- A bit for each type of event that it listens to.
    events BIGINT NOT NULL,
    status TEXT NOT NULL,
    -- Why it is disabled, where nobody has disabled it.
    disabled_reason TEXT,
    signing_secret TEXT NOT NULL,
    -- The secret before, which signs beside the other until then, in steady time.
    old_secret TEXT,
    old_secret_until BIGINT,
    -- The line in which its deliveries wait.
    destination TEXT NOT NULL,
    -- Since when every attempt has failed, in steady time.
    failing_since BIGINT,
    -- The app that made it.
    grant_id UUID,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (workspace_id, id)
) /* WITHOUT ROWID */;
CREATE INDEX webhooks_by_grant ON webhooks (grant_id) WHERE grant_id IS NOT NULL;

CREATE TABLE webhook_events (
    id UUID NOT NULL PRIMARY KEY,
    workspace_id UUID NOT NULL,
    type TEXT NOT NULL,
    -- As it is sent, to the byte.
    payload TEXT NOT NULL,
    created_at BIGINT NOT NULL
) /* WITHOUT ROWID */;

CREATE TABLE webhook_deliveries (
    webhook_id UUID NOT NULL,
    event_id UUID NOT NULL,
    workspace_id UUID NOT NULL,
    destination TEXT NOT NULL,
    status TEXT NOT NULL DEFAULT 'pending',
    -- When it is tried next, in steady time.
    due_at BIGINT,
    attempt BIGINT NOT NULL DEFAULT 0,
    -- The last attempt of which it is known how it ended.
    settled BIGINT NOT NULL DEFAULT 0,
    -- How many attempts failed.
    tries BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (webhook_id, event_id)
) /* WITHOUT ROWID */;
CREATE INDEX webhook_deliveries_waiting ON webhook_deliveries (destination, due_at) WHERE due_at IS NOT NULL;
CREATE INDEX webhook_deliveries_by_event ON webhook_deliveries (event_id);

CREATE TABLE webhook_attempts (
    event_id UUID NOT NULL,
    webhook_id UUID NOT NULL,
    id UUID NOT NULL,
    -- 0: there was no answer.
    http_status BIGINT NOT NULL,
    response TEXT NOT NULL,
    error TEXT,
    -- In milliseconds.
    duration BIGINT NOT NULL,
    sent_at BIGINT NOT NULL,
    PRIMARY KEY (event_id, webhook_id, id)
) /* WITHOUT ROWID */;
