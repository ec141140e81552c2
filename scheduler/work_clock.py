"""The clock of limits: it counts work, so that the same question has the same answer on any machine at any load.

Each part of a search says what it has done (:func:`spend`), in seconds that this takes on one core of a 2.x GHz server,
about, and limits and shares are of these.  A look at the clock counts too, so that whatever looks comes to its end.
Who waits for an answer also has an end by the clock on the wall (``wall``): past it the count goes on as fast as that
clock, so that everything ends, and the answer may depend on the machine, which :attr:`Timer.late` tells.  Who does not
want to wait any more ends all clocks (:func:`end_all`), and the solvers that run.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field, replace
from math import inf
from time import perf_counter
from typing import Literal, TypeVar

ClockKind = Literal["wall", "work"]
End = float | Literal["interrupted"]  # What ended a search: a limit of so many seconds, or whoever waited for it

T = TypeVar("T")

_LOOK = 2e-5  # Seconds of work that a look at the clock counts as: what is done between two looks, at least

_FADE = 0.5  # Seconds in which a whole limit passes once all clocks are ended, as a search may just have got one

LEAST_SECONDS = 0.05  # Time that a part of the question gets when the others have used all of it up


@dataclass(slots=True)
class Timer:
    """Work counted so far, and where the wall's clock ends it."""

    seconds: float = 0.0
    end: float = inf  # the count that stands for the end by the wall's clock, or an interruption, at least
    deadline: float = inf  # that end, by ``perf_counter``; infinite = work alone counts
    late: bool = False  # whether it is past: another run may come further, or less far

    def look(self) -> float:
        """Return the count now."""
        if min(self.deadline, _stops.since) == inf:
            return self.seconds
        now = perf_counter()
        for end, rate in ((self.deadline, 1.0), (_stops.since, max(1.0, self.end / _FADE))):
            if now >= end:
                self.late = True
                self.seconds = max(self.seconds, self.end + rate * (now - end))
        return self.seconds


@dataclass(slots=True)
class _Stops:
    """Whether all clocks were ended, and what can be."""

    since: float = inf  # by ``perf_counter``; infinite = they were not
    solvers: list[Callable[[], object]] = field(default_factory=list)  # stops each of those that run


_stops = _Stops()
_TIMER: ContextVar[Timer | None] = ContextVar("timer", default=None)


def end_all() -> None:
    """End all clocks and the solvers that run, so that searches return the best so far.

    Called from any thread, again and again until they have returned, as a solver may be about to start.
    """
    _stops.since = min(_stops.since, perf_counter())
    for stop in tuple(_stops.solvers):
        stop()


def begin_again() -> None:
    """Let clocks that are started from now on run again."""
    _stops.since = inf


def interrupted() -> bool:
    """Return whether all clocks were ended."""
    return _stops.since < inf


def ended_at(seconds: float) -> End:
    """Return what ended a search whose clock ended: its limit, given in seconds, unless all clocks were ended."""
    return "interrupted" if interrupted() else seconds


@contextmanager
def stoppable(stop: Callable[[], object]) -> Iterator[None]:
    """Let :func:`end_all` stop the solver that runs inside.

    :param stop: makes it return soon with what it has; called from another thread, maybe before it runs.
    """
    _stops.solvers.append(stop)
    try:
        yield
    finally:
        _stops.solvers.remove(stop)


def clock() -> float:
    """Return seconds on the clock; differences count, and ends are compared with it.

    Outside of :func:`on_clock` these are seconds of the wall.
    """
    timer = _TIMER.get()
    if timer is None:
        return perf_counter()
    timer.seconds += _LOOK
    return timer.look()


def cut_short() -> bool:
    """Return whether the wall or an interruption ended the count: a look that counts nothing, for long steps."""
    timer = _TIMER.get()
    return timer is not None and (end := min(timer.deadline, _stops.since)) < inf and perf_counter() >= end


def share_until(end: float, parts: int = 1) -> float:
    """Return the seconds of one of so many parts of a question that are left until an end, never quite none."""
    return max(LEAST_SECONDS, (end - clock()) / parts)


def spend(seconds: float) -> None:
    """Count work of so many seconds; nothing on the wall's clock, which goes by itself."""
    if (timer := _TIMER.get()) is not None:
        timer.seconds += seconds
        timer.look()


def stopwatch() -> float:
    """Return seconds to tell how long something took, not to decide by: of the wall, or counted where nobody waits."""
    timer = _TIMER.get()
    return perf_counter() if timer is None or timer.deadline < inf else timer.seconds


def counts_work() -> bool:
    """Return whether the clock counts work, so that a solver is limited by its own count."""
    return _TIMER.get() is not None


def wall_left(seconds: float) -> float:
    """Return how long a solver may run by the wall's clock, where so many seconds are left: infinite = as it likes."""
    timer = _TIMER.get()
    if timer is None:
        return seconds
    deadline = min(timer.deadline, _stops.since)
    return inf if deadline == inf else max(0.0, deadline - perf_counter())


@contextmanager
def on_clock(kind: ClockKind, seconds: float) -> Iterator[Timer]:
    """Count work inside; under ``wall`` an end by the wall's clock is so many seconds from now.

    What counts already goes on counting, with its own end.
    """
    if (timer := _TIMER.get()) is not None:
        yield timer
        return
    timer = Timer(end=seconds) if kind == "work" else Timer(end=seconds, deadline=perf_counter() + seconds)
    token = _TIMER.set(timer)
    try:
        yield timer
    finally:
        _TIMER.reset(token)


def side_by_side(searches: Sequence[Callable[[], T]], *, workers: int) -> list[T]:
    """Run searches at once in so many threads; return results in the order of the searches.

    Each counts from the same moment, and all that they count comes together: so the number of threads changes nothing.
    """
    timer = _TIMER.get()
    forked = [timer if timer is None else replace(timer) for _ in searches]

    def run(search: Callable[[], T], own: Timer | None) -> T:
        _TIMER.set(own)
        return search()

    begun = [(copy_context(), search, own) for search, own in zip(searches, forked, strict=True)]
    if min(workers, len(searches)) < 2:
        results = [context.run(run, search, own) for context, search, own in begun]
    else:
        # a solve releases the interpreter lock, so threads are enough
        with ThreadPoolExecutor(max_workers=min(workers, len(searches))) as pool:
            futures = [pool.submit(context.run, run, search, own) for context, search, own in begun]
            results = [future.result() for future in futures]
    if timer is not None:
        timer.seconds += sum(own.seconds - timer.seconds for own in forked if own is not None)
        timer.look()
    return results
