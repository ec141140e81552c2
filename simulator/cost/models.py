"""Models of communication in which jobs do not slow each other, from the least known to the most.

``none`` and ``spread`` know no volumes; ``anchored`` knows what was measured for the job's kind; ``hierarchical`` knows
the tiers of the network and the volumes; ``alpha-beta`` reads a table of bandwidths for each size and spread.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import isinf
from typing import Literal, Self

import numpy as np
import numpy.typing as npt

from ground.errors import InvalidInput
from scheduler.job import DEFAULT_ALPHA, DEFAULT_SPREAD_COST
from scheduler.objective import spread
from simulator.cost.calibration import PUBLISHED, Calibration
from simulator.cost.step import (
    Communication,
    Independent,
    PlacedJob,
    StepTime,
    flat_step,
    ideal_communication,
    pipeline_seconds,
    reduction_seconds,
    schedule_of,
    step_time,
)
from topology.cluster import Cluster, FloatArray, IntArray, Level


def no_cost(calibration: Calibration = PUBLISHED) -> Independent:
    """Return the model in which communication costs the same wherever a job lies."""
    return Independent(
        "none",
        "place has no effect; slow nodes cost what they cost in all models",
        (
            "A job's place has no effect on its step, but for the slowest of its nodes.",
            *calibration.compute_assumptions,
        ),
        lambda placed: flat_step(placed, calibration),
    )


def spread_counters(calibration: Calibration = PUBLISHED) -> Independent:
    """Return the paper's objective as a price: each unit above the least costs the same share of the ideal step."""
    cost = calibration.spread_cost

    def price(placed: PlacedJob) -> StepTime:
        job, flat = placed.job, flat_step(placed, calibration)
        domains = placed.cluster.level(job.level).domain_of[placed.nodes]
        groups, unit = job.grid.groups, flat.ideal * cost
        return replace(
            flat,
            dp=flat.dp + unit * job.alpha * (spread(*groups["dp"].paired(domains)) - 1),
            pp=flat.pp + unit * job.beta * (spread(*groups["pp"].paired(domains)) - 1),
        )

    return Independent(
        "spread",
        "Eq. 2 as a price: alpha and beta weigh the spread of DP and PP groups",
        (
            f"Each further domain that a DP group touches costs alpha times {cost:.2%} of the step, each that a PP "
            f"group touches beta times as much, without end.",
            f"That share is what a collective loses for each further minipod, when communication is "
            f"{calibration.communication_share:.0%} of the step.",
            "Volumes, sizes and who else runs make no difference.",
            *calibration.compute_assumptions,
        ),
        price,
    )


def anchored(calibration: Calibration = PUBLISHED) -> Independent:
    """Return the model of what was measured between two minipods for the job's kind, drawn out by the losses of NCCL.

    With S and R the DP and PP spread, j_dp and j_pp the share of its step that the spread of each family over two
    minipods cost a job of the kind (:class:`scheduler.affinity.Record`), and lambda the time that a loss of bandwidth
    adds

        step / ideal step = 1 + j_dp * lambda_c(S) / lambda_c(2) + j_pp * lambda_p(R) / lambda_p(2)

    ``lambda(r) = 1 / (1 - l(r)) - 1``, l the loss of collectives for DP and of send-recv for PP groups.  A job brings
    its amplitudes along: together they are its ``spread_cost``, and alpha is the part of j_dp in it.  So over two
    minipods a placement with a smaller objective is a faster step, by as much as the objective says.
    """

    def price(placed: PlacedJob) -> StepTime:
        job, flat = placed.job, flat_step(placed, calibration)
        domains = placed.cluster.level(job.level).domain_of[placed.nodes]
        groups, unit = job.grid.groups, flat.ideal * job.spread_cost
        dp = calibration.collective_curve.of_two(spread(*groups["dp"].paired(domains)))
        pp = calibration.send_recv_curve.of_two(spread(*groups["pp"].paired(domains)))
        return replace(flat, dp=flat.dp + unit * job.alpha * dp, pp=flat.pp + unit * job.beta * pp)

    return Independent(
        "anchored",
        "what spread was measured to cost jobs of the kind, drawn out by the losses of NCCL",
        (
            "What the spread of DP and of PP groups over two domains costs is what aligning them was measured to gain "
            "a job of the kind, at 96 GPUs.",
            'A job that does not say what it trains costs what the record "24B MoE on H800" has, '
            f"{DEFAULT_SPREAD_COST:.2%} of the step for both, of which alpha, {DEFAULT_ALPHA:g} unless it says, is for "
            "DP groups.",
            f"Over more domains it grows as the time that NCCL loses: up to {calibration.collective_loss:.0%} of the "
            f"bandwidth of collectives, {calibration.send_recv_loss:.0%} of send-recv, evenly more with each domain "
            f"up to {calibration.full_loss_from}.",
            "Volumes, who else runs and how a group is cut make no difference.",
            *calibration.compute_assumptions,
        ),
        price,
    )


