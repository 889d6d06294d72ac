"""Cards for tests: one with everything on it, and one text put wherever a stranger's may stand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from functools import cache
from typing import Any

from placet.core.card import Attempt, Card, Earlier, Story, card_of
from placet.core.card_words import Language
from placet.core.state import Call, Open, Request, Run, Superseded, Voided
from placet.core.values import Draft, Escalation, Needs, Occurrence
from tests.core.build import ASK, SALT, asking, sound

#: What is not hostile, in each position that is not looked at.
CALM: Mapping[str, Any] = {
    "effect": "moves an amount",
    "reversible": False,
    "preview": "one\ntwo",
    "cost": {"field": "amount", "currency": "USD", "places": 0},
}


@cache
def _asked() -> tuple[Request, Call, Run, Draft]:
    """Give a request that waits, the same one each time."""
    salt = "00" * 16
    world = asking(ASK, salt=salt)
    (request,) = world.state.requests.values()
    return request, world.state.calls[request.at], world.state.runs["r1"], sound(salt=salt).draft


class Making:
    """Everything that a card is made of, to be changed in one place."""

    request: Request
    call: Call
    run: Run
    draft: Draft
    story: Story

    def __init__(self, arguments: Mapping[str, Any] | str | None = None) -> None:
        request, self.call, self.run, draft = _asked()
        self.request = replace(request, replaces="rq_before", state=Open(votes=("ann",)))
        given = {"amount": "10"} if arguments is None else arguments
        self.draft = replace(draft, arguments=given)
        self.story = Story(
            display=dict(CALM),
            grounds="it is above the limit",
            claim="the customer asked for it",
            attempts=(Attempt(number=1, end="failed", cause="OSError: down"),),
            earlier=Earlier(code="tool_failed", times=2, told="Failed: down"),
            replaced=replace(self.request, state=Voided(changed=("tool",), successor=None)),
        )

    def card(self, language: Language = "en", *, salt: str = SALT) -> Card:
        """Make the card."""
        return card_of(
            self.request,
            self.call,
            self.run,
            self.draft,
            self.story,
            salt=salt,
            language=language,
        )

    def asked(self, **changes: Any) -> Making:
        """Change the request."""
        self.request = replace(self.request, **changes)
        return self

    def ran(self, **changes: Any) -> Making:
        """Change the run."""
        self.run = replace(self.run, **changes)
        return self

    def told(self, **changes: Any) -> Making:
        """Change the story; `display` is changed by its own fields."""
        if "display" in changes:
            changes["display"] = {**self.story.display, **changes["display"]}
        self.story = replace(self.story, **changes)
        return self


def _session(text: str) -> Making:
    making = Making()
    making.draft = replace(making.draft, session=text)
    return making


def _replaced(state: Any) -> Making:
    making = Making()
    return making.told(replaced=replace(making.request, state=state))


def _cost(text: str) -> Making:
    return Making({"amount": text})


def _changes(**change: Any) -> Making:
    import json

    return Making().told(changes=json.dumps([change]), replaced=None)


#: Where a text that placet did not write can stand on a card, and how it comes there.
POSITIONS: Mapping[str, Callable[[str], Making]] = {
    "argument": lambda text: Making({"value": text}),
    "argument in an object": lambda text: Making({"deep": {"list": [{"value": text}, 1]}}),
    "argument in a list": lambda text: Making({"list": [text, {}]}),
    "name of an argument": lambda text: Making({text: 1}),
    "name in an object": lambda text: Making({"deep": {text: {"b": 1}}}),
    "unreadable arguments": Making,
    "tool": lambda text: Making().asked(tool=text),
    "effect": lambda text: Making().told(display={"effect": text}),
    "preview": lambda text: Making().told(display={"preview": text}),
    "amount": _cost,
    "rule": lambda text: Making().asked(rule=text),
    "reason": lambda text: Making().told(grounds=text),
    "claim": lambda text: Making().told(claim=text),
    "name of a change": lambda text: _changes(name=text, old=1),
    "old value": lambda text: _changes(name="who", old=text),
    "new value": lambda text: _changes(name="who", new={"a": text}),
    "sentence of a change": lambda text: Making().told(changes=text, replaced=None),
    "editor": lambda text: _replaced(Superseded(by=text, successor="rq_1")),
    "what changed": lambda text: _replaced(Voided(changed=("tool", text), successor=None)),
    "request before": lambda text: Making().asked(replaces=text),
    "failure": lambda text: Making().told(attempts=(Attempt(number=3, end="lost", cause=text),)),
    "earlier result": lambda text: Making().told(
        earlier=Earlier(code="tool_failed", times=1, told=text)
    ),
    "requester": lambda text: Making().asked(requester=text),
    "agent": lambda text: Making().ran(agent=text),
    "run": lambda text: Making().ran(id=text),
    "run above": lambda text: Making().ran(parent=Occurrence(text, 1, 0)),
    "session": _session,
    "approver": lambda text: Making().asked(needs=Needs(approvers=(text, "~"), quorum=2)),
    "approver to come": lambda text: Making().asked(
        escalation=(Escalation(after=timedelta(minutes=5), approvers=("cy", text)),)
    ),
    "voter": lambda text: Making().asked(state=Open(votes=(text, "bob"))),
}
