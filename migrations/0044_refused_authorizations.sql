-- Authorization requests that were refused, of clients that stand on the page of a workspace: the last of each.
CREATE TABLE refused_authorizations (
    client_id TEXT NOT NULL,
    -- As it was given, cut; empty where none was, or several.
    redirect_uri TEXT NOT NULL,
    -- The code of the error.
    error TEXT NOT NULL,
    -- How often this was refused, and when for the last time.
    times BIGINT NOT NULL,
    refused_at BIGINT NOT NULL,
    PRIMARY KEY (client_id, redirect_uri, error)
) /* WITHOUT ROWID */;
