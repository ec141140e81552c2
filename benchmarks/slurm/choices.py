"""Which nodes and ranks jobs get from a real Slurm and from Arnold on it, on a fragmented cluster.

One controller and 128 slurmd run on this machine: six minipods (24, 24, 24, 20, 20 and 16 nodes) in racks of four, or
eight blocks of 16; 57 nodes are busy.  Each job of the table starts for real, and each of its tasks says its rank and
its node, so that what counts is what happened, weighed by the one evaluator.  Ranks are numbered as Megatron-LM does
(dp before pp).  Then :func:`compare_rules` asks the real one for its choice on random states (``sbatch --test-only``),
and our re-implementation of its rule for the same.
"""

import os
import random
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep

import numpy as np

from arnold.commands.run import run as arnold
from benchmarks.report import section, table
from scheduler.algorithm_run import run
from scheduler.job import Job, Parallelism
from scheduler.objective import TOLERANCE, Evaluation, evaluate
from scheduler.placement.types import ALGORITHMS, Limits
from tests.real_slurm import Install, RealSlurm, installs, real_slurm
from topology.cluster import Cluster
from topology.load import load_topology
from topology.node_names import expand_hostlist, fold_hostlist

SHAPES = [
    *((4, 2), (8, 2), (4, 4), (6, 4), (3, 8), (14, 2), (7, 4), (8, 4), (16, 2), (11, 3)),
    *((9, 4), (6, 6), (13, 3), (10, 4), (5, 8), (20, 2), (12, 4), (24, 2), (16, 3), (14, 4)),
]
"""Data- and pipeline-parallel degrees of the jobs; each cell of the grid is a node of eight GPUs (tp 8)."""
ALPHAS = (0.3, 0.5, 0.7)
PODS, RACK, BLOCK = (24, 24, 24, 20, 20, 16), 4, 16
NODES = tuple(f"n{i:04d}" for i in range(1, sum(PODS) + 1))
BUSY = 57
GPUS = 8
BLOCKS_SINCE = (24, 5)  # the Slurm from which on topology/block has segments
ANY_BLOCKS_SINCE = (26, 5)  # and from which on it takes a list of nodes of several blocks
LONGEST = 240.0  # seconds for a job of one line to start and end; bounds a failure
WAITS = 4.0  # seconds after which a job for which Slurm names a reason waits for it
SAY = "#!/bin/bash\nsrun sh -c 'echo $SLURM_PROCID $SLURMD_NODENAME'\n"


@dataclass(frozen=True)
class Way:
    """A way in which Slurm chooses nodes, and our rule for it."""

    name: str
    plugin: str
    rule: str
    segment: str = ""  # pp or dp: the nodes of a segment are those of one group of that kind

    def options(self, dp: int, pp: int) -> list[str]:
        """The options of sbatch."""
        return [f"--segment={dp if self.segment == 'dp' else pp}"] if self.segment else []


WAYS = (
    Way("topology/tree", "tree", "slurm-tree"),
    Way("topology/block", "block", "slurm-block"),
    Way("block, `--segment=PP`", "block", "slurm-segment-p", "pp"),
    Way("block, `--segment=DP`", "block", "slurm-segment-d", "dp"),
)


@dataclass(frozen=True)
class Measured:
    """One shape, started in one way of Slurm's and by Arnold; no nodes = it waits."""

    way: Way
    shape: tuple[int, int]
    slurm: dict[float, Evaluation]  # by alpha, of the same nodes and ranks
    free: dict[float, Evaluation]  # Arnold's, ranks as it numbers them
    in_order: dict[float, Evaluation]  # Arnold's best for ranks in the order of names
    same: bool  # whether our rule chose the same nodes, or refused the job too


def topology(plugin: str) -> str:
    """Return the topology.conf of the cluster."""
    if plugin == "block":
        blocks = [f"BlockName=b{i // BLOCK:02d} Nodes={_span(i, BLOCK)}" for i in range(0, len(NODES), BLOCK)]
        return "\n".join([*blocks, f"BlockSizes={BLOCK}", ""])
    lines, begin = [], 0
    for number, size in enumerate(PODS):
        racks = range(begin, begin + size, RACK)
        lines += [f"SwitchName=r{i:03d} Nodes={_span(i, RACK)}" for i in racks]
        lines.append(f"SwitchName=mp{number} Switches={','.join(f'r{i:03d}' for i in racks)}")
        begin += size
    return "\n".join([*lines, f"SwitchName=core Switches=mp[0-{len(PODS) - 1}]", ""])


