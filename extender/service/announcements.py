"""What operators and users should know of the cluster, looked at now and then and said once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator

from extender.cluster_api.events import EventRecorder, Regarding
from extender.cluster_api.resource import PODS
from extender.cluster_cache import ClusterCache
from extender.fleet.fleet import Fleet
from extender.kubernetes_names import GANG, GATE, SCHEDULER
from extender.texts import clip
from topology.readers.kubernetes_pods import Pod

logger = logging.getLogger(__name__)

LOOK_SECONDS = 5.0
"""How often the cluster is looked at for news."""


async def log_topology(fleet: Fleet, *, ready: Callable[[], bool]) -> None:
    """Log what is worth knowing of the nodes, each time that it changes, for ever.

    :param ready: whether the nodes are listed.
    """
    said: dict[str, str] = {}
    while True:
        if ready():
            news = dict(_news(fleet))
            for about, sentence in news.items():
                if said.get(about) != sentence:
                    logger.log(logging.INFO if about == "levels" else logging.WARNING, "%s", sentence)
            for about in said.keys() - news.keys():
                logger.info("mended: %s", said[about])
            said = news
        await asyncio.sleep(LOOK_SECONDS)


def _news(fleet: Fleet) -> Iterator[tuple[str, str]]:
    """Yield what to log, by what it is about."""
    yield "levels", fleet.table.sentence
    for problem in fleet.problems:
        where = f"node {problem.node}: " if problem.node else ""
        yield f"{problem.reason} {problem.node}", f"{where}{problem.message}\nTo fix: {problem.fix}"


async def report_orphans(state: ClusterCache, events: EventRecorder, *, leads: Callable[[], bool]) -> None:
    """Post an event about each orphan, for ever; the recorder does not repeat itself.

    :param leads: whether this replica leads: one of them is enough.
    """
    while True:
        for pod, why in orphans(state) if leads() else ():
            regarding = Regarding(PODS, pod.namespace, pod.name, pod.uid)
            events.say(regarding, reason="NoGang", note=f"waits behind the gate {GATE} for ever: {why}", kind="Warning")
        await asyncio.sleep(LOOK_SECONDS)


def orphans(state: ClusterCache) -> Iterator[tuple[Pod, str]]:
    """Yield the pods behind our gate that belong to no gang, so that no plan will ever release them: each with the
    reason and what to do.
    """
    for uid, pod in state.pods.items():
        if pod.gated_by(GATE) and not pod.leaving and state.member(uid) is None:
            yield pod, _why(pod)


def _why(pod: Pod) -> str:
    scheduler = clip(pod.spec.scheduler_name or "none")
    if scheduler != SCHEDULER:
        return f"its scheduler is {scheduler}. To fix: set schedulerName: {SCHEDULER}, or take the gate off"
    return f"it belongs to no gang that needs GPUs. To fix: name one in the label {GANG}, or take the gate off"
