"""Each package has one face, the stub of its ``__init__``: programs import from it, and nothing else."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from ground.faces import face_names

ROOT = Path(__file__).parents[1]
FACES = ("topology", "scheduler", "simulator", "health", "extender", "slurm", "arnold")


@pytest.mark.parametrize("package", FACES)
def test_every_name_of_a_face_can_be_imported(package: str) -> None:
    """A name is what its module has, and that of no module beside it, which Python would find instead."""
    names = face_names(package)
    assert names
    face = import_module(package)
    for name, module in names.items():
        assert getattr(face, name) is getattr(import_module(module), name)
        assert not (ROOT / package / name).exists(), name
        assert not (ROOT / package / f"{name}.py").exists(), name


@pytest.mark.parametrize("package", FACES)
def test_a_face_has_no_other_names(package: str) -> None:
    """What a face does not list is an AttributeError, as of any module."""
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = import_module(package).no_such_name


def test_a_face_loads_what_is_asked_for_alone() -> None:
    """Importing a package loads none of its modules, and a name loads no module that its own does not need."""
    code = f"""
import sys
for package in {FACES!r}:
    __import__(package)
print([name for name in sys.modules if name.partition(".")[0] in {FACES!r} and "." in name])
from scheduler import Job
print("scheduler.library" in sys.modules, "ortools" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[]", "False False"]


def programs() -> Iterator[tuple[str, str]]:
    """Yield the code that shows how to use Arnold from Python, each with its place."""
    for file in sorted((ROOT / "examples").glob("*.py")):
        yield file.name, file.read_text(encoding="utf-8")
    for notebook in sorted((ROOT / "docs").rglob("*.ipynb")):
        cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
        yield notebook.name, "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    for page in sorted((ROOT / "docs").rglob("*.md")):
        for number, code in enumerate(re.findall(r"^```python\n(.*?)^```", page.read_text("utf-8"), re.M | re.S), 1):
            yield f"{page.name}, code {number}", code


@pytest.mark.parametrize("code", [pytest.param(code, id=place) for place, code in programs()])
def test_programs_import_from_faces(code: str) -> None:
    """Examples, notebooks and code in the documentation import from a face, never from a module behind it."""
    imports = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.ImportFrom | ast.Import)]
    modules = [
        module
        for node in imports
        for module in ([node.module or ""] if isinstance(node, ast.ImportFrom) else [name.name for name in node.names])
    ]
    behind = [module for module in modules if module.partition(".")[0] in {*FACES, "ground"} and module not in FACES]
    assert behind == []
