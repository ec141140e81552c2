"""The pass over the queue: which job is asked next, on what terms, and what follows from the answer.

There is one pass.  The simulator's engine drives it and answers at once; the Kubernetes controller drives it and has an
answer after seconds, while the cluster goes on changing.  So a pass is a generator of questions, and its driver writes
the answer into each before it asks for the next::

    while dispatch.due:
        for candidate in dispatch.candidates():
            candidate.found = ...  # place candidate.job under candidate.offers; where there is room, start it

*Which job is asked again, and when*: a job without room has none later either unless room is given back or a running
job outlives its prediction.  For starts take room away, and a waiting job's expected end only moves away from what is
kept for others; but of a job that is overdue the end is now, so that more may be free when the first blocked job has
room than was thought.  So until one of these happens only those that came since are asked; and of several of one kind,
when one has no room, only those that are predicted to run shorter.  This saves questions and changes no answer.

*Where namespaces share* (``QueuePolicy.sharing``) they take turns: the next job asked is the first by rank of the
namespace with the smallest share at that moment.  Those that have no room are before all that are asked after them
until the pass is over; so a start behind them, after which another namespace may come first, calls for another pass.
As shares change with every start and end, every pass asks all; it ends when all that is free is kept for the blocked.

*On a live cluster* (``live``) a stopped job takes its time to leave, its nodes come free one by one, and other things
change while the solver works.  Hence four differences, all of them here:

1. A job is not started on the nodes of those that were stopped for it: it is asked again when they have left.  Those
   that are leaving are not stopped again.
2. While a zone is being emptied for a job that is here, no other job counts as preemptible: one that came in now would
   have to leave at once.
3. That job is offered its own zone alone, as soon as all that are left there go away for it: the first free nodes
   elsewhere would be as good to the policy as a zone that is nearly clear.
4. When the cluster has changed, the first blocked job is asked again, in turn with the others and behind those that
   came before it by rank or share; if it has room now, the pass is over, for what was said to those behind it does not
   hold any more.  A job that would not fit even if the cluster were empty blocks none.  Where the policy lets no job
   pass, those behind are told so.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush, heapreplace
from itertools import count, islice, takewhile
from math import inf
from operator import attrgetter, itemgetter
from typing import Generic, TypeVar

import numpy as np

from scheduler.queue.policy import (
    CapacityReservation,
    ClusterState,
    HeldNodes,
    Keep,
    QueuedJob,
    QueuePolicy,
    Rank,
    Running,
    Waiting,
)


@dataclass(frozen=True, slots=True)
class Allocation:
    """How a job may lie."""

    gpu_types: tuple[str, ...]  # types of GPU that its nodes have
    nodes: int
    gpus: int  # units on each
    # seconds of its work that it does in a second, by the slowest type; 1 = as the trace says
    speed: float = field(compare=False, default=1.0)

    @property
    def units(self) -> int:
        """Units in all."""
        return self.nodes * self.gpus


J = TypeVar("J", bound=Waiting)


@dataclass(eq=False)
class Candidate(Generic[J]):
    """A question: whether a job has room now; and the driver's answer."""

    job: J
    offers: Iterable[Keep]
    """What the job must leave free, one array for each attempt; the first attempt that finds room counts.  None at all
    = it may not start now."""
    # A default that is not set by the constructor costs nothing: replays make hundreds of thousands of candidates.
    ahead: Sequence[J] = field(default=(), init=False)  # Jobs before it for which something is kept
    passing: bool = field(default=True, init=False)  # Whether any job may pass one that waits
    outshared: bool = field(default=False, init=False)
    """The first before it is of another namespace, whose turn came first by its share."""
    emptying: bool = field(default=False, init=False)
    """Its own zone will be clear when those have gone that are leaving or may be stopped."""
    victims: Sequence[Running] = field(default=(), init=False)
    """Asked as if these had left; those of them that are on nodes that it then has are to be stopped for it."""
    allocations: Sequence[Allocation] = field(default=(), init=False)
    """In rounds, how the job may lie, in place of offers: the first that has room counts; a victim may be the job
    itself, which then moves."""
    trial: bool = field(default=False, init=False)  # Nothing is to be started or stopped
    found: bool | None = field(default=None, init=False)
    """The answer; ``None`` = there is none, and the job is left out of this pass."""
    objective: float = field(default=inf, init=False)
    """Of a placement with which a set of victims is compared with others, its objective; infinite = it has none."""
    possible: bool = field(default=True, init=False)
    """Of a live cluster, whether the job would have room if the cluster were empty."""


