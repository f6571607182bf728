-- Ids are 16 bytes: `uuid` on PostgreSQL, a BLOB on SQLite. What others may choose stays
-- text: the ids of OAuth clients, some of which are addresses, and of signing keys.
-- `lease_until` of messages and imports goes: who claims one moves its `due_at`.
--
-- PostgreSQL changes the columns where they are, and makes their indices anew.
-- <postgres>
ALTER TABLE memberships DROP CONSTRAINT memberships_workspace_id_fkey;
ALTER TABLE memberships DROP CONSTRAINT memberships_user_id_fkey;
ALTER TABLE api_keys DROP CONSTRAINT api_keys_workspace_id_fkey;
ALTER TABLE known_devices DROP CONSTRAINT known_devices_user_id_fkey;
ALTER TABLE workspaces
    ALTER COLUMN id TYPE UUID USING id::uuid;
ALTER TABLE users
    ALTER COLUMN id TYPE UUID USING id::uuid;
ALTER TABLE memberships
    ALTER COLUMN workspace_id TYPE UUID USING workspace_id::uuid,
    ALTER COLUMN user_id TYPE UUID USING user_id::uuid;
ALTER TABLE api_keys
    ALTER COLUMN id TYPE UUID USING id::uuid,
    ALTER COLUMN workspace_id TYPE UUID USING workspace_id::uuid,
    ALTER COLUMN grant_id TYPE UUID USING grant_id::uuid;
ALTER TABLE known_devices
    ALTER COLUMN user_id TYPE UUID USING user_id::uuid;
ALTER TABLE sessions
    ALTER COLUMN user_id TYPE UUID USING user_id::uuid;
ALTER TABLE authorization_requests
    ALTER COLUMN id TYPE UUID USING id::uuid,
    ALTER COLUMN user_id TYPE UUID USING user_id::uuid;
ALTER TABLE authorization_codes
    ALTER COLUMN user_id TYPE UUID USING user_id::uuid,
    ALTER COLUMN workspace_id TYPE UUID USING workspace_id::uuid,
    ALTER COLUMN grant_id TYPE UUID USING grant_id::uuid;
ALTER TABLE oauth_grants
    ALTER COLUMN id TYPE UUID USING id::uuid,
    ALTER COLUMN workspace_id TYPE UUID USING workspace_id::uuid,
    ALTER COLUMN user_id TYPE UUID USING user_id::uuid;
ALTER TABLE refresh_tokens
    ALTER COLUMN grant_id TYPE UUID USING grant_id::uuid;
ALTER TABLE revoked_tokens
    ALTER COLUMN id TYPE UUID USING id::uuid;
ALTER TABLE events
    ALTER COLUMN workspace_id TYPE UUID USING workspace_id::uuid,
    ALTER COLUMN id TYPE UUID USING id::uuid;
ALTER TABLE messages
    DROP COLUMN lease_until,
    ALTER COLUMN id TYPE UUID USING id::uuid,
    ALTER COLUMN workspace_id TYPE UUID USING workspace_id::uuid;
ALTER TABLE contacts
    ALTER COLUMN workspace_id TYPE UUID USING workspace_id::uuid,
    ALTER COLUMN id TYPE UUID USING id::uuid;
ALTER TABLE segments
    ALTER COLUMN workspace_id TYPE UUID USING workspace_id::uuid,
    ALTER COLUMN id TYPE UUID USING id::uuid;
ALTER TABLE segment_members
    ALTER COLUMN workspace_id TYPE UUID USING workspace_id::uuid,
    ALTER COLUMN segment_id TYPE UUID USING segment_id::uuid,
    ALTER COLUMN contact_id TYPE UUID USING contact_id::uuid;
ALTER TABLE contact_properties
    ALTER COLUMN workspace_id TYPE UUID USING workspace_id::uuid,
    ALTER COLUMN id TYPE UUID USING id::uuid;
ALTER TABLE topics
    ALTER COLUMN workspace_id TYPE UUID USING workspace_id::uuid,
    ALTER COLUMN id TYPE UUID USING id::uuid;
