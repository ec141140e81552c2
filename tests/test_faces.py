"""Each package has one face, the stub of its ``__init__``: programs import from it, and nothing else."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import datetime
from importlib import import_module
from math import nan
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

from extender import ServeOptions
from ground.faces import face_names
from health import ComparisonSettings, TriggerSettings, restart_seconds, standby_pool
from scheduler import (
    ALGORITHMS,
    ArnoldError,
    Count,
    DataSet,
    Hold,
    Instance,
    Job,
    LevelWeight,
    Limits,
    Parallelism,
    load,
    place,
    place_together,
    verify,
)
from scheduler.job import Speed
from simulator import (
    DataCache,
    DataPlan,
    GrowQuestion,
    JobRecord,
    JobTrace,
    ReplaySettings,
    StoredData,
    prepare,
    replay_trace,
)
from topology import Node, NodeFlag, build_cluster, fold_hostlist, load_topology, with_second_levels

ROOT = Path(__file__).parents[1]
FACES = ("topology", "scheduler", "simulator", "health", "extender", "slurm", "arnold")
EXACT = ALGORITHMS.load("exact")


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


def small() -> Instance:
    """Return eight nodes in two minipods, and a job for half of them."""
    nodes = [Node(f"n{i}", (f"mp{i // 4}",), gpus=8, free_gpus=8) for i in range(8)]
    return Instance(build_cluster(["minipod"], nodes), Job("small", Parallelism(tp=8, pp=2, dp=2)))


MISTAKES: tuple[tuple[Callable[[], object], str], ...] = (
    (lambda: Limits(seconds=-1), "seconds"),
    (lambda: Limits(seconds=nan), "seconds"),
    (lambda: Limits(seconds="5"), "seconds"),  # type: ignore[arg-type]
    (lambda: Limits(workers=0), "workers"),
    (lambda: Limits(seed=1.5), "seed"),  # type: ignore[arg-type]
    (lambda: Limits(told="all"), "told"),  # type: ignore[arg-type]
    (lambda: place(small(), limits=5), "limits"),  # type: ignore[arg-type]
    (lambda: place(small(), algorithm=5), "algorithm"),  # type: ignore[arg-type]
    (lambda: place(None), "instance"),  # type: ignore[arg-type]
    (lambda: load("cluster.csv", "job.yaml", busy="busy"), "busy"),
    (lambda: load("cluster.csv", "job.yaml", flags=Path("flags")), "flags"),  # type: ignore[arg-type]
    (lambda: load(small().cluster, "job.yaml"), "cluster"),  # type: ignore[arg-type]
    (lambda: load_topology("cluster.csv", busy="busy"), "busy"),
    (lambda: load_topology("cluster.csv", level_names="mp"), "level_names"),
    (lambda: build_cluster("mp", [Node("n", ("a", "b"), 8, 8)]), "level_names"),
    (lambda: build_cluster(["minipod"], [Node("n", "a", 8, 8)]), "nodes[0].path"),  # type: ignore[arg-type]
    (lambda: build_cluster(["minipod"], iter([Node("n", ("a",), 8.5, 8)])), "nodes[0].gpus"),  # type: ignore[arg-type]
    (lambda: build_cluster(["minipod"], [Node("n", ("a",), 8, 8, slowdown=nan)]), "nodes[0].slowdown"),
    (lambda: build_cluster(["minipod"], [Node("n", ("a",), 8, 8, slowdown=0.5)]), ""),
    (lambda: build_cluster(["minipod"], iter([("n", ("a",), 8, 8)])), "nodes[0]"),  # type: ignore[list-item]
    (lambda: with_second_levels(small().cluster, {"@power": ["a", "b"]}), "domains"),
    (lambda: with_second_levels(small().cluster, {"@power": "aabbaabb"}), "domains"),
    (lambda: fold_hostlist("n1"), "names"),
    (lambda: Parallelism(tp="8"), "parallelism.tp"),  # type: ignore[arg-type]
    (lambda: Parallelism(dp=2.5), "parallelism.dp"),  # type: ignore[arg-type]
    (lambda: Job("j", Parallelism(), gpus_per_node=0), "gpus_per_node"),
    (lambda: Job("j", Parallelism(), gpu_types="H100"), "gpu_types"),  # type: ignore[arg-type]
    (lambda: Job("j", Parallelism(), gpu_types=[]), "gpu_types"),  # type: ignore[arg-type]
    (lambda: Job("j", Parallelism(), avoid="never"), "avoid"),  # type: ignore[arg-type]
    (lambda: Job("j", Parallelism(), microbatches=-1), "microbatches"),
    (lambda: Job("j", Parallelism(), expected_hours=nan), "expected_hours"),
    (lambda: Job("j", Parallelism(), counts=(Count("dp", "rack", -1.0),)), "counts.weight"),
    (lambda: Job("j", Parallelism(), levels=(LevelWeight("rack", nan),)), "levels.weight"),
    (lambda: Job("j", Parallelism(), holds=Hold("dp", "rack")), "holds"),  # type: ignore[arg-type]
    (lambda: Job("j", Parallelism(), data_sets=(DataSet("d", -1.0),)), "data_sets.size"),
    (lambda: place_together(small().cluster, [small().job], [-1.0], solver=EXACT, limits=Limits()), "weights"),
    (lambda: place_together(small().cluster, [small().job] * 2, [1.0], solver=EXACT, limits=Limits()), "weights"),
    (lambda: place_together(small().cluster, [], [], solver=EXACT, limits=Limits()), "weights"),
    (lambda: ReplaySettings(failures="rsc-1"), "failures"),  # type: ignore[arg-type]
    (lambda: ReplaySettings(weights="a=1"), "weights"),  # type: ignore[arg-type]
    (lambda: ReplaySettings(share_by="team"), "share_by"),  # type: ignore[arg-type]
    (lambda: ReplaySettings(placement_seconds=0.0), "placement_seconds"),
    (lambda: ReplaySettings(resume_seconds=nan), "resume_seconds"),
    (lambda: ReplaySettings(flags="n1"), "flags"),  # type: ignore[arg-type]
    (lambda: ReplaySettings(data=DataPlan({"d": StoredData(*[-1.0] * 8)}, DataCache(1e9))), "data.data_sets.samples"),
    (lambda: replay_trace("jobs.csv", "cluster.csv", "fifo"), "settings"),  # type: ignore[arg-type]
    (lambda: prepare(JobTrace((JobRecord("j", 0.0, -1.0, 8.0),)), small().cluster, ReplaySettings()), ""),
    (lambda: TriggerSettings(window=-1.0), "window"),
    (lambda: ComparisonSettings(window=0), "window"),
    (lambda: standby_pool("9"), "machines"),  # type: ignore[arg-type]
    (lambda: restart_seconds(0, "requeue"), "machines"),
    (lambda: restart_seconds(128, "reboot"), "kind"),  # type: ignore[arg-type]
    (lambda: NodeFlag("n1", slowdown="2"), "slowdown"),  # type: ignore[arg-type]
    (lambda: NodeFlag("n1", slowdown=1.2, probability=-1.0), "probability"),
    (lambda: NodeFlag("n1", slowdown=1.2, since=datetime(2027, 1, 1)), "since"),
    (lambda: load_topology("cluster.csv", now=datetime(2027, 1, 1)), "now"),
    (lambda: GrowQuestion(cluster="cluster.csv"), "cluster"),
    (lambda: verify(None, small().cluster, small().job), "certificate"),  # type: ignore[arg-type]
    (lambda: ServeOptions(workers=-1), "workers"),
    (lambda: ServeOptions(preemption="maybe"), "preemption"),  # type: ignore[arg-type]
)


@pytest.mark.parametrize(("ask", "place"), [pytest.param(*case, id=str(i)) for i, case in enumerate(MISTAKES)])
def test_what_no_argument_may_be_is_refused(ask: Callable[[], object], place: str) -> None:
    """Other types, numbers that are none or out of bounds, a text for a list: an error with the name and a remedy, and
    never an answer.
    """
    with pytest.raises(ArnoldError) as caught:
        ask()
    assert caught.value.where == place
    assert caught.value.fix


def test_what_works_as_well_is_taken(tmp_path: Path) -> None:
    """Any path that the system takes, columns of tables, numbers of NumPy, and somebody's own classes."""

    class Linked(os.PathLike[str]):
        def __init__(self, file: Path) -> None:
            self.file = file

        def __fspath__(self) -> str:
            return str(self.file)

    cluster, job = tmp_path / "cluster.csv", tmp_path / "job.yaml"
    cluster.write_text("node,minipod,gpus\nn0,a,8\nn1,b,8\n")
    job.write_text("name: two\nparallelism: {tp: 8, dp: 2}\n")
    read = load(Linked(cluster), Linked(job))  # type: ignore[arg-type]
    assert (read.source, read.job.name) == (str(cluster), "two")
    powered = with_second_levels(read.cluster, {"@power": np.array(["x", "y"])})  # type: ignore[dict-item]
    assert powered.second_levels[0].domains == ("x", "y")
    assert read.job.replace(speed=(Speed("H100", np.float32(0.5)),)).speed[0].factor == 0.5
    assert GrowQuestion(cluster=Mock()).cluster
