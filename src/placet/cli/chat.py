"""The command chat: a person talks with an agent, in a session that outlives the process.

It holds nothing that the store does not have: before each prompt, and while it waits for a line, it
looks where the session stands, and carries on whatever can go on, whoever made that so. What begins
with a slash is said to the chat itself, and reaches no model.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import time
from collections.abc import Callable, Coroutine
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click

from placet.cli.apps import app_option, opened, the_agent
from placet.cli.carrying import Onlooker, carried
from placet.cli.chat_requests import Requests, Shown
from placet.cli.identity import TOKEN, Identity, who_decides
from placet.cli.inbox import inbox_listed, shown
from placet.cli.lines import Lines, lines_of_stdin
from placet.cli.output import (
    Exit,
    Given,
    runnable,
    shared,
    tell,
    tell_error,
    with_ways_out,
)
from placet.cli.progress import Family
from placet.cli.scene import Scene, scene_of
from placet.cli.secrecy import SessionSecrets
from placet.cli.sessions import session_here, session_option
from placet.cli.slash import Slash, help_text, parsed
from placet.cli.status import standing_of, unsettled_lines
from placet.core.commands import Names
from placet.core.display import visible
from placet.core.errors import (
    Closed,
    Conflict,
    InProgress,
    InvalidInput,
    NotPermitted,
    PlacetError,
)
from placet.core.spoken import SpokenApprove, SpokenReject
from placet.core.values import Mode
from placet.results import inbox_of
from placet.runtime.authority import refuse_under_mark
from placet.runtime.engine import new_id

if TYPE_CHECKING:
    from placet.client import Placet
    from placet.results import RunResult
    from placet.settings import Settings

#: How often it is looked what time alone has changed, such as a deadline, while nobody acts.
LOOK_AGAIN = timedelta(seconds=1)


@click.command("chat", short_help="Talk with an agent, and decide in place.")
@app_option
@click.option("--agent", default="", help="Which agent of the app, where there are several.")
@session_option
@click.option("--requester", help="For whom the runs act; by default the account you are.")
@click.option(
    "--token-file",
    type=click.Path(path_type=Path),
    help="A file that holds your approver token, instead of PLACET_APPROVER_TOKEN.",
)
@shared
@click.pass_obj
def chat_command(
    given: Given,
    app: str,
    agent: str,
    session: str | None,
    requester: str | None,
    token_file: Path | None,
) -> int:
    """Talk with an agent; what a person must decide is shown, and decided in place.

    Leaving leaves what waits as it is: the same command comes back to it. Without a terminal each
    line of standard input is a message, and only a token decides.
    """
    refuse_under_mark()
    if given.as_json:
        raise click.UsageError("A chat has no JSON document; `placet run --json` gives one.")
    settings = given.settings()
    who = _who(settings, token_file)
    os.environ.pop(TOKEN, None)  # What the agent's tools start must not find it there (G10).
    with opened(settings, app) as placet:
        chat = Chat(
            placet,
            agent=the_agent(placet, agent),
            session=session or session_here(placet.engine),
            requester=requester,
            who=who,
            lines=lines_of_stdin(),
        )
        return chat.talk()


def _who(settings: Settings, token_file: Path | None) -> Identity | NotPermitted:
    """Say who decides here, or why nobody does; raises NotPermitted for a token of nobody's."""
    try:
        return who_decides(settings, token_file)
    except NotPermitted as error:
        if error.code != "no_identity":
            raise
        return error


