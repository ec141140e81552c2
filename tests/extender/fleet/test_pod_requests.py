"""What a pod takes of its node besides GPUs, counted as kube-scheduler counts it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.fleet.resources import in_words, offered, request_of, widest
from extender.objects import decode_pod
from tests.extender.things import pod_json


def amounts(**spec: Any) -> dict[str, int]:
    """What a pod of such a spec asks for."""
    document = pod_json("p")
    document["spec"] |= spec
    return dict(request_of(decode_pod(document)).amounts)


def box(restart: str | None = None, **requests: str) -> dict[str, Any]:
    """A container."""
    always = {} if restart is None else {"restartPolicy": restart}
    return {"name": "c", "resources": {"requests": requests}, **always}


@pytest.mark.parametrize(
    ("text", "cpu", "memory"),
    [
        ("1", 1000, 1),
        ("500m", 500, 1),  # half a byte is a byte: both round up
        ("0.1", 100, 1),
        ("1u", 1, 1),
        ("2k", 2_000_000, 2000),
        ("1Ki", 1_024_000, 1024),
        ("1.5Gi", 1_610_612_736_000, 1_610_612_736),
        ("1e3", 1_000_000, 1000),
        ("1E", 2**60, 10**18),  # at most 2 ** 60 of anything
        ("129e6", 129_000_000_000, 129_000_000),
        ("-3", 0, 0),
        ("some", 0, 0),
        ("1 Gi", 0, 0),
    ],
)
def test_quantities(text: str, cpu: int, memory: int) -> None:
    """Requests are read as ``resource.Quantity``: CPU in thousandths, all others whole, rounded up."""
    found = amounts(containers=[box(cpu=text, memory=text)])
    assert (found.get("cpu", 0), found.get("memory", 0)) == (cpu, memory)


def test_offers_round_down() -> None:
    """A node has no more than it says; GPUs are counted elsewhere."""
    assert offered({"cpu": "1.9999", "memory": "1500m", "nvidia.com/gpu": "8", "pods": "110"}) == {
        "cpu": 1999,
        "memory": 1,
        "pods": 110,
    }


def test_init_containers_sidecars_and_overhead() -> None:
    """The second init container runs beside the sidecar: 1 + 4 CPU; later 1 + 2. Overhead comes on top."""
    init = [box("Always", cpu="1"), box(cpu="4", memory="3Gi")]
    found = amounts(containers=[box(cpu="2", memory="1Gi")], initContainers=init, overhead={"cpu": "250m"})
    assert found == {"cpu": 5250, "memory": 3 << 30, "pods": 1}


def test_the_pod_as_a_whole() -> None:
    """Where a pod says CPU or memory as a whole, its containers count no more; for other resources they do."""
    whole = {"requests": {"cpu": "8"}, "limits": {"memory": "2Gi"}}
    found = amounts(containers=[box(**{"cpu": "2", "memory": "1Gi", "rdma/hca": "4"})], resources=whole)
    assert found == {"cpu": 8000, "memory": 2 << 30, "rdma/hca": 4, "pods": 1}


def test_a_limit_alone_is_the_request() -> None:
    """As the API server fills it in."""
    limits = {"name": "c", "resources": {"limits": {"cpu": "3", "memory": "1Gi"}, "requests": {"cpu": "1"}}}
    assert amounts(containers=[limits]) == {"cpu": 1000, "memory": 1 << 30, "pods": 1}


def test_host_ports() -> None:
    """Ports of containers and sidecars count; no address is every address, and a port of the container is none."""
    ports = [{"hostPort": 80, "hostIP": "0.0.0.0"}, {"containerPort": 81}, {"hostPort": 82, "protocol": "UDP"}]
    document = pod_json("p")
    document["spec"]["containers"][0]["ports"] = ports
    document["spec"]["initContainers"] = [
        {"name": "s", "restartPolicy": "Always", "ports": [{"hostPort": 83, "hostIP": "10.0.0.1"}]},
        {"name": "i", "ports": [{"hostPort": 84}]},
    ]
    found = request_of(decode_pod(document))
    assert found.ports == (("", "TCP", 80), ("", "UDP", 82), ("10.0.0.1", "TCP", 83))


CPU = st.integers(0, 20)


@given(st.lists(CPU, max_size=3), st.lists(st.tuples(CPU, st.booleans()), max_size=4))
def test_init_containers_run_one_after_the_other(boxes: list[int], init: list[tuple[int, bool]]) -> None:
    """What a pod asks for is the most that runs at any moment, by playing its start through."""
    running, most = 0, 0
    for cpu, sidecar in init:
        most = max(most, running + cpu)
        running += cpu if sidecar else 0
    most = max(most, running + sum(boxes))
    before = [box("Always" if sidecar else None, cpu=str(cpu)) for cpu, sidecar in init]
    found = amounts(containers=[box(cpu=str(cpu)) for cpu in boxes], initContainers=before)
    assert found.get("cpu", 0) == 1000 * most


def test_the_widest_of_several() -> None:
    """Any pod of a gang may come to a node: the most that one of them asks for is wanted everywhere."""
    pods = [decode_pod(pod_json("p", asks={"cpu": "2", "memory": "1Gi"})), decode_pod(pod_json("q", asks={"cpu": "3"}))]
    assert dict(widest(map(request_of, pods)).amounts) == {"cpu": 3000, "memory": 1 << 30, "pods": 1}


@pytest.mark.parametrize(
    ("name", "amount", "words"),
    [
        ("cpu", 500_000, "500 CPU"),
        ("cpu", 500, "0.5 CPU"),
        ("memory", 64 << 30, "64Gi memory"),
        ("memory", 1000, "1000 memory"),
        ("rdma/hca", 4, "4 rdma/hca"),
    ],
)
def test_amounts_in_words(name: str, amount: int, words: str) -> None:
    """As people write them."""
    assert in_words(name, amount) == words
