-- Whoever changes a password, or is taken out of a workspace, ends grants: theirs are found without a look at all others.
CREATE INDEX oauth_grants_by_user ON oauth_grants (user_id, workspace_id);
