-- Who there is: workspaces, people, the keys that programs use, and the link
-- that sets up a new instance. Ids are UUIDs as text, times microseconds.

CREATE TABLE workspaces (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    created_at BIGINT NOT NULL
);

CREATE TABLE users (
    id TEXT PRIMARY KEY,
    email TEXT NOT NULL,
    -- The address in lower case: one account, however it is typed.
    email_key TEXT NOT NULL UNIQUE,
    password_hash TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    disabled_at BIGINT
);

CREATE TABLE memberships (
    workspace_id TEXT NOT NULL REFERENCES workspaces (id),
    user_id TEXT NOT NULL REFERENCES users (id),
    role TEXT NOT NULL CHECK (role IN ('owner', 'admin', 'member')),
    created_at BIGINT NOT NULL,
    PRIMARY KEY (workspace_id, user_id)
);
CREATE INDEX memberships_by_user ON memberships (user_id);

CREATE TABLE api_keys (
    id TEXT PRIMARY KEY,
    workspace_id TEXT NOT NULL REFERENCES workspaces (id),
    name TEXT NOT NULL,
    permission TEXT NOT NULL CHECK (permission IN ('full_access', 'sending_access')),
    -- The readable part of the key finds the row; the hash of the whole decides.
    prefix TEXT NOT NULL UNIQUE,
    hash BYTEA NOT NULL,
    -- The grant it was made through, with which it dies; NULL for people's own.
    grant_id TEXT,
    created_at BIGINT NOT NULL,
    last_used_at BIGINT
);
CREATE INDEX api_keys_by_grant ON api_keys (grant_id) WHERE grant_id IS NOT NULL;
CREATE INDEX api_keys_by_workspace ON api_keys (workspace_id, id);

-- What caches are checked against: a change that takes something away from
-- somebody raises the number, and everything decided under the old one is
-- decided again.
CREATE TABLE revisions (
    topic TEXT PRIMARY KEY,
    number BIGINT NOT NULL
);
INSERT INTO revisions (topic, number) VALUES ('access', 1);

CREATE TABLE sessions (
    hash BYTEA PRIMARY KEY,
    user_id TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    seen_at BIGINT NOT NULL
);
CREATE INDEX sessions_by_user ON sessions (user_id);

CREATE TABLE setup_links (
    hash BYTEA PRIMARY KEY,
    created_at BIGINT NOT NULL
);
