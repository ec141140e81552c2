"""Flows: the jobs that run share the links between domains max-min fairly, and their flows are hashed on them.

Each tier is shared out by itself, once among the reductions of all jobs and once among their pipelines; within one the
links of all closer tiers count too.  What a flow gets, and how many are on each link of the switches that it passes
(:class:`simulator.cost.models.Hashing`), says by what its groups are stretched; the step follows as in the hierarchical
model, with the stretch that each group really sees in place of that of a busy cluster.

A DP group that touches several domains of a tier reduces between them with w nodes of each side by side, w being the
nodes in the domain that has fewest: w lanes up and down at each domain that it touches.  A PP group has a lane at a
domain for each hop that leaves it, forward and backward passes taking turns.  Groups that ask for the same are one
flow.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np

from ground.errors import InvalidInput
from simulator.cost.calibration import PUBLISHED, Calibration
from simulator.cost.models import (
    Crossing,
    Hashing,
    Oversubscription,
    Tier,
    crossing_step,
    hashing_of,
    hops_of,
    oversubscription_of,
    tier_assumptions,
    tiers_of,
)
from simulator.cost.step import GPU_BANDWIDTH, PlacedJob, StepTime, flat_step, on_one_node, schedule_of
from topology.cluster import Cluster, FloatArray, IntArray

SAME = 1e-9  # Two levels of rates closer than this share of themselves are the same


@dataclass(frozen=True, slots=True)
class Flows:
    """Flows of one family of a job across one tier."""

    flow_of: IntArray  # shape [groups], the flow that a group is of; -1 = it stays inside a domain
    count: int  # number of flows
    links: IntArray  # shape [uses], the link of each use, numbered over the tier and all closer ones
    flows: IntArray  # shape [uses], the flow of each use
    lanes: FloatArray  # shape [uses], of all groups of the flow together


@dataclass(frozen=True, slots=True)
class TierDemand:
    """What a job asks of one tier."""

    crossing: Crossing
    dp: Flows
    pp: Flows


@dataclass(frozen=True, slots=True)
class _Network:
    """The links of a cluster: for each tier the capacity in GB/s of its own uplinks and those of closer tiers."""

    cluster: Cluster
    tiers: tuple[Tier, ...]
    capacity: tuple[FloatArray, ...]


@dataclass(slots=True)
class _Known:
    """What a job asks of the links, and its step with what it last got of them."""

    demands: tuple[TierDemand, ...]
    step: StepTime
    got: bytes = b""


class SharedFlows:
    """The model.  What it keeps of clusters and placed jobs only saves time."""

    name = "flows"
    summary = "the jobs that run share the links between domains max-min fairly"
    shares_links = True

    def __init__(
        self, calibration: Calibration = PUBLISHED, *, oversubscription: Oversubscription | None = None
    ) -> None:
        """:param oversubscription: of its tiers; ``None`` = one between minipods, shared but not oversubscribed."""
        self._calibration = calibration
        self._oversubscription = oversubscription
        self._network: _Network | None = None
        self._known: WeakKeyDictionary[PlacedJob, _Known] = WeakKeyDictionary()

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Return what has to be true, a sentence each."""
        return (
            "Every link between domains is shared max-min fairly; all that hangs on a switch shares its uplinks, and "
            "the GPUs of a node are below one switch.",
            "Jobs meet in the same phase of their steps: reductions share links with reductions, pipelines with "
            "pipelines, and all send all the time.",
            *tier_assumptions(self._oversubscription, self._calibration),
            *self._calibration.volume_assumptions,
        )

    def step_time(self, placed: PlacedJob, others: Sequence[PlacedJob] = ()) -> StepTime:
        """Return a step of a job while others run."""
        return self.step_times([placed, *others])[0]

    def relative_step_time(self, placed: PlacedJob, others: Sequence[PlacedJob] = ()) -> float:
        """Return by what the placement stretches the job while others run."""
        return self.step_time(placed, others).relative

    def step_times(self, running: Sequence[PlacedJob]) -> list[StepTime]:
        """Return a step of each of the jobs that run together.

        :raises InvalidInput: the jobs do not run on one cluster.
        """
        if not running:
            return []
        network = self._network_of(running)
        for placed in running:
            if placed in self._known:
                continue
            if placed.nodes.size == 1:
                self._known[placed] = _Known((), on_one_node(placed))
            else:
                # of one that stays inside the domains of all tiers nothing is asked, and nothing slows it
                around = schedule_of(placed, self._calibration).around
                demanded = demands_of(placed, network.tiers, around=around)
                self._known[placed] = _Known(demanded, flat_step(placed, self._calibration))
        jobs = [self._known[placed] for placed in running]
        crossing = [j for j, job in enumerate(jobs) if job.demands]
        if crossing:
            bandwidth = np.array([running[j].job.gpus_per_node * GPU_BANDWIDTH for j in crossing])
            demands = [jobs[j].demands for j in crossing]
            capacities = list(enumerate(network.capacity))
            collectives, sends = hashing_of(self._calibration)
            dp = [_stretches([of[i].dp for of in demands], c, bandwidth, collectives) for i, c in capacities]
            pp = [_stretches([of[i].pp for of in demands], c, bandwidth, sends) for i, c in capacities]
            for k, j in enumerate(crossing):
                placed, job = running[j], jobs[j]
                of_dp, of_pp = [tier[k] for tier in dp], [tier[k] for tier in pp]
                # a step is made anew if the job got something else than before
                got = b"".join(stretch.tobytes() for stretch in (*of_dp, *of_pp))
                if got != job.got:
                    crossings = [demand.crossing for demand in job.demands]
                    job.step, job.got = crossing_step(placed, crossings, of_dp, of_pp, self._calibration), got
        return [job.step for job in jobs]

    def _network_of(self, running: Sequence[PlacedJob]) -> _Network:
        """Return the network of the cluster on which all run, whatever is free or flagged there."""
        first = running[0].cluster
        if any(placed.cluster.levels is not first.levels for placed in running):
            raise InvalidInput("jobs that share links are placed on different clusters", fix="place all on one cluster")
        network = self._network
        if network is None or network.cluster.levels is not first.levels or network.cluster.gpus is not first.gpus:
            ratios = oversubscription_of(first, self._oversubscription)
            tiers = tiers_of(first, ratios, self._calibration)
            upwards = uplinks(first, ratios)
            capacity = [upwards[tier.level.name] for tier in tiers]
            network = _Network(first, tiers, tuple(np.concatenate(capacity[i:]) for i in range(len(tiers))))
            self._network = network
            self._known.clear()
        return network


