"""Failures in a replay: nodes go out and come back, jobs lose work and restart, slow nodes are flagged when noticed.

Every node fails at the same rate, at random (a Poisson process), and not while it is away: same seed, same failures,
whatever the jobs do.  Each purpose (failures, slow spells) has a generator of its own, so that asking for slow nodes
does not move the failures.  They are drawn window by window, so that a run of any length needs no horizon.

Spares are nodes that no job may use until a node fails: then one of them comes in at once, and the next node that is
back from repair is a spare again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from math import floor, inf
from typing import TYPE_CHECKING, Annotated, Any, Literal

from annotated_types import Gt, Interval

from ground.errors import InvalidInput
from ground.quantities import DAY, HOUR
from ground.records import check_fields
from simulator.failures.ettr import best_interval
from simulator.failures.rates import MIXES, RATES, FailureKind, FailureRate, Mix, Restart
from simulator.hooks import Incident, Setback, Why
from simulator.sim_job import UNITS, SimJob
from topology.flags import HEALTHY

if TYPE_CHECKING:
    import numpy as np


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
    interval: Annotated[float, Gt(0)] | None = None
    write: Annotated[float, Interval(gt=0, lt=inf)] = 10.0  # seconds that a checkpoint keeps a job from training
    spares: int = 0  # nodes that wait for others to fail

    def __post_init__(self) -> None:
        check_fields(self)

    def spares_of(self, nodes: Sequence[int]) -> tuple[int, ...]:
        """Return which of the nodes that may fail wait at the beginning: the last.

        :raises InvalidInput: as many spares as nodes.
        """
        if self.spares >= len(nodes):
            fix = "leave nodes for the jobs"
            raise InvalidInput(f"{self.spares} spares of {len(nodes)} nodes", where="--spares", fix=fix)
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


class IncidentStream:
    """Incidents of a generator, which is made anew and asked as often again where a run goes on."""

    def __init__(self, make: Callable[[], Iterator[Incident]]) -> None:
        self._make = make
        self._asked, self._stream = 0, make()

    def next(self) -> Incident | None:
        """Return the next incident."""
        self._asked += 1
        return next(self._stream, None)

    def state(self) -> dict[str, int]:
        """Return how often it was asked."""
        return {"asked": self._asked}

    def restore(self, state: Any) -> None:
        """Ask as often again."""
        self._asked, self._stream = 0, self._make()
        for _ in range(int(state["asked"])):
            self.next()


class ClusterFailures(IncidentStream):
    """The incidents of nodes that may fail, from a start on, and what they cost jobs; same seed, same incidents.

    :param spares: those of the nodes that wait at the beginning (:meth:`FailureSettings.spares_of`).
    """

    def __init__(
        self, settings: FailureSettings, nodes: Sequence[int], *, start: float, seed: int, spares: Sequence[int] = ()
    ) -> None:
        self.settings = settings
        self._nodes, self._start, self._seed = tuple(nodes), start, seed
        self._spares = spares
        self._last: Breakdown | None = None
        super().__init__(self.incidents)

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

    def incidents(self) -> Iterator[Incident]:
        """Yield what happens: spares are out at the start, and come in for nodes that fail."""
        import numpy as np

        self._last = None
        pool, out, short = list(self._spares), set[int](), 0  # spares, nodes in repair, nodes that none stands in for
        away_until, slow_until = dict[int, float](), dict[int, float]()
        events: list[Event] = []
        order = count()

        def plan(time: float, what: What, node: int, cause: Any = None) -> None:
            heappush(events, (time, next(order), what, node, cause))

        for node in self._spares:
            yield Incident(self._start, "down", node)
        model, begin = self.settings.model, self._start
        for window in range(WINDOWS):
            seeds = np.random.SeedSequence((self._seed, window)).spawn(2)
            for_failures, for_spells = map(np.random.default_rng, seeds)
            for failure in draw_breakdowns(model, nodes=len(self._nodes), horizon=WINDOW, rng=for_failures):
                node, time, back = self._nodes[failure.node], begin + failure.time, begin + failure.back
                # not one that is away since the window before
                if time >= away_until.get(node, -inf):
                    away_until[node] = back
                    plan(time, "fail", node, failure)
                    plan(back, "back", node)
            for spell in draw_spells(model.slowness, nodes=len(self._nodes), horizon=WINDOW, rng=for_spells):
                node, since, until = self._nodes[spell.node], begin + spell.since, begin + spell.until
                # nor one that is slow already
                if since < slow_until.get(node, -inf):
                    continue
                slow_until[node] = until
                plan(since, "slow", node, spell.slowdown)
                plan(until, "slow", node, HEALTHY)
                if spell.detected < inf:
                    plan(begin + spell.detected, "flag", node, spell.slowdown)
                    plan(until, "flag", node, HEALTHY)
            begin += WINDOW
            while events and events[0][0] < begin:
                time, _, what, node, cause = heappop(events)
                # a spare does not fail while it waits
                if what == "fail" and node not in pool:
                    self._last = cause
                    out.add(node)
                    if pool:
                        yield Incident(time, "up", pool.pop())
                    else:
                        short += 1
                    yield Incident(time, "down", node)
                elif what == "back" and node in out:
                    out.remove(node)
                    if short:
                        short -= 1
                        yield Incident(time, "up", node)
                    else:
                        pool.append(node)
                elif what in ("slow", "flag"):
                    yield Incident(time, what, node, cause)
