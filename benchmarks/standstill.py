"""A week of faults of a gang of 1,200 nodes in simulated time: what `arnold watch --policy act` leaves of its time.

What runs is what runs in a cluster: rounds of the watch over HTTP from a stand-in for Prometheus, its flag store, the
chains in an API server in memory, and the extender's decisions and repairs.  Simulated are the clock, the owner that
makes evicted pods anew, kube-scheduler, which binds them, and the training itself.
"""

import copy
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any
from unittest.mock import patch

import numpy as np

from arnold.gang_watch import GangWatch
from benchmarks.report import Promise, promises, section, table
from extender.cluster_api.client import GANGPLANS, HISTORIES, NODES, PODS
from extender.cluster_api.connect import WhichCluster
from extender.objects import decode_node
from extender.plans.gang_history import EVICTED, RESUMED, GangIncident, decode_history
from extender.plans.gang_plan import encode_plan
from ground.quantities import DAY, HOUR
from health.peers.comparison import ComparisonSettings
from health.peers.sample_sources import StallPlan, WatchPlan
from health.peers.watch import Endpoint
from health.recovery.restarts import restart_seconds
from simulator.failures.cluster_failures import FailureModel, draw_breakdowns
from simulator.failures.ettr import Losses, best_interval
from simulator.failures.rates import ERROR_SEEN, GPUS_OF_A_MACHINE, MIXES, RATES
from tests.extender.controller.world import TERMS, World
from tests.extender.fake_cluster import FakeCluster, Opened
from tests.extender.things import NOW, SPACE, node_json
from tests.health.peers.fake_prometheus import serving

MOST_LOST = 0.03  # of the time; ByteRobust kept 97 % over three months on 9,600 GPUs (arXiv 2509.16293)
ROUNDS = 4 * HOUR  # between two rounds in which nodes are compared; a watch makes thirty in that time
NODES_OF_GANG, SPARES, MINIPOD_NODES = 1_200, 16, 64
GRID = "tp=8,pp=8,dp=150"
STEP = 10.0  # seconds of a training step
WRITE = 2.0  # seconds that a checkpoint keeps the job from training: written in memory, saved beside
# from new pods to the next step: ByteRobust's hot update of all processes, and as long again to read the checkpoint
RESTART = 2.0 * restart_seconds(NODES_OF_GANG * 8 / GPUS_OF_A_MACHINE, "hot-update")
A_PERSON = 1_800.0  # seconds until somebody has looked at what the watch left alone
SILENT = 0.3  # share of hangs in which the node sends nothing any more; in the others it has begun one step less


@dataclass(frozen=True, slots=True)
class Weathered:
    """One week."""

    stall_after: float
    days: float
    faults: Counter[str]  # symptom -> how many hit the gang
    ettr: float
    seen: list[float]  # seconds from a hang to the eviction
    chains: int  # incidents of hangs with every step, from StandsStill to Resumed
    withheld: int  # hangs that were left to a person
    wrong: int  # nodes that were flagged and had no fault
    least_spare: int  # nodes that were free at the worst time
    seconds: float  # of wall time


@dataclass
class Training:
    """The week's state of a job that trains, stands still, or starts."""

    started: float = 0.0  # when it took its first step, seconds from the beginning of the week
    stopped: float = np.inf  # since when nothing moves
    behind: str = ""  # who has begun one step less; empty = nobody
    silent: bool = False  # it sends nothing instead

    def counts(self, times: Any) -> Any:
        """Return how many steps each node has begun."""
        return np.floor((np.minimum(times, self.stopped) - self.started) / STEP) + 1.0


