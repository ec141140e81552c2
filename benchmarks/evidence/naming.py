"""Who was to be named, who was, and the shares that say how good that is."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

HEADER = ("runs", "culprits", "named", "others named", "recall", "precision")


@dataclass(frozen=True, slots=True)
class Naming:
    """One case: the culprits (ranks, nodes, GPUs), and those that a tool names."""

    kind: str
    culprits: frozenset[object]
    named: frozenset[object]


def rows(tool: str, namings: Iterable[Naming]) -> Iterator[list[str]]:
    """A row of :data:`HEADER` for each kind of case and for all, begun with the kind and the tool."""
    of_kind: dict[str, list[Naming]] = {}
    for naming in namings:
        of_kind.setdefault(naming.kind, []).append(naming)
    everything = [naming for cases in of_kind.values() for naming in cases]
    for kind, cases in [*of_kind.items(), *([("all", everything)] if len(of_kind) > 1 else [])]:
        culprits = sum(len(case.culprits) for case in cases)
        right = sum(len(case.culprits & case.named) for case in cases)
        wrong = sum(len(case.named - case.culprits) for case in cases)
        recall = f"{right / culprits:.2f}" if culprits else "-"
        precision = f"{right / (right + wrong):.2f}" if right + wrong else "-"
        yield [kind, tool, str(len(cases)), str(culprits), str(right), str(wrong), recall, precision]
