"""The launchers themselves read what is written for them: each rank comes to the node that it was placed on.

``make launchers`` runs these tests, ``make test`` does not.  A program that is not installed skips its own: Debian and
Ubuntu have ``openmpi-bin``, ``slurmctld``, ``slurmd`` and ``slurm-client``.  torchrun, which comes with PyTorch, is
looked for on PATH.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from arnold.options import placement_outputs
from tests.ports import free_port
from tests.real_slurm import Install, RealSlurm, real_slurm

Arnold = Callable[..., Any]

pytestmark = [pytest.mark.launchers, pytest.mark.xdist_group("launchers")]  # one Slurm, started once, by one worker

PAGE = Path(__file__).parents[3] / "docs" / "tutorial" / "first-placement.md"

GPUS = 2
NODES = ("n01", "n03", "n02", "n04")
"""Nodes by node rank: a stage of two replicas lies in one minipod, and names go from one minipod to the other."""

DEADLINE = 60.0  # Seconds until programs that are started must answer; bounds a failure, measures nothing

MPIRUN = shutil.which("mpirun")


@pytest.fixture
def files(arnold: Arnold, tmp_path: Path) -> Path:
    """A folder with the same placement in every format."""
    cluster, job = tmp_path / "cluster.csv", tmp_path / "job.yaml"
    rows = [f"n0{i},mp{i % 2},{GPUS}" for i in range(1, 5)]
    cluster.write_text("\n".join(["node,minipod,gpus", *rows]) + "\n")
    job.write_text(f"gpus_per_node: {GPUS}\nparallelism: {{tp: {GPUS}, dp: 2, pp: 2}}\nalpha: 0.7\n")
    kinds = ("hostfile", "rankfile", "nodelist", "slurm", "torchrun", "mpi")
    outputs = [word for kind in kinds for word in ("--output", tmp_path / f"job.{kind}")]
    assert arnold("place", "--cluster", cluster, "--job", job, *outputs).code == 0
    assert tuple((tmp_path / "job.hostfile").read_text().splitlines()) == NODES
    return tmp_path


EACH_GPU = {rank: NODES[rank // GPUS] for rank in range(GPUS * len(NODES))}
EACH_NODE = dict(enumerate(NODES))

# --- Open MPI


def mpi_version() -> int:
    """First number of the version of Open MPI; 0 = there is none, or it is another MPI."""
    if MPIRUN is None:
        return 0
    said = subprocess.run([MPIRUN, "--version"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"\(Open MPI\) (\d+)", said)
    return int(found[1]) if found else 0


def cores() -> int:
    """Cores of the first socket of this machine."""
    found = set()
    for topology in Path("/sys/devices/system/cpu").glob("cpu[0-9]*/topology"):
        if (topology / "physical_package_id").read_text().strip() == "0":
            found.add((topology / "core_id").read_text())
    return len(found)


AS_ROOT = {
    f"{system}_ALLOW_RUN_AS_ROOT{end}": "1" for system in ("OMPI", "PRTE") for end in ("", "_CONFIRM")
}  # in a container the tests may be root's; only `echo` is run


def where_ranks_ran(files: Path, *options: object) -> dict[int, str]:
    """Start a process for each rank with Open MPI 4, and see where; nodes are folders of this machine, reached without
    a network: instead of ssh a script runs the command.
    """
    agent = files / "agent"
    # each node has its own place for temporary files, as the nodes of a cluster do
    agent.write_text(f'#!/bin/sh\nexport NODE="$1" TMPDIR="{files}/$1"; mkdir -p "$TMPDIR"; shift; exec sh -c "$*"\n')
    agent.chmod(0o755)
    network = ("--mca", "plm_rsh_agent", agent, "--mca", "oob_tcp_if_include", "lo")
    done = subprocess.run(
        ["mpirun", *map(str, (*network, *options)), "sh", "-c", "echo $OMPI_COMM_WORLD_RANK $NODE"],
        env=os.environ | AS_ROOT | {"TMPDIR": str(files)},
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return {int(rank): node for rank, node in map(str.split, done.stdout.splitlines())}


def mapped(files: Path, how: str) -> dict[int, str]:
    """Where Open MPI 5 would start each rank; nodes are taken to have sixteen cores, and nothing is started."""
    options = ("--hostfile", "job.hostfile", "--map-by", how, "--bind-to", "none")
    done = subprocess.run(
        ["mpirun", *options, "--do-not-launch", "--display", "map", "true"],
        env=os.environ | AS_ROOT | {"TMPDIR": str(files), "HWLOC_SYNTHETIC": "package:2 core:8 pu:1"},
        cwd=files,  # 5.0.11 takes a path with the letters "pe" for its directive PE, so files have short names here
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE,
    )
    assert "JOB MAP" in done.stdout, done.stdout + done.stderr
    found = {}
    for part in done.stdout.split("Data for node: ")[1:]:
        node = part.split()[0]
        found |= {int(rank): node for rank in re.findall(r"Data for proc: \[[^,\]]*,(\d+)\]", part)}
    return found


@pytest.mark.skipif(mpi_version() != 4, reason="no mpirun of Open MPI 4 here")
@pytest.mark.skipif(cores() < GPUS, reason=f"this machine has less than {GPUS} cores")
@pytest.mark.parametrize(("kind", "expected"), [("mpi", EACH_GPU), ("rankfile", EACH_NODE)])
def test_open_mpi_4_starts_ranks_where_the_rankfile_says(files: Path, kind: str, expected: dict[int, str]) -> None:
    """The rankfile alone is enough: it names the nodes, too."""
    assert where_ranks_ran(files, "--rankfile", files / f"job.{kind}") == expected


@pytest.mark.skipif(mpi_version() != 4, reason="no mpirun of Open MPI 4 here")
@pytest.mark.skipif(cores() < GPUS, reason=f"this machine has less than {GPUS} cores")
def test_open_mpi_4_keeps_the_order_of_the_hostfile(files: Path) -> None:
    """Without a rankfile, a number of processes for each node of the hostfile comes out in rank order as well."""
    how = ("--map-by", f"ppr:{GPUS}:node", "--bind-to", "none")
    assert where_ranks_ran(files, "--hostfile", files / "job.hostfile", *how) == EACH_GPU


@pytest.mark.skipif(mpi_version() < 5, reason="no mpirun of Open MPI 5 or later here")
@pytest.mark.parametrize(("kind", "expected"), [("mpi", EACH_GPU), ("rankfile", EACH_NODE)])
def test_open_mpi_5_maps_ranks_as_the_rankfile_says(files: Path, kind: str, expected: dict[int, str]) -> None:
    """The hostfile names the nodes, the rankfile the ranks on each."""
    assert mapped(files, f"rankfile:file=job.{kind}") == expected


@pytest.mark.skipif(mpi_version() < 5, reason="no mpirun of Open MPI 5 or later here")
def test_open_mpi_5_keeps_the_order_of_the_hostfile(files: Path) -> None:
    """As Open MPI 4 does."""
    assert mapped(files, f"ppr:{GPUS}:node") == EACH_GPU


# --- Slurm


@pytest.fixture(scope="module")
def real(install: Install, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealSlurm]:
    """A Slurm of four nodes of two GPUs, of each version that is found here."""
    topology = "SwitchName=mp1 Nodes=n0[1,3]\nSwitchName=mp0 Nodes=n0[2,4]\nSwitchName=top Switches=mp[0-1]\n"
    shared, folder = tmp_path_factory.getbasetemp(), tmp_path_factory.mktemp("slurm")
    with real_slurm(install, folder, NODES, topology, gpus=GPUS, shared=shared) as started:
        yield started


@pytest.fixture
def slurm(real: RealSlurm, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The environment that leads to it, which is also this process's."""
    for name in ("SLURM_CONF", "PATH"):
        monkeypatch.setenv(name, real.environment[name])
    return real.environment


