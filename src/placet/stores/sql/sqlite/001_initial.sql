-- The first schema.
-- oldest_reader: 1
--
-- Every key begins with the tenant (G11). Tables of wide rows, and those that are listed by age,
-- have rowids; the others are clustered by their keys, so that what one command writes lies together.

CREATE TABLE sessions (
    tenant TEXT NOT NULL,
    id TEXT NOT NULL,
    seq INTEGER NOT NULL,
    salt TEXT NOT NULL,
    surfaces TEXT NOT NULL,
    head BLOB NOT NULL,
    PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE runs (
    tenant TEXT NOT NULL,
    id TEXT NOT NULL,
    session TEXT NOT NULL,
    active INTEGER NOT NULL,
    wake_at INTEGER,
    value TEXT NOT NULL,
    PRIMARY KEY (tenant, id)
) STRICT;

CREATE INDEX runs_of_session ON runs (tenant, session);

CREATE INDEX runs_active ON runs (tenant, session) WHERE active = 1;

CREATE INDEX runs_to_wake ON runs (wake_at) WHERE wake_at IS NOT NULL;

CREATE TABLE calls (
    tenant TEXT NOT NULL,
    session TEXT NOT NULL,
    run TEXT NOT NULL,
    step INTEGER NOT NULL,
    place INTEGER NOT NULL,
    open INTEGER NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (tenant, session, run, step, place)
) STRICT, WITHOUT ROWID;

CREATE INDEX calls_open ON calls (tenant, session) WHERE open = 1;

-- `pending` is 1 while people may decide, 2 while an approval is not yet spent, and 0 after that.
CREATE TABLE requests (
    tenant TEXT NOT NULL,
    id TEXT NOT NULL,
    session TEXT NOT NULL,
    pending INTEGER NOT NULL,
    deadline_at INTEGER NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (tenant, id)
) STRICT;

CREATE INDEX requests_of_session ON requests (tenant, session, pending);

CREATE INDEX requests_pending ON requests (tenant, deadline_at) WHERE pending = 1;

CREATE TABLE noes (
    tenant TEXT NOT NULL,
    session TEXT NOT NULL,
    run TEXT NOT NULL,
    call_key TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (tenant, session, run, call_key)
) STRICT, WITHOUT ROWID;

-- `together` is, on the first event of a command, how many events the command brought about.
CREATE TABLE events (
    tenant TEXT NOT NULL,
    session TEXT NOT NULL,
    seq INTEGER NOT NULL,
    at INTEGER NOT NULL,
    kind TEXT NOT NULL,
    body TEXT NOT NULL,
    hash BLOB NOT NULL,
    command_id TEXT NOT NULL,
    together INTEGER NOT NULL,
    PRIMARY KEY (tenant, session, seq)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX events_of_command ON events (tenant, session, command_id)
    WHERE command_id <> '';

-- A body that is long is compressed (zlib), and then a blob; so is one that has no UTF-8.
CREATE TABLE payloads (
    tenant TEXT NOT NULL,
    session TEXT NOT NULL,
    ref BLOB NOT NULL,
    body ANY NOT NULL,
    PRIMARY KEY (tenant, session, ref)
) STRICT;

CREATE TABLE transcript (
    tenant TEXT NOT NULL,
    session TEXT NOT NULL,
    run TEXT NOT NULL,
    step INTEGER NOT NULL,
    place INTEGER NOT NULL,
    kind TEXT NOT NULL,
    ref BLOB NOT NULL,
    PRIMARY KEY (tenant, session, run, step, place)
) STRICT, WITHOUT ROWID;

-- Ids are never used again, so that a notice that is reported as sent twice takes no other with it.
CREATE TABLE outbox (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant TEXT NOT NULL,
    session TEXT NOT NULL,
    request TEXT NOT NULL,
    kind TEXT NOT NULL
) STRICT;
