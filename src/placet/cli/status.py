"""Where runs and requests stand, in words: what a command says last, and `show` of what is closed.

It tells of the stored state alone, so that no line promises what that state does not hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from placet.cards import Telling, telling_of
from placet.cli.output import runnable
from placet.cli.words import said
from placet.core.card_words import WORDS as CARD_WORDS
from placet.core.card_words import Language
from placet.core.card_words import said as card_said
from placet.core.commands import Names
from placet.core.deciders import too_few
from placet.core.display import visible
from placet.core.masking import Masking
from placet.core.retelling import retold, retold_end
from placet.core.state import (
    Answered,
    Approved,
    CallOver,
    Cancelled,
    Expired,
    Open,
    Rejected,
    Request,
    Resting,
    Run,
    RunOver,
    Session,
    Settled,
    Spent,
    Superseded,
    Unsettled,
    Voided,
    Working,
)
from placet.core.values import RequestKind, idempotency_key
from placet.core.wording import command_for
from placet.core.work import (
    ExpireDue,
    Probe,
    ResumeHost,
    TakeBack,
    Wait,
    Work,
    due_escalations,
    due_requests,
    is_late,
    next_work,
)
from placet.people import People
from placet.results import asked_of_people
from placet.runtime.processes import is_gone
from placet.stores.store import RequestRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Where a run stands: one word, what there is to say of it, and the requests that it names.

    The word is `over`, `working`, `waiting` (for people) or `resting`.
    """

    word: str
    detail: str
    waiting: tuple[str, ...] = ()
    unsettled: tuple[str, ...] = ()


def standing_of(state: Session, run: Run, *, told: Callable[[str], str] | None = None) -> Standing:
    """Say where a run stands; `told` masks what is known to be secret, and else shapes are."""
    unsettled = open_settlements(state, run.id)
    word, detail, waiting = _standing(state, run)
    if word == "resting" and isinstance(run.state, Resting) and run.state.not_before is not None:
        cause = (told or Masking(salt=state.salt).told)(run.state.cause)
        detail += f", because of {visible(cause)}" if cause else ""
    return Standing(word=word, detail=detail, waiting=waiting, unsettled=unsettled)


def ways_of(run: Run) -> tuple[str, ...]:
    """Say how a run goes about its message, where that is not simply to act, and under which."""
    ways = [] if run.mode == "act" else [f"mode {run.mode}"]
    if run.plan is not None:
        ways.append(f"plan {min(run.plan.done + 1, run.plan.items)} of {run.plan.items}")
    if run.parent is not None:
        ways.append(f"under {run.parent.run}")
    return tuple(ways)


def unsettled_lines(standing: Standing) -> list[str]:
    """Name what a run leaves to people though it ends."""
    return [
        runnable(f"  {settlement}: nobody knows that outcome yet; `placet show {settlement}`")
        for settlement in standing.unsettled
    ]


def open_settlements(state: Session, run: str) -> tuple[str, ...]:
    """Name the settlements of a run that nobody has answered: they outlive it (D4)."""
    return tuple(
        sorted(
            request.id
            for request in state.requests.values()
            if request.at.run == run
            and request.kind == "settlement"
            and isinstance(request.state, Open)
        )
    )


def _standing(state: Session, run: Run) -> tuple[str, str, tuple[str, ...]]:
    goes_on = runnable(f"`placet resume {run.id}`, or a worker, goes on")
    match run.state:
        case RunOver(stop=stop):
            return "over", f"ended: {stop}", ()
        case Working(holder=holder) if is_gone(holder):
            return "working", f"its process is gone; {goes_on}", ()
        case Working(holder=holder, until=until):
            late = f", but its lease has ended; {goes_on}" if until <= state.now else ""
            return "working", f"process {holder.pid} drives it{late}", ()
        case Resting(not_before=not_before):
            return _resting(state, run, not_before, goes_on)


