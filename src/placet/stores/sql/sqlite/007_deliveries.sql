-- A notice is addressed to channels, and leaves on each on its own. Until it is, `addressed` is 0 and
-- `channel` the one that it must go to, or empty: all. An older worker would take what is addressed
-- to a channel for what it may tell itself, and it would be lost.
-- oldest_reader: 7
ALTER TABLE outbox ADD COLUMN channel TEXT NOT NULL DEFAULT '';

ALTER TABLE outbox ADD COLUMN addressed INTEGER NOT NULL DEFAULT 0;

ALTER TABLE outbox ADD COLUMN attempts INTEGER NOT NULL DEFAULT 0;

-- When it may be taken (again), in microseconds since 1970.
ALTER TABLE outbox ADD COLUMN due_at INTEGER NOT NULL DEFAULT 0;

CREATE INDEX outbox_new ON outbox (tenant, id) WHERE addressed = 0;

CREATE INDEX outbox_due ON outbox (tenant, channel, due_at, id) WHERE addressed = 1;

CREATE INDEX outbox_line ON outbox (tenant, channel, request, id) WHERE addressed = 1;
