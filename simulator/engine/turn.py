"""The end of an instant: the policy is asked who may start, the room where.

What is asked again, and when: a job without room has none later either unless somebody gives some back, since starts
take room away and a job's expected end only moves away from what is kept for others.  So between two releases only
those that came since are asked; and of several of one kind, when one has no room, only those that are predicted to run
shorter.  This saves questions and changes no answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from heapq import heapify, heappop, heappush
from itertools import islice, takewhile
from math import inf

from scheduler.queue.types import Hold
from simulator.engine.job import SimJob
from simulator.engine.line import Lane
from simulator.engine.room import Found
from simulator.engine.stage import Stage


class Turn:
    """Turns of one stage.

    ``opened`` says whether somebody gave room back since the last turn, ``fresh`` who joined the queue since; when
    neither is, or nobody waits, a turn changes nothing.
    """

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.opened = False
        self.fresh: list[SimJob] = []
        self.stuck: SimJob | None = None

    def take(self) -> None:
        """Start whoever may."""
        line = self._stage.line
        if not self._stage.policy.passing:
            self._in_order()
            return
        while self.opened or self.fresh:
            all_of_them = self.opened or self.stuck is None or min(job.rank for job in self.fresh) < self.stuck.rank
            fresh = sorted(self.fresh, key=lambda job: job.rank)
            self.opened = False
            self.fresh.clear()
            if all_of_them:
                _Pass(self._stage).all()
            else:
                _Pass(self._stage).fresh(fresh)
            self.stuck = line.first if line.size else None

    def _in_order(self) -> None:
        """One after the other, until one has no room."""
        line = self._stage.line
        self.fresh.clear()
        stage = self._stage
        while line.size and (self.opened or line.first is not self.stuck):
            job = line.first
            found = find(stage, job, ()) if stage.room.may_fit(job) else None
            if found is not None:
                stage.start(job, found)
            elif not stop_for(stage, job):
                self.stuck, self.opened = job, False
                return
        self.opened = False


class _Pass:
    """One pass over the queue, in which those behind a blocked job are asked too."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._holds: tuple[int, Sequence[Hold]] | None = None
        self._hopeless: set[tuple[int, int]] = set()

    def all(self) -> None:
        """Ask everybody by rank; of those of one kind, after one without room only those predicted to run shorter."""
        stage, blocked = self._stage, list[SimJob]()
        claims = stage.policy.claims
        heads = [(lane.jobs[0].rank, lane, 0, _ANY) for lane in stage.line.lanes.values()]
        heapify(heads)
        while heads:
            _, lane, place, shorter_than = heappop(heads)
            job = lane.jobs[place]
            if not self._ask(job, blocked):
                if stop_for(stage, job):
                    return
                if claims is None or len(blocked) < claims:
                    blocked.append(job)
                shorter_than = (job.predicted, job.predicted_high)
                if not self._may_pass(lane, job, blocked):
                    continue
            following = lane.next_shorter(place, *shorter_than)
            if following is not None:
                heappush(heads, (lane.jobs[following].rank, lane, following, shorter_than))

    def fresh(self, jobs: Iterable[SimJob]) -> None:
        """Ask those that came since, by rank; the others have no room."""
        for job in jobs:
            if not self._ask(job, self._before(job)) and stop_for(self._stage, job):
                return

    def _ask(self, job: SimJob, blocked: Sequence[SimJob]) -> bool:
        """Start a job if it may, and if there is room for it."""
        if not self._may_fit(job):
            return False
        found = find(self._stage, job, self._holds_of(blocked))
        if found is None:
            return False
        self._stage.start(job, found)
        self._holds = None
        return True

    def _before(self, job: SimJob) -> Sequence[SimJob]:
        """Those before a job that have a claim."""
        ahead = takewhile(lambda other: other.rank < job.rank, self._stage.line)
        return tuple(islice(ahead, self._stage.policy.claims))

    def _may_fit(self, job: SimJob) -> bool:
        shape = (job.nodes, job.gpus)
        if shape not in self._hopeless and not self._stage.room.may_fit(job):
            self._hopeless.add(shape)
        return shape not in self._hopeless

    def _may_pass(self, lane: Lane, job: SimJob, blocked: Sequence[SimJob]) -> bool:
        """Whether one of its kind may pass a job without room: it would have to be predicted to run shorter.

        A job as short as the shortest of the kind is tried, since most often that has no room either.
        """
        least, least_high = lane.shortest
        if not self._may_fit(job) or (least >= job.predicted and least_high >= job.predicted_high):
            return False
        probe = replace(job, predicted=least, predicted_high=least_high)
        return find(self._stage, probe, self._holds_of(blocked)) is not None

    def _holds_of(self, blocked: Sequence[SimJob]) -> Sequence[Hold]:
        """What is kept for those, found anew when a job has started since or there are more of them."""
        if not blocked:
            return ()
        if self._holds is None or self._holds[0] != len(blocked):
            self._holds = (len(blocked), self._stage.policy.holds(blocked, self._stage))
        return self._holds[1]


_ANY = (inf, inf)


def find(stage: Stage, job: SimJob, holds: Sequence[Hold]) -> Found | None:
    """Where the policy lets a job go and the room has a place for it."""
    for keep in stage.policy.offers(job, stage, holds):
        found = stage.room.find(job, keep)
        if found is not None:
            return found
    return None


def stop_for(stage: Stage, job: SimJob) -> bool:
    """Stop running jobs for one without room if the policy says so, and start it; only if that gives it room."""
    stopped = {other.key for other in stage.policy.victims(job, stage)}
    victims = [other for other in stage.live.values() if other.key in stopped] if stopped else []
    for victim in victims:
        stage.room.give(victim)
    found = find(stage, job, ()) if victims else None
    for victim in victims:
        stage.room.take(victim)
    if found is None:
        return False
    for victim in victims:
        stage.stop(victim, "preemption")
    stage.start(job, found)
    return True
