"""What is found out once for pods that are alike, or for one of which nothing told has changed, is as if done anew."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from extender.fleet.hosts import demand_of, demands_of
from extender.gangs.recognise import recognise
from extender.objects import decode_pod
from tests.case_counts import examples
from tests.extender.things import pod_json
from topology.kubernetes.pods import RELEASED, Pod

INDEX = "batch.kubernetes.io/job-completion-index"
PIN = {"key": "metadata.name", "operator": "In", "values": ["n1"]}
ZONE = {"key": "zone", "operator": "In", "values": ["a"]}
TERMS_OF_NODES = st.sampled_from([{"matchFields": [PIN]}, {"matchExpressions": [ZONE]}])


def _affinity(terms: list[Any]) -> dict[str, Any]:
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


PODS = st.fixed_dictionaries(
    {
        "gpus": st.sampled_from([8, 8, 4, 0]),
        "labels": st.sampled_from(
            [{}, {INDEX: "1"}, {INDEX: "1", RELEASED: "a"}, {"arnold.dev/gang": "g", INDEX: "1"}]
        ),
        "annotations": st.sampled_from([{}, {"arnold.dev/gang-size": "4"}, {"arnold.dev/gang-size": "1"}]),
        "owner": st.sampled_from([("Job", "j"), None]),
        "gate": st.booleans(),
        "node": st.sampled_from([None, "n1", "n2"]),
        "phase": st.sampled_from(["Pending", "Running", "Failed"]),
        "leaving": st.booleans(),
        "asks": st.sampled_from([{}, {"memory": "4Gi"}]),
    },
    optional={
        "affinity": st.lists(TERMS_OF_NODES, min_size=1, max_size=2).map(_affinity),
        "nodeSelector": st.just({"zone": "a"}),
        "tolerations": st.just([{"key": "dedicated", "operator": "Exists"}]),
    },
)


FIELDS = st.sets(
    st.sampled_from(["gpus", "labels", "annotations", "gate", "node", "phase", "asks", "affinity", "tolerations"])
)


def mixed(one: dict[str, Any], other: dict[str, Any], fields: set[str]) -> Pod:
    """A pod as one says, but for some fields, which are as in another."""
    kept = {field: value for field, value in one.items() if field not in fields}
    return decode_pod(pod_json("p", **kept | {field: other[field] for field in fields if field in other}))


@examples(120)
@given(PODS, PODS, FIELDS)
def test_news_of_a_pod_are_read_as_if_it_were_new(before: Any, other: Any, changed: set[str]) -> None:
    """With what the pod was known as, and without, whatever fields have changed."""
    known, pod = recognise(mixed(before, {}, set()), {}), mixed(before, other, changed)
    assert str(recognise(pod, {}, known)) == str(recognise(pod, {}))


@examples(120)
@given(PODS, PODS, st.lists(FIELDS, max_size=8))
def test_pods_that_are_alike_have_one_demand(one: Any, other: Any, gang: list[set[str]]) -> None:
    """Demands of pods of which most are like the one before are those that each has alone."""
    pods = [mixed(one, other, fields) for fields in gang]
    assert demands_of(pods) == frozenset(map(demand_of, pods))
