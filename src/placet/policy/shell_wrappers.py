"""Commands that run other commands, opened: what stands inside is a command, or a text, of its own.

Each wrapper's own options are read strictly. Where one is not known here, what is run inside
cannot be told: that is a doubt, and every later word is tried as the beginning of a command and
every longer one as a text, so that a denial still finds what it denies.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import takewhile

from placet.policy.shell_programs import RESERVED_WORD, carriers_in
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
    "aa-exec ansible arch at batch bear bpftrace bwrap caffeinate capsh catatonit catchsegv ccache"
    " cgexec chpst choom chroot chronic chrt clush cmd cpulimit daemon daemonize dbus-launch"
    " dbus-run-session distcc distrobox dsh dumb-init eatmydata entr envdir envuidgid execlineb"
    " fakechroot fakeroot faketime firejail flock gdbserver gksu gksudo gosu heaptrack hyperfine"
    " ifne kdesu linux32 linux64 ltrace lxc-attach lxc-execute mosh mpiexec mpirun multitime ncat"
    " nc netcat newgrp nix-shell nodemon nq nsenter numactl openvt orterun parallel pdsh perf"
    " pgrphack pkexec prlimit proot proxychains proxychains4 pssh reflex retry rlwrap rr rsh run0"
    " run-parts runcon runuser salloc sandbox-exec sbatch sccache scan-build screen script sem"
    " setarch setlock setpriv setuidgid sg socat softlimit srun ssh ssh-agent sshpass startx"
    " start-stop-daemon strace su su-exec sudoedit super systemd-cat systemd-inhibit"
    " systemd-nspawn systemd-run taskset tini tmux toolbox torify torsocks trickle tsocks tsp"
    " uclampset uname26 unbuffer unshare valgrind watch watchexec wine wsl xcrun xinit xterm"
    " xvfb-run".split()
)

#: Other names of setarch, loaders of programs, and emulators: what follows is a program.
_LIKE_NOT_OPENED = re.compile(
    r"i[3-6]86|x86_64|athlon|ia64|alpha|arm(?:v[0-9]+[a-z]*)?|aarch64"
    r"|(?:ppc|s390|sparc|parisc|mips)[0-9x]*(?:le)?"
    r"|ld(?:-[a-z0-9_.-]+)?\.so[0-9.]*|qemu-[a-z0-9_]+(?:-static)?"
)

#: What runs a command with one of these words, elsewhere or in ways that are not read here.
_RUNS_WITH: Mapping[str, str] = {
    "adb": "shell",
    "apptainer": "exec run shell",
    "asdf": "exec",
    "aws": "execute-command",
    "aws-vault": "exec",
    "cabal": "exec run",
    "chamber": "exec",
    "cmake": "-E -P",
    "conda": "run",
    "crictl": "exec",
    "crun": "exec run",
    "ctr": "exec run",
    "direnv": "exec",
    "docker": "exec run create",
    "docker-compose": "exec run",
    "doppler": "run",
    "dotenv": "run",
    "flatpak": "run enter",
    "fly": "ssh console",
    "flyctl": "ssh console",
    "fnm": "exec",
    "foreman": "run",
    "gcloud": "ssh",
    "hatch": "run shell",
    "heroku": "run",
    "honcho": "run",
    "incus": "exec",
    "ip": "netns netn net vrf vr exec -batch -batc -bat -ba -b",
    "kubectl": "exec run debug",
    "lerna": "exec run",
    "lxc": "exec",
    "machinectl": "shell",
    "mamba": "run",
    "micromamba": "run",
    "mise": "exec x run",
    "mix": "cmd",
    "multipass": "exec",
    "nerdctl": "exec run create",
    "nix": "run shell develop",
    "nvm": "exec run",
    "oc": "exec run rsh debug",
    "op": "run",
    "podman": "exec run create",
    "runc": "exec run",
    "rustup": "run",
    "singularity": "exec run shell",
    "snap": "run",
    "sops": "exec-env exec-file",
    "stack": "exec run",
    "tox": "exec e",
    "vagrant": "ssh",
    "volta": "run",
}

#: What runs the words that follow one of these, or its own where none is named.
_RUNNERS: Mapping[str, str] = {
    "bundle": "exec exe ex e",
    "bundler": "exec exe ex e",
    "bunx": "",
    "npm": "exec exe x",
    "npx": "",
    "opam": "exec",
    "pdm": "run",
    "pipenv": "run",
    "pipx": "run",
    "pixi": "run",
    "pnpm": "exec dlx",
    "pnpx": "",
    "poetry": "run",
    "pyenv": "exec",
    "rbenv": "exec",
    "rye": "run",
    "uv": "run",
    "uvx": "",
    "yarn": "exec dlx",
}
#: What runs none of its words as a command, but for the options that are known of it.
_RUNS_NOTHING = frozenset(
    "[ ack ag apropos awk base64 basename bat batcat bsdtar cat cd chgrp chmod chown cksum cmp"
    " column comm cp curl cut date dd df diff dir dirname du echo egrep expand expr false fd fdfind"
    " fgrep file fmt fold gawk git grep gunzip gzip head help hexdump hostname iconv id info join"
    " jq kill killall less link ln locate ls lsof man mawk md5sum mkdir mktemp more mv mypy nawk nl"
    " od paste pgrep pidof pkill pr printf ps pwd py.test pytest readlink realpath rg rm rmdir ruff"
    " sed seq sha1sum sha256sum sha512sum shred shuf sleep sort stat strings sum tac tail tar tee"
    " test touch tr tree true truncate tty type uname unexpand uniq unlink unzip wc wget whatis"
    " whereis which who whoami xxd yes zcat zgrep zip".split()
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
    runs_elsewhere = program in _NOT_OPENED or _LIKE_NOT_OPENED.fullmatch(program)
    if runs_elsewhere or _has_word(command, _RUNS_WITH.get(program, "")):
        return _tried(inner, ELSEWHERE)
    if program == "coproc":
        return _tried(inner, NOT_TOLD)
    if program == "find":
        return _find(inner)
    if program == "eval":
        return Opened(texts=[" ".join(command.words[1 + (command.words[1:2] == ("--",)) :])])
    if program in _RUNNERS:
        return _runner(inner, _RUNNERS[program].split())
    if program in ("trap", "alias"):
        return Opened(tried_texts=list(_texts_in(command.words[1:])))
    if program == "command" and command.words[1:2] and command.words[1] in _DESCRIBES:
        return Opened()
    if program == "git" and _is_configured(command.words):
        return _configured_git(inner)
    if program in WRAPPERS:
        return _wrapper(WRAPPERS[program], inner)
    return Opened(tried_texts=list(_texts_in(command.words)) if carriers_in(command) else [])


def looks_into(command: SimpleCommand) -> bool:
    """Say whether whatever a command may run of its own words has been opened, or cannot be told.

    So is a shell with a text, and not one with a file: that may run its arguments, as any program.
    """
    program = command.program
    if program in _SHELLS:
        found = _shell(command)
        return bool(found.texts or found.doubts)
    return (
        program in WRAPPERS
        or program in _NOT_OPENED
        or program in _OTHER_SHELLS
        or program in _RUNS_NOTHING
        or program in ("coproc", "eval", "find")
        or bool(_LIKE_NOT_OPENED.fullmatch(program))
        or (program in _RUNNERS and bool(opened(command).commands))
    )


def _has_word(command: SimpleCommand, words: str) -> bool:
    return not set(words.split()).isdisjoint(command.words[1:])


def _runner(command: SimpleCommand, before: list[str]) -> Opened:
    """Open `uv run TOOL` and its like; with any option what it runs cannot be told."""
    words = command.words
    at = 1
    if before:
        if not _has_word(command, " ".join(before)):
            return Opened()
        if words[1] not in before:
            return _tried(command, UNKNOWN_OPTION)
        at = 2
    at += words[at : at + 1] == ("--",)
    if words[at : at + 1] and words[at].startswith("-"):
        return _tried(command, UNKNOWN_OPTION)
    if at == len(words):
        return _tried(command, READS_INPUT)
    return Opened(commands=[replace(command, words=words[at:], redirections=())])


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
    while program == "time" and rest[:1] == ("!",):
        found.doubts.append(RESERVED_WORD.format("!"))
        rest = rest[1:]
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


def _is_configured(words: tuple[str, ...]) -> bool:
    own = takewhile(lambda word: word.startswith("-"), words[1:])
    return not _GIT_CONFIGURES.isdisjoint(own)


def _configured_git(command: SimpleCommand) -> Opened:
    """Take git's configuration off, so that denials see the subcommand, and the aliases in it."""
    words = command.words
    aliases: list[str] = []
    found = Opened(doubts=[ALIAS])
    at = 1
    while at < len(words) and words[at].startswith("-"):
        if words[at] in _GIT_CONFIGURES:
            name, _, value = "".join(words[at + 1 : at + 2]).partition("=")
            if value.startswith("!"):
                found.texts.append(value[1:])
            elif name.lower().startswith("alias."):
                aliases.append(value)
            found.tried_texts.append(value)
            at += 1
        at += 1
    found.commands.append(replace(command, words=("git", *words[at:]), redirections=()))
    for alias in aliases:
        meant = ("git", *alias.split(), *words[at + 1 :])
        found.tried_commands.append(replace(command, words=meant, redirections=()))
    return found