def demands_of(placed: PlacedJob, tiers: Sequence[Tier], *, around: bool) -> tuple[TierDemand, ...]:
    """Return what a job asks of each tier, from the broadest to the closest; nothing at all if it crosses none.

    :param around: whether the last stage sends back to the first.
    """
    domains = [tier.level.domain_of[placed.nodes] for tier in tiers]
    if not any((of_cell != of_cell[0, 0]).any() for of_cell in domains):
        return ()
    # each with the number of its domains: a flow holds the links of all closer tiers too
    sized = [(of_cell, len(tier.level)) for of_cell, tier in zip(domains, tiers, strict=True)]
    demands = []
    for i, of_cell in enumerate(domains):
        crossing = Crossing.of(of_cell, placed.job.grid.dp_group)
        dp = np.hstack([_reduction(crossing, *at) for at in sized[i:]])
        pp = np.hstack([_hops(of_cell, *at, around=around) for at in sized[i:]])
        demands.append(TierDemand(crossing, _flows(dp), _flows(pp)))
    return tuple(demands)


def _reduction(crossing: Crossing, domains: IntArray, size: int) -> FloatArray:
    """Return lanes of DP groups that cross a tier, at each domain of that or a closer one.

    A closer domain carries the part of the lanes that its nodes are of the tier's domain.
    """
    group, count = crossing.dp_group, len(crossing.touched)
    tier, crosses = crossing.domains, crossing.touched[group] > 1
    here = np.zeros((count, int(tier.max()) + 1))
    np.add.at(here, (group, tier), 1.0)
    lanes = np.zeros((count, size))
    np.add.at(lanes, (group, domains), crosses * crossing.fewest[group] / here[group, tier])
    return lanes


def _hops(tier: IntArray, domains: IntArray, size: int, *, around: bool) -> FloatArray:
    """Return lanes of PP groups at each domain: hops across the tier that leave or enter it, whichever are more."""
    begin, end = hops_of(tier, around=around)
    source, target = hops_of(domains, around=around)
    row = np.broadcast_to(np.arange(len(tier))[:, None], begin.shape)
    out, into = np.zeros((2, len(tier), size))
    np.add.at(out, (row, source), begin != end)
    np.add.at(into, (row, target), begin != end)
    return np.maximum(out, into)


def _flows(lanes: FloatArray) -> Flows:
    """Return groups with the same lanes, shape [groups, links], made one flow."""
    crossing = np.flatnonzero(lanes.any(axis=1))
    flow_of = np.full(len(lanes), -1, dtype=np.int32)
    kinds, which, members = np.unique(lanes[crossing], axis=0, return_inverse=True, return_counts=True)
    flow_of[crossing] = which.ravel()
    flows, links = np.nonzero(kinds)
    return Flows(
        flow_of=flow_of,
        count=len(kinds),
        links=links.astype(np.int32),
        flows=flows.astype(np.int32),
        lanes=(kinds * members[:, None])[flows, links],
    )


