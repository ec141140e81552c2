"""What several jobs have together, from what each has for every way to use the nodes; assignments are elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, product
from math import inf

Usage = tuple[int, ...]  # Nodes of each kind
Costs = Mapping[Usage, float]  # The least that one job can have for every way to use the kinds


def fits(usage: Usage, free: Usage) -> bool:
    """Whether so many nodes of each kind are free."""
    return all(used <= one for used, one in zip(usage, free, strict=True))


def cheapest_sum(costs: Sequence[Costs], weights: Sequence[float], free: Usage) -> float:
    """The least weighted sum of all jobs at once; infinite where they do not fit."""
    best: dict[Usage, float] = {(0,) * len(free): 0.0}
    for of_job, weight in zip(costs, weights, strict=True):
        new: dict[Usage, float] = {}
        for (before, cost), (own, more) in product(best.items(), of_job.items()):
            usage = tuple(a + b for a, b in zip(before, own, strict=True))
            if fits(usage, free):
                new[usage] = min(new.get(usage, inf), cost + weight * more)
        best = new
    return min(best.values(), default=inf)


def fewest_left_out(costs: Sequence[Costs], free: Usage) -> int:
    """How many jobs have to be left out at least."""
    return next(count for count in range(len(costs) + 1) if any(_rest_fits(costs, free, count)))


def _rest_fits(costs: Sequence[Costs], free: Usage, count: int) -> Iterator[bool]:
    for kept in combinations(costs, len(costs) - count):
        yield cheapest_sum(kept, [1.0] * len(kept), free) < inf
