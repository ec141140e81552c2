"""Ranks in the same place, and those that are not where the others are.

Ranks with the same stack make a group.  Large groups are taken for healthy: in a hang, all but a few ranks wait in the
same collective for those few (ByteRobust, arXiv 2509.16293).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from health.recovery.stacks import Signature

DOMINANT = 0.5
"""A group is dominant from this share of the largest group on."""


@dataclass(frozen=True, slots=True)
class StackGroup:
    """Ranks with the same stack.

    :param outliers: those of them that are not in a dominant group among the ranks they are compared with.
    """

    signature: Signature
    ranks: tuple[int, ...]
    outliers: tuple[int, ...]


def group_stacks(
    signatures: Mapping[int, Signature],
    *,
    dominant: float = DOMINANT,
    kin: Callable[[int], int] = lambda _: 0,
) -> tuple[StackGroup, ...]:
    """Group ranks by stack, the largest group first.

    :param signatures: rank -> what of it is compared.
    :param dominant: a group at least this large relative to the largest is healthy, in (0, 1].
    :param kin: ranks are compared with those of the same number: their stage, or all (the default).
    """
    strata: dict[int, dict[Signature, list[int]]] = defaultdict(lambda: defaultdict(list))
    for rank, signature in signatures.items():
        strata[kin(rank)][signature].append(rank)
    ranks: dict[Signature, list[int]] = defaultdict(list)
    outliers: dict[Signature, list[int]] = defaultdict(list)
    for groups in strata.values():
        least = dominant * max(len(members) for members in groups.values())
        for signature, members in groups.items():
            ranks[signature] += members
            if len(members) < least:
                outliers[signature] += members
    found = [StackGroup(s, tuple(sorted(members)), tuple(sorted(outliers[s]))) for s, members in ranks.items()]
    return tuple(sorted(found, key=lambda group: (-len(group.ranks), group.ranks)))


def outliers_of(groups: Sequence[StackGroup]) -> tuple[int, ...]:
    """Return all outliers, ascending."""
    return tuple(sorted(rank for group in groups for rank in group.outliers))