DIGITS = 9  # Decimals to which objectives are compared: sums in another order differ by less


class Dispatch(Generic[J]):
    """The jobs that wait, and the passes over them under one policy.

    :param kind: jobs of one kind differ in nothing but their predicted times, for policy and cluster; needed where the
        cluster is not live and jobs pass others.
    :param live: whether the cluster is a real one (see above).
    """

    def __init__(self, policy: QueuePolicy, *, kind: Callable[[J], Hashable] | None = None, live: bool = False) -> None:
        self.policy = policy
        self.live = live
        self.cluster: ClusterState
        """The cluster as it is now; the driver sets it, before each question anew if it is another object."""
        kind = None if live or not policy.passing else kind
        if kind is not None and policy.claims_of_equals:
            kind = attrgetter("key")
        sharing = policy.sharing
        # the namespace with which a job has its turn, and its share; empty = all are in one line
        self._group: Callable[[J], str] = (lambda job: job.namespace) if sharing else (lambda _: "")
        self._share: Callable[[str], float] = lambda name: self.cluster.share(name) if sharing else 0.0
        self.backlog: Backlog[J] = Backlog(policy.rank, kind=kind, group=self._group)
        self.freed = False  # Whether room was given back since the last pass
        self.stuck: J | None = None  # The first job that had no room in the last pass
        self._fresh: list[J] = []
        self._overdue = 0  # Running jobs that had outlived their predictions in the last pass over all
        self._hopeless: set[tuple[int, int]] = set()
        self._closed = False  # Whether all that is free is kept for those blocked
        self._holds: tuple[tuple[object, ...], Sequence[HeldNodes]] = ((), ())

    @property
    def due(self) -> bool:
        """Whether a pass could change anything: room was given back, or a job came, since the last."""
        if self._fresh:
            return True
        return self.freed and self.backlog.first is not None

    def join(self, job: J) -> None:
        """Add a job that waits."""
        self.backlog.join(job)
        self._fresh.append(job)

    def candidates(self) -> Generator[Candidate[J], None, None]:
        """Ask one pass over the jobs that wait."""
        self._hopeless.clear()
        self._closed = False
        self._holds = ((), ())  # what is kept depends on the time too
        if self.live:
            return self._on_a_live_cluster()
        return self._with_passing() if self.policy.passing else self._in_order()

    def _in_order(self) -> Generator[Candidate[J], None, None]:
        """Ask one after the other, until one has no room."""
        backlog, offers = self.backlog, self.policy.offers
        self._fresh.clear()
        while (job := backlog.first) is not None and (self.freed or job is not self.stuck):
            cluster = self.cluster
            if cluster.may_fit(job):
                candidate = Candidate(job, offers(job, cluster, ()))
                yield candidate
                if candidate.found:
                    continue
            if (yield from self._stopping(job)):
                continue
            self.stuck = job
            break
        self.freed = False

    def _with_passing(self) -> Generator[Candidate[J], None, None]:
        """Ask those behind a blocked job too: all of them, or those that came since if nothing else has changed."""
        rank, stuck, now = self.backlog.rank, self.stuck, self.cluster.now
        fresh = sorted(self._fresh, key=rank)
        overdue = sum(1 for _ in takewhile(lambda job: job.ends <= now, self.cluster.running))
        # a reservation that rests on a job that is overdue moves on with the time, and so do all behind it
        moved = overdue != self._overdue or (overdue > 0 and self.policy.claims_of_equals)
        changed = self.policy.sharing or self.freed or moved
        everyone = changed or stuck is None or (bool(fresh) and rank(fresh[0]) < rank(stuck))
        if everyone:
            self._overdue = overdue
        self.freed = False
        self._fresh.clear()
        if everyone:
            yield from self._by_rank()
            fresh = []
        # those that came since, by rank; the others have no room
        for job in fresh:
            candidate = None
            if self._may_fit(job):
                candidate = self._candidate(job, self.backlog.ahead(job, most=self.policy.claims))
                yield candidate
            if (candidate is None or not candidate.found) and (yield from self._stopping(job)):
                break
        self.stuck = self.backlog.first

    def _by_rank(self) -> Generator[Candidate[J], None, None]:
        """Ask all by rank; of those of one kind, after one without room only those predicted to run shorter."""
        blocked = list[J]()
        claims = self.policy.claims
        groups = self.backlog.queues
        # a namespace comes when the first of its jobs may have its turn; its queues are not looked at before
        firsts = ((rank, name, name) for name, rank in self.backlog.firsts.items())
        turns: Turns[_Head[J] | str] = Turns(self._share, firsts)
        while (turn := turns.next()) is not None:
            if isinstance(turn[1], str):
                for queue in groups[turn[1]].values():
                    turns.add(queue.jobs[0][0], turn[1], (queue, 0, _ANY))
                continue
            queue, place, shorter_than = turn[1]
            _, job, predicted = queue.jobs[place]
            may_fit = fits = self._may_fit(job)
            if may_fit:
                candidate = self._candidate(job, blocked)
                yield candidate
                fits = bool(candidate.found)
            # those that were asked before its namespace got more may be before it now: another pass
            self.freed |= bool(fits and blocked and self.policy.sharing)
            if not fits:
                if (yield from self._stopping(job)):
                    return
                if claims is None or len(blocked) < claims:
                    blocked.append(job)
                    if claims is None and not self._closed:
                        # whether all that is free is kept for the blocked, whatever the others are predicted to run
                        holds = self._holds_for(blocked)
                        lasting = bool(holds) and all(hold.until == -inf and not hold.spare for hold in holds)
                        self._closed = lasting and not any((hold.keep < self.cluster.free).any() for hold in holds)
                    if self._closed and not (self.policy.stops_any_time or self.policy.reserving):
                        return
                shorter_than = predicted
                # one as short as the shortest of the kind is tried, since most often that has no room either
                if not may_fit or not queue.has_shorter(predicted):
                    continue
                trial = self._candidate(job, blocked, predicted=queue.shortest)
                yield trial
                if not trial.found:
                    continue
            following = queue.next_shorter(place, *shorter_than)
            if following is not None:
                turns.add(queue.jobs[following][0], self._group(job), (queue, following, shorter_than))

    def _on_a_live_cluster(self) -> Generator[Candidate[J], None, None]:
        """Ask all by rank, those too that come meanwhile; the first blocked one again whenever the cluster changed."""
        rank = self.backlog.rank
        self.freed = False
        self._fresh.clear()
        turns = Turns(self._share, ((rank(job), self._group(job), job) for job in self.backlog))
        blocked = list[tuple[Place, J]]()
        version = seen = -1
        asked_again = False
        while True:
            if seen != self.cluster.version:
                seen = self.cluster.version
                turns.renew()
                # a share that became smaller brings those blocked forward with all others of their namespace
                places = ((min(place, (self._share(self._group(job)), rank(job))), job) for place, job in blocked)
                blocked = sorted(places, key=itemgetter(0))
            for job in self._fresh:
                turns.add(rank(job), self._group(job), job)
            self._fresh.clear()
            turn = next((turn for turn in iter(turns.next, None) if turn[1] in self.backlog), None)
            if blocked and self.cluster.version != version and not asked_again:
                place, first = blocked[0]
                if turn is None or place < turn[0]:
                    version, asked_again = self.cluster.version, True
                    if turn is not None:
                        turns.add(rank(turn[1]), self._group(turn[1]), turn[1])
                    if first not in self.backlog:
                        break
                    candidate = self._live_candidate(first, [])
                    yield candidate
                    if candidate.found or not candidate.possible:
                        break
                    if candidate.found is False:
                        yield from self._stopping(first)
                    continue
            asked_again = False
            if turn is None:
                return
            place, job = turn
            if not blocked:
                version = self.cluster.version
            before = blocked[: bisect_left(blocked, place, key=itemgetter(0))]
            candidate = self._live_candidate(job, [earlier for _, earlier in before])
            yield candidate
            self.freed |= bool(candidate.found and blocked and self.policy.sharing)
            if candidate.found is False and candidate.possible:
                insort(blocked, (place, job), key=itemgetter(0))
                if candidate.passing:
                    yield from self._stopping(job)
        self.freed = True

    def _live_candidate(self, job: J, before: Sequence[J]) -> Candidate[J]:
        if before and not self.policy.passing:
            candidate = Candidate(job, ())
            candidate.ahead, candidate.passing = before[:1], False
            return candidate
        ahead = before[: self.policy.claims]
        candidate = live_candidate(self.policy, job, self.cluster, holds=self._holds_for(ahead))
        candidate.ahead = ahead
        candidate.outshared = bool(ahead) and self._group(ahead[0]) != self._group(job)
        return candidate

    def _candidate(self, job: J, ahead: Sequence[J], *, predicted: tuple[float, float] | None = None) -> Candidate[J]:
        """Return the question whether a job has room now, where all happens at once.

        :param predicted: seconds, expected and hardly exceeded: only a trial, as if the job were to run so long.
        """
        seen: Waiting = job
        if predicted is not None:
            seen = QueuedJob.of(job, predicted=predicted[0], predicted_high=predicted[1])
        candidate = Candidate(job, self.policy.offers(seen, self.cluster, self._holds_for(ahead)))
        candidate.trial = predicted is not None
        return candidate

    def _stopping(self, job: J) -> Generator[Candidate[J], None, bool]:
        """Ask whether a job without room has some when others are stopped, and return whether it has.

        Where there are several sets that could be, each is tried first: the best objective counts, then the order.
        """
        if job not in self.backlog:  # it has gone while its answer was awaited
            return False
        choices = [
            victim for victim in self.policy.victims(job, self.cluster) if not all(other.leaving for other in victim)
        ]
        worth = list[tuple[float, int]]()
        for number, victims in enumerate(choices if len(choices) > 1 else ()):
            trial = candidate_without(victims, self.policy, job, self.cluster, live=self.live)
            trial.trial = True
            yield trial
            if job not in self.backlog:
                return False
            if trial.found:
                worth.append((round(trial.objective, DIGITS), number))
        if not choices or (len(choices) > 1 and not worth):
            return False
        victims = choices[min(worth)[1] if worth else 0]
        candidate = candidate_without(victims, self.policy, job, self.cluster, live=self.live)
        yield candidate
        return bool(candidate.found)

    def _may_fit(self, job: J) -> bool:
        """Return whether enough is free for a job; false for all of its shape until the pass is over."""
        shape = (job.nodes, job.gpus)
        if self._closed or shape in self._hopeless:
            return False
        if self.cluster.may_fit(job):
            return True
        self._hopeless.add(shape)
        return False

    def _holds_for(self, ahead: Sequence[J]) -> Sequence[HeldNodes]:
        """Return what is kept for those ahead, found anew when the cluster has changed or they are others."""
        if not ahead:
            return ()
        about = (self.cluster.version, len(ahead), ahead[0].key, ahead[-1].key)
        if self._holds[0] != about:
            self._holds = (about, self.policy.holds(ahead, self.cluster))
        return self._holds[1]


