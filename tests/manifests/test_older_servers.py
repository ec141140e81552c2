"""The manifests on an API server that speaks as an older version: what it does not know is left out by a component."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from extender import kubernetes_names as names
from tests.e2e.harness.client import ApiError, Object, path
from tests.e2e.harness.plane import ControlPlane
from tests.e2e.harness.pods import container
from tests.e2e.harness.programs import Unavailable, find_programs
from tests.e2e.harness.waiting import wait_until
from tests.manifests.rendering import MANIFESTS, render

OLDEST = "1.33"
"""The oldest version that the API server of the tests can speak as."""


@pytest.fixture
def older_plane(rendered: list[Object], tmp_path: Path) -> Iterator[ControlPlane]:
    """A control plane of etcd and an API server that speaks as an older one."""
    try:
        programs = find_programs(lambda message: print(message, file=sys.stderr))
    except Unavailable as reason:
        pytest.skip(str(reason))
    plane = ControlPlane(programs, tmp_path / "plane", speaks_as=OLDEST)
    try:
        plane.etcd.start(wait=False)
        plane.api_server.start()
        yield plane
    finally:
        plane.stop()


def test_a_label_alone_is_refused_where_nothing_adds_the_gate(
    older_plane: ControlPlane, rendered: list[Object], tmp_path: Path
) -> None:
    """Without the component two objects are refused; with it all are taken, and so is no labelled pod without gate."""
    admin = older_plane.admin
    refused = []
    for thing in rendered:
        try:
            admin.apply(thing, query="&fieldValidation=Strict")
        except ApiError as error:
            refused.append((thing["kind"], error.status))
    # the server has no such path
    assert refused == [("MutatingAdmissionPolicy", 404), ("MutatingAdmissionPolicyBinding", 404)]
    (tmp_path / "manifests").symlink_to(MANIFESTS)
    own = tmp_path / "deploy"
    own.mkdir()
    text = "resources: [../manifests]\ncomponents: [../manifests/components/before-1.36]\n"
    (own / "kustomization.yaml").write_text(text, encoding="utf-8")
    for thing in render(own):
        admin.apply(thing, query="&fieldValidation=Strict")
    labels = {names.GANG: "llm", names.RANK: "0"}
    about = {"name": "bare", "namespace": "default", "labels": labels}
    bare: Object = {"apiVersion": "v1", "kind": "Pod", "metadata": about, "spec": {"containers": [container(8)]}}

    def refusal() -> str:
        try:
            admin.request("POST", f"{path('pods', 'default')}?dryRun=All", bare)
        except ApiError as error:
            return str(error)
        return ""

    assert "To fix: " in wait_until(refusal, "the component's policy to be heeded")
    bare["spec"] |= {"schedulerName": names.SCHEDULER, "schedulingGates": [{"name": names.GATE}]}
    assert refusal() == ""
