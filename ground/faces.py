"""The face of a package: the names that programs import from it, each loaded when it is first asked for.

A package lists them as imports in its stub, ``__init__.pyi``, which type checkers and editors read; the list is kept
nowhere else.  Its ``__init__.py`` says ``__getattr__ = face(__name__)`` and imports nothing, so that whoever asks for
one name loads the module of that name alone, and a command that asks for none starts at once.
"""

import sys
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from typing import Any


@cache
def face_names(package: str) -> Mapping[str, str]:
    """Return the names on the face of a package, and the module that each comes from, in the order of its stub."""
    from ast import ImportFrom, parse
    from pathlib import Path

    stub = Path(str(import_module(package).__file__)).with_suffix(".pyi")
    statements = parse(stub.read_text(encoding="utf-8")).body
    imports = [statement for statement in statements if isinstance(statement, ImportFrom) and statement.module]
    return {alias.name: str(statement.module) for statement in imports for alias in statement.names}


def face(package: str) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a package with a stub (PEP 562)."""

    def load(name: str) -> Any:
        """Return what has that name, and keep it; AttributeError where the stub has no such name."""
        # names that Python itself asks packages for are on no face
        if name.startswith("__") or (module := face_names(package).get(name)) is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(module), name)
        setattr(sys.modules[package], name, value)
        return value

    return load
