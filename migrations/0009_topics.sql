-- Topics, and what contacts have chosen of them.

CREATE TABLE topics (
    workspace_id TEXT NOT NULL,
    id TEXT NOT NULL,
    name TEXT NOT NULL,
    description TEXT,
    -- What holds for a contact that never chose.
    default_subscription TEXT NOT NULL CHECK (default_subscription IN ('opt_in', 'opt_out')),
    visibility TEXT NOT NULL CHECK (visibility IN ('public', 'private')),
    created_at BIGINT NOT NULL,
    PRIMARY KEY (workspace_id, id)
) /* WITHOUT ROWID */;

-- Both are of this workspace: whoever writes down a choice makes sure of it.
CREATE TABLE topic_subscriptions (
    workspace_id TEXT NOT NULL,
    contact_id TEXT NOT NULL,
    topic_id TEXT NOT NULL,
    subscription TEXT NOT NULL CHECK (subscription IN ('opt_in', 'opt_out')),
    PRIMARY KEY (workspace_id, contact_id, topic_id)
) /* WITHOUT ROWID */;
CREATE INDEX topic_subscriptions_by_topic ON topic_subscriptions (workspace_id, topic_id, contact_id);