LOADS = (0.0, 1 / 16, 1 / 8, 1 / 4, 3 / 8, 1 / 2, 3 / 4, 1.0, 1.5, 2.0, 3.0, 4.0, 8.0)
"""Flows for each link for which the expectation is found; it is linear in between, and in proportion beyond."""

HASHES = 2**20
"""Hashes that are drawn for a table: the mean is within 1 % of what it is with any number (one standard error)."""


def slowest_flow(counts: list[int], *, links: int, sub_flows: int, draws: int) -> FloatArray:
    """Return by what the slowest of so many flows is slowed, at least 1, a mean over seeded draws: shape [counts].

    :param counts: numbers of flows, ascending: those of one count are the first of the next, so the mean never falls.
    :param sub_flows: q of each flow, each as fast as the q-th part of a link and hashed by itself.
    """
    rng = np.random.default_rng(0)
    chosen = rng.integers(0, links, (draws, counts[-1], sub_flows), dtype=np.int32)
    chosen += np.arange(draws, dtype=np.int32)[:, None, None] * links  # each draw has links of its own
    slowed = np.ones(len(counts))
    for i, count in enumerate(counts):
        if count:
            here = chosen[:, :count]
            load = np.bincount(here.ravel(), minlength=draws * links) / sub_flows
            slowed[i] = np.maximum(load[here].mean(axis=2).max(axis=1), 1.0).mean()
    return slowed


