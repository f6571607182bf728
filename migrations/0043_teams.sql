-- Teams: who is invited, which browsers are signed in, who did what, and the ways back into an account.

-- Where a session was begun, as far as that is known.
ALTER TABLE sessions ADD COLUMN address TEXT;
ALTER TABLE sessions ADD COLUMN agent TEXT;

-- A link that makes somebody a member. Of what it carries only the hash is kept.
CREATE TABLE invitations (
    id UUID PRIMARY KEY NOT NULL,
    workspace_id UUID NOT NULL,
    hash BYTEA NOT NULL UNIQUE,
    email TEXT NOT NULL,
    -- The address in lower case.
    email_key TEXT NOT NULL,
    role TEXT NOT NULL CHECK (role IN ('owner', 'admin', 'member')),
    invited_by UUID NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    UNIQUE (workspace_id, email_key)
);

-- A link that sets a new password, once.
CREATE TABLE reset_links (
    hash BYTEA PRIMARY KEY NOT NULL,
    user_id UUID NOT NULL,
    expires_at BIGINT NOT NULL
);
CREATE INDEX reset_links_by_user ON reset_links (user_id);

-- What was changed, by whom, in the commit that changed it. It outlives what it tells of, so names are kept with it.
CREATE TABLE audit_log (
    workspace_id UUID NOT NULL,
    id UUID NOT NULL,
    -- In wall time.
    created_at BIGINT NOT NULL,
    -- Such as `key.deleted`.
    action TEXT NOT NULL,
    -- `session`, `link`, `key`, `grant` or `command`.
    via TEXT NOT NULL,
    -- Of the user, the key or the grant; NULL for a command.
    actor_id UUID,
    actor TEXT NOT NULL,
    target_id UUID,
    target TEXT NOT NULL,
    address TEXT,
    PRIMARY KEY (workspace_id, id)
) /* WITHOUT ROWID */;
CREATE INDEX audit_log_by_age ON audit_log (created_at);
INSERT INTO chores (name, due_at, attempt) VALUES ('audit_log', 0, 0);

-- The workspace on whose page a client was registered; NULL for those of the operator and of strangers.
ALTER TABLE oauth_clients ADD COLUMN workspace_id UUID;
CREATE INDEX oauth_clients_by_workspace ON oauth_clients (workspace_id) WHERE workspace_id IS NOT NULL;

-- A second factor: what the app that makes codes shares with us, sealed; the last step whose code was used; and codes
-- for when the app is lost.
CREATE TABLE second_factors (
    user_id UUID PRIMARY KEY NOT NULL,
    secret TEXT NOT NULL,
    -- NULL until the first code was shown.
    confirmed_at BIGINT,
    last_step BIGINT NOT NULL
);
CREATE TABLE recovery_codes (
    user_id UUID NOT NULL,
    hash BYTEA NOT NULL,
    PRIMARY KEY (user_id, hash)
) /* WITHOUT ROWID */;
-- Somebody who has shown the password and not yet the second factor.
CREATE TABLE login_challenges (
    hash BYTEA PRIMARY KEY NOT NULL,
    user_id UUID NOT NULL,
    password_hash TEXT NOT NULL,
    expires_at BIGINT NOT NULL
);
