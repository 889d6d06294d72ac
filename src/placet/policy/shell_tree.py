"""Another reading of a shell command: the tree that tree-sitter-bash makes of it.

It finds every simple command, also inside substitutions, groups, loops, functions and what is
broken, and names each kind of node that is more than a plain command as a doubt. It needs the
extra `shell`, which is imported when a text is first read; without it there is no tree.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING

from placet.policy.shell_words import (
    ARITHMETIC,
    ARRAY,
    BACKGROUND,
    BRACES,
    COMPOUND,
    ESCAPED_STRING,
    GLOB,
    HERE_DOCUMENT,
    PROCESS,
    SUBSTITUTION,
    SYNTAX,
    VARIABLE,
    Reading,
    SimpleCommand,
    resolved,
)

if TYPE_CHECKING:
    from tree_sitter import Language, Node

MISSING = "commands cannot be parsed here: install placet[shell]"
BUILTIN = "a builtin that changes what the shell does later (export, declare, unset)"

_PLAIN = frozenset(
    "program list pipeline command command_name negated_command redirected_statement word number"
    " string string_content raw_string concatenation variable_name variable_assignment"
    " variable_assignments file_redirect file_descriptor herestring_redirect comment".split()
)

#: What stands only inside of something that is a doubt itself.
_INNER = frozenset(
    "binary_expression unary_expression postfix_expression parenthesized_expression"
    " ternary_expression test_operator regex heredoc_start heredoc_body heredoc_content"
    " heredoc_end".split()
)

_DOUBTS = {
    "ERROR": SYNTAX,
    "simple_expansion": VARIABLE,
    "expansion": VARIABLE,
    "special_variable_name": VARIABLE,
    "command_substitution": SUBSTITUTION,
    "process_substitution": PROCESS,
    "arithmetic_expansion": ARITHMETIC,
    "brace_expression": BRACES,
    "extglob_pattern": GLOB,
    "ansi_c_string": ESCAPED_STRING,
    "translated_string": ESCAPED_STRING,
    "heredoc_redirect": HERE_DOCUMENT,
    "array": ARRAY,
    "subscript": ARRAY,
    "+=": ARRAY,
    "declaration_command": BUILTIN,
    "unset_command": BUILTIN,
    "&": BACKGROUND,
}

_SUBSTITUTIONS = frozenset({"command_substitution", "process_substitution"})
_ASSIGNMENTS = frozenset({"variable_assignment", "variable_assignments"})
_COMMANDS = frozenset({"command", "declaration_command", "unset_command"})
_REDIRECTS = frozenset({"file_redirect", "herestring_redirect", "heredoc_redirect"})


@cache
def grammar() -> Language | None:
    """Give the grammar of bash, or None where the extra is not there."""
    try:
        import tree_sitter  # Optional, and heavy for who has no rules.
        import tree_sitter_bash  # Likewise.

        return tree_sitter.Language(tree_sitter_bash.language())
    except (ImportError, ValueError):  # Or their versions do not fit together.
        return None


def read_tree(text: str) -> Reading | None:
    """Read a text as simple commands, in the order of their tree; None without the extra."""
    language = grammar()
    if language is None:
        return None
    import tree_sitter  # Known to be there.

    parsed = tree_sitter.Parser(language).parse(text.encode("utf-8", "replace"))
    walk = _Walk()
    walk.through(parsed.root_node)
    return Reading(tuple(walk.commands), tuple(dict.fromkeys(walk.doubts)))


@dataclass(frozen=True, slots=True)
class _Attach:
    """Said on the way out of a redirected statement: its redirections are its last command's."""

    node: Node
    origin: tuple[str, ...]
    since: int


