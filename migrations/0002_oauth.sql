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
    verified BOOLEAN NOT NULL,
    created_at BIGINT NOT NULL,
    disabled_at BIGINT
);

-- A public client that a widely used command-line tool identifies itself with.
INSERT INTO oauth_clients (id, name, redirect_uris, scopes, grants, auth_method, origin, verified, created_at)
VALUES ('7136aa0b-625c-4c9c-8820-e9784c8eb141', 'Resend CLI', '["http://127.0.0.1/oauth/callback"]',
        'full_access emails:send', 'authorization_code refresh_token', 'none', 'built_in', FALSE, 0);

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
    PRIMARY KEY (id)
) /* WITHOUT ROWID */;
