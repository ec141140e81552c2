"""Options that mean nothing without another are refused without it, in all commands, and not passed over."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

import click
import pytest

from arnold.commands.command_table import arnold as root
from arnold.options.field_options import DependentOption
from tests.arnold.commands.test_cli_repeated_options import leaves
from tests.facts import says

Arnold = Callable[..., Any]

COMMANDS = [*leaves(root)]
DEPENDENT = [
    (" ".join(words), option)
    for words, command in COMMANDS
    for option in command.params
    if isinstance(option, DependentOption) and option.needs
]


@pytest.mark.parametrize(
    ("command", "option"), DEPENDENT, ids=[f"{words} {option.opts[0]}" for words, option in DEPENDENT]
)
def test_it_is_refused_without_what_it_needs(arnold: Arnold, command: str, option: DependentOption) -> None:
    """Whatever else is missing: exit 2, and both are named; what it needs is an option of the same command."""
    (of_command,) = (other for words, other in COMMANDS if " ".join(words) == command)
    assert {*option.needs} <= {spelling for other in of_command.params for spelling in other.opts}
    ran = arnold(*command.split(), option.opts[0], "1")
    assert ran.code == 2
    assert says(ran.err, option.opts[0], *option.needs, "To fix:")


def given_by(test: ast.expr) -> set[str]:
    """Return the parameters that are given where a condition holds, as far as it says so plainly."""
    match test:
        case ast.Name(id=name):
            return {name}
        case ast.Compare(left=ast.Name(id=name), ops=[ast.IsNot()], comparators=[ast.Constant(value=None)]):
            return {name}
        case ast.BoolOp(op=ast.And(), values=values):
            return set[str]().union(*map(given_by, values))
    return set()


def missing_by(test: ast.expr) -> set[str]:
    """Return the parameters that are not given where it holds."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return given_by(operand)
        case ast.Compare(left=ast.Name(id=name), ops=[ast.Is()], comparators=[ast.Constant(value=None)]):
            return {name}
    return set()


def uses(nodes: list[ast.stmt] | list[ast.AST], given: frozenset[str]) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield each name that is read, with the parameters that are given where it is."""
    for node in nodes:
        if isinstance(node, ast.If | ast.IfExp):
            yield from uses([node.test], given)
            body = node.body if isinstance(node.body, list) else [node.body]
            orelse = node.orelse if isinstance(node.orelse, list) else [node.orelse]
            yield from uses([*body], given | given_by(node.test))
            yield from uses([*orelse], given | missing_by(node.test))
            if body and isinstance(body[-1], ast.Return | ast.Raise):
                given |= missing_by(node.test)
        elif isinstance(node, ast.Name):
            yield node.id, given
        else:
            yield from uses([*ast.iter_child_nodes(node)], given)


@pytest.mark.parametrize("words", [" ".join(words) for words, _ in COMMANDS])
def test_what_is_read_only_beside_another_option_needs_it(words: str) -> None:
    """An option whose value the command looks at only where another is given would be passed over without it."""
    (command,) = (other for of_other, other in COMMANDS if " ".join(of_other) == words)
    function: Any = inspect.unwrap(command.callback or root)
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    assert isinstance(tree, ast.FunctionDef)
    options = {option.name: option for option in command.params if isinstance(option, click.Option)}
    beside: dict[str, frozenset[str]] = {}
    for name, given in uses([*tree.body], frozenset()):
        if name in options:
            beside[name] = beside.get(name, given) & given
    passed_over = {name: others & options.keys() - {name} for name, others in beside.items()}
    undeclared = {
        options[name].opts[0]: sorted(others)
        for name, others in passed_over.items()
        if others and not getattr(options[name], "needs", ())
    }
    assert undeclared == {}
