"""Gangs that stand still: what is seen, what is done about it, and what comes of it, kept beside the gang.

Each step is an Event about the GangPlan, and stands in an incident of the namespace's GangHistory, which outlives the
GangPlan of a job that its owner starts again as a whole.  What follows is decided from these and from the plan, so a
watch that is killed goes on where it was.

    StandsStill   nothing of the gang has moved for a while
    Named         which nodes hold it up, and why they are taken to
    Advised       what a person could do (policy advise)
    Evicted       its pods on these nodes are evicted (policy act), at most so many nodes an hour
    Withheld      why they are not
    Moved         the rank has another node: the extender's repair, as the node is out of use
    Resumed       it moves again;  Gone: there is no such gang any more

Nothing is restarted here: the owner of the evicted pods makes them anew, and its rules say whether the others start
again with them.
"""

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

from extender.cluster_api.client import GANGPLANS, HISTORIES, PODS, ClusterApi, ClusterError, Conflict, NotFound
from extender.cluster_api.events import EventRecorder, Regarding
from extender.cluster_api.reflector import objects_of
from extender.gangs.types import GangKey
from extender.kubernetes_names import HISTORY_NAME
from extender.objects import decode_pod
from extender.plans.gang_history import (
    EVICTED,
    GONE,
    RESUMED,
    WITHHELD,
    GangHistory,
    GangIncident,
    decode_history,
    encode_history,
)
from extender.plans.gang_plan import GangPlan, canonical_uid, object_name
from extender.texts import named
from ground.errors import InvalidInput
from ground.quantities import duration, plural
from topology.kubernetes.pods import Pod

HOUR = timedelta(hours=1)  # in which evictions are counted
TRIES = 3  # that a history is to be written while the extender writes it too
FORGET = timedelta(days=1)  # without its gang, after which an incident is over


@dataclass(frozen=True, slots=True)
class GangSeen:
    """A gang that has nodes, as it was just looked at."""

    plan: GangPlan
    stands: bool | None  # whether it stands still; None = that cannot be told
    since: datetime | None  # when it last moved
    words: str
    suspects: Mapping[str, str]  # node -> why it is taken to hold the others up


async def list_histories(api: ClusterApi) -> dict[str, GangHistory]:
    """Return the histories of all namespaces that can be read."""
    histories = {}
    async for raw in objects_of(api, HISTORIES):
        with suppress(InvalidInput):
            history = decode_history(raw)
            histories[history.namespace] = history
    return histories


async def history_of(api: ClusterApi, namespace: str) -> GangHistory:
    """Return the history of a namespace, empty where there is none yet, or raise ``ClusterError``."""
    try:
        return decode_history(await api.get(HISTORIES, HISTORY_NAME, namespace=namespace))
    except NotFound:
        return GangHistory(namespace=namespace)


async def write_history(api: ClusterApi, history: GangHistory) -> bytes:
    """Write a history, and return it as it is stored now, or raise ``Conflict``: it was written since it was read."""
    document, namespace = encode_history(history), history.namespace
    if not history.uid:
        return await api.create(HISTORIES, document, namespace=namespace)
    return await api.replace(HISTORIES, HISTORY_NAME, document, namespace=namespace)


def looked_at(before: GangIncident | None, seen: GangSeen, now: datetime) -> GangIncident | None:
    """Return the incident of a gang after a look, given the one that is not over; ``None`` = there is none."""
    plan, after = seen.plan, before
    if after is None:
        if not seen.stands:
            return None
        after = GangIncident(gang=plan.key.name, since=(seen.since or now).replace(microsecond=0))
        after = after.then(now, "StandsStill", seen.words)
    ranks = plan.rank_of_node
    suspects = {node: why for node, why in seen.suspects.items() if node in ranks}
    if seen.stands and suspects and not after.nodes:
        after = after.replace(nodes=tuple(suspects), ranks=tuple(ranks[node] for node in suspects))
        after = after.then(
            now, "Named", "; ".join(f"{node} (rank {ranks[node]}): {why}" for node, why in suspects.items())
        )
    for node, rank in zip(after.nodes, after.ranks, strict=True):
        other = plan.node_of_rank.get(rank)
        if other not in (node, None):
            after = after.then(now, "Moved", f"rank {rank} has {other} in place of {node}")
    if seen.stands is False:
        lost = duration((now - after.since).total_seconds())
        after = after.then(now, RESUMED, f"it moves again, {lost} after it stood still")
    return after


