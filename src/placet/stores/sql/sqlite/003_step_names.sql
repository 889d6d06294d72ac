-- A step is found by the names that its framework gave it, without reading what the steps hold (D6).
-- oldest_reader: 3
CREATE TABLE step_names (
    tenant TEXT NOT NULL,
    session TEXT NOT NULL,
    run TEXT NOT NULL,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    step INTEGER NOT NULL,
    PRIMARY KEY (tenant, session, run, kind, name)
) STRICT, WITHOUT ROWID;

-- Until here the names stood in the text of the step alone; `name_in` reads them there.
INSERT OR IGNORE INTO step_names (tenant, session, run, kind, name, step)
SELECT t.tenant, t.session, t.run, k.column1, name_in(p.body, k.column1), t.step
FROM (VALUES ('reference'), ('place')) AS k
CROSS JOIN runs AS r
JOIN transcript AS t ON t.tenant = r.tenant AND t.session = r.session AND t.run = r.id
JOIN payloads AS p ON p.tenant = t.tenant AND p.session = t.session AND p.ref = t.ref
WHERE r.value LIKE '%"kind":"hosted"%' AND t.kind = 'turn' AND name_in(p.body, k.column1) <> ''
ORDER BY t.step;