def live_candidate(
    policy: QueuePolicy, job: J, cluster: ClusterState, *, holds: Sequence[HeldNodes] = ()
) -> Candidate[J]:
    """Return the question on which terms a job may start now on a live cluster; ``holds`` are for those before it."""
    seen: Waiting = job
    if job.preemptible and any(zone.claimed and zone.name != job.reservation for zone in cluster.reservations):
        seen = QueuedJob.of(job, preemptible=False)
    offers = policy.offers(seen, cluster, holds)
    own = next((zone for zone in cluster.reservations if job.reservation and zone.name == job.reservation), None)
    emptying = False
    if own is not None and np.count_nonzero(cluster.usable(job)[list(own.zone)]) >= job.nodes:
        # whether all that are left in its own zone go away for it: it has room there then
        there = [other for other in cluster.running if not set(own.zone).isdisjoint(other.places)]
        emptying = bool(there) and all(other.preemptible or other.leaving for other in there)
    candidate = Candidate(job, tuple(islice(offers, 1) if emptying else offers))
    candidate.emptying = emptying
    return candidate


def candidate_without(
    victims: Sequence[Running], policy: QueuePolicy, job: J, cluster: ClusterState, *, live: bool
) -> Candidate[J]:
    """Return the question whether a job has room when some others have left."""
    candidate = live_candidate(policy, job, cluster) if live else Candidate(job, policy.offers(job, cluster, ()))
    candidate.victims = sorted(victims, key=lambda victim: (victim.started, victim.key))
    return candidate