async def keep_incidents(
    api: ClusterApi,
    gangs: Collection[GangSeen],
    histories: Mapping[str, GangHistory],
    *,
    out: Collection[str],
    acts: bool,
    budget: int,
    now: datetime,
) -> list[tuple[GangKey, GangIncident]]:
    """Write down what was seen of gangs, act on it or advise, and return the incidents that have changed.

    :param histories: as they were just read; by namespace.
    :param out: nodes that are out of use, so that a rank on one of them moves.
    :param acts: pods are evicted; else what could be done is told.
    :param budget: nodes of which gangs are cleared an hour, at most.
    :raises ClusterError: it cannot be written; what was not written was not done.
    """
    left = budget - sum(history.evictions_since(now - HOUR) for history in histories.values())
    events, changed = EventRecorder(api, instance="arnold-watch"), list[tuple[GangKey, GangIncident]]()
    standing = {
        GangKey(history.namespace, incident.gang): incident
        for history in histories.values()
        for incident in history.incidents
        if not incident.over
    }
    for seen in gangs:
        key = seen.plan.key
        before = standing.pop(key, None)
        after, pods = looked_at(before, seen, now), list[Pod]()
        if after is None:
            continue
        if not after.over and seen.stands:
            after, pods = await _answered(api, after, seen, out=out, acts=acts, left=left, now=now)
        if after == before:
            continue
        # before it is done: a watch that is killed between the two does it once at most
        await _note(api, key.namespace, after)
        for pod in pods:
            try:
                with suppress(NotFound, Conflict):
                    await api.evict(pod.name, namespace=pod.namespace, uid=pod.uid)
            except ClusterError as error:
                after = after.then(now, WITHHELD, f"{pod.name} was not evicted: {error}")
                await _note(api, key.namespace, after)
        left -= len(after.nodes) if pods else 0
        changed.append((key, after))
        regarding = Regarding(GANGPLANS, key.namespace, object_name(key), seen.plan.uid)
        for step in after.steps if before is None else [step for step in after.steps if step not in before.steps]:
            events.say(
                regarding,
                reason=step.did,
                note=step.why,
                action="Watch",
                kind="Normal" if step.did in ("Moved", RESUMED) else "Warning",
            )
    for key, incident in standing.items():
        if now - incident.steps[-1].at > FORGET:
            over = incident.then(now, GONE, "its gang has not been seen on its nodes for a day")
            await _note(api, key.namespace, over)
            changed.append((key, over))
    await events.drain()
    return changed


async def _answered(
    api: ClusterApi,
    incident: GangIncident,
    seen: GangSeen,
    *,
    out: Collection[str],
    acts: bool,
    left: int,
    now: datetime,
) -> tuple[GangIncident, list[Pod]]:
    """Return the incident with what is done about it, and the pods to evict."""
    nodes, plan = incident.nodes, seen.plan
    if not nodes or incident.did(EVICTED) is not None or incident.did("Moved") is not None:
        return incident, []
    where = named(nodes)
    if not acts:
        ranks = f"the pods of rank {named(map(str, incident.ranks))} on {where}"
        return incident.then(now, "Advised", f"evict {ranks}, as --policy act does; their owner makes them anew"), []
    if beyond := [node for node in nodes if node not in out]:
        why = f"the store does not hold {named(beyond)} for faulty: arnold flags why {beyond[0]}"
        return incident.then(now, WITHHELD, why), []
    if left < len(nodes):
        return incident.then(now, WITHHELD, "as many nodes as --budget allows were cleared within an hour"), []
    pods = []
    async for raw in objects_of(api, PODS):
        pod = decode_pod(raw)
        ours = pod.namespace == plan.key.namespace and canonical_uid(pod.uid) in plan.rank_of_pod
        if ours and pod.node in nodes and not pod.terminal and not pod.leaving:
            pods.append(pod)
    if bare := [pod.name for pod in pods if pod.owner is None]:
        why = f"nobody makes {named(bare)} anew: delete and create them yourself"
        return incident.then(now, WITHHELD, why), []
    if not pods:
        return incident.then(now, WITHHELD, f"it has no pods on {where} any more"), []
    return incident.then(
        now, EVICTED, f"{plural(len(pods), 'pod')} on {where}: {named(pod.name for pod in pods)}"
    ), pods


async def _note(api: ClusterApi, namespace: str, incident: GangIncident) -> None:
    """Write an incident into the history of its namespace, or raise ``Conflict``: others write it all the time."""
    for last in (False,) * (TRIES - 1) + (True,):
        history = await history_of(api, namespace)
        try:
            await write_history(api, history.noted(incident))
        except Conflict:
            if last:
                raise
        else:
            return
