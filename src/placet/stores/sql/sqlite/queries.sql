-- name: session
-- One session's own row.
SELECT seq, salt, surfaces, head, ended, data_key, mac, erased FROM sessions
WHERE tenant = ? AND id = ?;

-- name: active_runs
-- What has not ended in a session.
SELECT value, wake_at, id, active FROM runs INDEXED BY runs_active
WHERE tenant = ? AND session = ? AND active = 1;

-- name: open_calls
-- The calls of a session that have no result yet.
SELECT value, run, step, place, open FROM calls INDEXED BY calls_open WHERE tenant = ? AND session = ? AND open = 1;

-- name: pending_requests
-- The requests of a session that still wait.
SELECT value, id, pending, deadline_at FROM requests WHERE tenant = ? AND session = ? AND pending > 0;

-- name: run
-- A run, ended or not.
SELECT value, id, active FROM runs WHERE tenant = ? AND session = ? AND id = ?;

-- name: step
-- The calls of one step, open or not.
SELECT value, run, step, place, open FROM calls WHERE tenant = ? AND session = ? AND run = ? AND step = ?;

-- name: call
-- A call, open or not.
SELECT value, run, step, place, open FROM calls
WHERE tenant = ? AND session = ? AND run = ? AND step = ? AND place = ?;

-- name: request
-- A request, closed or not.
SELECT value, id, pending, deadline_at FROM requests WHERE tenant = ? AND session = ? AND id = ?;

-- name: no
-- A remembered "no".
SELECT value, run, call_key FROM noes WHERE tenant = ? AND session = ? AND run = ? AND call_key = ?;

-- name: command
-- Where the events of a command that was carried out before begin, and how many they are.
SELECT seq, together FROM events WHERE tenant = ? AND session = ? AND command_id = ?
    AND command_id <> '';

-- name: events_between
-- The events of a range of seqs.
SELECT seq, at, kind, body, hash, command_id FROM events
WHERE tenant = ? AND session = ? AND seq BETWEEN ? AND ? ORDER BY seq;

-- name: insert_session
-- A new session.
INSERT INTO sessions (seq, surfaces, head, ended, mac, salt, data_key, tenant, id)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: update_session
-- What every event changes in a session.
UPDATE sessions SET seq = ?, surfaces = ?, head = ?, ended = ?, mac = ?
WHERE tenant = ? AND id = ?;

-- name: put_data_key
-- A session's data key and salt: sealed for the first time, or under another key of the store.
UPDATE sessions SET salt = ?, data_key = ? WHERE tenant = ? AND id = ?;

-- name: put_mac
-- The HMAC of a head, where no event brings it.
UPDATE sessions SET mac = ? WHERE tenant = ? AND id = ?;

-- name: erase_session
-- A session whose texts are no more: its key and its salt go with them.
UPDATE sessions SET salt = '', data_key = NULL, erased = 1 WHERE tenant = ? AND id = ?;

-- name: erase_texts
-- The texts of a session.
DELETE FROM payloads WHERE tenant = ? AND session = ?;

-- name: insert_event
-- One event at the end of the log.
INSERT INTO events (tenant, session, seq, at, kind, body, hash, command_id, together)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: insert_run
-- A new run.
INSERT INTO runs (value, active, wake_at, tenant, session, id) VALUES (?, ?, ?, ?, ?, ?);

-- name: update_run
-- A run that has ended.
UPDATE runs SET value = ?, active = ?, wake_at = ? WHERE tenant = ? AND session = ? AND id = ?;

-- name: update_run_value
-- A run of which no indexed column has changed.
UPDATE runs SET value = ? WHERE tenant = ? AND session = ? AND id = ?;

-- name: update_run_and_wake
-- A run that goes on, and is to be looked at another time.
UPDATE runs SET value = ?, wake_at = ? WHERE tenant = ? AND session = ? AND id = ?;

-- name: update_run_wake
-- A run which is the same, but is to be looked at another time.
UPDATE runs SET wake_at = ? WHERE tenant = ? AND session = ? AND id = ?;

