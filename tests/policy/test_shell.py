"""Rules on shell commands: a corpus of rulings, denials that hold in any wrapping, and bounds."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from placet.core.errors import InvalidInput
from placet.policy import shell, shell_tree
from placet.policy.shell import CommandRule, ShellRuling, SimpleCommand, parse, ruling
from tests.policy.shell_corpus import ALLOW, CASES, DENY, Case

LEAST_CASES = 240

#: What a hostile text is made of, beside any characters at all.
TOKENS = (
    "rm -rf x ls a b ' \" \\ $ ` ; | & && || |& < > << <<< >> &> >| >& 2>&1 ( ) { } [ ] [[ ]] * ?"
    " ~ ! # = , .. $( ${ $(( <( >( $' $\" A=1 PATH= if then fi for in do done case esac while"
    " function f() time coproc eval exec sudo env xargs find -exec sh -c EOF"
    " \n \r \t \0 \u200b \u202e \ud800 é"
).split(" ")


def rule_on(text: str, allow: Sequence[CommandRule] = ALLOW) -> ShellRuling:
    return ruling(parse(text), allow=allow, deny=DENY)


def rule(*words: str, **more: Any) -> CommandRule:
    return CommandRule(words=words, **more)


# --- the corpus -----------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES, ids=[ascii(case.text)[:60] for case in CASES])
def test_a_text_of_the_corpus_is_ruled_on_as_it_says_and_for_its_reason(case: Case) -> None:
    ruled = rule_on(case.text)

    assert ruled.answer == case.answer, ruled
    assert case.answer == "allow" or any(case.why in reason for reason in ruled.reasons), ruled


def test_the_corpus_is_large_has_every_answer_and_no_text_twice() -> None:
    answers = Counter(case.answer for case in CASES)

    assert len(CASES) >= LEAST_CASES
    assert set(answers) == {"allow", "ask", "deny"}
    assert not [text for text, count in Counter(case.text for case in CASES).items() if count > 1]


@pytest.mark.parametrize("end", [";", "\n", " && ", " || ", " | ", " & ", " # x\n"])
def test_whatever_is_allowed_is_denied_with_a_denied_command_behind_it(end: str) -> None:
    allowed = [case.text for case in CASES if case.answer == "allow"]
    ends = [text.rstrip("\n ;") if end.strip() else text for text in allowed if "#" not in text]

    for text in ends:
        assert rule_on(f"{text}{end}rm -rf x").answer == "deny", text


def test_nothing_is_allowed_without_rules_or_without_the_rule_for_each_command() -> None:
    for case in CASES:
        parsed = parse(case.text)
        assert ruling(parsed).answer == "ask"
        if case.answer == "allow":
            first = parsed.commands[-1].words
            fewer = [each for each in ALLOW if not each.matches(first)]
            assert ruling(parsed, allow=fewer, deny=DENY).answer == "ask", case.text


# --- any text -------------------------------------------------------------------------------------

ANYTHING = st.one_of(
    st.text(st.characters(exclude_categories=()), max_size=200),
    st.lists(st.sampled_from(TOKENS), max_size=40).map("".join),
    st.lists(st.sampled_from(TOKENS), max_size=40).map(" ".join),
    st.sampled_from([case.text for case in CASES]).flatmap(
        lambda text: st.builds(
            lambda at, token: text[:at] + token + text[at:],
            st.integers(0, len(text)),
            st.sampled_from(TOKENS),
        )
    ),
)


@given(ANYTHING)
def test_no_text_raises_and_every_ruling_gives_reasons_that_can_be_seen(text: str) -> None:
    parsed = parse(text)
    ruled = ruling(parsed, allow=ALLOW, deny=DENY)

    assert parsed == parse(text)
    assert ruled.reasons
    assert all(reason.isprintable() for reason in ruled.reasons)
    assert ruled.answer != "allow" or not parsed.doubts


WRAPPINGS = (
    "{}",
    "ls; {}",
    "{}; ls",
    "ls && {}",
    "ls | {}",
    "{} | ls",
    "ls\n{}",
    "{} > f 2>&1",
    "{} &",
    "( {} )",
    "{{ {}; }}",
    "if {}; then ls; fi",
    "for i in 1 2; do {}; done",
    "f() {{ {}; }}",
    "echo $( {} )",
    'echo "$( {} )"',
    "A=$( {} ) ls",
    "cat <( {} )",
    "cat <<E\n$( {} )\nE",
)
IN_QUOTES = (
    "sh -c {}",
    "bash -xc {}",
    "eval {}",
    "eval -- {}",
    "xargs sh -c {}",
    "su -c {}",
    "ssh host {}",
    "hyperfine {}",
    "nix-shell --run {}",
    "npx -c {}",
)
BEFORE = (
    "sudo",
    "sudo -u root",
    "env A=1",
    "nice",
    "timeout 5",
    "command",
    "xargs",
    "exec",
    "time",
    "time !",
    "linux32",
    "choom -n 0 --",
    "docker exec it",
    "uv run",
    "ip netns exec x",
    "/lib/ld-linux.so.2",
)


@example(["su -c {}"], "linux32")
@given(st.lists(st.sampled_from(WRAPPINGS + IN_QUOTES), max_size=3), st.sampled_from(BEFORE))
def test_a_denied_command_is_denied_in_any_wrapping(wrappings: list[str], before: str) -> None:
    text = f"{before} rm -rf x"
    for wrapping in wrappings:
        text = wrapping.format(shlex.quote(text) if wrapping in IN_QUOTES else text)

    assert rule_on(text).answer == "deny", text


# --- rules ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "pattern, text, matches",
    [
        (rule("ls"), "ls", True),
        (rule("ls"), "ls -l", False),
        (rule("make", "*"), "make test", True),
        (rule("make", "*"), "make", False),
        (rule("make", "*"), "make a b", False),
        (rule("make", "*", "**"), "make a b", True),
        (rule("git", "*", "push", "**"), "git -P push x", True),
        (rule("git", "log", "**"), "git", False),
        (rule("git", "log", "**", options=()), "git log x", True),
        (rule("git", "log", "**", options=()), "git log -p", False),
        (rule("git", "log", "**", options=("-[0-9]*",)), "git log -12 x", True),
        (rule("git", "log", "**", unless=("--output*",)), "git log --outp=x", False),
        (rule("git", "log", "**", unless=("--output",)), "git log --output=x", False),
        (rule("git", "log", "**", unless=("--output",)), "git log --oneline", True),
        (rule("git", "log", "**", unless=("-O*",)), "git log -Ox", False),
        (rule("rm", "**", having=("--recursive",)), "rm --rec x", True),
        (rule("rm", "**", having=("--recursive",)), "rm x", False),
    ],
)
def test_a_pattern_matches_words(pattern: CommandRule, text: str, matches: bool) -> None:
    assert pattern.matches(text.split()) is matches


@pytest.mark.parametrize("words", [(), ("**",), ("*", "x"), ("",), ("ls", "**", "x")])
def test_a_rule_without_a_name_of_a_command_is_no_rule(words: tuple[str, ...]) -> None:
    with pytest.raises(InvalidInput):
        CommandRule(words=words)


def test_several_rules_may_match_and_one_that_permits_is_enough() -> None:
    strict, wide = rule("ls", "**"), rule("ls", "-l", writes=True)

    assert rule_on("ls -l > f", [strict]).answer == "ask"
    assert rule_on("ls -l > f", [strict, wide]).answer == "allow"
    assert rule_on("ls > f", [strict, wide]).answer == "ask"


def test_a_variable_that_changes_what_runs_is_asked_whatever_a_rule_permits() -> None:
    allow = [rule("ls", assigns=("*",))]

    assert rule_on("ANY=1 ls", allow).answer == "allow"
    assert rule_on("GIT_DIR=1 ls", allow).answer == "ask"


@pytest.mark.promise("G1")
@pytest.mark.parametrize(
    "allow, text, answer",
    [
        (rule("runner", "**"), "runner rm -rf x", "ask"),
        (rule("runner", "**"), "runner /bin/RM -r x", "ask"),
        (rule("runner", "*", "-rf", "*"), "runner rm -rf x", "ask"),
        (rule("runner", "**"), "runner rm x", "allow"),
        (rule("runner", "**"), "runner farm -rf x", "allow"),
        (rule("runner", "rm", "**"), "runner rm -rf x", "allow"),
        (rule("runner", "rm", "**"), "runner rm rm -rf x", "ask"),
        (rule("grep", "**"), "grep rm -rf x", "allow"),
        (rule("x", "**"), "x " + "rm " * 2_000 + "y", "ask"),
    ],
)
def test_a_denied_command_in_the_words_of_a_program_that_nobody_knows_is_a_doubt(
    allow: CommandRule, text: str, answer: str
) -> None:
    """Whatever the program is: what its rule spells out is what the rule's author has seen."""
    assert rule_on(text, [allow]).answer == answer


