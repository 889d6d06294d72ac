"""The policy file is looked at before every ruling, and what cannot be taken allows nothing."""

from __future__ import annotations

import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from placet.policy.rules import Policy
from placet.runtime.policies import FILE, SETTLES_NS, PolicyFile, Standing
from placet.runtime.protected import protected_paths

ALLOW = 'version = 1\n[[rule]]\nname = "a"\nruling = "allow"\n'
ASK = ALLOW.replace('"allow"', '"ask"  ')
BROKEN = ALLOW.replace('"allow"', '"alow"')
PEOPLE = ("ana",)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / FILE
    found.write_text(ALLOW, encoding="utf-8")
    return found


def ruling(standing: Standing) -> str:
    assert standing.policy is not None
    return standing.policy.rules[0].ruling


def settle(path: Path) -> None:
    """Make a file look as though nobody had changed it for long, as far as its account can."""
    old = time.time_ns() - 3 * SETTLES_NS
    os.utime(path, ns=(old, old))


def trouble(standing: Standing) -> str:
    assert standing.trouble is not None
    assert standing.policy is None
    return standing.trouble.message.partition(": ")[2]


def test_a_file_that_is_only_looked_for_may_be_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    standing = PolicyFile.of("").now(PEOPLE)

    assert (standing.policy, standing.trouble) == (None, None)
    assert standing.anybody


def test_the_file_of_the_directory_is_found_and_stays_that_of_this_directory(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(path.parent)
    file = PolicyFile.of("")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")

    assert ruling(file.now(PEOPLE)) == "allow"


@pytest.mark.promise("G1")
def test_a_file_that_is_named_and_missing_allows_nothing(tmp_path: Path) -> None:
    assert trouble(PolicyFile(tmp_path / "none.toml").now(PEOPLE)) == "It is not there."


@pytest.mark.promise("G1")
def test_a_file_that_was_there_and_is_taken_away_allows_nothing(path: Path) -> None:
    file = PolicyFile(path, named=False)
    file.now(PEOPLE)
    path.unlink()

    assert trouble(file.now(PEOPLE)) == "It is not there."
    path.write_text(ALLOW, encoding="utf-8")
    assert ruling(file.now(PEOPLE)) == "allow"


@pytest.mark.promise("G1")
def test_what_is_no_file_allows_nothing_and_nobody_waits_for_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    assert trouble(PolicyFile(tmp_path / "pipe").now(PEOPLE)) == "It is no file."
    assert trouble(PolicyFile(tmp_path).now(PEOPLE)) == "It is no file."


@pytest.mark.promise("G1")
def test_a_broken_version_allows_nothing_until_it_is_mended(path: Path) -> None:
    file = PolicyFile(path)
    file.now(PEOPLE)
    path.write_text(BROKEN, encoding="utf-8")

    assert trouble(file.now(PEOPLE)).startswith("ruling must be one of allow, ask, deny.")
    path.write_text(ALLOW, encoding="utf-8")
    assert ruling(file.now(PEOPLE)) == "allow"


@pytest.mark.parametrize("settled", [True, False])
def test_a_change_is_seen_at_the_next_look(path: Path, settled: bool) -> None:
    file = PolicyFile(path)
    if settled:
        settle(path)
    assert ruling(file.now(PEOPLE)) == "allow"

    path.write_text(ASK, encoding="utf-8")

    assert ruling(file.now(PEOPLE)) == "ask"


def test_a_change_within_one_tick_of_the_files_clock_is_seen(path: Path) -> None:
    """A change that leaves size and times as they are cannot hide while they are young."""
    file = PolicyFile(path)
    before = path.stat()
    assert ruling(file.now(PEOPLE)) == "allow"

    with path.open("r+", encoding="utf-8") as same:
        same.write(ASK)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    assert path.stat().st_size == before.st_size
    assert path.stat().st_mtime_ns == before.st_mtime_ns
    assert ruling(file.now(PEOPLE)) == "ask"


def test_a_change_is_seen_where_the_files_clock_stands_still(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two changes within one tick of its clock a file system tells the same times."""
    now = time.time_ns()
    at = {"now": now}
    stat, times = os.stat, ("st_mtime_ns", "st_ctime_ns")

    def coarse(target: Path) -> Any:
        found = stat(target)
        same = {name: getattr(found, name) for name in ("st_mode", "st_size", "st_ino", "st_dev")}
        return SimpleNamespace(**same, **dict.fromkeys(times, now))

    monkeypatch.setattr("placet.runtime.policies.os.stat", coarse)
    monkeypatch.setattr("placet.runtime.policies.time.time_ns", lambda: at["now"])
    file = PolicyFile(path)
    for text, expected in ((ALLOW, "allow"), (ASK, "ask"), (ALLOW, "allow")):
        path.write_text(text, encoding="utf-8")
        assert ruling(file.now(PEOPLE)) == expected
    at["now"] += SETTLES_NS + 1
    assert ruling(file.now(PEOPLE)) == "allow"
    path.unlink()
    path.symlink_to("/dev/null")
    assert trouble(file.now(PEOPLE)) == "It is no file."


def test_what_could_not_be_read_once_is_read_again_though_the_file_is_the_same(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle(path)
    file = PolicyFile(path)
    with monkeypatch.context() as broken:

        def fails(*_: object) -> Any:
            raise OSError(5, "Input/output error")

        broken.setattr("builtins.open", fails)
        broken.setattr("placet.runtime.policies.time.time_ns", lambda: 2**62)
        assert trouble(file.now(PEOPLE)) == "It cannot be read: Input/output error."

    assert ruling(file.now(PEOPLE)) == "allow"


def test_what_says_the_same_is_the_same_policy_and_is_not_read_again(path: Path) -> None:
    file = PolicyFile(path)
    first = file.now(PEOPLE).policy
    settle(path)

    again = file.now(PEOPLE).policy

    assert isinstance(first, Policy)
    assert again is first


def test_the_version_names_what_the_file_says_and_who_approves(path: Path) -> None:
    file = PolicyFile(path)
    version = file.now(PEOPLE).version
    assert len(version) == 16

    path.write_text(f"# A note.\n{ALLOW}", encoding="utf-8")
    assert file.now(PEOPLE).version == version
    assert file.now(("bo", "ana")).version == file.now(("ana", "bo")).version != version
    path.write_text(ASK, encoding="utf-8")
    assert file.now(PEOPLE).version != version
    path.write_text(BROKEN, encoding="utf-8")
    assert file.now(PEOPLE).version not in (version, PolicyFile(path.parent).now(PEOPLE).version)


def test_somebody_can_be_asked_where_the_settings_or_the_file_name_somebody(path: Path) -> None:
    assert not PolicyFile(path).now(()).anybody
    path.write_text(f"{ASK}approvers = ['bo']\n", encoding="utf-8")
    assert PolicyFile(path).now(()).anybody
    path.write_text("version = 1\n[defaults]\napprovers = ['bo']\n", encoding="utf-8")
    assert PolicyFile(path).now(()).anybody


@pytest.mark.promise("G10")
def test_the_file_is_out_of_reach_of_the_tools_that_change_files(path: Path) -> None:
    PolicyFile(path)

    assert path in protected_paths()
