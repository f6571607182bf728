-- Domains that mail is sent from, the keys that sign it, and keys of the API that are held to one.

CREATE TABLE domains (
    workspace_id UUID NOT NULL,
    id UUID NOT NULL,
    -- In ASCII and lower case.
    name TEXT NOT NULL,
    region TEXT NOT NULL,
    status TEXT NOT NULL,
    -- Once the records that prove it were seen, the name is this workspace's until the row is deleted.
    is_owned BOOLEAN NOT NULL,
    -- Whether the records that sending needs stand.
    may_send BOOLEAN NOT NULL,
    -- Counts what matters to those who send.
    version BIGINT NOT NULL,
    return_path TEXT NOT NULL,
    open_tracking BOOLEAN NOT NULL,
    click_tracking BOOLEAN NOT NULL,
    tracking_subdomain TEXT,
    -- `opportunistic` or `enforced`.
    tls TEXT NOT NULL,
    sending BOOLEAN NOT NULL,
    receiving BOOLEAN NOT NULL,
    -- `capture`, `relay` or `direct`; NULL: as the server does it.
    transport TEXT,
    -- The addresses of the relays, sealed.
    relays TEXT,
    -- Mails on the first day of a warm-up, and when that began, in wall time.
    warm_up BIGINT,
    warm_up_since BIGINT,
    -- As JSON: what DNS said of each record.
    findings TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    checked_at BIGINT,
    -- Since when the records are awaited, and when they are looked at next, in steady time.
    awaited_since BIGINT NOT NULL,
    due_at BIGINT,
    attempt BIGINT NOT NULL,
    PRIMARY KEY (workspace_id, id)
) /* WITHOUT ROWID */;
CREATE UNIQUE INDEX domains_by_id ON domains (id);
CREATE UNIQUE INDEX domains_by_workspace_and_name ON domains (workspace_id, name);
CREATE UNIQUE INDEX domains_owned ON domains (name) WHERE is_owned;
CREATE INDEX domains_due ON domains (due_at) WHERE due_at IS NOT NULL;

-- A key signs what was accepted between the moment at which its record was first seen and the one at which the
-- next key's was.
CREATE TABLE dkim_keys (
    domain_id UUID NOT NULL,
    selector TEXT NOT NULL,
    -- `rsa` or `ed25519`.
    algorithm TEXT NOT NULL,
    -- Sealed.
    private_key BYTEA NOT NULL,
    -- What the record says.
    public_value TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    seen_at BIGINT,
    retired_at BIGINT,
    PRIMARY KEY (domain_id, selector)
) /* WITHOUT ROWID */;

ALTER TABLE api_keys ADD COLUMN domain_id UUID;
CREATE INDEX api_keys_by_domain ON api_keys (domain_id) WHERE domain_id IS NOT NULL;

INSERT INTO revisions (topic, number) VALUES ('domains', 1);
