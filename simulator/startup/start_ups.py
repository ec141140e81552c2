"""Start-ups in a replay: what each start of a job waits for, what nodes keep of it, and a log for the answers.

The environment of every start is drawn from seed, job and attempt alone: the same start draws the same whatever others
do.  A gang shares the store with the gangs that were starting when it began; one that begins later slows none that is
under way.
"""

from __future__ import annotations

from collections import Counter
from math import log
from typing import Any, NamedTuple

import numpy as np

from simulator.engine.simulated_cluster import SimulatedCluster
from simulator.pools.node_pool import NodePool
from simulator.pools.pool import Pool
from simulator.sim_job import UNITS, SimJob
from simulator.startup.node_caches import NodeCaches
from simulator.startup.start_seconds import TECHNIQUES, GangStart
from simulator.startup.startup_settings import StartUpSettings
from topology.cluster import FloatArray


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
        self._pulling = {key: one for key, one in self._pulling.items() if one[0] > now and key != job.key}
        start = GangStart(
            job.units / UNITS,
            self._caches.missing(layers)[places],
            self._installs(job, attempt),
            others=sum(nodes for _, nodes in self._pulling.values()),
            recorded=self._image(job) in self._recorded,
        )
        seconds = start.seconds(settings, settings)
        weighed = tuple(start.seconds(settings, techniques) for techniques in TECHNIQUES.values())
        self._note(Started(job.key, now, seconds, weighed))
        if pulling := int(np.count_nonzero(start.missing)):
            self._pulling[job.key] = now + seconds, pulling
        self._caches.use(job.places, layers)
        self._recorded.add(self._image(job))
        return seconds

    def elapsed(self, cluster: SimulatedCluster, until: float) -> None:
        """Measure nothing."""

    def state(self) -> Any:
        """Return caches, images that are recorded, gangs that start, and the log."""
        return [
            self._caches.state(),
            sorted(self._recorded),
            [[key, *one] for key, one in self._pulling.items()],
            self.log,
        ]

    def restore(self, state: Any) -> None:
        """Go on with these."""
        caches, recorded, pulling, rows = state
        self._caches.restore(caches)
        self._recorded, self._pulling = set(recorded), {key: (until, nodes) for key, until, nodes in pulling}
        self.log, self._attempts = [], Counter()
        for key, begin, seconds, weighed in rows:
            self._note(Started(key, begin, seconds, tuple(weighed)))

    def _note(self, row: Started) -> None:
        self.log.append(row)
        self._attempts[row.key] += 1

    def _image(self, job: SimJob) -> str:
        of = self._settings.image.of
        return str(job.record.job_id if of == "job" else getattr(job.record, of))

    def _layers(self, job: SimJob) -> dict[str, float]:
        """Return GB of the layers that all images have, and of those of its own."""
        image = self._settings.image
        layers = {"shared": image.shared_gb, f"of {self._image(job)}": image.size_gb - image.shared_gb}
        return {layer: size for layer, size in layers.items() if size > 0.0}

    def _installs(self, job: SimJob, attempt: int) -> FloatArray:
        environment = self._settings.environment
        if environment.median_seconds == 0.0:
            return np.zeros(len(job.places))
        rng = np.random.default_rng((self._seed, job.key, attempt))
        return rng.lognormal(log(environment.median_seconds), environment.sigma, len(job.places))


def start_ups(settings: StartUpSettings | None, pool: Pool, *, seed: int) -> StartUps | None:
    """Return the start-ups of jobs that have places, which prefer nodes with their images; ``None`` = none waits."""
    if settings is None or not isinstance(pool, NodePool):
        return None
    found = StartUps(settings, len(pool.cluster), seed=seed)
    pool.node_costs += (found.missing,)
    return found