def closed_to(candidate: Candidate[J], cluster: ClusterState) -> tuple[CapacityReservation, ...]:
    """Return the reservations whose zone is closed to a job of a live cluster even in the last attempt."""
    offers = tuple(candidate.offers)
    last = offers[-1] if offers else cluster.total
    if last is None:
        return ()
    others = (
        reservation
        for reservation in cluster.reservations
        if reservation.zone and reservation.name != candidate.job.reservation
    )
    return tuple(other for other in others if last[list(other.zone)].any())


T = TypeVar("T")

Place = tuple[float, Rank]
"""Share of a namespace when its turn came, and rank: the order in which jobs of a pass have their turns."""


class Turns(Generic[T]):
    """What has not had its turn yet: a heap of namespaces by share, and in each a heap by rank.

    A turn costs the logarithm of the number of namespaces, as the share of the one alone changes that was served.

    :param share: of a namespace now; while a pass goes on it only grows, unless :meth:`renew` is called.
    :param items: what has turns, each with its rank and its namespace.
    """

    def __init__(self, share: Callable[[str], float], items: Iterable[tuple[Rank, str, T]]) -> None:
        self._share = share
        self._queues: dict[str, list[tuple[Rank, int, T]]] = {}
        self._order: list[tuple[float, Rank, str]] = []  # an entry for the head of each queue, maybe with an old share
        self._number = count()  # of two with the same rank, the one that was added first is first
        for rank, namespace, item in items:
            self._queues.setdefault(namespace, []).append((rank, next(self._number), item))
        for queue in self._queues.values():
            heapify(queue)
        self.renew()

    def add(self, rank: Rank, namespace: str, item: T) -> None:
        """Let something have a turn."""
        queue = self._queues.setdefault(namespace, [])
        heappush(queue, (rank, next(self._number), item))
        if queue[0][0] is rank:
            heappush(self._order, (self._share(namespace), rank, namespace))

    def renew(self) -> None:
        """Look at all shares anew, as some may have become smaller."""
        self._order = [(self._share(name), queue[0][0], name) for name, queue in self._queues.items()]
        heapify(self._order)

    def next(self) -> tuple[Place, T] | None:
        """Take out what has the next turn; ``None`` = nothing is left."""
        order, queues = self._order, self._queues
        while order:
            before, rank, namespace = order[0]
            queue = queues.get(namespace)
            if queue is None or queue[0][0] is not rank:  # the entry of one that is not the first any more
                heappop(order)
                continue
            share = self._share(namespace)
            if share != before:
                heapreplace(order, (share, rank, namespace))
                continue
            _, _, item = heappop(queue)
            if queue:
                heapreplace(order, (share, queue[0][0], namespace))
            else:
                heappop(order)
                del queues[namespace]
            return (share, rank), item
        return None


