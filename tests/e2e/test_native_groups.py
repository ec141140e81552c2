"""The scheduler with the plug-in for plans: a native PodGroup is bound in its one scheduling cycle, without a gate."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
import yaml

from tests.e2e.harness.arnold import find_native, install, running
from tests.e2e.harness.invariants import guarded
from tests.e2e.harness.nodes import level_labels, make_real
from tests.e2e.harness.nodes import namespace as namespace_object
from tests.e2e.harness.plane import ControlPlane
from tests.e2e.harness.plans import plan_in
from tests.e2e.harness.pods import NATIVE_GROUPS, bound, gang, native_group
from tests.e2e.harness.programs import Unavailable
from tests.e2e.harness.waiting import wait_until
from tests.manifests.rendering import pick, render_own
from topology.generate import generate

SPACE = "train"

pytestmark = pytest.mark.releases


RELEASES = {None: NATIVE_GROUPS, "1.37": {"GenericWorkload": "scheduling.k8s.io/v1beta1"}}
"""Release, where not that of all tests -> what it must have on to know native PodGroups."""


@pytest.fixture(params=RELEASES, ids=lambda minor: minor or "1.36")
def minor(request: pytest.FixtureRequest) -> str | None:
    """Each release that there is."""
    found: str | None = request.param
    return found


@pytest.fixture
def native_plane(minor: str | None, tmp_path: Path, say: Callable[[str], None]) -> Iterator[ControlPlane]:
    """A control plane whose kube-scheduler has the plug-in; the profile of Arnold alone turns it on."""
    try:
        programs = find_native(say, minor)
    except Unavailable as reason:
        pytest.skip(str(reason))
    with ControlPlane(programs, tmp_path / "plane", young=RELEASES[minor]) as plane:
        install(plane)
        plane.admin.create(namespace_object(SPACE))
        yield plane


def test_a_group_is_bound_as_planned_by_one_write_of_the_scheduler(
    native_plane: ControlPlane, minor: str | None, tmp_path: Path
) -> None:
    """Pods that come without a gate wait, unwritten, until their group is whole; then each is on the node of its rank.

    All that the component renders is applied, but for Arnold's own pods; the scheduler has the configuration of it.  A
    gang with a gate is bound beside them, and so are pods of a group that is no gang.
    """
    plane, admin = native_plane, native_plane.admin
    rendered = render_own(tmp_path / "own", "native")
    for thing in rendered:
        if thing["kind"] not in ("Deployment", "Job"):
            admin.apply(thing, query="&fieldValidation=Strict")
    scheduler = yaml.safe_load(pick(rendered, "ConfigMap", "arnold-scheduler-config")["data"]["config.yaml"])
    cluster = generate("minipods", minipods=2, nodes=24)
    make_real(admin, cluster)
    version = RELEASES[minor]["GenericWorkload"]
    group, *pods = native_group("group", SPACE, size=8, version=version)
    for pod in pods:
        del pod["spec"]["schedulingGates"]
    loose = native_group("loose", SPACE, size=2, version=version, basic=True)
    for pod in loose[1:]:
        pod["spec"]["schedulerName"] = "arnold"
    with running(plane, levels=level_labels(cluster), scheduler=scheduler), guarded(plane):
        admin.create_all([group, *pods[:7], *loose])
        wait_until(lambda: plan_in(admin, "group", SPACE, "Waiting"), "word that a pod is missing")
        wait_until(lambda: len(bound(admin, SPACE)) == 2, "the pods of the group that is no gang")
        waiting = [pod for pod in admin.all("pods", SPACE) if "nodeName" not in pod["spec"]]
        assert [pod["status"].get("conditions") for pod in waiting] == [None] * 7
        admin.create_all([pods[7], *gang("gated", SPACE, size=8)])
        for name in ("group", "gated"):
            plan = wait_until(partial(plan_in, admin, name, SPACE, "Bound"), f"all pods of {name} on their nodes")
            on = bound(admin, SPACE)
            assert [on[f"{name}-{rank}"] for rank in range(8)] == list(plan.nodes)
        # Nobody is named for a binding.  The extender writes into pods that wait for half a minute, on a slow machine.
        live = [admin.get("pods", f"group-{rank}", SPACE)["metadata"]["managedFields"] for rank in range(8)]
        assert {field["manager"] for fields in live for field in fields} <= {"tests", "arnold"}

        # A pod that is made anew gets the node of its rank again.
        admin.delete("pods", "group-3", SPACE)
        admin.create(pods[3])
        wait_until(lambda: bound(admin, SPACE).get("group-3") == on["group-3"], "rank 3 on its node again")
