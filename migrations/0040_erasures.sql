-- People who are being erased, and those who have been: then nothing is left here but the id of who was a contact.
CREATE TABLE erasures (
    workspace_id UUID NOT NULL,
    id UUID NOT NULL,
    -- The address in lower case; NULL when all is done.
    email_key TEXT,
    -- What is gone through, and how far.
    stage BIGINT NOT NULL,
    position UUID NOT NULL,
    number BIGINT NOT NULL,
    -- In wall time.
    created_at BIGINT NOT NULL,
    completed_at BIGINT,
    -- When it goes on, in steady time.
    due_at BIGINT,
    attempt BIGINT NOT NULL,
    PRIMARY KEY (workspace_id, id)
) /* WITHOUT ROWID */;
CREATE INDEX erasures_due ON erasures (due_at) WHERE due_at IS NOT NULL;