ALTER TABLE topic_subscriptions
    ALTER COLUMN workspace_id TYPE UUID USING workspace_id::uuid,
    ALTER COLUMN contact_id TYPE UUID USING contact_id::uuid,
    ALTER COLUMN topic_id TYPE UUID USING topic_id::uuid;
ALTER TABLE contact_imports
    DROP COLUMN lease_until,
    ALTER COLUMN workspace_id TYPE UUID USING workspace_id::uuid,
    ALTER COLUMN id TYPE UUID USING id::uuid;
ALTER TABLE contact_import_chunks
    ALTER COLUMN workspace_id TYPE UUID USING workspace_id::uuid,
    ALTER COLUMN import_id TYPE UUID USING import_id::uuid;
ALTER TABLE automations
    ALTER COLUMN workspace_id TYPE UUID USING workspace_id::uuid,
    ALTER COLUMN id TYPE UUID USING id::uuid;
ALTER TABLE automation_versions
    ALTER COLUMN automation_id TYPE UUID USING automation_id::uuid;
ALTER TABLE automation_version_grants
    ALTER COLUMN automation_id TYPE UUID USING automation_id::uuid,
    ALTER COLUMN grant_id TYPE UUID USING grant_id::uuid;
ALTER TABLE listened_names
    ALTER COLUMN workspace_id TYPE UUID USING workspace_id::uuid;
ALTER TABLE occurrences
    ALTER COLUMN workspace_id TYPE UUID USING workspace_id::uuid,
    ALTER COLUMN id TYPE UUID USING id::uuid,
    ALTER COLUMN contact_id TYPE UUID USING contact_id::uuid,
    ALTER COLUMN replay_of TYPE UUID USING replay_of::uuid;
ALTER TABLE runs
    ALTER COLUMN automation_id TYPE UUID USING automation_id::uuid,
    ALTER COLUMN id TYPE UUID USING id::uuid,
    ALTER COLUMN workspace_id TYPE UUID USING workspace_id::uuid,
    ALTER COLUMN contact_id TYPE UUID USING contact_id::uuid,
    ALTER COLUMN occurrence_id TYPE UUID USING occurrence_id::uuid;
ALTER TABLE outbox
    ALTER COLUMN id TYPE UUID USING id::uuid,
    ALTER COLUMN workspace_id TYPE UUID USING workspace_id::uuid,
    ALTER COLUMN run_id TYPE UUID USING run_id::uuid,
    ALTER COLUMN contact_id TYPE UUID USING contact_id::uuid;
ALTER TABLE idempotency_keys
    ALTER COLUMN workspace_id TYPE UUID USING workspace_id::uuid;
ALTER TABLE memberships ADD FOREIGN KEY (workspace_id) REFERENCES workspaces (id);
ALTER TABLE memberships ADD FOREIGN KEY (user_id) REFERENCES users (id);
ALTER TABLE api_keys ADD FOREIGN KEY (workspace_id) REFERENCES workspaces (id);
ALTER TABLE known_devices ADD FOREIGN KEY (user_id) REFERENCES users (id) ON DELETE CASCADE;
-- </postgres>

-- SQLite cannot change a column: each table is made anew, those that others refer to
-- before them, and goes after them.

