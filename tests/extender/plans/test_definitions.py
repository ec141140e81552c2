"""An extender that is newer than the definitions in the cluster: gangs start, and it is said what is missing.

The folder ``definitions`` has GangPlan as three versions defined it that were installed on clusters.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from extender.controller.actions import Write
from extender.plans.definitions import Definitions, read_definitions
from extender.plans.gang_plan import GangPlan, PlanPhase, decode_plan, encode_plan
from ground.documents import parse
from ground.errors import InvalidInput
from ground.files import Source
from tests.extender.controller.world import World
from tests.extender.things import GRID, Json, key

HERE = Path(__file__).parent
NOW_FILE = HERE.parents[2] / "manifests" / "crds" / "gangplans.yaml"
OWNER = ("Job", "g")
LACKS = {
    "before-spread-cost": {"spec.spreadCost", "status.ended", "status.provedTo", "status.victims"},
    "before-shared-nodes": {
        *("spec.spreadCost", "status.comesAgain", "status.ended", "status.expiries", "status.podsPerNode"),
        *("status.provedTo", "status.victims"),
    },
    "before-types": {
        *("spec.gpuTypes", "spec.mixTypes", "spec.spreadCost", "spec.tpLevel"),
        *("status.comesAgain", "status.ended", "status.estimate", "status.expiries", "status.podsPerNode"),
        *("status.provedTo", "status.victims"),
    },
}
"""What each definition lacks of today's, as a comparison of the two files says."""


def schema(file: Path) -> dict[str, Any]:
    """The schema of a kind."""
    definition = parse(Source(file.name, file.read_text(encoding="utf-8")))[0]
    in_file: dict[str, Any] = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return in_file


def openapi(definition: dict[str, Any], kind: str = "GangPlan") -> bytes:
    """The document in which an API server describes a kind."""
    about = [{"group": "arnold.dev", "version": "v1alpha1", "kind": kind}]
    described = {**definition, "x-kubernetes-group-version-kind": about}
    return json.dumps({"components": {"schemas": {f"dev.arnold.v1alpha1.{kind}": described}}}).encode()


class OlderWorld(World):
    """A world whose API server drops what its definition of GangPlan does not name."""

    def __init__(self, definition: dict[str, Any]) -> None:
        super().__init__()
        self.writes: Counter[PlanPhase] = Counter()
        self._definition = definition["properties"]
        self.state.definitions = read_definitions(openapi(definition))

    def write(self, plan: GangPlan) -> None:
        """Store what the definition names."""
        self.writes[plan.phase] += 1
        document = encode_plan(plan)
        for part in ("spec", "status"):
            named = self._definition[part]["properties"]
            document[part] = {name: value for name, value in document[part].items() if name in named}
        super().write(decode_plan(document))


def test_todays_definitions_have_all_fields() -> None:
    """Of all three kinds."""
    for kind, file in (
        ("GangPlan", "gangplans"),
        ("CapacityReservation", "capacityreservations"),
        ("GangHistory", "ganghistories"),
    ):
        assert read_definitions(openapi(schema(NOW_FILE.with_name(f"{file}.yaml")), kind)) == Definitions({})


@pytest.mark.parametrize("version", LACKS)
def test_what_an_older_definition_lacks_is_named(version: str) -> None:
    """Each field, and what to do."""
    definitions = read_definitions(openapi(schema(HERE / "definitions" / f"{version}.yaml")))
    assert definitions.lacking == {"GangPlan": LACKS[version]}
    (sentence,) = definitions.sentences
    assert all(field in sentence for field in LACKS[version])
    assert "To fix: " in sentence


def test_a_definition_that_keeps_everything_lacks_nothing() -> None:
    """``x-kubernetes-preserve-unknown-fields``, of the whole or of a part."""
    assert read_definitions(openapi({"x-kubernetes-preserve-unknown-fields": True})).lacking == {}
    definition = schema(HERE / "definitions" / "before-spread-cost.yaml")
    for part in ("spec", "status"):
        definition["properties"][part]["x-kubernetes-preserve-unknown-fields"] = True
    assert read_definitions(openapi(definition)).lacking == {}


@pytest.mark.parametrize("raw", [b"", b"[]", b"{}", b'{"components": {"schemas": {"a": 1}}}'])
def test_what_is_no_description_is_refused(raw: bytes) -> None:
    """Nothing is concluded from it."""
    with pytest.raises(InvalidInput, match="cannot be read"):
        read_definitions(raw)


def settled(world: OlderWorld, annotations: Json) -> World:
    """A gang of eight that says much, from its pods to their nodes."""
    pods = world.gang("g", 8, {**GRID, **annotations}, owner=OWNER)
    world.settle()
    assert world.phase("g") is PlanPhase.RELEASED
    world.bind(*pods)
    world.settle()
    assert world.phase("g") is PlanPhase.BOUND
    return world


SAYS_MUCH = {
    "arnold.dev/expected-duration": "36h",
    "arnold.dev/model": "llm-20b",
    "arnold.dev/microbatches": "32",
    "arnold.dev/constraints": "[{family: dp, level: example.com/rack, weight: 0.1}]",
}


@pytest.mark.parametrize("version", LACKS)
def test_a_gang_starts_under_an_older_definition(version: str) -> None:
    """It is planned once, and no plan is written again and again: Planned, Released, Bound, and a condition or two."""
    world = OlderWorld(schema(HERE / "definitions" / f"{version}.yaml"))
    settled(world, SAYS_MUCH)
    assert world.writes[PlanPhase.PLANNED] == 1
    assert world.writes.total() <= 4
    assert [action for action in world.decide().actions if isinstance(action, Write)] == []


ANY_OF = [
    *("spec.dialect", "spec.size", "spec.order", "spec.alpha", "spec.level", "spec.avoid", "spec.holds", "spec.counts"),
    *("spec.gpuTypes", "spec.mixTypes", "spec.microbatches", "spec.spreadCost", "spec.priority", "spec.tpLevel"),
    *("status.reason", "status.message", "status.objective", "status.bound", "status.gap", "status.spread"),
    *("status.podsPerNode", "status.boundPods", "status.expiries", "status.comesAgain", "status.wouldFitIfEmpty"),
    *("status.ended", "status.estimate", "status.summary"),
]


@pytest.mark.parametrize("name", ANY_OF)
def test_no_field_that_is_dropped_is_written_for_ever(name: str) -> None:
    """Whichever a definition lacks: a gang starts, one that waits is told so, and then nothing is left to do."""
    definition = schema(NOW_FILE)
    part, field = name.split(".")
    del definition["properties"][part]["properties"][field]
    world = OlderWorld(definition)
    settled(world, SAYS_MUCH)
    world.gang("waits", 4, owner=OWNER)
    world.settle()
    assert world.phase("waits") is PlanPhase.QUEUED
    assert world.decide().actions == []


def test_pods_that_share_nodes_are_found_again_without_their_number() -> None:
    """A definition from before podsPerNode: the nodes of the ranks say how many pods each has."""
    world = OlderWorld(schema(HERE / "definitions" / "before-shared-nodes.yaml"))
    pods = world.gang("g", 5, gpus=4, owner=OWNER)
    world.settle()
    plan = world.plan("g")
    assert (plan.phase, plan.pods_per_node, len(plan.node_names)) == (PlanPhase.RELEASED, 2, 3)
    world.bind(*pods)
    world.settle()
    assert (world.phase("g"), world.plan("g").nodes) == (PlanPhase.BOUND, plan.nodes)
    assert world.state.fleet.promised_to(plan.nodes[4]) == key("g")
