-- Messages that wait for their template, of runs that went with their automation: nobody could see them any more.
DELETE FROM outbox WHERE run_id NOT IN (SELECT id FROM runs);