@dataclass
class Week:
    """The cluster, the job, and the watch."""

    stall_after: float
    store: Path
    url: str = ""
    job: Training = field(default_factory=Training)
    api: FakeCluster = field(default_factory=FakeCluster)
    wrong: set[str] = field(default_factory=set)
    faulty: set[str] = field(default_factory=set)  # nodes with a fault so far
    away: list[tuple[float, str]] = field(default_factory=list)  # nodes that are not Ready, and until when
    clock: float = 0.0  # seconds from the beginning

    def __post_init__(self) -> None:
        names = [f"m{i // MINIPOD_NODES:02}-{i % MINIPOD_NODES:02}" for i in range(NODES_OF_GANG + SPARES)]
        for name in names:
            self.api.put(NODES, node_json(name, name[:3], name[:4]))
        self.world = World([decode_node(self.api.find(NODES, name)) for name in names])
        self.names = names
        grid = {"arnold.dev/parallelism": GRID}
        pods = self.world.gang("llm", NODES_OF_GANG, grid, owner=("Job", "llm"))
        self.world.settle()
        self.world.bind(*pods)
        self.settle(*pods)

    def at(self, seconds: float) -> datetime:
        """Return an instant of the week; the world is there then."""
        self.clock, self.world.now = seconds, NOW + timedelta(seconds=seconds)
        return self.world.now

    async def connect(self, _: object) -> Any:
        """Stand in for the way to a cluster."""
        return Opened(self.api)

    def settle(self, *pods: str) -> None:
        """The extender decides until there is nothing left, and the API server has it."""
        self.world.settle()
        for name in pods:
            self.api.put(PODS, copy.deepcopy(self.world.pods[name]))
        self.api.put(GANGPLANS, encode_plan(self.world.plan("llm")))

    def answer(self, query: str, start: float, end: float, step: float) -> Any:
        """What Prometheus has: steps while the job is there, power while it trains, of nothing else."""
        begin, series = NOW.timestamp(), []
        times = np.arange(start, end + step / 2.0, step)
        there = times[times - begin >= self.job.started]
        if len(there) and ("steps" in query or "POWER" in query):
            counts = self.job.counts(there - begin)
            values = counts if "steps" in query else np.where(there - begin < self.job.stopped, 550.0, 300.0)
            pairs = [*zip(there.tolist(), values.tolist(), strict=True)]
            rows = [[at, f"{value:.0f}"] for at, value in pairs]
            less = [[at, f"{max(0.0, value - 1.0):.0f}"] for at, value in pairs]
            for name in self.world.plan("llm").node_names:
                own = rows
                if name == self.job.behind and "steps" in query:
                    heard = sum(at - begin < self.job.stopped for at, _ in pairs)
                    own = rows[:heard] if self.job.silent else less
                if own:
                    series.append({"metric": {"node": name}, "values": own})
        return {"status": "success", "data": {"resultType": "matrix", "result": series}}

    def look(self, seconds: float, *, compares: bool = False) -> None:
        """One round of the watch, and what the cluster makes of its annotations."""
        metric = {"gpu_power_draw": "avg by (node) (DCGM_FI_DEV_POWER_USAGE)"}
        watch = GangWatch(
            WhichCluster(),
            Endpoint(self.url, timeout=60.0),
            WatchPlan(queries=metric, step=15.0),
            ComparisonSettings(step=15.0),
            StallPlan(progress="steps", stall_after=self.stall_after, policy="act"),
            str(self.store),
        )
        made = watch.round(self.at(seconds), compares=compares)
        for change in made.changes:
            self.world.state.put_node(decode_node(self.api.find(NODES, change.node)))
            if change.done == "applied" and change.node not in self.faulty:
                self.wrong.add(change.node)

    @property
    def incidents(self) -> tuple[GangIncident, ...]:
        """What is kept of the gang."""
        kept = self.api.objects[HISTORIES.plural].get((SPACE, "arnold"))
        return () if kept is None else decode_history(kept).incidents

    @property
    def free(self) -> int:
        """Nodes that could take a rank now."""
        plan, state = {*self.world.plan("llm").node_names}, self.world.state
        return sum(name not in plan and not state.fleet.ailing(name, self.world.now) for name in self.names)

    def remake(self, rank: int) -> None:
        """The owner makes a rank's pod anew, which the extender gives a node and kube-scheduler binds."""
        name = f"llm-{rank}"
        self.world.recreate(name)
        self.settle(name)
        self.world.later(TERMS.lost.total_seconds())  # a node that is not Ready is lost by then
        self.settle(name)
        self.world.bind(name)
        self.settle(name)

    def ready(self, node: str, *, is_ready: bool) -> None:
        """A kubelet goes, or comes back."""
        found = self.api.find(NODES, node)
        condition = {"type": "Ready", "status": str(is_ready), "lastTransitionTime": self.world.now.isoformat()}
        found["status"]["conditions"] = [condition]
        self.world.state.put_node(decode_node(self.api.put(NODES, found)))

    def until(self, end: float) -> None:
        """Let time pass: whole rounds, a look as soon as it can be seen that the job goes on, nodes that come back."""
        soon = self.job.started + self.stall_after
        hours = ROUNDS * np.arange(np.floor(self.clock / ROUNDS) + 1.0, np.ceil(end / ROUNDS))
        for moment in sorted({soon, *hours.tolist()} if self.clock < soon else {*hours.tolist()}):
            if soon <= moment < end:
                self.look(moment, compares=moment != soon)
            for due, node in [pair for pair in self.away if pair[0] <= moment]:
                self.away.remove((due, node))
                self.ready(node, is_ready=True)

    def helped(self, hung: float) -> float | None:
        """Look until the job has been helped, and return when that was; ``None`` = it is left to a person."""
        every, evictions = self.stall_after / 5.0, self.evictions
        moment = max(hung, self.clock)
        while moment < hung + A_PERSON:
            moment = every * (np.floor(moment / every) + 1.0)
            self.look(moment)
            if self.evictions > evictions:
                return float(moment)
        return None

    @property
    def evictions(self) -> int:
        """Pods that the watch has evicted."""
        return sum(verb == "evict" for verb, *_ in self.api.asked)


