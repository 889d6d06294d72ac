-- A session may have ended, and takes no further message then.
-- oldest_reader: 2
ALTER TABLE sessions ADD COLUMN ended INTEGER NOT NULL DEFAULT 0;
