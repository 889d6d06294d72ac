"""The operator's commands: the record, state as files, the doctor, tokens, the demonstration."""

from __future__ import annotations

import json
import re
import sqlite3
import stat
import sys
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from placet.core.codec import chain_hash, micros_of
from placet.core.errors import InvalidInput
from placet.runtime.state_files import export, read_directory, safe_name
from placet.settings import Settings, current_account
from placet.stores.sqlite import SqliteStore
from tests.cli.place import LEGACY, Place, do


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.chdir(tmp_path)
    return Place(tmp_path)


# --- the record -----------------------------------------------------------------------------------


@pytest.mark.promise("H4")
def test_verify_says_sound_and_names_what_it_cannot_find(place: Place) -> None:
    place.waiting()

    sound = do("audit", "verify")

    assert sound.code == 0
    assert "1 session, 6 events: sound" in sound.out
    assert "keep the heads elsewhere" in sound.out
    assert "verifying session main" in sound.err


@pytest.mark.promise("H4")
def test_verify_finds_a_request_that_was_changed_by_hand(place: Place) -> None:
    _, request = place.waiting()
    place.waiting(session="untouched")
    with closing(sqlite3.connect("placet.db")) as connection, connection:
        connection.execute(
            "UPDATE requests SET pending = 2, value = json_set(value, '$.state', json(?))"
            " WHERE id = ?",
            ('{"is":"Approved","votes":["eve"]}', request),
        )

    found = do("audit", "verify", "--json")
    told = do("audit", "verify", "--session", "main")

    assert (found.code, found.document["sound"]) == (1, False)
    assert [each["sound"] for each in found.document["sessions"]] == [False, True]
    assert told.code == 1
    assert f"request {request} is not what the events lead to [changed_state]" in told.out


@pytest.mark.promise("H4")
def test_an_exported_log_can_be_verified_without_placet(place: Place) -> None:
    place.waiting()
    place.waiting(session="other")

    lines = [
        json.loads(line) for line in do("audit", "export", "--session", "main").out.split("\n")[:-1]
    ]

    assert {line["session"] for line in lines} == {"main"}
    previous = ""
    for number, line in enumerate(lines, start=1):
        assert (line["seq"], line["previous"]) == (number, previous)
        at = _instant(line["at"])
        previous = chain_hash(
            previous, seq=number, at_micros=at, kind=line["kind"], body=line["body"]
        )
        assert line["hash"] == previous
    assert do("audit", "export", "--json").out.count("\n") == 2 * len(lines)


def _instant(text: str) -> int:
    from datetime import datetime

    return micros_of(datetime.fromisoformat(text))


# --- state as files -------------------------------------------------------------------------------


def files_of(directory: Path) -> dict[str, Any]:
    return {
        str(path.relative_to(directory)): json.loads(path.read_text())
        for path in directory.rglob("*.json")
    }


def test_an_export_has_the_layout_and_the_names_of_older_systems(place: Place) -> None:
    run, request = place.waiting()
    do("approve", request, by="ana")

    done = do("export", "--layout", "files", "out", "--json")

    found = files_of(Path("out"))
    approval = found[f"sessions/main/approvals/{request}.json"]
    checkpoint = found[f"sessions/main/checkpoints/{run}.1.json"]
    assert len(found) == 2
    assert done.document["approvals"] == done.document["checkpoints"] == 1
    assert set(approval) >= LEGACY
    assert (approval["status"], approval["checkpoint_id"]) == ("approved", f"{run}.1")
    assert approval["action"]["arguments"] == {"order_id": "A-1", "amount": 129}
    assert [row["kind"] for row in checkpoint["transcript"]] == ["message", "turn"]
    modes = {stat.S_IMODE(path.stat().st_mode) for path in Path("out").rglob("*.json")}
    assert modes == {0o600}


