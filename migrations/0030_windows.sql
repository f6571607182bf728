-- When mail may be sent, and how much of it one contact gets.

-- The zone of contacts that name none, by its name in the IANA database.
ALTER TABLE workspaces ADD COLUMN timezone TEXT NOT NULL DEFAULT 'UTC';
-- A contact gets at most so many bulk mails in so many hours; NULL: as many as there are.
ALTER TABLE workspaces ADD COLUMN bulk_cap_mails BIGINT;
ALTER TABLE workspaces ADD COLUMN bulk_cap_hours BIGINT;

-- As JSON: days, from, until.
ALTER TABLE automations ADD COLUMN send_window TEXT;
