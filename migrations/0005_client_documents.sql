-- Clients that describe themselves in a document at the address that is their
-- id; their origin is `document`. When the document was last used: a row that
-- nobody granted anything to is deleted some time after that.

ALTER TABLE oauth_clients ADD COLUMN used_at BIGINT;
CREATE INDEX oauth_clients_by_use ON oauth_clients (used_at) WHERE used_at IS NOT NULL;
