-- SQLite alone: the index of names begins with the name. Who looks for one knows the
-- workspace as well, so the order is free; and where many workspaces take turns, what
-- they define lies together as far as the names do, instead of in as many places as
-- there are workspaces.

/*
DROP INDEX events_by_name;
CREATE INDEX events_by_name ON events (name, workspace_id, id);
*/
