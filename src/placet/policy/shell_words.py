"""One strict reading of a shell command: only plain words, quotes, separators and redirections.

It reads the way `bash -c` reads in a UTF-8 or C locale, without aliases, and as little of it as
can be read with certainty: words without expansions, the separators `;`, a line end, `&&`, `||`
and `|`, redirections to plain words, assignments and comments. All else becomes a doubt, in words
that a person can read, and reading goes on as well as it can, so that denials still find commands
in a doubtful text. It never raises and never allows: placet.policy.shell_tree reads the same text
in another way, and what the two do not read alike is a doubt as well.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

VARIABLE = "a variable is put in"
SUBSTITUTION = "the output of a command is put in"
PROCESS = "a command is put in as a file"
ARITHMETIC = "a calculation is put in"
GLOB = "a pattern for names of files (*, ? or [) is put in"
BRACES = "braces may become several words"
TILDE = "a tilde may become a directory"
ESCAPED_STRING = "a string of the form $'…' or $\"…\""
HERE_DOCUMENT = "a here-document"
BACKGROUND = "a command in the background (&)"
COMPOUND = "a compound command (if, for, while, case, a group, a function, a test in brackets)"
CONTINUATION = "a line is continued with a backslash"
SYNTAX = "it is no text that a shell can read"
DESCRIPTOR = "a redirection whose descriptor cannot be told"
ARRAY = "an array, or an assignment that adds to what is there"

RESERVED = frozenset(
    "! [ [[ ]] { } case coproc do done elif else esac fi for function if in select then until"
    " while".split()
)

_META = frozenset(" \t\n|&;()<>")
_ASSIGNED = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?P<more>\+?)=")
_DESCRIPTOR = re.compile(r"[0-9]+(?=[<>])")
_REDIRECTION = re.compile(r"&>>|&>|<<<|<<-|<<|<&|<>|<|>>|>\||>&|>")
_SEPARATOR = re.compile(r"&&|\|\||\|&|\||;|\n")
_DUPLICATE = re.compile(r"[0-9]|-")
_LITERAL_AFTER_DOLLAR = frozenset(' "|)')
_LONGEST_DESCRIPTOR = 1  # Longer ones are words for some shells.


@dataclass(frozen=True, slots=True, kw_only=True)
class SimpleCommand:
    """One command as a shell would run it, its quotes resolved.

    What cannot be resolved stands in `words` as it was written, and is a doubt of the whole.
    A redirection is its operator, with the descriptor that stands before it, and its target
    (`("2>", "errors")`, `("2>&", "1")`). `origin` is the way to it, from the outside in:
    `"pipeline"`, `"substitution"`, the name of a wrapper; empty for a command that stands alone.
    """

    words: tuple[str, ...] = ()
    assignments: tuple[tuple[str, str], ...] = ()
    redirections: tuple[tuple[str, str], ...] = ()
    origin: tuple[str, ...] = ()

    @property
    def program(self) -> str:
        """What file systems may run for the command's name (`program_of`)."""
        return program_of(self.words[0]) if self.words else ""


def program_of(name: str) -> str:
    """Give the last part of a command's name, in lower case, without the ending of Windows."""
    return name.rpartition("/")[2].lower().removesuffix(".exe")


@dataclass(frozen=True, slots=True)
class Reading:
    """What was made of a text; what is `tried` may be a command in it."""

    commands: tuple[SimpleCommand, ...]
    doubts: tuple[str, ...]
    tried: tuple[SimpleCommand, ...] = ()


@dataclass(frozen=True, slots=True)
class Word:
    """A word: what a shell would make of it, and how it was written."""

    value: str
    raw: str

    @property
    def assigned(self) -> tuple[str, str] | None:
        """The name and the value, where the word is an assignment."""
        found = _ASSIGNED.match(self.raw)
        return (found[0].rstrip("+="), self.value[found.end() :]) if found else None


