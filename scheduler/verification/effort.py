"""What recounting may take: so many steps for one refutation, and for all of a certificate, whatever it claims.

A certificate may come from anyone.  What it claims must not make its verifier run for hours or fill the memory, so
whatever grows with a claim is counted first, and left open where it would be too much.  Steps are counted, not seconds:
the verdict is the same on every machine.
"""

from __future__ import annotations

OF_ONE = 400_000_000  # Steps for one refutation: a step is an entry of a table, and these are about a second
OF_ALL = 20 * OF_ONE  # For all refutations of a certificate
MOST_ENTRIES = 20_000_000  # Entries of tables that are kept at once: 160 MB
CALL = 5_000  # Steps that a small array operation takes, whatever its size


class TooMuch(Exception):
    """There is more to try than is worth it."""


class Effort:
    """The steps that are left."""

    def __init__(self, *, of_one: int = OF_ONE, of_all: int = OF_ALL) -> None:
        self._of_one, self._all = of_one, of_all
        self._one = min(of_one, of_all)

    def begin(self) -> None:
        """Begin with another refutation."""
        self._one = min(self._of_one, self._all)

    def take(self, steps: int) -> None:
        """Use steps up before they are done; raise TooMuch where there are not as many left."""
        if steps > self._one:
            raise TooMuch
        self._one -= steps
        self._all -= steps
