-- Standing grants of a session; one that has ended is not kept here, the log has it.
-- oldest_reader: 5
CREATE TABLE grants (
    tenant TEXT NOT NULL,
    session TEXT NOT NULL,
    id TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (tenant, session, id)
) STRICT, WITHOUT ROWID;
