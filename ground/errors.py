"""The one exception tree of Arnold: each error a user can cause says what is wrong, where, and what to do about it."""

from bisect import bisect
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import ClassVar


class ArnoldError(Exception):
    """Base of every error that Arnold raises on purpose.

    :param message: what is wrong, one sentence.
    :param where: the place of the fault: ``"cluster.csv:12"``, ``"--alpha"``, ...; empty when there is none.
    :param fix: what the user can do, in the imperative, without the words "To fix".
    """

    exit_code: ClassVar[int] = 2

    def __init__(self, message: str, *, where: str = "", fix: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.fix = fix

    @property
    def kind(self) -> str:
        """Stable name of the kind of error, as shown in JSON."""
        return type(self).__name__.removeprefix("_")

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        remedy = f"\nTo fix: {self.fix}" if self.fix else ""
        return f"{place}{self.message}{remedy}"


class InvalidInput(ArnoldError):
    """A file or option cannot be read at all: missing, empty, binary, truncated, not the promised format."""


class InvalidTopology(InvalidInput):
    """The file was read, and what it says of a cluster cannot be."""


class TooLarge(InvalidInput):
    """The input is well formed and bigger than Arnold takes on."""

    exit_code = 3


class InvalidJob(InvalidInput):
    """The file was read, and what it says of a job cannot be."""


class TraceFormatError(InvalidInput):
    """A trace cannot be read, or what it says cannot have happened."""


class InvalidPlacement(ArnoldError):
    """A placement breaks a rule of the job or the cluster.  Raised by the evaluator alone."""


class Infeasible(ArnoldError):
    """No valid placement exists; the message names the constraint that binds."""

    exit_code = 3


class SolverTimeout(ArnoldError):
    """Time ran out before any valid placement was found."""

    exit_code = 4


class UnknownName(InvalidInput):
    """A name (algorithm, preset, format, level) that does not exist; the fix lists those that do."""


def few(items: Iterable[object], *, most: int = 5, separator: str = ", ") -> str:
    """Return the first of some things, and how many more there are: ``n1, n2, n3, n4, n5 and 7 more``."""
    words = [str(item) for item in items]
    rest = len(words) - most
    return separator.join(words[:most]) + (f" and {rest:,} more" if rest > 0 else "")


def some(names: Sequence[str], *, most: int = 5) -> str:
    """Return how many names there are, and the first of them: ``12 (n1, n2, n3, n4, n5, ...)``."""
    return f"{len(names):,} ({', '.join(names[:most])}{', ...' if len(names) > most else ''})"


def did_you_mean(name: str, known: Iterable[str], *, among: int = 2_000) -> str:
    """Return ``"did you mean 'alpha'? "``, the start of a fix, or nothing when no known name is close, capitals aside;
    of more than ``among`` names only the nearest in sorted order are compared, to answer at once.
    """
    written = {each.casefold(): each for each in sorted(known, reverse=True)}  # of two that are alike, the first
    names, meant = sorted(written), name[:200].casefold()
    if len(names) > among:
        middle = bisect(names, meant)
        names = names[max(0, middle - among // 2) : middle + among // 2]
    close = get_close_matches(meant, names, n=1)
    return f"did you mean {written[close[0]]!r}? " if close else ""
