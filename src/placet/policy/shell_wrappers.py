"""Commands that run other commands, opened: what stands inside is a command, or a text, of its own.

Each wrapper's own options are read strictly. Where one is not known here, what is run inside
cannot be told: that is a doubt, and every later word is tried as the beginning of a command and
every longer one as a text, so that a denial still finds what it denies.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from placet.policy.shell_programs import carriers_in
from placet.policy.shell_words import SimpleCommand

UNKNOWN_OPTION = "`{}` has an option that is not known here, so what it runs cannot be told"
NOT_TOLD = "what `{}` runs cannot be told from its words"
APPENDS = "`{}` puts words that are not known yet into a command"
OTHER_SHELL = "`{}` reads another language than bash"
READS_INPUT = "`{}` reads commands from its input"
ELSEWHERE = "`{}` reads what it runs from elsewhere, or runs it elsewhere"
ALIAS = "`git` is given a configuration"

#: How many of the later words of what cannot be told are tried as the beginning of a command.
MAX_TRIED = 64

#: How many words such a command is taken to have.
MAX_TRIED_WORDS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrapper:
    """How a wrapper's own words are read.

    `flags` stand alone; the `valued` take a value, as the next word, glued to a short option or
    after `=`; `positionals` words follow them; then `assigns` says whether assignments may, and
    the rest is the command. `doubt` is said of every use, with the wrapper's name.
    """

    flags: str = ""
    valued: str = ""
    positionals: int = 0
    assigns: bool = False
    doubt: str = ""


@dataclass(slots=True)
class Opened:
    """What stands in a command: further commands, texts of a shell, and doubts.

    What is `tried` may be a command or a text of a shell, and is not known to be one.
    """

    commands: list[SimpleCommand] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
    tried_commands: list[SimpleCommand] = field(default_factory=list)
    tried_texts: list[str] = field(default_factory=list)


WRAPPERS: Mapping[str, Wrapper] = {
    "sudo": Wrapper(
        flags="-n -E -H -k -S --non-interactive --preserve-env --set-home",
        valued="-u -g -p --user --group --prompt",
        assigns=True,
    ),
    "doas": Wrapper(flags="-n", valued="-u"),
    "env": Wrapper(flags="-i - --ignore-environment", valued="-u --unset", assigns=True),
    "nice": Wrapper(valued="-n --adjustment"),
    "ionice": Wrapper(flags="-t --ignore", valued="-c -n --class --classdata"),
    "nohup": Wrapper(),
    "timeout": Wrapper(
        flags="-v --verbose --foreground --preserve-status",
        valued="-k -s --kill-after --signal",
        positionals=1,
    ),
    "time": Wrapper(flags="-p", assigns=True),
    "stdbuf": Wrapper(valued="-i -o -e --input --output --error"),
    "setsid": Wrapper(flags="-w -c --wait --ctty"),
    "command": Wrapper(flags="-p"),
    "builtin": Wrapper(),
    "busybox": Wrapper(),
    "toybox": Wrapper(),
    "git": Wrapper(
        flags="-P --no-pager --no-optional-locks --literal-pathspecs --glob-pathspecs"
        " --noglob-pathspecs --icase-pathspecs --no-replace-objects",
    ),
    "coproc": Wrapper(doubt=NOT_TOLD),
    "exec": Wrapper(flags="-c -l", valued="-a"),  # Doubted with the builtins that change a shell.
    "xargs": Wrapper(
        flags="-0 -r -t -x -o --null --no-run-if-empty --verbose --exit --open-tty",
        valued="-n -L -P -s -I -d -E -a --max-args --max-lines --max-procs --max-chars --replace"
        " --delimiter --eof --arg-file",
        doubt=APPENDS,
    ),
}

#: Options of git that name a configuration, or another place with one, and take a value.
_GIT_CONFIGURES = frozenset(
    "-c -C --config-env --git-dir --work-tree --namespace --exec-path --attr-source".split()
)

#: What runs commands in more ways than are worth reading, or elsewhere, or from a file.
_NOT_OPENED = frozenset(
    "at batch bpftrace bwrap capsh catchsegv chpst chroot chrt dbus-run-session eatmydata entr"
    " fakeroot faketime firejail flock ltrace mosh ncat nc netcat nsenter numactl parallel pkexec"
    " prlimit rsh runuser screen script setarch setpriv setuidgid socat ssh sshpass"
    " start-stop-daemon strace su sudoedit systemd-run taskset tmux torify torsocks tsocks"
    " unbuffer unshare valgrind watch xterm xvfb-run".split()
)
_SHELLS = frozenset({"sh", "bash", "dash"})
_OTHER_SHELLS = frozenset(
    "ash csh elvish fish ksh ksh93 mksh nu oksh pwsh powershell rbash rksh tcsh xonsh yash"
    " zsh".split()
)
_SHELL_FLAGS = re.compile(r"-[euxvfc]+")
_SHELL_SETTINGS = frozenset({"pipefail", "errexit", "nounset", "xtrace", "verbose", "noglob"})
_NUMBER = re.compile(r"-[0-9]+")
_MANY_WORDS = re.compile(r"[\s;|&]")
_FIND_RUNS = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_DESCRIBES = frozenset({"-v", "-V"})


def opened(command: SimpleCommand) -> Opened:
    """Open a command, where it is one that runs others; nothing is found in any other."""
    program = command.program
    inner = replace(command, origin=(*command.origin, program))
    if program in _SHELLS:
        return _shell(inner)
    if program in _OTHER_SHELLS:
        return _tried(inner, OTHER_SHELL)
    if program in _NOT_OPENED:
        return _tried(inner, ELSEWHERE)
    if program == "find":
        return _find(inner)
    if program == "eval":
        return Opened(texts=[" ".join(command.words[1:])])
    if program in ("trap", "alias"):
        return Opened(tried_texts=list(_texts_in(command.words[1:])))
    if program == "command" and command.words[1:2] and command.words[1] in _DESCRIBES:
        return Opened()
    if program == "git" and command.words[1:2] and command.words[1] in _GIT_CONFIGURES:
        return _configured_git(inner)
    if program in WRAPPERS:
        return _wrapper(WRAPPERS[program], inner)
    return Opened(tried_texts=list(_texts_in(command.words)) if carriers_in(command) else [])


def _wrapper(wrapper: Wrapper, command: SimpleCommand) -> Opened:
    program, words = command.program, command.words
    flags, valued = wrapper.flags.split(), wrapper.valued.split()
    assignments: list[tuple[str, str]] = []
    at = 1
    while at < len(words) and words[at].startswith("-") and words[at] != "--":
        word = words[at]
        option, glued, value = _split_option(word, valued)
        if option in valued:
            value = value if glued else "".join(words[at + 1 : at + 2])
            at += 1 if glued else 2
            if program == "env":
                assignments.append((value, ""))
        elif (word in flags and word not in words[1:at]) or (
            program == "nice" and _NUMBER.fullmatch(word)
        ):
            at += 1
        else:
            return _tried(command, UNKNOWN_OPTION)
    at += words[at : at + 1] == ("--",)
    at += wrapper.positionals
    while wrapper.assigns and at < len(words) and "=" in words[at]:
        name, _, value = words[at].partition("=")
        assignments.append((name, value))
        at += 1
    found = Opened(doubts=[wrapper.doubt.format(program)] if wrapper.doubt else [])
    rest = words[at:]
    if program == "git":
        rest = ("git", *rest) if at > 1 else ()
    if rest or assignments:
        found.commands.append(
            replace(command, words=rest, assignments=tuple(assignments), redirections=())
        )
    return found


def _split_option(word: str, valued: list[str]) -> tuple[str, bool, str]:
    """Give the option, whether its value is glued to it, and that value."""
    if word.startswith("--"):
        option, glued, value = word.partition("=")
        return option, bool(glued), value
    if len(word) > len("-x") and word[:2] in valued:
        return word[:2], True, word[2:]
    return word, False, ""


# --- what cannot be told


def _tried(command: SimpleCommand, doubt: str) -> Opened:
    """Try every later word as the beginning of a command, and every longer one as a text."""
    words = command.words
    before = ("git",) if command.program == "git" else ()
    places = range(1, min(len(words), MAX_TRIED + 1))
    return Opened(
        doubts=[doubt.format(command.program)],
        tried_commands=[
            replace(command, words=before + words[at : at + MAX_TRIED_WORDS], redirections=())
            for at in places
        ],
        tried_texts=[*_texts_in(words[1:]), *_fed(command)],
    )


def _texts_in(words: tuple[str, ...]) -> Iterator[str]:
    """Give the words that could be texts of a shell, also where an option stands before them."""
    for word in words[:MAX_TRIED]:
        if not _MANY_WORDS.search(word):
            continue
        yield word
        if "=" in word:
            yield word.partition("=")[2].lstrip("!")
            yield word.rpartition("=")[2]
        if word.startswith("-"):
            yield word[2:]


def _fed(command: SimpleCommand) -> Iterator[str]:
    """Give the texts that are handed to a command's input in the text itself."""
    for operator, target in command.redirections:
        if operator.lstrip("0123456789") in ("<<", "<<-", "<<<"):
            yield target


