"""KAI scheduler, v0.14: topology plugin with a preferred level, and segments, which are required to share a domain.

Source: kai-scheduler/KAI-Scheduler v0.14, ``pkg/scheduler/plugins/topology`` (job_filtering.go, node_scoring.go),
``pkg/podgrouper`` (segments of PyTorchJobs, since v0.13), docs/topology and docs/developer/designs/segmented-subgroups;
read, not copied.

1. Bin-packing across domains: siblings are tried from the one with the least free GPUs to the one with most (equal ones
   by name), the preferred level first, then each broader level; the first domain that holds the whole job is taken.
2. Inside a domain broader than preferred, nodes are scored by the place of their preferred-level domain in the same
   order, roomiest best, in steps of a tenth: ``floor(10 * place / domains)``.  Best score first, equal ones by name.

With more than ten domains several share a score, and their nodes mix by name.

*Segments* (``kai.scheduler/segment-size`` with a required level): so many pods with consecutive indices are a sub-group
that lies in one domain of the level.  Sub-groups are placed one after another in the order of their names, worker-10
before worker-2, each in the first domain that holds it in the order of 1, as things are then.

Left out: required levels of the whole job, sub-groups by hand, fractions of GPUs, other plugins' scores (equal for
whole free nodes).
"""

from collections.abc import Sequence
from functools import partial
from typing import Literal

import numpy as np

from ground.errors import Infeasible
from scheduler.placement.heuristic import Heuristic, RankOrder, Request
from scheduler.placement.node_order import domain_ranks, ranks_of
from topology.cluster import IntArray, Level, count_nodes


def list_nodes(request: Request) -> IntArray:
    """Return nodes in the order of ranks."""
    levels = request.cluster.levels[: request.level_index + 1]
    free = [count_nodes(level, request.admitted) for level in levels]
    places = _in_turn(levels, free)
    inside = request.admitted
    # from the preferred level to ever broader ones: the first domain that holds the whole job
    for level, room, at in zip(reversed(levels), reversed(free), reversed(places), strict=True):
        roomy = np.flatnonzero(room >= request.grid.cells)
        if len(roomy):
            inside = inside & (level.domain_of == roomy[np.argmin(at[roomy])])
            break
    nodes = np.flatnonzero(inside).astype(np.int32)
    # steps of a tenth, as KAI scores from 0 to 10
    score = 10 * (places[-1][request.level.domain_of[nodes]] + 1) // len(request.level)
    return nodes[np.lexsort((ranks_of(request.cluster.names)[nodes], -score))]


def _in_turn(levels: tuple[Level, ...], free: Sequence[IntArray]) -> list[IntArray]:
    """Return for each level the place of each domain when siblings are sorted by free nodes, then by name.

    :param free: of each level, shape [domains].
    """
    places: list[IntArray] = []
    for level, room, rank in zip(levels, free, domain_ranks(levels), strict=True):
        broader = places[-1][level.parent_of] if places else np.zeros(len(level), dtype=np.int32)
        place = np.empty(len(level), dtype=np.int32)
        place[np.lexsort((rank, room, broader))] = np.arange(len(level), dtype=np.int32)
        places.append(place)
    return places


def kai_segments(*, segment: Literal["p", "d"], order: RankOrder) -> Heuristic:
    """Make KAI with segments of as many pods as a PP group (p) or a DP group (d) has."""
    what = f"segments of {segment.upper()} pods, each in the tightest domain that holds it"
    return Heuristic(f"kai-segment-{segment}", f"KAI 0.14: {what}", partial(_segments, segment=segment), order)


def _segments(request: Request, *, segment: Literal["p", "d"]) -> IntArray:
    """Return nodes in the order of ranks, as many after each other in one domain as a group has.

    :raises Infeasible: no domain holds a segment.
    """
    size = request.grid.columns if segment == "p" else request.grid.rows
    levels, count = request.cluster.levels[: request.level_index + 1], request.grid.cells // size
    left = request.admitted.copy()
    names, domain_of = ranks_of(request.cluster.names), request.level.domain_of
    free = [count_nodes(level, left) for level in levels]
    taken: dict[int, IntArray] = {}
    for number in sorted(range(count), key=str):
        request.check_time()
        roomy = np.flatnonzero(free[-1] >= size)
        if not len(roomy):
            which = f"segment {number + 1} of {count} ({size} pods)"
            raise Infeasible(f"KAI: no domain has room for {which}")
        domain = roomy[np.argmin(_in_turn(levels, free)[-1][roomy])]
        nodes = np.flatnonzero(left & (domain_of == domain)).astype(np.int32)
        taken[number] = nodes[np.argsort(names[nodes])][:size]
        left[taken[number]] = False
        for level, room in zip(levels, free, strict=True):
            room[level.domain_of[taken[number][0]]] -= size
    return np.concatenate([taken[number] for number in range(count)])


kai = partial(Heuristic, "kai", "KAI 0.14: tightest domain that fits, else the roomiest first", list_nodes)
# consecutive ranks are PP groups along the rows, DP groups down the columns
segment_p = partial(kai_segments, segment="p", order="rows")
segment_d = partial(kai_segments, segment="d", order="columns")
