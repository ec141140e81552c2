"""How long a job waits for nodes, with spares, where nodes fail one by one and whole domains (a leaf, a feed) at once.

The job runs while no more nodes are away than there are spares; while it waits nothing fails.  Spares in waiting are
taken not to fail.  With single nodes alone the nodes away are calls in a telephone exchange of S + 1 lines, and the
share of time the job waits is Erlang's loss formula B(S + 1, a), a = N r T with T the mean repair time, whatever the
distribution of repair times (the M/G/c/c queue is insensitive to it).

With domains nothing like it holds, as a domain takes more nodes than spares may be left, and brings all back at once.
The share follows from the Markov chain of single nodes away (the level, up or down by one) and domains away of each
kind (the phase), with exponential repairs: level by level from the top, each level is the one below times a matrix.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import exp, prod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
else:
    Floats = Any

RARE = 1e-4  # Probability below which so many domains are not away at once
WIDE = 8.0  # Standard deviations of the single nodes away beyond which there are none


@dataclass(frozen=True, slots=True, eq=False)
class Outages:
    """One kind of failure, at several points of uncertain inputs."""

    nodes: int
    """Nodes of the job that it takes away at once."""
    failures: Floats
    """Shape [points]: failures per second, of all of the job while it runs."""
    repair: Floats
    """Shape [points]: mean seconds until they are back."""

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
    found: Floats = np.clip(waits / total, 0.0, 1.0)
    return found


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
