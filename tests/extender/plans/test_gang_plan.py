"""Plans, and the documents in which they outlive us."""

import base64
import json
import re
import zlib
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from extender.gangs.job import nodes_of_pods
from extender.gangs.types import GangKey
from extender.plans import gang_plan
from extender.plans.custom_resource import Condition
from extender.plans.gang_plan import (
    HOLDING,
    GangPlan,
    PlanPhase,
    PlanSpec,
    canonical_uid,
    decode_plan,
    encode_plan,
    object_name,
)
from ground.errors import InvalidInput
from scheduler.job import Count, Hold, Job, Parallelism
from tests.case_counts import examples
from tests.extender.things import NOW, key

DNS = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?", fullmatch=True)
TIMES = st.datetimes(datetime(2020, 1, 1), datetime(2040, 1, 1), timezones=st.just(UTC))
SECONDS = TIMES.map(lambda time: time.replace(microsecond=0))
FINITE = st.floats(0, 1000)
SPECS = st.builds(
    PlanSpec,
    dialect=st.sampled_from(["arnold", "job", "jobset"]),
    size=st.none() | st.integers(1, 100_000),
    gpus_per_pod=st.integers(0, 16),
    parallelism=st.none() | st.builds("tp={},cp=1,ep=1,dp=3,pp={}".format, st.integers(1, 8), st.integers(1, 64)),
    order=st.just("tp-pp-cp-ep-dp"),
    alpha=st.none() | st.floats(0, 1),
    level=st.none() | st.just("example.com/minipod"),
    avoid=st.none() | st.sampled_from(["strict", "price", "ignore"]),
    holds=st.none() | st.lists(st.builds(Hold, st.sampled_from(["dp", "pp"]), st.just("rack")), max_size=2).map(tuple),
    counts=st.lists(st.builds(Count, st.just("pp"), st.just("rack"), FINITE), max_size=2).map(tuple),
    microbatches=st.none() | st.integers(1, 10**9),
    priority=st.integers(-(2**31), 2**31 - 1),
)
CONDITIONS = st.builds(
    Condition,
    type=st.sampled_from(["Complete", "Planned", "Bound"]),
    status=st.sampled_from(["True", "False", "Unknown"]),
    reason=st.sampled_from(["NoRoom", "Expired"]),
    message=st.text(max_size=20),
    since=SECONDS,
)


@st.composite
def plans(draw: st.DrawFn) -> GangPlan:
    """Any plan that the controller could come by."""
    spec = draw(SPECS)
    pods_per_node = draw(st.integers(1, 8))
    names = draw(st.lists(DNS, max_size=12, unique=True))
    less = draw(st.integers(0, pods_per_node - 1)) if names else 0  # pods that the last node has room for
    by_node = [draw(st.sampled_from([name, name, None])) for name in names]  # some vacant
    nodes = nodes_of_pods(by_node, len(names) * pods_per_node - less, pods_per_node)
    pods = tuple(draw(st.none() | st.uuids().map(str).filter(lambda u: UUID(u).int > 0)) for _ in nodes)
    return GangPlan(
        key=GangKey(draw(DNS), draw(DNS)),
        phase=draw(st.sampled_from(PlanPhase)),
        spec=spec,
        uid=draw(st.sampled_from(["", "u-1"])),
        resource_version=draw(st.sampled_from(["", "17"])),
        nodes=nodes,
        pods_per_node=pods_per_node,
        pods=pods,
        ended=tuple(rank for rank in range(len(nodes)) if draw(st.integers(0, 9)) == 0),
        spread=draw(st.none() | st.tuples(st.integers(1, 99), st.integers(1, 99))),
        objective=draw(st.none() | FINITE),
        bound=draw(st.none() | FINITE),
        gap=draw(st.none() | st.floats(0, 1)),
        expires=draw(st.none() | TIMES),
        bound_pods=draw(st.integers(0, 12)),
        would_fit_if_empty=draw(st.none() | st.booleans()),
        reason=draw(st.sampled_from(["", "NoRoom"])),
        message=draw(st.text(max_size=30)),
        conditions=tuple(draw(st.lists(CONDITIONS, max_size=3, unique_by=lambda one: one.type))),
    )


@given(plans())
@example(GangPlan(GangKey("team", "g"), nodes=(None, None, "a"), pods=(None, None, None), ended=(0, 1)))
@examples(200)
def test_a_plan_survives_its_document(plan: GangPlan) -> None:
    """Whatever the phase: written as JSON, read from bytes or parsed, it is the same plan."""
    document = json.dumps(encode_plan(plan))
    assert decode_plan(document.encode()) == plan
    assert decode_plan(json.loads(document)) == plan


