"""What a run is about to do, told as it goes on: the tools that run, and the runs under it."""

from __future__ import annotations

from collections.abc import Sequence

from placet.agent.watching import RunEvent, TextArrives
from placet.cli.live import LiveText
from placet.cli.output import tell
from placet.core import work as w
from placet.core.display import visible
from placet.core.state import Run
from placet.runtime.engine import Engine


class Family:
    """Who the runs are that one is told of: read from the store when it is first told of them."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._known: dict[str, Run] = {}

    def run(self, run: str) -> Run | None:
        """Give a run as it was when it was first looked at; None: it is not on record."""
        if run not in self._known:
            row = self._engine.store.find_run(self._engine.tenant, run)
            if row is None:
                return None
            self._known[run] = row.run
        return self._known[run]

    def agent(self, run: str) -> str:
        """Name the agent of a run."""
        found = self.run(run)
        return run if found is None else found.agent

    def item(self, run: str) -> str:
        """Say at which item of its plan a run is now; empty where it has no plan."""
        row = self._engine.store.find_run(self._engine.tenant, run)
        if row is None or row.run.plan is None:
            return ""
        return f"works on item {row.run.plan.done + 1} of {row.run.plan.items}"


class Effects:
    """Knows of which tools an effect is under way."""

    def __init__(self) -> None:
        self._of: dict[str, str] = {}

    @property
    def now(self) -> str:
        """Name the tool whose effect is under way; empty where there is none."""
        return next(iter(self._of.values()), "")

    def watch(self, event: RunEvent) -> None:
        """Be told of what happens."""
        if isinstance(event, TextArrives):
            return
        self._of.pop(event.run, None)
        if isinstance(event.work, (w.RunEffect, w.TakeBack)):
            self._of[event.run] = visible(", ".join(event.tools))

    def clear(self) -> None:
        """Forget what was under way: nothing is now."""
        self._of.clear()


class Progress:
    """Tells what a run is about to do, and first, where it is new, that it has begun.

    Of a run that stands under it, it says so when it is first heard of. `text`, where it is given,
    shows what is said, too.
    """

    def __init__(
        self, run: str, family: Family, *, begins: bool = False, text: LiveText | None = None
    ) -> None:
        self._run = run
        self._family = family
        self._begins = begins
        self._introduced = {run}
        self._text = text
        self.effects = Effects()
        self.begun = False
        if text is not None:
            text.own.add(run)

    def watch(self, event: RunEvent) -> None:
        """Be told of the next work, which there is only once the run is on record."""
        self.effects.watch(event)
        if isinstance(event, TextArrives):
            if self._text is not None:
                self._text.arrives(event)
            return
        if self._text is not None:
            self._text.close()
        if self._begins and not self.begun:
            tell(f"{self._run} begins")
        self.begun = True
        self._introduce(event.run)
        if told := described(event.work, event.tools):
            step = step_of(event.work)
            tell(f"{event.run} {told}" if step is None else f"{event.run} step {step}: {told}")

    def _introduce(self, run: str) -> None:
        """Say of a run that nobody asked for under which it stands."""
        if run in self._introduced:
            return
        self._introduced.add(run)
        found = self._family.run(run)
        if found is not None and found.parent is not None:
            tell(f"{run} is a run of {visible(found.agent)}, under {found.parent.run}")


def step_of(work: w.Work) -> int | None:
    """Give the step that a piece of work belongs to; None: it is about none."""
    match work:
        case w.CallModel(step=step):
            return step
        case w.RunReads(calls=calls):
            return calls[0].step
        case w.RunEffect(at=at) | w.Delegate(at=at) | w.Recover(at=at) | w.Probe(at=at):
            return at.step
        case _:
            return None


def described(work: w.Work, tools: Sequence[str]) -> str:
    """Say in a few words what a run is about to do; nothing where it only waits."""
    named = visible(", ".join(tools))
    match work:
        case w.CallModel(closing=closing):
            return "asks the model" + (" for its last word" if closing else "")
        case w.RunReads():
            return f"reads ({named})"
        case w.RunEffect():
            return f"is about to run {named}"
        case w.Delegate():
            return f"hands a task to the agent {named}"
        case w.Recover():
            return f"takes {named} over from a process that is gone"
        case w.Probe():
            return f"finds out what became of {named}"
        case w.TakeBack(at=at):
            return f"step {at.step}: takes back what {named} may have done"
        case w.Unwind(at=at):
            return f"step {at.step}: {named} failed, and what earlier calls did is taken back"
        case w.ExpireDue(closes=closes):
            return "closes what is past its deadline" if closes else "asks more people"
        case w.Finish() | w.Wait() | w.Done() | w.ResumeHost():
            return ""
