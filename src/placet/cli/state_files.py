"""The commands for state as files, as older systems keep it: out, and looked at."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import click

from placet.cli.output import Given, counted, shared
from placet.cli.store import existing_store
from placet.core.display import visible
from placet.runtime.state_files import Imported, export, read_directory
from placet.settings import Settings
from placet.stores.store import Store


@contextmanager
def _store_of(settings: Settings) -> Iterator[Store]:
    store = existing_store(settings)
    try:
        yield store
    finally:
        store.close()


_LAYOUT = click.option(
    "--layout", type=click.Choice(["files"]), required=True, help="How the directory is laid out."
)
_DIRECTORY = click.argument("directory", type=click.Path(path_type=Path))


@click.command("export", short_help="Write approvals and checkpoints as files.")
@_LAYOUT
@_DIRECTORY
@shared
@click.pass_obj
def export_command(given: Given, layout: str, directory: Path) -> None:
    """Write approvals and checkpoints as files, as older systems keep them."""
    settings = given.settings()
    with _store_of(settings) as store:
        written = export(store, settings.tenant, directory)
    told = ", ".join(counted(count, what.removesuffix("s")) for what, count in written.items())
    document = {"layout": layout, "directory": str(directory), **written}
    given.show(document, f"{visible(str(directory))}: {told}")


@click.command("import", short_help="Report what an older system left.")
@_LAYOUT
@_DIRECTORY
@shared
@click.pass_obj
def import_command(given: Given, layout: str, directory: Path) -> None:
    """Look at what an older system left, and report what was approved and never finished.

    Nothing of it comes to life here: an old approval is never spent.
    """
    found = read_directory(directory)
    document = {
        "layout": layout,
        "directory": str(directory),
        "approvals": sum(found.by_status.values()),
        "by_status": dict(found.by_status),
        "checkpoints": found.checkpoints,
        "stuck": [{**asdict(each), "what_to_do": _WHAT_TO_DO} for each in found.stuck],
        "malformed": [{"file": file, "error": error} for file, error in found.malformed],
    }
    given.show(document, "\n".join(_imported_lines(found)))


_WHAT_TO_DO = (
    "Find out in the world whether the effect happened. If it did not and is still wanted, let the"
    " agent propose it anew here: this approval is never spent."
)


def _imported_lines(found: Imported) -> list[str]:
    statuses = ", ".join(f"{count} {visible(name)}" for name, count in found.by_status.items())
    total = sum(found.by_status.values())
    lines = [
        f"{counted(total, 'approval')} ({statuses or 'none'}),"
        f" {counted(found.checkpoints, 'checkpoint')}",
    ]
    if found.stuck:
        lines.append(f"{len(found.stuck)} approved and never finished. {_WHAT_TO_DO}")
        lines += [
            f"  {visible(each.approval_id)}  run {visible(each.run_id)}  {visible(each.file)}"
            for each in found.stuck
        ]
    if found.malformed:
        lines.append(
            f"{counted(len(found.malformed), 'file')} could not be read, and are left as they are:"
        )
        lines += [f"  {visible(file)}: {visible(error)}" for file, error in found.malformed]
    return lines
