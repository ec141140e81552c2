"""How fast we may ask: a token bucket and a bound on requests under way; and how long to wait after a failure.

The API server defends itself (priority and fairness), and being refused costs more than waiting; so writes wait here.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from random import uniform
from time import monotonic


class FlowControl:
    """At most ``rate`` requests a second on average, ``burst`` at once after a pause, ``parallel`` under way."""

    def __init__(
        self,
        *,
        rate: float,
        burst: int,
        parallel: int,
        clock: Callable[[], float] = monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._rate, self._burst, self._tokens = rate, float(burst), float(burst)
        self._clock, self._sleep = clock, sleep
        self._filled: float | None = None
        self._under_way = asyncio.Semaphore(parallel)

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for a turn, and hold a place among those under way while the block runs."""
        async with self._under_way:
            now = self._clock()
            if self._filled is not None:
                self._tokens = min(self._burst, self._tokens + (now - self._filled) * self._rate)
            self._filled = now
            self._tokens -= 1  # also a token that is not there yet
            if self._tokens < 0:
                await self._sleep(-self._tokens / self._rate)
            yield


class Backoff:
    """Waits of ``first``, twice that, ... at most ``longest`` seconds, each up to 20 % longer by chance."""

    def __init__(self, *, first: float, longest: float) -> None:
        self._first, self._longest = first, longest
        self._failures = 0
        self.until = 0.0  # end of the last wait, on the steady clock; 0 = what was tried last worked

    @property
    def resting(self) -> bool:
        """Whether it is too early to try again."""
        return monotonic() < self.until

    def next(self) -> float:
        """Return seconds to wait after one more failure."""
        seconds = min(self._longest, self._first * 2.0 ** min(self._failures, 30)) * uniform(1, 1.2)
        self._failures += 1
        self.until = monotonic() + seconds
        return seconds

    def reset(self) -> None:
        """Take the next failure for the first again: it worked."""
        self._failures, self.until = 0, 0.0
