"""Which filling each domain takes, so that the whole job's spread at the closer level is least.

A group's spread over racks is the sum over the domains it touches of the racks it touches there.  The score of the job
counts the worst group of each family, so domains are improved one at a time against the sums of all others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from scheduler.job import Family
from scheduler.placement.seating.parcel import Parcel
from topology.cluster import IntArray

_ROUNDS = 3  # Rounds of improvement; two settle nearly all instances


@dataclass(frozen=True, slots=True)
class Weights:
    """What spread at one level costs."""

    # family -> weight of the job's soft terms at this level: part of the job's objective, so it comes first
    soft: Mapping[Family, float]
    affinity: Mapping[Family, float]  # family -> alpha and beta: Eq. 2 one level down


@dataclass(frozen=True, slots=True)
class Filling:
    """One way to share a parcel out."""

    child: IntArray  # shape [blocks], the child of each block
    touched: Mapping[Family, IntArray]  # family -> shape [groups of the parcel], children each group touches
    used: int  # number of children in use


def measure(parcel: Parcel, child: IntArray) -> Filling:
    """Measure the spread of a filling."""
    child_of_cell, children = child[parcel.block_of_cell], len(parcel.capacities)
    touched = {family: groups.touched(child_of_cell, children) for family, groups in parcel.groups.items()}
    return Filling(child, touched, len(np.unique(child)))


def local_score(filling: Filling, weights: Weights) -> tuple[float, ...]:
    """Return how good a filling is when nothing is known of the other domains; less is better."""
    worst = {family: float(touched.max()) for family, touched in filling.touched.items()}
    mean = {family: float(touched.mean()) for family, touched in filling.touched.items()}
    return _rated(worst, mean, filling.used, weights)


def without_twins(fillings: Iterable[Filling]) -> list[Filling]:
    """Return the fillings that differ in spread; the first of each kind."""
    distinct: dict[tuple[bytes, ...], Filling] = {}
    for filling in fillings:
        distinct.setdefault(tuple(touched.tobytes() for touched in filling.touched.values()), filling)
    return list(distinct.values())


def choose_fillings(
    parcels: Sequence[Parcel],
    options: Sequence[Sequence[Filling]],
    *,
    weights: Weights,
    group_counts: Mapping[Family, int],
) -> list[Filling]:
    """Choose one filling for each parcel.

    :param options: for each parcel its fillings, the best by :func:`local_score` first.
    :param group_counts: family -> number of groups of the whole job.
    """
    chosen = [fillings[0] for fillings in options]
    totals = {family: np.zeros(count, dtype=np.int32) for family, count in group_counts.items()}
    for parcel, filling in zip(parcels, chosen, strict=True):
        _add(totals, parcel, filling, 1)
    open_parcels = [i for i, fillings in enumerate(options) if len(fillings) > 1]
    for _ in range(_ROUNDS):
        changed = False
        for i in open_parcels:
            _add(totals, parcels[i], chosen[i], -1)
            # without the parcel: what the other domains cost whatever it does
            worst = {family: int(total.max()) for family, total in totals.items()}
            best = min(options[i], key=lambda filling: _score(totals, worst, parcels[i], filling, weights))
            changed |= best is not chosen[i]
            chosen[i] = best
            _add(totals, parcels[i], best, 1)
        if not changed:
            break
    return chosen


def _add(totals: Mapping[Family, IntArray], parcel: Parcel, filling: Filling, sign: int) -> None:
    for family, total in totals.items():
        total[parcel.groups[family].ids] += sign * filling.touched[family]


def _score(
    totals: Mapping[Family, IntArray], others: Mapping[Family, int], parcel: Parcel, filling: Filling, weights: Weights
) -> tuple[float, ...]:
    """Return the score of the whole job with this filling; ``others`` is the worst spread without the parcel."""
    worst, mean = {}, {}
    for family, total in totals.items():
        touched = filling.touched[family]
        worst[family] = float(max(others[family], int((total[parcel.groups[family].ids] + touched).max())))
        mean[family] = float(touched.sum()) / len(total)
    return _rated(worst, mean, filling.used, weights)


def _rated(
    worst: Mapping[Family, float], mean: Mapping[Family, float], used: int, weights: Weights
) -> tuple[float, ...]:
    """Return the score of spreads: soft terms, Eq. 2 of the worst, then of the mean, then touches and children."""

    def weighed(by: Mapping[Family, float], spreads: Mapping[Family, float]) -> float:
        return sum(weight * spreads[family] for family, weight in by.items())

    return (
        weighed(weights.soft, worst),
        weighed(weights.affinity, worst),
        weighed(weights.affinity, mean),
        sum(mean.values()),
        used,
    )
