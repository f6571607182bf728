-- Templates of mail, and their versions.

CREATE TABLE templates (
    workspace_id UUID NOT NULL,
    id UUID NOT NULL,
    name TEXT NOT NULL,
    -- By which it is called instead of its id.
    alias TEXT,
    -- What is edited.
    current_version_id UUID NOT NULL,
    -- What is sent, and since when; NULL: it was never published.
    published_version_id UUID,
    published_at BIGINT,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    -- Counts the changes: only whoever has seen the last one makes the next.
    revision BIGINT NOT NULL,
    PRIMARY KEY (workspace_id, id)
) /* WITHOUT ROWID */;
CREATE UNIQUE INDEX templates_by_alias ON templates (workspace_id, alias);

-- One that was published is never changed.
CREATE TABLE template_versions (
    workspace_id UUID NOT NULL,
    template_id UUID NOT NULL,
    id UUID NOT NULL,
    subject TEXT,
    sender TEXT,
    -- Addresses and variables are JSON.
    reply_to TEXT NOT NULL,
    html TEXT NOT NULL,
    text TEXT,
    variables TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    -- When it was published last.
    published_at BIGINT,
    PRIMARY KEY (workspace_id, template_id, id)
) /* WITHOUT ROWID */;

-- A person may still want a message that was held; one that could not be sent says why.
ALTER TABLE outbox ADD COLUMN wanted_at BIGINT;
ALTER TABLE outbox ADD COLUMN reason TEXT;
