-- Mails by their state, as people look for them. The two that most are in are left out: whatever is
-- accepted and delivered as usual costs nothing here.

CREATE INDEX emails_by_state ON emails (workspace_id, state, id) WHERE state <> 10 AND state <> 40;
