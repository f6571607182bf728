-- How a workspace shows itself to the people it writes to. What is NULL is as for any other.

CREATE TABLE workspace_branding (
    workspace_id UUID PRIMARY KEY NOT NULL,
    name TEXT,
    -- Such as `#1b2440`.
    color TEXT
) /* WITHOUT ROWID */;
