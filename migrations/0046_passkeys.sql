-- Passkeys as second factors: what an authenticator said of itself when it was introduced.
CREATE TABLE passkeys (
    user_id UUID NOT NULL,
    id UUID NOT NULL,
    -- What the authenticator calls it.
    credential_id BYTEA NOT NULL,
    -- With its frame (SubjectPublicKeyInfo).
    public_key BYTEA NOT NULL,
    -- How often it was used, as it says itself.
    counter BIGINT NOT NULL,
    name TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    used_at BIGINT,
    PRIMARY KEY (user_id, id)
) /* WITHOUT ROWID */;
CREATE UNIQUE INDEX passkeys_by_credential ON passkeys (user_id, credential_id);
