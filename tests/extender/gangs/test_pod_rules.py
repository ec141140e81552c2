"""Rules about the places of other pods, and volumes: what a gang cannot have, and what is left to kube-scheduler."""

from __future__ import annotations

from typing import Any

import pytest

from extender.gangs.types import Gang
from extender.plans.gang_plan import CHECKED, PlanPhase
from tests.extender.controller.world import World
from tests.extender.things import MINIPOD, Json, gang_of, gang_pods, minipods, plan_all, state_of
from tests.facts import says

OWN = {"matchLabels": {"arnold.dev/gang": "g"}}
OTHERS = {"matchExpressions": [{"key": "app", "operator": "In", "values": ["noisy"]}]}


def away(key: str, selector: Json, *, kind: str = "podAntiAffinity", **more: Any) -> Json:
    """A pod's spec with a required rule."""
    term = {"topologyKey": key, "labelSelector": selector, **more}
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def evenly(key: str, selector: Json, how: str = "DoNotSchedule") -> Json:
    """A pod's spec with a constraint on spread."""
    one = {"topologyKey": key, "maxSkew": 1, "whenUnsatisfiable": how, "labelSelector": selector}
    return {"topologySpreadConstraints": [one]}


def gang(spec: Json) -> Gang:
    """A gang of four such pods."""
    return gang_of(state_of(minipods(4), gang_pods("g", 4, **spec)), "g")


@pytest.mark.parametrize(
    ("spec", "kind"),
    [
        (away(MINIPOD, OWN), "podAntiAffinity"),
        (away(MINIPOD, {}), "podAntiAffinity"),
        (away(MINIPOD, OWN, namespaceSelector={}), "podAntiAffinity"),
        (away(MINIPOD, OWN, namespaces=["team"]), "podAntiAffinity"),
        (away(MINIPOD, {"matchExpressions": [{"key": "arnold.dev/rank", "operator": "Exists"}]}), "podAntiAffinity"),
        (away(MINIPOD, OWN, kind="podAffinity"), "podAffinity"),
        (away("kubernetes.io/hostname", OWN, kind="podAffinity"), "podAffinity"),
        (evenly(MINIPOD, OWN), "topologySpreadConstraints"),
    ],
)
def test_rules_inside_the_gang_are_refused(spec: Json, kind: str) -> None:
    """kube-scheduler could not keep them for pods with one node each: the gang is ``Invalid`` and says what to do."""
    problem = gang(spec).problem
    assert problem is not None
    assert problem.reason == "RuleInsideGang"
    assert f"pod g-0 has {kind} by" in str(problem)
    assert "arnold.dev/constraints" in problem.fix
    world = World()
    world.gang("g", 4, **spec)
    world.settle()
    assert world.phase("g") is PlanPhase.INVALID


@pytest.mark.parametrize(
    "spec",
    [
        evenly(MINIPOD, OWN, "ScheduleAnyway"),
        away("kubernetes.io/hostname", OWN),
        evenly("kubernetes.io/hostname", OWN),
        {"affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}},
    ],
)
def test_wishes_and_one_pod_to_a_node(spec: Json) -> None:
    """Soft rules bind nobody; that each pod has a node of its own is so in every plan of whole nodes."""
    answer = plan_all(state_of(minipods(4), gang_pods("g", 4, **spec)))["g"]
    assert (answer.placed, answer.plan.condition(CHECKED)) == (True, None)


def test_pods_that_must_not_share_a_node_do_not() -> None:
    """Two pods of four GPUs would share a node of eight: that gang gets none, and is told."""
    pods = gang_pods("g", 2, gpus=4, **away("kubernetes.io/hostname", OWN))
    answer = plan_all(state_of(minipods(4), pods))["g"]
    assert says(answer.plan.message, "4 that several of its pods would share")


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        (away("zone", OTHERS), "rules about other pods (podAntiAffinity by zone)"),
        (away("zone", OTHERS, kind="podAffinity"), "rules about other pods (podAffinity by zone)"),
        (away(MINIPOD, OWN, namespaces=["another"]), f"rules about other pods (podAntiAffinity by {MINIPOD})"),
        (evenly("zone", OTHERS), "rules about other pods (topologySpreadConstraints by zone)"),
        (
            {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "d"}}, {"name": "x", "emptyDir": {}}]},
            "the zone of volumes (data)",
        ),
        ({"volumes": [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}}]}, "the zone of volumes (scratch)"),
    ],
)
def test_what_is_left_to_the_scheduler_is_said(spec: Json, told: str) -> None:
    """The gang is planned, and a condition of its plan says what nobody has looked at."""
    answer = plan_all(state_of(minipods(4), gang_pods("g", 4, **spec)))["g"]
    condition = answer.plan.condition(CHECKED)
    assert answer.placed
    assert condition is not None
    assert (condition.status, condition.reason) == ("False", "LeftToScheduler")
    assert says(condition.message, told, "To fix:")


def test_a_term_without_a_selector_means_nobody() -> None:
    """As in Kubernetes: no selector, no pods; and so no rule inside the gang."""
    spec = away(MINIPOD, {})
    del spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0]["labelSelector"]
    assert gang(spec).problem is None
