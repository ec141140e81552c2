"""Rules for the source that no linter checks."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections import defaultdict
from importlib.metadata import packages_distributions
from inspect import signature
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from arnold.main import PACKAGES
from scheduler.algorithm_run import run
from scheduler.job import Job, Parallelism
from scheduler.placement.types import ALGORITHMS, Limits, PlacementAlgorithm
from topology.generate import minipods

ROOT = Path(__file__).parents[1]
SOURCES = sorted(file for package in (*PACKAGES, "benchmarks") for file in (ROOT / package).rglob("*.py"))

IMPORTED = re.compile(r"^ *(?:from (?=[\w.]+ import )|import (?=[\w.]+(?: as \w+)?$))(\w+)", flags=re.MULTILINE)
"""Lines that import: the house has no `import a, b`, which the linter refuses."""

HEAVY = ("ortools", "pyarrow", "matplotlib", "networkx", "jinja2", "pandas", "numpy", "pydantic", "rich", "yaml")
"""Libraries that `arnold --help` has no use for and that would make it slow."""


def test_names_stand_once() -> None:
    """No module name stands twice in a room, but ``types``, and no public class name twice in the tree."""
    modules, classes = defaultdict[tuple[str, str], list[str]](list), defaultdict[str, list[str]](list)
    for file in (file for file in SOURCES if not file.is_relative_to(ROOT / "benchmarks")):
        path = file.relative_to(ROOT)
        modules[path.parts[0], file.stem].append(str(path))
        for name in re.findall(r"^ *class ([A-Za-z]\w*)[(:\[]", file.read_text(encoding="utf-8"), re.MULTILINE):
            classes[name].append(str(path))
    twice = {
        files[0]: files for (_, stem), files in modules.items() if len(files) > 1 and stem not in ("__init__", "types")
    }
    assert twice == {}
    assert {name: files for name, files in classes.items() if len(files) > 1} == {}


def test_annotations_wait_where_they_must() -> None:
    """Annotations are kept from being evaluated where they name what is defined below, or imported for types alone."""
    idle = []
    for file in SOURCES:
        tree = ast.parse(file.read_text(encoding="utf-8"))
        if not any(isinstance(node, ast.ImportFrom) and node.module == "__future__" for node in tree.body):
            continue
        nodes = list(ast.walk(tree))
        known_from = {node.name: node.end_lineno or 0 for node in nodes if isinstance(node, ast.ClassDef)}
        for block in (node for node in nodes if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)):
            known_from |= dict.fromkeys(re.findall(r"\w+", ast.unparse(block.body)), sys.maxsize)
        annotations = [getattr(node, "annotation", None) or getattr(node, "returns", None) for node in nodes]
        named = [name for annotation in annotations if annotation for name in ast.walk(annotation)]
        if not any(isinstance(name, ast.Name) and known_from.get(name.id, 0) >= name.lineno for name in named):
            idle.append(str(file.relative_to(ROOT)))
    assert idle == []


def test_commands_say_what_they_take() -> None:
    """No command has options that types cannot see: an unpacked mapping hides a missing parameter until it runs.

    What is handed to click itself is called ``settings``.
    """
    hidden = [
        f"{file.relative_to(ROOT)}: {node.name}(**{node.args.kwarg.arg})"
        for file in sorted((ROOT / "arnold" / "commands").rglob("*.py"))
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef) and node.args.kwarg is not None and node.args.kwarg.arg != "settings"
    ]
    assert hidden == []


def test_tests_stand_where_their_modules_do() -> None:
    """Tests of a package lie in folders that the package has: a room that is renamed takes its tests along."""
    tests = [file for package in PACKAGES for file in (ROOT / "tests" / package).rglob("*.py")]
    folders = {file.parent.relative_to(ROOT / "tests") for file in tests}
    assert folders, "no tests were found"
    assert sorted(str(folder) for folder in folders if not any((ROOT / folder).glob("*.py"))) == []


def test_libraries_that_are_imported_are_declared() -> None:
    """Whatever the packages import of others is a dependency or in an extra, and not there by chance."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"].values()
    listed = [*project["dependencies"], *(line for lines in extras for line in lines)]
    declared = {canonicalize_name(Requirement(line).name) for line in listed}
    imported = {
        name
        for package in PACKAGES
        for file in (ROOT / package).rglob("*.py")
        for name in IMPORTED.findall(file.read_text(encoding="utf-8"))
    }
    distributions = packages_distributions()
    others = imported - {*PACKAGES, *sys.stdlib_module_names}
    assert {"numpy", "aiohttp", "yarl"} <= others
    undeclared = {
        name for name in others if not {canonicalize_name(of) for of in distributions.get(name, [name])} & declared
    }
    assert undeclared == set()


def test_help_imports_nothing_heavy() -> None:
    """`arnold --help` is instant because it imports no solver, no array library and nothing that draws."""
    code = f"""
import sys
from arnold.commands.run import run
code = run(["--help"])
print("imported:", sorted(set({HEAVY!r}) & set(sys.modules)))
sys.exit(code)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "imported: []"


@pytest.mark.parametrize("package", ["topology.cluster", "scheduler.job", "scheduler.objective", "scheduler.outcome"])
def test_shared_types_need_no_solver(package: str) -> None:
    """What every module imports brings no solver and nothing that draws along."""
    code = f"""
import sys
import {package}
print(sorted({{"ortools", "matplotlib", "networkx", "jinja2", "pandas"}} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("name", ALGORITHMS.names())
def test_algorithm_satisfies_the_protocol(name: str) -> None:
    """Every entry point loads, carries its own name, sums itself up in a line and takes what the Protocol says."""
    algorithm = ALGORITHMS.load(name)
    assert algorithm.name == name
    assert algorithm.summary.strip()
    assert "\n" not in algorithm.summary
    assert list(signature(algorithm.place).parameters) == list(signature(PlacementAlgorithm.place).parameters)[1:]


@pytest.mark.parametrize("name", ALGORITHMS.names())
def test_algorithm_places_a_small_job(name: str) -> None:
    """Every algorithm, each by its own rule, finds a valid place for 2 x 2 cells on 2 empty minipods of 4 nodes.

    Both minipods hold the whole job, so that even an algorithm that keeps a job in one domain places it.
    """
    cluster = minipods(minipods=2, nodes=8)
    job = Job("small", Parallelism(tp=8, dp=2, pp=2))
    outcome = run(ALGORITHMS.load(name), cluster, job, Limits(seconds=60.0, workers=1))
    assert outcome.status in ("optimal", "feasible")
    assert outcome.evaluation is not None
    # One minipod holds all four cells, so every spread lies between 1 and the 2 minipods there are.
    assert 1 <= outcome.evaluation.dp <= 2
    assert 1 <= outcome.evaluation.pp <= 2
