"""A policy file rules on what agents do: through the real store, the gate and the loop."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from placet import (
    ActionRefused,
    Agent,
    ApprovalRequired,
    BrokenPolicyWarning,
    Placet,
    ScriptedModel,
    tool,
)
from placet.agent.models.scripted import call, calls, raw_call, say
from placet.agent.tools import Money
from placet.core.values import Needs
from placet.settings import Settings
from placet.stores.sqlite import SqliteStore
from tests.runtime.desk import Clock, Desk, effect
from tests.runtime.policed import PAY, TOOLS, Place, rule

HOUR = timedelta(hours=1)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def shadows(desk: Desk) -> list[Mapping[str, Any]]:
    bodies = [json.loads(event.body) for event in desk.log()]
    return [body["shadow"] for body in bodies if "shadow" in body]


# --- the ruling -------------------------------------------------------------------------------


@pytest.mark.promise("G1")
def test_what_a_rule_denies_does_not_run_and_the_model_is_told_why(place: Place) -> None:
    place.write(rule("deny", TOOLS, 'reason = "Not on Sundays."'))
    with place.desk(PAY) as desk:
        assert desk.start().stop == "final"
        assert desk.results() == [
            "Denied by policy (policy:a rule): Not on Sundays.\nThe call did not run."
        ]
    assert place.done == []


def test_what_a_rule_asks_waits_for_its_people_until_its_deadline(place: Place) -> None:
    place.write(rule("ask", TOOLS, 'reason = "Much."', 'approvers = ["bo"]', 'deadline = "2h"'))
    clock = Clock()
    with place.desk(PAY, clock=clock) as desk:
        (request,) = desk.start().waiting
        card = desk.show(request)
        assert card.deadline_at == clock.now + 2 * HOUR
        assert (card.rule, card.approvers) == ("policy:a rule", ("bo",))
        assert desk.refused(request, "approve", by="ana") == "not_an_approver"
        desk.decide(request, "approve", by="bo")
        assert desk.resume().stop == "final"
    assert place.done == ["pay a"]


def test_what_a_tool_always_asks_is_allowed_by_a_rule_that_names_it(place: Place) -> None:
    asking = effect(place.done, approval="always")
    place.write(rule("allow", 'tools = ["pa*"]'))
    with place.desk(PAY, asking) as desk:
        assert desk.start().stop == "approval_required"

    place.write(rule("allow", TOOLS))
    with place.desk(PAY, asking) as desk:
        assert desk.start(session="t", run_id="run_2").stop == "final"
    assert place.done == ["pay a"]


@pytest.mark.promise("G1")
def test_an_approval_function_that_fails_asks_whatever_a_rule_allows(place: Place) -> None:
    def unsure(_: Mapping[str, Any]) -> bool:
        raise ValueError

    place.write(rule("allow", TOOLS))
    with place.desk(PAY, effect(place.done, approval=unsure)) as desk:
        assert desk.start().stop == "approval_required"
    with place.desk(PAY, effect(place.done, approval=lambda _: True)) as desk:
        assert desk.start(session="t", run_id="run_2").stop == "final"


def test_a_read_is_denied_and_asked_about_like_an_effect(place: Place) -> None:
    seen: list[str] = []

    @tool(reads_only=True)
    def pay(what: str) -> str:
        """Only look."""
        seen.append(what)
        return what

    place.write(rule("deny", TOOLS))
    with place.desk(PAY, pay) as desk:
        assert desk.start().stop == "final"
    place.write(rule("ask", TOOLS))
    with place.desk(PAY, pay) as desk:
        (request,) = desk.start(session="t", run_id="run_2").waiting
        assert seen == []
        desk.decide(request, "approve")
        assert desk.resume("run_2").stop == "final"
    assert seen == ["a"]


def test_an_agents_own_policy_can_only_make_the_files_word_stricter(place: Place) -> None:
    place.write(rule("allow", TOOLS, name="one") + rule("ask", 'tools = ["x"]', name="two"))
    words: dict[str, str] = {}
    agent = Agent(
        name="support",
        model=ScriptedModel(lambda request: say("ok") if _told(request) else PAY[0]),
        tools=[effect(place.done, approval="never")],
        policy=lambda name, arguments: words["now"],
    )
    stops = []
    for number, word in enumerate(("allow", "ask", "deny")):
        words["now"] = word
        with place.desk((), agent=agent) as desk:
            begun = desk.start(session=f"s{number}", run_id=f"run_{number}")
            stops.append(begun.stop)
    assert stops == ["final", "approval_required", "final"]
    assert place.done == ["pay a"]


def _told(request: Any) -> bool:
    return type(request.messages[-1]).__name__ == "ToolMessage"


def test_what_binds_an_agent_binds_those_under_it(place: Place) -> None:
    place.write(rule("deny", TOOLS, 'agents = ["boss"]'))
    helper = Agent(
        name="helper",
        model=ScriptedModel(PAY),
        tools=[effect(place.done, approval="never")],
    )
    boss = Agent(
        name="boss",
        model=ScriptedModel([call("helper", message="pay"), say("done")]),
        tools=[helper],
    )
    with place.desk((), agent=boss) as desk:
        assert desk.start().stop == "final"
        (child,) = desk.children()
        assert desk.results(child)[0].startswith("Denied by policy (policy:a rule)")
    assert place.done == []


def test_arguments_that_cannot_be_read_are_denied_where_a_rule_denies_in_doubt(
    place: Place,
) -> None:
    place.write(rule("deny", TOOLS, 'when = [{argument = "what", equals = "b"}]'))
    with place.desk([raw_call("pay", '{"what": "a"'), say("ok")]) as desk:
        assert desk.start().stop == "final"
        assert "in doubt: the arguments cannot be read" in desk.results()[0]
    with place.desk(PAY) as desk:
        assert desk.start(session="t", run_id="run_2").stop == "final"
    assert place.done == ["pay a"]


def test_the_cost_that_a_tool_declares_is_held_against_a_rule(place: Place) -> None:
    @tool(approval="never", cost=Money("cents", "USD", places=2))
    def pay(cents: int) -> str:
        """Pay."""
        place.done.append(f"pay {cents}")
        return "paid"

    place.write(rule("ask", 'cost_above = {amount = "50", currency = "USD"}'))
    script = [calls(call("pay", cents=5_000), call("pay", cents=5_001)), say("ok")]
    with place.desk(script, pay) as desk:
        assert len(desk.start().waiting) == 1
        assert place.done == []  # The request holds every other effect of the session (G8).
    place.write(rule("deny", 'cost_above = {amount = "50", currency = "USD"}'))
    with place.desk(script, pay) as desk:
        assert desk.start(session="t", run_id="run_2").stop == "final"
    assert place.done == ["pay 5000"]


@pytest.mark.promise("G8")
def test_a_rule_may_hold_its_surface_alone(place: Place) -> None:
    mail = effect(place.done, "mail", approval="never", surface="mail")
    pay = effect(place.done, approval="never", surface="payments")
    script = [calls(call("pay", what="a"), call("mail", what="b")), say("ok")]

    place.write(rule("ask", TOOLS, 'hold = "surface"'))
    with place.desk(script, pay, mail) as desk:
        assert desk.start().stop == "approval_required"
    assert place.done == ["mail b"]
    place.write(rule("ask", TOOLS))
    with place.desk(script, pay, mail) as desk:
        assert desk.start(session="t", run_id="run_2").stop == "approval_required"
    assert place.done == ["mail b"]


def test_no_more_requests_wait_in_a_session_than_the_file_permits(place: Place) -> None:
    place.write("[defaults]\nmost_waiting = 1\n" + rule("ask", TOOLS))
    script = [calls(call("pay", what="a"), call("pay", what="b")), say("ok")]
    with place.desk(script) as desk:
        assert len(desk.start().waiting) == 1
        assert "1 requests wait in this session" in desk.results()[0]


# --- what only the record and others know -----------------------------------------------------


def test_only_the_first_of_its_kind_is_asked_in_a_session(place: Place) -> None:
    place.write(rule("ask", TOOLS, "first_of_its_kind = true", 'kind_of = ["what"]'))
    stops = []
    with place.desk(()) as desk:
        pass
    for number, what in enumerate(("a", "a", "b")):
        script = [call("pay", what=what), say("ok")]
        with place.desk(script) as desk:
            run = f"run_{number}"
            begun = desk.start(run_id=run)
            stops.append(begun.stop)
            for request in begun.waiting:
                desk.decide(request, "approve")
                desk.resume(run)
    assert stops == ["approval_required", "final", "approval_required"]
    with place.desk(PAY) as desk:
        assert desk.start(session="t", run_id="run_9").stop == "approval_required"


def test_a_call_that_failed_is_not_the_first_that_succeeded(place: Place) -> None:
    place.write(rule("ask", TOOLS, "first_of_its_kind = true"))

    @tool(approval="never")
    def pay(what: str) -> str:
        """Fail."""
        raise ValueError(what)

    script = [call("pay", what="a"), call("pay", what="b"), say("ok")]
    with place.desk(script, pay) as desk:
        (request,) = desk.start().waiting
        desk.decide(request, "approve")
        assert desk.resume().stop == "approval_required"


@pytest.mark.promise("D6")
def test_what_has_succeeded_is_read_once_however_long_the_session_grows(place: Place) -> None:
    place.write(rule("ask", TOOLS, "first_of_its_kind = true", 'kind_of = ["what"]'))
    many = 12
    script = [*[call("pay", what="a") for _ in range(many)], say("ok")]
    read: list[int] = []
    with place.desk(script) as desk:
        events = desk.store.events

        def counted(tenant: str, session: str, *, after: int = 0) -> Any:
            for event in events(tenant, session, after=after):
                read.append(event.seq)
                yield event

        desk.store.events = counted  # type: ignore[method-assign]  # Only counted.
        (request,) = desk.start().waiting
        desk.decide(request, "approve")
        assert desk.resume().stop == "final"
    assert len(place.done) == many
    assert len(read) == len(set(read))


def test_what_trusted_sources_say_is_held_against_rules(place: Place) -> None:
    place.write(rule("deny", TOOLS, 'annotation = {source = "judge", label = "pii"}'))
    asked: list[tuple[str, Mapping[str, Any]]] = []

    def judge(name: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        asked.append((name, arguments))
        return {"pii": arguments["what"] == "secret"}

    script = [call("pay", what="secret"), call("pay", what="b"), say("ok")]
    with place.desk(script, annotators={"judge": judge, "other": judge}) as desk:
        assert desk.start().stop == "final"
    assert place.done == ["pay b"]
    assert {name for name, _ in asked} == {"pay"}
    assert [arguments["what"] for _, arguments in asked] == ["secret", "b", "b"]


@pytest.mark.promise("G1")
@pytest.mark.parametrize("odd", ["raises", "lists", "no json", "changes"])
def test_a_source_that_gives_no_answer_is_a_doubt(place: Place, odd: str) -> None:
    place.write(rule("deny", TOOLS, 'annotation = {source = "judge", label = "pii"}'))

    def judge(_: str, arguments: Any) -> Any:
        arguments["what"] = "other"
        if odd == "raises":
            raise ValueError
        return {"lists": ["pii"], "no json": {"pii": object()}, "changes": {"pii": False}}[odd]

    with place.desk(PAY, annotators={"judge": judge}) as desk:
        assert desk.start().stop == "final"
    assert place.done == (["pay a"] if odd == "changes" else [])


@pytest.mark.conformance(29)
def test_no_source_is_shown_what_cannot_be_read(place: Place) -> None:
    place.write(rule("ask", TOOLS, "low_confidence_below = 0.5"))
    shown: list[Any] = []
    with place.desk(
        [raw_call("pay", "{"), say("ok")], annotators={"judge": lambda *it: shown.append(it)}
    ) as desk:
        assert desk.start().stop == "approval_required"
    assert shown == []


# --- other ways in ----------------------------------------------------------------------------


@pytest.mark.promise("G2")
def test_a_guarded_function_is_ruled_by_the_file_too(place: Place) -> None:
    place.write(
        rule("allow", 'tools = ["refund"]', 'when = [{argument = "cents", at_most = 50}]', name="a")
        + rule("deny", 'requesters = ["eve"]', 'sessions = ["s-*"]', name="b")
    )
    store = SqliteStore(place.directory / "placet.db")
    with Placet(store, approvers=["ana"], policy=str(place.policy)) as placet:
        guard = placet.guard(
            session=lambda order, **_: f"s-{order}", requester=lambda who, **_: who
        )

        @guard
        def refund(order: str, cents: int, who: str) -> str:
            place.done.append(f"{order} {cents}")
            return "refunded"

        assert refund("A", 50, "rita") == "refunded"
        with pytest.raises(ApprovalRequired):
            refund("B", 51, "rita")
        with pytest.raises(ActionRefused) as refused:
            refund("C", 50, "eve")
        assert refused.value.code == "policy_denied"
    assert place.done == ["A 50"]


# --- tried out --------------------------------------------------------------------------------


@pytest.mark.conformance(28)
def test_in_shadow_nothing_is_blocked_and_everything_is_recorded(place: Place) -> None:
    place.write('[surfaces]\npayments = "shadow"\n' + rule("ask", TOOLS, 'deadline = "2h"'))
    with place.desk(PAY) as desk:
        assert desk.start().stop == "final"
        (shadow,) = shadows(desk)
    assert shadow == {"ruling": "ask", "rule": "policy:a rule", "lasts": 7_200_000_000}
    assert place.done == ["pay a"]


@pytest.mark.conformance(28)
def test_in_shadow_what_is_answered_at_once_is_recorded_too(place: Place) -> None:
    place.write('[surfaces]\npayments = "shadow"\n' + rule("deny", TOOLS))
    asking = effect(place.done, approval="always", surface="payments")
    with place.desk(PAY, asking, approvers=()) as desk:
        assert desk.start().stop == "final"
        assert shadows(desk) == [{"ruling": "deny", "rule": "policy:a rule"}]


def test_where_rules_are_enforced_or_off_there_is_no_shadow(place: Place) -> None:
    for mode in ("enforce", "off"):
        place.write(f'[surfaces]\npayments = "{mode}"\n' + rule("ask", TOOLS))
        with place.desk(PAY) as desk:
            desk.start(session=mode, run_id=f"run_{mode}")
            assert [e for e in desk.log(session=mode) if '"shadow"' in e.body] == []


# --- without a file ---------------------------------------------------------------------------


def test_without_a_file_the_declarations_rule_and_those_of_the_settings_are_asked(
    place: Place, tmp_path: Path
) -> None:
    with Desk(tmp_path, PAY, [effect(place.done, approval="always")]) as desk:
        (request,) = desk.start().waiting
        state = desk.state()
        assert state.requests[request].needs == Needs(approvers=("ana",))
        assert state.requests[request].rule == "tool:pay"


@pytest.mark.promise("G1")
@pytest.mark.parametrize("said", [str, Path], ids=["a name", "a path"])
def test_a_store_that_is_opened_may_be_given_its_policy_and_takes_the_settings_else(
    place: Place, said: Any
) -> None:
    place.write(rule("deny", TOOLS))
    model = ScriptedModel([*PAY, *PAY])
    agent = Agent(name="support", model=model, tools=[effect(place.done, approval="never")])
    url = f"sqlite:///{place.directory / 'placet.db'}"
    with Placet.open(url, agents=[agent], policy=said(place.policy)) as placet:
        assert placet.run_sync("support", "go").stop == "final"
    assert place.done == []
    with Placet.open(url, agents=[agent], settings=Settings()) as placet:
        assert placet.run_sync("support", "go").stop == "final"
    assert place.done == ["pay a"]


@pytest.mark.promise("G1")
def test_who_sets_agents_up_is_warned_of_a_policy_file_that_is_broken(place: Place) -> None:
    place.write(rule("aks", TOOLS))
    agent = Agent(name="support", model=ScriptedModel(PAY), tools=[effect(place.done)])
    store = SqliteStore(place.directory / "placet.db")
    with pytest.warns(
        BrokenPolicyWarning, match=r"Every call is denied until .*placet.policy.toml:"
    ):
        placet = Placet(store, agents=[agent], approvers=["ana"], policy=place.policy)
    with placet, pytest.warns(BrokenPolicyWarning):
        placet.guard(session="s")(lambda: None)
