"""Gangs on a real cluster: each rank on the node that was proved best, and never half a gang."""

from __future__ import annotations

from pathlib import Path
from time import monotonic

import pytest

from tests.e2e.harness.arnold import running
from tests.e2e.harness.invariants import guarded
from tests.e2e.harness.nodes import level_labels, make_real
from tests.e2e.harness.place import place
from tests.e2e.harness.plane import ControlPlane
from tests.e2e.harness.plans import plan_in, plan_of, spread
from tests.e2e.harness.pods import bound, gang
from tests.e2e.harness.waiting import stays, wait_until
from topology.generate import fragment, generate


def test_gang_of_96_binds_at_the_objective_that_place_proves(
    arnold_plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    """On a fragmented cluster of 22 minipods every rank goes where the objective is what ``place`` proved minimal."""
    plane = arnold_plane
    cluster = fragment(generate("minipods", minipods=22, nodes=264), 0.5, seed=3)
    make_real(plane.admin, cluster)
    levels = level_labels(cluster)
    job = {"name": "llm", "parallelism": {"tp": 8, "pp": 8, "dp": 12}, "alpha": 0.3, "level": levels[0]}
    proved = place(plane.admin, tmp_path, levels=levels, job=job)
    assert proved["status"] == "optimal"

    asked = {"arnold.dev/alpha": "0.3", "arnold.dev/level": levels[0]}
    with running(plane, levels=levels, options=["--time-limit=60"]), guarded(plane):
        pods = gang("llm", namespace, size=96, parallelism="tp=8,pp=8,dp=12", annotations=asked)
        plane.admin.create_all(pods)
        # The proof alone may take its limit of a minute where others use the machine too.
        wait_until(lambda: len(bound(plane.admin, namespace)) == 96, "96 pods on nodes", seconds=150.0)
        plan = wait_until(lambda: plan_in(plane.admin, "llm", namespace, "Bound"), "the plan to say that it is bound")

    where = bound(plane.admin, namespace)
    minipod = {row.name: row.path[0] for row in cluster}
    dp, pp = spread([minipod[where[f"llm-{rank}"]] for rank in range(96)], dp=12)
    # What the nodes say, what was proved before and what the plan claims are one.
    assert 0.3 * dp + 0.7 * pp == pytest.approx(proved["objective"])
    assert plan.status["objective"] == pytest.approx(proved["objective"])
    assert plan.status["spread"] == {"dp": dp, "pp": pp}
    assert plan.status["gap"] == 0.0
    assert plan.nodes == tuple(where[f"llm-{rank}"] for rank in range(96))


def test_a_gang_that_numbers_pipelines_first_has_the_groups_that_were_planned(
    arnold_plane: ControlPlane, namespace: str
) -> None:
    """Spread recomputed from the pods, as the job forms its groups: rank r is stage r mod 4 of replica r div 4.

    16 nodes in two minipods of 8, 4 x 4 cells; 24B MoE has alpha 0.3 by the characterisation.  A DP group over both
    and pipelines in one each cost 0.6 + 0.7 = 1.3; the same nodes in Megatron's own order were 0.3 + 1.4 = 1.7.
    """
    plane = arnold_plane
    cluster = generate("minipods", minipods=2, nodes=16)
    make_real(plane.admin, cluster)
    levels = level_labels(cluster)
    asked = {"arnold.dev/order": "tp-cp-ep-pp-dp", "arnold.dev/model": "24B MoE on H800"}
    asked["arnold.dev/constraints"] = f"[{{family: pp, within: {levels[0]}}}]"
    with running(plane, levels=levels), guarded(plane):
        plane.admin.create_all(gang("mg", namespace, size=16, parallelism="tp=8,pp=4,dp=4", annotations=asked))
        wait_until(lambda: len(bound(plane.admin, namespace)) == 16, "16 pods on nodes")
        plan = wait_until(lambda: plan_in(plane.admin, "mg", namespace, "Bound"), "the plan to say that it is bound")
    where = bound(plane.admin, namespace)
    minipod = {row.name: row.path[0] for row in cluster}
    of_rank = [minipod[where[f"mg-{rank}"]] for rank in range(16)]
    pp = max(len(set(of_rank[4 * replica : 4 * replica + 4])) for replica in range(4))
    dp = max(len(set(of_rank[stage::4])) for stage in range(4))
    assert plan.status["spread"] == {"dp": dp, "pp": pp} == {"dp": 2, "pp": 1}
    assert plan.status["objective"] == pytest.approx(0.3 * dp + 0.7 * pp) == pytest.approx(1.3)


def test_a_gang_that_does_not_say_how_long_is_foreseen(arnold_plane: ControlPlane, namespace: str) -> None:
    """Five gangs come and go, the extender is killed in between; the sixth shows what they tell, with its band."""
    plane = arnold_plane
    cluster = generate("minipods", minipods=2, nodes=4)
    make_real(plane.admin, cluster)

    def run_and_delete(name: str) -> None:
        plane.admin.create_all(gang(name, namespace, size=2, parallelism="tp=8,dp=2"))
        wait_until(lambda: plan_in(plane.admin, name, namespace, "Bound"), f"{name} to be bound")
        for rank in range(2):
            plane.admin.delete("pods", f"{name}-{rank}", namespace)
        wait_until(lambda: plan_of(plane.admin, name, namespace) is None, f"the plan of {name} to go")

    with running(plane, levels=level_labels(cluster)) as arnold, guarded(plane):
        started = monotonic()
        for number in range(3):
            run_and_delete(f"llm-{number}")
        arnold.extender.kill()
        arnold.extender.start()
        for number in range(3, 5):
            run_and_delete(f"llm-{number}")
        longest = monotonic() - started
        (kind,) = plane.admin.get("ganghistories", "arnold", namespace)["spec"]["kinds"]
        assert (kind["pattern"], kind["gpus"], kind["runTimes"]["jobs"]) == ("llm-#", 16, 5)
        plane.admin.create_all(gang("llm-9", namespace, size=2, parallelism="tp=8,dp=2"))
        said = {"arnold.dev/expected-duration": "2h"}
        plane.admin.create_all(gang("llm-10", namespace, size=2, parallelism="tp=8,dp=2", annotations=said))
        plan = wait_until(lambda: plan_in(plane.admin, "llm-9", namespace, "Bound"), "the sixth gang to be bound")
        other = wait_until(lambda: plan_in(plane.admin, "llm-10", namespace, "Bound"), "the last gang to be bound")
    estimate = plan.status["estimate"]
    # the API server has whole seconds, and a gang takes no shorter than one
    assert 1.0 <= estimate["seconds"] == kind["runTimes"]["seconds"] <= longest + 1
    assert estimate["low"] <= estimate["seconds"] <= estimate["high"]
    assert estimate["jobs"] == 5
    assert "estimate" not in other.status


def test_two_gangs_that_do_not_both_fit(arnold_plane: ControlPlane, namespace: str) -> None:
    """Of two gangs of 12 on 20 nodes one runs whole; the other waits whole, says why, and runs when there is room."""
    plane = arnold_plane
    cluster = generate("minipods", minipods=2, nodes=20)
    make_real(plane.admin, cluster)
    with running(plane, levels=level_labels(cluster)), guarded(plane):
        for name in ("first", "second"):
            plane.admin.create_all(gang(name, namespace, size=12, parallelism="tp=8,pp=2,dp=6"))
        wait_until(lambda: len(bound(plane.admin, namespace)) == 12, "one gang on nodes")
        runs = {pod.partition("-")[0] for pod in bound(plane.admin, namespace)}
        assert len(runs) == 1
        (waits,) = {"first", "second"} - runs

        def fits_if_empty() -> bool:
            # on a busy machine it hears first that its turn will come
            plan = plan_in(plane.admin, waits, namespace, "Queued")
            return plan is not None and bool(plan.message) and plan.status.get("wouldFitIfEmpty") is True

        # 8 nodes are free, 12 are asked for; the empty cluster has 20.
        wait_until(fits_if_empty, "the other gang to be told why it waits")
        stays(lambda: len(bound(plane.admin, namespace)) == 12, "half of the gangs run")
        for pod in bound(plane.admin, namespace):
            plane.admin.delete("pods", pod, namespace)
        wait_until(
            lambda: (
                {pod.partition("-")[0] for pod in bound(plane.admin, namespace)} == {waits}
                and len(bound(plane.admin, namespace)) == 12
            ),
            "the other gang on nodes",
        )
