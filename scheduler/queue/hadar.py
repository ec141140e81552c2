"""Hadar: GPUs have prices that rise with their use, and jobs take what pays most.

Published, of which the abstract is at hand (arXiv 2503.10918): scheduling by task on types of GPU, by a primal-dual
method.  The price of type r on node h, and that a job is as fast as its slowest task, are known of it::

    U_min (U_max / U_min) ^ (used / capacity)

All else here is ours.  The *utility* of an allocation is the GPUs of the job times what it reaches with it, relative to
what it reaches where it is on each type as often as there are GPUs of it.  U_max is the largest utility of a GPU that a
job has on the type, U_min a quarter of the least, so that an empty node pays for all.  At the end of each round prices
begin anew.  Those that are starting keep what they have.  Jobs are asked by the GPU time that they have left on their
best type, the least first: each takes what has the largest *payoff*, its utility less the prices of its GPUs, together
or apart, if that is above 0.  What is left over when all were asked goes, in the same order, to those whose payoff was
not: a round is soon over.  A job is on one type of GPU.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import inf

from scheduler.queue.dispatch import Allocation
from scheduler.queue.rounds import InRounds, RoundJob, RoundPlan, RoundState, RoundTurn


class Hadar(InRounds):
    """Jobs take the GPUs that pay most at prices that rise with use."""

    name = "hadar"
    summary = "in rounds: types of GPU at prices that rise with use; the largest payoff first (Hadar)"

    def turns(self, jobs: Sequence[RoundJob], cluster: RoundState) -> RoundPlan:
        """Give turns to the jobs that pay."""
        counts = cluster.units_by_type
        worth, left = dict[object, dict[Allocation, float]](), dict[object, float]()
        for job in jobs:
            ways = cluster.allocations(job)
            best = {name: max(way.speed for way in of_type) for name, of_type in ways.items()}
            mean = sum(count * best.get(name, 0.0) for name, count in counts.items()) / sum(counts.values())
            worth[job.key] = {way: way.units * way.speed / mean for of_type in ways.values() for way in of_type}
            fastest = max(worth[job.key], key=lambda way: way.speed)
            left[job.key] = cluster.work_left(job) * fastest.units / fastest.speed
        market = Market(cluster, worth.values())
        shortest_first = sorted(jobs, key=lambda job: (left[job.key], job.submitted, job.key))
        turns = dict[object, RoundTurn]()
        for job in jobs:
            if cluster.starting(job):
                market.take(job.allocation, job.places)
                turns[job.key] = RoundTurn(job, (job.allocation,))
        # first the jobs that pay, then those for which something is left over
        for floor in (0.0, -inf):
            for job in shortest_first:
                if job.key in turns or market.sold_out:
                    continue
                way = market.sell(worth[job.key], floor=floor, before=job.allocation if job.places else None)
                if way is not None:
                    # where nodes with room are not those that were priced, it lies on more of the same type
                    same = cluster.allocations(job)[way.gpu_types[0]]
                    turns[job.key] = RoundTurn(job, same[same.index(way) :])
        return RoundPlan([*turns.values()])


class Market:
    """Nodes with what is free of them while a round is planned, and the prices of that.

    :param worths: what its allocations are worth to each job.
    """

    def __init__(self, cluster: RoundState, worths: Iterable[Mapping[Allocation, float]]) -> None:
        self._total, self._nodes = cluster.total.tolist(), cluster.nodes_by_type
        self._free = list(self._total)
        self._left = dict(cluster.units_by_type)
        by_type: dict[str, list[float]] = {name: [] for name in self._nodes}
        for worth in worths:
            for way, value in worth.items():
                by_type[way.gpu_types[0]].append(value / way.units)
        self._bounds = {name: (min(values) / 4, max(values)) for name, values in by_type.items() if values}

    @property
    def sold_out(self) -> bool:
        """Whether nothing is free."""
        return not any(self._left.values())

    def sell(self, worth: Mapping[Allocation, float], *, floor: float, before: Allocation | None) -> Allocation | None:
        """Take the nodes of the allocation with the largest payoff above a floor, and return it; ``None`` = none has.

        :param before: what the job has: of equals it stays there.
        """
        best: tuple[float, bool] = (floor, True)
        chosen: tuple[Allocation, list[int]] | None = None
        for way, value in worth.items():
            roomy = [node for node in self._nodes[way.gpu_types[0]] if self._free[node] >= way.gpus]
            if self._left[way.gpu_types[0]] < way.units or len(roomy) < way.nodes:
                continue
            # those with least room, as placement takes them
            nodes = sorted(roomy, key=self._free.__getitem__)[: way.nodes]
            low, high = self._bounds[way.gpu_types[0]]
            used = (1.0 - self._free[node] / self._total[node] for node in nodes)
            payoff = value - sum(way.gpus * float(low * (high / low) ** share) for share in used)
            if (payoff, way == before) > best:
                best, chosen = (payoff, way == before), (way, nodes)
        if chosen is None:
            return None
        self.take(*chosen)
        return chosen[0]

    def take(self, way: Allocation, nodes: Iterable[int]) -> None:
        """Take the nodes of an allocation."""
        for node in nodes:
            self._free[node] -= way.gpus
        self._left[way.gpu_types[0]] -= way.units
