"""What must be true whenever a request is opened, decided or closed (G3 to G7, G9, G10)."""

from __future__ import annotations

from placet.core import events as e
from tests.simulation.record import Grant, Hearing, Request

Decided = e.VoteCast | e.RequestRejected | e.RequestEdited | e.RequestSettled | e.QuestionAnswered


def opened(heard: Hearing, event: e.RequestOpened) -> None:
    record, call = heard.record, heard.call(event.at)
    hold = heard.hold
    hold("G3", event.request not in record.requests, "a request's id is used twice")
    hold("G6", not call.code or event.kind == "settlement", "people are asked about an ended call")
    hold("G9", event.deadline_at > heard.now, "a request is opened past its deadline")
    others = [r for r in record.requests.values() if r.at == event.at and not r.closed]
    successor_of = {event.replaces}
    hold("G7", {r.id for r in others if not r.lapsed} <= successor_of, "two requests of one call")
    needs = event.needs
    request = Request(
        id=event.request,
        kind=event.kind,
        at=event.at,
        digest=event.digest,
        order=call.order,
        surface=call.surface,
        approvers=needs.approvers,
        quorum=needs.quorum,
        excluded=event.requester if needs.exclude_requester else "",
        requester=event.requester,
        rule=event.rule,
        deadline=event.deadline_at,
        opened=heard.now if event.replaces is None else heard.request(event.replaces).opened,
        hold=event.hold,
        escalation=event.escalation,
    )
    if event.kind == "settlement":
        unknown = any(attempt.was_lost for attempt in call.attempts)
        hold("D4", unknown, "a known outcome is put to a person")
        call.settlements.append(event.request)
        call.undoing = ""
    else:
        people = request.people(heard.now)
        hold("G1", len(people) >= needs.quorum >= 1, "a request that nobody can grant")
        hold("G3", event.digest == call.now.digest, "a request stands for another action")
        hold("G5", not call.attempts, "an action that has begun is asked about")
        if event.replaces is not None:
            older = heard.request(event.replaces)
            hold("G5", event.deadline_at == older.deadline, "an edit or change moves the deadline")
        call.now.request = event.request
        call.now.asked_seq = record.seq
    record.requests[event.request] = request


def _spoken(heard: Hearing, by: str) -> None:
    heard.hold("G10", heard.speaker == (by, "person"), f"{by} has not said so: {heard.speaker}")


def _may_decide(
    heard: Hearing, request: Request, event: Decided, *, kinds: tuple[str, ...]
) -> None:
    """Hold what every decision needs: an open request, a person with authority, and time."""
    hold, by = heard.hold, event.by
    hold("G7", not request.closed, f"a closed request ({request.closed}) is decided")
    hold("G7", request.kind in kinds, f"a {request.kind} is decided as another kind")
    allowed = by in heard.may_decide(request.rule, request) or (
        request.kind == "question" and by == request.requester
    )
    hold("G10", allowed, f"{by} was not asked, or has no authority any more")
    stood_in = by not in request.people(heard.now)
    hold("G10", event.stood_in == stood_in, f"the record is wrong of whether {by} was asked")
    if request.kind != "settlement":
        hold("G9", heard.now < request.deadline, "a decision is taken past the deadline")
    _spoken(heard, by)


def voted(heard: Hearing, event: e.VoteCast) -> None:
    request = heard.request(event.request)
    _may_decide(heard, request, event, kinds=("approval",))
    heard.hold("G7", event.by not in request.votes, "one person votes twice")
    heard.hold("G3", event.digest == request.digest, "a vote is for another action")
    heard.hold("G7", not request.approved, "a vote comes after the quorum")
    request.votes.append(event.by)
    request.voters.add(event.by)
    heard.hold("G10", event.met == (len(request.votes) >= request.quorum), "a quorum is miscounted")


def escalated(heard: Hearing, event: e.RequestEscalated) -> None:
    request = heard.request(event.request)
    heard.hold("G9", request.waits and not request.lapsed, "what does not wait escalates")
    due = sum(heard.now >= request.opened + step.after for step in request.escalation)
    heard.hold("G9", 1 <= event.step <= due, "an escalation comes before its time")
    request.escalated = event.step


def delivered(heard: Hearing, event: e.NoticeDelivered) -> None:
    request, channel = heard.request(event.request), event.channel
    news = channel not in request.reached or channel in request.failing
    heard.hold("H3", news, "a delivery is put on record twice")
    request.reached.add(channel)
    request.failing.discard(channel)


def undelivered(heard: Hearing, event: e.NoticeUndelivered) -> None:
    request = heard.request(event.request)
    heard.hold("H3", event.channel not in request.failing, "a retry is put on record")
    request.failing.add(event.channel)