/*
CREATE TABLE new_workspaces (
    id BLOB PRIMARY KEY NOT NULL,
    name TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    automations_revision BIGINT NOT NULL DEFAULT 1
);
INSERT INTO new_workspaces (id, name, created_at, automations_revision)
SELECT unhex(replace(id, '-', '')), name, created_at, automations_revision
FROM workspaces;
CREATE TABLE new_users (
    id BLOB PRIMARY KEY NOT NULL,
    email TEXT NOT NULL,
    email_key TEXT NOT NULL UNIQUE,
    password_hash TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    disabled_at BIGINT
);
INSERT INTO new_users (id, email, email_key, password_hash, created_at, disabled_at)
SELECT unhex(replace(id, '-', '')), email, email_key, password_hash, created_at, disabled_at
FROM users;
CREATE TABLE new_memberships (
    workspace_id BLOB NOT NULL REFERENCES new_workspaces (id),
    user_id BLOB NOT NULL REFERENCES new_users (id),
    role TEXT NOT NULL CHECK (role IN ('owner', 'admin', 'member')),
    created_at BIGINT NOT NULL,
    PRIMARY KEY (workspace_id, user_id)
);
INSERT INTO new_memberships (workspace_id, user_id, role, created_at)
SELECT unhex(replace(workspace_id, '-', '')), unhex(replace(user_id, '-', '')), role, created_at
FROM memberships;
CREATE TABLE new_api_keys (
    id BLOB PRIMARY KEY NOT NULL,
    workspace_id BLOB NOT NULL REFERENCES new_workspaces (id),
    name TEXT NOT NULL,
    permission TEXT NOT NULL CHECK (permission IN ('full_access', 'sending_access')),
    prefix TEXT NOT NULL UNIQUE,
    hash BYTEA NOT NULL,
    grant_id BLOB,
    created_at BIGINT NOT NULL,
    last_used_at BIGINT
);
INSERT INTO new_api_keys (id, workspace_id, name, permission, prefix, hash, grant_id, created_at, last_used_at)
SELECT unhex(replace(id, '-', '')), unhex(replace(workspace_id, '-', '')), name, permission, prefix, hash,
    unhex(replace(grant_id, '-', '')), created_at, last_used_at
FROM api_keys;
CREATE TABLE new_known_devices (
    hash BYTEA NOT NULL,
    user_id BLOB NOT NULL REFERENCES new_users (id) ON DELETE CASCADE,
    seen_at BIGINT NOT NULL,
    PRIMARY KEY (hash, user_id)
);
INSERT INTO new_known_devices (hash, user_id, seen_at)
SELECT hash, unhex(replace(user_id, '-', '')), seen_at
FROM known_devices;
DROP TABLE known_devices;
DROP TABLE api_keys;
DROP TABLE memberships;
DROP TABLE users;
DROP TABLE workspaces;
ALTER TABLE new_workspaces RENAME TO workspaces;
ALTER TABLE new_users RENAME TO users;
ALTER TABLE new_memberships RENAME TO memberships;
ALTER TABLE new_api_keys RENAME TO api_keys;
ALTER TABLE new_known_devices RENAME TO known_devices;
CREATE INDEX memberships_by_user ON memberships (user_id);
CREATE INDEX api_keys_by_grant ON api_keys (grant_id) WHERE grant_id IS NOT NULL;
CREATE INDEX api_keys_by_workspace ON api_keys (workspace_id, id);
CREATE INDEX known_devices_by_user ON known_devices (user_id, seen_at);
CREATE INDEX known_devices_by_time ON known_devices (seen_at);

CREATE TABLE new_sessions (
    hash BYTEA PRIMARY KEY,
    user_id BLOB NOT NULL,
    created_at BIGINT NOT NULL,
    seen_at BIGINT NOT NULL
);
INSERT INTO new_sessions (hash, user_id, created_at, seen_at)
SELECT hash, unhex(replace(user_id, '-', '')), created_at, seen_at
FROM sessions;
DROP TABLE sessions;
ALTER TABLE new_sessions RENAME TO sessions;
CREATE INDEX sessions_by_user ON sessions (user_id);

CREATE TABLE new_authorization_requests (
    id BLOB NOT NULL,
    client_id TEXT NOT NULL,
    redirect_uri TEXT NOT NULL,
    scopes TEXT NOT NULL,
    state TEXT,
    code_challenge TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    session_hash BYTEA,
    user_id BLOB,
    decided_at BIGINT,
    PRIMARY KEY (id)
) WITHOUT ROWID;
INSERT INTO new_authorization_requests (id, client_id, redirect_uri, scopes, state, code_challenge, created_at, expires_at, session_hash,
    user_id, decided_at)
SELECT unhex(replace(id, '-', '')), client_id, redirect_uri, scopes, state, code_challenge, created_at,
    expires_at, session_hash, unhex(replace(user_id, '-', '')), decided_at
FROM authorization_requests;
DROP TABLE authorization_requests;
ALTER TABLE new_authorization_requests RENAME TO authorization_requests;

CREATE TABLE new_authorization_codes (
    hash BYTEA PRIMARY KEY,
    client_id TEXT NOT NULL,
    redirect_uri TEXT NOT NULL,
    code_challenge TEXT NOT NULL,
    scopes TEXT NOT NULL,
    user_id BLOB NOT NULL,
    workspace_id BLOB NOT NULL,
    expires_at BIGINT NOT NULL,
    used_at BIGINT,
    grant_id BLOB
);
INSERT INTO new_authorization_codes (hash, client_id, redirect_uri, code_challenge, scopes, user_id, workspace_id, expires_at, used_at,
    grant_id)
SELECT hash, client_id, redirect_uri, code_challenge, scopes, unhex(replace(user_id, '-', '')),
    unhex(replace(workspace_id, '-', '')), expires_at, used_at, unhex(replace(grant_id, '-', ''))
FROM authorization_codes;
DROP TABLE authorization_codes;
ALTER TABLE new_authorization_codes RENAME TO authorization_codes;
CREATE INDEX authorization_codes_by_expiry ON authorization_codes (expires_at);

CREATE TABLE new_oauth_grants (
    id BLOB PRIMARY KEY NOT NULL,
    workspace_id BLOB NOT NULL,
    client_id TEXT NOT NULL,
    user_id BLOB NOT NULL,
    scopes TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    last_used_at BIGINT,
    revoked_at BIGINT,
    revoked_reason TEXT,
    family_hash BYTEA,
    refresh_hash BYTEA,
    refresh_expires_at BIGINT,
    previous_hash BYTEA,
    rotated_at BIGINT,
    successor_sealed BYTEA
);
INSERT INTO new_oauth_grants (id, workspace_id, client_id, user_id, scopes, created_at, last_used_at, revoked_at, revoked_reason,
    family_hash, refresh_hash, refresh_expires_at, previous_hash, rotated_at, successor_sealed)
SELECT unhex(replace(id, '-', '')), unhex(replace(workspace_id, '-', '')), client_id,
    unhex(replace(user_id, '-', '')), scopes, created_at, last_used_at, revoked_at, revoked_reason,
    family_hash, refresh_hash, refresh_expires_at, previous_hash, rotated_at, successor_sealed
FROM oauth_grants;
DROP TABLE oauth_grants;
ALTER TABLE new_oauth_grants RENAME TO oauth_grants;
CREATE INDEX oauth_grants_by_workspace ON oauth_grants (workspace_id, id);
CREATE INDEX oauth_grants_by_client ON oauth_grants (client_id);

CREATE TABLE new_refresh_tokens (
    hash BYTEA PRIMARY KEY,
    grant_id BLOB NOT NULL,
    expires_at BIGINT NOT NULL,
    rotated_at BIGINT,
    successor_hash BYTEA,
    successor_sealed BYTEA
);
INSERT INTO new_refresh_tokens (hash, grant_id, expires_at, rotated_at, successor_hash, successor_sealed)
SELECT hash, unhex(replace(grant_id, '-', '')), expires_at, rotated_at, successor_hash, successor_sealed
FROM refresh_tokens;
DROP TABLE refresh_tokens;
ALTER TABLE new_refresh_tokens RENAME TO refresh_tokens;
CREATE INDEX refresh_tokens_by_expiry ON refresh_tokens (expires_at);

CREATE TABLE new_revoked_tokens (
    id BLOB PRIMARY KEY NOT NULL,
    expires_at BIGINT NOT NULL
);
INSERT INTO new_revoked_tokens (id, expires_at)
SELECT unhex(replace(id, '-', '')), expires_at
FROM revoked_tokens;
DROP TABLE revoked_tokens;
ALTER TABLE new_revoked_tokens RENAME TO revoked_tokens;

CREATE TABLE new_events (
    workspace_id BLOB NOT NULL,
    id BLOB NOT NULL,
    name TEXT NOT NULL,
    schema TEXT,
    created_at BIGINT NOT NULL,
    updated_at BIGINT,
    first_use_key TEXT,
    PRIMARY KEY (workspace_id, id)
) WITHOUT ROWID;
INSERT INTO new_events (workspace_id, id, name, schema, created_at, updated_at, first_use_key)
SELECT unhex(replace(workspace_id, '-', '')), unhex(replace(id, '-', '')), name, schema, created_at,
    updated_at, first_use_key
FROM events;
DROP TABLE events;
ALTER TABLE new_events RENAME TO events;
CREATE INDEX events_by_name ON events (name, workspace_id, id);
CREATE UNIQUE INDEX events_by_first_use ON events (workspace_id, first_use_key) WHERE first_use_key IS NOT NULL;

CREATE TABLE new_messages (
    id BLOB PRIMARY KEY NOT NULL,
    workspace_id BLOB NOT NULL,
    recipient TEXT NOT NULL,
    subject TEXT NOT NULL,
    body TEXT NOT NULL,
    status TEXT NOT NULL
        CHECK (status = 'queued' OR status = 'captured' OR status = 'sent' OR status = 'failed'),
    created_at BIGINT NOT NULL,
    due_at BIGINT,
    attempt BIGINT NOT NULL,
    error TEXT
);
INSERT INTO new_messages (id, workspace_id, recipient, subject, body, status, created_at, due_at, attempt, error)
SELECT unhex(replace(id, '-', '')), unhex(replace(workspace_id, '-', '')), recipient, subject, body, status,
    created_at, due_at, attempt, error
FROM messages;
DROP TABLE messages;
ALTER TABLE new_messages RENAME TO messages;
CREATE INDEX messages_by_workspace ON messages (workspace_id, id);
CREATE INDEX messages_due ON messages (due_at) WHERE due_at IS NOT NULL;

CREATE TABLE new_contacts (
    workspace_id BLOB NOT NULL,
    id BLOB NOT NULL,
    email TEXT NOT NULL,
    email_key TEXT NOT NULL,
    first_name TEXT,
    last_name TEXT,
    unsubscribed BOOLEAN NOT NULL,
    properties TEXT NOT NULL,
    version BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT,
    PRIMARY KEY (workspace_id, id)
) WITHOUT ROWID;
INSERT INTO new_contacts (workspace_id, id, email, email_key, first_name, last_name, unsubscribed, properties, version,
    created_at, updated_at)
SELECT unhex(replace(workspace_id, '-', '')), unhex(replace(id, '-', '')), email, email_key, first_name,
    last_name, unsubscribed, properties, version, created_at, updated_at
FROM contacts;
DROP TABLE contacts;
ALTER TABLE new_contacts RENAME TO contacts;
CREATE UNIQUE INDEX contacts_by_email ON contacts (workspace_id, email_key);

CREATE TABLE new_segments (
    workspace_id BLOB NOT NULL,
    id BLOB NOT NULL,
    name TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (workspace_id, id)
) WITHOUT ROWID;
INSERT INTO new_segments (workspace_id, id, name, created_at)
SELECT unhex(replace(workspace_id, '-', '')), unhex(replace(id, '-', '')), name, created_at
FROM segments;
DROP TABLE segments;
ALTER TABLE new_segments RENAME TO segments;

CREATE TABLE new_segment_members (
    workspace_id BLOB NOT NULL,
    segment_id BLOB NOT NULL,
    contact_id BLOB NOT NULL,
    added_at BIGINT NOT NULL,
    PRIMARY KEY (workspace_id, segment_id, contact_id)
) WITHOUT ROWID;
INSERT INTO new_segment_members (workspace_id, segment_id, contact_id, added_at)
SELECT unhex(replace(workspace_id, '-', '')), unhex(replace(segment_id, '-', '')),
    unhex(replace(contact_id, '-', '')), added_at
FROM segment_members;
DROP TABLE segment_members;
ALTER TABLE new_segment_members RENAME TO segment_members;
CREATE INDEX segment_members_by_contact ON segment_members (workspace_id, contact_id, segment_id);

CREATE TABLE new_contact_properties (
    workspace_id BLOB NOT NULL,
    id BLOB NOT NULL,
    key TEXT NOT NULL,
    type TEXT NOT NULL CHECK (type IN ('string', 'number')),
    fallback_value TEXT,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (workspace_id, id)
) WITHOUT ROWID;
INSERT INTO new_contact_properties (workspace_id, id, key, type, fallback_value, created_at)
SELECT unhex(replace(workspace_id, '-', '')), unhex(replace(id, '-', '')), key, type, fallback_value,
    created_at
FROM contact_properties;
DROP TABLE contact_properties;
ALTER TABLE new_contact_properties RENAME TO contact_properties;
CREATE UNIQUE INDEX contact_properties_by_key ON contact_properties (workspace_id, key);

CREATE TABLE new_topics (
    workspace_id BLOB NOT NULL,
    id BLOB NOT NULL,
    name TEXT NOT NULL,
    description TEXT,
    default_subscription TEXT NOT NULL CHECK (default_subscription IN ('opt_in', 'opt_out')),
    visibility TEXT NOT NULL CHECK (visibility IN ('public', 'private')),
    created_at BIGINT NOT NULL,
    PRIMARY KEY (workspace_id, id)
) WITHOUT ROWID;
INSERT INTO new_topics (workspace_id, id, name, description, default_subscription, visibility, created_at)
SELECT unhex(replace(workspace_id, '-', '')), unhex(replace(id, '-', '')), name, description,
    default_subscription, visibility, created_at
FROM topics;
DROP TABLE topics;
ALTER TABLE new_topics RENAME TO topics;

CREATE TABLE new_topic_subscriptions (
    workspace_id BLOB NOT NULL,
    contact_id BLOB NOT NULL,
    topic_id BLOB NOT NULL,
    subscription TEXT NOT NULL CHECK (subscription IN ('opt_in', 'opt_out')),
    PRIMARY KEY (workspace_id, contact_id, topic_id)
) WITHOUT ROWID;
INSERT INTO new_topic_subscriptions (workspace_id, contact_id, topic_id, subscription)
SELECT unhex(replace(workspace_id, '-', '')), unhex(replace(contact_id, '-', '')),
    unhex(replace(topic_id, '-', '')), subscription
FROM topic_subscriptions;
DROP TABLE topic_subscriptions;
ALTER TABLE new_topic_subscriptions RENAME TO topic_subscriptions;
CREATE INDEX topic_subscriptions_by_topic ON topic_subscriptions (workspace_id, topic_id, contact_id);

CREATE TABLE new_contact_imports (
    workspace_id BLOB NOT NULL,
    id BLOB NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('queued', 'in_progress', 'completed', 'failed')),
    plan TEXT NOT NULL,
    size BIGINT NOT NULL,
    position BIGINT NOT NULL,
    line BIGINT NOT NULL,
    total BIGINT NOT NULL,
    created BIGINT NOT NULL,
    updated BIGINT NOT NULL,
    skipped BIGINT NOT NULL,
    failed BIGINT NOT NULL,
    errors TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    completed_at BIGINT,
    due_at BIGINT,
    attempt BIGINT NOT NULL,
    PRIMARY KEY (workspace_id, id)
);
INSERT INTO new_contact_imports (workspace_id, id, status, plan, size, position, line, total, created, updated, skipped, failed,
    errors, created_at, completed_at, due_at, attempt)
SELECT unhex(replace(workspace_id, '-', '')), unhex(replace(id, '-', '')), status, plan, size, position,
    line, total, created, updated, skipped, failed, errors, created_at, completed_at, due_at, attempt
FROM contact_imports;
DROP TABLE contact_imports;
ALTER TABLE new_contact_imports RENAME TO contact_imports;
CREATE INDEX contact_imports_due ON contact_imports (due_at) WHERE due_at IS NOT NULL;

CREATE TABLE new_contact_import_chunks (
    workspace_id BLOB NOT NULL,
    import_id BLOB NOT NULL,
    number BIGINT NOT NULL,
    bytes BYTEA NOT NULL,
    PRIMARY KEY (workspace_id, import_id, number)
);
INSERT INTO new_contact_import_chunks (workspace_id, import_id, number, bytes)
SELECT unhex(replace(workspace_id, '-', '')), unhex(replace(import_id, '-', '')), number, bytes
FROM contact_import_chunks;
DROP TABLE contact_import_chunks;
ALTER TABLE new_contact_import_chunks RENAME TO contact_import_chunks;

CREATE TABLE new_automations (
    workspace_id BLOB NOT NULL,
    id BLOB NOT NULL,
    name TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('enabled', 'disabled')),
    version BIGINT NOT NULL,
    re_entry TEXT NOT NULL CHECK (re_entry IN ('always', 'once_per_contact', 'one_at_a_time')),
    exit_on TEXT,
    signing_secret TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT,
    deleted_at BIGINT,
    PRIMARY KEY (workspace_id, id)
) WITHOUT ROWID;
INSERT INTO new_automations (workspace_id, id, name, status, version, re_entry, exit_on, signing_secret, created_at, updated_at,
    deleted_at)
SELECT unhex(replace(workspace_id, '-', '')), unhex(replace(id, '-', '')), name, status, version, re_entry,
    exit_on, signing_secret, created_at, updated_at, deleted_at
FROM automations;
DROP TABLE automations;
ALTER TABLE new_automations RENAME TO automations;
CREATE INDEX automations_deleted ON automations (deleted_at) WHERE deleted_at IS NOT NULL;

CREATE TABLE new_automation_versions (
    automation_id BLOB NOT NULL,
    version BIGINT NOT NULL,
    event_name TEXT NOT NULL,
    steps TEXT NOT NULL,
    connections TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (automation_id, version)
) WITHOUT ROWID;
INSERT INTO new_automation_versions (automation_id, version, event_name, steps, connections, created_at)
SELECT unhex(replace(automation_id, '-', '')), version, event_name, steps, connections, created_at
FROM automation_versions;
DROP TABLE automation_versions;
ALTER TABLE new_automation_versions RENAME TO automation_versions;

CREATE TABLE new_automation_version_grants (
    automation_id BLOB NOT NULL,
    version BIGINT NOT NULL,
    grant_id BLOB NOT NULL,
    PRIMARY KEY (automation_id, version)
) WITHOUT ROWID;
INSERT INTO new_automation_version_grants (automation_id, version, grant_id)
SELECT unhex(replace(automation_id, '-', '')), version, unhex(replace(grant_id, '-', ''))
FROM automation_version_grants;
DROP TABLE automation_version_grants;
ALTER TABLE new_automation_version_grants RENAME TO automation_version_grants;
CREATE INDEX automation_version_grants_by_grant ON automation_version_grants (grant_id);

CREATE TABLE new_listened_names (
    workspace_id BLOB NOT NULL,
    start TEXT NOT NULL,
    PRIMARY KEY (workspace_id, start)
) WITHOUT ROWID;
INSERT INTO new_listened_names (workspace_id, start)
SELECT unhex(replace(workspace_id, '-', '')), start
FROM listened_names;
DROP TABLE listened_names;
ALTER TABLE new_listened_names RENAME TO listened_names;

CREATE TABLE new_occurrences (
    workspace_id BLOB NOT NULL,
    id BLOB NOT NULL,
    name TEXT NOT NULL,
    contact_id BLOB NOT NULL,
    seq BIGINT NOT NULL,
    heard BOOLEAN NOT NULL,
    payload TEXT NOT NULL,
    replay_of BLOB,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (workspace_id, id)
) WITHOUT ROWID;
INSERT INTO new_occurrences (workspace_id, id, name, contact_id, seq, heard, payload, replay_of, created_at)
SELECT unhex(replace(workspace_id, '-', '')), unhex(replace(id, '-', '')), name,
    unhex(replace(contact_id, '-', '')), seq, heard, payload, unhex(replace(replay_of, '-', '')),
    created_at
FROM occurrences;
DROP TABLE occurrences;
ALTER TABLE new_occurrences RENAME TO occurrences;
CREATE INDEX occurrences_heard ON occurrences (contact_id, seq) WHERE heard;
CREATE INDEX occurrences_by_name ON occurrences (workspace_id, name, id);

CREATE TABLE new_runs (
    automation_id BLOB NOT NULL,
    id BLOB NOT NULL,
    workspace_id BLOB NOT NULL,
    version BIGINT NOT NULL,
    contact_id BLOB NOT NULL,
    occurrence_id BLOB NOT NULL,
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
    destination TEXT,
    PRIMARY KEY (automation_id, id)
);
INSERT INTO new_runs (automation_id, id, workspace_id, version, contact_id, occurrence_id, since, status, state,
    waiting_for, exit_on, due_at, attempt, settled, created_at, completed_at, destination)
SELECT unhex(replace(automation_id, '-', '')), unhex(replace(id, '-', '')),
    unhex(replace(workspace_id, '-', '')), version, unhex(replace(contact_id, '-', '')),
    unhex(replace(occurrence_id, '-', '')), since, status, state, waiting_for, exit_on, due_at, attempt,
    settled, created_at, completed_at, destination
FROM runs;
DROP TABLE runs;
ALTER TABLE new_runs RENAME TO runs;
CREATE INDEX runs_listening ON runs (contact_id)
    WHERE status = 'running' AND (waiting_for IS NOT NULL OR exit_on IS NOT NULL);
CREATE INDEX runs_failed ON runs (automation_id, id) WHERE status = 'failed';
CREATE INDEX runs_due ON runs (due_at) WHERE due_at IS NOT NULL AND destination IS NULL;
CREATE INDEX runs_calling ON runs (destination, due_at) WHERE destination IS NOT NULL AND due_at IS NOT NULL;
CREATE INDEX runs_by_contact ON runs (contact_id, automation_id, created_at);

CREATE TABLE new_outbox (
    id BLOB PRIMARY KEY NOT NULL,
    workspace_id BLOB NOT NULL,
    run_id BLOB NOT NULL,
    step TEXT NOT NULL,
    contact_id BLOB NOT NULL,
    recipient TEXT NOT NULL,
    message TEXT NOT NULL,
    created_at BIGINT NOT NULL
);
INSERT INTO new_outbox (id, workspace_id, run_id, step, contact_id, recipient, message, created_at)
SELECT unhex(replace(id, '-', '')), unhex(replace(workspace_id, '-', '')), unhex(replace(run_id, '-', '')),
    step, unhex(replace(contact_id, '-', '')), recipient, message, created_at
FROM outbox;
DROP TABLE outbox;
ALTER TABLE new_outbox RENAME TO outbox;
CREATE UNIQUE INDEX outbox_by_step ON outbox (run_id, step);

CREATE TABLE new_idempotency_keys (
    workspace_id BLOB NOT NULL,
    scope TEXT NOT NULL,
    key TEXT NOT NULL,
    fingerprint BYTEA NOT NULL,
    status BIGINT NOT NULL,
    answer TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    sealed BOOLEAN NOT NULL DEFAULT FALSE,
    PRIMARY KEY (workspace_id, scope, key)
) WITHOUT ROWID;
INSERT INTO new_idempotency_keys (workspace_id, scope, key, fingerprint, status, answer, created_at, sealed)
SELECT unhex(replace(workspace_id, '-', '')), scope, key, fingerprint, status, answer, created_at, sealed
FROM idempotency_keys;
DROP TABLE idempotency_keys;
ALTER TABLE new_idempotency_keys RENAME TO idempotency_keys;
CREATE INDEX idempotency_keys_by_age ON idempotency_keys (created_at);
*/
