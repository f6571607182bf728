-- What people edit of an automation before they publish it: one draft for each, and what it was after each edit.

CREATE TABLE automation_drafts (
    workspace_id UUID NOT NULL,
    -- That of an automation, or of one to come.
    automation_id UUID NOT NULL,
    -- The version that it began as; 0: there is none yet.
    base_version BIGINT NOT NULL,
    -- Counts the edits, also those that go back: only whoever has seen the last one makes the next.
    revision BIGINT NOT NULL,
    -- The snapshot that is shown.
    position BIGINT NOT NULL,
    -- Who made the last edit, and when.
    author_id UUID NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (workspace_id, automation_id)
) /* WITHOUT ROWID */;

CREATE TABLE automation_draft_snapshots (
    automation_id UUID NOT NULL,
    position BIGINT NOT NULL,
    -- The edit that led to it, in words.
    what TEXT NOT NULL,
    -- Name, settings, steps and connections, as JSON.
    contents TEXT NOT NULL,
    PRIMARY KEY (automation_id, position)
) /* WITHOUT ROWID */;
