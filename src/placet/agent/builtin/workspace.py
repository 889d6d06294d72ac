"""A workspace: one directory, and the tools `read`, `write`, `edit` and `bash` for it.

The first three are confined to it, and out of reach for them are placet's own files (G10). `bash`
is confined by nothing: it is no sandbox. Whether a call asks is for the developer to say.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from placet.agent.builtin import changing_files, reading, repository, shell
from placet.agent.builtin.confinement import Confinement
from placet.agent.tools import Tool, tool
from placet.core.errors import InvalidDeclaration
from placet.runtime.declarations import ApprovalFunction, Happened, Unsure

#: When a tool asks: always, never, or as a function of the arguments says.
Approval = Literal["always", "never"] | ApprovalFunction

#: What `write` and `edit` touch. `bash` touches everything.
SURFACE = "workspace"

#: How long a command of `bash` may take, where it does not say, and at the most.
COMMAND_LASTS = timedelta(minutes=2)
LONGEST_COMMAND = timedelta(minutes=10)

#: How long `read`, `write` and `edit` may take: the disk may be a slow one.
FILE_TIME_LIMIT = timedelta(minutes=1)


def _without_nul(text: str) -> str:
    if "\0" in text:
        raise ValueError("a NUL cannot stand in it")
    return text


PathText = Annotated[
    str,
    Field(
        min_length=1,
        max_length=4_000,
        description="relative to the workspace, or absolute and inside it",
    ),
    AfterValidator(_without_nul),
]
From = Annotated[int, Field(ge=1, description="the first line, from 1")]
HowMany = Annotated[int, Field(ge=1, le=reading.MOST_LINES, description="how many lines")]
CommandText = Annotated[str, Field(min_length=1), AfterValidator(_without_nul)]


class Workspace:
    """One directory, whose files the built-in tools work on.

    `protected` names files and directories (with all in them), relative to `root` or absolute,
    that `read`, `write` and `edit` shall not touch, beside placet's own: the store, and any file
    named placet.toml or placet.policy.toml or by PLACET_CONFIG. `bash` is no sandbox, and can
    touch all that its account can.

    `approval` is for each tool "always", "never", or a function of the arguments that answers
    True (ask) or False:

        workspace = Workspace(".")
        tools = workspace.tools(bash=lambda arguments: "git push" in str(arguments["command"]))
    """

    def __init__(
        self, root: str | os.PathLike[str], *, protected: Sequence[str | os.PathLike[str]] = ()
    ) -> None:
        if not os.path.isdir(root):
            raise InvalidDeclaration(
                "invalid_workspace",
                f"There is no directory {os.fspath(root)!r} to be a workspace.",
                hint="Make it first, or name another.",
            )
        if isinstance(protected, (str, os.PathLike)):
            raise InvalidDeclaration(
                "invalid_workspace", "What is protected must be a list of paths."
            )
        self._files = Confinement(os.fspath(root), protected=tuple(map(Path, protected)))

    @property
    def root(self) -> Path:
        """The directory itself, absolute and without links."""
        return Path(self._files.root)

    def tools(
        self,
        *,
        read: Approval = "never",
        write: Approval = "always",
        edit: Approval = "always",
        bash: Approval = "always",
    ) -> tuple[Tool, ...]:
        """Give all four tools; each argument says when that tool asks."""
        return (
            self.read(approval=read),
            self.write(approval=write),
            self.edit(approval=edit),
            self.bash(approval=bash),
        )

    def read(self, *, approval: Approval = "never") -> Tool:
        """Give the tool that reads files and lists directories, bounded and by line numbers."""
        files = self._files

        @tool(
            reads_only=True,
            approval=approval,
            scopes=self._scopes(),
            effect="reads {path}",
            time_limit=FILE_TIME_LIMIT,
        )
        def read(path: PathText, *, offset: From = 1, limit: HowMany = reading.MOST_LINES) -> str:
            """Read a text file of the workspace, or list a directory.

            Each line comes with its number and a tab before it, which are not part of the file.
            Long answers are cut, and say with which offset to read on.
            """
            return reading.read_path(files, path, offset=offset, limit=limit)

        return read

    def write(self, *, approval: Approval = "always") -> Tool:
        """Give the tool that writes whole files, with a diff to approve and a way back."""
        files = self._files

        @tool(**self._changing(approval, effect="writes the file {path}"))
        def write(path: PathText, *, content: str) -> str:
            """Write a whole file of the workspace: make it, or replace all that it holds.

            Missing directories are made. To change a part of a file, use edit.
            """
            return changing_files.write_file(files, path, content=content)

        @write.environment
        def found(path: str, **_: object) -> str:
            return changing_files.fingerprint(files, path)

        @write.preview
        def preview(path: str, *, content: str) -> str:
            return changing_files.preview_write(files, path, content=content)

        @write.snapshot
        def snapshot(path: str, **_: object) -> str:
            return changing_files.snapshot(files, path)

        @write.restore
        def restore(taken: str, *, content: str, **_: object) -> None:
            changing_files.restore(
                files, taken, written=lambda _: changing_files.written_by_write(content)
            )

        @write.probe
        def is_written(path: str, *, content: str) -> Happened | Unsure:
            if changing_files.is_written(files, path, content=content):
                return Happened(result=f"{path} holds what was to be written.")
            return Unsure()

        return write

    def edit(self, *, approval: Approval = "always") -> Tool:
        """Give the tool that replaces a passage of a file, with a diff and a way back."""
        files = self._files

        @tool(**self._changing(approval, effect="changes a part of the file {path}"))
        def edit(path: PathText, *, old: str, new: str, replace_all: bool = False) -> str:
            """Replace a passage of a text file of the workspace.

            Give `old` as it stands in the file, with its indentation and without line numbers, and
            with enough lines around it to be found once; or replace_all for every place.
            """
            return changing_files.edit_file(files, path, old=old, new=new, replace_all=replace_all)

        @edit.environment
        def found(path: str, **_: object) -> str:
            return changing_files.fingerprint(files, path)

        @edit.preview
        def preview(path: str, *, old: str, new: str, replace_all: bool) -> str:
            return changing_files.preview_edit(
                files, path, old=old, new=new, replace_all=replace_all
            )

        @edit.snapshot
        def snapshot(path: str, **_: object) -> str:
            return changing_files.snapshot(files, path)

        @edit.restore
        def restore(taken: str, *, old: str, new: str, replace_all: bool, **_: object) -> None:
            changing_files.restore(
                files,
                taken,
                written=lambda before: changing_files.written_by_edit(
                    before, old=old, new=new, replace_all=replace_all
                ),
            )

        return edit

    def bash(
        self,
        *,
        approval: Approval = "always",
        environment: Mapping[str, str] | None = None,
        longest: timedelta = LONGEST_COMMAND,
    ) -> Tool:
        """Give the tool that runs commands. It is no sandbox.

        A command gets the variables of the process but for secrets (placet.agent.builtin.shell
        says which), and `environment`. `longest` is the most that a command may ask to take; its
        processes are ended then, and when it ends itself, those in the background too.
        """
        seconds = _whole_seconds(longest)
        variables = _checked_environment(environment or {})
        root = self._files.root

        async def bash(command: CommandText, *, timeout_seconds: int) -> str:
            """Run a shell command in the workspace, without input, and give output and exit code.

            Long output is cut in the middle. When the command ends, so does all that it left in
            the background. It is ended after timeout_seconds.
            """
            asked = shell.Command(
                text=command,
                directory=root,
                environment=variables,
                lasts=timedelta(seconds=timeout_seconds),
            )
            return await shell.run_command(asked)

        usual = min(seconds, _whole_seconds(COMMAND_LASTS))
        bash.__annotations__["timeout_seconds"] = Annotated[int, Field(ge=1, le=seconds)]
        bash.__kwdefaults__ = {"timeout_seconds": usual}
        declared = tool(
            bash,
            approval=approval,
            scopes=self._scopes(),
            effect="runs a shell command, which can reach all that this account can",
            # The command's own time ends first, so that what became of it is known.
            time_limit=timedelta(seconds=seconds) + 2 * shell.SLACK,
        )

        @declared.environment
        def head(**_: object) -> str:
            return repository.head_of(Path(root))

        return declared

    def _scopes(self) -> tuple[str, ...]:
        """Name the directory: what was approved for one is not approved for another (G3)."""
        root = os.fsencode(self._files.root).decode("utf-8", "backslashreplace")
        return (f"workspace:{root}",)

    def _changing(self, approval: Approval, *, effect: str) -> Any:
        return {
            "approval": approval,
            "surface": SURFACE,
            "scopes": self._scopes(),
            "effect": effect,
            "reversible": True,
            "time_limit": FILE_TIME_LIMIT,
        }


def _whole_seconds(lasts: timedelta) -> int:
    seconds = int(lasts.total_seconds())
    if seconds < 1:
        raise InvalidDeclaration("invalid_tool", "Tool bash: longest must be a second or more.")
    return seconds


def _checked_environment(environment: Mapping[str, str]) -> dict[str, str]:
    for name, value in environment.items():
        fits = name and "=" not in name and "\0" not in name + value
        if not fits or name.startswith("PLACET_"):
            raise InvalidDeclaration(
                "invalid_tool",
                f"Tool bash: {name!r} is no variable to hand to commands.",
                hint="None that begins with PLACET_ is: they are for who decides.",
            )
    return dict(environment)
