-- What hosts of assistants want to be told, by the sessions for which they said so. A session itself is no row.
CREATE TABLE assistant_log_levels (
    workspace_id UUID NOT NULL,
    session_id UUID NOT NULL,
    -- The least severe that is told, in the words of the protocol.
    level TEXT NOT NULL,
    set_at BIGINT NOT NULL,
    PRIMARY KEY (workspace_id, session_id)
) /* WITHOUT ROWID */;
