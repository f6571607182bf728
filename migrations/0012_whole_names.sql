-- SQLite alone, as 0011 did for occurrences: its index may hold names of any length,
-- and one that holds them whole is lighter than one over what a function returns.

/*
DROP INDEX events_by_name;
CREATE INDEX events_by_name ON events (workspace_id, name, id);
*/
