"""A first plan: the new job where the bound would have it, then the jobs that make room for it, placed again."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np

from scheduler.placement.types import Limits, PlacementAlgorithm
from scheduler.repair.repair_problem import of_its_type
from scheduler.several.joint_question import JointQuestion, only, run_on_its_levels
from scheduler.several.running_jobs import RunningJob
from topology.cluster import BoolArray, IntArray

SECONDS = 0.5  # Of each placement: a first plan is wanted, not the best


def placed_again(
    question: JointQuestion,
    running: Sequence[RunningJob],
    leaving: Collection[int],
    *,
    wanted: BoolArray,
    solver: PlacementAlgorithm,
    limits: Limits,
) -> tuple[IntArray, list[IntArray]] | None:
    """Place the new job, then each job that leaves, the largest first, on what is left.

    :param leaving: numbers of the running jobs that may move; all others stay.
    :param wanted: shape [nodes], nodes for the new job, whether a job that leaves is on them or not.
    :returns: nodes of the new job and of each running one; ``None`` = one of them finds no place.
    """
    quick = replace(limits, seconds=SECONDS)
    free = np.ones(len(question.cluster), dtype=np.bool_)
    for i, one in enumerate(running):
        if i not in leaving:
            free[one.nodes.ravel()] = False
    new = run_on_its_levels(solver, only(question.cluster, free & wanted), question.jobs[0], quick).proposal.nodes
    if new is None:
        return None
    free[new.ravel()] = False
    after = [one.nodes for one in running]
    for i in sorted(leaving, key=lambda i: -running[i].nodes.size):
        if not free[after[i].ravel()].all():
            job = of_its_type(question.cluster, running[i].job, running[i].nodes)
            again = run_on_its_levels(solver, only(question.cluster, free), job, quick).proposal.nodes
            if again is None:
                return None
            after[i] = again
        free[after[i].ravel()] = False
    return new, after
