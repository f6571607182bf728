-- When the mail of broadcasts is sent, and how much of it one contact gets.

-- As JSON: days, from, until.
ALTER TABLE broadcasts ADD COLUMN send_window TEXT;
-- From 1 to 9: the higher goes first.
ALTER TABLE broadcasts ADD COLUMN priority BIGINT NOT NULL DEFAULT 5;
-- Who may not get it within so many hours of its beginning gets none.
ALTER TABLE broadcasts ADD COLUMN send_within_hours BIGINT;

-- Bulk mails that count against what a contact may get: as many places as the cap allows, each taken by one mail.
CREATE TABLE bulk_places (
    contact_id UUID NOT NULL,
    place BIGINT NOT NULL,
    email_id UUID NOT NULL,
    -- In steady time.
    sent_at BIGINT NOT NULL,
    PRIMARY KEY (contact_id, place)
) /* WITHOUT ROWID */;
CREATE INDEX bulk_places_by_age ON bulk_places (sent_at);