class Chat:
    """One person's talk with an agent, in one session."""

    def __init__(
        self,
        placet: Placet,
        *,
        agent: str,
        session: str,
        requester: str | None,
        who: Identity | NotPermitted,
        lines: Lines,
    ) -> None:
        self._placet = placet
        self._agent = agent
        self._session = session
        self._requester = requester
        self._lines = lines
        self._requests = Requests(placet.people, session, who, further=self._further)
        language = placet.people.language
        self._secrets = SessionSecrets(placet.engine, session, language=language)
        self._onlooker = Onlooker(Family(placet.engine), masking=self._secrets.masking)
        self._mode: Mode | None = None
        #: The run whose end is still to be told, and where it stood when it could not go on.
        self._run: str | None = None
        self._stalled: tuple[int, object] | None = None
        self._told = ""
        self._over = False

    def talk(self) -> int:
        """Talk until the person leaves; give the exit code that says where the session stands."""
        if scene_of(self._placet.engine, self._session).ended:
            raise Closed(
                "session_ended",
                "The session was ended, and takes no further message.",
                hint="Name another one with --session.",
                session=self._session,
            )
        where = f"session {visible(self._session)}, agent {visible(self._agent)}"
        tell(f"{where}: /help says what can be said, Ctrl-D leaves")
        try:
            while not self._over:
                self._turn()
        except (EOFError, KeyboardInterrupt):
            tell("")
        return self._leave()

    def _turn(self) -> None:
        """Go on with what can go on; else ask the person once, and take what is said."""
        scene = self._look()
        self._requests.tell_closed()
        self._tell_end(scene)
        if scene.run is None and scene.ended:
            tell("The session is ended, and takes no further message.")
            self._over = True
            return
        if scene.run is not None and scene.ready and scene.mark != self._stalled:
            self._go_on(scene.run)
            return
        self._tell_standing(scene)
        asked = self._requests.next(scene.waiting)
        prompt = f"{self._mode or ''}> " if asked is None else asked.prompt
        try:
            line = self._line(prompt, scene, fresh=asked is not None)
            if line is not None and line.strip():
                self._take(line, asked)
        except PlacetError as error:
            _tell_refused(error)

    def _look(self) -> Scene:
        return scene_of(self._placet.engine, self._session)

    # --- what is said -------------------------------------------------------------------------

    def _line(self, prompt: str, scene: Scene, *, fresh: bool) -> str | None:
        """Give what is said; None: the session has changed meanwhile."""
        line = self._lines.read(prompt, self._changed_from(scene), fresh=fresh)
        return line and self._with_the_rest(line)

    def _changed_from(self, scene: Scene) -> Callable[[], bool]:
        """Give what says whether the session stands otherwise: by what others do, or by time."""
        store = self._placet.engine.store
        seen, looked_at = store.changes(), time.monotonic()

        def changed() -> bool:
            nonlocal seen, looked_at
            now, at = store.changes(), time.monotonic()
            if now == seen and at - looked_at < LOOK_AGAIN.total_seconds():
                return False
            seen, looked_at = now, at
            return self._look() != scene

        return changed

    def _further(self, prompt: str, *, fresh: bool = False) -> str:
        """Give a further line of what is being said, whatever else changes."""
        line = self._lines.read(prompt, lambda: False, fresh=fresh)
        assert line is not None, "nothing changes that would end the wait"
        return self._with_the_rest(line)

    def _with_the_rest(self, line: str) -> str:
        """Give a line with those that it says are to follow."""
        return f"{line[:-1]}\n{self._further('… ')}" if line.endswith("\\") else line

    def _take(self, line: str, asked: Shown | None) -> None:
        """Do what a line says; raises a PlacetError where it is refused."""
        match parsed(line):
            case None:
                if asked is None:
                    self._send(line)
                else:
                    self._requests.take(asked, line)
            case SpokenApprove(request=request):
                self._requests.approve(request)
            case SpokenReject(request=request, reason=reason):
                self._requests.reject(request, reason)
            case Slash() as said:
                self._obey(said, asked)

    def _obey(self, said: Slash, asked: Shown | None) -> None:
        """Carry out a command of the chat."""
        match said.name:
            case "answer":
                self._requests.answer(said.request, said.rest)
            case "inbox":
                rows = inbox_of(self._placet.engine, session=self._session)
                tell(asyncio.run(inbox_listed(self._placet.people, rows))[1])
            case "show":
                people = self._placet.people
                found = shown(people, said.request, session=self._session, to_stderr=True)
                tell(asyncio.run(found)[1])
            case "later" if asked is not None:
                self._requests.leave(asked.request)
            case "later":
                tell("Nothing is asked of you now.")
            case "resume":
                self._stalled = None
                self._requests.ask_again()
            case "supersede":
                self._send(said.rest, supersede=True)
            case "mode":
                self._mode = _mode(said.rest)
            case "end":
                asyncio.run(self._placet.end_session(self._session))
            case "help":
                tell(help_text())
            case "quit":
                self._over = True
            case name:
                raise AssertionError(f"nothing does what {name} says")

    # --- runs ---------------------------------------------------------------------------------

    def _send(self, message: str, *, supersede: bool = False) -> None:
        """Begin a run with a message; raises what it is refused with."""
        run = new_id("run")
        try:
            done = self._carried(
                run,
                lambda: self._placet.run(
                    self._agent,
                    message,
                    session=self._session,
                    requester=self._requester,
                    run_id=run,
                    mode=self._mode,
                    on_message="supersede" if supersede else "refuse",
                    on_event=self._onlooker.watch,
                ),
            )
        except (Conflict, InProgress) as refused:
            raise with_ways_out(refused, _ways_out) from refused
        if self._onlooker.begun:
            self._run, self._mode = run, None
            self._stalled = None if done else self._look().mark

    def _go_on(self, run: str) -> None:
        """Carry on a run that can go on; where another process is at it, that is told later."""
        before, done = self._look().mark, False
        watch = self._onlooker.watch
        try:
            done = self._carried(run, lambda: self._placet.resume(run, on_event=watch))
        except InProgress:
            pass
        except PlacetError as error:
            _tell_refused(error)
        after = self._look().mark
        self._stalled = None if done and after != before else after

    def _carried(self, run: str, work: Callable[[], Coroutine[Any, Any, RunResult]]) -> bool:
        """Carry a run on until it waits or is over; False: it was left on the way.

        That is told here. Raises what it is refused with before it was begun.
        """
        self._onlooker.begin(run)
        try:
            if carried(work(), self._onlooker.effects) is not None:
                return True
        except PlacetError as error:
            if not self._onlooker.begun:
                raise
            _tell_refused(error)
        except Exception as error:  # noqa: BLE001  # An app's fault: the run rests, and is told of.
            told = f"{type(error).__name__}: {error}"
            tell_error("unexpected", told, ids={}, told=f"{told} [unexpected]", as_json=False)
        finally:
            self._onlooker.text.close()
        after = self._look()
        if after.run == run and after.ready:
            tell(f"{run} rests: /resume goes on with it, /supersede MESSAGE begins instead")
        return False

    def _tell_end(self, scene: Scene) -> None:
        """Tell how the last run ended, whoever carried it there."""
        run, self._run = self._run, scene.run
        if run is None or run == scene.run:
            return
        result = asyncio.run(self._placet.result(run))
        answer = result.answer or ""
        if answer and not self._onlooker.text.has_said(run, answer):
            masked = self._secrets.masking().repeated(answer)
            click.echo(visible(masked, keep_newlines=True))
        if result.stop != "final":
            tell(f"({run} ended: {result.stop})")
        state = asyncio.run(self._placet.engine.session(self._session, Names(runs=(run,))))
        for line in unsettled_lines(standing_of(state, state.runs[run])):
            tell(line)

    def _tell_standing(self, scene: Scene) -> None:
        """Tell where a run stands that neither goes on nor waits for people, once."""
        told = "" if scene.run is None or scene.ready or scene.waiting else scene.detail
        if told and told != self._told:
            tell(f"{scene.run}: {told}")
        self._told = told

    def _leave(self) -> int:
        """Say what is left behind, and how to come back to it."""
        scene = self._look()
        if scene.run is None:
            return Exit.DONE
        here = session_here(self._placet.engine)
        where = "" if self._session == here else f" --session {self._named()}"
        what = f"waits for {', '.join(scene.waiting)}" if scene.waiting else "is not over"
        tell(f"{scene.run} {what}: " + runnable(f"`placet chat{where}` comes back to it"))
        return Exit.WAITING if scene.waiting else Exit.RESTING

    def _named(self) -> str:
        return visible(shlex.quote(self._session))


def _mode(word: str) -> Mode:
    modes: tuple[Mode, ...] = get_args(Mode)
    for mode in modes:
        if mode == word:
            return mode
    raise InvalidInput("unknown_mode", f"There is no mode {word}; there are: {', '.join(modes)}.")


def _tell_refused(error: PlacetError) -> None:
    tell_error(error.code, error.message, ids=error.ids, told=str(error), as_json=False)


def _ways_out(_run: str) -> str:
    return "/resume goes on with that run; /supersede MESSAGE ends it, and says this instead."
