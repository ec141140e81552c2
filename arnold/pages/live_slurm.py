"""A live Slurm as the live page shows it; a node that runs a job counts as in use, as its parts are not asked for."""

import asyncio
from math import isfinite
from pathlib import Path
from time import time

import numpy as np

from arnold.pages.live_page import LiveGang, LiveLook, LiveReservation
from ground.errors import ArnoldError
from scheduler.placement.types import Limits
from scheduler.queue.policy import QueuePolicy
from slurm.decide import Orders, SlurmDecision, decide
from slurm.live import Eyes, LiveSlurm, SlurmJob
from slurm.request import asked_in
from slurm.serve import LEAST_REST, MOST_REST, read_orders
from slurm.watch import processor_seconds
from topology.node_names import expand_hostlist
from topology.slurm_nodes import Use, use_of, without_reservation

SHARE = 0.05  # of a core that looks may take


class SlurmSource:
    """A Slurm that is asked again and again, and answers for nobody else.

    :param orders: folder of the orders of ranks; ``None`` = there is none.
    """

    name = "slurm:"

    def __init__(self, orders: Path | None, policy: QueuePolicy) -> None:
        self._orders, self._policy, self._eyes = orders, policy, Eyes()
        self._looked: LiveLook | None = None
        self.seen: float | None = None
        self.lost, self.changes = "it is being read", 0

    def look(self) -> LiveLook:
        """Return what there was at the last look."""
        return LiveLook(cluster=None) if self._looked is None else self._looked

    async def follow(self) -> None:
        """Look again and again, for ever."""
        while True:
            spent, asked = processor_seconds(), time()
            try:
                self._looked = await asyncio.to_thread(self._ask)
                self.seen, self.lost, self.changes = asked, "", self.changes + 1
            except ArnoldError as error:
                self.lost = f"{error.where}: {error.message}"
            await asyncio.sleep(max(LEAST_REST, min((processor_seconds() - spent) / SHARE, MOST_REST)))

    def _ask(self) -> LiveLook:
        orders = {} if self._orders is None else read_orders(self._orders)
        live = self._eyes.look()
        limits = Limits(seconds=2.0)
        return look_of(live, orders, decide(live, orders, policy=self._policy, limits=limits))


def look_of(live: LiveSlurm, orders: Orders, decision: SlurmDecision) -> LiveLook:
    """Return what there is of a look, and of what a daemon would decide now."""
    base, unusable = live.base, {}
    for node in live.said.nodes or ():
        if node.name in base.index_of and use_of(without_reservation(node.state)) is Use.UNUSABLE:
            unusable[base.index_of[node.name]] = node.reason.flag(node.name, node.in_words)
    holders: dict[str, str] = {}
    in_jobs, gangs = set[str](), list[LiveGang]()
    for job in live.jobs:
        named, nodes = f"{job.number} {job.name}", live.nodes_of(job)
        in_jobs.update(nodes)
        planned = decision.states.get(job.number) == "planned" and job.number not in decision.plans
        mine = nodes or (expand_hostlist(job.required) if planned and job.required else ())
        holders |= dict.fromkeys(mine, named)
        gangs.append(_gang(job, named, live, orders, decision, placed=bool(mine)))
    free = np.where(live.idle, base.gpus, 0).astype(np.int32)
    idle_though = [node for node in unusable if base.names[node] not in in_jobs]
    free[idle_though] = base.gpus[idle_though]
    reservations = [
        LiveReservation(
            name=held.name,
            phase="active" if held.start <= live.now < held.end else "to come",
            begin=held.start if isfinite(held.start) else None,
            end=held.end if isfinite(held.end) else None,
            nodes=len(held.nodes),
        )
        for held in live.said.reservations or ()
    ]
    return LiveLook(
        cluster=base.replace(free_gpus=free, flags=unusable),
        holders={node: gang for node, gang in holders.items() if node in base.index_of},
        gangs=gangs,
        reservations=reservations,
    )


def _gang(
    job: SlurmJob, named: str, live: LiveSlurm, orders: Orders, decision: SlurmDecision, *, placed: bool
) -> LiveGang:
    asked, state = asked_in(job.comment), decision.states.get(job.number)
    told = None if asked is None else asked.told
    nodes = [live.base.index_of[name] for name in live.nodes_of(job) if name in live.base.index_of]
    each = live.base.node_size if len(live.base) else 0
    gpus = int(live.base.gpus[nodes].sum()) if nodes else None if job.count is None else job.count * each
    reason = decision.reasons.get(job.number, job.reason if job.pending and job.reason != "None" else "")
    if job.number in decision.plans:
        reason = f"about to be planned: {decision.plans[job.number].verdict}"
    order = orders.get(job.number)
    if nodes and order is not None and sorted(order) != sorted(live.nodes_of(job)):
        reason = "the order of ranks that was written is of other nodes"
    return LiveGang(
        name=named,
        phase=job.state + (f" ({state})" if state not in (None, "running") else ""),
        gpus=gpus,
        placed=placed,
        priority=job.priority,
        since=job.submitted or None,
        spread=None if told is None else told[:2],
        objective=None if told is None else told[2],
        proof="" if told is None else told[3],
        message=reason,
    )
