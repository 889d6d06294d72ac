"""Rules on commands: which are allowed, which are denied; whatever is neither is asked.

    allow = [
        CommandRule(words=("git", "log", "**"), options=("--oneline", "-n*", "--stat")),
        CommandRule(words=("pytest", "**"), unless=("--pdb*",), assigns=("CI",)),
        CommandRule(words=("ruff", "check", "*"), writes=True),
    ]
    deny = [CommandRule(words=("rm", "**"), having=("-[!-]*r*", "-r*", "--recursive"))]
    ruling(parse("git log --oneline | head"), allow=allow, deny=deny)

A text is allowed only where it is provably simple and every command in it, wrappers and what they
wrap included, is allowed by some rule, with its redirections and assignments. It is denied where
any command in it is denied, also inside of what is doubtful, as far as that could be parsed.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Literal

from placet.core.display import visible
from placet.core.errors import InvalidInput
from placet.policy.shell_programs import HARMLESS_TARGETS
from placet.policy.shell_words import SimpleCommand, program_of
from placet.policy.shell_wrappers import looks_into

if TYPE_CHECKING:
    from placet.policy.shell import Parsed

MENTIONS = "what `{}` does with its words is not known, and they hold {}, which is denied"

ANY_WORD = "*"
ANY_REST = "**"

#: What the name of no program holds, so that a rule that begins with it would be for nothing.
_NO_NAME = re.compile(r"[{}()<>;|&$`\"'\\!#=]")
_TEST = "["

#: What stands between the words in a word: of a text, of a list, or of an option and its value.
_BETWEEN = re.compile(r"[\s;|&(){}<>`'\"=,:]+")

#: How many words of a command are compared with a denial whose program they name.
MAX_COMPARED = 16

#: How many reasons a ruling gives, and how much of a text stands in each, in characters.
MAX_REASONS = 12
MAX_SHOWN = 240


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandRule:
    """A pattern of commands, and what those may have beside their words.

    `words` are compared one by one, exactly: `"*"` stands for any one word, `"**"`, at the end
    only, for any number of them. The words from the first of these on are the command's own:

    - `options`, where given, is the whole list of those that may begin with `-`;
    - `unless` takes the command out of the rule where any of them matches, or is an abbreviation
      of one that would;
    - `having` takes it into the rule only where one of them matches, or is such an abbreviation.

    These three hold patterns as of file names, for one word each (`--format=*`, `-[0-9]*`).

    In a rule that allows, the command's name is compared as it was written, `writes` permits
    redirections into files, and `assigns` names variables that may be set for the command. In a
    rule that denies, the name is compared without its directory and without case, and
    redirections and assignments do not count. `name` is what reasons call the rule.

    Raises InvalidInput for what could match nothing, or not what was meant: no words, `"**"` before
    the end, a word that is empty, holds a space or is written as a pattern, and a name that is a
    wildcard, or no program's.
    """

    words: tuple[str, ...]
    options: tuple[str, ...] | None = None
    unless: tuple[str, ...] = ()
    having: tuple[str, ...] = ()
    writes: bool = False
    assigns: tuple[str, ...] = ()
    name: str = ""

    def __post_init__(self) -> None:
        if not self.words or self.words[0] in (ANY_WORD, ANY_REST, ""):
            raise InvalidInput(
                "invalid_rule", "a rule on commands begins with the name of a command"
            )
        if ANY_REST in self.words[:-1]:
            raise InvalidInput("invalid_rule", "`**` stands at the end of a rule's words only")
        for told in self._never_match():
            raise InvalidInput("invalid_rule", told)

    def _never_match(self) -> Iterator[str]:
        """Say what of the rule can match no command, or another than its author thinks."""
        lists = (self.words, self.options or (), self.unless, self.having, self.assigns)
        for word in (word for each in lists for word in each):
            if not word or re.search(r"\s", word):
                yield f"each word stands by itself, and {word!r} is empty or holds a space"
        for word in self.words:
            if word not in (ANY_WORD, ANY_REST, _TEST) and re.search(r"[*?\[]", word):
                yield (
                    f"words are compared as they are, and {word!r} is written as a pattern: `*` and"
                    " `**` stand alone, and options, unless and having hold patterns"
                )
        name = self.words[0]
        if name.endswith("/") or (_NO_NAME.search(name) and name != _TEST):
            yield f"a rule on commands begins with the name of a command, and {name!r} is none"

    @property
    def called(self) -> str:
        """What reasons call the rule."""
        return self.name or " ".join(self.words)

    @property
    def spelled(self) -> int:
        """How many words the rule spells out before its first wildcard."""
        wild = [place for place, word in enumerate(self.words) if word in (ANY_WORD, ANY_REST)]
        return wild[0] if wild else len(self.words)

    def matches(self, words: Sequence[str]) -> bool:
        """Say whether the words of a command are within the pattern."""
        fixed = self.words[:-1] if self.words[-1] == ANY_REST else self.words
        exact = len(fixed) == len(self.words)
        if len(words) < len(fixed) or (exact and len(words) > len(fixed)):
            return False
        pairs = zip(fixed, words, strict=False)
        if not all(one in (ANY_WORD, word) for one, word in pairs):
            return False
        own = words[self.spelled :]
        if self.options is not None and not all(
            any(fnmatchcase(word, option) for option in self.options)
            for word in own
            if word.startswith("-")
        ):
            return False
        if any(_means(word, option) for word in own for option in self.unless):
            return False
        return not self.having or any(
            _means(word, option) for word in own for option in self.having
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellRuling:
    """`allow`, `ask` or `deny`, and why, in words that are safe to show (H2).

    `doubts` are those of the reasons that hold whatever rules allow; a denial has none.
    """

    answer: Literal["allow", "ask", "deny"]
    reasons: tuple[str, ...]
    doubts: tuple[str, ...] = ()


def ruling(
    parsed: Parsed, *, allow: Sequence[CommandRule] = (), deny: Sequence[CommandRule] = ()
) -> ShellRuling:
    """Rule on a parsed text: a denial wins, then any doubt, then whatever no rule allows."""
    denied = [
        f"the rule `{rule.called}` denies {_shown(command)}"
        for command in (*parsed.commands, *parsed.tried)
        for rule in deny
        if _denies(rule, command)
    ]
    if denied:
        return ShellRuling(answer="deny", reasons=_told(denied))
    doubts = [*parsed.doubts, *_mentions(parsed, allow, deny)]
    reasons = list(doubts)
    allowed: list[str] = []
    for command in parsed.commands:
        objections = [_objection(rule, command) for rule in allow if rule.matches(command.words)]
        if None in objections:
            rules = (rule for rule in allow if rule.matches(command.words))
            allowed += [f"the rule `{rule.called}` allows it" for rule in rules]
        else:
            within = objections[0] if objections else None
            reasons.append(within or f"no rule allows {_shown(command)}")
    if reasons or not parsed.commands:
        return ShellRuling(answer="ask", reasons=_told(reasons), doubts=_told(doubts))
    return ShellRuling(answer="allow", reasons=_told(allowed))


def _denies(rule: CommandRule, command: SimpleCommand) -> bool:
    """Compare the name without its directory and without case: file systems may, too."""
    if not command.words:
        return False
    named = program_of(rule.words[0])
    return named == command.program and rule.matches((rule.words[0], *command.words[1:]))


def _mentions(
    parsed: Parsed, allow: Sequence[CommandRule], deny: Sequence[CommandRule]
) -> Iterator[str]:
    """Doubt programs of which nothing is known, where a denied command stands in their words.

    No list of the programs that run others is complete. What a rule that allows the command spells
    out, word by word, is what its author has seen.
    """
    denials: dict[str, list[CommandRule]] = {}
    for rule in deny:
        denials.setdefault(program_of(rule.words[0]), []).append(rule)
    for command in parsed.commands if denials else ():
        if command.words and not looks_into(command):
            spelled = [rule.spelled for rule in allow if rule.matches(command.words)]
            words = command.words[max([1, *spelled]) :]
            if (denied := _mentioned(words, denials)) is not None:
                yield MENTIONS.format(command.program, f"`{denied.called}`")


def _mentioned(
    words: Sequence[str], denials: Mapping[str, Sequence[CommandRule]]
) -> CommandRule | None:
    """Find a denial that the words hold somewhere, be it inside of one of them."""
    pieces = [piece for word in words for piece in _BETWEEN.split(word) if piece]
    compared = 0
    for place, piece in enumerate(pieces):
        for rule in denials.get(program_of(piece), ()):
            compared += 1
            tail = (rule.words[0], *pieces[place + 1 :])
            exact = tail[: len(rule.words)]
            if compared > MAX_COMPARED or rule.matches(tail) or rule.matches(exact):
                return rule
    return None


def _objection(rule: CommandRule, command: SimpleCommand) -> str | None:
    """Say why a rule that matches the words does not allow the whole command, or None."""
    for operator, target in command.redirections:
        if not rule.writes and _writes(operator, target):
            return f"the rule `{rule.called}` allows no writing, and it writes to {target}"
    for name, _ in command.assignments:
        if not any(fnmatchcase(name, one) for one in rule.assigns):
            return f"the rule `{rule.called}` does not allow the variable {name} to be set"
    return None


def _writes(operator: str, target: str) -> bool:
    sign = operator.lstrip("0123456789")
    return sign not in ("<", "<<<", "<&", ">&") and target not in HARMLESS_TARGETS


def _means(word: str, option: str) -> bool:
    """Say whether a word matches an option's pattern, or may be an abbreviation of such a one."""
    if fnmatchcase(word, option):
        return True
    named = word.partition("=")[0]
    literal = option.partition("*")[0].partition("?")[0].partition("[")[0].partition("=")[0]
    return len(named) > len("--") and named.startswith("--") and literal.startswith(named)


def _shown(command: SimpleCommand) -> str:
    words = [*(f"{name}={value}" for name, value in command.assignments), *command.words]
    ends = [f" {operator} {target}" for operator, target in command.redirections]
    through = f" (in {', '.join(command.origin)})" if command.origin else ""
    return f"`{_cut(shlex.join(words) + ''.join(ends)).strip()}`{_cut(through)}"


def _cut(text: str) -> str:
    left_out = len(text) - MAX_SHOWN
    return f"{text[:MAX_SHOWN]}… and {left_out} characters more" if left_out > 0 else text


def _told(reasons: Sequence[str]) -> tuple[str, ...]:
    """Give the reasons once each, bounded, with nothing in them that is not seen."""
    each = list(dict.fromkeys(reasons))
    told = [visible(_cut(reason)) for reason in each[:MAX_REASONS]]
    if len(each) > MAX_REASONS:
        told.append(f"and {len(each) - MAX_REASONS} reasons more")
    return tuple(told)