def _span(begin: int, size: int) -> str:
    return fold_hostlist(NODES[begin : begin + size])


def some_busy(seed: int, share: float = BUSY / len(NODES)) -> list[str]:
    """Return the busy nodes of a state."""
    return sorted(random.Random(seed).sample(NODES, round(share * len(NODES))))


@dataclass(frozen=True)
class Stage:
    """A Slurm with busy nodes, and the cluster that Arnold sees in it."""

    slurm: RealSlurm
    folder: Path
    single: tuple[str, ...]  # options of sbatch by which a list of nodes may be of any blocks

    def cluster(self) -> Cluster:
        """Return what Slurm says of itself."""
        say = self.slurm.run
        (self.folder / "topology.conf").write_text(say("scontrol", "show", "topology"))
        (self.folder / "nodes.txt").write_text(say("scontrol", "show", "nodes", "--all", "--oneliner"))
        return load_topology(self.folder / "topology.conf", busy=[self.folder / "nodes.txt"]).cluster

    def started(self, cells: int, options: Sequence[str]) -> list[str] | None:
        """Submit a job of a task a node, and return its nodes by rank; ``None`` = Slurm lets it wait."""
        submit = ["sbatch", "--parsable", f"--nodes={cells}", *self._common(), *options, self.folder / "job.sh"]
        done = self.slurm.tried(*submit)
        return self._ranks(done.stdout.strip(), cells) if done.returncode == 0 else None

    def arnold(self, dp: int, pp: int, alpha: float, *, free: bool) -> list[str]:
        """Let Arnold place and start a job, and return its nodes by rank."""
        if free:
            grid = f"tp={GPUS},dp={dp},pp={pp},alpha={alpha}"
            words = ["slurm", "submit", "--grid", grid, "--parsable", *self._common(), self.folder / "job.sh"]
            number = self._arnold(*words).strip()
        else:
            job, nodes = self.folder / "job.yaml", self.folder / "job.nodelist"
            job.write_text(f"parallelism: {{tp: {GPUS}, dp: {dp}, pp: {pp}}}\nalpha: {alpha}\n")
            self._arnold(
                "place", "--cluster", "slurm:", "--job", job, "--rank-order", "slurm", "--output", nodes, "--json"
            )
            chosen = ["-w", nodes.read_text().strip(), f"--nodes={dp * pp}", *self.single]
            number = self.slurm.run("sbatch", "--parsable", *self._common(), *chosen, self.folder / "job.sh").strip()
        ranks = self._ranks(number, dp * pp)
        if ranks is None:
            raise RuntimeError(f"{dp}x{pp} was placed and did not start")
        return ranks

    def _common(self) -> list[str]:
        return [
            "--ntasks-per-node=1",
            f"--gpus-per-node={GPUS}",
            "-t",
            "10",
            "-o",
            f"{self.folder}/out.%j",
            "-e",
            "/dev/null",
        ]

    def _arnold(self, *words: object) -> str:
        """Run a command in this process, which saves the second that a program of Python takes to start."""
        with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as complaints:
            code = arnold([str(word) for word in words])
        if code != 0:
            raise RuntimeError(out.getvalue() + complaints.getvalue())
        return out.getvalue()

    def _ranks(self, number: str, cells: int) -> list[str] | None:
        """Wait for the end of a job, and return its nodes by rank, as its tasks said them."""
        begin, out = monotonic(), self.folder / f"out.{number}"
        while True:
            state = self.slurm.run("squeue", "-h", "-j", number, "-o", "%T %r").split()
            if not state:
                break
            if state[0] == "PENDING" and state[1] != "None" and monotonic() - begin > WAITS:
                self.slurm.run("scancel", number)
                return None
            if monotonic() - begin > LONGEST:
                raise RuntimeError(f"job {number} takes too long: {state}")
            sleep(0.2)
        said = dict(line.split() for line in out.read_text().splitlines())
        if sorted(map(int, said)) != [*range(cells)] or len({*said.values()}) != cells:
            raise RuntimeError(f"job {number}: ranks are not 0 to {cells - 1} on as many nodes: {out.read_text()}")
        return [said[str(rank)] for rank in range(cells)]


