-- Few of many entries are of one origin: whoever looks for those does not go through the others.
CREATE INDEX suppressions_by_origin ON suppressions (workspace_id, origin, id);
