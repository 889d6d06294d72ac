"""The reading of shell commands agrees with bash itself, about words and about what is run.

Texts are really run, by a bash that finds no program and hands every command to a function that
writes down its words. Only texts that are not doubtful are run, in an empty directory.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import assume, event, given
from hypothesis import strategies as st

from placet.policy.shell import CommandRule, Parsed, parse, ruling
from placet.policy.shell_words import read_strictly
from tests.policy.shell_corpus import CASES

BASH = shutil.which("bash")
DASH = shutil.which("dash")

needs_bash = pytest.mark.skipif(BASH is None, reason="bash is not installed")

SAW = '() { builtin printf "%s\\0" "$#" "$@" "${A-unset}" >> "$SAW"; return "$RETURNS"; }'
NAMES = ("a", "b", "x1", "q-r", "é")


@dataclass(frozen=True)
class Ran:
    """What bash ran of a text: the words of each command and its A; and the files it made."""

    commands: tuple[tuple[tuple[str, ...], str], ...]
    files: frozenset[str]
    complaint: str


def run(text: str, place: Path, *, returns: int) -> Ran:
    """Run a text with commands that only say how they were called, and return what is said."""
    assert BASH
    shutil.rmtree(place, ignore_errors=True)
    (place / "here").mkdir(parents=True)
    (place / "here" / "in").touch()
    saw = place / "saw"
    saw.touch()
    environment = {
        "PATH": "/nowhere",
        "LC_ALL": "C.UTF-8",
        "SAW": str(saw),
        "RETURNS": str(returns),
        "BASH_FUNC_command_not_found_handle%%": SAW,
    }
    done = subprocess.run(
        [BASH, "--norc", "-c", "--", text],
        cwd=place / "here",
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=30,
        check=False,
    )
    return Ran(
        commands=tuple(_commands(saw.read_text(encoding="utf-8").split("\0")[:-1])),
        files=frozenset(each.name for each in (place / "here").iterdir()) - {"in"},
        complaint=done.stderr.decode("utf-8", "replace"),
    )


def _commands(said: list[str]) -> Iterator[tuple[tuple[str, ...], str]]:
    while said:
        count = int(said[0])
        yield tuple(said[1 : count + 1]), said[count + 1]
        said = said[count + 2 :]


def writes_of(parsed: Parsed) -> set[str]:
    return {
        target
        for command in parsed.commands
        for operator, target in command.redirections
        if ">" in operator and operator.lstrip("0123456789") != ">&"
    }


# --- words ----------------------------------------------------------------------------------------


def quoted(value: str, how: str) -> str:
    """Write a value down as a part of a word, quoted in one of the ways there are."""
    if how == "single" and "'" not in value:
        return f"'{value}'"
    if how == "escaped" and "\n" not in value and value:
        return "".join(f"\\{sign}" for sign in value)
    if how == "double":
        escaped = "".join(f"\\{sign}" if sign in '"\\$`' else sign for sign in value)
        return f'"{escaped}"'
    return shlex.quote(value)


PART = st.tuples(
    st.text(st.sampled_from("ab1é你 \t\n'\"\\$`;|&<>(){}[]*?~!#=,.:-+%@^"), max_size=6),
    st.sampled_from(["single", "escaped", "double", "as shlex does"]),
)
WORDS = st.lists(st.lists(PART, min_size=1, max_size=4), min_size=1, max_size=5)


@pytest.mark.slow
@needs_bash
@pytest.mark.parametrize("shell", [BASH, DASH], ids=["bash", "dash"])
@given(words=WORDS)
def test_quoted_words_are_what_a_shell_makes_of_them(
    shell: str | None, words: list[list[tuple[str, str]]]
) -> None:
    if shell is None:
        pytest.skip("dash is not installed")
    written = ["".join(quoted(value, how) for value, how in parts) for parts in words]
    text = " ".join(["printf '%s\\0'", *written])
    meant = tuple("".join(value for value, _ in parts) for parts in words)
    done = subprocess.run(
        [shell, "-c", "--", text], capture_output=True, check=True, timeout=30, text=True
    )

    reading = read_strictly(text)
    assert reading.doubts == ()
    assert reading.commands[0].words[2:] == meant
    assert parse(text).doubts or parse(text).commands == reading.commands
    assert tuple(done.stdout.split("\0")[:-1]) == meant


# --- commands -------------------------------------------------------------------------------------

PLAIN_WORD = st.sampled_from(
    [
        *NAMES,
        "'a b'",
        '"x;y"',
        "\\$",
        "a\\ b",
        "-l",
        "--x=y",
        "''",
        'a""b',
        "#",
        "a#b",
        "=",
        "2",
        "!",
    ]
)
REDIRECTION = st.sampled_from(
    [
        "> f",
        ">g",
        "2> h",
        "2>>h",
        "&> f",
        ">| g",
        "2>&1",
        ">&2",
        "< in",
        "<<< word",
        "> 'f g'",
        "2>&-",
    ]
)
ASSIGNMENT = st.sampled_from(["A=1", "A='x y'", "A=", 'A="="'])
SEPARATOR = st.sampled_from([";", "\n", " && ", " || ", " | ", "|&", "|", " ;\t", " # c\n", "&&\n"])


@st.composite
def plain_command(draw: st.DrawFn) -> str:
    parts = [
        *draw(st.lists(ASSIGNMENT, max_size=1)),
        *draw(st.lists(REDIRECTION, max_size=1)),
        draw(st.sampled_from(NAMES)),
        *draw(st.lists(st.one_of(PLAIN_WORD, PLAIN_WORD, REDIRECTION), max_size=4)),
    ]
    return draw(st.sampled_from([" ", "  ", "\t"])).join(parts)


@st.composite
def plain_text(draw: st.DrawFn) -> str:
    text = draw(plain_command())
    for _ in range(draw(st.integers(0, 3))):
        text += draw(SEPARATOR) + draw(plain_command())
    return text


@st.composite
def near_plain_text(draw: st.DrawFn) -> str:
    """Give a plain text with one to three signs put in or taken out."""
    text = draw(plain_text())
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(text)))
        sign = draw(
            st.sampled_from([*"'\"\\$`;|&<>(){}[]*?~!#=,:-+ \t\n12aé", "", "\\\n", "<<", " A=2 "])
        )
        text = text[:at] + sign + text[at + draw(st.integers(0, 1)) :]
    return text


def agree(text: str, parsed: Parsed, place: Path) -> None:
    """Hold what bash ran, in two worlds, to what was parsed: nothing that was not is run."""
    known = Counter(command.words for command in parsed.commands if command.words)
    values = {
        (command.words, dict(command.assignments).get("A", "unset")) for command in parsed.commands
    }
    seen: set[tuple[str, ...]] = set()
    complaints = ""
    for returns in (0, 1):
        ran = run(text, place, returns=returns)
        words = Counter(words for words, _ in ran.commands)
        assert words <= known, (text, ran)
        assert ran.files <= writes_of(parsed), (text, ran)
        assert "syntax error" not in ran.complaint, (text, ran)
        assert "unexpected" not in ran.complaint, (text, ran)
        sets_later = any(command.assignments and not command.words for command in parsed.commands)
        assert sets_later or set(ran.commands) <= values, (text, ran)
        seen |= set(words)
        complaints += ran.complaint
    bare = any(not command.words for command in parsed.commands)  # It always returns 0.
    silent = "2>" in text or "&>" in text  # It may have complained, and nobody heard.
    negated = "!" in text
    if not complaints and not bare and not silent and not negated:
        assert seen == set(known), (text, seen)


@pytest.mark.slow
@needs_bash
@given(text=plain_text())
def test_what_a_plain_text_runs_is_what_was_parsed(
    text: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    parsed = parse(text)
    if parsed.doubts:  # The tree may fail to read what is plain; then it is asked.
        event("doubted")
        return
    agree(text, parsed, tmp_path_factory.getbasetemp() / "plain")


@pytest.mark.slow
@needs_bash
@given(text=near_plain_text())
def test_what_a_nearly_plain_text_runs_is_what_was_parsed_or_it_is_doubted(
    text: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    parsed = parse(text)
    names = {command.words[0] for command in parsed.commands if command.words}
    assume(not any(name.startswith(("%", ".", ":", "/", "-")) or "/" in name for name in names))
    if not parsed.doubts:
        agree(text, parsed, tmp_path_factory.getbasetemp() / "nearly")


@pytest.mark.slow
@needs_bash
@given(text=st.one_of(plain_text(), near_plain_text()))
def test_what_is_allowed_is_a_text_that_bash_can_read(text: str) -> None:
    assert BASH
    allow = [CommandRule(words=(name, "**"), writes=True, assigns=("A",)) for name in NAMES]
    assume(ruling(parse(text), allow=allow).answer == "allow")

    subprocess.run([BASH, "-n", "-c", "--", text], check=True, capture_output=True, timeout=30)


@needs_bash
def test_what_the_corpus_allows_is_text_that_bash_can_read() -> None:
    assert BASH
    for case in CASES:
        if case.answer == "allow":
            done = subprocess.run(
                [BASH, "-n", "-c", "--", case.text], capture_output=True, timeout=30, check=False
            )
            assert (done.returncode, done.stderr) == (0, b""), case.text


def test_most_plain_texts_are_not_doubted() -> None:
    plain = ["a 'b c' \"d\" | b -x --y=z && x1 2>&1 > f; q-r < in", "A=1 a b\nb # c\na", "! a | b"]

    assert [parse(text).doubts for text in plain] == [(), (), ()]
