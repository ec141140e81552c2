"""What operators and users should know of the cluster, looked at now and then and said once."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Iterator

from extender.cluster_api.api_errors import ClusterError
from extender.cluster_api.client import NAMESPACES, PODS, ClusterApi
from extender.cluster_api.events import EventRecorder, Regarding
from extender.cluster_cache import ClusterCache
from extender.kubernetes_names import FAIR_SHARE_WEIGHT, GANG, GANG_SIZE, GATE, PARALLELISM, SCHEDULER
from extender.plans.definitions import OPENAPI, read_definitions
from extender.texts import clip, counted
from ground.errors import InvalidInput
from topology.kubernetes.pods import Pod

logger = logging.getLogger(__name__)

LOOK_SECONDS = 5.0  # how often the cluster is looked at for news
DEFINITIONS_SECONDS = 10.0  # how often the definitions of our kinds are read: some 30 kB


async def log_topology(state: ClusterCache, *, ready: Callable[[], bool]) -> None:
    """Log what is worth knowing of nodes and namespaces once they are listed, each time that it changes, for ever."""
    fleet = state.fleet
    said: dict[str, str] = {}
    while True:
        if ready():
            news = {"levels": fleet.table.sentence}
            for problem in (*fleet.problems, *state.claimed.problems):
                where = f"node {problem.node}: " if problem.node else ""
                news[f"{problem.reason} {problem.node}"] = f"{where}{problem.message}\nTo fix: {problem.fix}"
            for one, error in state.weights.unreadable:
                news[f"BadWeight {one.metadata.name}"] = f"namespace {one.metadata.name}: {_no_weight(error)}"
            for about, sentence in news.items():
                if said.get(about) != sentence:
                    logger.log(logging.INFO if about == "levels" else logging.WARNING, "%s", sentence)
            for about in said.keys() - news.keys():
                logger.info("mended: %s", said[about])
            said = news
        await asyncio.sleep(LOOK_SECONDS)


async def look_at_definitions(state: ClusterCache, api: ClusterApi) -> None:
    """Read which of our fields the cluster keeps; where that cannot be read, what was known of it stands."""
    try:
        definitions = read_definitions(await api.read(OPENAPI))
    except (ClusterError, InvalidInput) as error:
        # without our kinds there is no such document: that they cannot be listed is said louder
        logger.debug("the definitions of our kinds cannot be read: %s", error)
        return
    if definitions != state.definitions:
        for sentence in definitions.sentences or ["the definitions in the cluster have all fields"]:
            logger.log(logging.WARNING if definitions.lacking else logging.INFO, "%s", sentence)
    state.definitions = definitions


async def follow_definitions(state: ClusterCache, api: ClusterApi, *, changed: Callable[[], None]) -> None:
    """Read now and then which of our fields the cluster keeps, for ever, as definitions are replaced under us."""
    while True:
        await asyncio.sleep(DEFINITIONS_SECONDS)
        before = state.definitions
        await look_at_definitions(state, api)
        if state.definitions != before:
            state.changed()
            changed()


async def report_faults(state: ClusterCache, events: EventRecorder, *, leads: Callable[[], bool]) -> None:
    """Post an event about each orphan, a pod of each gang that is passed over, and each namespace with a weight that is
    none, for ever, from the leader; the recorder does not repeat itself.
    """
    while True:
        for pod, why in orphans(state) if leads() else ():
            regarding = Regarding(PODS, pod.namespace, pod.name, pod.uid)
            events.say(regarding, reason="NoGang", note=f"waits behind the gate {GATE} for ever: {why}", kind="Warning")
        for gang, pods in passed_over(state).items() if leads() else ():
            pod = min(pods, key=lambda pod: pod.name)
            scheduler = clip(pod.spec.scheduler_name or "none")
            note = (
                f"gang {clip(gang)} is not planned: {counted(len(pods), 'pod')} of it have no gate {GATE}, and "
                f"{scheduler} places each alone. To fix: write schedulerName: {SCHEDULER} and that scheduling gate "
                "into the pod template, or install the admission policies of Arnold's manifests (before Kubernetes "
                f"1.36: the component before-1.36), or take the label {GANG} off"
            )
            regarding = Regarding(PODS, pod.namespace, pod.name, pod.uid)
            events.say(regarding, reason="PassedOver", note=note, kind="Warning")
        for one, error in state.weights.unreadable if leads() else ():
            regarding = Regarding(NAMESPACES, "", one.metadata.name, one.metadata.uid)
            events.say(regarding, reason="BadWeight", note=_no_weight(error), kind="Warning")
        await asyncio.sleep(LOOK_SECONDS)


def passed_over(state: ClusterCache) -> dict[str, list[Pod]]:
    """Return the pods with GPUs that say they are of a gang, and which another scheduler places one by one, by gang.

    Where no admission policy adds gate and scheduler, as on an API server that knows none, a label alone does nothing.
    """
    gangs = defaultdict[str, list[Pod]](list)
    for pod in state.pods.values():
        says = GANG in pod.labels or GANG_SIZE in pod.annotations or PARALLELISM in pod.annotations
        if not says or pod.spec.scheduler_name == SCHEDULER or pod.gated_by(GATE) or pod.terminal or pod.leaving:
            continue
        if pod.readable_gpus:
            maker = pod.name if pod.owner is None else pod.owner.name
            gangs[f"{pod.namespace}/{pod.labels.get(GANG) or maker}"].append(pod)
    return gangs


def _no_weight(error: InvalidInput) -> str:
    return f"{FAIR_SHARE_WEIGHT}: {error.message}, so it counts as 1\nTo fix: {error.fix}"


def orphans(state: ClusterCache) -> Iterator[tuple[Pod, str]]:
    """Yield the pods behind our gate that no plan will ever release, as they belong to no gang: with the reason."""
    for uid, pod in state.pods.items():
        if pod.gated_by(GATE) and not pod.leaving and state.member(uid) is None:
            why = f"it belongs to no gang that needs GPUs. To fix: name one in the label {GANG}"
            if (scheduler := clip(pod.spec.scheduler_name or "none")) != SCHEDULER:
                why = f"its scheduler is {scheduler}. To fix: set schedulerName: {SCHEDULER}"
            yield pod, f"{why}, or take the gate off"
