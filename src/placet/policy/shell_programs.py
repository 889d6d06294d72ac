"""What is known of programs and variables that run or write more than their command shows.

Each is a doubt, whichever rule would allow the command. The tables are no complete list of what a
program can do, and never can be: what a rule allows is the business of who writes it.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from dataclasses import replace
from fnmatch import fnmatchcase

from placet.policy.shell_words import RESERVED, SimpleCommand

OTHER_NAME = "the name of a command holds other characters than plain ASCII"
CHANGES_SHELL = "`{}` changes what the shell does later, or runs a text"
CODE = "`{}` is handed code, or reads it from its input"
CARRIES = "`{}` with `{}` can run or write what the rule does not show"
VARIABLE_RUNS = "the variable {} can change what runs"
DEVICE = "a redirection from or to a device or the network ({})"
RESERVED_WORD = "`{}` is a word of the shell's grammar where a command is expected"

#: Builtins after which the rest of a text may mean something else, and those that run a text.
SHELL_CHANGERS = frozenset(
    ". alias bind compgen complete compopt declare disown enable eval exec export fc getopts hash"
    " history let local logout mapfile popd pushd read readarray readonly set shopt source suspend"
    " trap typeset ulimit umask unalias unset".split()
)

#: Targets of redirections that keep nothing.
HARMLESS_TARGETS = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr"})
_READABLE_DEVICES = HARMLESS_TARGETS | {"/dev/stdin", "/dev/zero", "/dev/urandom"}

#: Variables by which something else runs, or is found, than what the command names.
_RISKY_VARIABLES = (
    "PATH LD_* DYLD_* IFS ENV BASH* SHELL* PS[0-4] PROMPT_COMMAND CDPATH GLOBIGNORE EXECIGNORE"
    " HOME XDG_* TMPDIR GIT_* SSH_* *PAGER *EDITOR VISUAL *BROWSER PYTHON* PYTEST_* NODE_* NPM_*"
    " npm_* PERL* RUBY* GEM_* JAVA* _JAVA* JDK_* CLASSPATH LUA_* PHP* LESS* MAN* MAKE* GNUMAKEFLAGS"
    " CC CXX LD AR *FLAGS CARGO_* RUSTC* RUSTDOC* GO* CMAKE_* RIPGREP_* GREP_* TAR_OPTIONS TAPE"
    " RSYNC_* CVS_* SVN_* HG* SUDO_* ASKPASS TERMINFO* TERMCAP LOCPATH NLSPATH GCONV_PATH"
    " HOSTALIASES RES_OPTIONS MALLOC_* *_PROXY *_proxy CURL_* WGETRC OPENSSL_* GNUPGHOME DOCKER_*"
    " KUBECONFIG PLACET_*"
).split()

#: Interpreters of other languages than the shell's: a file as their first argument is a program
#: like any other, all else is code.
_INTERPRETERS = re.compile(
    r"(?:python|pypy|perl|ruby|jruby|irb|node|nodejs|deno|bun|php|lua|luajit|tclsh|wish|expect"
    r"|rscript|r|julia|osascript|groovy|scala|guile|racket|sbcl|elixir|iex|erl|escript|ghc|runghc"
    r"|ghci|octave|jshell)[0-9.]*"
)

#: What runs code or commands from its words, its input or a file, whatever its first argument is.
_ALWAYS_CODE = frozenset(
    "dc duckdb ed elvis emacs emacsclient eview evim ex ftp gdb gnuplot gview gvim gvimdiff lftp m4"
    " mariadb mongosh mysql nvi nvim psql rview rvim sqlite3 vi view vim vimdiff vimtutor".split()
)
_PYTHON_FLAGS = frozenset("-u -B -I -s -S -E -O -OO -q -bb -b".split())
_PYTHON = re.compile(r"(?:python|pypy)[0-9.]*")
_MODULES_OF_CODE = frozenset("asyncio code pdb timeit".split())

#: Options, and words, that run or write: `--long` stands for its abbreviations too, `-x` for the
#: letter in any bundle of short options, `-word` for itself, and a plain word for itself.
_CARRIERS: Mapping[str, str] = {
    "ack": "--pager --output",
    "ag": "--pager",
    "apt": "-o -c --option --config-file",
    "apt-cache": "-o -c --option --config-file",
    "apt-get": "-o -c --option --config-file",
    "ar": "--plugin",
    "bat": "--pager",
    "batcat": "--pager",
    "cargo": "--config --manifest-path -C -Z",
    "cpio": "--rsh-command",
    "curl": "-o -O -J -K -D -c -T --output --remote-name --remote-name-all --remote-header-name"
    " --config --dump-header --cookie-jar --upload-file --trace --trace-ascii --stderr --libcurl"
    " --etag-save --hsts --alt-svc --output-dir --engine --variable --unix-socket"
    " --abstract-unix-socket",
    "ctags": "--options --optlib-dir -o -f",
    "date": "-s --set",
    "diff3": "--diff-program",
    "fd": "-x -X --exec --exec-batch",
    "fdfind": "-x -X --exec --exec-batch",
    "flake8": "--config --append-config --output-file",
    "find": "-delete -fprint -fprint0 -fprintf -fls -exec -execdir -ok -okdir",
    "fzf": "--preview --bind",
    "git": "--output --output-directory --ext-diff --exec --upload-pack --receive-pack"
    " --open-files-in-pager",
    "git archive": "-o --remote",
    "git bisect": "run",
    "git bundle": "create",
    "git difftool": "-x -t --extcmd --tool",
    "git fast-export": "--export-marks",
    "git fast-import": "--export-marks",
    "git format-patch": "-o",
    "git filter-repo": "--blob-callback --commit-callback --email-callback --file-info-callback"
    " --filename-callback --message-callback --name-callback --refname-callback --reset-callback"
    " --tag-callback",
    "git filter-branch": "--setup --env-filter --tree-filter --index-filter --parent-filter"
    " --msg-filter --commit-filter --tag-name-filter",
    "git mergetool": "-t --tool",
    "git send-email": "--smtp-server --sendmail-cmd --to-cmd --cc-cmd --header-cmd",
    "git clone": "-c -u --config --template",
    "git grep": "-O",
    "git help": "-w --web",
    "git hook": "run",
    "git init": "--template --separate-git-dir",
    "git instaweb": "--httpd --browser",
    "git rebase": "-x -i --interactive",
    "git submodule": "foreach",
    "go": "-exec -toolexec -vettool -overlay",
    "hg": "--config --cwd",
    "iconv": "-o --output",
    "jobs": "-x",
    "less": "-o -O -k --log-file --LOG-FILE --lesskey-file --lesskey-src --lesskey-content",
    "make": "-f -C -I -E -o -W --file --makefile --directory --eval --include-dir",
    "gmake": "-f -C -I -E -o -W --file --makefile --directory --eval --include-dir",
    "man": "-P -H -C --pager --html --config-file",
    "mypy": "--config-file --python-executable --junit-xml --install-types --cache-dir --cache-map"
    " --shadow-file --custom-typeshed-dir --any-exprs-report --cobertura-xml-report --html-report"
    " --linecount-report --linecoverage-report --lineprecision-report --txt-report --xml-report"
    " --xslt-html-report --xslt-txt-report",
    "nm": "--plugin",
    "npm": "--script-shell --node-options",
    "objdump": "--plugin",
    "openssl": "-engine -out -pre -post -provider -provider-path",
    "printf": "-v",
    "pylint": "--init-hook --load-plugins --rcfile --output",
    "py.test": "-p -c -o --rootdir --confcutdir --config-file --override-ini --basetemp"
    " --junitxml --junit-xml --log-file --pdbcls --debug --pastebin --cov-config --cov-report"
    " --tx -W --pythonwarnings",
    "pytest": "-p -c -o --rootdir --confcutdir --config-file --override-ini --basetemp"
    " --junitxml --junit-xml --log-file --pdbcls --debug --pastebin --cov-config --cov-report"
    " --tx -W --pythonwarnings",
    "rg": "-z --pre --hostname-bin --search-zip",
    "rsync": "-e --rsh --rsync-path",
    "scp": "-S -o -F",
    "sdiff": "-o --output --diff-program",
    "sftp": "-S -o -F -b",
    "shuf": "-o --output",
    "sort": "-o --output --compress-program",
    "split": "--filter",
    "ssh-keygen": "-D",
    "strip": "--plugin",
    "tar": "-I -F -T --files-from --to-command --use-compress-program --checkpoint-action"
    " --info-script --new-volume-script --rsh-command --rmt-command",
    "tcpdump": "-w -z",
    "test": "-v -R",
    "tree": "-o -R",
    "wait": "-p",
    "wget": "-e --execute --use-askpass --config",
    "xmllint": "--shell --output",
    "yq": "-i --inplace",
    "zip": "-T -TT --test --unzip-command",
}

#: Words by which a compiler runs something else than itself.
_COMPILERS = re.compile(r"^-(?:wrapper|B|f(?:pass-)?plugin|-?specs)|^@")

#: Words that are no options, and run or write, or hold what does: variables of make, transports
#: of git, files of options or to be sent, and the conversion by which bash's printf sets a
#: variable.
_ODD_WORDS: Mapping[str, re.Pattern[str]] = {
    "cc": _COMPILERS,
    "clang": _COMPILERS,
    "clang++": _COMPILERS,
    "c++": _COMPILERS,
    "curl": re.compile(r"^[^\s:/=&?]*@|=[@<]|%output\{"),
    "g++": _COMPILERS,
    "gcc": _COMPILERS,
    "go": re.compile(r"^--?C(?:=|$)"),
    "less": re.compile(r"^\+"),
    "make": re.compile(r"^[^-].*=", re.DOTALL),
    "gmake": re.compile(r"^[^-].*=", re.DOTALL),
    "git": re.compile(r"^(?:ext|fd)::|^ssh://-"),
    "java": re.compile(r"^-(?:agent|javaagent|XX:On)|^@"),
    "pytest": re.compile(r"^@"),
    "py.test": re.compile(r"^@"),
    "printf": re.compile(r"%[-+ #'*.0-9hjlLtz$]*n"),
}

#: What `git config` is followed by where it only reads.
_GIT_READS = tuple((word,) for word in "--get --get-all --get-regexp --list -l get list".split())

#: What writes to its second operand; a value of an option is taken for one, too.
_WRITES_SECOND = frozenset({"uniq", "xxd"})

#: awk programs without any of these read and print, and do nothing else.
_AWK_RUNS = re.compile(r"system|getline|[|>@]|\\\s")
_AWKS = frozenset({"awk", "gawk", "mawk", "nawk"})

#: One sed command that prints, deletes or replaces; one only, because seds disagree about where a
#: regular expression with a bracket in it ends.
_SED_PLAIN = re.compile(
    r"(?:[0-9]+|\$)?(?:,(?:[0-9]+|\$))?[pdq=]"
    r"|/(?:[^/\\\n]|\\[^\n])*/[pd]"
    r"|s/(?:[^/\\\n]|\\[^\n])*/(?:[^/\\\n]|\\[^\n])*/[gIip0-9]*"
)
_SED_FLAGS = frozenset("-n -E -r -s -u --quiet --silent --regexp-extended".split())


def doubts_of(command: SimpleCommand) -> tuple[str, ...]:
    """Give the reasons why a command may do more than its words show, as far as is known here."""
    doubts = [VARIABLE_RUNS.format(name) for name, _ in command.assignments if is_risky(name)]
    doubts += [DEVICE.format(target) for _, target in command.redirections if _is_device(target)]
    if not command.words:
        return tuple(doubts)
    name, program = command.words[0], command.program
    if not (name.isascii() and name.isprintable()) or " " in name:
        doubts.append(OTHER_NAME)
    if name in RESERVED:
        doubts.append(RESERVED_WORD.format(name))
    if program in SHELL_CHANGERS:
        doubts.append(CHANGES_SHELL.format(program))
    if _is_code(program, command.words[1:]):
        doubts.append(CODE.format(program))
    module = replace(command, words=_module_in(command))
    for each in (command, module):
        doubts += [CARRIES.format(each.program, word) for word in carriers_in(each)]
    return tuple(doubts)


def is_risky(name: str) -> bool:
    """Say whether a variable can change what runs; so does one whose name is no plain name."""
    return not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) or any(
        fnmatchcase(name, risky) for risky in _RISKY_VARIABLES
    )


def _is_device(target: str) -> bool:
    path = posixpath.normpath(target) if target else ""
    path = "/" + path.lstrip("/") if path.startswith("/") else path
    return path.startswith(("/dev/", "/proc/")) and target not in _READABLE_DEVICES


# --- code


def _is_code(program: str, given: tuple[str, ...]) -> bool:
    if program in _AWKS:
        return not _awk_only_prints(given)
    if program == "sed":
        return not _sed_only_edits(given)
    if not _INTERPRETERS.fullmatch(program):
        if program == "crontab":
            return given != ("-l",)
        return program.partition(".")[0] in _ALWAYS_CODE  # As in vim.basic.
    if _PYTHON.fullmatch(program):
        given = _without_flags(given)
        if given[:1] == ("-m",):
            return not given[1:] or given[1] in _MODULES_OF_CODE
        if given[:1] in (("--version",), ("-V",)):
            return False
    first = given[0] if given else "-"
    return first.startswith(("-", "+", "/dev/", "/proc/")) or first == "eval"


def _without_flags(given: tuple[str, ...]) -> tuple[str, ...]:
    while given and given[0] in _PYTHON_FLAGS:
        given = given[1:]
    return given


def _module_in(command: SimpleCommand) -> tuple[str, ...]:
    """Give the module that `python -m` runs, with its words, as if it were a program."""
    given = _without_flags(command.words[1:])
    is_module = _PYTHON.fullmatch(command.program) and given[:1] == ("-m",)
    return given[1:] if is_module else ()


def _awk_only_prints(given: tuple[str, ...]) -> bool:
    rest = list(given)
    while rest and rest[0].startswith("-"):
        option = rest.pop(0)
        if option in ("-F", "-v") and rest:
            rest.pop(0)
        elif not re.fullmatch(r"-[Fv].+", option, re.DOTALL):
            return False
    return bool(rest) and not _AWK_RUNS.search(rest[0])


def _sed_only_edits(given: tuple[str, ...]) -> bool:
    rest = list(given)
    scripts: list[str] = []
    while rest and rest[0].startswith("-"):
        option = rest.pop(0)
        if option == "-e" and rest:
            scripts.append(rest.pop(0))
        elif option not in _SED_FLAGS:
            return False
    if not scripts and rest:
        scripts.append(rest.pop(0))
    late = any(word.startswith("-") for word in rest)  # GNU takes options after files, too.
    return bool(scripts) and not late and all(_SED_PLAIN.fullmatch(one) for one in scripts)


# --- options that carry more


def carriers_in(command: SimpleCommand) -> list[str]:
    """Give the words of a command by which it can run or write what no rule shows."""
    program, given = command.program, command.words[1:]
    carriers = _CARRIERS.get(program, "").split()
    if program == "git" and given:
        carriers += _CARRIERS.get(f"git {given[0]}", "").split()
    if program in ("tar", "bsdtar", "gtar"):
        carriers = _CARRIERS["tar"].split()
        if given and not given[0].startswith("-"):  # Its oldest form: a bundle without a dash.
            given = (f"-{given[0]}", *given[1:])
    found = [word for word in given if any(_carries(word, one) for one in carriers)]
    if program == "git" and given[:1] == ("config",) and given[1:2] not in _GIT_READS:
        found.append("config")
    if program in _WRITES_SECOND:
        found += [word for word in given if not word.startswith("-")][1:]
    odd = _ODD_WORDS.get(program)
    return found + [word for word in given if odd and odd.search(word)]


def _carries(word: str, carrier: str) -> bool:
    named = word.partition("=")[0]
    if not carrier.startswith("-"):
        return word == carrier
    if carrier.startswith("--"):
        return len(named) > len("--") and named.startswith("--") and carrier.startswith(named)
    if len(carrier) == len("-x"):
        return word.startswith("-") and not word.startswith("--") and carrier[1] in word[1:]
    return named in (carrier, f"-{carrier}")
