"""Start-up as a barrier: a gang works once its slowest node has image and environment, and its checkpoint is read.

``T = fixed + max over nodes (image + environment) + checkpoint``, after the stages that Bootseer names; the formulas of
the stages are ours.  The environment of every start is drawn from seed, job and attempt alone: the same start draws the
same whatever others do.  A gang shares the store with the gangs that were starting when it began; one that begins later
slows none that is under way.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import log
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from ground.records import AtLeastOne, JsonRecord, NotNegative, Share, read_json
from simulator.history import RunHistory
from simulator.pools import NodePool, Pool
from simulator.sim_job import UNITS, SimJob
from simulator.startup_settings import StartUpSettings, Techniques
from topology.cluster import BoolArray, FloatArray


class NodeCaches:
    """Layers of images that each node keeps at the moment: so many GB, and what was used longest ago goes first.

    :param size: GB of each node.
    """

    def __init__(self, nodes: int, size: float) -> None:
        self._size = size
        self._kept: list[dict[str, float]] = [{} for _ in range(nodes)]  # GB by layer, that of the last use last
        self._on: dict[str, BoolArray] = {}  # the same by layer

    def missing(self, layers: Mapping[str, float]) -> FloatArray:
        """Return shape [nodes]: GB of some layers that each node does not have."""
        missing = np.full(len(self._kept), sum(layers.values()))
        for layer, size in layers.items():
            if layer in self._on:
                missing[self._on[layer]] -= size
        # what is left of a sum of which all parts were taken away
        missing[missing < 1e-9] = 0.0
        return missing

    def use(self, nodes: Iterable[int], layers: Mapping[str, float]) -> None:
        """Put layers on some nodes; where that is too much, those go that were used longest ago."""
        for layer in layers:
            self._on.setdefault(layer, np.zeros(len(self._kept), dtype=np.bool_))
        for node in nodes:
            kept = self._kept[node]
            for layer, size in layers.items():
                kept.pop(layer, None)
                kept[layer] = size
                self._on[layer][node] = True
            while kept and sum(kept.values()) > self._size:
                oldest = next(iter(kept))
                del kept[oldest]
                self._on[oldest][node] = False

    def state(self) -> Any:
        """Return the layers of each node in the order of their last use."""
        return [[[layer, size] for layer, size in kept.items()] for kept in self._kept]

    def restore(self, state: Any) -> None:
        """Go on with these."""
        self._kept, self._on = [{} for _ in state], {}
        whole, self._size = self._size, np.inf
        for node, kept in enumerate(state):
            self.use([node], dict(kept))
        self._size = whole


TECHNIQUES: Mapping[str, Techniques] = MappingProxyType(
    {
        "none": Techniques(),
        "prefetch": Techniques(prefetch=True),
        "snapshots": Techniques(snapshots=True),
        "striped_reads": Techniques(striped_reads=True),
        "all_three": Techniques(prefetch=True, snapshots=True, striped_reads=True),
    }
)
"""What every start is weighed with, besides what is in use: so one run tells what each buys."""


@dataclass(frozen=True, slots=True, eq=False)
class GangStart:
    """One start of a gang."""

    gpus: float
    missing: FloatArray  # shape [nodes], GB of its image that each of its nodes does not have
    installs: FloatArray  # shape [nodes], seconds that installing the environment takes
    others: int = 0  # nodes of other gangs that pull at the same time
    # whether an earlier start with its image recorded the hot blocks, and saved the environment
    recorded: bool = True

    def seconds(self, settings: StartUpSettings, techniques: Techniques) -> float:
        """Return the seconds from having its nodes to working."""
        image, snapshot = settings.image, techniques.snapshots and self.recorded
        hot = image.hot_share if techniques.prefetch and self.recorded else 1.0
        pulls = hot * self.missing + (settings.environment.snapshot_gb if snapshot else 0.0)
        # all that still pull share what there is alike: those that need least are served first, then the rest have more
        order = np.argsort(pulls)
        at_once = self.others + np.arange(len(pulls), 0, -1)
        rates = np.minimum(image.node_gb_per_second, image.store_gb_per_second / at_once + image.peer_gb_per_second)
        arrivals = np.empty_like(pulls)
        arrivals[order] = np.cumsum(np.diff(pulls[order], prepend=0.0) / rates)
        ready = arrivals + (0.0 if snapshot else self.installs)
        reads = settings.checkpoint.seconds(gpus=self.gpus, nodes=len(ready), striped=techniques.striped_reads)
        return settings.fixed_seconds + float(ready.max()) + reads


class Started(NamedTuple):
    """One start of a job."""

    key: int  # of the job
    begin: float  # when it got its nodes
    seconds: float  # until it was ready, had nothing stopped it
    weighed: tuple[float, ...]  # the same with each of TECHNIQUES


class StartUps:
    """Start-ups of the jobs of one run, with the caches of its nodes, which are empty at the beginning."""

    def __init__(self, settings: StartUpSettings, nodes: int, *, seed: int) -> None:
        self._settings, self._seed = settings, seed
        self._caches = NodeCaches(nodes, settings.image.cache_gb)
        self._recorded: set[str] = set()  # Images that some start had
        self._attempts: Counter[int] = Counter()  # Starts of each job so far
        self._pulling: dict[int, tuple[float, int]] = {}  # By job: until when it starts, and how many of its nodes pull
        self.log: list[Started] = []

    def missing(self, job: SimJob) -> FloatArray:
        """Return shape [nodes]: GB that a start of the job would pull on each."""
        return self._caches.missing(self._layers(job))

    def started(self, job: SimJob, now: float) -> float:
        """Return the seconds until a job that has its nodes now is ready, and keep on them what it pulls."""
        settings, layers, attempt = self._settings, self._layers(job), self._attempts[job.key]
        places = np.asarray(job.places)
        self._pulling = {key: pull for key, pull in self._pulling.items() if pull[0] > now and key != job.key}
        environment, installs = settings.environment, np.zeros(len(job.places))
        if environment.median_seconds:
            rng = np.random.default_rng((self._seed, job.key, attempt))
            installs = rng.lognormal(log(environment.median_seconds), environment.sigma, len(job.places))
        start = GangStart(
            job.units / UNITS,
            self._caches.missing(layers)[places],
            installs,
            others=sum(nodes for _, nodes in self._pulling.values()),
            recorded=self._image(job) in self._recorded,
        )
        seconds = start.seconds(settings, settings)
        weighed = tuple(start.seconds(settings, techniques) for techniques in TECHNIQUES.values())
        self.log.append(Started(job.key, now, seconds, weighed))
        self._attempts[job.key] += 1
        if pulling := int(np.count_nonzero(start.missing)):
            self._pulling[job.key] = now + seconds, pulling
        self._caches.use(job.places, layers)
        self._recorded.add(self._image(job))
        return seconds

    def state(self) -> Any:
        """Return caches, images that are recorded, gangs that start, and the log."""
        return [
            self._caches.state(),
            sorted(self._recorded),
            [[key, *pull] for key, pull in self._pulling.items()],
            self.log,
        ]

    def restore(self, state: Any) -> None:
        """Go on with these."""
        caches, recorded, pulling, rows = state
        self._caches.restore(caches)
        self._recorded, self._pulling = set(recorded), {key: (until, nodes) for key, until, nodes in pulling}
        self.log = read_json(list[Started], rows)
        self._attempts = Counter(row.key for row in self.log)

    def _image(self, job: SimJob) -> str:
        of = self._settings.image.of
        return str(job.record.job_id if of == "job" else getattr(job.record, of))

    def _layers(self, job: SimJob) -> dict[str, float]:
        """Return GB of the layers that all images have, and of those of its own."""
        image = self._settings.image
        layers = {"shared": image.shared_gb, f"of {self._image(job)}": image.size_gb - image.shared_gb}
        return {layer: size for layer, size in layers.items() if size > 0.0}


def start_ups(settings: StartUpSettings | None, pool: Pool, *, seed: int) -> StartUps | None:
    """Return the start-ups of jobs that have places, which prefer nodes with their images; ``None`` = none waits."""
    if settings is None or not isinstance(pool, NodePool):
        return None
    starts = StartUps(settings, len(pool.cluster), seed=seed)
    pool.node_costs += (starts.missing,)
    return starts


LIMITS = (8.0, 64.0, 512.0, 2048.0, 8192.0)  # Largest number of GPUs of each class of size but the last
ALL = "all sizes"
CLASSES = ("8 GPUs or less", "9 to 64", "65 to 512", "513 to 2,048", "2,049 to 8,192", "over 8,192")


class StartUpShare(JsonRecord):
    """Start-up of the jobs of one class of size.

    The shares with techniques are of the same starts on the same nodes: what the time that is won would change about
    which rank runs where is not in them.
    """

    size: str
    """Class of size; the first is of all jobs."""
    starts: AtLeastOne
    """Starts and restarts."""
    seconds: NotNegative
    """Mean time of a start-up, seconds, each weighed by its GPUs."""
    lost: Share
    """Share of the GPU time held that went into start-up, with the techniques in use."""
    none: Share
    """Share of the GPU time held that the same starts take without any technique."""
    prefetch: Share
    """Share with record and prefetch of hot blocks alone."""
    snapshots: Share
    """Share with snapshots of environments alone."""
    striped_reads: Share
    """Share with striped reads of checkpoints alone."""
    all_three: Share
    """Share with all three techniques."""


def startup_shares(past: RunHistory, log: Sequence[Started]) -> tuple[StartUpShare, ...]:
    """Return the shares of a run that is over; empty = no job started."""
    held, gpus, seconds = _starts(past, log)
    if not len(held):
        return ()
    classes = np.searchsorted(LIMITS, gpus, side="left")
    groups = [(ALL, np.ones(len(held), dtype=np.bool_)), *((name, classes == i) for i, name in enumerate(CLASSES))]
    shares = []
    for size, mine in groups:
        if not held[mine].sum() > 0.0:
            continue
        lost = gpus[mine] @ seconds[mine]
        # what a technique wins is held no longer; nothing is left where all of it was start-up that is won
        of_held = (lost / np.maximum(gpus[mine] @ held[mine] - lost[0] + lost, 1e-9)).clip(0.0, 1.0).tolist()
        by_technique = dict(zip(TECHNIQUES, of_held[1:], strict=True))
        mean = float(lost[0] / gpus[mine].sum())
        shares.append(StartUpShare(size, int(mine.sum()), mean, of_held[0], **by_technique))
    return tuple(shares)


def seconds_by_job(past: RunHistory, log: Sequence[Started]) -> dict[int, float]:
    """Return the seconds that all starts of each job took, by its key."""
    _, _, seconds = _starts(past, log)
    totals = np.bincount(np.sort(past.attempts.job), weights=seconds[:, 0], minlength=len(past.jobs))
    return dict(enumerate(totals.tolist()))


def _starts(past: RunHistory, log: Sequence[Started]) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return for each start, by job and time: seconds held, GPUs, and shape [starts, 1 + techniques] its start-up, no
    longer than that: as it was, then with each of TECHNIQUES.
    """
    attempts = past.attempts
    order = np.lexsort((attempts.begin, attempts.job))
    held, gpus = (attempts.end - attempts.begin)[order], attempts.gpus[order]
    # each start is an attempt of the history, and the other way round
    rows = [(row.seconds, *row.weighed) for row in sorted(log, key=lambda row: (row.key, row.begin))]
    seconds = np.array(rows, dtype=np.float64).reshape(-1, 1 + len(TECHNIQUES))
    return held, gpus, np.minimum(seconds, held[:, None])
