-- What happened, what follows from it, and how far that has come.

-- What automations a workspace has is cached; a change raises the number, and
-- a commit that was prepared under the old one is prepared again.
ALTER TABLE workspaces ADD COLUMN automations_revision BIGINT NOT NULL DEFAULT 1;

CREATE TABLE automations (
    workspace_id TEXT NOT NULL,
    id TEXT NOT NULL,
    name TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('enabled', 'disabled')),
    -- The version that new runs start with.
    version BIGINT NOT NULL,
    re_entry TEXT NOT NULL CHECK (re_entry IN ('always', 'once_per_contact', 'one_at_a_time')),
    -- The name of an event that ends a run wherever it is.
    exit_on TEXT,
    -- What webhook steps sign with.
    signing_secret TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT,
    -- Deleted for everybody to see; its runs go little by little.
    deleted_at BIGINT,
    PRIMARY KEY (workspace_id, id)
) /* WITHOUT ROWID */;
CREATE INDEX automations_deleted ON automations (deleted_at) WHERE deleted_at IS NOT NULL;

-- A graph never changes: editing publishes another version.
CREATE TABLE automation_versions (
    automation_id TEXT NOT NULL,
    version BIGINT NOT NULL,
    -- The event that triggers it.
    event_name TEXT NOT NULL,
    steps TEXT NOT NULL,
    connections TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (automation_id, version)
) /* WITHOUT ROWID */;

-- What runs may wait for or end on: the starts of the names of events, in any
-- version that ever was. What is not among them wakes nobody.
CREATE TABLE listened_names (
    workspace_id TEXT NOT NULL,
    start TEXT NOT NULL,
    PRIMARY KEY (workspace_id, start)
) /* WITHOUT ROWID */;

-- Every time an event happened to a contact. `seq` is the contact's version at
-- that moment, so it orders what happened to one contact.
CREATE TABLE occurrences (
    workspace_id TEXT NOT NULL,
    id TEXT NOT NULL,
    name TEXT NOT NULL,
    contact_id TEXT NOT NULL,
    seq BIGINT NOT NULL,
    -- Whether runs may be woken by it: only then is it looked for in the log.
    heard BOOLEAN NOT NULL,
    payload TEXT NOT NULL,
    -- The occurrence that this one repeats.
    replay_of TEXT,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (workspace_id, id)
) /* WITHOUT ROWID */;
CREATE INDEX occurrences_heard ON occurrences (contact_id, seq) WHERE heard;
CREATE INDEX occurrences_by_name ON occurrences (workspace_id, substr(name, 1, 128), id);

-- One contact's way through one version of an automation.
CREATE TABLE runs (
    automation_id TEXT NOT NULL,
    id TEXT NOT NULL,
    workspace_id TEXT NOT NULL,
    version BIGINT NOT NULL,
    contact_id TEXT NOT NULL,
    occurrence_id TEXT NOT NULL,
    -- The `seq` of that occurrence: what the run can hear came after it.
    since BIGINT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('running', 'completed', 'failed', 'cancelled')),
    -- Where it is and what became of each step, as JSON; empty until a worker
    -- has brought it on.
    state TEXT NOT NULL,
    waiting_for TEXT,
    exit_on TEXT,
    -- When a worker has to look at it. Who does moves it on: that is his lease.
    due_at BIGINT,
    -- Counts claims: the fence against who overslept his lease.
    attempt BIGINT NOT NULL,
    -- The claim that last brought it on; claims since then came to nothing.
    settled BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    completed_at BIGINT,
    PRIMARY KEY (automation_id, id)
) /* WITHOUT ROWID */;
CREATE INDEX runs_due ON runs (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX runs_by_contact ON runs (contact_id, automation_id);
-- Those that an event may wake: few, however many a contact has had.
CREATE INDEX runs_listening ON runs (contact_id)
    WHERE status = 'running' AND (waiting_for IS NOT NULL OR exit_on IS NOT NULL);

-- Mail that a step wants sent: one row for a run and a step, whatever happens.
CREATE TABLE outbox (
    id TEXT PRIMARY KEY,
    workspace_id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    step TEXT NOT NULL,
    contact_id TEXT NOT NULL,
    recipient TEXT NOT NULL,
    -- What the step says: template, variables, sender, subject.
    message TEXT NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX outbox_by_step ON outbox (run_id, step);

-- Answers given under a key that the caller chose, to be given again.
CREATE TABLE idempotency_keys (
    workspace_id TEXT NOT NULL,
    -- Method and path.
    scope TEXT NOT NULL,
    key TEXT NOT NULL,
    fingerprint BYTEA NOT NULL,
    status BIGINT NOT NULL,
    answer TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (workspace_id, scope, key)
) /* WITHOUT ROWID */;
CREATE INDEX idempotency_keys_by_age ON idempotency_keys (created_at);
