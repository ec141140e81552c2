"""The extender killed in each stage of a gang: it comes back, and no gang is the worse for it."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from tests.e2e.harness.arnold import running
from tests.e2e.harness.invariants import guarded
from tests.e2e.harness.nodes import level_labels, make_real
from tests.e2e.harness.plane import ControlPlane
from tests.e2e.harness.plans import all_plans, plan_of
from tests.e2e.harness.pods import bound, gang, gated
from tests.e2e.harness.waiting import wait_until
from topology.generate import fragment, generate

STAGES = ("planning", "releasing", "binding")
SIZE = 48
SLOWLY = "--write-rate=20"
"""Writes a second, and as many at once: releasing takes more than a second, so that a kill meets it."""


def test_killed_at_random_moments(arnold_plane: ControlPlane, namespace: str, say: Callable[[str], None]) -> None:
    """Wherever SIGKILL meets it, the gang is on its nodes soon after the extender is back, whole and on plan."""
    plane = arnold_plane
    cluster = fragment(generate("minipods", minipods=6, nodes=96), 0.4, seed=5)
    make_real(plane.admin, cluster)
    lines = []
    with running(plane, levels=level_labels(cluster), options=[SLOWLY]) as arnold, guarded(plane):
        for number, stage in enumerate(STAGES):
            chance = random.Random(number)
            name = f"gang-{number}"
            plane.admin.create_all(gang(name, namespace, size=SIZE, parallelism="tp=8,pp=4,dp=12"))
            _until(plane, namespace, stage, chance)
            arnold.extender.kill()
            plan = plan_of(plane.admin, name, namespace)
            left = f"{gated(plane.admin, namespace):2d} gated, {len(bound(plane.admin, namespace)):2d} bound"
            time.sleep(chance.uniform(0.0, 0.5))
            back = time.monotonic()
            arnold.extender.start()
            wait_until(lambda: len(bound(plane.admin, namespace)) == SIZE, f"gang {number} on nodes", seconds=120.0)
            took = time.monotonic() - back
            lines.append(
                f"{number:3d} {stage:9s} plan {plan.phase if plan else 'none':8s} {left}, whole after {took:.1f} s"
            )
            plane.admin.delete_all("pods", namespace)
            wait_until(lambda: not all_plans(plane.admin, namespace), "the plan to go with its gang")
    say("\n".join(["killed while", *lines]))


def _until(plane: ControlPlane, namespace: str, stage: str, chance: random.Random) -> None:
    """Wait for a random moment of a stage."""
    if stage == "planning":
        time.sleep(chance.uniform(0.0, 0.3))
        return
    enough = chance.randint(1, SIZE - 1)
    if stage == "releasing":
        wait_until(lambda: gated(plane.admin, namespace) <= SIZE - enough, "some gates to come off", every=0.005)
    else:
        wait_until(lambda: len(bound(plane.admin, namespace)) >= enough, "some pods on nodes", every=0.005)
