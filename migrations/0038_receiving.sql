-- Mail that came in for domains that take it.

CREATE TABLE received_emails (
    id UUID PRIMARY KEY NOT NULL,
    workspace_id UUID NOT NULL,
    domain_id UUID NOT NULL,
    created_at BIGINT NOT NULL,
    -- Of the message, from whom and for whom: a server that brings it again, because our answer was lost, brings
    -- the same.
    digest BYTEA NOT NULL,
    sender TEXT NOT NULL,
    subject TEXT NOT NULL,
    message_id TEXT NOT NULL,
    -- As JSON: to, cc, reply_to, received_for, attachments, authentication.
    envelope TEXT NOT NULL,
    html TEXT,
    text TEXT,
    -- How many bytes the message has; NULL where it is not kept any more.
    size BIGINT
);
CREATE UNIQUE INDEX received_emails_by_workspace ON received_emails (workspace_id, id);
CREATE UNIQUE INDEX received_emails_by_digest ON received_emails (workspace_id, digest);
CREATE INDEX received_emails_with_content ON received_emails (created_at) WHERE size IS NOT NULL;

-- Their messages as they came, in pieces.
CREATE TABLE received_chunks (
    email_id UUID NOT NULL,
    number BIGINT NOT NULL,
    bytes BYTEA NOT NULL,
    PRIMARY KEY (email_id, number)
);
