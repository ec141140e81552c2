"""Fair order between namespaces: the one that has least for its weight comes first."""

import re
from collections.abc import Iterable, Mapping

from ground.errors import InvalidInput
from scheduler.queue.priority import PriorityAge

# Nine digits are enough for any ratio of weights, and keep shares apart from zero and infinity.
_WEIGHT = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")
_SHOWN = 40  # characters of a text that is no weight which are repeated


class FairShare(PriorityAge):
    """The namespace with the smallest share comes first; inside it, higher priority, then older.

    The *share* of a namespace is the number of GPUs that it has in use or is promised, divided by its weight, 1 unless
    said.  Where shares are equal, priority and age decide between namespaces too.  What is kept for a job without room
    is as under :class:`PriorityAge`, for the first of all namespaces first: it is not passed by small ones behind it.
    """

    name = "fair-share"
    summary = "the namespace with fewest GPUs for its weight first; inside it as priority-age"
    sharing = True


def read_weight(text: str) -> float:
    """Return the weight of a namespace, or raise ``InvalidInput``: no decimal number above 0."""
    if _WEIGHT.fullmatch(text) is None or not float(text):
        shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
        fix = "write a number above 0 with up to nine digits before and after its point, such as 2 or 0.5"
        raise InvalidInput(f"{shown!r} is no weight", fix=fix)
    return float(text)


def read_weights(parts: Iterable[str], *, where: str) -> Mapping[str, float]:
    """Return weights by namespace from texts ``NAME=W``.

    :param where: whose texts these are, for messages.
    :raises InvalidInput: one is none, or a name is there twice.
    """
    weights: dict[str, float] = {}
    for part in parts:
        name, equals, text = part.rpartition("=")
        if not equals or not name:
            raise InvalidInput(f"{part[:_SHOWN]!r} gives no name a weight", where=where, fix="write NAME=W,NAME=W")
        if name in weights:
            raise InvalidInput(f"{name[:_SHOWN]!r} has two weights", where=where, fix="give each name once")
        try:
            weights[name] = read_weight(text)
        except InvalidInput as error:
            raise InvalidInput(f"{name[:_SHOWN]!r}: {error.message}", where=where, fix=error.fix) from None
    return weights
