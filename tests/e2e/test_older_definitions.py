"""A new extender beside a definition of GangPlan from before: gangs start, and what is missing is said."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from tests.e2e.harness.arnold import Arnold, running
from tests.e2e.harness.invariants import guarded
from tests.e2e.harness.nodes import level_labels, make_real
from tests.e2e.harness.plane import ControlPlane
from tests.e2e.harness.plans import plan_in
from tests.e2e.harness.pods import bound, gang
from tests.e2e.harness.waiting import wait_until
from tests.manifests.rendering import MANIFESTS
from topology.generate import generate

OLDER = Path(__file__).parents[1] / "extender" / "plans" / "definitions"
SAYS_MUCH = {
    "arnold.dev/expected-duration": "36h",
    "arnold.dev/model": "llm-20b",
    "arnold.dev/microbatches": "32",
}


@contextmanager
def _defined(plane: ControlPlane, file: Path, lacks: str) -> Iterator[None]:
    """GangPlan as a file defines it, until the block ends.

    :param lacks: a field that it does not name and today's definition does.
    """

    def described() -> bool:
        text = plane.admin.request("GET", "openapi/v3/apis/arnold.dev/v1alpha1")
        return lacks in str(text["components"]["schemas"]["dev.arnold.v1alpha1.GangPlan"])

    plane.define(yaml.safe_load_all(file.read_text(encoding="utf-8")))
    wait_until(lambda: not described(), f"{lacks} to be gone")
    try:
        yield
    finally:
        plane.define(yaml.safe_load_all((MANIFESTS / "crds" / "gangplans.yaml").read_text(encoding="utf-8")))
        wait_until(described, f"{lacks} to be there again")


def _ready(plane: ControlPlane, arnold: Arnold) -> str:
    status, text = arnold.call("GET", "readyz", caller=None)
    assert status == 200
    return str(text)


@pytest.mark.parametrize(
    ("version", "lacks"),
    [
        ("before-spread-cost", ["spec.spreadCost"]),
        ("before-shared-nodes", ["spec.spreadCost", "status.podsPerNode"]),
        ("before-types", ["spec.spreadCost", "spec.gpuTypes", "status.podsPerNode", "status.estimate"]),
    ],
)
def test_gangs_start(arnold_plane: ControlPlane, namespace: str, version: str, lacks: list[str]) -> None:
    """A gang of eight is on its nodes after a handful of writes of its plan; ``/readyz`` names what is missing, and
    says nothing more once today's definition is applied.
    """
    plane = arnold_plane
    cluster = generate("minipods", minipods=2, nodes=16)
    make_real(plane.admin, cluster)
    with (
        _defined(plane, OLDER / f"{version}.yaml", "spreadCost"),
        running(plane, levels=level_labels(cluster)) as arnold,
        guarded(plane),
    ):
        pods = gang("llm", namespace, size=8, parallelism="tp=8,pp=2,dp=4", annotations=SAYS_MUCH)
        plane.admin.create_all(pods)
        wait_until(lambda: plan_in(plane.admin, "llm", namespace, "Bound"), "eight pods on their nodes")
        assert len(bound(plane.admin, namespace)) == 8
        assert all(field in _ready(plane, arnold) for field in lacks)
        caller = plane.certificates.client("arnold-scheduler")
        _, metrics = arnold.call("GET", "metrics", caller=caller)
        written = re.findall(r'arnold_writes_total\{kind="plan",outcome="\w+"\} ([0-9.]+)', metrics)
        # told that it is queued, planned, released, bound in part, bound; it was a hundred in twelve seconds
        assert 0 < sum(map(float, written)) <= 10
        plane.define(yaml.safe_load_all((MANIFESTS / "crds" / "gangplans.yaml").read_text(encoding="utf-8")))
        wait_until(lambda: _ready(plane, arnold) == "ok", "the extender to see today's definition")
