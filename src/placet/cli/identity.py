"""Who decides at the command line (G10): the account at a terminal, or the holder of a token.

Being on this machine is no identity: a process whose input is no terminal may be anybody's, an
agent's too. There is no option by which one could name oneself.
"""

from __future__ import annotations

import hmac
import os
import sys
import termios
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import click

from placet.cli.output import tell
from placet.core.errors import InvalidInput, NotPermitted
from placet.people import Decider
from placet.runtime.authority import refuse_under_mark
from placet.settings import Settings, current_account

#: The variable that holds an approver's token.
TOKEN = "PLACET_APPROVER_TOKEN"

#: The words that say what was found, and do nothing themselves.
FINDINGS = ("happened", "did-not-happen", "abandon")


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """A person, and by what they are known: `terminal` or `token`."""

    name: str
    via: str

    def decider(self, *, session: str | None = None, digest: str | None = None) -> Decider:
        """Give who decides, held to a session and to a digest where they are given."""
        return Decider(name=self.name, via=self.via, session=session, digest=digest)


def who_decides(settings: Settings, token_file: Path | None) -> Identity:
    """Say who decides; raises NotPermitted. A token that is given counts, and nothing else."""
    refuse_under_mark()
    token = _token(token_file)
    if token:
        return Identity(name=_holder_of(token, settings), via="token")
    if at_terminal():
        return Identity(name=current_account(), via="terminal")
    raise NotPermitted(
        "no_identity",
        "Nobody knows who decides: there is neither a terminal nor an approver token.",
        hint=f"Decide at a terminal, or give a token in {TOKEN} or with --token-file; `placet token"
        " NAME` makes one.",
    )


def at_terminal() -> bool:
    """Say whether a person can be asked here."""
    return sys.stdin is not None and sys.stdin.isatty()


def confirmed(word: str, shown: str) -> None:
    """Show something, and go on only where exactly the word is typed after that (H5).

    What was typed ahead at a terminal was said of nothing that anybody has seen, and is dropped.
    Without one, the word is the next line that there is. Raises InvalidInput.
    """
    tell(shown)
    if at_terminal():
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
    what = "say so" if word in FINDINGS else f"{word} this"
    click.echo(f"Type {word} to {what}, or anything else to leave it: ", err=True, nl=False)
    typed = sys.stdin.readline()
    if typed.removesuffix("\n") != word:
        raise InvalidInput("not_confirmed", f"Nothing was decided: that was not {word!r}.")


def _token(token_file: Path | None) -> str:
    if token_file is None:
        return os.environ.get(TOKEN, "")
    try:
        found = token_file.read_text(encoding="utf-8").strip()
    except OSError as error:
        told = f"{token_file} cannot be read: {error.strerror or error}."
        raise InvalidInput("invalid_token_file", told) from error
    except UnicodeDecodeError as error:
        raise InvalidInput("invalid_token_file", f"{token_file} is no text.") from error
    if not found:
        raise InvalidInput("invalid_token_file", f"{token_file} is empty.")
    if len(found.splitlines()) > 1:
        raise InvalidInput(
            "invalid_token_file",
            f"{token_file} holds more than one line; a token file holds the token alone.",
            hint="Keep the token's line, and take the others out.",
        )
    return found


def _holder_of(token: str, settings: Settings) -> str:
    digest = sha256(token.encode("utf-8", "surrogateescape")).hexdigest()
    holders = [
        name
        for name, known in settings.approver_tokens.items()
        if hmac.compare_digest(digest, known)
    ]
    if len(holders) != 1:
        raise NotPermitted(
            "unknown_token",
            "The approver token is nobody's." if not holders else "The token is several people's.",
            hint="`placet token` makes one; its sum belongs under [approver_tokens].",
        )
    return holders[0]