@pytest.mark.promise("G11")
@pytest.mark.parametrize("session", ["../../escaped", "/etc", "a/b", ".hidden", "..", "x" * 500])
def test_no_name_of_a_session_leads_out_of_the_directory(place: Place, session: str) -> None:
    place.waiting(session=session)
    before = {path.name for path in Path.cwd().parent.iterdir()}

    assert do("export", "--layout", "files", "out/deep").code == 0

    assert len(list(Path("out/deep/sessions").iterdir())) == 1
    assert len(files_of(Path("out/deep"))) == 2
    assert {path.name for path in Path("out").iterdir()} == {"deep"}
    assert {path.name for path in Path.cwd().parent.iterdir()} == before


def test_no_two_ids_share_a_file() -> None:
    names = ["a/b", "a%2Fb", "a_b", "..", ".", "", "%", "x" * 500, "x" * 501, "\ud800", "é"]

    made = [safe_name(name) for name in names]

    assert len(set(made)) == len(names)
    assert all(name and "/" not in name and not name.startswith(".") for name in made)
    assert max(map(len, made)) <= 100


@pytest.mark.parametrize("where", ["a-file/out", "/proc/placet/out", "n" * 300])
def test_an_export_to_where_nothing_may_be_written_says_so(place: Place, where: str) -> None:
    place.waiting()
    Path("a-file").write_text("", encoding="utf-8")

    refused = do("export", "--layout", "files", where, "--json")

    assert (refused.code, refused.error["code"]) == (2, "file_unwritable")
    assert where in refused.error["message"]
    assert "may write" in refused.error["hint"]


def test_an_export_touches_no_directory_that_holds_something(place: Place) -> None:
    place.waiting()
    Path("out").mkdir()
    Path("out/mine").touch()

    refused = do("export", "--layout", "files", "out", "--json")

    assert (refused.code, refused.error["code"]) == (2, "directory_not_empty")
    assert [path.name for path in Path("out").iterdir()] == ["mine"]


def old_state(directory: Path, records: Mapping[str, object]) -> None:
    """Write what an older system left: a text as it is, anything else as JSON."""
    for name, record in records.items():
        path = directory / "sessions" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(record if isinstance(record, str) else json.dumps(record))


def old(approval: str, status: str) -> dict[str, object]:
    return {"approval_id": approval, "run_id": "r1", "status": status, "action_digest": "d"}


@pytest.mark.promise("G1")
@pytest.mark.conformance(37)
def test_an_old_directory_is_read_and_its_stuck_approvals_are_reported(place: Place) -> None:
    _, request = place.waiting()
    records = {
        "s1/approvals/a1.json": old("a1", "approved"),
        "s1/approvals/a2.json": old("a2", "consumed"),
        "s2/approvals/a3.json": old("a3", "approved"),
        "s2/approvals/a4.json": old("a4", "pending"),
        "s2/approvals/a5.json": old("a5", "approved") | {"approval_id": request},
        "s2/checkpoints/c1.json": {"checkpoint_id": "c1"},
        "s2/approvals/torn.json": '{"approval_id": "a6", "status": "appr',
        "s2/approvals/array.json": [],
        "s2/approvals/nameless.json": {"status": "approved"},
        "s2/approvals/notes.txt": "hello",
        "s2/approvals/bytes.json": "\x00",
    }
    old_state(Path("old"), records)

    found = do("import", "--layout", "files", "old", "--json")
    told = do("import", "--layout", "files", "old")

    document = found.document
    assert (found.code, told.code) == (0, 0)
    assert document["by_status"] == {"approved": 3, "consumed": 1, "pending": 1}
    assert document["checkpoints"] == 1
    assert [each["approval_id"] for each in document["stuck"]] == ["a1", "a3", request]
    assert "whether the effect happened" in document["stuck"][0]["what_to_do"]
    assert len(document["malformed"]) == 5
    counted = document["approvals"] + document["checkpoints"] + len(document["malformed"])
    assert counted == len(records), "every file is counted or named"
    assert "3 approved and never finished" in told.out
    assert "sessions/s2/approvals/torn.json: " in told.out
    # An old approval is never spent, not even one that names a request which waits here.
    assert place.status(request) == "waiting"
    assert place.effects == []