def _resting(
    state: Session, run: Run, not_before: datetime | None, goes_on: str
) -> tuple[str, str, tuple[str, ...]]:
    work = _work_when_all_is_told(state, run)
    if asked := asked_of_people(state, work):
        late = [request.id for request in due_requests(state) if request.id in asked]
        waiting = tuple(each for each in asked if each not in late)
        lines = [f"waits for people: {', '.join(waiting)}"] if waiting else []
        lines += [f"past its deadline: {', '.join(late)}; {goes_on}"] if late else []
        if waiting and not late and due_escalations(state):
            lines.append(f"more people are to be asked: {goes_on}")
        return ("waiting" if waiting else "resting"), "; ".join(lines), waiting
    if isinstance(work, Wait) and work.held_by:
        if below := [held for held in work.held_by if held in state.runs]:
            told = (f"{child}: {_standing(state, state.runs[child])[1]}" for child in below)
            return "resting", f"waits for what stands under it, {'; '.join(told)}", ()
        return "resting", f"held by {visible(', '.join(work.held_by))}", ()
    if run.guard == "untold" and isinstance(work, (ResumeHost, Probe, TakeBack)):
        goes_on = f"calling {visible(run.agent)} again with the same arguments goes on"
    until = work.until if isinstance(work, Wait) else not_before
    if until is not None and until > state.now:
        return "resting", f"rests until {until:%Y-%m-%d %H:%M:%S} UTC; then {goes_on}", ()
    return "resting", goes_on, ()


def _work_when_all_is_told(state: Session, run: Run) -> Work:
    """Give what a run does next, as if those who are to be asked by now had been asked."""
    work = next_work(state, run.id)
    if not isinstance(work, ExpireDue):
        return work
    late = {each.id: replace(each, lapsed=True) for each in due_requests(state)}
    asked = {e.id: replace(e, escalated=len(e.escalation)) for e in due_escalations(state)}
    return next_work(replace(state, requests={**state.requests, **asked, **late}), run.id)


# --- requests ---------------------------------------------------------------------------------


async def about(people: People, row: RequestRow) -> dict[str, Any]:
    """Give what `show` says beside the card: how it ended, what it asks, and how to answer.

    Its texts have their secrets masked, and are still to be made visible.
    """
    state = await _session(people, row)
    telling = await telling_of(people.engine, row, language=people.language)
    request = state.requests[row.request.id]
    settlement = request.kind == "settlement"
    open_one = request.kind != "approval" and isinstance(request.state, Open)
    return {
        "ending": await _ending(telling, state, request),
        "idempotency_key": idempotency_key(state.calls[request.at].digest) if settlement else None,
        "parent_run_id": parent.run if (parent := state.runs[request.at.run].parent) else None,
        "question": await _question(people, row, telling),
        "answers": _answers(request.id, request.kind) if open_one else [],
    }


async def last_line(people: People, row: RequestRow) -> str:
    """Say what becomes of a request's run now, as its actual state has it."""
    request = row.request
    state = await _session(people, row)
    found = standing_of(state, state.runs[request.at.run])
    begun = isinstance(request.state, Spent)
    line = f"{request.at.run}: {found.detail}"
    if few := few_left("en", request, await people.left(row)):
        return f"{line}; {few}"
    return f"{line} (the approval is spent: it has begun or is done)" if begun else line


def few_left(language: Language, request: Request, left: frozenset[str] | None) -> str:
    """Say that too few are left who may decide what still waits; empty where enough are.

    `left` are those who may by its deadline, None where nobody knows.
    """
    if left is None or not isinstance(request.state, Open) or not too_few(request, left):
        return ""
    if not left:
        return said(language, "left.nobody")
    people = ", ".join(visible(each) for each in sorted(left))
    return said(language, "left.few", quorum=request.needs.quorum, people=people)


async def _session(people: People, row: RequestRow) -> Session:
    at = row.request.at
    names = Names(requests=(row.request.id,), steps=((at.run, at.step),), runs=(at.run,))
    return await people.engine.session(row.session, names)