def test_where_a_command_came_from_is_known() -> None:
    parsed = parse("ls | sudo sh -c 'echo $(nice pwd)'")

    assert [(one.words[0], one.origin) for one in parsed.commands] == [
        ("ls", ("pipeline",)),
        ("sudo", ("pipeline",)),
        ("sh", ("pipeline", "sudo")),
        ("echo", ("pipeline", "sudo", "sh")),
        ("nice", ("pipeline", "sudo", "sh", "substitution")),
        ("pwd", ("pipeline", "sudo", "sh", "substitution", "nice")),
    ]


def test_words_assignments_and_redirections_are_kept_apart() -> None:
    (command,) = parse("A='x y' B= ls \"a  b\" 2>> 'my errors' -l < in").commands

    assert command == SimpleCommand(
        words=("ls", "a  b", "-l"),
        assignments=(("A", "x y"), ("B", "")),
        redirections=(("2>>", "my errors"), ("<", "in")),
    )


# --- bounds ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, doubt",
    [
        ("ls " + "x" * shell.MAX_BYTES, shell.TOO_LONG),
        ("ls " + "é" * (shell.MAX_BYTES // 2), shell.TOO_LONG),
        ("a|" * shell.MAX_SIGNS + "a|a", shell.TOO_INTRICATE),
        ("a\n" * shell.MAX_COMMANDS + "a", shell.TOO_MANY),
        ("nice " * (shell.MAX_DEPTH + 2) + "ls", shell.TOO_DEEP),
        ("eval " * 4_000, shell.TOO_MANY),
    ],
    ids=["long", "long in bytes", "intricate", "many", "deep", "texts in texts"],
)
def test_what_is_too_much_is_a_doubt(text: str, doubt: str) -> None:
    assert doubt in parse(text).doubts


@pytest.mark.parametrize(
    "piece", ["$(", "(", "{ ", "`", '"', "'", "\\\n", "<<E\n", "a=(", "))", "[[ "]
)
@pytest.mark.slow
def test_what_nests_without_an_end_is_read_to_its_end(piece: str) -> None:
    text = piece * (shell.MAX_BYTES // len(piece))

    assert rule_on(text).answer == "ask"


def test_a_denial_holds_at_the_beginning_of_what_is_too_long_or_too_intricate() -> None:
    assert rule_on("rm -rf x; " + "x" * shell.MAX_BYTES).answer == "deny"
    assert rule_on("rm -rf x" + ";a" * shell.MAX_SIGNS * 2).answer == "deny"


def test_reasons_are_few_and_short() -> None:
    ruled = rule_on("; ".join(f"x{number} {'y' * 1_000}" for number in range(15)))

    assert ruled.answer == "ask"
    assert ruled.reasons[-1] == "and 3 reasons more"
    assert all(len(reason) < 400 for reason in ruled.reasons)
    assert "characters more" in ruled.reasons[0]


# --- the extra ------------------------------------------------------------------------------------


@pytest.fixture
def without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tree_sitter_bash", None)
    shell_tree.grammar.cache_clear()
    monkeypatch.setattr(shell_tree, "grammar", shell_tree.grammar.__wrapped__)


@pytest.mark.usefixtures("without_the_extra")
def test_without_the_extra_everything_is_asked_and_denials_still_hold() -> None:
    assert rule_on("ls").answer == "ask"
    assert shell_tree.MISSING in rule_on("ls").reasons
    assert rule_on("ls; sudo rm -rf x").answer == "deny"
    assert rule_on("echo $(rm -rf x)").answer == "deny"
    assert not [case for case in CASES if rule_on(case.text).answer == "allow"]


def test_the_extra_is_not_imported_before_a_text_is_read() -> None:
    code = (
        "import sys, placet.policy.shell as shell; assert 'tree_sitter' not in sys.modules;"
        "shell.parse('ls'); assert 'tree_sitter' in sys.modules"
    )

    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_two_readings_that_differ_are_a_doubt() -> None:
    # The tree takes a carriage return for a space, bash for a part of the word.
    reading = shell.both_readings("ls a\rb")

    assert reading.doubts == (shell.DIFFER,)
    assert reading.commands[0].words == ("ls", "a", "b")
