"""The command that says how often people are asked, and how they answer."""

from __future__ import annotations

from typing import Any

import click

from placet.cli.output import Given, counted, shared
from placet.cli.store import existing_store
from placet.core.display import visible
from placet.core.errors import no_session
from placet.runtime.fatigue import QUICK, Fatigue, OfRule, count


@click.command("fatigue", short_help="Say how often people are asked, and how they answer.")
@click.option("--session", help="Only this session.")
@shared
@click.pass_obj
def fatigue_command(given: Given, session: str | None) -> None:
    """Say how often people are asked, how fast they decide, and how often they approve, by rule."""
    settings = given.settings()
    store = existing_store(settings)
    try:
        known = list(store.sessions(settings.tenant))
        if session is not None and session not in known:
            raise no_session(session)
        names = known if session is None else [session]
        found = count(store.events(settings.tenant, name) for name in names)
    finally:
        store.close()
    given.show(_document(found), _lines(found))


def _document(found: Fatigue) -> dict[str, Any]:
    return {
        "runs": found.runs,
        "asked": found.asked,
        "asks_per_run": found.asks_per_run,
        "quick_seconds": QUICK.total_seconds(),
        "rules": [{"rule": name, **_of(rule)} for name, rule in sorted(found.rules.items())],
    }


def _of(rule: OfRule) -> dict[str, Any]:
    wait = rule.mean_wait
    return {
        "asked": rule.asked,
        "decided": rule.decided,
        "approved": rule.approved,
        "rejected": rule.rejected,
        "edited": rule.edited,
        "expired": rule.expired,
        "quick": rule.quick,
        "approve_rate": rule.approve_rate,
        "mean_wait_seconds": None if wait is None else wait.total_seconds(),
    }


def _lines(found: Fatigue) -> str:
    per_run = "-" if found.asks_per_run is None else f"{found.asks_per_run:.1f}"
    runs, asked = counted(found.runs, "run"), counted(found.asked, "request")
    lines = [f"{runs}, {asked}: {per_run} a run"]
    for name, rule in sorted(found.rules.items()):
        rate = "-" if rule.approve_rate is None else f"{rule.approve_rate:.0%}"
        wait = "-" if rule.mean_wait is None else f"{rule.mean_wait.total_seconds():.0f} s"
        lines.append(
            f"{visible(name)}: {rule.asked} asked, {rule.expired} expired;"
            f" {counted(rule.approved, 'vote')} to approve, {counted(rule.rejected, 'rejection')},"
            f" {counted(rule.edited, 'edit')}: {rate} approve,"
            f" {rule.quick} under {QUICK.total_seconds():g} s, {wait} on average"
        )
    return "\n".join(lines)
