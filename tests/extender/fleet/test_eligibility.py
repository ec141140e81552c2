"""Which nodes pods may use at all: the rules of Kubernetes."""

from typing import Any

import pytest

from extender.fleet.hosts import demand_of
from tests.extender.things import pod
from topology.kubernetes.pods import RELEASED
from topology.taints import Taint

LABELS = {"gpu": "h100", "zone": "a", "generation": "9"}


def affinity(*terms: dict[str, Any]) -> dict[str, Any]:
    """A required node affinity."""
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}}


def term(key: str, operator: str, *values: str) -> dict[str, Any]:
    """A term of one expression over labels."""
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def named(*names: str) -> dict[str, Any]:
    """A term over the node's name."""
    return {"matchFields": [{"key": "metadata.name", "operator": "In", "values": list(names)}]}


@pytest.mark.parametrize(
    ("spec", "accepted"),
    [
        ({}, True),
        ({"nodeSelector": {"gpu": "h100", "zone": "a"}}, True),
        ({"nodeSelector": {"gpu": "h100", "zone": "b"}}, False),
        ({"nodeSelector": {"absent": ""}}, False),
        ({"affinity": {}}, True),
        ({"affinity": affinity(term("gpu", "In", "h100", "h200"))}, True),
        ({"affinity": affinity(term("gpu", "In", "b200"))}, False),
        ({"affinity": affinity(term("gpu", "NotIn", "b200"))}, True),
        ({"affinity": affinity(term("absent", "NotIn", "x"))}, True),
        ({"affinity": affinity(term("gpu", "Exists"))}, True),
        ({"affinity": affinity(term("absent", "Exists"))}, False),
        ({"affinity": affinity(term("gpu", "DoesNotExist"))}, False),
        ({"affinity": affinity(term("generation", "Gt", "8"))}, True),
        ({"affinity": affinity(term("generation", "Lt", "9"))}, False),
        ({"affinity": affinity(term("gpu", "Gt", "8"))}, False),
        ({"affinity": affinity(term("gpu", "Resembles", "h100"))}, False),
        # one term must hold, all expressions of a term
        ({"affinity": affinity(term("gpu", "In", "b200"), term("zone", "In", "a"))}, True),
        ({"affinity": affinity({**term("gpu", "In", "h100"), **named("n2")})}, False),
        ({"affinity": affinity(named("n1", "n2"))}, True),
        ({"affinity": affinity(named("n2"))}, False),
        # an empty term matches nothing, and so does an empty list
        ({"affinity": affinity({})}, False),
        ({"affinity": affinity()}, False),
        ({"nodeSelector": {"zone": "b"}, "affinity": affinity(term("gpu", "Exists"))}, False),
    ],
)
def test_selectors_and_affinities(spec: dict[str, Any], accepted: bool) -> None:
    """As the scheduler's NodeAffinity plugin reads them."""
    assert demand_of(pod("p", gate=True, **spec)).accepts("n1", LABELS) is accepted


def test_a_pin_of_ours_is_no_demand() -> None:
    """A released pod names its node and bears the mark: its gang may still be planned elsewhere."""
    mark = {RELEASED: "true"}
    assert demand_of(pod("p", labels=mark, affinity=affinity(named("n2")))).accepts("n1", LABELS)
    both = affinity({**term("gpu", "In", "b200"), **named("n2")})
    assert not demand_of(pod("p", labels=mark, affinity=both)).accepts("n1", LABELS)


def test_a_pin_of_others_is_a_demand() -> None:
    """Without the mark the name is the writer's own wish, behind the gate and without one."""
    for gate in (True, False):
        demand = demand_of(pod("p", gate=gate, affinity=affinity(named("n2"))))
        assert not demand.accepts("n1", LABELS)
        assert demand.accepts("n2", LABELS)


def test_the_name_of_a_pod_that_is_bound_is_no_demand() -> None:
    """Whoever wrote it, it is decided, and says nothing about where another pod of its gang may go."""
    assert demand_of(pod("p", node="n2", affinity=affinity(named("n2")))).accepts("n1", LABELS)
    both = affinity({**term("gpu", "In", "b200"), **named("n2")})
    assert not demand_of(pod("p", node="n2", affinity=both)).accepts("n1", LABELS)


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        ({"key": "dedicated", "value": "training"}, True),
        ({"key": "dedicated", "operator": "Equal", "value": "training", "effect": "NoSchedule"}, True),
        ({"key": "dedicated", "operator": "Exists"}, True),
        ({"operator": "Exists"}, True),
        ({"key": "dedicated", "value": "serving"}, False),
        ({"key": "other", "operator": "Exists"}, False),
        ({"key": "dedicated", "operator": "Exists", "effect": "NoExecute"}, False),
        ({"value": "training"}, False),
    ],
)
def test_tolerations(toleration: dict[str, str], tolerated: bool) -> None:
    """As the scheduler's TaintToleration plugin reads them."""
    taint = Taint(key="dedicated", value="training", effect="NoSchedule")
    assert demand_of(pod("p", tolerations=[toleration])).tolerates(taint) is tolerated


def test_pods_of_one_template_demand_the_same() -> None:
    """So that thousands of pods come down to one demand."""
    spec = {"nodeSelector": {"b": "1", "a": "2"}, "tolerations": [{"operator": "Exists"}]}
    assert demand_of(pod("p", **spec)) == demand_of(pod("q", **spec))
    assert len({demand_of(pod(f"p{i}", **spec)) for i in range(5)}) == 1
