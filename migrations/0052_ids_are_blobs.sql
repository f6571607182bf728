-- SQLite alone: it does not know the types `UUID` and `BYTEA`, takes what is declared so for numbers, and compares it
-- with what is declared as `BLOB` row by row, past every index. All of it is bytes as it stands: only the declarations
-- change, and no row is touched.

/*
PRAGMA writable_schema = ON;
UPDATE sqlite_schema SET sql = replace(replace(sql, ' UUID', ' BLOB'), ' BYTEA', ' BLOB')
WHERE type = 'table' AND (sql LIKE '% UUID%' OR sql LIKE '% BYTEA%');
PRAGMA writable_schema = RESET;
*/
