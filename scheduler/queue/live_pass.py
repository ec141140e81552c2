"""The queue pass over a live cluster, whatever its system: Kubernetes, Slurm, or a made one in tests.

:class:`LivePass` says which job is asked next, and takes what came of it; where an answer takes seconds, the cluster
may change in between.  :func:`plan_waiting` asks and answers at once, over any :class:`LiveCluster`.
"""

from collections.abc import Generator, Hashable, Mapping, Sequence
from math import inf
from typing import Protocol, TypeVar, cast

import numpy as np

from ground.errors import ArnoldError
from scheduler.algorithm_run import run
from scheduler.outcome import Instance, Outcome
from scheduler.placement.admission import held_nodes
from scheduler.placement.types import ALGORITHMS, Limits
from scheduler.queue.dispatch import Candidate, Dispatch
from scheduler.queue.policy import ClusterState, Keep, QueuedJob, QueuePolicy, Running, Waiting
from scheduler.queue.priority import PriorityAge
from topology.cluster import BoolArray, Cluster, IntArray

K = TypeVar("K", bound=Hashable)


class LivePass:
    """One pass over the queue (:mod:`scheduler.queue.dispatch`), one job after the other in the order of a policy.

    A job that is not waiting any more is passed over, and one that comes meanwhile has its turn.
    """

    def __init__(self, policy: QueuePolicy | None = None) -> None:
        self._dispatch: Dispatch[QueuedJob] = Dispatch(policy or PriorityAge(), live=True)
        self._passing: Generator[Candidate[QueuedJob], None, None] | None = None
        self._waiting: dict[Hashable, QueuedJob] = {}
        self._asked: set[Hashable] = set()
        self.candidate: Candidate[QueuedJob] | None = None  # that was asked about last

    def next(self, waiting: Mapping[K, QueuedJob], cluster: ClusterState) -> Candidate[QueuedJob] | None:
        """Return what to ask next, of all that wait now; ``None`` = the pass is over."""
        if waiting != self._waiting:  # of a thousand, asked about one after another, most are as they were
            self._note(waiting)
        self._dispatch.cluster = cluster
        if self._passing is None:
            self._passing = self._dispatch.candidates()
        self.candidate = next(self._passing, None)
        if self.candidate is not None:
            self._asked.add(self.candidate.job.key)
        return self.candidate

    def _note(self, waiting: Mapping[K, QueuedJob]) -> None:
        for key in [key for key in self._waiting if key not in waiting]:
            self._dispatch.backlog.leave(self._waiting.pop(key))
        for key, job in waiting.items():
            before = self._waiting.get(key)
            if job is before or job == before or key in self._asked:
                continue
            if before is not None:
                self._dispatch.backlog.leave(before)
            self._waiting[key] = job
            self._dispatch.join(job)

    def ask_again(self) -> None:
        """Give the job that was asked about last another turn in this pass: nothing came of the question."""
        if self.candidate is not None:
            key = self.candidate.job.key
            self._asked.discard(key)
            if key in self._waiting:
                # it joins anew when the next is looked for
                self._dispatch.backlog.leave(self._waiting.pop(key))

    def tell(self, *, found: bool, possible: bool, objective: float = inf) -> None:
        """Take note of the answer; ``possible``: whether it would have room if the cluster were empty."""
        if self.candidate is not None:
            self.candidate.found, self.candidate.possible, self.candidate.objective = found, possible, objective


