-- Broadcasts: mail to everybody in a segment.

CREATE TABLE broadcasts (
    -- It ends in 32 zero bits, and is the id of the one row in `emails` that its recipients share.
    id UUID PRIMARY KEY NOT NULL,
    workspace_id UUID NOT NULL,
    name TEXT NOT NULL,
    segment_id UUID NOT NULL,
    topic_id UUID,
    sender TEXT NOT NULL,
    subject TEXT NOT NULL,
    -- As JSON: addresses.
    reply_to TEXT NOT NULL,
    preview_text TEXT,
    html TEXT,
    text TEXT,
    -- As JSON: the id of a template, and values for its variables.
    template TEXT,
    -- `draft`, `scheduled`, `sending`, `paused`, `canceled` or `sent`.
    state TEXT NOT NULL,
    -- What is to be known of it: why it is a draft again, or what its audience lacks.
    reason TEXT,
    -- In wall time.
    created_at BIGINT NOT NULL,
    scheduled_at BIGINT,
    started_at BIGINT,
    ended_at BIGINT,
    -- Its recipients wait in a lane of their own.
    lane BIGINT NOT NULL,
    -- The last contact of the segment that was looked at, and whether that was the last there is.
    audience_cursor UUID,
    is_audience_whole BOOLEAN NOT NULL,
    -- How many recipients it has by now.
    recipients BIGINT NOT NULL,
    -- As JSON: how many contacts were left out, by reason.
    left_out TEXT NOT NULL,
    -- When it is looked at next, in steady time.
    due_at BIGINT,
    attempt BIGINT NOT NULL
);
CREATE INDEX broadcasts_by_workspace ON broadcasts (workspace_id, id);
CREATE UNIQUE INDEX broadcasts_by_lane ON broadcasts (lane);
CREATE INDEX broadcasts_due ON broadcasts (due_at) WHERE due_at IS NOT NULL;

-- The contact that a recipient of a broadcast is.
ALTER TABLE email_recipients ADD COLUMN contact_id UUID;

-- What the mail of a recipient was made of, where it has to be tried again: every attempt is the same to the byte.
CREATE TABLE email_values (
    email_id UUID NOT NULL,
    number BIGINT NOT NULL,
    -- As JSON.
    kept TEXT NOT NULL,
    PRIMARY KEY (email_id, number)
) /* WITHOUT ROWID */;
