"""Every program killed at random moments while gangs come, grow, shrink, preempt and go, nodes fail, plans are lost.

Six kills in the ordinary run, one of each program; the environment variable ARNOLD_KILLS says another number.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from math import ceil
from statistics import median

from tests.e2e.harness.arnold import Arnold, component, running
from tests.e2e.harness.invariants import guarded
from tests.e2e.harness.nodes import level_labels, make_real
from tests.e2e.harness.plane import ControlPlane
from tests.e2e.harness.turmoil import PATIENCE, Turmoil
from tests.e2e.harness.waiting import wait_until
from topology.generate import fragment, generate

KILLS = int(os.environ.get("ARNOLD_KILLS", "6"))
SEED = int(os.environ.get("ARNOLD_SEED", "1"))
VICTIMS = ("leader", "both replicas", "scheduler", "API server", "etcd", "controller-manager")
SUCCEEDED = 0.5
"""Share of the killed leaders that are away until the other replica leads."""
WAITED_FOR = 0.7
"""Share of the programs that are ready before the next thing happens; the others may be killed while they start."""
UNUSED = 60.0
"""Seconds that a promised node may be unused, and a released pod wait for a node that its gang has not."""
QUICKLY = ("--bind-timeout=20", "--lost-after=2", "--preemption=on", "--preemptions-per-hour=1000")
"""So that nodes are given up, and gangs that cannot be bound let go, while the test looks."""


def test_every_program_killed_at_random_moments(
    arnold_plane: ControlPlane, namespace: str, say: Callable[[str], None]
) -> None:
    """After six kills and a quiet moment every gang is whole on its plan's nodes or waits whole, none is lost, and
    nothing is left of those that are gone; at no moment is a node promised or used twice.  The nodes of released pods
    are promised to their gangs, and no promised node is unused for a minute, or by a rank that its Job has no more.
    """
    plane, chance = arnold_plane, random.Random(SEED)
    cluster = fragment(generate("minipods", minipods=6, nodes=96), 0.3, seed=SEED)
    make_real(plane.admin, cluster)
    turmoil = Turmoil(plane, cluster, namespace, chance)
    kills: Counter[str] = Counter()
    quiet, memory = [], []
    with (
        component(plane, "preemption/rbac.yaml"),
        running(plane, levels=level_labels(cluster), replicas=2, options=QUICKLY) as arnold,
        guarded(plane, every=0.3, patience=UNUSED) as lookout,
    ):
        for victim in _victims(chance):
            turmoil.act(chance.randint(2, 5))
            time.sleep(chance.uniform(0.0, 1.0))
            _kill(arnold, victim, turmoil, chance)
            kills[victim] += 1
            if kills.total() % len(VICTIMS) == 0:
                turmoil.nodes.heal_all()
                seconds, of_jobs, last = turmoil.settle()
                turmoil.serve_all()
                quiet.append(seconds - of_jobs)
                memory.append([replica.resident // 10**6 for replica in arnold.replicas])
                waited = f"{seconds:.1f} s ({of_jobs:.1f} s of it for the Job controller)"
                say(f"{kills.total():3d} kills, settled after {waited}, {memory[-1]} MB; last was: {last}")
                assert not lookout.seen, lookout.seen[:3]
        logs = "".join(replica.log.read_text(encoding="utf-8", errors="replace") for replica in arnold.replicas)
    assert "Traceback" not in logs
    turmoil.counts["preemptions"] = logs.count('"message":"preempts ')
    counts = {f"{victim} killed": number for victim, number in kills.items()} | turmoil.counts
    lines = [f"{number:6d} {what}" for what, number in sorted(counts.items())]
    lines.append(f"{lookout.looks:6d} looks, no node promised or used twice")
    lines += [f"{seconds:6.1f} s at most: {kind}" for kind, seconds in sorted(lookout.longest.items())]
    lines.append(
        f"quiet to settled, without waits for Jobs: {max(quiet):.1f} s at most, {median(quiet):.1f} s in the middle"
    )
    lines.append(f"a replica holds {max(map(max, memory))} MB at most")
    say("\n".join(lines))


def _victims(chance: random.Random) -> Iterator[str]:
    """All programs in turn, in a new order each time."""
    for _ in range(ceil(KILLS / len(VICTIMS))):
        yield from chance.sample(VICTIMS, len(VICTIMS))


def _kill(arnold: Arnold, victim: str, turmoil: Turmoil, chance: random.Random) -> None:
    """Kill a program, and start it again after a while in which the turmoil goes on, if there is an API server.

    A leader is away until the other replica leads, or is back before that and leads again.
    """
    plane = arnold.plane
    leader = arnold.leader() or arnold.extender
    killed = {
        "leader": [leader],
        "both replicas": arnold.replicas,
        "scheduler": [arnold.scheduler],
        "API server": [plane.api_server],
        "etcd": [plane.etcd],
        "controller-manager": [plane.controller_manager],
    }[victim]
    for process in killed:
        process.kill()
    store = victim in ("API server", "etcd")
    if store:
        time.sleep(chance.uniform(0.0, 3.0))
    else:
        turmoil.act(chance.randint(0, 3))
    if victim == "leader" and chance.random() < SUCCEEDED:
        wait_until(lambda: arnold.leader() not in (None, leader), "the other replica to lead", seconds=PATIENCE)
    ready = chance.random() < WAITED_FOR
    for process in killed:
        process.start(wait=store or ready)
    wait_until(plane.admin.ready, "the API server to be ready", seconds=PATIENCE)
    if store:
        # It has missed what changed meanwhile, and goes on without that: pods that were deleted would stay for ever.
        plane.kwok.restart()