def big_plan(ranks: int) -> GangPlan:
    """A plan on nodes with the long names of clouds."""
    nodes = tuple(f"ip-10-{i // 65536}-{i // 256 % 256}-{i % 256}.eu-central-1.compute.internal" for i in range(ranks))
    return GangPlan(key("g"), PlanPhase.BOUND, nodes=nodes, pods=tuple(str(uuid4()) for _ in nodes))


def test_a_plan_of_12_500_ranks_stays_well_below_what_etcd_takes() -> None:
    """100,000 GPUs; etcd refuses requests above 1.5 MB, so 1 MB leaves room for managed fields."""
    plan = big_plan(12_500)
    document = json.dumps(encode_plan(plan))
    # UIDs take 4/3 x 16 bytes each, 267 kB; names of one kind compress to a few bytes each
    assert len(document) < 450_000
    assert decode_plan(document.encode()).nodes == plan.nodes


def test_what_kubectl_shows() -> None:
    """The fields that printer columns read are plain text."""
    plan = big_plan(96).replace(spread=(3, 2), gap=0.031, bound_pods=40, phase=PlanPhase.RELEASED)
    status = encode_plan(plan)["status"]
    assert status["summary"] == {"spread": "3/2", "gap": "3.1%", "pods": "40/96"}
    assert status["phase"] == "Released"


def test_the_document_says_what_was_asked() -> None:
    """A user reads the degrees in the spec as they were written, completed."""
    job = Job("team/g", Parallelism(tp=8, dp=12, pp=8), alpha=0.3, level="rack", holds=(Hold("dp", "rack"),))
    plan = GangPlan(key("g"), PlanPhase.PLANNED, spec=PlanSpec.of(job, dialect="job", priority=3))
    assert encode_plan(plan)["spec"] == {
        "gang": "g",
        "dialect": "job",
        "size": 96,
        "gpusPerNode": 8,
        "priority": 3,
        "parallelism": "tp=8,cp=1,ep=1,dp=12,pp=8",
        "order": "tp-cp-ep-dp-pp",
        "alpha": 0.3,
        "level": "rack",
        "avoid": "price",
        "holds": [{"family": "dp", "level": "rack"}],
    }
    assert decode_plan(encode_plan(plan)).spec.job("team/g") == job


def test_a_gang_that_was_only_just_written_waits() -> None:
    """A GangPlan without status is one whose second write did not come to pass."""
    plan = decode_plan({"metadata": {"name": "g", "namespace": "team", "uid": "u", "resourceVersion": "3"}})
    assert (plan.key, plan.phase, plan.nodes, plan.resource_version) == (key("g"), PlanPhase.WAITING, (), "3")


def packed(plain: bytes) -> str:
    """As a forger would pack it."""
    return base64.b64encode(zlib.compress(plain)).decode()


@pytest.mark.parametrize(
    "status",
    [
        {"phase": "Sleeping"},
        {"assignment": {"nodes": "!"}},
        {"assignment": {"nodes": base64.b64encode(b"no zlib").decode()}},
        {"assignment": {"nodes": packed(b"n1")[:-8]}},
        {"assignment": {"nodes": packed(b"\xff\xff")}},
        {"assignment": {"nodes": packed(b"n1\nn2"), "pods": base64.b64encode(bytes(16)).decode()}},
        {"assignment": {"pods": base64.b64encode(bytes(15)).decode()}},
        {"assignment": {"pods": "?"}},
        {"spread": {"dp": "many"}},
        {"victims": ["no namespace"]},
    ],
)
def test_a_document_that_nobody_of_ours_wrote_is_refused_by_name(status: dict[str, Any]) -> None:
    """Unknown phases, garbage: one kind of error, which names the object and what to do."""
    document = {"metadata": {"name": "g", "namespace": "team"}, "spec": {"gang": "g"}, "status": status}
    with pytest.raises(InvalidInput) as caught:
        decode_plan(json.dumps(document).encode())
    assert "GangPlan" in caught.value.message
    assert "delete it" in caught.value.fix