def _stretches(
    asked: Sequence[Flows], capacity: FloatArray, bandwidth: FloatArray, hashing: Hashing
) -> list[FloatArray]:
    """Return by what each group of each job is slowed across one tier: for each job shape [groups], 1 = not at all.

    :param capacity: GB/s of each link.
    :param bandwidth: shape [jobs], GB/s of a node.
    """
    counts = np.array([flows.count for flows in asked])
    first = np.concatenate([[0], np.cumsum(counts)])
    most = np.repeat(bandwidth, counts)
    links = np.concatenate([flows.links for flows in asked])
    of_use = np.concatenate([flows.flows + first[j] for j, flows in enumerate(asked)])
    lanes = np.concatenate([flows.lanes for flows in asked])
    rates = max_min_rates(links, of_use, lanes, capacity=capacity, most=most)
    # flows for each link of the fullest switches that a flow passes; those of its own node are always below one switch
    load = np.bincount(links, weights=lanes * most[of_use], minlength=len(capacity)) / capacity
    fullest = most / GPU_BANDWIDTH / hashing.links
    np.maximum.at(fullest, of_use, load[links])
    # sharing a link evenly is in the rates already
    stretch = most / rates * hashing.slowdown(fullest) / np.maximum(1.0, fullest)
    return [
        np.append(stretch[first[j] : first[j + 1]], 1.0)[flows.flow_of]  # -1, the last: not slowed
        for j, flows in enumerate(asked)
    ]


def max_min_rates(
    links: IntArray, flows: IntArray, lanes: FloatArray, *, capacity: FloatArray, most: FloatArray
) -> FloatArray:
    """Return max-min fair rates of flows that share links; a flow of rate r takes ``lanes * r`` of a link.

    Progressive filling: all flows grow at the same pace until a link is full or a flow has all it can use; those stop,
    the others go on (Bertsekas and Gallager, "Data Networks", 2nd edition, section 6.5.2).

    :param links: shape [uses], the link of each use; ``flows`` its flow, ``lanes`` above 0.
    :param capacity: shape [links], above 0.
    :param most: shape [flows], the largest rate that each flow can use, above 0 and finite.
    :returns: shape [flows], in the unit of ``capacity`` and ``most``.
    """
    rates = np.zeros(len(most))
    grows = np.ones(len(most), dtype=bool)
    while grows.any():
        growing = np.bincount(links, weights=lanes * grows[flows], minlength=len(capacity))
        settled = np.bincount(links, weights=lanes * rates[flows], minlength=len(capacity))
        fills_at = np.full(len(capacity), np.inf)
        np.divide(np.maximum(capacity - settled, 0.0), growing, out=fills_at, where=growing > 0.0)
        level = min(float(fills_at.min(initial=np.inf)), float(most[grows].min()))
        stops = most <= level * (1.0 + SAME)
        stops[flows[fills_at[links] <= level * (1.0 + SAME)]] = True
        stops &= grows
        rates[stops] = np.minimum(level, most[stops])
        grows &= ~stops
    return rates


def uplinks(cluster: Cluster, ratios: Oversubscription) -> dict[str, FloatArray]:
    """Return what the links from each switch upwards carry together, in one direction.

    A switch has as much upwards as the links below it, divided by the oversubscription of its level.

    :param ratios: level -> ratio, above 0, of bandwidth below to bandwidth upwards; levels left out have 1.
    :returns: level -> shape [domains], GB/s.  An implicit domain has no links of its own: its entry is the sum of what
        hangs on it.
    """
    for name, ratio in ratios.items():
        if not ratio > 0.0:
            raise InvalidInput(f"{name} is {ratio}", where=name, fix="ratios are above 0")
        cluster.level_index(name)
    capacity: dict[str, FloatArray] = {}
    below = cluster.gpus.astype(np.float64) * GPU_BANDWIDTH
    hangs_on = cluster.levels[-1].domain_of if cluster.levels else np.zeros(0, dtype=np.int32)
    for level in reversed(cluster.levels):
        below = np.bincount(hangs_on, weights=below, minlength=len(level)).astype(np.float64)
        below /= np.where(level.implicit, 1.0, ratios.get(level.name, 1.0))
        capacity[level.name] = below
        hangs_on = level.parent_of
    return {level.name: capacity[level.name] for level in cluster.levels}
