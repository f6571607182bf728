-- Browsers in which somebody has logged in: strangers who guess at a password
-- use up their own attempts, not those of who is known here.
CREATE TABLE known_devices (
    hash BYTEA NOT NULL,
    user_id TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    seen_at BIGINT NOT NULL,
    PRIMARY KEY (hash, user_id)
);
CREATE INDEX known_devices_by_user ON known_devices (user_id, seen_at);
CREATE INDEX known_devices_by_time ON known_devices (seen_at);
