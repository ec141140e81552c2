"""A quick first assignment of movers to targets: each where it adds least spread."""

from __future__ import annotations

import numpy as np

from scheduler.placement.repair.choices import Choices
from scheduler.placement.repair.terms import ancestors, terms_of
from topology.cluster import IntArray


def greedy_targets(choices: Choices) -> IntArray:
    """For each mover the target that raises the objective least, then touches fewest new domains, then has most room.

    A start for the search, no more: it takes no notice of holds at broader levels.

    :returns: shape [movers], index into the targets; no target is given more movers than it has room for.
    """
    cluster, job = choices.found.cluster, choices.found.job
    moving = np.isin(choices.block_of, choices.movers)
    room = choices.room.copy()
    answer = np.empty(len(choices.movers), dtype=np.int32)
    tables = []
    for term in terms_of(cluster, job):
        level, group_of = cluster.levels[term.depth], job.grid.groups[term.family]
        touched = np.zeros((int(group_of.max()) + 1, len(level)), dtype=np.bool_)
        touched[group_of[~moving], level.domain_of[choices.found.old][~moving]] = True
        places = ancestors(cluster, choices.depth, term.depth)[choices.targets]
        tables.append((term.weight, group_of, touched, places, touched.sum(axis=1)))
    for i, mover in enumerate(choices.movers):
        members = choices.block_of == mover
        raised = np.zeros(len(room))
        new = np.zeros(len(room))
        for weight, group_of, touched, places, spread in tables:
            groups = np.unique(group_of[members])
            added = ~touched[np.ix_(groups, places)]
            raised += weight * np.maximum((spread[groups, None] + added).max(axis=0) - spread.max(), 0)
            new += added.sum(axis=0)
        answer[i] = np.lexsort((-room, new, raised, room <= 0))[0]
        room[answer[i]] -= 1
        for _, group_of, touched, places, spread in tables:
            groups = np.unique(group_of[members])
            spread[groups] += ~touched[groups, places[answer[i]]]
            touched[groups, places[answer[i]]] = True
    return answer