@dataclass(slots=True)
class _Walk:
    """A walk over a tree, without recursion, since a text may nest as deep as it is long."""

    commands: list[SimpleCommand] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)

    def through(self, root: Node) -> None:
        if root.has_error:
            self.doubts.append(SYNTAX)
        ahead: list[tuple[Node, tuple[str, ...]] | _Attach] = [(root, ())]
        while ahead:
            step = ahead.pop()
            if isinstance(step, _Attach):
                self.attach(step)
                continue
            node, origin = step
            self.doubt(node)
            inside = node.children
            if node.type == "pipeline" and origin[-1:] != ("pipeline",):
                origin = (*origin, "pipeline")
            elif node.type in _SUBSTITUTIONS:
                origin = (*origin, "substitution")
            elif node.type == "redirected_statement":
                ahead.append(_Attach(node, origin, len(self.commands)))
            elif node.type in _COMMANDS or node.type in _ASSIGNMENTS:
                self.commands.append(_command(node, origin))
                inside = list(_within_parts(node))
            ahead.extend((child, origin) for child in reversed(inside))

    def doubt(self, node: Node) -> None:
        if node.is_missing:
            self.doubts.append(SYNTAX)
        if node.type in _DOUBTS:
            self.doubts.append(_DOUBTS[node.type])
        elif node.is_named and node.type not in _PLAIN | _INNER:
            self.doubts.append(COMPOUND)

    def attach(self, step: _Attach) -> None:
        more = _command(step.node, step.origin)
        own = (step.origin, (*step.origin, "pipeline"))
        for place in reversed(range(step.since, len(self.commands))):
            found = self.commands[place]
            if found.origin in own:
                self.commands[place] = replace(
                    found,
                    words=found.words + more.words,
                    redirections=found.redirections + more.redirections,
                )
                return
        self.commands.append(more)


def _within_parts(node: Node) -> Iterator[Node]:
    """Give the parts of a command, and in the place of its assignments what these are made of."""
    for child in node.children:
        if child.type in _ASSIGNMENTS:
            yield from _within_parts(child)
        else:
            yield child


def _command(node: Node, origin: tuple[str, ...]) -> SimpleCommand:
    """Read the node of one command, or what a redirected statement adds to its last one."""
    words: list[str] = []
    assignments: list[tuple[str, str]] = []
    redirections: list[tuple[str, str]] = []
    for child, name in _named(node):
        if child.type in _REDIRECTS:
            redirection, *more = _redirection(child)
            redirections.append(redirection)
            words.extend(word for word, _ in more)
        elif child.type == "variable_assignment" and node.type != "declaration_command":
            assignments.append(_assignment(child))
        elif name != "body":
            words.append(resolved(_text(child)))
    if node.type == "variable_assignment":
        words, assignments = [], [_assignment(node)]
    return SimpleCommand(
        words=tuple(words),
        assignments=tuple(assignments),
        redirections=tuple(redirections),
        origin=origin,
    )


def _assignment(node: Node) -> tuple[str, str]:
    name, _, value = resolved(_text(node)).partition("=")
    return name.removesuffix("+"), value


def _redirection(node: Node) -> Iterator[tuple[str, str]]:
    """Give the operator and the target, and then the words that the tree has after the target."""
    operator = target = ""
    following: list[str] = []
    for child, name in _named(node):
        if child.type in ("heredoc_body", "heredoc_end", "heredoc_content"):
            target += _text(child) if child.type == "heredoc_body" else ""
        elif name == "descriptor" or (not child.is_named and not operator.strip("0123456789")):
            operator += _text(child)
        elif name in ("destination", "argument") or node.type == "herestring_redirect":
            following.append(resolved(_text(child)))
    if operator.endswith("&-"):
        operator, target = operator[:-1], "-"
    elif node.type != "heredoc_redirect" and following:
        target = following.pop(0)
    yield operator, target
    yield from ((word, "") for word in following)


def _named(node: Node) -> Iterator[tuple[Node, str | None]]:
    for place, child in enumerate(node.children):
        yield child, node.field_name_for_child(place)


def _text(node: Node) -> str:
    return (node.text or b"").decode("utf-8", "replace")
