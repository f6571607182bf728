-- What a mail is about, where that can be found without reading its envelope. Of what was accepted before, only what
-- may still leave is asked.
ALTER TABLE emails ADD COLUMN topic_id UUID;
-- <postgres>
UPDATE emails SET topic_id = CAST(CAST(envelope AS JSON) ->> 'topic_id' AS UUID)
WHERE envelope LIKE '%"topic_id":"%'
  AND id IN (SELECT email_id FROM email_recipients WHERE due_at IS NOT NULL OR state = 28);
-- </postgres>
/*
UPDATE emails SET topic_id = unhex(replace(json_extract(envelope, '$.topic_id'), '-', ''))
WHERE envelope LIKE '%"topic_id":"%'
  AND id IN (SELECT email_id FROM email_recipients WHERE due_at IS NOT NULL OR state = 28);
*/

-- What says when bulk mail may be sent has changed: the recipients behind this number who were put off are to be looked
-- at anew. NULL: none.
ALTER TABLE broadcasts ADD COLUMN retimed_behind BIGINT;

-- How many contacts are in a segment. Whoever changes who is in it changes that in the same commit, whichever statement
-- does so.
CREATE TABLE segment_counts (
    segment_id UUID PRIMARY KEY NOT NULL,
    members BIGINT NOT NULL
) /* WITHOUT ROWID */;
INSERT INTO segment_counts (segment_id, members)
    SELECT segment_id, COUNT(*) FROM segment_members GROUP BY segment_id;

-- <postgres>
-- Many may change one segment at a time, and none of them waits for another: each adds what it changed, and a worker
-- takes that up. What is there for a segment is its count and all of these.
CREATE TABLE segment_deltas (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    segment_id UUID NOT NULL,
    members BIGINT NOT NULL
);
CREATE INDEX segment_deltas_by_segment ON segment_deltas (segment_id);

CREATE FUNCTION posthorn_count_members_added() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO segment_deltas (segment_id, members) SELECT segment_id, COUNT(*) FROM changed GROUP BY segment_id;
    RETURN NULL;
END $$;
CREATE FUNCTION posthorn_count_members_removed() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO segment_deltas (segment_id, members) SELECT segment_id, -COUNT(*) FROM changed GROUP BY segment_id;
    RETURN NULL;
END $$;
CREATE FUNCTION posthorn_take_up_deltas() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO segment_counts (segment_id, members)
        SELECT segment_id, SUM(members) FROM taken GROUP BY segment_id ORDER BY segment_id
        ON CONFLICT (segment_id) DO UPDATE SET members = segment_counts.members + excluded.members;
    RETURN NULL;
END $$;
CREATE TRIGGER segment_members_added AFTER INSERT ON segment_members
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION posthorn_count_members_added();
CREATE TRIGGER segment_members_removed AFTER DELETE ON segment_members
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION posthorn_count_members_removed();
CREATE TRIGGER segment_deltas_taken_up AFTER DELETE ON segment_deltas
    REFERENCING OLD TABLE AS taken FOR EACH STATEMENT EXECUTE FUNCTION posthorn_take_up_deltas();
-- </postgres>
/*
-- Here only one writes at a time, so nothing has to be taken up.
CREATE TABLE segment_deltas (
    id INTEGER PRIMARY KEY,
    segment_id BLOB NOT NULL,
    members BIGINT NOT NULL
);
CREATE INDEX segment_deltas_by_segment ON segment_deltas (segment_id);
CREATE TRIGGER segment_members_added AFTER INSERT ON segment_members BEGIN
    INSERT INTO segment_counts (segment_id, members) VALUES (NEW.segment_id, 1)
        ON CONFLICT (segment_id) DO UPDATE SET members = members + 1;
END;
CREATE TRIGGER segment_members_removed AFTER DELETE ON segment_members BEGIN
    UPDATE segment_counts SET members = members - 1 WHERE segment_id = OLD.segment_id;
END;
*/
