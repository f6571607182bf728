-- The same counters by whole days of UTC: what spans weeks is added up from these.
CREATE TABLE email_counts_by_day (
    workspace_id UUID NOT NULL,
    -- When the day begins.
    period BIGINT NOT NULL,
    domain TEXT NOT NULL,
    broadcast_id UUID NOT NULL,
    sent BIGINT NOT NULL,
    delivered BIGINT NOT NULL,
    delivery_delayed BIGINT NOT NULL,
    bounced_permanent BIGINT NOT NULL,
    bounced_transient BIGINT NOT NULL,
    bounced_undetermined BIGINT NOT NULL,
    complained BIGINT NOT NULL,
    suppressed BIGINT NOT NULL,
    failed BIGINT NOT NULL,
    opened BIGINT NOT NULL,
    unique_opened BIGINT NOT NULL,
    clicked BIGINT NOT NULL,
    unique_clicked BIGINT NOT NULL,
    unsubscribed BIGINT NOT NULL,
    received BIGINT NOT NULL,
    PRIMARY KEY (workspace_id, period, domain, broadcast_id)
) /* WITHOUT ROWID */;

INSERT INTO email_counts_by_day
SELECT workspace_id, period - period % 86400000000, domain, broadcast_id,
    SUM(sent), SUM(delivered), SUM(delivery_delayed), SUM(bounced_permanent), SUM(bounced_transient),
    SUM(bounced_undetermined), SUM(complained), SUM(suppressed), SUM(failed), SUM(opened),
    SUM(unique_opened), SUM(clicked), SUM(unique_clicked), SUM(unsubscribed), SUM(received)
FROM email_counts GROUP BY 1, 2, 3, 4;
