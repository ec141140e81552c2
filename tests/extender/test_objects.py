"""Pods, nodes and owners as typed structs."""

import json
from typing import Any

import pytest

from extender.objects import decode_node, decode_owner, decode_pod
from ground.errors import InvalidInput
from tests.extender.things import node_json, pod_json
from topology.kubernetes.objects import START_OF_TIME, instant


def box(gpus: int | str | None, **more: Any) -> dict[str, Any]:
    """A container that asks for GPUs."""
    return {"name": "c", "resources": {} if gpus is None else {"limits": {"nvidia.com/gpu": gpus}}, **more}


def test_bytes_and_parsed_json_give_the_same() -> None:
    """The watch has bytes, tests and the client have dictionaries."""
    raw = pod_json("p", gate=True, owner=("Job", "j"), priority=7)
    assert decode_pod(raw) == decode_pod(json.dumps(raw).encode())
    assert decode_node(node_json("n")) == decode_node(json.dumps(node_json("n")).encode())


def test_what_a_pod_says_of_itself() -> None:
    """Names, owner, gate, times; the default namespace where none is written."""
    raw = pod_json("p", gate=True, owner=("Job", "j"))
    pod = decode_pod(raw)
    assert pod.gated_by("arnold.dev/gang")
    assert not pod.gated_by("other")
    assert pod.owner is not None
    assert (pod.owner.kind, pod.owner.name) == ("Job", "j")
    assert pod.created.isoformat() == "2026-11-21T11:00:00+00:00"
    assert not pod.leaving
    assert decode_pod({"metadata": {"name": "x"}}).namespace == "default"


@pytest.mark.parametrize(
    ("containers", "init", "gpus"),
    [
        ([box(8)], [], 8),
        ([box("4"), box("4")], [], 8),
        ([box(None)], [], 0),
        ([box(2)], [box(8)], 8),
        # a sidecar keeps its GPU while the others run
        ([box(7)], [box(1, restartPolicy="Always")], 8),
        # what comes after a sidecar runs beside it: 1 + 6; then 1 + 2
        ([box(2)], [box(1, restartPolicy="Always"), box(6)], 7),
        # what comes before a sidecar does not
        ([box(2)], [box(6), box(1, restartPolicy="Always")], 6),
    ],
)
def test_a_pod_holds_what_its_hungriest_moment_needs(containers: list[Any], init: list[Any], gpus: int) -> None:
    """Init containers run one after another, sidecars go on running (KEP-753)."""
    assert decode_pod({"spec": {"containers": containers, "initContainers": init}}).gpus == gpus


@pytest.mark.parametrize("amount", ["1.5", "-1", "8k", True, 10**12, "9" * 40])
def test_a_number_of_gpus_that_is_none_is_no_number(amount: Any) -> None:
    """The API server takes whole numbers alone; whoever asks is told."""
    pod = decode_pod({"spec": {"containers": [box(amount)]}})
    with pytest.raises(ValueError, match="not a number of GPUs"):
        _ = pod.gpus


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_pods_that_have_ended_hold_nothing(phase: str) -> None:
    """Both ways of ending."""
    assert decode_pod(pod_json("p", phase=phase)).terminal
    assert not decode_pod(pod_json("p", phase="Running")).terminal


def test_the_gpus_of_a_jobset_are_counted_template_by_template() -> None:
    """2 x 3 workers with GPUs; the driver has none and is no part of the gang."""
    worker = {"spec": {"parallelism": 3, "template": {"spec": {"containers": [box(8)]}}}}
    driver = {"spec": {"template": {"spec": {"containers": [box(None)]}}}}
    jobs = [{"name": "w", "replicas": 2, "template": worker}, {"name": "d", "template": driver}]
    owner = decode_owner({"kind": "JobSet", "metadata": {"name": "s"}, "spec": {"replicatedJobs": jobs}})
    assert [job.pods for job in owner.spec.replicated_jobs or ()] == [6, 0]


@pytest.mark.parametrize("raw", [b"{", b"7", b'{"metadata": []}', b'{"spec": {"containers": 3}}', b"\xff"])
def test_what_is_no_pod_is_refused(raw: bytes) -> None:
    """With what to do, as ever."""
    with pytest.raises(InvalidInput, match="not a Pod") as caught:
        decode_pod(raw)
    assert caught.value.fix


@pytest.mark.parametrize("text", [None, "", "soon", "2026-13-01T00:00:00Z"])
def test_a_time_that_is_none_is_the_start_of_time(text: str | None) -> None:
    """It orders before all others and is never an error."""
    assert instant(text) == START_OF_TIME