@lru_cache(maxsize=64)
def _slowdowns(links: int, sub_flows: int) -> tuple[FloatArray, FloatArray]:
    """Return loads in flows for each link, and by what flows are slowed at each."""
    counts = sorted({round(load * links) for load in LOADS})
    draws = max(1, HASHES // (counts[-1] * sub_flows))
    return np.array(counts) / links, slowest_flow(counts, links=links, sub_flows=sub_flows, draws=draws)


@dataclass(frozen=True, slots=True)
class Hashing:
    """How flows of one kind are hashed: what a shared tier loses although it carries as much upwards as downwards.

    A switch sends each sub-flow up one of its links, whichever its hash says, and all that are on a link share it
    evenly.  A flow of q sub-flows sends over one after the other, so it is slowed by the mean load of the links that
    they are on, and a step waits for the slowest of n flows on k links.  Nothing in it is fitted: n and k are ports of
    a switch.  Fixed shares of the sub-flows would lose more, 35 % where 16 % are lost with 32 flows of 16 on 32 links;
    measured were 17 %.
    """

    links: int  # of a switch upwards, each as fast as a flow
    sub_flows: float  # of each flow; infinity = spread evenly over all links, packet by packet

    def slowdown(self, load: FloatArray | float) -> FloatArray:
        """Return by what flows are slowed that load the links of a switch so much; any shape.

        :param load: flows for each link, at least 0; where they are more than links, they share these besides.
        """
        if isinf(self.sub_flows):
            return np.maximum(1.0, load)
        loads, slower = _slowdowns(self.links, int(self.sub_flows))
        return np.asarray(np.interp(load, loads, slower) * np.maximum(1.0, np.asarray(load) / loads[-1]))


Oversubscription = Mapping[str, float]
"""Level -> ratio of bandwidth below its switches to bandwidth upwards, 1 = as many links up as down; across levels left
out nothing is slowed.  As for :func:`simulator.cost.shared_flows.uplinks`."""


@dataclass(frozen=True, slots=True)
class Tier:
    """One such level, and by what is slower what leaves a domain of it when every node below sends at once."""

    level: Level
    dp: float  # reductions, and what experts send
    pp: float  # transfers between stages


@dataclass(frozen=True, slots=True)
class Crossing:
    """Where the groups of a placed job lie, and what its DP groups touch, at one level."""

    domains: IntArray  # shape [rows, columns], domain of each cell
    dp_group: IntArray  # shape [rows, columns], DP group of each cell
    touched: IntArray  # shape [DP groups], number of domains of each DP group
    fewest: IntArray  # shape [DP groups], cells in the domain that has fewest of them, at least 1

    @classmethod
    def of(cls, domains: IntArray, dp_group: IntArray) -> Self:
        """Count what each DP group touches."""
        groups, width = int(dp_group.max()) + 1, int(domains.max()) + 1
        pairs = domains.astype(np.int64) + dp_group.astype(np.int64) * width
        touched, cells = np.unique(pairs.ravel(), return_counts=True)
        group = touched // width
        fewest = np.full(groups, domains.shape[0], dtype=np.int32)
        np.minimum.at(fewest, group, cells.astype(np.int32))
        return cls(domains, dp_group, np.bincount(group, minlength=groups).astype(np.int32), fewest)


def oversubscription_of(cluster: Cluster, given: Oversubscription | None) -> Oversubscription:
    """Return ratios that are given; else one shared tier without any, the broadest level with more than one domain."""
    if given is not None:
        return given
    return {cluster.default_level().name: 1.0} if cluster.levels else {}


def tier_assumptions(given: Oversubscription | None, calibration: Calibration) -> tuple[str, str]:
    """Return what tiers are shared, and how they hash flows, in two sentences."""
    of_links = f"A switch hashes flows onto {calibration.uplinks} links as fast as a GPU's, a send as "
    hashing = (
        f"{of_links}{calibration.send_recv_flows:g} sub-flow and a collective as {calibration.collective_flows:g}; the "
        "slowest flow sets the pace."
    )
    if given is None:
        return "Minipods have as much bandwidth upwards as below; closer levels slow nothing.", hashing
    words = ", ".join(f"{level} {ratio:g}" for level, ratio in given.items()) or "no level slows anything"
    return f"Oversubscription: {words}.", hashing


def tiers_of(cluster: Cluster, oversubscription: Oversubscription, calibration: Calibration) -> tuple[Tier, ...]:
    """Return the shared levels, from the broadest to the closest.

    :raises UnknownName: no level is called that.
    :raises InvalidInput: a ratio below 1.
    """
    for name, ratio in oversubscription.items():
        cluster.level(name)
        if not ratio >= 1.0:
            fix = "a ratio is at least 1; 1 = none"
            raise InvalidInput(f"the oversubscription of {name} is {ratio}", where=name, fix=fix)
    tiers: list[Tier] = []
    load = 1.0  # flows for each link when all nodes below send
    for level in reversed(cluster.levels):
        if level.name in oversubscription:
            load *= oversubscription[level.name]
            tiers.append(Tier(level, *(float(hashing.slowdown(load)) for hashing in hashing_of(calibration))))
    return tuple(reversed(tiers))


def hashing_of(calibration: Calibration) -> tuple[Hashing, Hashing]:
    """Return how collectives and how sends are hashed on the links of a shared tier."""
    flows = (calibration.collective_flows, calibration.send_recv_flows)
    collectives, sends = (Hashing(calibration.uplinks, flow) for flow in flows)
    return collectives, sends


def hops_of(cells: IntArray, *, around: bool) -> tuple[IntArray, IntArray]:
    """Return the two ends of each hop of each PP group, twice shape [rows, hops], of cells of shape [rows, columns].

    :param around: with the hop from the last column back to the first (interleaved schedule).
    """
    if around and cells.shape[1] > 1:
        return cells, np.roll(cells, -1, axis=1)
    return cells[:, :-1], cells[:, 1:]


def expert_spread(placed: PlacedJob, domains: IntArray) -> int:
    """Return the largest number of domains that a group of experts touches; 1 if none of them sends between nodes.

    :param domains: shape [rows, columns], domain of each cell.
    """
    return spread(*placed.job.grid.groups["ep"].paired(domains)) if placed.traffic.ep else 1


def crossing_step(
    placed: PlacedJob,
    crossings: Sequence[Crossing],
    dp: Sequence[FloatArray | float],
    pp: Sequence[FloatArray | float],
    calibration: Calibration,
) -> StepTime:
    """Return the step of a job with groups that are slowed where they cross tiers, from the broadest to the closest.

    :param dp: by what DP groups are slowed at each tier: shape [DP groups] or one number.  A broader tier is taken as
        at least as slow as a closer one.  Experts are slowed as the slowest of them.
    :param pp: the same of PP groups, shape [rows].
    """
    traffic, schedule = placed.traffic, schedule_of(placed, calibration)
    ideal = ideal_communication(placed, schedule, calibration)
    excess: FloatArray = np.zeros(1)
    closer: FloatArray = np.ones(1)
    experts = 0.0
    slowed = np.ones(hops_of(placed.nodes, around=schedule.around)[0].shape)
    for crossing, of_groups, of_rows in reversed(list(zip(crossings, dp, pp, strict=True))):
        touched = crossing.touched
        stretch = np.where(touched > 1, np.maximum(of_groups, closer), closer)
        excess = excess + (touched - 1) / touched * (stretch - closer) / crossing.fewest
        if traffic.ep:
            domains = expert_spread(placed, crossing.domains)
            experts += (domains - 1) / domains * float(stretch.max() - closer.max())
        closer = stretch
        source, target = hops_of(crossing.domains, around=schedule.around)
        of_hops = np.broadcast_to(np.reshape(of_rows, (-1, 1)), slowed.shape)
        slowed = np.where(source != target, np.maximum(slowed, of_hops), slowed)
    hops = slowed * traffic.pp / placed.bandwidth
    actual = Communication(
        dp=ideal.dp + traffic.dp / placed.bandwidth * float(excess.max()),
        pp=pipeline_seconds(hops, schedule, calibration.transfer_exposure),
        ep=ideal.ep * (1.0 + experts),
    )
    return step_time(placed, schedule, actual, ideal, calibration)


def hierarchical(
    calibration: Calibration = PUBLISHED, *, oversubscription: Oversubscription | None = None
) -> Independent:
    """Return the model in which what crosses a shared tier is slowed as if every node below sent at once.

    A shared tier is a level of the tree whose switches hash flows onto links upwards, of which there may be fewer than
    below.  A send waits for the flows on its link, a collective of many sub-flows for their mean (:class:`Hashing`): by
    so much, the stretch rho, each is slower that leaves a domain.  A DP group of n nodes with k domains of a level, w
    nodes in the one with fewest, reduces in turns: inside the domains, between them with w nodes of each side by side,
    inside again.  With bandwidth B of a node each half of it takes

        T = V / B * [ (n - 1) / n + sum over tiers of (k - 1) / k * (rho - rho of the next closer tier) / w ]

    which for equal domains is what the turns take, and for rho 1 the flat ``(n - 1) / n * V / B``.  A hop of a PP group
    is slowed as much as the broadest boundary that it crosses says; of what experts send, the part that crosses it.

    :param oversubscription: of its tiers; ``None`` = one tier between minipods, which is shared but not oversubscribed.
    """

    def price(placed: PlacedJob) -> StepTime:
        cluster = placed.cluster
        tiers = tiers_of(cluster, oversubscription_of(cluster, oversubscription), calibration)
        dp_group = placed.job.grid.dp_group
        crossings = [Crossing.of(tier.level.domain_of[placed.nodes], dp_group) for tier in tiers]
        dp, pp = [tier.dp for tier in tiers], [tier.pp for tier in tiers]
        return crossing_step(placed, crossings, dp, pp, calibration)

    return Independent(
        "hierarchical",
        "what leaves a domain is slowed as if all nodes below its switch sent at once",
        (
            "Every node below a shared switch sends upwards at once: a busy cluster.",
            *tier_assumptions(oversubscription, calibration),
            "Gradients are reduced inside the domains of a tier first, then between them, all nodes side by side.",
            *calibration.volume_assumptions,
        ),
        price,
    )


SIZES: FloatArray = np.exp2(np.arange(10.0, 37.0))  # 1 KiB to 64 GiB


@dataclass(frozen=True, slots=True, eq=False)
class BusBandwidth:
    """One collective."""

    sizes: FloatArray  # ascending, bytes that a node gives
    spreads: FloatArray  # ascending, minipods that the group touches, from 1 on
    share: FloatArray  # shape [sizes, spreads], bus bandwidth as a share of the node's bandwidth

    def at(self, size: float, spread: npt.ArrayLike) -> FloatArray:
        """Return the share of the node's bandwidth: linear in log size and in spread, beyond entries as at the end."""
        log_size = np.log(size) if size > 0 else -np.inf
        of_size = [np.interp(log_size, np.log(self.sizes), column) for column in self.share.T]
        return np.asarray(np.interp(np.asarray(spread, dtype=np.float64), self.spreads, np.array(of_size)))


def drawn(collective: Literal["all-reduce", "send-recv"], calibration: Calibration) -> BusBandwidth:
    """Return the built-in table of a collective."""
    is_reduction = collective == "all-reduce"
    curve = calibration.collective_curve if is_reduction else calibration.send_recv_curve
    saturation = calibration.collective_saturation if is_reduction else calibration.send_recv_saturation
    half = saturation * (1.0 - calibration.saturated) / calibration.saturated
    spreads = np.arange(1.0, calibration.full_loss_from + 1.0)
    left = [1.0 - curve.at(int(minipods)) for minipods in spreads]
    return BusBandwidth(SIZES, spreads, np.outer(SIZES / (SIZES + half), left))


def alpha_beta(
    calibration: Calibration = PUBLISHED,
    *,
    all_reduce: BusBandwidth | None = None,
    send_recv: BusBandwidth | None = None,
) -> Independent:
    """Return the model of each collective at the bus bandwidth that a table has for its size and its spread.

    The table is as NCCL tests print it, read between its lines; one that is ``None`` is drawn from the four figures of
    the characterisation.  A transfer of S bytes takes ``alpha + S / beta``, so its bandwidth is ``beta * S / (S +
    S_half)`` with ``S_half = alpha * beta``; what size saturates it fixes S_half.
    """
    reductions = all_reduce or drawn("all-reduce", calibration)
    transfers = send_recv or drawn("send-recv", calibration)

    def price(placed: PlacedJob) -> StepTime:
        traffic, bandwidth = placed.traffic, placed.bandwidth
        schedule = schedule_of(placed, calibration)
        domains = placed.cluster.level(placed.job.level).domain_of[placed.nodes]
        source, target = hops_of(domains, around=schedule.around)
        ordered = np.sort(domains, axis=1)
        of_row = 1 + (ordered[:, 1:] != ordered[:, :-1]).sum(axis=1, keepdims=True)
        # a hop inside a minipod loses nothing, however many the rest of its PP group touches
        spreads = np.where(source != target, of_row, 1)

        def communication(dp_spread: int, hop_spread: IntArray, ep_spread: int) -> Communication:
            hops = traffic.pp / (bandwidth * transfers.at(traffic.pp, hop_spread))
            sent = traffic.microbatches * traffic.ep / bandwidth
            return Communication(
                dp=reduction_seconds(placed, bandwidth * float(reductions.at(traffic.dp, dp_spread))),
                pp=pipeline_seconds(hops, schedule, calibration.transfer_exposure),
                ep=sent / float(reductions.at(traffic.ep_message, ep_spread)) if sent else 0.0,
            )

        touched = int(Crossing.of(domains, placed.job.grid.dp_group).touched.max())
        actual = communication(touched, spreads, expert_spread(placed, domains))
        ideal = communication(1, np.ones((1, spreads.shape[1]), dtype=np.int32), 1)
        return step_time(placed, schedule, actual, ideal, calibration)

    return Independent(
        "alpha-beta",
        "each collective at the bus bandwidth measured for its size and its number of minipods",
        (
            f"A collective loses up to {calibration.collective_loss:.0%} of its bus bandwidth, evenly more with each "
            f"minipod up to {calibration.full_loss_from}; send-recv, when it crosses between minipods, up to "
            f"{calibration.send_recv_loss:.0%}.",
            "A hop inside a minipod loses nothing, wherever the rest of its PP group lies.",
            *calibration.volume_assumptions,
            "Others on the network are as they were when the bandwidth was measured.",
        ),
        price,
    )
