"""Pods that wait behind our gate and belong to no gang: no plan will ever release them, so they are told why."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

from extender.cluster_api import PODS, EventRecorder, Regarding
from extender.names import GANG, GATE, SCHEDULER
from extender.objects import Pod
from extender.state import State
from extender.texts import clip

LOOK_SECONDS = 5.0
"""How often pods are looked at."""


async def tell_strays(state: State, events: EventRecorder, *, leads: Callable[[], bool]) -> None:
    """Post an event about each such pod, for ever; the recorder does not repeat itself.

    :param leads: whether this replica leads: one of them is enough.
    """
    while True:
        for pod, why in strays(state) if leads() else ():
            regarding = Regarding(PODS, pod.namespace, pod.name, pod.uid)
            events.say(regarding, reason="NoGang", note=f"waits behind the gate {GATE} for ever: {why}", kind="Warning")
        await asyncio.sleep(LOOK_SECONDS)


def strays(state: State) -> Iterator[tuple[Pod, str]]:
    """The pods that nobody will release, each with the reason and what to do."""
    for uid, pod in state.pods.items():
        if pod.gated_by(GATE) and not pod.leaving and state.member(uid) is None:
            yield pod, _why(pod)


def _why(pod: Pod) -> str:
    scheduler = clip(pod.spec.scheduler_name or "none")
    if scheduler != SCHEDULER:
        return f"its scheduler is {scheduler}. To fix: set schedulerName: {SCHEDULER}, or take the gate off"
    return f"it belongs to no gang that needs GPUs. To fix: name one in the label {GANG}, or take the gate off"