def test_what_was_exported_can_be_read_again(place: Place) -> None:
    _, request = place.waiting()
    do("approve", request, by="ana")
    store = SqliteStore("placet.db")
    export(store, "main", Path("out"))
    store.close()

    found = read_directory(Path("out"))

    assert dict(found.by_status) == {"approved": 1}
    assert [each.approval_id for each in found.stuck] == [request]
    with pytest.raises(InvalidInput):
        read_directory(Path("out/sessions"))


# --- the doctor -----------------------------------------------------------------------------------


def checks(*words: str) -> dict[str, tuple[str, str]]:
    found = do("doctor", "--json", *words).document["checks"]
    return {check["name"]: (check["health"], check["detail"]) for check in found}


def test_the_doctor_says_how_things_are(place: Place) -> None:
    place.waiting()

    found = checks("--agent-account", "nobody")

    assert do("doctor").code == 0
    assert found["store"][0] == "ok"
    assert f"sqlite {sqlite3.sqlite_version}" in found["store"][1]
    assert found["python"] == ("ok", ".".join(map(str, sys.version_info[:3])))
    assert found["file mode"] == ("ok", "0600")
    assert found["agent account"] == ("ok", "nobody cannot reach the store")
    assert found["deadlines"] == ("ok", "1 request waits, none past its deadline")
    assert found["approvers"] == ("ok", "ana, ben")
    assert found["tokens"] == ("warning", "mallory: a token, and no approver")


@pytest.mark.promise("G10")
def test_the_doctor_warns_of_approvers_whom_nobody_can_know(place: Place) -> None:
    place.write("placet.toml", 'app = "tests.cli.app:agents"\napprovers = ["ghost", "root"]')
    do("run", "--agent", "shop", "go")
    one = checks()
    place.write("placet.toml", 'app = "tests.cli.app:agents"\napprovers = ["ghost"]')
    begun = do("run", "--agent", "shop", "--session", "2", "go", "--json").document
    none = checks()

    health, detail = one["approvers"]
    assert health == "warning"
    assert detail == "ghost, root; neither a token nor an account here: ghost (`placet token`)"
    assert one["asked of"][0] == "ok"
    assert none["asked of"] == (
        "warning",
        f"of those asked nobody has a token, or an account here: {begun['waiting'][0]}",
    )


@pytest.mark.promise("G10")
def test_the_doctor_says_that_the_agents_account_can_reach_the_store(place: Place) -> None:
    place.waiting()

    same = checks()
    Path("placet.db").chmod(0o622)
    written = checks("--agent-account", "nobody")
    Path("placet.db").chmod(0o600)
    Path.cwd().chmod(0o777)
    replaced = checks("--agent-account", "nobody")

    assert same["agent account"][0] == "warning"
    assert "could change it" in same["agent account"][1]
    assert written["file mode"][0] == "problem"
    assert "could change it" in written["agent account"][1]
    assert "could put another file in its place" in replaced["agent account"][1]
    assert checks("--agent-account", "no such account")["agent account"][0] == "problem"


@pytest.mark.promise("G1")
@pytest.mark.conformance(6)
def test_the_doctor_warns_where_nobody_may_decide(place: Place) -> None:
    place.write("placet.toml", "approvers = []")

    assert checks()["approvers"][0] == "warning"
    assert "no_approver" in checks()["approvers"][1]


def test_the_doctor_fails_where_something_is_broken(place: Place) -> None:
    place.waiting()
    Path("placet.db").chmod(0o666)
    assert do("doctor").code == 1
    Path("bad.db").write_text("no database" * 1000)

    broken = do("doctor", "--store", "sqlite:///bad.db", "--json")

    assert (broken.code, broken.document["ok"]) == (1, False)
    assert "store_damaged" in broken.document["checks"][1]["detail"]
    assert do("doctor", "--store", "sqlite:///none.db").code == 0
    assert not Path("none.db").exists()


