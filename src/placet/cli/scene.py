"""Where a session stands, for somebody who talks in it: what can go on, and what waits for whom."""

from __future__ import annotations

from dataclasses import dataclass, field

from placet.cli.status import standing_of
from placet.core.state import Delegated, Resting, Run, RunOver, Session, Working
from placet.core.work import Done, Wait, Work, next_work
from placet.runtime.engine import Engine
from placet.runtime.processes import is_gone


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What there is to say of a session now; two are equal where nobody need be told of more.

    `run` is the run that is not over and stands under no other. It is `ready` where somebody may
    carry it on now, and else `waiting` names the requests that it waits for. `mark` changes with
    whatever is written down, and with what the run would do next.
    """

    run: str | None = None
    ready: bool = False
    driven: bool = False
    waiting: tuple[str, ...] = ()
    ended: bool = False
    detail: str = field(default="", compare=False)
    mark: tuple[int, Work | None] = field(default=(0, None), compare=False)


def scene_of(engine: Engine, session: str) -> Scene:
    """Look at a session; one that is not there yet has nothing in it."""
    state = engine.store.session(engine.tenant, session)
    if state is None:
        return Scene()
    tops = [r for r in state.runs.values() if r.parent is None and not isinstance(r.state, RunOver)]
    if not tops:
        return Scene(ended=state.ended, mark=(state.seq, None))
    (run, *_) = tops
    work = next_work(state, run.id)
    ready = _ready(state, run)
    return Scene(
        run=run.id,
        ready=ready,
        driven=not ready and _driven(state, run),
        waiting=work.requests if isinstance(work, Wait) and not ready else (),
        ended=state.ended,
        detail=standing_of(state, run).detail,
        mark=(state.seq, work),
    )


def _ready(state: Session, run: Run) -> bool:
    """Say whether somebody who has the agents can carry a run on, or one under it."""
    match run.state:
        case RunOver():
            return False
        case Working(holder=holder, until=until):
            return until <= state.now or is_gone(holder)
        case Resting():
            if not isinstance(next_work(state, run.id), (Wait, Done)):
                return True
            return any(_ready(state, below) for below in _below(state, run))


def _driven(state: Session, run: Run) -> bool:
    """Say whether a process is at a run, or at one under it."""
    own = isinstance(run.state, Working)
    return own or any(_driven(state, below) for below in _below(state, run))


def _below(state: Session, run: Run) -> list[Run]:
    """Give the runs that work out calls of a run now."""
    calls = (call for call in state.calls.values() if call.at.run == run.id)
    return [state.runs[c.state.child] for c in calls if isinstance(c.state, Delegated)]
