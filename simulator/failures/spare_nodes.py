"""How many spares a job needs: the chance that a failed node finds no replacement.

A job of N nodes and its S spares: failures come at N r while it runs, a failed node is away for its repair, a spare
takes its place at once, and without one the job waits until a node is back.  So the nodes that are away are calls in a
telephone exchange of S + 1 lines: with all lines busy the job stands still and nothing fails.  The share of time it
stands is Erlang's loss formula B(S + 1, a), a = N r T with T the mean repair time, whatever the distribution of repair
times (the M/G/c/c queue is insensitive to it).  Spares in waiting are taken not to fail.

Multiplied with the ETTR of a job that always finds a replacement this is the ETTR with S spares.
"""

from __future__ import annotations

from simulator.failures.expected_ettr import Losses, exact_ettr, first_order_ettr
from topology.errors import Infeasible

MOST = 100_000  # Spares beyond which nobody looks


def waiting_share(spares: int, load: float) -> float:
    """Return B(S + 1, a): share of time in which a job waits for a node to be repaired.

    :param spares: S, 0 or more.
    :param load: a, nodes that would be away on average if the job never waited: failures per second times repair.
    """
    blocked = 1.0
    for line in range(1, spares + 2):
        blocked = load * blocked / (line + load * blocked)
    return blocked


def ettr_with_spares(losses: Losses, *, spares: int, repair: float) -> float:
    """Return first-order ETTR times the share of time in which the job is not waiting for a repair.

    :param repair: mean seconds until a failed node is back.
    """
    return first_order_ettr(losses) * (1.0 - waiting_share(spares, losses.failures * repair))


def exact_ettr_with_spares(losses: Losses, *, spares: int, repair: float) -> float:
    """Return the same on the exact ETTR."""
    return exact_ettr(losses) * (1.0 - waiting_share(spares, losses.failures * repair))


def spares_for(target: float, losses: Losses, *, repair: float) -> int:
    """Return the fewest spares with which the (first-order) ETTR is at least the target.

    :raises Infeasible: not even a replacement always at hand reaches it.
    """
    ceiling = first_order_ettr(losses)
    if ceiling < target:
        raise Infeasible(
            f"no number of spares gives an ETTR of {target:.3f}: restarts and checkpoints alone leave {ceiling:.3f}",
            where="--target",
            fix="lower the target, shorten the restart or the checkpoint write, or find a checkpoint interval nearer "
            "to sqrt(2 w / (N r))",
        )
    load, blocked = losses.failures * repair, 1.0
    for spares in range(MOST):
        blocked = load * blocked / (spares + 1 + load * blocked)
        if ceiling * (1.0 - blocked) >= target:
            return spares
    raise Infeasible(
        f"more than {MOST:,} spares would be needed", where="--target", fix="lower the target or shorten the repair"
    )
