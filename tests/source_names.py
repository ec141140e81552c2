"""Names of the source, read from its syntax: nothing is imported, so that optional libraries need not be there."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]


@cache
def _tree(file: Path) -> ast.Module:
    """Return the syntax of a file."""
    return ast.parse(file.read_text(encoding="utf-8"))


def docstrings(file: Path) -> list[str]:
    """Return the docstrings of a file, and the strings that stand below a constant or a field."""
    alone = (node.value for node in ast.walk(_tree(file)) if isinstance(node, ast.Expr))
    return [node.value for node in alone if isinstance(node, ast.Constant) and isinstance(node.value, str)]


def exists(name: str) -> bool:
    """Return whether a dotted name is a package, a module, or an attribute of one."""
    room, *parts = name.split(".")
    folder = ROOT / room
    if not folder.is_dir():
        return False
    for taken, part in enumerate(parts):
        module = folder / f"{part}.py"
        if module.exists():
            return _holds(module, parts[taken + 1 :])
        if not (folder / part).is_dir():
            # what a package shows to programs stands in its stub
            return any(_holds(face, parts[taken:]) for face in folder.glob("__init__.py*"))
        folder /= part
    return any(folder.glob("*.py"))


def known_in(file: Path, name: str) -> bool:
    """Return whether a name is one of its own module: defined, imported, in a class there, or a module beside it."""
    parts = name.split(".")
    classes = [node for node in ast.walk(_tree(file)) if isinstance(node, ast.ClassDef)]
    return (
        _holds(file, parts)
        or any(_in_class(file, node, parts) for node in classes)
        or (file.parent / f"{parts[0]}.py").exists()
    )


def _holds(file: Path, parts: list[str]) -> bool:
    """Return whether a module has an attribute, and that one the next, and so on."""
    if not parts:
        return True
    found = [node for node in _statements(_tree(file).body) if parts[0] in _bound(node)]
    return any(_leads_on(file, node, parts) for node in found)


def _leads_on(file: Path, node: ast.stmt, parts: list[str]) -> bool:
    """Return whether a statement that binds the first name leads to the names behind it."""
    if len(parts) == 1:
        return True
    if isinstance(node, ast.ClassDef):
        return _in_class(file, node, parts[1:])
    if isinstance(node, ast.ImportFrom) and node.module is not None:
        original = next(alias.name for alias in node.names if parts[0] == (alias.asname or alias.name))
        return not (ROOT / node.module.split(".")[0]).is_dir() or exists(".".join([node.module, original, *parts[1:]]))
    return isinstance(node, ast.Import)


def _in_class(file: Path, node: ast.ClassDef, parts: list[str]) -> bool:
    """Return whether a class or one of the classes it inherits from has an attribute."""
    own = {name for statement in _statements(node.body) for name in _bound(statement)}
    own |= {part.attr for part in ast.walk(node) if isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Store)}
    return parts[0] in own or any(_holds(file, [*ast.unparse(base).split("."), *parts]) for base in node.bases)


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield statements, and those inside `if` and `try`."""
    for node in body:
        yield node
        if isinstance(node, ast.If | ast.Try):
            yield from _statements([*node.body, *node.orelse])


def _bound(node: ast.stmt) -> set[str]:
    """Return the names that a statement binds."""
    if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return {node.name}
    if isinstance(node, ast.Import | ast.ImportFrom):
        return {alias.asname or alias.name for alias in node.names}
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return {part.id for target in targets if target for part in ast.walk(target) if isinstance(part, ast.Name)}
