-- A session's texts may be sealed under a data key of its own, its head keyed, its texts erased.
-- oldest_reader: 4
ALTER TABLE sessions ADD COLUMN data_key BLOB;

ALTER TABLE sessions ADD COLUMN mac BLOB;

ALTER TABLE sessions ADD COLUMN erased INTEGER NOT NULL DEFAULT 0;

-- What a store keeps of the key that it is under: `check` tells the right key from another, `heads`
-- is the wrapped key of the HMACs where a key port holds the store's key.
CREATE TABLE keys (name TEXT NOT NULL PRIMARY KEY, value BLOB NOT NULL) STRICT, WITHOUT ROWID;