async def _question(people: People, row: RequestRow, telling: Telling) -> dict[str, Any] | None:
    """Give the question that a request puts; None: it puts none that can be read."""
    if row.request.kind != "question" or not row.request.readable:
        return None
    asked = await people.question(row)
    return {
        "text": telling.told(asked.text),
        "choices": list(map(telling.told, asked.choices)),
        "wanted": telling.told(asked.wanted),
        "answer": asked.answer,
    }


def _answers(request: str, kind: RequestKind) -> list[str]:
    if kind == "question":
        return [f"{command_for(request, kind)} TEXT", f"placet reject {request} --reason WHY"]
    return [
        f"{command_for(request, kind)} {finding}"
        for finding in ("--happened RESULT", "--did-not-happen", "--abandon")
    ]


async def _ending(telling: Telling, state: Session, request: Request) -> str:
    """Tell the end of a request's story, in the language of its card; nothing while it waits."""
    language = telling.masking.language

    def ended(name: str, **places: str) -> str:
        return said(language, f"ended.{name}", **places)

    match request.state:
        case Open():
            return ended("lapsed") if request.lapsed else _late(language, state, request)
        case Approved(votes=votes):
            then = _late(language, state, request) or ended("not_begun")
            return ended("approved", people=_listed(language, votes)) + ended("then", then=then)
        case Spent(votes=votes):
            then = _outcome(language, state, request)
            return ended("approved", people=_listed(language, votes)) + ended("then", then=then)
        case Rejected(by=by, reason_ref=ref):
            return ended("rejected", person=by, reason=await telling.text(ref))
        case Superseded(by=""):
            return ended("newer")
        case Superseded(by=by, successor=successor):
            if successor:
                return ended("edited", person=by, request=successor)
            code, told = await _answered_at_once(telling, state, request)
            return ended("edited_away", person=by, code=code, told=told)
        case Voided(changed=changed, successor=successor):
            what = _listed(language, (_changed(language, each) for each in changed))
            if successor:
                return ended("changed", changed=what, request=successor)
            return ended("changed_away", changed=what)
        case Expired(unreachable=channels) if channels:
            return ended("unreachable", channels=_listed(language, map(visible, channels)))
        case Expired(votes=votes):
            if votes:
                return ended("expired_approved", people=_listed(language, votes))
            return ended("expired")
        case Cancelled(cause=cause):
            return ended("cancelled", cause=retold(language, telling.told(cause)))
        case Settled(by=by, finding=finding, detail_ref=ref):
            known = said(language, f"finding.{finding}")
            if ref is None:
                return ended("settled", person=by, finding=known)
            return ended("settled_for", person=by, finding=known, detail=await telling.text(ref))
        case Answered(by=by, answer_ref=ref):
            return ended("answered", person=by, answer=await telling.text(ref))


def _late(language: Language, state: Session, request: Request) -> str:
    if not is_late(state, request.id):
        return ""
    name = "late" if request.kind == "question" else "late_no"
    return runnable(said(language, f"ended.{name}", command=f"`placet resume {request.at.run}`"))


async def _answered_at_once(telling: Telling, state: Session, request: Request) -> tuple[str, str]:
    """Say how the call of an edit that made no new version ended, as the model is told it."""
    over = state.calls[request.at].state
    assert isinstance(over, CallOver), "an edit makes a new version, or ends the call"
    told = await telling.text(over.told_ref)
    return over.code, retold_end(telling.masking.language, told)


def _listed(language: Language, names: Iterable[str]) -> str:
    return card_said(language, "list").join(names)


def _changed(language: Language, what: str) -> str:
    return CARD_WORDS[language].get(f"changed.{what}", what) if language != "en" else what


def finding_word(finding: str) -> str:
    """Spell a finding as the options of `placet settle` do."""
    return finding.replace("_", "-")


def _outcome(language: Language, state: Session, request: Request) -> str:
    """Say what became of the call that an approval was spent on."""
    match state.calls[request.at].state:
        case CallOver(code=code):
            return said(language, "ended.outcome", code=code)
        case Unsettled(request=settlement):
            return said(language, "ended.unknown", request=settlement)
        case _:
            return said(language, "ended.under_way")