def batch(files: Path, slurm: dict[str, str], *words: str) -> list[str]:
    """Submit to Slurm, wait for the end, and return the lines that were printed."""
    out, complaints = files / "out", files / "complaints"  # srun 24.11 has some of its own, and starts all the same
    done = subprocess.run(
        ["sbatch", "--wait", f"--output={out}", f"--error={complaints}", *words],
        cwd=files,
        env=slurm,
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE,
    )
    printed = out.read_text() if out.exists() else ""
    assert done.returncode == 0, done.stdout + done.stderr + printed + complaints.read_text()
    return printed.splitlines()


@pytest.mark.parametrize(("options", "expected"), [((), EACH_GPU), (("--ntasks=4", "--ntasks-per-node=1"), EACH_NODE)])
def test_slurm_lays_tasks_out_in_rank_order(
    files: Path, slurm: dict[str, str], options: tuple[str, ...], expected: dict[int, str]
) -> None:
    """The batch script as it is: one task a GPU, or one a node with the options that it names."""
    script = (files / "job.slurm").read_text()
    assert not options or f"sbatch {' '.join(options)} THIS_FILE" in script
    lines = batch(files, slurm, *options, "job.slurm", "sh", "-c", "echo $SLURM_PROCID $SLURMD_NODENAME")
    assert {int(rank): node for rank, node in map(str.split, lines)} == expected


