"""Links between two workers that are slow by themselves: a transfer does not say which of its ends is to blame.

The peers of a link are those of the other data-parallel ranks between the same two stages, which carry as many bytes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from health.whatif.analysis_result import Floats, LinkShare, SlowLink
from health.whatif.optypes import SENDS
from health.whatif.peer_comparison import SPREADS, over, spread_of
from health.whatif.step_replay import Replayed

SLOW = 1.5  # Transfers of so many times the usual length are more than noise
Stages = tuple[int, int]
MINOR = 0.1  # Links that lose less than this part of what the worst one loses are not named beside it


def share_of_links(replayed: Replayed, seconds: float, ideal: float) -> LinkShare | None:
    """Return the slow links and what part of the loss they explain together; ``None`` where none is slow.

    :param seconds: mean step time as traced.
    :param ideal: ideal step time.
    """
    found = _slow(replayed)
    if not found:
        return None
    worst = max(lost for _, _, lost in found)
    named = [(link, places) for link, places, lost in found if lost >= MINOR * worst]
    chosen = np.zeros(replayed.durations.traced.shape[:2], dtype=np.bool_)
    for link, places in named:
        chosen[places, replayed.trace.dp_ranks.index(link.dp)] = True
    without = float(replayed.steps_if(~chosen).mean())
    return LinkShare(tuple(link for link, _ in named), without, (seconds - without) / (seconds - ideal))


def with_nodes(share: LinkShare | None, nodes: Mapping[tuple[int, int], str]) -> LinkShare | None:
    """Return the same with the nodes that the ends ran on, as far as known: (dp rank, stage) -> node."""
    if share is None:
        return None
    named = [
        replace(link, nodes=(nodes.get((link.dp, link.stages[0])), nodes.get((link.dp, link.stages[1]))))
        for link in share.links
    ]
    return replace(share, links=tuple(named))


def _slow(replayed: Replayed) -> list[tuple[SlowLink, list[int], float]]:
    """Return each slow link with its operations and the seconds that it loses in a step, at the median."""
    traced, ranks = replayed.durations.traced, replayed.trace.dp_ranks
    factor: dict[Stages, Floats] = defaultdict(lambda: np.ones(len(ranks)))
    lost: dict[Stages, Floats] = defaultdict(lambda: np.zeros(len(ranks)))
    places: dict[Stages, list[int]] = defaultdict(list)
    for (stages, _), pairs in _transfers(replayed).items() if len(ranks) > 1 else ():
        # a send may end once it is buffered: the slower end says how long the link took
        seconds = np.median([traced[list(pair)].max(axis=0) for pair in pairs], axis=(0, 2))
        places[stages] += [place for pair in pairs for place in pair]
        for rank in range(len(ranks)):
            others = np.delete(seconds, rank)
            usual = np.median(others)
            ratio = over(seconds, usual)
            if ratio[rank] >= max(SLOW, 1.0 + SPREADS * spread_of(np.delete(ratio, rank))):
                factor[stages][rank] = max(factor[stages][rank], ratio[rank])
                lost[stages][rank] += (seconds[rank] - usual) * len(pairs)
    return [
        (SlowLink(dp=ranks[rank], stages=stages, factor=float(factor[stages][rank])), places[stages], float(loss))
        for stages, losses in sorted(lost.items())
        for rank, loss in enumerate(losses)
        if loss > 0.0
    ]


def _transfers(replayed: Replayed) -> dict[tuple[Stages, str], list[tuple[int, ...]]]:
    """Return two stages, the lower first, and the type of the send -> the pairs of a send and its receive."""
    operations = replayed.trace.operations
    found = defaultdict(list)
    for group in replayed.graph.groups:
        stages = sorted({operations[i].stage for i in group.members})
        sends = [operations[i].optype for i in group.members if operations[i].optype in SENDS]
        if sends and len(stages) == 2:
            found[(stages[0], stages[1]), sends[0]].append(group.members)
    return found
