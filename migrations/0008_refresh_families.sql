-- A grant's refresh family is kept with the grant: the newest token and the one
-- before it. A token names its grant and carries the family's mark, so whatever
-- older one is shown is known for what it is, and nothing of it need be kept.

ALTER TABLE oauth_grants ADD COLUMN family_hash BYTEA;
ALTER TABLE oauth_grants ADD COLUMN refresh_hash BYTEA;
ALTER TABLE oauth_grants ADD COLUMN refresh_expires_at BIGINT;
ALTER TABLE oauth_grants ADD COLUMN previous_hash BYTEA;
ALTER TABLE oauth_grants ADD COLUMN rotated_at BIGINT;
-- The newest token, readable with the one before it.
ALTER TABLE oauth_grants ADD COLUMN successor_sealed BYTEA;

-- Tokens from before name no grant: `refresh_tokens` does, until they expire.
UPDATE oauth_grants SET
    refresh_hash = (SELECT t.hash FROM refresh_tokens t
                    WHERE t.grant_id = oauth_grants.id AND t.rotated_at IS NULL),
    refresh_expires_at = (SELECT t.expires_at FROM refresh_tokens t
                          WHERE t.grant_id = oauth_grants.id AND t.rotated_at IS NULL);
UPDATE oauth_grants SET
    previous_hash = (SELECT t.hash FROM refresh_tokens t
                     WHERE t.grant_id = oauth_grants.id AND t.successor_hash = oauth_grants.refresh_hash),
    rotated_at = (SELECT t.rotated_at FROM refresh_tokens t
                  WHERE t.grant_id = oauth_grants.id AND t.successor_hash = oauth_grants.refresh_hash),
    successor_sealed = (SELECT t.successor_sealed FROM refresh_tokens t
                        WHERE t.grant_id = oauth_grants.id AND t.successor_hash = oauth_grants.refresh_hash)
WHERE refresh_hash IS NOT NULL;
DROP INDEX refresh_tokens_by_grant;