_COMPACT = 1024  # Places in front that may be empty before they are given back


class KindQueue(Generic[J]):
    """Jobs of one kind, by rank; and their predicted times, the least first."""

    def __init__(self) -> None:
        self.jobs: list[tuple[Rank, J, tuple[float, float]]] = []
        """Rank, job, and its predicted seconds with those that it will hardly exceed; infinite where unknown."""
        self._predicted: list[float] = []
        self._high: list[float] = []

    def join(self, rank: Rank, job: J) -> None:
        """Add a job."""
        predicted = inf if job.predicted is None else job.predicted
        high = inf if job.predicted_high is None else job.predicted_high
        insort(self.jobs, (rank, job, (predicted, high)))
        insort(self._predicted, predicted)
        insort(self._high, high)

    def leave(self, rank: Rank) -> None:
        """Remove the job of that rank."""
        _, _, (predicted, high) = self.jobs.pop(bisect_left(self.jobs, (rank,)))
        del self._predicted[bisect_left(self._predicted, predicted)]
        del self._high[bisect_left(self._high, high)]

    @property
    def shortest(self) -> tuple[float, float]:
        """The least predicted time, and the least that will hardly be exceeded, maybe of two jobs; of at least one."""
        return self._predicted[0], self._high[0]

    def has_shorter(self, predicted: tuple[float, float]) -> bool:
        """Return whether any job is predicted to run shorter, by either measure."""
        return self._predicted[0] < predicted[0] or self._high[0] < predicted[1]

    def next_shorter(self, place: int, predicted: float, high: float) -> int | None:
        """Return from a place on the first job predicted to run shorter, by either measure; infinite = any job."""
        jobs = self.jobs
        if predicted == inf:
            return place if place < len(jobs) else None
        for i in range(place, len(jobs)):
            mine, mine_high = jobs[i][2]
            if mine < predicted or mine_high < high:
                return i
        return None


