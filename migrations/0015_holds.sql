-- While there is a row, nothing that waits in the store is worked on: no mail is sent,
-- no webhook called, no timer fires. A backup carries one, so a restored store holds.

CREATE TABLE holds (
    id BIGINT PRIMARY KEY CHECK (id = 1),
    since BIGINT NOT NULL,
    reason TEXT NOT NULL
);
