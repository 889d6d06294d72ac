-- Who may go on with a framework's course, a thread say, and until when: one process at a time. That is
-- no part of any session: several runs may have one course, and it decides nothing. An older worker
-- would go on with a course that another has.
-- oldest_reader: 8
CREATE TABLE courses (
    tenant TEXT NOT NULL,
    course TEXT NOT NULL,
    token TEXT NOT NULL,
    host TEXT NOT NULL,
    boot TEXT NOT NULL,
    pid INTEGER NOT NULL,
    started TEXT NOT NULL,
    until INTEGER NOT NULL,
    PRIMARY KEY (tenant, course)
) STRICT, WITHOUT ROWID;
