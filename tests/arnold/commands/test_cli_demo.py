"""What `arnold demo` saves and checks; what it shows is tested with `arnold explain` and `compare`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from arnold.demonstration import LARGEST, SLOW, SLOWDOWN, demo_files, demo_instance
from ground.files import Source
from scheduler.job_files.job_file import load_job
from simulator.traces import read_trace
from tests.conftest import Arnold
from tests.facts import says
from topology.load import load_topology

FILES = {
    *("cluster.csv", "topology.conf", "nodes.txt", "nodes.json"),
    *("job.yaml", "a.yaml", "b.yaml", "new.yaml"),
    *("trace.parquet", "meta.yaml", "workers.csv", "train.log", "train.yaml", "steps.csv", "metrics.parquet"),
    *("jobs.csv", "jobs.log", "mine.csv"),
}


@pytest.fixture
def quick(fakes: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The demo with one algorithm that takes no time; its cluster, job and files are the real ones."""
    monkeypatch.setattr("scheduler.placement.types.ALGORITHMS.names", lambda **_: ("first",))


@pytest.fixture
def crashing(fakes: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The demo with an algorithm that must not be reached."""
    monkeypatch.setattr("scheduler.placement.types.ALGORITHMS.names", lambda **_: ("crash",))


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that is the current one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def contents(folder: Path) -> Mapping[str, bytes]:
    """Every file of a folder."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_saved_files_are_what_was_placed(arnold: Arnold, quick: None, tmp_path: Path) -> None:
    """The cluster and the job read back are those of the demo; all files are there and named, the two first."""
    folder = tmp_path / "a folder" / "deep"
    ran = arnold("demo", "--html", folder / "page.html", "--save", folder, "--json")
    assert ran.code == 0, ran.err
    assert set(contents(folder)) == {*FILES, "page.html"}
    assert [Path(file) for file in ran.json["files"][:2]] == [folder / "cluster.csv", folder / "job.yaml"]
    cluster, job = demo_instance(0)
    read = load_topology(folder / "cluster.csv").cluster
    assert read.names == cluster.names
    assert (read.free_gpus == cluster.free_gpus).all()
    assert (read.slowdown == cluster.slowdown).all()
    written = load_job(Source("job.yaml", (folder / "job.yaml").read_text())).job
    # The file names the level that the demo takes by default.
    assert written == job.replace(level="minipod")


def test_what_only_saved_files_need_is_not_imported_for_the_page() -> None:
    """The traces of a job and of many jobs are written by --save alone: the command starts without their modules."""
    code = "import sys; from arnold import demonstration as demo; demo.demo_instance(0); print(*sys.modules, sep='\\n')"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    rooms = {module.partition(".")[0] for module in out.splitlines()}
    assert "topology" in rooms
    assert not {"simulator", "health"} & rooms


def test_saving_again_changes_nothing(arnold: Arnold, quick: None, tmp_path: Path) -> None:
    """The same seed, the same bytes: a second run finds its own files and goes on, also where one was taken away."""
    folder = tmp_path / "demo"
    call = ("demo", "--html", tmp_path / "page.html", "--save", folder)
    assert arnold(*call).code == 0
    before = contents(folder)
    (folder / "jobs.csv").unlink()
    assert arnold(*call).code == 0
    assert contents(folder) == before


def test_files_of_the_user_stay(arnold: Arnold, crashing: None, tmp_path: Path) -> None:
    """A file of that name with other content is an error before any algorithm runs; nothing is written."""
    (tmp_path / "job.yaml").write_text("name: mine\n")
    ran = arnold("demo", "--html", tmp_path / "page.html", "--save", tmp_path)
    assert ran.code == 2
    assert ran.err.startswith(f"Error: {tmp_path}: ")
    assert says(ran.err, "job.yaml", "To fix:", "--save")
    assert contents(tmp_path) == {"job.yaml": b"name: mine\n"}


IMPOSSIBLE = [
    # Nothing can be made below a file, whoever asks, nor written to a folder that is not there.
    (["--save", "file/demo"], "file/demo: cannot be used: Not a directory"),
    (["--save", "file"], "file: cannot be used: File exists"),
    (["--html", "missing/page.html"], "missing/page.html: cannot be written: No such file or directory"),
    (["--html", "file/page.html"], "file/page.html: cannot be written: Not a directory"),
    (["--html", "."], ".: cannot be written: Is a directory"),
    (["--html", "demo/job.yaml", "--save", "demo"], "demo/job.yaml: two results go to one file"),
]


@pytest.mark.parametrize(("options", "message"), IMPOSSIBLE, ids=lambda case: " ".join(case) if len(case) < 5 else None)
def test_what_cannot_be_written_is_said_first(
    arnold: Arnold, crashing: None, empty: Path, options: list[str], message: str
) -> None:
    """Before any algorithm runs; no file is left."""
    (empty / "file").write_text("")
    (empty / "demo").mkdir()
    ran = arnold("demo", *options)
    assert ran.code == 2
    assert ran.err.startswith(f"Error: {message}\nTo fix: ")
    assert [path for path in empty.rglob("*") if path.is_file()] == [empty / "file"]


@pytest.mark.parametrize("seed", [0, 7])
def test_traced_job_ran_where_the_job_would_go(seed: int) -> None:
    """Each worker on a node of its own, all healthy and idle, in the one domain that has most of these."""
    cluster, job = demo_instance(seed)
    rows = demo_files(cluster, job, seed)["workers.csv"].decode().splitlines()[1:]
    nodes = [row.split(",")[2] for row in rows]
    # 8 DP ranks x 4 stages.
    assert len(nodes) == len(set(nodes)) == 32
    places = [cluster.names.index(node) for node in nodes]
    healthy = cluster.idle & (cluster.slowdown == 1.0)
    assert healthy[places].all()
    minipods = cluster.level("minipod").domain_of
    (minipod,) = set(minipods[places].tolist())
    assert (minipods[healthy] == minipod).sum() == max((minipods[healthy] == one).sum() for one in range(22))


def test_the_slow_node_is_found_and_left_alone(arnold: Arnold, quick: None, tmp_path: Path) -> None:
    """The story of the files: one slow worker explains the loss, its node is flagged, and placement avoids it."""
    folder = tmp_path / "demo"
    arnold("demo", "--html", tmp_path / "page.html", "--save", folder)
    at = {name: folder / name for name in (*FILES, "flags.yaml")}
    found = arnold(
        "stragglers", at["trace.parquet"], "--meta", at["meta.yaml"], "--node-map", at["workers.csv"],
        "--flags-out", at["flags.yaml"], "--json",
    )  # fmt: skip
    assert found.code == 0, found.err
    rows = [row.split(",") for row in at["workers.csv"].read_text().splitlines()[1:]]
    (slow,) = [node for rank, stage, node in rows if (int(rank), int(stage)) == SLOW]
    (flag,) = found.json["flags"]
    assert flag["node"] == slow
    # Durations have a noise of 1 %.
    assert flag["slowdown"] == pytest.approx(SLOWDOWN, rel=0.01)
    inputs = ("--cluster", at["cluster.csv"], "--job", at["job.yaml"], "--json")
    before = arnold("place", *inputs, "--algorithm", "best-fit").json
    after = arnold("place", *inputs, "--flags", at["flags.yaml"]).json
    assert slow in {cell["node"] for cell in before["assignment"]}
    assert slow not in {cell["node"] for cell in after["assignment"]}
    assert after["status"] == "optimal"


def test_trace_of_jobs_fits_the_cluster(tmp_path: Path) -> None:
    """It is read as a trace, no job is larger than the largest wanted, and all together ask for more than is free.

    About 100 jobs in 6 hours: enough to wait for each other, few enough to be replayed in seconds.
    """
    cluster, job = demo_instance(0)
    file = tmp_path / "jobs.csv"
    file.write_bytes(demo_files(cluster, job, 0)["jobs.csv"])
    trace = read_trace(file)
    assert 50 <= len(trace.records) <= 200
    assert max(job.gpus for job in trace.records) <= LARGEST
    assert max(job.submit for job in trace.records) <= 6 * 3600
    assert sum(job.gpus for job in trace.records) > cluster.gpus[cluster.idle].sum()


@pytest.mark.parametrize("on_path", [True, False], ids=["on the PATH", "not on the PATH"])
def test_the_demo_names_itself_as_it_can_be_called(tmp_path: Path, on_path: bool) -> None:
    """At the end of `make demo` no arnold is on the PATH: it names the path of its script, and how to put it there.

    The demo's last lines alone are called: its algorithms take half a minute.
    """
    scripts = tmp_path / ".venv" / "bin"
    scripts.mkdir(parents=True)
    (scripts / "activate").write_text("")
    script = scripts / "arnold"
    script.write_text(
        f"#!{sys.executable}\n"
        "from arnold.commands.demo import _print_what_next\n"
        "from arnold.console.output import console\n"
        "_print_what_next(console(), [])\n"
        "_print_what_next(console(), ['a folder/cluster.csv', 'a folder/job.yaml', 'a folder/jobs.csv'])\n"
    )
    script.chmod(0o755)
    path = f"{scripts}{os.pathsep}{os.environ['PATH']}" if on_path else "/usr/bin:/bin"
    root = str(Path(__file__).parents[3])
    done = subprocess.run(
        [".venv/bin/arnold"], cwd=tmp_path, env=os.environ | {"PATH": path, "PYTHONPATH": root},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    name = "arnold" if on_path else ".venv/bin/arnold"
    assert f"To play with it: {name} demo --save FOLDER" in done.stdout
    assert f"Try: {name} explain --cluster 'a folder/cluster.csv' --job 'a folder/job.yaml'" in done.stdout
    assert ("To call it just arnold: . .venv/bin/activate" in done.stdout) is not on_path


def test_listings_of_slurm_and_kubernetes_are_the_same_cluster(tmp_path: Path) -> None:
    """Names, domains and what is free; flags of Kubernetes too, states of Slurm in the list beside its tree."""
    cluster, job = demo_instance(0)
    for name, content in demo_files(cluster, job, 0).items():
        (tmp_path / name).write_bytes(content)
    listed = load_topology(tmp_path / "nodes.json").cluster
    assert listed.names == cluster.names
    assert (listed.free_gpus == cluster.free_gpus).all()
    assert (listed.slowdown == cluster.slowdown).all()
    assert [len(level) for level in listed.levels] == [len(level) for level in cluster.levels]
    tree = load_topology(tmp_path / "topology.conf").cluster
    assert sorted(tree.names) == sorted(cluster.names)
    assert [len(level) for level in tree.levels] == [1, *(len(level) for level in cluster.levels)]
    states = [line.split()[1] for line in (tmp_path / "nodes.txt").read_text().splitlines()]
    assert states.count("alloc") == (cluster.free_gpus == 0).sum()
