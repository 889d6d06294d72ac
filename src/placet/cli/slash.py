"""Lines that begin with a slash: what a person says to the chat itself, and to no model.

The two that decide are read by core's own parser, which knows their only form (H5). Whatever else
begins with a slash is one of the commands below, or is told to be none.
"""

from __future__ import annotations

from dataclasses import dataclass

from placet.core.errors import InvalidInput
from placet.core.spoken import Malformed, SpokenApprove, SpokenReject, first_word, spoken

#: The commands: how each is said, and what it does.
FORMS = {
    "approve": ("/approve ID", "approves a request of this session"),
    "reject": ("/reject ID REASON", "says no; the model is told the reason"),
    "answer": ("/answer ID TEXT", "answers a question of a run"),
    "inbox": ("/inbox", "lists what waits for people in this session"),
    "show": ("/show ID", "shows the card of a request"),
    "later": ("/later", "leaves what is asked for later"),
    "resume": ("/resume", "asks again what was left, and goes on with a run that rests"),
    "supersede": ("/supersede MESSAGE", "ends the run that waits, and says this instead"),
    "mode": ("/mode think|act|plan-act", "says how the next message is gone about"),
    "end": ("/end", "ends the session: its runs are cancelled, and it takes no further message"),
    "help": ("/help", "says this"),
    "quit": ("/quit", "leaves; what waits goes on waiting"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Slash:
    """A command of the chat, with the request that it names and what else follows its name."""

    name: str
    request: str = ""
    rest: str = ""


def parsed(line: str) -> SpokenApprove | SpokenReject | Slash | None:
    """Read a line; None: it is no command. Raises InvalidInput where it is one said wrongly."""
    text = line.strip()
    said = spoken(text)
    if isinstance(said, Malformed):
        raise InvalidInput("malformed_command", f"Nothing was decided. {said.hint}")
    if said is not None or not text.startswith("/"):
        return said
    word, rest = first_word(text)
    name = word.removeprefix("/")
    if name not in FORMS:
        raise InvalidInput(
            "unknown_command",
            f"There is no command {word}.",
            hint="It was given to no model. `/help` lists the commands.",
        )
    form = FORMS[name][0]
    wants = form.split()[1:]
    request, rest = first_word(rest) if "ID" in wants else ("", rest)
    if len(wants) != bool(request) + bool(rest):
        raise InvalidInput("malformed_command", f"Nothing was done. Say exactly `{form}`.")
    return Slash(name=name, request=request, rest=rest)


def help_text() -> str:
    """Say what can be said."""
    width = max(len(form) for form, _ in FORMS.values())
    lines = [f"  {form:<{width}}  {what}" for form, what in FORMS.values()]
    return "\n".join(["A line is a message to the agent; one that ends in \\ goes on.", *lines])
