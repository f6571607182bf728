-- An event that nobody defined is defined by its first use. Of such a definition this is the
-- SHA-256 of its name, in hex: names are not unique, but two first uses at the same moment
-- are one. A definition that somebody changes is somebody's, and no longer has one.

ALTER TABLE events ADD COLUMN first_use_key TEXT;
CREATE UNIQUE INDEX events_by_first_use ON events (workspace_id, first_use_key) WHERE first_use_key IS NOT NULL;

-- Answers that hold a secret are kept sealed.

ALTER TABLE idempotency_keys ADD COLUMN sealed BOOLEAN NOT NULL DEFAULT FALSE;