class LiveNodes:
    """The nodes of a live cluster as queue policies see them, as far as its system does not matter.

    :param tree: the nodes, whatever is in use of them; ``None`` = there are none.
    :param now: the time, as its jobs count it.
    """

    def __init__(self, tree: Cluster | None, now: float) -> None:
        self._tree, self.now = tree, now

    @property
    def total(self) -> IntArray:
        """Shape [nodes], GPUs of each."""
        return np.zeros(0, dtype=np.int32) if self._tree is None else self._tree.gpus

    def compartments(self, *, mix_types: bool) -> IntArray | None:
        """Shape [nodes], the compartment of each, where there are several."""
        return None if self._tree is None else self._tree.compartments(mix_types=mix_types)

    @property
    def domains(self) -> Sequence[IntArray]:
        """For each level from broad to close: shape [nodes], the domain of each node."""
        return () if self._tree is None else tuple(level.domain_of for level in self._tree.levels)

    def unsaved(self, running: Running) -> float:
        """Return the seconds since a job started, as its checkpoints are not known; 0 of one that leaves."""
        return 0.0 if running.leaving else max(0.0, self.now - running.started)

    def may_fit(self, job: Waiting) -> bool:  # noqa: ARG002
        """Say yes: each job is asked about, so that it can be told why it waits."""
        return True


class LiveCluster(Protocol[K]):
    """A cluster with jobs that wait, run or are promised nodes, as one look at it shows them."""

    @property
    def state(self) -> ClusterState:
        """The cluster as queue policies see it, with what was held since the look."""

    def waiting(self) -> Mapping[K, QueuedJob]:
        """Return the jobs that wait for a plan."""

    def free_for(self, key: K, keep: Keep) -> Instance:
        """Return a job that waits, and what of the cluster it could have now but for what is kept for others.

        :raises ArnoldError: what it asks is not understood.
        """

    def hold(self, key: K, nodes: Sequence[str], outcome: Outcome) -> None:
        """Promise nodes to a job, in the order of its ranks."""

    def say(self, key: K, why: str) -> None:
        """Say why a job waits."""


def plan_waiting(live: LiveCluster[K], policy: QueuePolicy, limits: Limits) -> None:
    """Ask one pass over the jobs that wait, promise nodes to those that have room, and say of the others why not."""
    turns, held = LivePass(policy), dict[tuple[int, bytes], Mapping[str, int]]()
    while (candidate := turns.next(live.waiting(), cluster := live.state)) is not None:
        job, outcome = candidate.job, None
        key, usable = cast("K", job.key), cluster.usable(job)
        could_have = int(np.count_nonzero(usable))
        possible = could_have >= job.nodes
        why = f"it needs {job.nodes} nodes, and could have {could_have} if all were free"
        try:
            if possible:
                outcome, why = _placed(live, key, candidate, limits, usable=usable)
            else:
                if (alike := (job.gpus, usable.tobytes())) not in held:  # looked at once, whoever wants them
                    whole = live.free_for(key, None)
                    held[alike] = held_nodes(whole.cluster.emptied(), whole.job)
                others = ", ".join(f"{nodes:,} {reason}" for reason, nodes in held[alike].items())
                why += f" ({others})" if others else ""
        except ArnoldError as error:  # what it asks is not understood: it is in nobody's way
            possible, why = False, error.message
        if outcome is None:
            live.say(key, why)
        objective = inf if outcome is None or outcome.objective is None else outcome.objective
        turns.tell(found=outcome is not None, possible=possible, objective=objective)


def _placed(
    live: LiveCluster[K], key: K, candidate: Candidate[QueuedJob], limits: Limits, *, usable: BoolArray
) -> tuple[Outcome | None, str]:
    """Promise a job its nodes by the first offer that has room; else return why it has none."""
    free, why, units = 0, "", live.state.free
    for keep in candidate.offers:
        # most have no room, which takes no tree to see
        free = int(np.count_nonzero(usable & ((units if keep is None else units - keep) >= candidate.job.gpus)))
        if free < candidate.job.nodes:
            continue
        instance = live.free_for(key, keep)
        outcome = run(ALGORITHMS.load("exact"), instance.cluster, instance.job, limits)
        if outcome.evaluation is not None and outcome.proposal.nodes is not None:
            cells = instance.settled(outcome).job.grid.cell_of_rank
            live.hold(key, [instance.cluster.names[node] for node in outcome.proposal.nodes[cells]], outcome)
            return outcome, ""
        why = outcome.reason
    why = why or f"it needs {candidate.job.nodes} nodes, and {free} are free for it"
    return None, f"{why}; job {candidate.ahead[0].key} is before it" if candidate.ahead else why
