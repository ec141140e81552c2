"""Flags in simulated time: each begins and ends on the clock of the trace, beside failures that are drawn.

While a flag holds, what it says is true: its node is slow by its factor, and the scheduler knows it.  A faulty node is
given to no job; a job that is on it goes on there, as production stops none because of a flag.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from math import inf
from operator import itemgetter

from ground.errors import InvalidInput
from ground.groups import grouped
from simulator.failures.cluster_failures import IncidentStream
from simulator.hooks import FlagSpan, Incident, Incidents
from topology.cluster import Cluster
from topology.flags import FAULTY, NodeFlag


def lay_out(
    cluster: Cluster, flags: Iterable[NodeFlag], *, epoch: float | None, start: float
) -> tuple[Cluster, list[FlagSpan]]:
    """Return a cluster with the flags that hold from the start of a trace on without an end, and the others that hold
    at some time after it; those of the cluster itself are among both.

    :param flags: besides those of the cluster; of nodes that it does not have, left out.
    :param epoch: seconds since 1970 UTC at second 0 of the trace's clock; ``None`` = not known.
    :raises InvalidInput: a flag has a begin or an end, and the epoch is not known.
    """
    given = [*cluster.flags.values(), *(flag for flag in flags if flag.node in cluster.index_of)]
    if epoch is None and (timed := next((flag for flag in given if flag.since or flag.until), None)) is not None:
        by = f" by {timed.source}" if timed.source else ""
        message = f"the flag of {timed.node}{by} has a begin or an end, and the clock of the trace has no dates"
        fix = "say with --starts-at when the first job is submitted, by the clock of the flags"
        raise InvalidInput(message, where="flags", fix=fix)
    for_good: list[NodeFlag] = []
    spans: list[FlagSpan] = []
    for flag in given:
        begin = -inf if flag.since is None else flag.since.timestamp() - (epoch or 0.0)
        end = inf if flag.until is None else flag.until.timestamp() - (epoch or 0.0)
        if begin <= start and end == inf:
            for_good.append(flag)
        elif max(begin, start) < end:
            spans.append(FlagSpan(cluster.index_of[flag.node], begin, end, flag.slowdown))
    return cluster.replace(flags={}).with_flags(for_good), spans


def flag_changes(spans: Sequence[FlagSpan], cluster: Cluster, *, start: float) -> list[Incident]:
    """Return what happens to nodes whose flags begin and end, in order of time; of several flags of a node the worst
    counts.

    :param cluster: with the flags that hold all the time.
    :param start: the first instant; flags that hold then begin then.
    """
    # a node that is faulty all the time is no part of the run
    by_node = grouped((span.node, span) for span in spans if cluster.slowdown[span.node] < FAULTY)
    changes: list[Incident] = []
    for node, of_node in by_node.items():
        always = float(cluster.slowdown[node])
        slow, out = always, False
        bounds = [(max(span.begin, start), 1, span.slowdown) for span in of_node]
        bounds += [(span.end, -1, span.slowdown) for span in of_node if span.end < inf]
        held = Counter[float]()
        for time, together in groupby(sorted(bounds), key=itemgetter(0)):
            for _, more, slowdown in together:
                held[slowdown] += more
                if not held[slowdown]:
                    del held[slowdown]
            now, faulty = max([always, *(factor for factor in held if factor < FAULTY)]), FAULTY in held
            if now != slow:
                changes += [Incident(time, "slow", node, now), Incident(time, "flag", node, now)]
            if faulty != out:
                changes.append(Incident(time, "drain" if faulty else "up", node))
            slow, out = now, faulty
    return sorted(changes, key=lambda incident: (incident.time, incident.node))


def failures_and_flags(failures: Incidents, flags: Sequence[Incident], cluster: Cluster) -> IncidentStream:
    """Return what happens to nodes by failures that are drawn and by flags: of a node the worse of both counts.

    :param flags: in order of time.
    :param cluster: with the flags that hold all the time.
    """
    first = failures.state()
    held = ((node, flag.slowdown) for node, flag in cluster.flags.items() if flag.slowdown < FAULTY)
    always = {(kind, node): slowdown for node, slowdown in held for kind in ("slow", "flag")}

    def incidents() -> Iterator[Incident]:
        """Yield the incidents of either, each with what the other says of the node, where it changes anything."""
        failures.restore(first)
        coming = iter(flags)
        slow: tuple[dict[tuple[str, int], float], ...] = ({}, dict(always))
        out: tuple[set[int], ...] = (set(), set())
        heads: list[Incident | None] = [None, None]
        while True:
            # the next of a source is asked for when its last has happened: failures say then what that one costs
            heads = [heads[0] or failures.next(), heads[1] or next(coming, None)]
            times = [(head.time, which) for which, head in enumerate(heads) if head is not None]
            if not times:
                return
            which = min(times)[1]
            incident, heads[which] = heads[which], None
            assert incident is not None
            other, node = 1 - which, incident.node
            if incident.kind in ("slow", "flag"):
                key = incident.kind, node
                slow[which][key] = incident.slowdown
                worse = max(incident.slowdown, slow[other].get(key, incident.slowdown))
                yield replace(incident, slowdown=worse)
            elif incident.kind == "up":
                out[which].discard(node)
                if node not in out[other]:
                    yield incident
            else:
                out[which].add(node)
                yield incident

    return IncidentStream(incidents)


def incidents_of(
    failures: Incidents | None, spans: Sequence[FlagSpan], cluster: Cluster, *, start: float
) -> Incidents | None:
    """Return what happens to nodes: failures that are drawn, flags, or both; ``None`` = nothing."""
    if not spans and (failures is None or not cluster.flags):
        return failures
    flags = flag_changes(spans, cluster, start=start)
    return IncidentStream(lambda: iter(flags)) if failures is None else failures_and_flags(failures, flags, cluster)
