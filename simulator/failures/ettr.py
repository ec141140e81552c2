"""What failures leave of a job's time: the ETTR by formula and by Monte Carlo, and how often spares run out.

The ETTR is the share of wall-clock time that trains steps which are not lost again; that of a simulated run is
:mod:`simulator.results`.  With N nodes that fail r times per node and second, a restart of u0 seconds, a checkpoint
every d productive seconds that takes w seconds to write, and a replacement always at hand:

- first order (arXiv 2410.21680, section IV): ``(1 - N r (u0 + d/2)) / (1 + w/d)``: a failure costs the restart and half
  an interval; right while failures are rare beside restart and interval, and below 0 where they are not;
- exact for failures that come at random (a Poisson process, also while writing and restarting), after Daly, "A higher
  order estimate of the optimum checkpoint interval", 2006: ``L d exp(-L u0) / (exp(L (d + w)) - 1)`` with L = N r.

The Monte Carlo goes second by second and assumes neither that failures are rare, nor that none hits a restart, nor that
a long run has settled.  A failure takes a node, or all of a domain at once.  The job trains in cycles of ``interval``
productive seconds and ``write`` seconds; a failure at any time throws away what was done since the last checkpoint, and
the restart begins again when it is hit itself.

With spares the job runs while no more nodes are away than there are spares; while it waits nothing fails.  Spares in
waiting are taken not to fail.  With single nodes alone the nodes away are calls in a telephone exchange of S + 1 lines,
and the share of time the job waits is Erlang's loss formula B(S + 1, a), a = N r T with T the mean repair time,
whatever the distribution of repair times (the M/G/c/c queue is insensitive to it).  With domains (a leaf, a feed)
nothing like it holds, as a domain takes more nodes than spares may be left, and brings all back at once.  The share
follows from the Markov chain of single nodes away (the level, up or down by one) and domains away of each kind (the
phase), with exponential repairs: level by level from the top, each level is the one below times a matrix.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import product
from math import exp, expm1, inf, prod, sqrt
from typing import TYPE_CHECKING, Any, TypeAlias

from ground.errors import InvalidInput
from simulator.confidence import half_width

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
else:
    Floats = Any


@dataclass(frozen=True, slots=True)
class Losses:
    """What a job loses to failures and to its insurance against them.

    :raises InvalidInput: a time or rate below 0, an interval not above 0.
    """

    failures: float  # per second, of all nodes of the job: N r
    restart: float  # u0, seconds from a failure until the job trains again
    write: float  # w, seconds that writing a checkpoint keeps the job from training
    interval: float  # d, productive seconds between checkpoints; inf = none is ever written

    def __post_init__(self) -> None:
        for name in ("failures", "restart", "write"):
            if not 0.0 <= getattr(self, name) < inf:
                raise InvalidInput(f"{name} is {getattr(self, name)}", where=name, fix=f"{name} is 0 or more")
        if not self.interval > 0.0:
            raise InvalidInput(f"the interval is {self.interval}", where="interval", fix="an interval is above 0")

    def trained(self, wall: float) -> float:
        """Return productive seconds in so many of training and writing: what counts where nothing is lost."""
        if self.interval == inf:
            return wall
        whole, rest = divmod(wall, self.interval + self.write)
        return whole * self.interval + min(rest, self.interval)

    def saved(self, wall: float) -> float:
        """Return productive seconds that the last finished checkpoint holds: what a failure leaves."""
        return 0.0 if self.interval == inf else wall // (self.interval + self.write) * self.interval


def best_interval(failures: float, write: float) -> float:
    """Return d* = sqrt(2 w / (N r)), seconds: Young's interval, the best of the first-order formula.

    :raises InvalidInput: ``write`` is not above 0: then shorter is always better.
    """
    if not write > 0.0:
        raise InvalidInput(f"a checkpoint takes {write} seconds", where="write", fix="give more than 0 seconds")
    return sqrt(2.0 * write / failures) if failures > 0.0 else inf


def first_order_ettr(losses: Losses) -> float:
    """Return ``(1 - N r (u0 + d/2)) / (1 + w/d)``, not below 0."""
    if losses.failures == 0.0:
        return 1.0 / (1.0 + losses.write / losses.interval)
    lost = losses.failures * (losses.restart + losses.interval / 2.0)
    return max(0.0, 1.0 - lost) / (1.0 + losses.write / losses.interval)


def exact_ettr(losses: Losses) -> float:
    """Return ``L d exp(-L u0) / (exp(L (d + w)) - 1)``: exact where failures are a Poisson process."""
    rate, interval = losses.failures, losses.interval
    if rate == 0.0:
        return 1.0 / (1.0 + losses.write / interval)
    if rate * (interval + losses.write) > 700.0:
        return 0.0
    return rate * interval * exp(-rate * losses.restart) / expm1(rate * (interval + losses.write))


RepairTimes: TypeAlias = "Callable[[np.random.Generator], float]"  # Draws the seconds of one repair


@dataclass(frozen=True, slots=True)
class DomainFailures:
    """Failures that take several nodes away at once, which come back together."""

    share: float  # of all failures of the job
    nodes: int
    repair: RepairTimes


@dataclass(frozen=True, slots=True)
class EttrEstimate:
    """A mean over independent runs."""

    mean: float
    half_width: float  # of its 95 % confidence interval; 0 with a single run
    runs: int
    failures: float  # mean failures of a run
    waiting: float  # mean share of time in which the job waited for a repair


def simulate_ettr(
    losses: Losses,
    *,
    span: float,
    runs: int,
    seed: int,
    spares: int | None = None,
    repair: RepairTimes | None = None,
    domains: Sequence[DomainFailures] = (),
) -> EttrEstimate:
    """Return ETTR of a job over independent runs of so many seconds each.

    :param spares: ``None`` = a replacement is always at hand; else ``repair`` draws how long nodes are away.
    :param domains: which failures take more than a node; those that are left take one.
    """
    import numpy as np

    streams = np.random.SeedSequence(seed).spawn(runs)
    made = [
        _run(losses, span, np.random.default_rng(stream), spares=spares, repair=repair, domains=domains)
        for stream in streams
    ]
    productive, waiting, failures = np.array(made, dtype=np.float64).T
    ettr = productive / span
    return EttrEstimate(
        mean=float(np.mean(ettr)),
        half_width=half_width(ettr.tolist()),
        runs=runs,
        failures=float(np.mean(failures)),
        waiting=float(np.mean(waiting / span)),
    )


def exponential(mean: float) -> RepairTimes:
    """Return repairs that end at random, of a mean in seconds."""
    return lambda rng: float(rng.exponential(mean))


def _run(
    losses: Losses,
    span: float,
    rng: np.random.Generator,
    *,
    spares: int | None,
    repair: RepairTimes | None,
    domains: Sequence[DomainFailures],
) -> tuple[float, float, int]:
    """Return productive seconds that were not lost, seconds without enough nodes, and failures of one run.

    It goes from failure to failure; between two of them everything is counted, not stepped through.
    """
    now = productive = waiting = 0.0
    trains_from = 0.0
    failures = 0
    away: list[tuple[float, int]] = []  # when they are back, and how many
    missing = 0
    while True:
        up = float(rng.exponential(1.0 / losses.failures)) if losses.failures > 0.0 else span
        failed = min(now + up, span)
        trained = max(0.0, failed - trains_from)
        productive += losses.trained(trained) if failed == span else losses.saved(trained)
        if failed == span:
            return productive, waiting, failures
        now, failures = failed, failures + 1
        if spares is not None and repair is not None:
            nodes, times = 1, repair
            at = float(rng.random()) if domains else 1.0
            for kind in domains:
                at -= kind.share
                if at < 0.0:
                    nodes, times = kind.nodes, kind.repair
                    break
            heappush(away, (now + times(rng), nodes))
            missing += nodes
            # which is back by now, and of which the job waits for
            while away and (away[0][0] <= now or missing > spares):
                back, nodes = heappop(away)
                missing -= nodes
                if back > now:
                    back = min(back, span)
                    waiting, now = waiting + back - now, back
        trains_from = now + losses.restart


RARE = 1e-4  # Probability below which so many domains are not away at once
WIDE = 8.0  # Standard deviations of the single nodes away beyond which there are none


@dataclass(frozen=True, slots=True, eq=False)
class Outages:
    """One kind of failure, at several points of uncertain inputs."""

    nodes: int  # Nodes of the job that it takes away at once
    failures: Floats  # Shape [points]: failures per second, of all of the job while it runs
    repair: Floats  # Shape [points]: mean seconds until they are back

    @property
    def away(self) -> Floats:
        """Shape [points]: how many failures of the kind would be in repair on average if the job never waited."""
        return self.failures * self.repair


def erlang_b(most: int, load: Floats) -> Iterator[Floats]:
    """Yield B(S + 1, a) for S = 0 .. most: the share of time a job with S spares waits, failures of single nodes alone.

    :param load: a, nodes that would be away on average if the job never waited; any shape, which the shares have too.
    """
    blocked = 1.0 + 0.0 * load
    for line in range(1, most + 2):
        blocked = load * blocked / (line + load * blocked)
        yield blocked


def waiting_shares(spares: Sequence[int], single: Outages, domains: Sequence[Outages]) -> Floats:
    """Return shape [points, numbers of spares]: the share of time in which the job waits for nodes.

    :param spares: numbers of spares, in rising order.
    """
    import numpy as np

    if not domains:
        wanted = set(spares)
        shares = (share for number, share in enumerate(erlang_b(spares[-1], single.away)) if number in wanted)
        return np.stack([*shares], axis=-1)
    return np.stack([_waiting(number, single, domains) for number in spares], axis=-1)


def _waiting(spares: int, single: Outages, domains: Sequence[Outages]) -> Floats:
    """Return shape [points]: the share of time in which the job with so many spares waits."""
    import numpy as np

    phases = _phases(spares, domains)
    gone = np.array([sum(k * kind.nodes for k, kind in zip(phase, domains, strict=True)) for phase in phases])
    largest = float(single.away.max())
    top = min(spares + 1, int(largest + WIDE * largest**0.5 + WIDE))
    rate, back = single.failures[:, None, None], 1.0 / single.repair[:, None, None]
    identity = np.eye(len(phases))
    # from level i - 1 to level i: what level i is, times the one below
    ratios: list[Floats] = []
    for level in range(top, -1, -1):
        running = gone + level <= spares
        moves = _phase_moves(phases, domains, running)
        up = rate * np.diag(running.astype(float)) if level < top else 0.0 * rate * identity
        leaves = moves.sum(axis=2)[:, None] * identity + up + level * back * identity
        # what goes up from here comes back through the level above, which its ratio says
        returns = ratios[-1] * ((level + 1) * back) if ratios else 0.0
        inner = leaves - moves - returns
        if level == 0:
            break
        below = rate * np.diag((gone + level - 1 <= spares).astype(float))
        ratios.append(below @ np.linalg.inv(inner))
    # the lowest level is fixed by balance but for a factor: in place of one equation its sum is 1
    inner[:, :, -1] = 1.0
    last = np.broadcast_to(identity[-1], (len(inner), len(phases)))
    share = np.linalg.solve(inner.transpose(0, 2, 1), last[..., None])[..., 0]
    waits, total = share[:, gone > spares].sum(axis=1), share.sum(axis=1)
    for level, ratio in enumerate(reversed(ratios), start=1):
        share = np.einsum("np,npq->nq", share, ratio)
        waits, total = waits + share[:, gone + level > spares].sum(axis=1), total + share.sum(axis=1)
    shares: Floats = np.clip(waits / total, 0.0, 1.0)
    return shares


def _phases(spares: int, domains: Sequence[Outages]) -> list[tuple[int, ...]]:
    """Return the numbers of domains away, by kind, that running allows and that are not too rare together (Poisson)."""
    tails = []
    for kind in domains:
        load = float(kind.away.max())
        term = exp(-load)
        # probability of at least so many away; as many as fail while the job still runs
        some = [1.0]
        for number in range(1, spares // kind.nodes + 2):
            some.append(some[-1] - term)
            term *= load / number
            if some[-1] < RARE:
                break
        tails.append(some)

    def likely(phase: tuple[int, ...]) -> bool:
        return prod(some[number] for number, some in zip(phase, tails, strict=True)) >= RARE

    return [phase for phase in product(*(range(len(some)) for some in tails)) if not any(phase) or likely(phase)]


def _phase_moves(phases: Sequence[tuple[int, ...]], domains: Sequence[Outages], running: NDArray[np.bool_]) -> Floats:
    """Return shape [points, phases, phases]: rates from a phase to others; domains fail only while the job runs."""
    import numpy as np

    place = {phase: i for i, phase in enumerate(phases)}
    moves = np.zeros((len(domains[0].failures), len(phases), len(phases)))
    for phase, at in place.items():
        for i, kind in enumerate(domains):
            more = (*phase[:i], phase[i] + 1, *phase[i + 1 :])
            if running[at] and more in place:
                moves[:, at, place[more]] = kind.failures
            if phase[i]:
                fewer = (*phase[:i], phase[i] - 1, *phase[i + 1 :])
                moves[:, at, place[fewer]] = phase[i] / kind.repair
    return moves