@contextmanager
def stage(install: Install, plugin: str, *, busy: Sequence[str]) -> Iterator[Stage]:
    """Start a Slurm whose busy nodes run a job."""
    with TemporaryDirectory(prefix="slurm") as name:
        folder = Path(name)
        with real_slurm(install, folder, NODES, topology(plugin), gpus=GPUS) as slurm:
            (folder / "job.sh").write_text(SAY)
            for i in range(0, len(NODES), BLOCK):  # no job leaves a block
                if here := [node for node in NODES[i : i + BLOCK] if node in busy]:
                    where = ["-w", fold_hostlist(here), f"--nodes={len(here)}"]
                    slurm.run("sbatch", "--exclusive", "-o", "/dev/null", *where, "--wrap", "sleep 100000")
            slurm.wait_for(len(NODES) - len(busy), most=True)
            mine = {name: os.environ.get(name, "") for name in ("SLURM_CONF", "PATH")}
            os.environ.update({name: slurm.environment[name] for name in mine})
            yield Stage(slurm, folder, ("--segment=1",) if plugin == "block" else ())
            os.environ.update(mine)


def evaluated(cluster: Cluster, job: Job, ranks: Sequence[str]) -> Evaluation:
    """Return what nodes in the order of ranks are worth."""
    nodes = np.array([cluster.index_of[name] for name in ranks], dtype=np.int32)
    return evaluate(cluster, job, nodes[job.grid.node_rank])


def job_of(shape: tuple[int, int], alpha: float) -> Job:
    """Return the job of a shape."""
    return Job(f"{shape[0]}x{shape[1]}", Parallelism(tp=GPUS, dp=shape[0], pp=shape[1]), alpha=alpha)


def chosen_by_rule(way: Way, cluster: Cluster, shape: tuple[int, int]) -> set[str] | None:
    """Return the nodes that our rule chooses; ``None`` = it refuses."""
    nodes = run(ALGORITHMS.load(way.rule), cluster, job_of(shape, ALPHAS[0]), Limits()).proposal.nodes
    return None if nodes is None else {cluster.names[i] for i in nodes.ravel()}


def measure(install: Install, *, seed: int, shapes: Sequence[tuple[int, int]] = SHAPES) -> list[Measured]:
    """Start every shape in every way that the Slurm has, and by Arnold."""
    measured = []
    for plugin in ["tree", *(["block"] if install.numbers >= ANY_BLOCKS_SINCE else [])]:
        with stage(install, plugin, busy=some_busy(seed)) as on:
            cluster = on.cluster()
            for shape in shapes:
                jobs = {alpha: job_of(shape, alpha) for alpha in ALPHAS}
                free, in_order = (
                    {a: evaluated(cluster, job, on.arnold(*shape, a, free=any_order)) for a, job in jobs.items()}
                    for any_order in (True, False)
                )
                for way in (way for way in WAYS if way.plugin == plugin):
                    ranks = on.started(shape[0] * shape[1], way.options(*shape))
                    own = {alpha: evaluated(cluster, job, ranks) for alpha, job in jobs.items()} if ranks else {}
                    same = (None if ranks is None else {*ranks}) == chosen_by_rule(way, cluster, shape)
                    measured.append(Measured(way, shape, own, free, in_order, same))
                    print(f"{plugin} {shape} {way.name}: {ranks and fold_hostlist(ranks)}", file=sys.stderr, flush=True)
    return measured


