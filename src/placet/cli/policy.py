"""The commands for the policy file: check, explain, test, and report on what was tried out."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from placet.cli.apps import app_option, opened
from placet.cli.output import Exit, Given, counted, shared
from placet.cli.store import existing_store
from placet.core.display import visible
from placet.core.errors import InvalidInput, no_session
from placet.opening import store_path
from placet.policy.cases import Case, read_cases
from placet.policy.explaining import lasting
from placet.policy.faults import Fault, PolicyTrouble
from placet.policy.noting import notes, without_extras
from placet.policy.reading import MAX_BYTES, read
from placet.policy.rules import Policy
from placet.runtime.policies import FILE
from placet.runtime.shadow_report import Trial, trials
from placet.settings import Settings

if TYPE_CHECKING:
    from placet.client import Placet
    from placet.explaining import Explained


@click.group("policy", short_help="Check, explain, test and report on the policy file.")
@shared
def policy_command() -> None:
    """Check a policy file, explain and test what it rules, report on what it would have ruled."""


# --- check ------------------------------------------------------------------------------------


@policy_command.command("check")
@click.argument("file", required=False)
@app_option
@shared
@click.pass_obj
def check_command(given: Given, file: str | None, app: str) -> int:
    """Read a policy file, and say all that is wrong with it.

    It notes rules on commands that cannot allow anything, because the extra `shell` is not here.
    With --app it also says which tools, surfaces, agents and scopes are named that the app does
    not have.
    """
    settings = given.settings()
    name = file or settings.policy or FILE
    if not Path(name).is_file():
        raise _no_file(name, given=bool(file), set_=bool(settings.policy))
    try:
        policy = read(_bytes(name), file=name)
    except PolicyTrouble as trouble:
        faults = [
            {"line": fault.line or None, "message": fault.message} for fault in trouble.faults
        ]
        document = {"ok": False, "file": name, "faults": faults}
        given.show(document, "\n".join(map(visible, trouble.lines)))
        return Exit.WRONG
    counts = {
        "rules": len(policy.rules),
        "groups": len(policy.groups),
        "delegations": len(policy.delegations),
    }
    found = sorted([*without_extras(policy), *(_noted(settings, app, policy) if app else ())])
    told = ", ".join(counted(count, what.removesuffix("s")) for what, count in counts.items())
    lines = [f"{name}:{note.line}: note: {note.message}".replace(":0:", ":") for note in found]
    written = [{"line": note.line or None, "message": note.message} for note in found]
    document = {"ok": True, "file": name, **counts, "notes": written}
    given.show(document, "\n".join(map(visible, [*lines, f"{name}: {told}: ok"])))
    return Exit.DONE


def _no_file(name: str, *, given: bool, set_: bool) -> InvalidInput:
    where = "" if given or Path(name).is_absolute() else f" in {Path.cwd()}"
    named = "" if given else " (the setting `policy`)" if set_ else " (no setting names another)"
    return InvalidInput(
        "no_policy_file",
        f"{name}{where}{named}: There is no such file.",
        hint="Name it: `placet policy check FILE`, or as `policy` in placet.toml.",
    )


def _noted(settings: Settings, app: str, policy: Policy) -> tuple[Fault, ...]:
    """Note what the policy names and the app does not have."""
    with _app(settings, app) as placet:
        offices = placet.explaining.offices
    tools = [tool for office in offices for tool in office.toolbox.tools.values()]
    return notes(
        policy,
        {
            "tools": {tool.name for tool in tools},
            "surfaces": {tool.surface for tool in tools},
            "agents": {office.toolbox.agent for office in offices},
            "scopes": {scope for tool in tools for scope in tool.scopes},
        },
        {tool.name: _arguments(tool.parameters) for tool in tools},
    )


def _arguments(schema: Mapping[str, Any]) -> set[str] | None:
    """Name the arguments of a tool by its schema; None: it takes others, too."""
    if schema.get("additionalProperties") not in (None, False):
        return None
    return set(schema.get("properties", {}))


def _bytes(name: str, *, code: str = "policy_broken") -> bytes:
    """Read a file, and no more of it than is ever taken; raises PolicyTrouble."""
    told = "There is no such file."
    try:
        if Path(name).is_file():
            with open(name, "rb") as file:
                return file.read(MAX_BYTES + 1)
    except OSError as error:
        told = f"It cannot be read: {error.strerror or error}."
    raise PolicyTrouble(name, [Fault(line=0, message=told)], code=code)


# --- explain and test -------------------------------------------------------------------------


@contextmanager
def _app(settings: Settings, app: str) -> Iterator[Placet]:
    """Open the app over its store, where it has one, and else over one that is thrown away."""
    if store_path(settings.store).exists():
        with opened(settings, app) as placet:
            yield placet
        return
    with tempfile.TemporaryDirectory(prefix="placet-") as place:
        elsewhere = replace(settings, store=f"sqlite:///{Path(place) / 'placet.db'}")
        with opened(elsewhere, app) as placet:
            yield placet


@policy_command.command("explain")
@click.argument("tool")
@click.option("--arguments", required=True, help="The call's arguments, as JSON.")
@click.option("--agent", default="", help="Whose tool it is, where several agents have it.")
@click.option("--session", default="main", show_default=True, help="The session it would be in.")
@click.option("--requester", default="", help="For whom the run would act.")
@app_option
@shared
@click.pass_obj
def explain_command(
    given: Given, tool: str, arguments: str, agent: str, session: str, requester: str, app: str
) -> None:
    """Say how a call would be ruled now, by which rules, and who would be asked.

    Nothing is proposed, and nobody is asked. Approval functions and trusted sources are consulted
    as they would be.
    """
    with _app(given.settings(), app) as placet:
        found = asyncio.run(
            placet.explaining.explain(
                tool, arguments, agent=agent, session=session, requester=requester
            )
        )
    given.show(_document(found), "\n".join(found.lines))


def _document(found: Explained) -> dict[str, Any]:
    ruled = found.ruled
    evaluation = ruled.evaluation
    checked = () if evaluation is None else evaluation.checked
    deciding = set() if evaluation is None else {each.rule.name for each in evaluation.deciding}
    return {
        "ruling": _word(found),
        "rule": ruled.ruling.rule,
        "reason": ruled.ruling.reason,
        "approvers": sorted(_approvers(found)),
        "rules": [
            {
                "rule": each.rule.name,
                "line": each.rule.line,
                "matches": each.matches,
                "decides": each.rule.name in deciding,
                "doubts": list(each.doubts),
            }
            for each in checked
        ],
        "lines": list(found.lines),
    }


def _word(found: Explained) -> str:
    return type(found.ruled.ruling).__name__.lower()


def _approvers(found: Explained) -> frozenset[str]:
    needs = getattr(found.ruled.ruling, "needs", None)
    return frozenset() if needs is None else needs.people(found.facts.requester)


@policy_command.command("test")
@click.argument("file")
@app_option
@shared
@click.pass_obj
def test_command(given: Given, file: str, app: str) -> int:
    """Rule on the cases of a file, and say which are not ruled as they expect."""
    try:
        cases = read_cases(_bytes(file, code="cases_broken"), file=file)
    except PolicyTrouble as trouble:  # The file is what was given to the command, and no policy.
        raise InvalidInput(trouble.code, "; ".join(trouble.lines)) from trouble
    with _app(given.settings(), app) as placet:
        results = [(case, _unlike(case, _explained(placet, case, file))) for case in cases]
    failed = [case for case, unlike in results if unlike]
    lines = [_line(case, unlike) for case, unlike in results]
    total = f"{counted(len(results), 'case')}, {len(failed)} not as expected"
    document = {
        "ok": not failed,
        "cases": [
            {"case": case.name, "line": case.line, "unlike": list(unlike)}
            for case, unlike in results
        ],
    }
    given.show(document, "\n".join([*map(visible, lines), total]))
    return Exit.WRONG if failed else Exit.DONE


def _explained(placet: Placet, case: Case, file: str) -> Explained:
    """Rule on a case; raises InvalidInput, which names the case, where it is of no call."""
    try:
        return asyncio.run(
            placet.explaining.explain(
                case.tool,
                case.arguments,
                agent=case.agent,
                session=case.session,
                requester=case.requester,
            )
        )
    except InvalidInput as error:
        where = f"{file}:{case.line}: {case.name}: {error.message}"
        hint = "Say `agent` in the case." if error.code == "which_agent" else error.hint
        raise InvalidInput(error.code, where, hint=hint, **error.ids) from error


def _unlike(case: Case, found: Explained) -> tuple[str, ...]:
    """Say in what a ruling is not as the case expects."""
    evaluation = found.ruled.evaluation
    deciding = [] if evaluation is None else [each.rule.name for each in evaluation.deciding]
    unlike = []
    if _word(found) != case.expect:
        unlike.append(f"expected {case.expect}, and it is {_word(found)}")
    if case.rule is not None and case.rule not in deciding:
        unlike.append(
            f"expected the rule {case.rule} to decide, and it is {', '.join(deciding) or 'none'}"
        )
    people = _approvers(found)
    if case.approvers is not None and people != frozenset(case.approvers):
        unlike.append(
            f"expected {', '.join(case.approvers) or 'nobody'} to be asked, and it is"
            f" {', '.join(sorted(people)) or 'nobody'}"
        )
    return tuple(unlike)


def _line(case: Case, unlike: tuple[str, ...]) -> str:
    if not unlike:
        return f"ok      {case.name}"
    return f"FAILED  {case.name} (line {case.line}): {'; '.join(unlike)}"


# --- report -----------------------------------------------------------------------------------


@policy_command.command("report")
@click.option("--session", help="Only this session.")
@shared
@click.pass_obj
def report_command(given: Given, session: str | None) -> None:
    """Say what the rules of surfaces in shadow would have ruled so far, rule by rule."""
    settings = given.settings()
    store = existing_store(settings)
    try:
        known = list(store.sessions(settings.tenant))
        if session is not None and session not in known:
            raise no_session(session)
        names = known if session is None else [session]
        found = trials(store.events(settings.tenant, name) for name in names)
    finally:
        store.close()
    document = {"calls": found.calls, "rules": [_trial(trial) for trial in found.rules]}
    lines = [f"{counted(found.calls, 'call was', many='calls were')} ruled on in shadow"]
    lines += [_trial_line(trial) for trial in found.rules]
    given.show(document, "\n".join(map(visible, lines)))


def _trial(trial: Trial) -> dict[str, Any]:
    return {
        "rule": trial.rule,
        "ruling": trial.ruling,
        "times": trial.times,
        "tools": dict(sorted(trial.tools.items())),
        "asked_anyway": trial.asked_anyway,
        "denied_anyway": trial.denied_anyway,
        "asked_seconds": trial.asked.total_seconds(),
    }


def _trial_line(trial: Trial) -> str:
    tools = ", ".join(f"{name} {count}" for name, count in sorted(trial.tools.items()))
    line = f"{trial.rule}: would {trial.ruling} {counted(trial.times, 'time')} ({tools})"
    anyway = [
        f"{count} {what} anyway"
        for count, what in (
            (trial.asked_anyway, "asked"),
            (trial.denied_anyway, "did not run"),
        )
        if count
    ]
    line += f"; {', '.join(anyway)}" if anyway else ""
    if trial.ruling == "ask":
        line += f"; people would have had {lasting(trial.asked)} in all to decide"
    return line
