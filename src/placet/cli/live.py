"""What a run says, shown as it comes: each piece made visible, wherever it was cut (H2).

It watches and changes nothing. What it shows may be said anew where a model is asked again; the
turn that counts is the one on record.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable

import click

from placet.agent.watching import TextArrives
from placet.cli.secrecy import Held
from placet.core.display import visible
from placet.core.masking import Masking


class Pieces:
    """Makes a text visible piece by piece, as `visible` does with the whole of it.

    What later pieces could still change (a run of spaces, of line ends, of something hidden, marks
    on a letter) is held back until something else follows, or the text ends; so is what could be
    one of the `secrets`, which are masked before.
    """

    def __init__(self, secrets: Held | None = None) -> None:
        self._secrets = secrets
        self._before = ""
        self._held: list[str] = []

    def add(self, piece: str) -> str:
        """Give what can be shown now."""
        return self._added(piece if self._secrets is None else self._secrets.add(piece))

    def _added(self, piece: str) -> str:
        end = len(piece)
        while end and not _stands_alone(piece[end - 1]):
            end -= 1
        if not end:  # However much is held, it is not looked at again.
            self._held.append(piece)
            return ""
        text = "".join((*self._held, piece[:end]))
        self._held = [piece[end:]]
        return self._shown(text)

    def end(self) -> str:
        """Give what was held back; the next piece begins another text."""
        rest = "" if self._secrets is None else self._added(self._secrets.end())
        rest += self._shown("".join(self._held))
        self._before, self._held = "", []
        return rest

    def _shown(self, text: str) -> str:
        """Show a text after what was shown before it, to which its first marks belong."""
        if not text:
            return ""
        before = visible(self._before, keep_newlines=True)
        shown = visible(self._before + text, keep_newlines=True)
        self._before = text[-1]
        return shown[len(before) :]


def _stands_alone(character: str) -> bool:
    """Say whether nothing that follows a character can change how it is shown."""
    if character.isascii():
        return character.isprintable() and character != " "
    return not unicodedata.category(character).startswith("M") and visible(character) == character


class LiveText:
    """Shows the text of a run as it comes, and of the runs under it in whole lines.

    `name_of` says whose text it is that comes from another run than those in `own`, and `masking`
    what is known to be secret when a text begins.
    """

    def __init__(
        self, name_of: Callable[[str], str], *, masking: Callable[[], Masking] = Masking
    ) -> None:
        self.own: set[str] = set()
        self._name_of = name_of
        self._masking = masking
        self._pieces = Pieces(Held(masking))
        self._turn: tuple[str, int] | None = None
        self._text: list[str] = []
        self._open = False
        self._lines: dict[str, tuple[Pieces, str]] = {}

    def arrives(self, event: TextArrives) -> None:
        """Show a piece of text."""
        if event.run not in self.own:
            self._below(event)
            return
        if self._turn != (event.run, event.step):
            self.close()
            self._turn, self._text = (event.run, event.step), []
        self._text.append(event.text)
        self._write(self._pieces.add(event.text))

    def close(self) -> None:
        """End the line that is open, so that something else can be said."""
        self._write(self._pieces.end())
        if self._open:
            self._write("\n")
        for run, (pieces, begun) in self._lines.items():
            for line in (begun + pieces.end()).splitlines():
                self._line(run, line)
        self._lines.clear()

    def has_said(self, run: str, text: str) -> bool:
        """Say whether a text is what the last turn of a run was seen to say."""
        return self._turn is not None and self._turn[0] == run and "".join(self._text) == text

    def _write(self, shown: str) -> None:
        if shown:
            self._open = not shown.endswith("\n")
            click.echo(shown, nl=False)

    def _below(self, event: TextArrives) -> None:
        known = event.run in self._lines
        pieces, begun = self._lines.pop(event.run) if known else self._new()
        *whole, rest = (begun + pieces.add(event.text)).split("\n")
        if whole and self._open:
            self._write(f"{self._pieces.end()}\n")
        for line in whole:
            self._line(event.run, line)
        self._lines[event.run] = (pieces, rest)

    def _new(self) -> tuple[Pieces, str]:
        return Pieces(Held(self._masking)), ""

    def _line(self, run: str, line: str) -> None:
        click.echo(f"  {visible(self._name_of(run))} | {line}")
