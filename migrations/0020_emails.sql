-- Mail: what is to be sent, to whom, and what became of it.

CREATE TABLE emails (
    id UUID PRIMARY KEY NOT NULL,
    workspace_id UUID NOT NULL,
    created_at BIGINT NOT NULL,
    -- Who handed it in: `api`, `submission`, `automation`, `system`, `command`.
    origin TEXT NOT NULL,
    -- 0: transactional, 1: bulk.
    lane BIGINT NOT NULL,
    -- As it was given, and the domain of its address in ASCII and lower case.
    sender TEXT NOT NULL,
    sender_domain TEXT NOT NULL,
    subject TEXT NOT NULL,
    -- As JSON: to, cc, bcc, reply_to, headers, tags, topic_id, attachments.
    envelope TEXT NOT NULL,
    message_id TEXT NOT NULL,
    -- What is longer than a piece of `email_chunks` stands there.
    html TEXT,
    text TEXT,
    -- How many bytes the content has, wherever it stands; NULL where it is not kept any more.
    size BIGINT,
    -- In wall time.
    scheduled_at BIGINT,
    -- The highest state of its recipients, or its own while it has none of theirs.
    state BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    -- What is done where nobody knows whether it arrived: `retry` or `hold`.
    when_uncertain TEXT NOT NULL,
    -- The step of a run that wanted it sent.
    run_id UUID,
    step TEXT
);
CREATE INDEX emails_by_workspace ON emails (workspace_id, id);
CREATE UNIQUE INDEX emails_by_step ON emails (run_id, step) WHERE run_id IS NOT NULL;
CREATE INDEX emails_with_content ON emails (created_at) WHERE size IS NOT NULL;

-- A recipient is what is queued: `due_at` is in steady time, NULL where nothing is to be done.
CREATE TABLE email_recipients (
    email_id UUID NOT NULL,
    number BIGINT NOT NULL,
    workspace_id UUID NOT NULL,
    address TEXT NOT NULL,
    state BIGINT NOT NULL,
    lane BIGINT NOT NULL,
    -- Where it waits: the transport, and for `direct` the domain.
    line TEXT NOT NULL,
    due_at BIGINT,
    attempt BIGINT NOT NULL,
    -- The attempt whose final dot was about to be sent and whose reply is not known; 0: none.
    dot_attempt BIGINT NOT NULL,
    -- Since when it has been waiting, in steady time: it is given up a while after that.
    queued_at BIGINT NOT NULL,
    tries BIGINT NOT NULL,
    delay_told BOOLEAN NOT NULL,
    -- Why it waits, or what the last server said.
    reason TEXT,
    PRIMARY KEY (email_id, number)
) /* WITHOUT ROWID */;
CREATE INDEX email_recipients_due ON email_recipients (lane, line, due_at) WHERE due_at IS NOT NULL;
CREATE INDEX email_recipients_held ON email_recipients (workspace_id, email_id) WHERE state = 28;

-- What happened, in the order of the ids. Webhooks will read it.
CREATE TABLE email_events (
    workspace_id UUID NOT NULL,
    email_id UUID NOT NULL,
    id UUID NOT NULL,
    -- The recipient's number; NULL where it is about the whole mail.
    number BIGINT,
    type TEXT NOT NULL,
    detail TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (email_id, id)
) /* WITHOUT ROWID */;

-- Long bodies, attachments and whole messages, in pieces.
CREATE TABLE email_chunks (
    email_id UUID NOT NULL,
    -- 0: HTML, 1: text, 2: the message as it was handed in, from 16 on: attachments.
    part BIGINT NOT NULL,
    number BIGINT NOT NULL,
    bytes BYTEA NOT NULL,
    PRIMARY KEY (email_id, part, number)
);

-- Who gets no mail of a workspace any more.
CREATE TABLE suppressions (
    workspace_id UUID NOT NULL,
    email_key TEXT NOT NULL,
    id UUID NOT NULL,
    email TEXT NOT NULL,
    -- `bounce`, `complaint` or `manual`.
    origin TEXT NOT NULL,
    reason TEXT,
    email_id UUID,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (workspace_id, email_key)
) /* WITHOUT ROWID */;
CREATE UNIQUE INDEX suppressions_by_id ON suppressions (workspace_id, id);
