"""Taints, which keep pods off nodes, and tolerations, which put up with them: what is not for a job is not broken.

The rules are those of Kubernetes (``v1helper.TolerationsTolerateTaint``), the same for files and for the live cluster.
A taint with the effect ``PreferNoSchedule`` keeps nobody off: the node may be used, at :data:`PREFER_NO_SCHEDULE` times
the step time, so that a spread that saves more than that still takes it.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ground.errors import InvalidInput
from topology.flags import WARNING, NodeFlag

PREFER_NO_SCHEDULE = WARNING
"""Slowdown that stands for a taint PreferNoSchedule: the node is healthy as far as anyone knows, so it is priced below
any slowdown that detectors report (they start at 1.1), and above nothing."""

REPELLING, DISCOURAGING = ("NoSchedule", "NoExecute"), "PreferNoSchedule"
EFFECTS = (*REPELLING, DISCOURAGING)
TAINTS_UNTIL = "arnold.dev/taints-until"
"""Annotation of a node: when the taints that people set are to go, RFC 3339 with a time zone."""
_TAINT = re.compile(r"(?P<key>[^=:\s]+)(?:=(?P<value>[^=:\s]*))?(?::(?P<effect>\w+))?")
_PRICED = "with effect PreferNoSchedule"  # how the evidence of a price ends


@dataclass(frozen=True, slots=True)
class Taint:
    """Why pods should stay away; with another effect than those of :data:`EFFECTS` it does nothing."""

    key: str = ""
    value: str | None = None
    effect: str = ""

    def __str__(self) -> str:
        """Return ``dedicated=vision``, or the key alone, as ``--tolerate`` takes it."""
        return f"{self.key}={self.value}" if self.value else self.key

    @property
    def repels(self) -> bool:
        """Whether it keeps new pods off that do not tolerate it."""
        return self.effect in REPELLING

    @property
    def discourages(self) -> bool:
        """Whether it asks new pods that do not tolerate it to stay away if they can."""
        return self.effect == DISCOURAGING


@dataclass(frozen=True, slots=True, order=True)
class Toleration:
    """Taints that a pod, or a job, puts up with."""

    key: str = ""  # empty, with the operator Exists = of any key
    operator: str = "Equal"  # Exists = of any value; empty = Equal
    value: str = ""
    effect: str = ""  # empty = any

    def __str__(self) -> str:
        """Return it as ``--tolerate`` takes it; a ``*`` = any taint."""
        value = f"={self.value}" if self.operator != "Exists" else ""
        return f"{self.key or '*'}{value}{f':{self.effect}' if self.effect else ''}"

    def covers(self, taint: Taint) -> bool:
        """Return whether it puts up with a taint."""
        if self.effect not in ("", taint.effect) or self.key not in ("", taint.key):
            return False
        return self.operator == "Exists" or (
            bool(self.key) and self.operator in ("", "Equal") and self.value == (taint.value or "")
        )


def tolerated(taint: Taint, tolerations: Iterable[Toleration]) -> bool:
    """Return whether any of some tolerations puts up with a taint."""
    return any(toleration.covers(taint) for toleration in tolerations)


def untolerated(taints: Iterable[Taint], tolerations: Sequence[Toleration]) -> tuple[Taint, ...]:
    """Return the taints that none of some tolerations puts up with."""
    return tuple(taint for taint in taints if not tolerated(taint, tolerations))


def kept_out_by(taints: Iterable[Taint]) -> str:
    """Return why taints keep a job off a node: ``kept out by the taint dedicated=vision``; empty = none does."""
    names = [*dict.fromkeys(str(taint) for taint in taints if taint.repels)]
    return f"kept out by the taint{'s' if len(names) > 1 else ''} {', '.join(names)}" if names else ""


def price_flag(node: str, taints: Iterable[Taint]) -> NodeFlag | None:
    """Return what taints of a node with the effect PreferNoSchedule cost; ``None`` without any."""
    keys = sorted({taint.key for taint in taints if taint.discourages})
    if not keys:
        return None
    evidence = f"taint {', '.join(keys)} {_PRICED}"
    return NodeFlag(node, "degraded", PREFER_NO_SCHEDULE, source="kubernetes", evidence=evidence)


def is_price(flag: NodeFlag) -> bool:
    """Return whether a flag is one of :func:`price_flag`."""
    return flag.slowdown == PREFER_NO_SCHEDULE and flag.evidence.endswith(_PRICED)


def parse_taint(text: str) -> Taint:
    """Read ``KEY[=VALUE][:EFFECT]``, as kubectl writes a taint; raise ValueError for anything else."""
    match = _TAINT.fullmatch(text)
    if match is None or (match["effect"] is not None and match["effect"] not in EFFECTS):
        raise ValueError(f"{text[:80]!r} is not KEY[=VALUE][:EFFECT], effects are {', '.join(EFFECTS)}")
    return Taint(match["key"], match["value"], match["effect"] or "")


def parse_toleration(text: str) -> Toleration:
    """Read ``KEY`` (of any value) or ``KEY=VALUE``, with ``:EFFECT`` after it or not; raise ValueError for others."""
    taint = parse_taint(text)
    operator = "Exists" if taint.value is None else "Equal"
    return Toleration(taint.key, operator, taint.value or "", taint.effect)


def parse_tolerations(texts: Iterable[str], *, where: str) -> tuple[Toleration, ...]:
    """Read several as :func:`parse_toleration`; raise InvalidInput, at ``where``, for one that is none."""
    try:
        return tuple(parse_toleration(text.strip()) for text in texts)
    except ValueError as error:
        fix = "give KEY, or KEY=VALUE, of a taint: dedicated=vision"
        raise InvalidInput(str(error), where=where, fix=fix) from None


def taint_notes(
    taints: Mapping[int, Sequence[Taint]], tolerations: Sequence[Toleration], *, nodes: int
) -> Iterator[str]:
    """Yield what a user should know of the taints of so many nodes, by node, and of those that all jobs tolerate."""
    every = {taint for of_node in taints.values() for taint in of_node}
    left = Counter(str(taint) for of_node in taints.values() for taint in {*untolerated(of_node, tolerations)})
    for name, count in sorted(left.items(), key=lambda named: (-named[1], named[0])):
        effect = "kept out" if any(taint.repels for taint in every if str(taint) == name) else "priced"
        share = f"{count:,} of {nodes:,} nodes"
        yield f"{effect} by the taint {name}: {share}, but for jobs that tolerate it (--tolerate {name})"
    for toleration in tolerations:
        if not any(toleration.covers(taint) for taint in every):
            names = ", ".join(sorted({str(taint) for taint in every})) or "none"
            yield f"no node has a taint that --tolerate {toleration} covers; taints that keep jobs off: {names}"
