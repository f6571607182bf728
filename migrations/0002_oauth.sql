-- Who may ask for access, and what was asked.

CREATE TABLE oauth_clients (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    redirect_uris TEXT NOT NULL,
    scopes TEXT NOT NULL,
    grants TEXT NOT NULL,
    auth_method TEXT NOT NULL,
    secret_hash BYTEA,
    client_uri TEXT,
    logo_uri TEXT,
    -- open: registered over HTTP; operator: by command; built_in: with the store.
    origin TEXT NOT NULL,
    -- The host that an operator vouched for.
    verified_host TEXT,
    created_at BIGINT NOT NULL,
    disabled_at BIGINT
);

-- A public client that a widely used command-line tool identifies itself with.
INSERT INTO oauth_clients (id, name, redirect_uris, scopes, grants, auth_method, origin, created_at)
VALUES ('7136aa0b-625c-4c9c-8820-e9784c8eb141', 'Resend CLI', '["http://127.0.0.1/oauth/callback"]',
        'full_access emails:send', 'authorization_code refresh_token', 'none', 'built_in', 0);

CREATE TABLE authorization_requests (
    id TEXT NOT NULL,
    client_id TEXT NOT NULL,
    redirect_uri TEXT NOT NULL,
    scopes TEXT NOT NULL,
    -- As it stood in the query, still encoded, so that it goes back unchanged.
    state TEXT,
    code_challenge TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    -- The session that opened it first, which alone may decide it.
    session_hash BYTEA,
    user_id TEXT,
    decided_at BIGINT,
    PRIMARY KEY (id)
) /* WITHOUT ROWID */;

-- What a person allowed a client to do in a workspace.
CREATE TABLE oauth_grants (
    id TEXT PRIMARY KEY,
    workspace_id TEXT NOT NULL,
    client_id TEXT NOT NULL,
    user_id TEXT NOT NULL,
    scopes TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    last_used_at BIGINT,
    revoked_at BIGINT,
    revoked_reason TEXT
);
CREATE INDEX oauth_grants_by_workspace ON oauth_grants (workspace_id, id);
CREATE INDEX oauth_grants_by_client ON oauth_grants (client_id);

CREATE TABLE authorization_codes (
    hash BYTEA PRIMARY KEY,
    client_id TEXT NOT NULL,
    redirect_uri TEXT NOT NULL,
    code_challenge TEXT NOT NULL,
    scopes TEXT NOT NULL,
    user_id TEXT NOT NULL,
    workspace_id TEXT NOT NULL,
    expires_at BIGINT NOT NULL,
    used_at BIGINT,
    -- What came of it; a second use takes that back.
    grant_id TEXT
);
CREATE INDEX authorization_codes_by_expiry ON authorization_codes (expires_at);

-- A family is a chain: each token was rotated into the next. The successor is
-- kept so that only who shows the old token again can read it.
CREATE TABLE refresh_tokens (
    hash BYTEA PRIMARY KEY,
    grant_id TEXT NOT NULL,
    expires_at BIGINT NOT NULL,
    rotated_at BIGINT,
    successor_hash BYTEA,
    successor_sealed BYTEA
);
CREATE INDEX refresh_tokens_by_grant ON refresh_tokens (grant_id);
CREATE INDEX refresh_tokens_by_expiry ON refresh_tokens (expires_at);

-- Single access tokens that were given back before they expired.
CREATE TABLE revoked_tokens (
    id TEXT PRIMARY KEY,
    expires_at BIGINT NOT NULL
);

CREATE TABLE signing_keys (
    id TEXT PRIMARY KEY,
    private_key BYTEA NOT NULL,
    created_at BIGINT NOT NULL,
    -- It signs nothing new from here on; its tokens are believed until they expire.
    retired_at BIGINT
);