def granted(heard: Hearing, event: e.GrantGiven) -> None:
    """Hold a standing grant: it comes with an approval, by who gave that, and ends (G12)."""
    request, hold = heard.request(event.request), heard.hold
    hold("G12", request.votes == [event.by], "a grant comes without an approval of its giver")
    hold("G12", request.quorum == 1, "one person grants what one person cannot approve")
    call = heard.call(request.at)
    document = call.now.document
    tool = (event.tool, event.tool_fingerprint, event.surface)
    frozen = (call.tool, document["tool_fingerprint"], call.surface)
    hold("G12", tool == frozen and call.kind == "effect", "a grant is of another tool")
    named = {*event.same, *event.any}
    hold("G12", named == {*document.get("arguments", {})}, "a grant leaves arguments unnamed")
    hold("G12", event.until > heard.now and event.uses > 0, "a grant has no end, or has ended")
    hold("G12", event.run in (None, request.at.run), "a grant is of another run")
    _spoken(heard, event.by)
    heard.record.grants[event.grant] = Grant(event, event.uses)


def revoked(heard: Hearing, event: e.GrantRevoked) -> None:
    grant = heard.record.grants.pop(event.grant, None)
    heard.hold("G12", grant is not None, "what is no grant is taken back")
    if grant is not None and not event.by:
        policy = getattr(heard.command, "policy_version", grant.event.policy_version)
        changed = policy != grant.event.policy_version
        heard.hold("G12", changed, "a grant ends, and nobody has taken it back")
    else:
        _spoken(heard, event.by)


def withdrawn(heard: Hearing, event: e.VoteWithdrawn) -> None:
    request = heard.request(event.request)
    heard.hold("G7", not request.closed, "a vote is taken back that was spent or is void")
    heard.hold("G7", event.by in request.votes, "a vote is taken back that was not cast")
    _spoken(heard, event.by)
    request.votes.remove(event.by)


def dropped(heard: Hearing, event: e.VotesDropped) -> None:
    request = heard.request(event.request)
    for person in event.people:
        heard.hold("G10", person in request.votes, "a vote is dropped that was not cast")
        request.votes.remove(person)


def rejected(heard: Hearing, event: e.RequestRejected) -> None:
    request = heard.request(event.request)
    _may_decide(heard, request, event, kinds=("approval", "question"))
    heard.hold("G7", not request.approved, "what is approved is rejected")
    request.closed = "rejected"


def edited(heard: Hearing, event: e.RequestEdited) -> None:
    request = heard.request(event.request)
    _may_decide(heard, request, event, kinds=("approval",))
    if event.successor is not None:
        successor = heard.request(event.successor)
        heard.hold("G5", successor.digest != request.digest, "an edit is the same action")
        heard.hold("G5", successor.at == request.at, "an edit is of another call")
    request.closed = "superseded"


def answered(heard: Hearing, event: e.QuestionAnswered) -> None:
    request = heard.request(event.request)
    _may_decide(heard, request, event, kinds=("question",))
    request.closed = "answered"


def settled(heard: Hearing, event: e.RequestSettled) -> None:
    request = heard.request(event.request)
    _may_decide(heard, request, event, kinds=("settlement",))
    request.closed = f"settled {event.finding}"


def lapsed(heard: Hearing, event: e.SettlementLapsed) -> None:
    request = heard.request(event.request)
    heard.hold("D4", request.kind == "settlement", "what is no settlement lapses")
    heard.hold("D4", not request.closed and not request.lapsed, "a settlement lapses twice")
    request.lapsed = True


def expired(heard: Hearing, event: e.RequestExpired) -> None:
    request = heard.request(event.request)
    heard.hold("G9", not request.closed, "a closed request expires")
    heard.hold("G9", heard.now >= request.deadline, "a request expires before its deadline")
    heard.hold("D4", request.kind != "settlement", "a settlement expires")
    in_vain = request.failing if not request.reached and not request.voters else set()
    heard.hold("H3", set(event.unreachable) == in_vain, "who was reached is misjudged at the end")
    request.closed = "expired"


def voided(heard: Hearing, event: e.RequestVoided) -> None:
    request = heard.request(event.request)
    heard.hold("G13", request.approved, "a request is voided that was not about to run")
    heard.hold("G13", bool(event.changed), "a request is voided for no reason")
    request.closed = "voided"


def closed(heard: Hearing, event: e.RequestCancelled | e.RequestSuperseded) -> None:
    request = heard.request(event.request)
    heard.hold("G7", not request.closed, "a closed request is closed again")
    request.closed = "cancelled" if isinstance(event, e.RequestCancelled) else "superseded"