def test_a_bomb_is_not_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names are unpacked up to a limit; here it is one byte, so that the bomb need not be large."""
    nodes = {"status": {"assignment": {"nodes": packed(b"n1\nn2")}}}
    document = {"metadata": {"name": "g"}, "spec": {"gang": "g"}, **nodes}
    assert decode_plan(document).nodes == ("n1", "n2")
    monkeypatch.setattr(gang_plan, "MOST_BYTES", 1)
    with pytest.raises(InvalidInput, match="absurdly long"):
        decode_plan(document)


@pytest.mark.parametrize(
    "spec",
    [
        {"parallelism": "tp=x"},
        {"parallelism": 5},
        {"parallelism": ["tp=8"]},
        {"parallelism": "tp=8", "order": 5},
        {"avoid": "maybe"},
        {"holds": [{"family": "qq", "level": "r"}]},
    ],
)
def test_a_spec_that_cannot_be_read_is_refused(spec: dict[str, Any]) -> None:
    """Users may edit it; they are told."""
    with pytest.raises(InvalidInput, match="GangPlan"):
        decode_plan({"metadata": {"name": "g"}, "spec": {"gang": "g", **spec}})


def test_degrees_that_are_empty_are_none() -> None:
    """A spec with empty degrees says nothing of them, as one without."""
    plan = decode_plan({"metadata": {"name": "g"}, "spec": {"gang": "g", "parallelism": ""}})
    assert not plan.spec.parallelism


def test_fields_of_later_versions_are_left_alone() -> None:
    """An older replica reads what a newer one wrote."""
    document = encode_plan(big_plan(2))
    document["status"]["later"] = {"x": 1}
    document["spec"]["later"] = []
    assert decode_plan(document).nodes == big_plan(2).nodes


@pytest.mark.parametrize(
    ("name", "plain"),
    [("llm", True), ("llm-1.a", True), ("My_Gang", False), ("a..b", False), ("x" * 63, True), ("-a", False)],
)
def test_names_of_gangs_become_names_of_objects(name: str, plain: bool) -> None:
    """A label value may have capitals and underscores; the name of an object may not, and stays unique."""
    made = object_name(key(name))
    assert (made == name) is plain
    assert re.fullmatch(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?", made)
    assert ".." not in made
    assert decode_plan(encode_plan(GangPlan(key(name), PlanPhase.WAITING))).key == key(name)


def test_different_names_never_become_the_same() -> None:
    """The rewritten part is not unique, its hash is."""
    assert len({object_name(key(name)) for name in ("A_b", "a_B", "a-b", "A-B")}) == 4


@given(st.text(max_size=50), st.text(max_size=50))
def test_canonical_uids_are_equal_exactly_when_uids_are(one: str, other: str) -> None:
    """UUIDs stay as they are; whatever else there is becomes one."""
    assert (canonical_uid(one) == canonical_uid(other)) is (one == other)
    assert UUID(canonical_uid(one))
    real = str(uuid4())
    assert canonical_uid(real) == real


def test_conditions_change_their_time_only_with_their_status() -> None:
    """As metav1.Condition wants it: another reason for the same status is no transition."""
    later = NOW + timedelta(minutes=1)
    plan = GangPlan(key("g"), PlanPhase.QUEUED).with_condition("Planned", False, "NoRoom", "full", NOW)
    again = plan.with_condition("Planned", False, "BehindOthers", "wait", later)
    assert [(one.reason, one.since) for one in again.conditions] == [("BehindOthers", NOW)]
    there = again.with_condition("Planned", True, "Planned", "", later)
    assert [(one.status, one.since) for one in there.conditions] == [("True", later)]


def test_a_plan_holds_its_nodes_in_three_phases() -> None:
    """Planned, released and bound; and only when it has any."""
    held = {phase for phase in PlanPhase if GangPlan(key("g"), phase, nodes=("n",)).holding}
    assert held == HOLDING == {PlanPhase.PLANNED, PlanPhase.RELEASED, PlanPhase.BOUND}
    assert not GangPlan(key("g"), PlanPhase.PLANNED).holding


def test_expiry_is_exclusive_of_nothing() -> None:
    """At the very instant the time is over; a plan without one waits for nobody."""
    plan = GangPlan(key("g"), PlanPhase.RELEASED, expires=NOW)
    assert plan.expired(NOW)
    assert not plan.expired(NOW - timedelta(microseconds=1))
    assert not GangPlan(key("g"), PlanPhase.BOUND).expired(NOW)


def test_nothing_packs_to_nothing() -> None:
    """No node is not one node with an empty name."""
    assert "assignment" not in encode_plan(GangPlan(key("g"), PlanPhase.WAITING))["status"]