# --- those that are read in their own way


def _shell(command: SimpleCommand) -> Opened:
    """Open `sh -c TEXT`; a file as the first argument is a program like any other."""
    words = command.words
    at, has_text = 1, False
    while at < len(words) and words[at].startswith(("-", "+")) and words[at] != "--":
        word = words[at]
        if _SHELL_FLAGS.fullmatch(word):
            has_text = has_text or "c" in word
            at += 1
        elif word == "-o" and words[at + 1 : at + 2] and words[at + 1] in _SHELL_SETTINGS:
            at += 2
        else:
            return _tried(command, UNKNOWN_OPTION)
    at += words[at : at + 1] == ("--",)
    if at < len(words) and has_text:
        return Opened(texts=[words[at]])
    if at < len(words) and not words[at].startswith(("-", "+", "/dev/", "/proc/")):
        return Opened()
    return _tried(command, READS_INPUT)


def _find(command: SimpleCommand) -> Opened:
    """Open what find runs for each name, up to its `;` or `+`."""
    found = Opened()
    words = command.words
    at = 1
    while at < len(words):
        at += 1
        if words[at - 1] not in _FIND_RUNS:
            continue
        end = at
        while end < len(words) and not (
            words[end] == ";" or (words[end] == "+" and words[end - 1] == "{}")
        ):
            end += 1
        found.doubts.append(APPENDS.format("find"))
        found.commands.append(replace(command, words=words[at:end], redirections=()))
        at = end
    return found


def _configured_git(command: SimpleCommand) -> Opened:
    """Take git's configuration off, so that denials see the subcommand, and the aliases in it."""
    words = command.words
    found = Opened(doubts=[ALIAS])
    at = 1
    while at < len(words) and words[at].startswith("-"):
        if words[at] in _GIT_CONFIGURES:
            _, bang, text = "".join(words[at + 1 : at + 2]).partition("=!")
            found.texts += [text] if bang else []
            at += 1
        at += 1
    found.commands.append(replace(command, words=("git", *words[at:]), redirections=()))
    return found