class Backlog(Generic[J]):
    """Jobs that wait, by rank.  Ranks are distinct, since each ends with the key of its job.

    What a rank and a kind follow from does not change while a job waits.

    :param rank: of a job; the least is first.
    :param kind: jobs of one kind differ in nothing but their predicted times, for the policy's offers and for the
        cluster; ``None`` = :attr:`queues` are not kept.
    :param group: jobs of which have their own queues.
    """

    def __init__(
        self,
        rank: Callable[[J], Rank],
        *,
        kind: Callable[[J], Hashable] | None = None,
        group: Callable[[J], str] = lambda _: "",
    ) -> None:
        self.rank = rank
        self._kind, self._group = kind, group
        self._jobs: list[tuple[Rank, J]] = []
        self._front = 0
        self.queues: dict[str, dict[Hashable, KindQueue[J]]] = {}  # by group and kind; none is empty
        self.firsts: dict[str, Rank] = {}  # the least rank in the queues of each group

    def __len__(self) -> int:
        return len(self._jobs) - self._front

    def __iter__(self) -> Iterator[J]:
        return (job for _, job in islice(self._jobs, self._front, None))

    @property
    def first(self) -> J | None:
        """The job of the least rank; ``None`` = none waits."""
        return self._jobs[self._front][1] if self._front < len(self._jobs) else None

    def ahead(self, job: J, *, most: int | None) -> tuple[J, ...]:
        """Return the first jobs of lower rank than a job, so many at the most; ``None`` = all."""
        end = bisect_left(self._jobs, (self.rank(job),), lo=self._front)
        if most is not None:
            end = min(end, self._front + most)
        return tuple(other for _, other in islice(self._jobs, self._front, end))

    def join(self, job: J) -> None:
        """Add a job."""
        jobs, rank = self._jobs, self.rank(job)
        if self._front == len(jobs) or jobs[-1][0] < rank:
            jobs.append((rank, job))
        else:
            insort(jobs, (rank, job), lo=self._front)
        if self._kind is not None:
            group, kind = self._group(job), self._kind(job)
            queues = self.queues.setdefault(group, {})
            self.firsts[group] = min(rank, self.firsts.get(group, rank))
            if kind not in queues:
                queues[kind] = KindQueue()
            queues[kind].join(rank, job)

    def leave(self, job: J) -> None:
        """Remove a job."""
        jobs = self._jobs
        if jobs[self._front][1] is job:
            self._front += 1
            if self._front > _COMPACT and 2 * self._front > len(jobs):
                del jobs[: self._front]
                self._front = 0
        else:
            del jobs[bisect_left(jobs, (self.rank(job),), lo=self._front)]
        if self._kind is not None:
            group, kind, rank = self._group(job), self._kind(job), self.rank(job)
            queues = self.queues[group]
            queues[kind].leave(rank)
            if not queues[kind].jobs:
                del queues[kind]
            if not queues:
                del self.queues[group], self.firsts[group]
            elif self.firsts[group] == rank:
                self.firsts[group] = min(queue.jobs[0][0] for queue in queues.values())

    def __contains__(self, job: J) -> bool:
        place = bisect_left(self._jobs, (self.rank(job),), lo=self._front)
        return place < len(self._jobs) and self._jobs[place][1] is job


_Head = tuple[KindQueue[J], int, tuple[float, float]]
"""A queue of a kind, the place of a job there, and what it must be predicted to run shorter than."""

_ANY = (inf, inf)