def measure(stall_after: float, *, days: float, seed: int) -> Weathered:
    """A week, or fewer days, with a watch of this patience; the faults are those of the seed, whatever is done."""
    end = days * DAY
    begun, rng = perf_counter(), np.random.default_rng(seed)
    model = FailureModel(RATES["llama3"], MIXES["byterobust"])
    drawn = draw_breakdowns(model, nodes=NODES_OF_GANG + SPARES, horizon=end, rng=rng)
    failures = model.rate.per_second(NODES_OF_GANG)
    losses = Losses(failures, RESTART, WRITE, best_interval(failures, WRITE))
    with TemporaryDirectory() as folder, ExitStack() as stack:
        week = Week(stall_after, Path(folder) / "flags.db")
        week.url = stack.enter_context(serving(week.answer)).url
        stack.enter_context(patch("extender.cluster_api.connect.connect", week.connect))
        faults, seen, withheld, productive, least = Counter[str](), list[float](), 0, 0.0, SPARES
        for fault in drawn:
            week.until(fault.time)
            rank, node = week.world.plan("llm").rank_of_node.get(week.names[fault.node]), week.names[fault.node]
            if rank is None:
                continue  # a spare: nobody waits for it
            now = max(fault.time, week.job.started, week.clock)
            faults[fault.kind.symptom] += 1
            week.faulty.add(node)
            productive += losses.saved(now - week.job.started)
            resumes: float | None = now + ERROR_SEEN
            if fault.kind.symptom == "hang":
                week.job = Training(week.job.started, now, node, silent=bool(rng.random() < SILENT))
                resumes = week.helped(now)
                withheld += resumes is None
                seen += [] if resumes is None else [resumes - now]
            # what is not the watch's: a node that is seen to be broken, or that a person has taken away
            by_others = fault.kind.symptom == "error" or resumes is None
            week.at(now + A_PERSON if resumes is None else resumes)
            if by_others:
                week.ready(node, is_ready=False)
                week.away.append((fault.back, node))
            week.remake(rank)
            least = min(least, week.free)
            week.clock = (week.world.now - NOW).total_seconds()
            week.job = Training(week.clock + RESTART)
        week.until(end)
        productive += losses.trained(max(0.0, end - week.job.started))
        whole = [EVICTED, "Moved", RESUMED]
        chains = sum([step.did for step in it.steps][-3:] == whole for it in week.incidents)
    done, wrong = perf_counter() - begun, len(week.wrong)
    return Weathered(stall_after, days, faults, productive / end, seen, chains, withheld, wrong, least, done)


def report(weeks: Sequence[Weathered]) -> str:
    """What each patience leaves of the week; the promises are of the default."""
    rows = [
        (
            f"{week.stall_after:g}",
            week.faults["hang"],
            week.faults["error"],
            f"{np.median(week.seen):.0f}" if week.seen else "-",
            f"{np.max(week.seen):.0f}" if week.seen else "-",
            week.chains,
            week.withheld,
            week.wrong,
            week.least_spare,
            f"{week.ettr:.4f}",
            f"{week.seconds:.0f}",
        )
        for week in weeks
    ]
    head = ("stall after, s", "hangs", "errors", "helped after, s", "at most", "whole chains", "left to a person")
    kept: list[Promise] = []
    for week in (week for week in weeks if week.stall_after == StallPlan().stall_after):
        helped = len(week.seen)
        kept += [
            (f"ETTR at least {1.0 - MOST_LOST:.2f}", f"{week.ettr:.4f}", week.ettr >= 1.0 - MOST_LOST),
            ("every hang that was helped has its chain", f"{week.chains} of {helped}", week.chains == helped),
            ("no healthy node flagged", f"{week.wrong}", week.wrong == 0),
        ]
    return section(
        f"{weeks[0].days:g} days of a gang of {NODES_OF_GANG:,} nodes with {SPARES} spares",
        table((*head, "healthy flagged", "fewest spares", "ETTR", "run, s"), rows),
        f"Failures at the rate of Llama 3 in ByteRobust's mix; a checkpoint takes {WRITE:g} s and is written at the "
        f"best interval; {RESTART:.0f} s from new pods to the next step; a person helps after {A_PERSON / 60.0:.0f} "
        "minutes.",
        promises(*kept) if kept else "",
    )
