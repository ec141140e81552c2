"""How long to wait after a failure: twice as long each time, up to a limit, a little random."""

from __future__ import annotations

from random import uniform


class Backoff:
    """Waits of ``first``, twice that, ... at most ``longest`` seconds, each up to 20 % longer by chance."""

    def __init__(self, *, first: float, longest: float) -> None:
        self._first = first
        self._longest = longest
        self._failures = 0

    def next(self) -> float:
        """Return seconds to wait after one more failure."""
        self._failures += 1
        return min(self._longest, self._first * 2.0 ** min(self._failures - 1, 30)) * uniform(1, 1.2)

    def reset(self) -> None:
        """Take the next failure for the first again: it worked."""
        self._failures = 0
