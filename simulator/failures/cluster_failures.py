"""Failures of a replay: breakdowns and slow spells of nodes, drawn from a seed, and what they do to jobs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import floor, inf
from typing import TYPE_CHECKING, Any, Literal

from ground.errors import InvalidInput
from ground.quantities import DAY, HOUR
from simulator.failures.ettr import best_interval
from simulator.failures.rates import MIXES, RATES, FailureKind, FailureRate, Mix, Restart
from simulator.hooks import Incident, Setback, Why
from simulator.sim_job import UNITS, SimJob
from topology.flags import HEALTHY

if TYPE_CHECKING:
    import numpy as np

# -- failure_process --
# Failures and slow spells of a cluster: same seed, same failures, whatever the jobs do.
#
# Every node fails at the same rate, at random (a Poisson process), and not while it is away.  Each purpose (failures,
# slow spells) has a generator of its own, so that asking for slow nodes does not move the failures.


CONTINUITY = 240.0  # Seconds that the same machine must stand out (Minder, arXiv 2411.01791)
CALLED_EVERY = 480.0  # Seconds between two looks (the same)
RECALL = 0.883  # Share of faults found (the same)


@dataclass(frozen=True, slots=True)
class SlowSpell:
    """A node that is slow for a while."""

    node: int  # index of the node
    since: float  # when it became slow, seconds
    until: float  # when it is well again
    slowdown: float  # factor on compute time
    detected: float  # when it is flagged; inf = never


@dataclass(frozen=True, slots=True)
class Slowness:
    """How often nodes become slow, for how long, and who notices.

    Factors are those of the stragglers injected and measured by the what-if analysis (arXiv 2505.05713: 1.16 to 2.03),
    small ones more likely, as in :func:`topology.generate.flag_some`.  How often it happens is not published: 0 unless
    somebody knows.
    """

    per_thousand_node_days: float = 0.0  # spells in 1,000 days of a node
    mean_hours: float = 6.0  # of a spell, exponential
    recall: float = RECALL  # share that is ever detected


def draw_spells(slowness: Slowness, *, nodes: int, horizon: float, rng: np.random.Generator) -> list[SlowSpell]:
    """Return slow spells that begin before the horizon, in seconds, in order of their beginning."""
    import numpy as np

    count = int(rng.poisson(slowness.per_thousand_node_days / 1_000.0 / DAY * nodes * horizon))
    since = np.sort(rng.uniform(0.0, horizon, count))
    which = rng.integers(0, nodes, count)
    length = rng.exponential(slowness.mean_hours * HOUR, count)
    factor = np.round(1.1 + 0.9 * rng.beta(1.0, 3.0, count), 2)
    noticed = since + CONTINUITY + rng.uniform(0.0, CALLED_EVERY, count)
    noticed[(rng.uniform(size=count) >= slowness.recall) | (noticed >= since + length)] = inf
    columns = (which, since, since + length, factor, noticed)
    return [SlowSpell(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]


REPAIR_HOURS = 24.0  # Mean hours until a technician has a node back: our assumption, a day; say your own
REBOOT_HOURS = 0.5  # Hours until a node whose software failed is back


@dataclass(frozen=True, slots=True)
class Breakdown:
    """One failure of one node."""

    time: float  # seconds
    node: int  # index of the node
    kind: FailureKind
    back: float  # when the node can be used again


@dataclass(frozen=True, slots=True)
class FailureModel:
    """What goes wrong on a cluster."""

    rate: FailureRate = RATES["rsc-1"]
    mix: Mix = MIXES["llama3"]
    repair_hours: float = REPAIR_HOURS  # mean time of a repair of hardware, exponential
    reboot_hours: float = REBOOT_HOURS  # time after a failure of software
    slowness: Slowness = field(default=Slowness())


def draw_breakdowns(model: FailureModel, *, nodes: int, horizon: float, rng: np.random.Generator) -> list[Breakdown]:
    """Return failures before the horizon, in seconds, in order of time."""
    import numpy as np

    count = int(rng.poisson(model.rate.per_second(nodes) * horizon))
    times = np.sort(rng.uniform(0.0, horizon, count))
    which = rng.integers(0, nodes, count)
    shares = np.array([kind.count for kind in model.mix.kinds], dtype=np.float64)
    kinds = rng.choice(len(shares), size=count, p=shares / shares.sum())
    repairs = rng.exponential(model.repair_hours * HOUR, count)
    back_at: dict[int, float] = {}
    breakdowns = []
    rows = zip(times.tolist(), which.tolist(), kinds.tolist(), repairs.tolist(), strict=True)
    for time, node, number, repair in rows:
        if time < back_at.get(node, 0.0):
            continue
        kind = model.mix.kinds[number]
        back_at[node] = time + (repair if kind.hardware else model.reboot_hours * HOUR)
        breakdowns.append(Breakdown(time, node, kind, back_at[node]))
    return breakdowns


# -- cluster_failures --
# Failures in a replay: nodes go out and come back, jobs lose work and restart, slow nodes are flagged when noticed.
#
# Failures are drawn window by window, whatever the jobs do, so that a run of any length needs no horizon.  Spares are
# nodes that no job may use until a node fails: then one of them comes in at once, and the next node that is back from
# repair is a spare again.


WINDOW = 30 * DAY  # Failures are drawn for so many seconds at a time
WINDOWS = 1_220  # Windows after which nothing fails any more: a hundred years
_SAME = 1e-9

What = Literal["fail", "back", "slow", "flag"]

Event = tuple[float, int, What, int, Any]
"""Time, sequence, what happens, the node, and its cause: the breakdown, or the factor of a slow node."""


@dataclass(frozen=True, slots=True)
class FailureSettings:
    """What goes wrong in a replay, and how jobs are insured against it."""

    model: FailureModel = field(default=FailureModel())
    restart: Restart = field(default=Restart())
    # productive seconds between checkpoints; None = the best for each job, sqrt(2 w / (N r))
    interval: float | None = None
    write: float = 10.0  # seconds that a checkpoint keeps a job from training, above 0 for the best interval
    spares: int = 0  # nodes that wait for others to fail

    def __post_init__(self) -> None:
        if self.interval is not None and not self.interval > 0.0:
            raise InvalidInput(
                f"the interval is {self.interval}", where="--job-checkpoint-interval", fix="give seconds above 0"
            )
        if not 0.0 < self.write < inf:
            raise InvalidInput(
                f"a checkpoint takes {self.write} seconds", where="--job-checkpoint-write", fix="give seconds above 0"
            )

    def spares_of(self, nodes: Sequence[int]) -> tuple[int, ...]:
        """Return which of the nodes that may fail wait at the beginning: the last.

        :raises InvalidInput: as many spares as nodes.
        """
        if self.spares >= len(nodes):
            raise InvalidInput(
                f"{self.spares} spares of {len(nodes)} nodes", where="--spares", fix="leave nodes for the jobs"
            )
        return tuple(nodes[len(nodes) - self.spares :])

    def interval_of(self, nodes: int) -> float:
        """Return productive seconds between checkpoints of a job of so many nodes."""
        if self.interval is not None:
            return self.interval
        return best_interval(self.model.rate.per_second(nodes), self.write)

    def overhead(self, job: SimJob) -> float:
        """Return seconds that a second of work takes with checkpoints: 1 + w/d; 1 for a job too short to write one."""
        interval = self.interval_of(job.nodes)
        return 1.0 if job.record.duration <= interval else 1.0 + self.write / interval


class ClusterFailures:
    """The incidents of nodes that may fail, from a start on, and what they cost jobs; same seed, same incidents.

    :param spares: those of the nodes that wait at the beginning (:meth:`FailureSettings.spares_of`).
    """

    def __init__(
        self, settings: FailureSettings, nodes: Sequence[int], *, start: float, seed: int, spares: Sequence[int] = ()
    ) -> None:
        self.settings = settings
        self._nodes, self._start, self._seed = tuple(nodes), start, seed
        self._spares = spares
        self._begin()

    def _begin(self) -> None:
        self._asked = 0
        self._heap: list[Event] = []
        self._sequence = 0
        self._drawn_until = self._start
        self._window = 0
        self._away_until: dict[int, float] = {}
        self._slow_until: dict[int, float] = {}
        self._out: set[int] = set()
        self._pool = list(self._spares)
        self._short = 0
        self._last: Breakdown | None = None
        self._stream = self._incidents()

    def next(self) -> Incident | None:
        """Return the next incident."""
        self._asked += 1
        return next(self._stream, None)

    def state(self) -> dict[str, int]:
        """Return how often it was asked: everything follows from that."""
        return {"asked": self._asked}

    def restore(self, state: Any) -> None:
        """Ask as often again."""
        self._begin()
        for _ in range(int(state["asked"])):
            self.next()

    def saved(self, job: SimJob, *, done: float) -> float:
        """Return what the last checkpoint holds."""
        interval = self.settings.interval_of(job.nodes)
        return 0.0 if interval == inf else floor(done / interval + _SAME) * interval

    def interrupted(self, job: SimJob, *, done: float, why: Why) -> Setback:
        """What the last checkpoint holds is kept; then detection, restart and reload."""
        kept = self.saved(job, done=done)
        gpus = job.units / UNITS
        if why == "failure" and self._last is not None:
            return Setback(kept, self.settings.restart.seconds(gpus=gpus, failure=self._last.kind))
        return Setback(kept, self.settings.restart.back(gpus))

    # Behind it

    def _incidents(self) -> Iterator[Incident]:
        for node in tuple(self._pool):
            yield Incident(self._start, "down", node)
        while True:
            while not self._heap or self._heap[0][0] >= self._drawn_until:
                if self._window == WINDOWS:
                    return
                self._draw()
            time, _, what, node, cause = heappop(self._heap)
            if what == "fail":
                yield from self._failed(time, node, cause)
            elif what == "back":
                yield from self._returned(time, node)
            else:
                yield Incident(time, what, node, cause)

    def _failed(self, time: float, node: int, cause: Breakdown) -> Iterator[Incident]:
        """A spare takes its place, if there is one; a spare itself does not fail while it waits."""
        if node in self._pool:
            return
        self._last = cause
        self._out.add(node)
        if self._pool:
            yield Incident(time, "up", self._pool.pop())
        else:
            self._short += 1
        yield Incident(time, "down", node)

    def _returned(self, time: float, node: int) -> Iterator[Incident]:
        """A node is back from repair: where one is missing it is used, else it is a spare again."""
        if node not in self._out:
            return
        self._out.remove(node)
        if self._short:
            self._short -= 1
            yield Incident(time, "up", node)
        else:
            self._pool.append(node)

    def _draw(self) -> None:
        """Draw the failures of the next window."""
        import numpy as np

        stream = np.random.SeedSequence((self._seed, self._window))
        for_failures, for_spells = (np.random.default_rng(one) for one in stream.spawn(2))
        count, model, begin = len(self._nodes), self.settings.model, self._drawn_until
        for draw_breakdown in draw_breakdowns(model, nodes=count, horizon=WINDOW, rng=for_failures):
            self._plan_failure(
                begin + draw_breakdown.time,
                begin + draw_breakdown.back,
                self._nodes[draw_breakdown.node],
                draw_breakdown,
            )
        for spell in draw_spells(model.slowness, nodes=count, horizon=WINDOW, rng=for_spells):
            self._plan_spell(begin, self._nodes[spell.node], spell)
        self._window += 1
        self._drawn_until += WINDOW

    def _plan_failure(self, time: float, back: float, node: int, cause: Breakdown) -> None:
        """Take a node away, unless it is away since the window before."""
        if time >= self._away_until.get(node, -inf):
            self._away_until[node] = back
            self._push(time, "fail", node, cause)
            self._push(back, "back", node)

    def _plan_spell(self, begin: float, node: int, spell: SlowSpell) -> None:
        """Make a node slow, unless it is slow already."""
        if begin + spell.since < self._slow_until.get(node, -inf):
            return
        self._slow_until[node] = begin + spell.until
        self._push(begin + spell.since, "slow", node, spell.slowdown)
        self._push(begin + spell.until, "slow", node, HEALTHY)
        if spell.detected < inf:
            self._push(begin + spell.detected, "flag", node, spell.slowdown)
            self._push(begin + spell.until, "flag", node, HEALTHY)

    def _push(self, time: float, what: What, node: int, cause: Any = None) -> None:
        self._sequence += 1
        heappush(self._heap, (time, self._sequence, what, node, cause))