def read_strictly(text: str) -> Reading:
    """Read a text as simple commands, in the order in which they are written."""
    reader = _Reader(text)
    reader.read()
    return Reading(tuple(reader.commands), tuple(dict.fromkeys(reader.doubts)))


def resolved(raw: str) -> str:
    """Give what a shell would make of one word, with its expansions left as they are written."""
    reader = _Reader(raw)
    values: list[str] = []
    while reader.at < len(raw):
        values.append(reader.word().value)
        if reader.at < len(raw):  # No end of the word inside an expansion.
            values.append(raw[reader.at])
            reader.at += 1
    return "".join(values)


@dataclass(slots=True)
class _Reader:
    """A position in a text, and what was found before it."""

    text: str
    at: int = 0
    commands: list[SimpleCommand] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
    words: list[Word] = field(default_factory=list)
    redirections: list[tuple[str, str]] = field(default_factory=list)
    needed: bool = False  # A separator or a `!` stands before, and a command must follow it.
    piped: bool = False  # The command before ended in a pipe.
    negated: bool = False

    def read(self) -> None:
        while self.at < len(self.text):
            sign = self.text[self.at]
            if sign in " \t":
                self.at += 1
            elif sign == "#":
                end = self.text.find("\n", self.at)
                self.at = len(self.text) if end < 0 else end
            elif _REDIRECTION.match(self.text, self.at) or _DESCRIPTOR.match(self.text, self.at):
                self.redirection()
            elif found := _SEPARATOR.match(self.text, self.at):
                self.at = found.end()
                self.separator(found[0])
            elif sign in "&()":
                self.doubts.append(BACKGROUND if sign == "&" else COMPOUND)
                self.at += 1
                self.end_command(piped=False)
            else:
                self.add(self.word())
        self.end_command(piped=False)
        if self.needed:
            self.doubts.append(SYNTAX)

    def separator(self, sign: str) -> None:
        piped = sign in ("|", "|&")
        if sign == ";" and self.text.startswith("&", self.at):  # `;&` is of `case` alone.
            self.doubts.append(SYNTAX)
        if not (self.words or self.redirections):
            if sign == "\n":  # An empty line, which may also stand after `&&`, `||` and `|`.
                return
            self.doubts.append(SYNTAX)
        self.end_command(piped=piped)
        self.needed = piped or sign in ("&&", "||")

    def add(self, word: Word) -> None:
        """Take a word into the command, unless it is the `!` before a pipeline."""
        first = not self.words and not self.redirections
        if first and word.raw == "!" and not self.negated and not self.piped:
            self.negated = self.needed = True
            return
        if word.raw in RESERVED and all(one.assigned for one in self.words):
            self.doubts.append(COMPOUND)
        self.words.append(word)

    def end_command(self, *, piped: bool) -> None:
        if self.words or self.redirections:
            self.commands.append(self.command(piped=piped))
            self.needed = False
        if not piped:
            self.negated = False
        self.words, self.redirections, self.piped = [], [], piped

    def command(self, *, piped: bool) -> SimpleCommand:
        assignments: list[tuple[str, str]] = []
        rest = list(self.words)
        while rest and (assigned := rest[0].assigned):
            assignments.append(assigned)
            if rest.pop(0).raw[len(assigned[0])] == "+":
                self.doubts.append(ARRAY)
        return SimpleCommand(
            words=tuple(word.value for word in rest),
            assignments=tuple(assignments),
            redirections=tuple(self.redirections),
            origin=("pipeline",) if piped or self.piped else (),
        )

    def redirection(self) -> None:
        descriptor = _DESCRIPTOR.match(self.text, self.at)
        if descriptor:
            self.at = descriptor.end()
            if len(descriptor[0]) > _LONGEST_DESCRIPTOR:
                self.doubts.append(DESCRIPTOR)
        sign = _REDIRECTION.match(self.text, self.at)
        assert sign, "a descriptor is read where a redirection follows it"
        self.at = sign.end()
        if sign[0] in ("<<", "<<-"):
            self.doubts.append(HERE_DOCUMENT)
        while self.at < len(self.text) and self.text[self.at] in " \t":
            self.at += 1
        missing = (
            self.at >= len(self.text)
            or self.text[self.at] in _META | {"#"}
            or _DESCRIPTOR.match(self.text, self.at) is not None
        )
        if missing:
            self.doubts.append(PROCESS if self.text.startswith("(", sign.end()) else SYNTAX)
        target = Word("", "") if missing else self.word()
        if sign[0] in ("<&", ">&") and not _DUPLICATE.fullmatch(target.raw):
            self.doubts.append(DESCRIPTOR)
        operator = (descriptor[0] if descriptor else "") + sign[0]
        self.redirections.append((operator, target.value))

    # --- words

    def word(self) -> Word:
        """Read one word, up to what ends it."""
        start = self.at
        parts: list[str] = []
        braced = False
        while self.at < len(self.text) and (sign := self.text[self.at]) not in _META:
            self.at += 1
            match sign:
                case "\\":
                    parts.append(self.escaped())
                case "'":
                    parts.append(self.single_quoted())
                case '"':
                    parts.append(self.double_quoted())
                case _:
                    self.plain(sign, before="".join(parts[-1:])[-1:], first=self.at == start + 1)
                    parts.append(sign)
                    braced = braced or sign == "{"
        raw = self.text[start : self.at]
        if braced:
            self.braces(raw)
        return Word("".join(parts), raw)

    def plain(self, sign: str, *, before: str, first: bool) -> None:
        """Doubt a sign that stands outside of quotes and is more than itself."""
        if sign == "$":
            self.dollar()
        elif sign == "`":
            self.doubts.append(SUBSTITUTION)
        elif sign in "*?[":
            self.doubts.append(GLOB)
        elif sign == "~" and (first or before in ("", "=", ":")):
            self.doubts.append(TILDE)

    def dollar(self) -> None:
        following = self.text[self.at : self.at + 2]
        if following.startswith(("'", '"')):
            self.doubts.append(ESCAPED_STRING)
        elif following.startswith(("((", "[")):
            self.doubts.append(ARITHMETIC)
        elif following.startswith("("):
            self.doubts.append(SUBSTITUTION)
        else:
            self.doubts.append(VARIABLE)

    def braces(self, raw: str) -> None:
        """Doubt a word with a brace outside of quotes, unless it can hold no list or range."""
        if "," in raw or ".." in raw:
            self.doubts.append(BRACES)
        if self.text[self.at : self.at + 1] in ("<", ">"):
            self.doubts.append(DESCRIPTOR)

    def escaped(self) -> str:
        following = self.text[self.at : self.at + 1]
        self.at += 1
        if not following:
            self.doubts.append(SYNTAX)
        elif following == "\n":
            self.doubts.append(CONTINUATION)
            return ""
        return following

    def single_quoted(self) -> str:
        end = self.text.find("'", self.at)
        if end < 0:
            self.doubts.append(SYNTAX)
            end = len(self.text)
        inside = self.text[self.at : end]
        self.at = end + 1
        return inside

    def double_quoted(self) -> str:
        parts: list[str] = []
        while self.at < len(self.text):
            sign = self.text[self.at]
            self.at += 1
            if sign == '"':
                return "".join(parts)
            if sign == "\\" and self.text[self.at : self.at + 1] in ("$", "`", '"', "\\", "\n"):
                sign = self.escaped()
            elif sign == "`":
                self.doubts.append(SUBSTITUTION)
            elif sign == "$" and self.text[self.at : self.at + 1] not in _LITERAL_AFTER_DOLLAR:
                self.dollar()
            parts.append(sign)
        self.doubts.append(SYNTAX)
        return "".join(parts)
