"""What is stored: the same bytes as ever, and fields that the definitions in the cluster know."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from extender.gangs.types import GangKey
from extender.plans.custom_resource import Condition, CustomResource
from extender.plans.gang_history import LONGEST_PATTERN, MOST_COUNTED, MOST_KINDS, AlikeGangs, GangHistory
from extender.plans.gang_plan import GangPlan, PlanPhase, PlanSpec, decode_plan, encode_plan
from extender.plans.reservation import Reservation, ReservationPhase, ReservationSpec
from ground.documents import parse
from ground.files import Source
from scheduler.job import Hold, Job, Parallelism
from scheduler.queue.run_times import Prediction, RunTimes

CRDS = Path(__file__).parents[3] / "manifests" / "crds"
THEN = datetime(2026, 11, 21, 9, 30, 5, 250_000, tzinfo=UTC)
POD = "7d9f1b0c-2f7e-4c55-9d3a-111111111111"

STORED = {
    "apiVersion": "arnold.dev/v1alpha1",
    "kind": "GangPlan",
    "metadata": {"name": "llm", "namespace": "team", "uid": "u-1", "resourceVersion": "17"},
    "spec": {
        "gang": "llm",
        "dialect": "jobset",
        "size": 2,
        "gpusPerNode": 8,
        "parallelism": "tp=8,cp=1,ep=1,dp=2,pp=1",
        "order": "tp-cp-ep-dp-pp",
        "alpha": 0.5,
        "level": "example.com/minipod",
        "avoid": "price",
        "holds": [{"family": "dp", "level": "example.com/rack"}],
        "priority": 0,
    },
    "status": {
        "phase": "Released",
        "reason": "Released",
        "expires": "2026-11-21T09:35:05.250000Z",
        "spread": {"dp": 1, "pp": 1},
        "objective": 1.0,
        "bound": 1.0,
        "gap": 0.0,
        "boundPods": 0,
        "assignment": {
            "nodes": "eJzLM+TKMwIABBsBSg==",
            "pods": "fZ8bDC9+TFWdOhEREREREQAAAAAAAAAAAAAAAAAAAAA=",
        },
        "conditions": [
            {
                "type": "Planned",
                "status": "True",
                "reason": "Planned",
                "message": "",
                "lastTransitionTime": "2026-11-21T09:30:05Z",
            }
        ],
        "summary": {"spread": "1/1", "gap": "0.0%", "pods": "0/2"},
    },
}
"""A plan as the first release stored it; its nodes are n1 and n2, rank 1 has no pod."""


def plan() -> GangPlan:
    """The same plan in memory."""
    job = Job(
        "team/llm",
        Parallelism(tp=8, dp=2),
        alpha=0.5,
        level="example.com/minipod",
        holds=(Hold("dp", "example.com/rack"),),
    )
    return GangPlan(
        GangKey("team", "llm"),
        PlanPhase.RELEASED,
        spec=PlanSpec.of(job, dialect="jobset", priority=0),
        uid="u-1",
        resource_version="17",
        nodes=("n1", "n2"),
        pods=(POD, None),
        spread=(1, 1),
        objective=1.0,
        bound=1.0,
        gap=0.0,
        expires=THEN + timedelta(minutes=5),
        reason="Released",
    ).with_condition("Planned", True, "Planned", "", THEN)


def test_a_stored_plan_is_what_it_was() -> None:
    """Replicas of two versions share one cluster: what one writes, the other reads, field for field."""
    assert encode_plan(plan()) == STORED
    assert decode_plan(msgspec.json.encode(STORED)) == plan()


def test_an_estimate_is_stored_in_numbers_and_in_words() -> None:
    """Seconds with their band for programs, units that suit them for ``kubectl get -o wide``."""
    estimated = plan().replace(estimate=Prediction(5_400.0, 600.0, 86_400.0, 12))
    document = encode_plan(estimated)
    assert document["status"]["estimate"] == {"seconds": 5_400.0, "low": 600.0, "high": 86_400.0, "jobs": 12}
    assert document["status"]["summary"]["estimate"] == "1.5 h (10 min to 1 d)"
    # the API server keeps no ".0"
    assert decode_plan(msgspec.json.encode(document).replace(b"5400.0", b"5400")) == estimated


def test_the_definition_knows_histories() -> None:
    """Every field of the sums that are stored, and as many entries as the program writes."""
    spec = definition("ganghistories.yaml")["spec"]["properties"]
    assert {*spec} == {*kinds_of(GangHistory)} - {"namespace", "uid", "resourceVersion"}
    assert (spec["kinds"]["maxItems"], spec["counted"]["maxItems"]) == (MOST_KINDS, MOST_COUNTED)
    kind = spec["kinds"]["items"]
    assert {name: {one["type"]} for name, one in kind["properties"].items()} == kinds_of(AlikeGangs)
    assert kind["properties"]["pattern"]["maxLength"] == LONGEST_PATTERN
    sums = kind["properties"]["runTimes"]
    assert {name: {one["type"]} for name, one in sums["properties"].items()} == kinds_of(RunTimes)


def test_what_is_not_known_is_not_stored() -> None:
    """Of a gang that nobody understands yet, only what is always there: priority, phase, bound pods, conditions."""
    document = encode_plan(GangPlan(GangKey("team", "new"), PlanPhase.WAITING))
    assert document["metadata"] == {"name": "new", "namespace": "team"}
    assert document["spec"] == {"gang": "new", "priority": 0}
    assert document["status"] == {"phase": "Waiting", "boundPods": 0, "conditions": [], "summary": {}}


@pytest.mark.parametrize(
    ("time", "fix"),
    [("2026-11-21T09:35:05", "timezone"), ("soon", "RFC3339"), ("", "RFC3339"), (5, "str")],
)
def test_a_time_is_one_with_a_time_zone(time: object, fix: str) -> None:
    """The API server lets no other through; a forged one is refused, and not taken for some instant."""
    from ground.errors import InvalidInput

    status = STORED["status"] | {"expires": time}  # type: ignore[operator]
    with pytest.raises(InvalidInput, match="GangPlan cannot be read"):
        decode_plan({**STORED, "status": status})


def definition(file: str) -> dict[str, Any]:
    """The schema of a kind in the manifests."""
    crd = parse(Source(file, (CRDS / file).read_text(encoding="utf-8")))[0]
    found: dict[str, Any] = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    return found


def kinds_of(struct: type) -> dict[str, set[str]]:
    """JSON types of each field of a struct, by the name in which it is stored."""
    _, components = msgspec.json.schema_components((struct,))
    named = {"datetime": {"string"}}

    def types(schema: dict[str, Any]) -> set[str]:
        if "$ref" in schema:
            return types(components[schema["$ref"].rpartition("/")[2]])
        if "anyOf" in schema:
            return set().union(*map(types, schema["anyOf"])) - {"null"}
        if "enum" in schema:
            return {"string"}
        return named.get(schema.get("format", ""), {schema["type"]})

    return {name: types(schema) for name, schema in components[struct.__name__]["properties"].items()}


@pytest.mark.parametrize(
    ("file", "struct", "spec", "elsewhere", "beside"),
    [
        ("gangplans.yaml", GangPlan, PlanSpec, {"nodes", "pods"}, {"summary", "assignment"}),
        ("capacityreservations.yaml", Reservation, ReservationSpec, {"announced"}, {"summary"}),
    ],
)
def test_the_definition_knows_every_field(
    file: str, struct: type[CustomResource], spec: type, elsewhere: set[str], beside: set[str]
) -> None:
    """The API server drops what a definition does not name: it has the fields of the structs, of the same types.

    ``spread`` is a pair in memory and an object where it is stored.
    """
    known = definition(file)
    status = kinds_of(struct)
    for name in ("key", "spec", "uid", "resourceVersion", *elsewhere):
        del status[name]
    status["spread"] = {"object"}
    defined = {name: {one["type"]} for name, one in known["status"]["properties"].items() if name not in beside}
    assert status == defined
    asked = kinds_of(spec) | ({"gang": {"string"}} if spec is PlanSpec else {})
    assert asked == {name: {one["type"]} for name, one in known["spec"]["properties"].items()}
    condition = known["status"]["properties"]["conditions"]["items"]
    assert {*kinds_of(Condition)} == {*condition["required"]}


@pytest.mark.parametrize(
    ("file", "phases"), [("gangplans.yaml", PlanPhase), ("capacityreservations.yaml", ReservationPhase)]
)
def test_the_definition_knows_every_phase(file: str, phases: type[PlanPhase] | type[ReservationPhase]) -> None:
    """And no other, in the order in which they come."""
    assert definition(file)["status"]["properties"]["phase"]["enum"] == [phase.value for phase in phases]
