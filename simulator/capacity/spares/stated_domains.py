"""Failure domains as a user states them: nodes that a leaf, a switch or a power feed takes away at once."""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import TYPE_CHECKING

from ground.errors import InvalidInput
from simulator.capacity.hardware_prices import HOURS_OF_A_YEAR
from simulator.capacity.uncertain_input import UncertainInput, given_input
from simulator.failures.rates import HIGHEST

if TYPE_CHECKING:
    from topology.cluster import Cluster

OPTION = "--failure-domain"

PER_MONTH = 1_000.0 * 0.00051 / 30.0
"""Switches below the nodes that crash, per 1,000 switch-days: 0.051 % a month (HPN, SIGCOMM 2024, section 2.3)."""
IN_THREE_MONTHS = 1_000.0 * -log(1.0 - 0.02) / 91.0
"""The same: 2 % fail within three months, of 180,000 switches (Singh and others, SIGCOMM CCR 51(2), 2021)."""

DEFAULT_RATE = f"{PER_MONTH:.2g}..{IN_THREE_MONTHS:.2g}"
RATE_SOURCE = "switches: HPN, SIGCOMM 2024, to Singh and others, SIGCOMM CCR 2021"
DEFAULT_HOURS = "2..24"
HOURS_SOURCE = "assumed: a switch is swapped in hours, a feed or a vendor's visit takes a day"


@dataclass(frozen=True, slots=True)
class StatedDomain:
    """A kind of domain, of which a job has as many as its nodes fill."""

    name: str
    nodes: int
    """Nodes of each."""
    rate: UncertainInput
    """Failures per 1,000 domain-days."""
    hours: UncertainInput
    """Hours until its nodes are back."""


def stated_domain(text: str, cluster: Cluster | None) -> StatedDomain:
    """Read ``NAME[:NODES[:RATE[:HOURS]]]``; without nodes, as many as the cluster's level of that name has in each.

    :raises InvalidInput: it is nothing of the kind, or nothing says how many nodes.
    :raises UnknownName: the cluster has no such level.
    """
    name, *parts = (part.strip() for part in text.split(":"))
    if not name or len(parts) > 3:
        fix = "give NAME:NODES, NAME:NODES:RATE or NAME:NODES:RATE:HOURS, for example leaf:32:0.1"
        raise InvalidInput(f"{text[:40]!r} is no failure domain", where=OPTION, fix=fix)
    nodes, rate, hours = (*parts, "", "", "")[:3]
    return StatedDomain(
        name,
        _nodes(name, nodes, cluster),
        given_input(
            rate or DEFAULT_RATE,
            f"{name} rate",
            f"failures per 1,000 {name}-days",
            where=OPTION,
            most=HIGHEST,
            source="given" if rate else RATE_SOURCE,
        ),
        given_input(
            hours or DEFAULT_HOURS,
            f"{name} hours",
            f"hours of a {name}'s repair",
            where=OPTION,
            least=1e-3,
            most=HOURS_OF_A_YEAR,
            source="given" if hours else HOURS_SOURCE,
        ),
    )


def _nodes(name: str, text: str, cluster: Cluster | None) -> int:
    """Return nodes of a domain, as stated or as the cluster's level has them on average."""
    if text.isascii() and text.isdigit() and 0 < int(text[:8]) <= 1_000_000:
        return int(text[:8])
    if text:
        fix = f"give a whole number from 1 to 1,000,000, as in {name[:20]}:32"
        raise InvalidInput(f"{text[:40]!r} is no number of nodes", where=OPTION, fix=fix)
    if cluster is None:
        fix = f"give it as {name[:20]}:32, or a --cluster FILE with a level {name[:20]}"
        raise InvalidInput(f"how many nodes a {name[:40]} has is not said", where=OPTION, fix=fix)
    level = cluster.level(name, where=OPTION)
    return max(1, round(len(cluster) / len(level)))
