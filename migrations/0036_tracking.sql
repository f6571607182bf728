-- What readers do with mail: opens and clicks.

-- As they came in; a worker writes down what they come to. `due_at` is in steady time.
CREATE TABLE tracking_hits (
    id UUID PRIMARY KEY NOT NULL,
    email_id UUID NOT NULL,
    number BIGINT NOT NULL,
    -- Where the click leads to; NULL where the mail was opened.
    link TEXT,
    is_machine BOOLEAN NOT NULL,
    ip_address TEXT NOT NULL,
    user_agent TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    due_at BIGINT NOT NULL,
    attempt BIGINT NOT NULL
);
CREATE INDEX tracking_hits_due ON tracking_hits (due_at);

-- How often one recipient opened a mail, under a key of zeros, or clicked a link of it; all, and those by machines.
CREATE TABLE tracking_recipients (
    email_id UUID NOT NULL,
    number BIGINT NOT NULL,
    link_key UUID NOT NULL,
    hits BIGINT NOT NULL,
    machine_hits BIGINT NOT NULL,
    last_at BIGINT NOT NULL,
    PRIMARY KEY (email_id, number, link_key)
) /* WITHOUT ROWID */;

-- The same of all recipients together.
CREATE TABLE tracking_links (
    email_id UUID NOT NULL,
    link_key UUID NOT NULL,
    url TEXT NOT NULL,
    hits BIGINT NOT NULL,
    machine_hits BIGINT NOT NULL,
    PRIMARY KEY (email_id, link_key)
) /* WITHOUT ROWID */;

-- Who opened or clicked, as JSON: address and user agent. Unlike the rest of what happened it is kept for a while only.
ALTER TABLE email_events ADD COLUMN visitor TEXT;
CREATE INDEX email_events_with_visitor ON email_events (created_at) WHERE visitor IS NOT NULL;
