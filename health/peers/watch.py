"""The comparison again and again over a running Prometheus: what ``arnold health watch`` does."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from threading import Event

from ground.errors import ArnoldError
from health.peers.comparison import ComparisonSettings, detect
from health.peers.prometheus import Endpoint, EndpointAway
from health.peers.sample_sources import WatchPlan
from health.peers.verdict import PeersVerdict, instant, judge
from topology.flags import NodeFlag

FIRST_RETRY = 15.0  # Seconds until an endpoint that is away is asked again; twice as long each time, at most every


@dataclass(frozen=True, slots=True)
class WatchRound:
    """One round of a watch."""

    at: datetime  # when it began
    verdict: PeersVerdict | None  # None = there was nothing to judge, and error says why
    error: ArnoldError | None
    # all that hold: those of this round, and earlier ones for as long as WatchPlan.hold says
    flags: tuple[NodeFlag, ...]


def watch(
    endpoint: Endpoint,
    plan: WatchPlan,
    settings: ComparisonSettings,
    *,
    stop: Event,
    now: Callable[[], float] = time.time,
) -> Iterator[WatchRound]:
    """Yield rounds until ``stop`` is set; one that fails flags and clears no machine, and the next comes sooner."""
    held: dict[str, NodeFlag] = {}
    failures = 0
    while not stop.is_set():
        begun = now()
        verdict, error = None, None
        try:
            recording = endpoint.fetch(
                plan.queries,
                start=begun - plan.span,
                end=begun,
                step=plan.step,
                labels=plan.labels,
                machines=plan.machines,
            )
            verdict = judge(recording, list(detect(recording, settings, changed=held)))
        except ArnoldError as problem:
            error = problem
        failures = failures + 1 if isinstance(error, EndpointAway) else 0
        at = instant(begun)
        for flag in verdict.flags if verdict else ():
            held[flag.node] = _renewed(flag, held.get(flag.node), at + timedelta(hours=plan.hold_hours))
        held = {name: flag for name, flag in held.items() if flag.active(at)}
        yield WatchRound(at, verdict, error, tuple(held.values()))
        wait = min(plan.every, FIRST_RETRY * 2.0 ** (failures - 1)) if failures else plan.every
        stop.wait(max(0.0, begun + wait - now()))


def _renewed(flag: NodeFlag, before: NodeFlag | None, until: datetime) -> NodeFlag:
    """Return a flag that holds until then, since it was first seen; one of a broken device has no end."""
    since = min((one.since for one in (flag, before) if one is not None and one.since is not None), default=None)
    return replace(flag, since=since, until=None if flag.needs_repair else until)
