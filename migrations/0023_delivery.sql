-- What is known of an attempt too late to be in time, and how much a domain has sent on a day.

-- The attempt whose final dot another worker found without a reply: whoever made it may still tell; 0: none.
ALTER TABLE email_recipients ADD COLUMN lost_attempt BIGINT NOT NULL DEFAULT 0;

-- Mails of a domain that is warmed up, by the day: days since 1970 in UTC.
CREATE TABLE domain_days (
    domain_id UUID NOT NULL,
    day BIGINT NOT NULL,
    mails BIGINT NOT NULL,
    PRIMARY KEY (domain_id, day)
) /* WITHOUT ROWID */;
