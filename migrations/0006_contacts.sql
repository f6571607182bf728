-- Contacts and the segments they belong to.

CREATE TABLE contacts (
    workspace_id TEXT NOT NULL,
    id TEXT NOT NULL,
    email TEXT NOT NULL,
    -- The address in lower case: one contact, however it is typed.
    email_key TEXT NOT NULL,
    first_name TEXT,
    last_name TEXT,
    unsubscribed BOOLEAN NOT NULL,
    -- A flat JSON object.
    properties TEXT NOT NULL,
    -- Counts what happens to the contact: each change and each occurrence of an
    -- event. A new contact has 2; 1 is the number of its creation.
    version BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT,
    PRIMARY KEY (workspace_id, id)
) /* WITHOUT ROWID */;
CREATE UNIQUE INDEX contacts_by_email ON contacts (workspace_id, email_key);

CREATE TABLE segments (
    workspace_id TEXT NOT NULL,
    id TEXT NOT NULL,
    name TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (workspace_id, id)
) /* WITHOUT ROWID */;

-- Both are of this workspace: whoever adds a member makes sure of it.
CREATE TABLE segment_members (
    workspace_id TEXT NOT NULL,
    segment_id TEXT NOT NULL,
    contact_id TEXT NOT NULL,
    added_at BIGINT NOT NULL,
    PRIMARY KEY (workspace_id, segment_id, contact_id)
) /* WITHOUT ROWID */;
CREATE INDEX segment_members_by_contact ON segment_members (workspace_id, contact_id, segment_id);

-- What properties contacts may have, as far as somebody said so.
CREATE TABLE contact_properties (
    workspace_id TEXT NOT NULL,
    id TEXT NOT NULL,
    key TEXT NOT NULL,
    type TEXT NOT NULL CHECK (type IN ('string', 'number')),
    -- A JSON value.
    fallback_value TEXT,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (workspace_id, id)
) /* WITHOUT ROWID */;
CREATE UNIQUE INDEX contact_properties_by_key ON contact_properties (workspace_id, key);
