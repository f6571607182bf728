-- A version is what somebody published. What counts what happened to a contact is its sequence, and what tells
-- whether something of a domain has changed is its revision.
ALTER TABLE contacts RENAME COLUMN version TO sequence;
ALTER TABLE domains RENAME COLUMN version TO revision;
