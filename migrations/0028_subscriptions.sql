-- How a workspace shows itself to the people it writes to. What is NULL is as for any other.

CREATE TABLE workspace_branding (
    workspace_id UUID PRIMARY KEY NOT NULL,
    name TEXT,
    -- Such as `#1b2440`.
    color TEXT
) /* WITHOUT ROWID */;

-- Forms with which strangers subscribe.
CREATE TABLE forms (
    workspace_id UUID NOT NULL,
    id UUID NOT NULL,
    name TEXT NOT NULL,
    -- Whom the mail is from that asks whether the address is the stranger's.
    sender TEXT NOT NULL,
    heading TEXT,
    text TEXT,
    -- Where whoever has confirmed is led.
    redirect_url TEXT,
    segment_id UUID,
    -- As JSON: ids of topics that are opted in to.
    topic_ids TEXT NOT NULL,
    enabled BOOLEAN NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (workspace_id, id)
) /* WITHOUT ROWID */;
CREATE UNIQUE INDEX forms_by_id ON forms (id);

-- Addresses that were asked whether they want mail, until the link in the question ends.
CREATE TABLE form_signups (
    workspace_id UUID NOT NULL,
    form_id UUID NOT NULL,
    email_key TEXT NOT NULL,
    id UUID NOT NULL,
    email TEXT NOT NULL,
    -- In wall time.
    asked_at BIGINT NOT NULL,
    confirmed_at BIGINT,
    PRIMARY KEY (workspace_id, email_key, form_id)
) /* WITHOUT ROWID */;
CREATE UNIQUE INDEX form_signups_by_id ON form_signups (id);
CREATE INDEX form_signups_by_age ON form_signups (asked_at);
