-- The product's own messages are mail like any other. Those that waited for a relay wait for it
-- still; their sender and their Message-ID are those that delivery gives its own.

INSERT INTO emails (id, workspace_id, created_at, origin, lane, sender, sender_domain, subject, envelope, message_id,
    text, size, state, updated_at, when_uncertain)
SELECT id, workspace_id, created_at, 'system', 0, 'Posthorn <posthorn@localhost>', 'localhost', subject,
    '{"to":["' || REPLACE(REPLACE(recipient, '\', '\\'), '"', '\"')
        || '"],"headers":[["Auto-Submitted","auto-generated"]]}',
    '', body, LENGTH(body),
    CASE status WHEN 'queued' THEN 10 WHEN 'failed' THEN 66 ELSE 40 END, created_at, 'retry'
FROM messages;

INSERT INTO email_recipients (email_id, number, workspace_id, address, state, lane, line, due_at, attempt, dot_attempt,
    queued_at, tries, delay_told, reason)
SELECT id, 0, workspace_id, recipient,
    CASE status WHEN 'queued' THEN 10 WHEN 'failed' THEN 66 ELSE 40 END, 0,
    CASE status WHEN 'captured' THEN 'capture' ELSE 'relay' END,
    CASE status WHEN 'queued' THEN due_at END, attempt, 0, COALESCE(due_at, created_at), attempt, FALSE, error
FROM messages;

DROP TABLE messages;
