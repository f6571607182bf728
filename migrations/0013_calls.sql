-- Calls to the outside wait in a line of their own for each destination, and what
-- an app made stops calling when the app has no access any more.

-- Where a run is about to call: its workspace and the host. Whoever brings on the
-- other runs does not see it.
ALTER TABLE runs ADD COLUMN destination TEXT;
DROP INDEX runs_due;
CREATE INDEX runs_due ON runs (due_at) WHERE due_at IS NOT NULL AND destination IS NULL;
CREATE INDEX runs_calling ON runs (destination, due_at) WHERE destination IS NOT NULL AND due_at IS NOT NULL;

-- With the time, for one contact can have very many runs of one automation.
DROP INDEX runs_by_contact;
CREATE INDEX runs_by_contact ON runs (contact_id, automation_id, created_at);

-- Destinations that have not answered for a while: until when nobody calls them.
CREATE TABLE call_pauses (
    destination TEXT PRIMARY KEY,
    -- How many calls in a row had no answer, and why the last one had none.
    failures BIGINT NOT NULL,
    reason TEXT NOT NULL,
    paused_until BIGINT NOT NULL
) /* WITHOUT ROWID */;

-- The grant under which an app published a version that calls the outside. When
-- the grant ends, the version's steps call nobody any more.
CREATE TABLE automation_version_grants (
    automation_id TEXT NOT NULL,
    version BIGINT NOT NULL,
    grant_id TEXT NOT NULL,
    PRIMARY KEY (automation_id, version)
) /* WITHOUT ROWID */;
CREATE INDEX automation_version_grants_by_grant ON automation_version_grants (grant_id);
