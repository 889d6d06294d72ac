"""Shell commands as policy sees them: every simple command in a text, and each reason for doubt.

`parse` reads a text twice, by one strict reader (shell_words) and by the tree of tree-sitter-bash
(shell_tree), opens what runs other commands (shell_wrappers), and looks up what is known of
programs and variables (shell_programs). `ruling` (shell_rules) rules on what was parsed. A text
is *provably simple* where there is no doubt: the two readings agree, every word is literal, and
nothing is known that would run or write more than is written down. All else is asked.

What is read is what `bash -c TEXT` would run in a UTF-8 or C locale, without aliases, without
functions from the environment, and without a person who types. What a program reads from files
(git's configuration, a Makefile, an rc file) is not looked at.

Both functions are total: no text makes them raise. Neither reads or writes anything.
"""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass, field, replace

from placet.core.display import visible
from placet.policy.shell_programs import doubts_of
from placet.policy.shell_rules import CommandRule, ShellRuling, ruling
from placet.policy.shell_tree import MISSING, read_tree
from placet.policy.shell_words import SYNTAX, Reading, SimpleCommand, read_strictly
from placet.policy.shell_wrappers import opened

__all__ = ["CommandRule", "Parsed", "ShellRuling", "SimpleCommand", "parse", "ruling"]

#: The longest text that is parsed, in UTF-8.
MAX_BYTES = 20_000

#: How many signs of the shell's grammar a text may hold for its tree to be made: an error in the
#: grammar is mended in a time that grows with the square of what follows it.
MAX_SIGNS = 1_500

#: How many commands are looked at, those of wrappers and substitutions included.
MAX_COMMANDS = 500

#: How much is parsed in all: the text, and the texts in it that `sh -c` and its like are handed.
MAX_PARSED_CHARACTERS = 4 * MAX_BYTES

#: How deep commands may stand in each other.
MAX_DEPTH = 8

TOO_LONG = f"the text is longer than {MAX_BYTES} bytes"
TOO_INTRICATE = f"the text holds more than {MAX_SIGNS} signs of the shell's grammar"
TOO_MANY = "there are more commands in it than are looked at"
TOO_DEEP = f"commands are nested deeper than {MAX_DEPTH} levels"
UNSEEN = "it holds characters that are not seen, or not as what they are"
NOTHING = "there is no command in it"
DIFFER = "two ways of reading it differ"

_SIGNS = re.compile(r"[^\w\s./:,@%+-]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """What stands in a text: its simple commands, from the outside in, and why it is doubtful.

    A wrapper is a command of its own, and so is what it wraps. Where a wrapper or a text cannot be
    read, `tried` holds what may be a command in it; only denials look there. A text is provably
    simple where `doubts` is empty.
    """

    commands: tuple[SimpleCommand, ...]
    tried: tuple[SimpleCommand, ...] = ()
    doubts: tuple[str, ...]


def parse(command: str) -> Parsed:
    """Parse the text of a shell command; any text at all."""
    found = _Found()
    if len(command.encode("utf-8", "replace")) > MAX_BYTES:
        found.doubts.append(TOO_LONG)
        command = command[:MAX_BYTES]
    if visible(command.replace("\t", " "), keep_newlines=True) != command.replace("\t", " "):
        found.doubts.append(UNSEEN)
    found.read(command, origin=(), sure=True)
    found.open_all()
    if not found.commands:
        found.doubts.append(NOTHING)
    return Parsed(
        commands=tuple(found.commands),
        tried=tuple(found.tried),
        doubts=tuple(dict.fromkeys(found.doubts)),
    )


@dataclass(slots=True)
class _Found:
    """What was found so far, and what is still to be opened.

    What is only tried adds no doubts of its own: what it stands in is one.
    """

    commands: list[SimpleCommand] = field(default_factory=list)
    tried: list[SimpleCommand] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
    ahead: deque[tuple[SimpleCommand, bool, bool]] = field(default_factory=deque)
    characters: int = 0

    def read(self, text: str, *, origin: tuple[str, ...], sure: bool) -> None:
        self.characters += len(text)
        if self.characters > MAX_PARSED_CHARACTERS:
            self.doubts.append(TOO_MANY)
            return
        reading = both_readings(text)
        if sure:
            self.doubts += reading.doubts
        for found, known in ((reading.commands, sure), (reading.tried, False)):
            self.ahead.extend(
                (replace(each, origin=origin + each.origin), known, True) for each in found
            )

    def open_all(self) -> None:
        while self.ahead:
            command, sure, whole = self.ahead.popleft()
            if len(self.commands) + len(self.tried) >= MAX_COMMANDS:
                self.doubts.append(TOO_MANY)
                return
            if sure:
                self.commands.append(command)
                self.doubts += doubts_of(command)
            else:
                self.tried.append(command)
            self.open(command, sure=sure, whole=whole)

    def open(self, command: SimpleCommand, *, sure: bool, whole: bool) -> None:
        """Open a command; one that is not `whole` is the end of another that was tried."""
        if len(command.origin) > MAX_DEPTH:
            self.doubts.append(TOO_DEEP)
            return
        found = opened(command)
        if sure:
            self.doubts += found.doubts
        if whole:  # The later words of an end have been tried with those of what it stands in.
            self.ahead.extend((each, False, False) for each in found.tried_commands)
        self.ahead.extend((each, sure, whole) for each in found.commands)
        origin = (*command.origin, command.program)
        for text in found.texts:
            self.read(text, origin=origin, sure=sure)
        for text in found.tried_texts:
            self.read(text, origin=origin, sure=False)


def both_readings(text: str) -> Reading:
    """Read a text in both ways; where there is any doubt, the tree is the better guess.

    Where the tree is broken, what the strict reader found is tried as well.
    """
    strict = read_strictly(text)
    if len(_SIGNS.findall(text)) > MAX_SIGNS:
        return Reading(strict.commands, (TOO_INTRICATE, *strict.doubts))
    tree = read_tree(text)
    if tree is None:
        return Reading(strict.commands, (MISSING, *strict.doubts))
    doubts = strict.doubts + tree.doubts
    if not doubts and _bare(strict) != _bare(tree):
        doubts = (DIFFER,)
    tried = strict.commands if SYNTAX in tree.doubts else ()
    return Reading(tree.commands if doubts else strict.commands, doubts, tried)


def _bare(reading: Reading) -> list[SimpleCommand]:
    return [replace(command, origin=()) for command in reading.commands]
