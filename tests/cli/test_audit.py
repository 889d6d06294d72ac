"""Keys, anchors, receipts, traces and erasure at the command line (H4)."""

from __future__ import annotations

import json
import shutil
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from placet.stores.sealing import PlacetKey
from tests.cli.place import Ended, Place, do
from tests.cli.test_documents import documented


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.chdir(home)
    return Place(home)


@pytest.fixture
def keyed(place: Place, tmp_path: Path) -> Place:
    """Give a place whose store is to be under a key, with a pair that signs."""
    for words in (("new", "../store.key"), ("new", "--signing", "../signing.pem")):
        assert do("keys", *words).code == 0
    more = [
        'key_file = "../store.key"',
        'signing_key_file = "../signing.pem"',
        'anchors = "../anchors.jsonl"',
    ]
    path = place.directory / "placet.toml"
    path.write_text("\n".join(more) + "\n" + path.read_text(encoding="utf-8"), encoding="utf-8")
    return place


def decided(place: Place, *, session: str = "main", reason: str = "the card 4000-0012") -> str:
    """Have a run whose request is rejected, and give the request."""
    begun = do("run", "--agent", "shop", "--session", session, "please", "--json").document
    (request,) = begun["waiting"]
    assert do("reject", request, "--reason", reason, by="ana").code == 0
    do("resume", begun["run_id"])
    return str(request)


def error(done: Ended) -> str:
    return str(done.error["code"])


def stored() -> bytes:
    return b"".join(path.read_bytes() for path in sorted(Path().glob("placet.db*")))


# --- keys -----------------------------------------------------------------------------------------


@pytest.mark.promise("H4")
def test_keys_are_made_in_files_of_their_owner_alone_and_never_over_one(place: Place) -> None:
    made = do("keys", "new", "one.key", "--json")
    assert set(made.document) == documented("keys new")
    text = Path("one.key").read_text(encoding="ascii")
    assert len(bytes.fromhex(text)) == 32
    assert text.strip() not in made.out
    assert do("keys", "new", "--signing", "pair.pem").code == 0
    modes = {
        name: stat.S_IMODE(Path(name).stat().st_mode)
        for name in ("one.key", "pair.pem", "pair.pem.pub")
    }
    assert modes == {"one.key": 0o600, "pair.pem": 0o600, "pair.pem.pub": 0o644}
    for words in (("one.key",), ("--signing", "pair.pem"), ("--signing", "one.key")):
        assert error(do("keys", "new", *words, "--json")) == "file_exists"
    assert Path("one.key").read_text(encoding="ascii") == text


def test_a_key_that_is_gone_from_under_a_store_is_to_be_put_back(keyed: Place) -> None:
    decided(keyed)
    Path("../store.key").rename("../elsewhere.key")
    gone = do("audit", "verify", "--json")

    assert (gone.code, error(gone)) == (2, "setting_invalid")
    assert gone.error["hint"].startswith("Put the key back, where a store is under it: ")


@pytest.mark.promise("H4")
def test_a_store_under_a_key_hides_its_texts_and_is_sound(keyed: Place) -> None:
    decided(keyed)
    assert b"4000-0012" not in stored()
    found = do("audit", "verify", "--json").document
    assert found["sound"]
    assert [(each["texts"], each["unchecked"]) for each in found["sessions"]] == [("sealed", [])]
    assert set(found) == documented("audit verify")


@pytest.mark.promise("H4")
def test_what_is_wrong_with_one_session_hides_none_of_the_others(place: Place) -> None:
    for name in ("a", "b", "c", "d"):
        decided(place, session=name)
    with closing(sqlite3.connect("placet.db")) as connection, connection:
        connection.execute(f"UPDATE events SET at = {2**63 - 1} WHERE session = 'a' AND seq = 3")
        connection.execute("UPDATE sessions SET surfaces = '{' WHERE id = 'b'")
        connection.execute("DELETE FROM sessions WHERE id = 'c'")
        connection.execute("UPDATE payloads SET body = 5 WHERE session = 'd'")

    found = do("audit", "verify", "--json")

    assert found.code == 1
    codes = {
        each["session"]: {finding["code"] for finding in each["findings"]}
        for each in found.document["sessions"]
    }
    assert codes == {
        "a": {"unreadable_record"},
        "b": {"unreadable_state"},
        "c": {"lost_session"},
        "d": {"changed_text"},
    }
    with closing(sqlite3.connect("placet.db")) as connection, connection:
        connection.execute("DELETE FROM sessions")
    nothing = do("audit", "verify")
    assert nothing.code == 1
    assert "NOT SOUND" in nothing.out


