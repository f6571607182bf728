-- Messages that a step keeps in the outbox wait for their template. A person may drop one: it stays, and is not sent.

ALTER TABLE outbox ADD COLUMN dropped_at BIGINT;