def test_slurm_tasks_take_their_lines_of_the_torchrun_file(files: Path, slurm: dict[str, str]) -> None:
    """The line of first-placement.md of the docs, with a torchrun that says where it is and what it is told."""
    (files / "torchrun").write_text('#!/bin/sh\necho "$SLURMD_NODENAME torchrun $*"\n')
    (files / "torchrun").chmod(0o755)
    page = PAGE.read_text(encoding="utf-8").splitlines()
    (line,) = [line for line in page if line.startswith("sbatch ") and "job.torchrun" in line]
    path = {"PATH": f"{files}{os.pathsep}{slurm['PATH']}"}
    ran = batch(files, slurm | path, *shlex.split(line)[1:])
    wanted = (files / "job.torchrun").read_text().splitlines()
    assert sorted(ran) == sorted(f"{one} train.py" for one in wanted)


def test_a_live_slurm_is_a_cluster(arnold: Arnold, files: Path, slurm: dict[str, str]) -> None:
    """Slurm says its topology, the GPUs and states of its nodes: the job lies as on the cluster file, and not at all
    once a node is drained, as it takes all four.
    """
    command = ("place", "--cluster", "slurm:", "--job", files / "job.yaml", "--json")
    found = arnold(*command).json
    assert [cell["node"] for cell in sorted(found["assignment"], key=lambda cell: cell["node_rank"])] == [*NODES]
    assert found["cluster"]["free"] == len(NODES)
    try:
        subprocess.run(["scontrol", "update", "NodeName=n03", "State=DRAIN", "Reason=fan"], env=slurm, check=True)
        assert (arnold(*command).code, arnold(*command).json["status"]) == (3, "infeasible")
    finally:
        subprocess.run(["scontrol", "update", "NodeName=n03", "State=RESUME"], env=slurm, check=True)


IDIOMS = {
    "a task a GPU": ("srun sh -c 'echo $SLURM_PROCID $SLURMD_NODENAME'", EACH_GPU),
    "a task a node": ("srun --ntasks-per-node=1 -n 4 sh -c 'echo $SLURM_PROCID $SLURMD_NODENAME'", EACH_NODE),
    "torchrun's rank of a node": ("srun -N 4 -n 4 sh -c 'echo $SLURM_NODEID $SLURMD_NODENAME'", EACH_NODE),
    "blocks of tasks": ("srun -m block sh -c 'echo $SLURM_PROCID $SLURMD_NODENAME'", EACH_GPU),
    # left alone: the ranks that Slurm says a node has, of which a task has that of its place there
    "half of the nodes": ("srun -N 2 -n 2 sh -c 'echo $SLURM_PROCID $SLURM_GTIDS $SLURM_LOCALID'", None),
    "the head alone": ("srun -N 1 -n 1 -w n03 sh -c 'echo $SLURM_PROCID $SLURMD_NODENAME'", {0: "n03"}),
    "an order of its own": (
        "srun -n 4 -m arbitrary -w n03,n01,n04,n02 sh -c 'echo $SLURM_PROCID $SLURM_GTIDS $SLURM_LOCALID'",
        None,
    ),
    "uneven tasks": ("srun -n 5 sh -c 'echo $SLURM_PROCID $SLURM_GTIDS $SLURM_LOCALID'", None),
}


