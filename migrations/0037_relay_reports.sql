-- What proves reports of relays that may be sent once, until it is too old to be believed.
CREATE TABLE relay_tokens (
    hash BYTEA NOT NULL PRIMARY KEY,
    used_at BIGINT NOT NULL
) /* WITHOUT ROWID */;
CREATE INDEX relay_tokens_by_time ON relay_tokens (used_at);