def test_the_doctor_names_what_is_late_and_what_is_unsettled(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, request = place.waiting("risky")
    do("approve", request, by="ana")
    place.placet("resume", run)
    settlement = do("resume", run, "--json").document["waiting"][0]
    with closing(sqlite3.connect("placet.db")) as connection, connection:
        connection.execute(
            "UPDATE requests SET deadline_at = 1,"
            " value = json_set(value, '$.deadline_at', 1) WHERE id = ?",
            (settlement,),
        )

    found = checks()

    assert found["deadlines"][0] == found["settlements"][0] == "warning"
    assert settlement in found["deadlines"][1]
    assert settlement in found["settlements"][1]


# --- tokens and the demonstration -----------------------------------------------------------------


@pytest.mark.promise("G10")
@pytest.mark.parametrize("name", ["ana", "Ana Ångström", "o'neil", 'a"b\\c', "a.b@example.com"])
def test_a_token_and_its_line_fit_and_nothing_else_is_kept(place: Place, name: str) -> None:
    made = do("token", name, "--json").document
    again = do("token", name, "--json").document
    text = do("token", name).out

    assert made["token"] != again["token"]
    assert len(made["token"]) >= 43
    assert tomllib.loads(made["line"]) == {name: sha256(made["token"].encode()).hexdigest()}
    Path("placet.toml").unlink()
    text = do("token", name).out
    settings = tomllib.loads(text[text.index("\napprovers = ") :])
    assert settings["approvers"] == [*dict.fromkeys([current_account(), name])]
    assert settings["approver_tokens"].keys() == {name}
    assert "holds the token and nothing else" in text
    assert not Path("placet.db").exists()


def lines_for_the_file(told: str) -> list[str]:
    """Give what `token` says is to be written, line by line."""
    part = told[told.index("For placet.toml") :]
    return [line for line in part.splitlines() if re.match(r"\[|approvers = |\w+ = ", line)]


def test_what_a_token_needs_in_the_file_is_printed_once_and_never_what_is_there(
    place: Place,
) -> None:
    assert lines_for_the_file(do("token", "ana").out)[0].startswith('ana = "')
    assert "in place of the line of ana" in do("token", "ana").out
    named, approvers = lines_for_the_file(do("token", "zoe").out)
    assert "a line of its table [approver_tokens]:" in do("token", "zoe").out
    assert named.startswith('zoe = "')
    assert approvers == 'approvers = ["ana", "ben", "zoe"]'

    place.write("placet.policy.toml", 'version = 1\n[defaults]\napprovers = ["zoe"]')
    (line,) = lines_for_the_file(do("token", "zoe").out)
    place.write("placet.toml", f"{Path('placet.toml').read_text(encoding='utf-8')}{line}")
    assert "zoe" in Settings.load({}).approver_tokens

    place.write("placet.toml", 'approvers = ["ben"]')
    head, line = lines_for_the_file(do("token", "ben").out)
    assert head == "[approver_tokens]"
    place.write("placet.toml", f'approvers = ["ben"]\n{head}\n{line}')
    assert "ben" in Settings.load({}).approver_tokens


def test_a_token_that_was_made_decides(place: Place) -> None:
    _, request = place.waiting()
    made = do("token", "ana", "--json").document
    place.write("placet.toml", f'approvers = ["ana"]\n[approver_tokens]\n{made["line"]}')

    approved = place.placet("approve", request, "--json", by=made["token"])

    assert approved.document["by"] == "ana"


def test_the_demonstration_gets_its_own_options(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[str]] = []

    def tell(given: Sequence[str]) -> int:
        seen.append(list(given))
        return 3

    story = ModuleType("placet.demo.story")
    story.main = tell  # type: ignore[attr-defined]  # A module made for this test.
    monkeypatch.setitem(sys.modules, "placet.demo.story", story)

    assert do("demo", "--model", "m", "x").code == 3
    assert do("demo", "--help").code == 3
    assert seen == [["--model", "m", "x"], ["--help"]]
