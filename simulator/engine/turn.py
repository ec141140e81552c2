"""The end of an instant: the policy is asked who may start, the room where.

What is asked again, and when: a job without room has none later either unless somebody gives some back, since starts
take room away and a job's expected end only moves away from what is kept for others.  So between two releases only
those that came since are asked.  Inside one turn the same holds for jobs of one shape.  This saves questions and
changes no answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice, takewhile

from scheduler.queue.types import Hold, Keep
from simulator.engine.job import SimJob
from simulator.engine.room import Found
from simulator.engine.stage import Stage

Shape = tuple[int, int]


class Turn:
    """Turns of one stage.

    ``opened`` says whether somebody gave room back since the last turn, ``fresh`` who joined the queue since.
    """

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.opened = False
        self.fresh: list[SimJob] = []
        self.stuck: SimJob | None = None

    def take(self) -> None:
        """Start whoever may."""
        line = self._stage.line
        if not len(line):
            self.opened = False
            self.fresh.clear()
            return
        if not self._stage.policy.passing:
            self._in_order()
            return
        while self.opened or self.fresh:
            all_of_them = self.opened or self.stuck is None or min(job.rank for job in self.fresh) < self.stuck.rank
            asked = list(line) if all_of_them else sorted(self.fresh, key=lambda job: job.rank)
            self.opened = False
            self.fresh.clear()
            _Pass(self._stage).ask(asked, all_of_them=all_of_them)
            self.stuck = line.first if len(line) else None

    def _in_order(self) -> None:
        """One after the other, until one has no room."""
        line = self._stage.line
        self.fresh.clear()
        while len(line) and (self.opened or line.first is not self.stuck):
            job = line.first
            found = self._find(job)
            if found is not None:
                self._stage.start(job, found)
            elif not stop_for(self._stage, job):
                self.stuck, self.opened = job, False
                return
        self.opened = False

    def _find(self, job: SimJob) -> Found | None:
        return find(self._stage, job, ()) if self._stage.room.may_fit(job) else None


class _Pass:
    """One pass over the queue, in which those behind a blocked job are asked too."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._holds: tuple[int, Sequence[Hold]] | None = None
        self._hopeless: set[Shape] = set()
        self._failed: list[tuple[Keep, set[Shape]]] = []

    def ask(self, jobs: Iterable[SimJob], *, all_of_them: bool) -> None:
        """Ask them by rank.

        :param all_of_them: these are all that wait; else those that are not asked have no room.
        """
        stage, blocked = self._stage, list[SimJob]()
        claims = stage.policy.claims
        for job in jobs:
            if self._ask(job, blocked if all_of_them else None):
                continue
            if stop_for(stage, job):
                return
            if claims is None or len(blocked) < claims:
                blocked.append(job)

    def _ask(self, job: SimJob, blocked: Sequence[SimJob] | None) -> bool:
        shape = (job.nodes, job.gpus)
        if shape in self._hopeless:
            return False
        stage = self._stage
        if not stage.room.may_fit(job):
            self._hopeless.add(shape)
            return False
        before = self._before(job) if blocked is None else blocked
        for keep in stage.policy.offers(job, stage, self._holds_of(before)):
            failed = self._shapes_without(keep)
            if shape in failed:
                continue
            found = stage.room.find(job, keep)
            if found is not None:
                stage.start(job, found)
                self._holds = None
                return True
            failed.add(shape)
        return False

    def _before(self, job: SimJob) -> Sequence[SimJob]:
        """Those before a job that have a claim."""
        ahead = takewhile(lambda other: other.rank < job.rank, self._stage.line)
        return tuple(islice(ahead, self._stage.policy.claims))

    def _holds_of(self, blocked: Sequence[SimJob]) -> Sequence[Hold]:
        """What is kept for those, found anew when a job has started since or there are more of them."""
        if not blocked:
            return ()
        if self._holds is None or self._holds[0] != len(blocked):
            self._holds = (len(blocked), self._stage.policy.holds(blocked, self._stage))
        return self._holds[1]

    def _shapes_without(self, keep: Keep) -> set[Shape]:
        """Shapes for which nothing was found under an offer."""
        for other, shapes in self._failed:
            if other is keep:
                return shapes
        self._failed.append((keep, set()))
        return self._failed[-1][1]


def find(stage: Stage, job: SimJob, holds: Sequence[Hold]) -> Found | None:
    """Where the policy lets a job go and the room has a place for it."""
    found = (stage.room.find(job, keep) for keep in stage.policy.offers(job, stage, holds))
    return next((one for one in found if one is not None), None)


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
