"""Faults put into placet on purpose, one at a time, to show that a world can see each of them.

A mutant changes one function's code, wherever it was imported to, for as long as it lasts.
"""

from __future__ import annotations

import contextlib
import inspect
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from placet.core import (
    deciders,
    deciding_effects,
    deciding_outcomes,
    deciding_requests,
    deciding_runs,
    deciding_sagas,
    deciding_steps,
    evolve,
)
from placet.core.unfolding import Unfolding
from placet.runtime import attempts, bodies, gate, processes
from tests.simulation.planning import plan_of
from tests.simulation.promises import Fault
from tests.simulation.world import World


@dataclass(frozen=True, slots=True)
class Mutant:
    """`old` is what stands in the function's source, `new` what shall stand there instead."""

    name: str
    function: Callable[..., Any]
    old: str
    new: str
    promises: frozenset[str]

    @contextlib.contextmanager
    def alive(self) -> Iterator[None]:
        """Let the fault be there, for as long as this lasts."""
        function: Any = inspect.unwrap(self.function)
        source = textwrap.dedent(inspect.getsource(function))
        assert source.count(self.old) == 1, f"{self.name}: the source reads otherwise"
        made: dict[str, Any] = {}
        code = compile(
            "from __future__ import annotations\n" + source.replace(self.old, self.new),
            inspect.getfile(function),
            "exec",
        )
        exec(code, function.__globals__, made)
        own = function.__code__
        function.__code__ = made[function.__name__].__code__
        try:
            yield
        finally:
            function.__code__ = own


def _mutant(name: str, function: Callable[..., Any], old: str, new: str, *promises: str) -> Mutant:
    return Mutant(name, function, old, new, frozenset(promises))


def first_broken(mutant: Mutant, most: int) -> tuple[int, Fault] | None:
    """Give the first seed whose world breaks a promise while the mutant is alive, and how."""
    with mutant.alive():
        for seed in range(most):
            faults = World(plan_of(seed)).run().faults
            if faults:
                return seed, faults[0]
    return None


MUTANTS = (
    _mutant(
        "an approval is not spent",
        deciding_effects._begin_approved,
        "_enter(so_far, command, call, request.id)",
        "_enter(so_far, command, call, None)",
        "G1",
        "G7",
    ),
    _mutant(
        "an effect goes past the gate",
        gate.Gate.run,
        "changes = await self._changes_told(session, call)",
        "changes = await self._changes_told(session, call)\n"
        "    tool_ = self._toolbox.tools[call.tool]\n"
        "    if isinstance(stored.arguments, Mapping):\n"
        "        await attempt(tool_, stored.arguments, 'ik_' + call.digest[:32], call=str(at))\n",
        "G2",
    ),
    _mutant(
        "what is lost counts as not done",
        deciding_outcomes._lost,
        "purpose, cause = call.state.purpose, unknown.cause",
        "purpose, cause = call.state.purpose, unknown.cause\n"
        "    if purpose == 'run':\n"
        "        _failed(so_far, call, c.Failed(error=cause, not_done=True))\n"
        "        return\n",
        "D4",
    ),
    _mutant(
        "a lost connection counts as not done",
        bodies.judged,
        "return Unknown(cause=cause, body_over=True, spread=spread)\n    return Failed",
        "return Failed(error=cause, not_done=True, spread=spread)\n    return Failed",
        "D4",
    ),
    _mutant(
        "a stale fence is not refused",
        Unfolding.driven_by,
        "if not held or fence != run.fence:",
        "if False:",
        "D5",
    ),
    _mutant(
        "an approval is spent past its deadline",
        deciding_effects._begin_approved,
        "if so_far.state.now >= request.deadline_at:",
        "if False:",
        "G9",
    ),
    _mutant(
        "a decision is taken past the deadline",
        deciding_requests._in_time,
        "if so_far.state.now >= request.deadline_at:",
        "if False:",
        "G9",
    ),
    _mutant(
        "nothing is held while a request waits",
        deciding_effects._not_held,
        "if by := held_by(so_far.state, call):",
        "if by := '':",
        "G8",
    ),
    _mutant(
        "authority is not looked at again",
        deciding_effects._begin_approved,
        "may_decide(request, command.eligible, ",
        "may_decide(request, request.people(now), ",
        "G10",
    ),
    _mutant(
        "anybody may decide",
        deciders.check_authority,
        "if by.id in people:",
        "if True:",
        "G10",
    ),
    _mutant(
        "an agent's credential decides",
        deciders.check_person,
        'if by.kind != "person":',
        "if False:",
        "G10",
    ),
    _mutant(
        "a changed environment is not seen",
        deciding_effects._changed,
        "so_far.environment(today.draft.environment) != call.environment",
        "False",
        "G13",
    ),
    _mutant(
        "a lease is taken from whoever has it",
        deciding_runs.take_lease,
        "so_far.state.now < held.until and held.holder != command.gone",
        "False",
        "D5",
    ),
    _mutant(
        "whoever is not heard of is gone",
        processes.is_gone,
        "return started is not None and started != holder.started",
        "return True",
        "D5",
    ),
    _mutant(
        "a probe's no counts while the body lives",
        deciding_outcomes.probed,
        "elif command.happened is False and command.body_gone and not call.stray:",
        "elif command.happened is False:",
        "D4",
    ),
    _mutant(
        "it is taken back while its body may act",
        deciding_outcomes.give_up,
        "if body_over and not call.stray:",
        "if True:",
        "D8",
        "H4",
    ),
    _mutant(
        "a failed body is tried again",
        deciding_outcomes._failed,
        "(call.recovery.idempotent or failed.not_done) and failed.retriable",
        "True",
        "D4",
    ),
    _mutant(
        "what was edited can still be decided",
        evolve._request_edited,
        "Superseded(by=event.by, successor=event.successor)",
        "state.requests[event.request].state",
        "D2",
        "D3",
        "G5",
        "G7",
    ),
    _mutant(
        "nothing ever expires",
        deciding_requests.expire,
        "so_far.run(command.run)",
        "return",
        "D2",
    ),
    _mutant(
        "a no is forgotten",
        deciding_steps._remembered,
        "if no is None:",
        "if True:",
        "G6",
    ),
    _mutant(
        "a body is entered though the attempt has passed to another",
        attempts.Attempts.carried_out,
        "if awake() - asked_at > STALE_AFTER.total_seconds():",
        "if False:",
        "D5",
        "G7",
    ),
    _mutant(
        "one vote is a quorum",
        deciding_requests.approve,
        "met = len(votes) + 1 >= request.needs.quorum",
        "met = True",
        "G10",
    ),
    _mutant(
        "a failure is told before the earlier effects are taken back",
        deciding_sagas.unwind,
        "if command.earlier is None:",
        "if True:",
        "D8",
        "D3",
    ),
    _mutant(
        "the rest of a broken step goes on",
        Unfolding._break_step,
        'if run.on_failure == "continue"',
        "if True",
        "D8",
    ),
    _mutant(
        "an unknown outcome is put to nobody",
        deciding_outcomes.put_to_a_person,
        "run = so_far.run(call.at.run)",
        "return so_far.end_call(call.at, 'outcome_unknown', so_far.text(cause))",
        "D4",
    ),
)
