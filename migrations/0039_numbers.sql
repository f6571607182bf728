-- What became of mail, counted by quarter-hours: for a domain that it was sent from, and for a broadcast.
CREATE TABLE email_counts (
    workspace_id UUID NOT NULL,
    -- When the quarter-hour begins, in wall time.
    period BIGINT NOT NULL,
    -- In ASCII and lower case; empty where it is not known.
    domain TEXT NOT NULL,
    -- All zero where it is none of a broadcast's.
    broadcast_id UUID NOT NULL,
    sent BIGINT NOT NULL,
    delivered BIGINT NOT NULL,
    delivery_delayed BIGINT NOT NULL,
    bounced_permanent BIGINT NOT NULL,
    bounced_transient BIGINT NOT NULL,
    bounced_undetermined BIGINT NOT NULL,
    complained BIGINT NOT NULL,
    suppressed BIGINT NOT NULL,
    failed BIGINT NOT NULL,
    opened BIGINT NOT NULL,
    unique_opened BIGINT NOT NULL,
    clicked BIGINT NOT NULL,
    unique_clicked BIGINT NOT NULL,
    unsubscribed BIGINT NOT NULL,
    received BIGINT NOT NULL,
    PRIMARY KEY (workspace_id, period, domain, broadcast_id)
) /* WITHOUT ROWID */;

-- What was counted and is not yet added up there: a row for each commit, so that none waits for another's.
CREATE TABLE email_count_deltas (
    workspace_id UUID NOT NULL,
    id UUID NOT NULL,
    period BIGINT NOT NULL,
    domain TEXT NOT NULL,
    broadcast_id UUID NOT NULL,
    sent BIGINT NOT NULL,
    delivered BIGINT NOT NULL,
    delivery_delayed BIGINT NOT NULL,
    bounced_permanent BIGINT NOT NULL,
    bounced_transient BIGINT NOT NULL,
    bounced_undetermined BIGINT NOT NULL,
    complained BIGINT NOT NULL,
    suppressed BIGINT NOT NULL,
    failed BIGINT NOT NULL,
    opened BIGINT NOT NULL,
    unique_opened BIGINT NOT NULL,
    clicked BIGINT NOT NULL,
    unique_clicked BIGINT NOT NULL,
    unsubscribed BIGINT NOT NULL,
    received BIGINT NOT NULL,
    PRIMARY KEY (workspace_id, id)
) /* WITHOUT ROWID */;

-- Requests to the API, without what is secret in them.
CREATE TABLE request_log (
    workspace_id UUID NOT NULL,
    id UUID NOT NULL,
    -- In wall time.
    created_at BIGINT NOT NULL,
    method TEXT NOT NULL,
    endpoint TEXT NOT NULL,
    status BIGINT NOT NULL,
    user_agent TEXT,
    -- As JSON.
    request_body TEXT,
    response_body TEXT,
    PRIMARY KEY (workspace_id, id)
) /* WITHOUT ROWID */;
CREATE INDEX request_log_by_age ON request_log (created_at);

-- What is done now and then, by one process at a time; due in steady time.
CREATE TABLE chores (
    name TEXT PRIMARY KEY NOT NULL,
    due_at BIGINT NOT NULL,
    attempt BIGINT NOT NULL
) /* WITHOUT ROWID */;
INSERT INTO chores (name, due_at, attempt)
VALUES ('email_counts', 0, 0), ('request_log', 0, 0), ('occurrences', 0, 0), ('runs', 0, 0), ('mail_contents', 0, 0);