-- name: insert_call
-- A new call.
INSERT INTO calls (value, open, tenant, session, run, step, place) VALUES (?, ?, ?, ?, ?, ?, ?);

-- name: update_call
-- A call that was opened or closed.
UPDATE calls SET value = ?, open = ?
WHERE tenant = ? AND session = ? AND run = ? AND step = ? AND place = ?;

-- name: update_call_value
-- A call that is as open as it was.
UPDATE calls SET value = ?
WHERE tenant = ? AND session = ? AND run = ? AND step = ? AND place = ?;

-- name: insert_request
-- A new request.
INSERT INTO requests (value, pending, deadline_at, tenant, session, id) VALUES (?, ?, ?, ?, ?, ?);

-- name: update_request
-- A request that was closed.
UPDATE requests SET value = ?, pending = ?, deadline_at = ?
WHERE tenant = ? AND session = ? AND id = ?;

-- name: update_request_value
-- A request that waits as it did.
UPDATE requests SET value = ? WHERE tenant = ? AND session = ? AND id = ?;

-- name: put_no
-- A remembered "no", new or counted once more.
INSERT INTO noes (value, tenant, session, run, call_key) VALUES (?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET value = excluded.value;

-- name: put_payload
-- A text, once per session.
INSERT INTO payloads (tenant, session, ref, body) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING;

-- name: put_turn
-- A model's turn; a framework that records a step without calls twice has the later one.
INSERT INTO transcript (tenant, session, run, step, place, kind, ref) VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET ref = excluded.ref;

-- name: insert_entry
-- Another row of a run's transcript: a second one in its place is an error (G6).
INSERT INTO transcript (tenant, session, run, step, place, kind, ref) VALUES (?, ?, ?, ?, ?, ?, ?);

-- name: put_step_name
-- A name that a step's framework gave it; the first step of a name keeps it.
INSERT INTO step_names (tenant, session, run, kind, name, step) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT DO NOTHING;

-- name: insert_notice
-- Something that people are to be told.
INSERT INTO outbox (tenant, session, request, kind, channel) VALUES (?, ?, ?, ?, ?);

-- name: address_notice
-- The same for one channel; nothing where it was addressed or has left.
INSERT INTO outbox (tenant, session, request, kind, channel, addressed)
SELECT tenant, session, request, kind, ?, 1 FROM outbox WHERE id = ? AND addressed = 0;

-- name: delete_addressed
-- What was addressed leaves in the form of what it was addressed as.
DELETE FROM outbox WHERE id = ? AND addressed = 0;

-- name: postpone_notice
-- When a notice that was taken is due again.
UPDATE outbox SET due_at = ? WHERE id = ? AND addressed = 1;

-- name: take_notice
-- A notice is given to somebody until an instant.
UPDATE outbox SET due_at = ?, attempts = attempts + 1 WHERE id = ?;

-- name: delete_notice
-- A notice that has left.
DELETE FROM outbox WHERE id = ?;

-- name: stamp
-- The last stamp that a committed command was given.
SELECT value FROM meta WHERE name = 'stamp';

-- name: put_stamp
-- The last stamp, once a commit.
INSERT INTO meta (name, value) VALUES ('stamp', ?)
ON CONFLICT DO UPDATE SET value = excluded.value;

-- name: payload
-- A text.
SELECT body FROM payloads WHERE tenant = ? AND session = ? AND ref = ?;

-- name: texts
-- All texts of a session.
SELECT ref, body FROM payloads WHERE tenant = ? AND session = ?;

-- name: put_body
-- A text in another form: sealed, where it was plain.
UPDATE payloads SET body = ? WHERE tenant = ? AND session = ? AND ref = ?;

-- name: transcript
-- A run's transcript from a step on, with its texts.
SELECT t.step, t.place, t.kind, t.ref, p.body FROM transcript AS t
JOIN payloads AS p ON p.tenant = t.tenant AND p.session = t.session AND p.ref = t.ref
WHERE t.tenant = ? AND t.session = ? AND t.run = ? AND t.step >= ? ORDER BY t.step, t.place;

-- name: step_named
-- The step that has a name.
SELECT step FROM step_names
WHERE tenant = ? AND session = ? AND run = ? AND kind = ? AND name = ?;

-- name: find_request
-- A request of a tenant, in whatever session.
SELECT tenant, session, value, id, pending, deadline_at FROM requests WHERE tenant = ? AND id = ?;

-- name: find_run
-- A run of a tenant, in whatever session.
SELECT tenant, session, value, wake_at, id, active FROM runs WHERE tenant = ? AND id = ?;

-- name: tenant_pending
-- What waits in a tenant, by deadline.
SELECT tenant, session, value, id, pending, deadline_at FROM requests WHERE tenant = ? AND pending = 1
ORDER BY deadline_at, rowid;

-- name: session_pending
-- What waits in a session, by deadline.
SELECT tenant, session, value, id, pending, deadline_at FROM requests WHERE tenant = ? AND session = ? AND pending = 1
ORDER BY deadline_at, rowid;

-- name: tenant_requests
-- All requests of a tenant, the newest first.
SELECT tenant, session, value, id, pending, deadline_at FROM requests NOT INDEXED WHERE tenant = ?
ORDER BY rowid DESC;

-- name: session_requests
-- All requests of a session, the newest first.
SELECT tenant, session, value, id, pending, deadline_at FROM requests INDEXED BY requests_of_session
WHERE tenant = ? AND session = ? ORDER BY rowid DESC;

-- name: tenant_runs
-- All runs of a tenant, the newest first.
SELECT tenant, session, value, wake_at, id, active FROM runs NOT INDEXED
WHERE tenant = ? ORDER BY rowid DESC;

-- name: tenant_active_runs
-- The runs of a tenant that have not ended, the newest first.
SELECT tenant, session, value, wake_at, id, active FROM runs INDEXED BY runs_active
WHERE tenant = ? AND active = 1 ORDER BY rowid DESC;

-- name: session_runs
-- All runs of a session, the newest first.
SELECT tenant, session, value, wake_at, id, active FROM runs INDEXED BY runs_of_session
WHERE tenant = ? AND session = ? ORDER BY rowid DESC;

-- name: session_active_runs
-- The runs of a session that have not ended, the newest first.
SELECT tenant, session, value, wake_at, id, active FROM runs INDEXED BY runs_active
WHERE tenant = ? AND session = ? AND active = 1 ORDER BY rowid DESC;

-- name: sessions
-- The sessions of a tenant.
SELECT id FROM sessions WHERE tenant = ? ORDER BY id;

-- name: heads
-- The heads of all sessions, of all tenants.
SELECT tenant, id, seq, head, data_key, mac FROM sessions ORDER BY tenant, id;

-- name: kept_events
-- How many events of a session there are, whatever their seqs.
SELECT count(*) FROM events WHERE tenant = ? AND session = ?;

-- name: kept_calls
-- Where the calls of a session stand.
SELECT run, step, place FROM calls WHERE tenant = ? AND session = ?;

-- name: kept_noes
-- What the noes of a session are to.
SELECT run, call_key FROM noes WHERE tenant = ? AND session = ?;

-- name: kept_entries
-- The transcript of a session, without its texts.
SELECT run, step, place, kind, ref FROM transcript WHERE tenant = ? AND session = ?;

-- name: kept_names
-- The names of a session's steps.
SELECT run, kind, name, step FROM step_names WHERE tenant = ? AND session = ?;

-- name: kept_texts
-- The references of a session's texts.
SELECT ref FROM payloads WHERE tenant = ? AND session = ?;

-- name: kept_notices
-- A session's notices that have not left.
SELECT request, kind FROM outbox WHERE tenant = ? AND session = ?;

-- name: strays
-- Sessions of which there are rows, and not their own.
WITH given AS (SELECT ? AS tenant)
SELECT session FROM events WHERE tenant = (SELECT tenant FROM given)
UNION SELECT session FROM runs WHERE tenant = (SELECT tenant FROM given)
UNION SELECT session FROM calls WHERE tenant = (SELECT tenant FROM given)
UNION SELECT session FROM requests WHERE tenant = (SELECT tenant FROM given)
UNION SELECT session FROM noes WHERE tenant = (SELECT tenant FROM given)
UNION SELECT session FROM grants WHERE tenant = (SELECT tenant FROM given)
UNION SELECT session FROM payloads WHERE tenant = (SELECT tenant FROM given)
UNION SELECT session FROM transcript WHERE tenant = (SELECT tenant FROM given)
UNION SELECT session FROM step_names WHERE tenant = (SELECT tenant FROM given)
UNION SELECT session FROM outbox WHERE tenant = (SELECT tenant FROM given)
EXCEPT SELECT id FROM sessions WHERE tenant = (SELECT tenant FROM given) ORDER BY 1;

-- name: triggers
-- What would write along with us: placet has none of its own.
SELECT count(*) FROM sqlite_schema WHERE type = 'trigger';

-- name: due
-- Runs, of all tenants, that are to be looked at.
SELECT tenant, session, value, wake_at, id, active FROM runs WHERE wake_at <= ?
ORDER BY wake_at, rowid;

-- name: outbox
-- Notices of a tenant that were neither addressed nor sent.
SELECT id, tenant, session, request, kind, channel, attempts FROM outbox INDEXED BY outbox_new
WHERE tenant = ? AND addressed = 0 ORDER BY id LIMIT ?;

-- name: due_notices
-- Notices that a channel may be given now, in the order of the index: of each request the first.
SELECT id, tenant, session, request, kind, channel, attempts FROM outbox AS o
WHERE tenant = ? AND channel = ? AND addressed = 1 AND due_at <= ? AND NOT EXISTS (
    SELECT 1 FROM outbox AS before WHERE before.tenant = o.tenant AND before.channel = o.channel
    AND before.request = o.request AND before.addressed = 1 AND before.id < o.id
) ORDER BY due_at, id LIMIT ?;

-- name: take_course
-- The right to a course that nobody has: it is free, its holder's time is up, or it is gone.
INSERT INTO courses (tenant, course, token, host, boot, pid, started, until) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET token = excluded.token, host = excluded.host, boot = excluded.boot,
pid = excluded.pid, started = excluded.started, until = excluded.until
WHERE until <= ? OR token IN (excluded.token, ?);

-- name: course
-- Who has the right to a course.
SELECT token, host, boot, pid, started FROM courses WHERE tenant = ? AND course = ?;

-- name: leave_course
-- The right to a course, given up by who has it.
DELETE FROM courses WHERE tenant = ? AND course = ? AND token = ?;

-- name: meta_exists
-- Whether this is a store of ours at all.
SELECT count(*), total(name = 'meta') FROM sqlite_schema WHERE type = 'table';

-- name: create_meta
-- What a database says of itself.
CREATE TABLE meta (name TEXT NOT NULL PRIMARY KEY, value INTEGER NOT NULL) STRICT, WITHOUT ROWID;

-- name: keys
-- What the store keeps of the key that it is under.
SELECT name, value FROM keys;

-- name: put_key
-- One thing of the key that the store is under, new or changed.
INSERT INTO keys (name, value) VALUES (?, ?) ON CONFLICT DO UPDATE SET value = excluded.value;

-- name: drop_keys
-- Nothing of another key is left.
DELETE FROM keys;

-- name: meta
-- One thing that a database says of itself.
SELECT value FROM meta WHERE name = ?;

-- name: put_meta
-- One thing that a database says of itself, new or changed.
INSERT INTO meta (name, value) VALUES (?, ?) ON CONFLICT DO UPDATE SET value = excluded.value;

-- name: grants
-- The standing grants of a session.
SELECT value, id FROM grants WHERE tenant = ? AND session = ?;

-- name: put_grant
-- A grant that was given, or counted on.
INSERT OR REPLACE INTO grants (value, tenant, session, id) VALUES (?, ?, ?, ?);

-- name: delete_grant
-- A grant that has ended.
DELETE FROM grants WHERE tenant = ? AND session = ? AND id = ?;