def compare_rules(install: Install, *, states: int, seed: int, shapes: Sequence[tuple[int, int]] = SHAPES) -> str:
    """Return a table of where a Slurm and our rule chose the same nodes, on random states of 30 to 70 % busy nodes."""
    rows, odd = [], []
    for plugin in ["tree", *(["block"] if install.numbers >= BLOCKS_SINCE else [])]:
        found: dict[Way, Counter[str]] = {way: Counter() for way in WAYS if way.plugin == plugin}
        with stage(install, plugin, busy=[]) as on:
            cluster, gone = on.cluster(), list[str]()
            for number in range(states):
                rng = random.Random(f"{seed} {number}")
                busy = some_busy(rng.randrange(2**31), rng.uniform(0.3, 0.7))
                if gone:
                    on.slurm.run("scontrol", "update", f"NodeName={fold_hostlist(gone)}", "State=RESUME")
                on.slurm.run("scontrol", "update", f"NodeName={fold_hostlist(busy)}", "State=DRAIN", "Reason=busy")
                on.slurm.wait_for(len(NODES) - len(busy))  # until those that come back have answered
                gone, left = busy, cluster.with_busy(cluster.index_of[name] for name in busy)
                for shape in shapes:
                    for way, counts in found.items():
                        real = would_choose(on, shape, way)
                        ours = chosen_by_rule(way, left, shape)
                        counts["both refuse" if real is ours is None else "same" if real == ours else "other"] += 1
                        if real != ours:
                            chose = f"{_folded(real)}, ours {_folded(ours)}"
                            odd.append(f"{way.name} state {number} {shape[0]}x{shape[1]}: {chose}")
        for way, counts in found.items():
            rows.append((way.name, counts.total(), counts["same"], counts["both refuse"], counts["other"]))
    headers = ["plugin", "asked", "same nodes", "refused by both", "differ"]
    title = f"Our rules and Slurm {install.version}, on {states} states"
    return section(title, table(headers, rows), "\n".join(odd[:40]))


def _folded(nodes: set[str] | None) -> str:
    return "refused" if nodes is None else fold_hostlist(sorted(nodes))


def would_choose(on: Stage, shape: tuple[int, int], way: Way) -> set[str] | None:
    """Return the nodes on which Slurm would start a job; ``None`` = on none."""
    options = [f"--nodes={shape[0] * shape[1]}", "--ntasks-per-node=1", f"--gpus-per-node={GPUS}", "-t", "10"]
    said = on.slurm.tried("sbatch", "--test-only", *options, *way.options(*shape), on.folder / "job.sh")
    if said.returncode != 0:
        return None
    return {*expand_hostlist(said.stderr.partition(" on nodes ")[2].split()[0])}


def report(install: Install, measured: Sequence[Measured]) -> str:
    """Return the tables: sums over the shapes that Slurm starts, and each shape."""
    rows = []
    for way in dict.fromkeys(row.way for row in measured):
        of_way = [row for row in measured if row.way == way]
        ran = [row for row in of_way if row.slurm]
        same = f"{sum(row.same for row in of_way)} of {len(of_way)}"
        for alpha in ALPHAS:
            slurm, free, in_order = (
                sum(of[alpha].objective for of in column)
                for column in ([row.slurm for row in ran], [row.free for row in ran], [row.in_order for row in ran])
            )
            worse = sum(row.slurm[alpha].objective > row.free[alpha].objective + TOLERANCE for row in ran)
            arnold = f"{free:.1f} ({slurm / free:.2f}x)" if ran else "-"
            row = (way.name, f"{len(ran)} of {len(of_way)}", alpha, f"{slurm:.1f}", arnold, f"{in_order:.1f}")
            rows.append((*row, f"{worse} of {len(ran)}", same))
    ours = ["Arnold", "Arnold, `--rank-order slurm`"]
    headers = ["plugin", "started", "alpha", "Slurm", *ours, "Slurm worse", "our rule chose the same"]
    each = [
        (row.way.name, f"{row.shape[0]}x{row.shape[1]}", *(_spreads(of) for of in (row.slurm, row.free, row.in_order)))
        for row in measured
    ]
    details = table(["plugin", "shape", "Slurm", "Arnold", "Arnold in Slurm's order"], each)
    title = f"Sums of objectives of {len({row.shape for row in measured})} shapes, Slurm {install.version}"
    return section(title, table(rows=rows, header=headers)) + section("DP and PP spread at each alpha", details)


def _spreads(of: dict[float, Evaluation]) -> str:
    return " ".join(f"{one.dp},{one.pp}" for one in of.values()) or "waits"


def newest(root: str | None) -> Install:
    """Return the Slurm that is asked for, else the newest that is found here."""
    found = [install for install in installs() if root is None or str(install.root) == root]
    if not found:
        raise RuntimeError("there is no such Slurm here (ARNOLD_SLURM_ROOTS names chroots), or you are not root")
    return max(found, key=lambda install: install.numbers)
