-- Segments that fill themselves. Who is in one stands in `segment_members`, as for any other.

-- The rules, as JSON; NULL where contacts are put in by hand.
ALTER TABLE segments ADD COLUMN filter TEXT;
-- How far filling has come, as JSON; NULL where all contacts are judged.
ALTER TABLE segments ADD COLUMN filling TEXT;
ALTER TABLE segments ADD COLUMN due_at BIGINT;
ALTER TABLE segments ADD COLUMN attempt BIGINT NOT NULL DEFAULT 0;
CREATE INDEX segments_due ON segments (due_at) WHERE due_at IS NOT NULL;

-- Contacts that are to be judged once more: because something happened to them, or because what happened
-- to them will be too long ago then.
CREATE TABLE segment_due (
    workspace_id UUID NOT NULL,
    contact_id UUID NOT NULL,
    due_at BIGINT NOT NULL,
    attempt BIGINT NOT NULL,
    PRIMARY KEY (workspace_id, contact_id)
) /* WITHOUT ROWID */;
CREATE INDEX segment_due_by_time ON segment_due (due_at);

-- When the events that filters count happened, by contact. `event_key` stands for the name.
CREATE TABLE segment_events (
    workspace_id UUID NOT NULL,
    contact_id UUID NOT NULL,
    event_key UUID NOT NULL,
    happened_at BIGINT NOT NULL,
    occurrence_id UUID NOT NULL,
    PRIMARY KEY (workspace_id, contact_id, event_key, happened_at, occurrence_id)
) /* WITHOUT ROWID */;