@pytest.fixture
def on_slurm(arnold: Arnold, real: RealSlurm, slurm: dict[str, str]) -> Arnold:
    """Arnold, led to that Slurm once all its nodes are idle."""
    real.wait_for(len(NODES))
    return arnold


@pytest.mark.parametrize(("line", "expected"), IDIOMS.values(), ids=IDIOMS)
def test_slurm_submit_puts_ranks_where_they_were_planned(
    on_slurm: Arnold, tmp_path: Path, line: str, expected: dict[int, str] | None
) -> None:
    """The user's script as it is; what the order cannot be right for keeps the ranks of Slurm, each once."""
    script = tmp_path / "train.sh"
    script.write_text(f"#!/bin/bash\n#SBATCH --ntasks-per-node={GPUS} -o {tmp_path}/out -e {tmp_path}/err\n{line}\n")
    ran = on_slurm("slurm", "submit", "--grid", "tp=2,dp=2,pp=2,alpha=0.7", "--parsable", "--wait", script)
    assert (ran.code, ran.out.strip().isdecimal()) == (0, True), ran.err
    assert "DP spread 1, PP spread 2" in ran.err
    rows = [row.split() for row in (tmp_path / "out").read_text().splitlines()]
    assert sorted(int(rank) for rank, *_ in rows) == [*range(len(rows))]
    if expected is None:
        assert all(rank == of_node.split(",")[int(place)] for rank, of_node, place in rows)
    else:
        assert {int(rank): node for rank, node in rows} == expected
    hosts = on_slurm("slurm", "order", ran.out.strip()).out.split()
    assert hosts == [*EACH_GPU.values()]


def test_slurm_order_of_a_job_that_slurm_does_not_know(on_slurm: Arnold) -> None:
    """The number is named, not the controller, which answers."""
    ran = on_slurm("slurm", "order", "987654")
    assert (ran.code, "no job 987654" in ran.err, "squeue" in ran.err, "slurmctld" in ran.err) == (2, True, True, False)


def test_slurm_submit_of_what_does_not_fit(on_slurm: Arnold, tmp_path: Path, slurm: dict[str, str]) -> None:
    """Five nodes are wanted of four, or one that is chosen already: nothing is submitted; nor by a trial."""
    script = tmp_path / "train.sh"
    script.write_text("#!/bin/bash\ntrue\n")
    assert on_slurm("slurm", "submit", "--grid", "tp=2,dp=5", script).code == 3
    assert on_slurm("slurm", "submit", "--grid", "tp=2,dp=4", "--test-only", script).code == 0
    assert on_slurm("slurm", "submit", "--grid", "tp=2,dp=4", "-w", "n01", script).code == 2
    queue = subprocess.run(["squeue", "-h"], env=slurm, capture_output=True, text=True, check=True).stdout
    assert queue == ""