@pytest.mark.promise("H4", "G1")
def test_another_key_and_none_are_said_and_nothing_runs(
    keyed: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = decided(keyed)
    toml = Path("placet.toml").read_text(encoding="utf-8")
    Path("placet.toml").write_text(toml.replace("key_file", "#", 1), encoding="utf-8")
    begun = do("run", "--agent", "shop", "--session", "x", "go", "--json")
    assert (error(begun), begun.code) == ("key_missing", 6)
    assert "PLACET_KEY" in begun.error["hint"]
    assert do("runs").code == 0
    assert error(do("show", request, "--json")) == "key_missing"
    verified = do("audit", "verify", "--json").document
    assert verified["sound"]
    assert len(verified["sessions"][0]["unchecked"]) == 2
    assert "problem  key" in do("doctor").out

    monkeypatch.setenv("PLACET_KEY", "00" * 32)
    assert error(do("runs", "--json")) == "wrong_key"
    assert do("doctor").code == 1
    monkeypatch.setenv("PLACET_KEY", "not a key")
    assert error(do("runs", "--json")) == "setting_invalid"
    monkeypatch.setenv("PLACET_KEY", Path("../store.key").read_text(encoding="ascii"))
    assert do("show", request).code == 0
    Path("placet.toml").write_text(toml, encoding="utf-8")
    assert "several settings" in do("runs", "--json").error["message"]


@pytest.mark.promise("H4")
@pytest.mark.slow
def test_old_sessions_are_taken_under_a_key_if_they_are_sound(place: Place) -> None:
    decided(place)
    decided(place, session="touched")
    assert error(do("keys", "seal", "--json")) == "setting_invalid"
    do("keys", "new", "../store.key")
    environment = {"PLACET_KEY_FILE": str(Path("../store.key").resolve())}
    with closing(sqlite3.connect("placet.db")) as connection, connection:
        change = "UPDATE requests SET value = json_set(value, '$.rule', 'x') WHERE session = ?"
        connection.execute(change, ("touched",))
    before = place.placet("audit", "verify", **environment)
    assert before.code == 1
    assert "unkeyed_head" in before.out

    sealed = place.placet("keys", "seal", "--json", **environment)
    assert set(sealed.document) == documented("keys seal")
    assert sealed.code == 1
    taken = {each["session"]: each for each in sealed.document["sessions"]}
    assert (taken["main"]["taken"], taken["touched"]["taken"]) == (True, False)
    assert taken["main"]["sealed"] > 3
    assert "changed_state" in taken["touched"]["findings"]
    after = place.placet("audit", "verify", "--session", "main", "--json", **environment)
    assert after.document["sound"]
    assert after.document["sessions"][0]["texts"] == "sealed"


@pytest.mark.promise("H4")
def test_the_key_is_changed_by_a_command_and_the_old_one_is_shut_out(
    keyed: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = decided(keyed)
    old = Path("../store.key").rename("../old.key")
    do("keys", "new", "../store.key")
    assert error(do("show", request, "--json")) == "wrong_key"
    assert error(do("keys", "rotate", "--json")) == "setting_invalid"
    monkeypatch.setenv("PLACET_OLD_KEY_FILE", str(old))
    rotated = do("keys", "rotate", "--json")
    assert rotated.document == {"sessions": 1, "old_is_gone": True}
    monkeypatch.delenv("PLACET_OLD_KEY_FILE")
    assert do("show", request).code == 0
    assert do("audit", "verify").code == 0


@pytest.mark.promise("H4")
def test_after_a_change_of_the_key_a_worker_makes_the_anchors_sound(
    keyed: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = keyed.directory / "placet.toml"
    lines = path.read_text(encoding="utf-8").splitlines()
    kept = [line for line in lines if not line.startswith("signing_key_file")]
    path.write_text("\n".join(kept), encoding="utf-8")
    decided(keyed)
    assert do("worker", "--once").code == 0
    verify = ("audit", "verify", "--anchors", "../anchors.jsonl")
    assert do(*verify).code == 0

    monkeypatch.setenv("PLACET_OLD_KEY_FILE", str(Path("../store.key").rename("../old.key")))
    do("keys", "new", "../store.key")
    rotated = do("keys", "rotate")
    monkeypatch.delenv("PLACET_OLD_KEY_FILE")
    assert "`placet worker --once`" in rotated.out
    assert "[unsigned_anchors]" in do(*verify).out
    assert do("worker", "--once").code == 0

    assert do(*verify).code == 0


def test_doctor_says_who_could_read(keyed: Place) -> None:
    decided(keyed)
    told = do("doctor").out
    assert "1 sealed" in told
    assert "store.key" in told
    Path("../store.key").chmod(0o644)
    assert "warning  key" in do("doctor").out


def test_doctor_says_that_texts_are_plain_and_anchors_are_none(place: Place) -> None:
    decided(place)
    told = do("doctor").out
    assert "texts are plain" in told
    assert "plain texts are read by" in told
    assert "none are kept" in told


# --- anchors --------------------------------------------------------------------------------------


@pytest.mark.promise("H4")
def test_anchors_that_a_worker_kept_show_a_backup_that_was_put_in_place(keyed: Place) -> None:
    decided(keyed)
    assert do("worker", "--once").code == 0
    shutil.copy("placet.db", "../backup.db")
    decided(keyed, session="later")
    assert do("worker", "--once").code == 0
    held = do("audit", "verify", "--anchors", "../anchors.jsonl", "--json")
    assert held.code == 0
    assert (held.document["anchors"]["anchors"], held.document["anchors"]["vouched"]) == (2, 2)

    shutil.copy("../backup.db", "placet.db")
    assert do("audit", "verify").code == 0
    words = ("--anchors", "../anchors.jsonl", "--public-key", "../signing.pem.pub")
    found = do("audit", "verify", *words)
    assert found.code == 1
    assert "[lost_session]" in found.out
    lost = do("audit", "verify", *words, "--session", "later", "--json").document
    assert [each["code"] for each in lost["anchors"]["differences"]] == ["lost_session"]
    assert "anchors_disagree" in do("worker", "--once").err


# --- receipts -------------------------------------------------------------------------------------


@pytest.mark.promise("H4")
def test_a_receipt_is_checked_with_the_public_key_alone(keyed: Place, tmp_path: Path) -> None:
    request = decided(keyed)
    receipt = do("audit", "receipt", request).out
    assert set(json.loads(receipt)) == documented("audit receipt")
    assert "4000-0012" not in receipt
    away = tmp_path / "away"
    away.mkdir()
    (away / "receipt.json").write_text(receipt, encoding="utf-8")
    shutil.copy("../signing.pem.pub", away / "public.pem")
    words = ["audit", "verify-receipt", "receipt.json", "--public-key", "public.pem"]
    ran = subprocess.run(
        [sys.executable, "-m", "placet", *words],
        cwd=away,
        env=keyed.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert "decision       reject" in ran.stdout
    assert "by             ana" in ran.stdout
    assert sorted(each.name for each in away.iterdir()) == ["public.pem", "receipt.json"]

    Path("forged.json").write_text(receipt.replace('"by": "ana"', '"by": "ben"'), encoding="utf-8")
    forged = do("audit", "verify-receipt", "forged.json", "--public-key", "../signing.pem.pub")
    assert forged.code == 1
    assert "NOT VALID" in forged.out
    do("keys", "new", "--signing", "../other.pem")
    other = do("audit", "verify-receipt", "forged.json", "--public-key", "../other.pem.pub")
    assert other.code == 1


@pytest.mark.promise("H4")
def test_a_receipt_of_a_quorum_shows_each_vote_with_its_instant(keyed: Place) -> None:
    keyed.write(
        "placet.policy.toml",
        'version = 1\n[[rule]]\nname = "two"\nruling = "ask"\ntools = ["refund"]\n'
        'approvers = ["ana", "ben"]\nquorum = 2',
    )
    begun = do("run", "--agent", "shop", "--session", "main", "please", "--json")
    (request,) = begun.document["waiting"]
    for person in ("ana", "ben"):
        assert do("approve", request, by=person).code == 0
    document = do("audit", "receipt", request, "--json")
    Path("receipt.json").write_text(document.out, encoding="utf-8")

    checked = do("audit", "verify-receipt", "receipt.json", "--public-key", "../signing.pem.pub")

    first, second = document.document["receipt"]["votes"]
    assert checked.code == 0
    assert f"vote           ana at {first['at']}, via token\n" in checked.out
    assert f"vote           ben at {second['at']}, via token\n" in checked.out


# --- traces and erasure ---------------------------------------------------------------------------


@pytest.mark.promise("H4")
@pytest.mark.conformance(38)
def test_a_trace_of_one_session_passes_agentack(keyed: Place) -> None:
    decided(keyed)
    decided(keyed, session="other")
    assert error(do("audit", "export", "--format", "agentack", "--json")) == "which_session"
    trace = do("audit", "export", "--format", "agentack", "--session", "main").out
    Path("trace.jsonl").write_text(trace, encoding="utf-8")
    tool = json.loads(trace.splitlines()[0])["action"]["tool"].replace("_", "-")
    policy = f'version = 1\n[approval]\nrequire_for = ["{tool}:*"]\n'
    Path("agentack.toml").write_text(policy, encoding="utf-8")
    words = ["check", "trace.jsonl", "--policy", "agentack.toml"]
    ran = subprocess.run(
        [sys.executable, "-m", "agentack", *words], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout


@pytest.mark.promise("H4")
@pytest.mark.parametrize("is_keyed", [True, False])
def test_an_erased_session_is_gone_from_the_file_and_sound(
    request: pytest.FixtureRequest, is_keyed: bool
) -> None:
    place: Place = request.getfixturevalue("keyed" if is_keyed else "place")
    asked = decided(place)
    decided(place, session="other", reason="another")
    assert do("worker", "--once").code == 0
    assert (b"4000-0012" in stored()) == (not is_keyed)

    refused = do("erase", "main", "--json")
    assert error(refused) == "not_confirmed"
    done = do("erase", "main", "--yes", "--cause", "asked for", "--json")
    assert done.document == {"session": "main", "erased": True, "is_gone": True}
    assert b"4000-0012" not in stored()

    anchors = ("--anchors", "../anchors.jsonl") if is_keyed else ()
    found = do("audit", "verify", *anchors, "--json").document
    assert found["sound"]
    assert [each["texts"] for each in found["sessions"]] == [
        "erased",
        "sealed" if is_keyed else "plain",
    ]
    assert found["sessions"][0]["unchecked"] == ["the texts were erased"]
    shown = do("show", asked, "--json")
    assert (error(shown), shown.code) == ("erased", 5)
    assert error(do("run", "--agent", "shop", "--session", "main", "go", "--json")) == (
        "session_erased"
    )
    log = do("audit", "export", "--session", "main").out
    assert json.loads(log.splitlines()[-1])["kind"] == "SessionEnded"
    assert '\\"cause\\":\\"asked for\\"' in log
    assert do("audit", "export", "--format", "agentack", "--session", "main").code == 0
    assert do("export", "--layout", "files", "out").code == 0
    assert do("inbox").code == do("runs").code == do("doctor").code == 0


@pytest.mark.promise("H4")
def test_a_session_that_is_open_is_not_erased(place: Place) -> None:
    run, _ = place.waiting()
    refused = do("erase", "main", "--yes", "--json")
    assert (error(refused), refused.code) == ("run_open", 3)
    assert error(do("erase", "nobody", "--yes", "--json")) == "session_not_found"
    do("cancel", run)
    assert do("erase", "main", "--yes").code == 0


@pytest.mark.promise("G10")
@pytest.mark.parametrize(
    "words",
    [
        ("erase", "main", "--yes"),
        ("keys", "new", "k"),
        ("keys", "rotate"),
        ("keys", "seal"),
        ("audit", "receipt", "rq_1"),
    ],
)
def test_what_a_tool_starts_touches_no_key_and_erases_nothing(
    place: Place, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    place.waiting()
    monkeypatch.setenv("PLACET_INSIDE_TOOL", "pay")
    done = do(*words, "--json")
    assert (error(done), done.code) == ("inside_tool", 4)
    assert not Path("k").exists()


def test_a_key_port_is_named_by_the_settings(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLACET_KEY_PORT", "tests.cli.test_audit:port")
    decided(place)
    assert b"4000-0012" not in stored()
    assert do("audit", "verify").code == 0
    monkeypatch.setenv("PLACET_KEY_PORT", "tests.cli.test_audit:nothing_there")
    assert error(do("runs", "--json")) == "setting_invalid"


def port() -> PlacetKey:
    """Give a key port."""
    return PlacetKey(b"p" * 32)