@pytest.mark.parametrize("words", [("-p", "all", "--quiet"), ("-QW",), ("--",)], ids=" ".join)
def test_slurm_submit_leaves_an_order_whatever_is_printed(
    on_slurm: Arnold, tmp_path: Path, words: tuple[str, ...], slurm: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even the number of the job; where sbatch is to wait by the environment, the order comes before the end."""
    monkeypatch.setenv("SBATCH_WAIT", "1")
    script, orders = tmp_path / "train.sh", Path(slurm["SLURM_CONF"]).parent / "share" / "orders"
    script.write_text("#!/bin/bash\n#SBATCH -o /dev/null\ntrue\n")
    before = {*orders.iterdir()}
    ran = on_slurm("slurm", "submit", "--grid", "tp=2,dp=2,pp=2,alpha=0.7", *words, script)
    assert (ran.code, ran.out.startswith("Submitted batch job ")) == (0, words == ("--",)), ran.err
    (order,) = {*orders.iterdir()} - before
    assert tuple(order.read_text().split()) == NODES


# --- torchrun

TORCHRUN = shutil.which("torchrun")
MEETING = 180.0  # Seconds for the nodes to meet and end: each imports PyTorch first, all on this machine; as DEADLINE

SEEN = """\
import os, sys
words = map(os.environ.__getitem__, ("NODE", "GROUP_RANK", "RANK", "LOCAL_RANK", "WORLD_SIZE"))
sys.stdout.write(" ".join(words) + "\\n")
"""  # torchrun runs it unbuffered, and in one piece a line stays a line beside those of other ranks


def test_torchrun_takes_every_line(files: Path) -> None:
    """The parser of torchrun itself understands the options, and no more is left than the training script."""
    run = pytest.importorskip("torch.distributed.run", reason="PyTorch is not installed")
    for rank, line in enumerate((files / "job.torchrun").read_text().splitlines()):
        node, program, *options = shlex.split(line)
        parsed = run.parse_args([*options, "train.py"])
        assert (node, program, parsed.node_rank) == (NODES[rank], "torchrun", rank)
        assert (parsed.nnodes, parsed.nproc_per_node) == (str(len(NODES)), str(GPUS))
        assert (parsed.rdzv_backend, parsed.master_addr, parsed.master_port) == ("static", NODES[0], 29500)
        assert (parsed.training_script, parsed.training_script_args) == ("train.py", [])


@pytest.mark.skipif(TORCHRUN is None, reason="no torchrun on PATH")
@pytest.mark.parametrize(
    ("gpus", "parallelism", "nodes"),
    [
        # as NODES above: a stage of two replicas lies in one minipod
        (2, "{tp: 2, dp: 2, pp: 2}", ("127.0.0.1", "127.0.0.3", "127.0.0.2", "127.0.0.4")),
        # six ranks fill one node of four GPUs, and the next half; both lie in one minipod
        (4, "{tp: 2, dp: 3}", ("127.0.0.1", "127.0.0.3")),
    ],
)
def test_torchrun_starts_ranks_where_the_lines_say(
    arnold: Arnold,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    gpus: int,
    parallelism: str,
    nodes: tuple[str, ...],
) -> None:
    """Each line runs as it is written, the last first; nodes are addresses of the loopback, which all lead here, so the
    first of them is where the others meet.
    """
    monkeypatch.setattr(placement_outputs, "MASTER_PORT", free_port())
    cluster, job, train = tmp_path / "cluster.csv", tmp_path / "job.yaml", tmp_path / "train.py"
    rows = [f"127.0.0.{i},mp{i % 2},{gpus}" for i in range(1, 5)]
    cluster.write_text("\n".join(["node,minipod,gpus", *rows]) + "\n")
    job.write_text(f"gpus_per_node: {gpus}\nparallelism: {parallelism}\nalpha: 0.7\n")
    train.write_text(SEEN)
    assert arnold("place", "--cluster", cluster, "--job", job, "--output", tmp_path / "job.torchrun").code == 0
    lines = [shlex.split(line) for line in (tmp_path / "job.torchrun").read_text().splitlines()]
    started = [
        subprocess.Popen(
            [*command, str(train)],
            env=os.environ | {"NODE": node, "OMP_NUM_THREADS": "1"},
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for node, *command in reversed(lines)
    ]
    try:
        ends = [one.communicate(timeout=MEETING) for one in started]
    finally:
        for one in started:
            one.kill()
    assert [one.returncode for one in started] == [0] * len(nodes), ends
    seen = sorted((line.split() for out, _ in ends for line in out.splitlines()), key=lambda words: int(words[2]))
    degrees = yaml.safe_load(parallelism)
    world = degrees["tp"] * degrees["dp"] * degrees.get("pp", 1)
    wanted = [(nodes[rank // gpus], rank // gpus, rank, rank % gpus, world) for rank in range(world)]
    assert seen == [[str(word) for word in words] for words in wanted]
