"""From the version before to this one with gangs running: first definitions, then both side by side; and back."""

from __future__ import annotations

import io
import subprocess
import tarfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.e2e.harness.arnold import define, install, running
from tests.e2e.harness.invariants import guarded
from tests.e2e.harness.nodes import level_labels, make_real
from tests.e2e.harness.plane import ControlPlane
from tests.e2e.harness.plans import plan_in
from tests.e2e.harness.pods import bound, gang
from tests.e2e.harness.waiting import wait_until
from tests.manifests.rendering import MANIFESTS
from topology.generate import generate

BEFORE = "cb39860f12363c8a7ca684fc1d84de8119afe6a9"
"""The version before: the last release, or until there is one what stood on main before the last round of changes."""
REPOSITORY = MANIFESTS.parent


@pytest.fixture
def before(tmp_path: Path) -> Path:
    """The version before, in a folder of its own."""
    archive = ["git", "-C", str(REPOSITORY), "archive", BEFORE]
    done = subprocess.run(archive, capture_output=True, check=False)
    if done.returncode:
        pytest.skip(f"the version before cannot be had: {done.stderr.decode(errors='replace').strip()}")
    folder = tmp_path / "before"
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as files:
        files.extractall(folder, filter="data")
    return folder


@pytest.fixture
def older_plane(arnold_plane: ControlPlane, before: Path) -> Iterator[ControlPlane]:
    """The control plane with the definitions, roles and policies of the version before; those of today afterwards."""
    install(arnold_plane, before / "manifests")
    yield arnold_plane
    install(arnold_plane)


def test_gangs_run_on(older_plane: ControlPlane, before: Path, namespace: str) -> None:
    """A gang that runs stays where it is, one that waits starts when there is room, and new ones start at each step:
    with the definitions of today, with both versions at once, with today's alone, and with the one before again.
    """
    plane, admin = older_plane, older_plane.admin
    cluster = generate("minipods", minipods=2, nodes=16)
    make_real(admin, cluster)
    old, new = 0, 1

    def submit(name: str, size: int) -> None:
        admin.create_all(gang(name, namespace, size=size, parallelism=f"tp=8,dp={size}"))

    def comes(name: str, *phases: str) -> None:
        wait_until(partial(plan_in, admin, name, namespace, *phases), f"{name} to be {' or '.join(phases)}")

    def ends(name: str, size: int) -> None:
        for rank in range(size):
            admin.delete("pods", f"{name}-{rank}", namespace)

    with (
        running(plane, levels=level_labels(cluster), replicas=2, checkouts={old: before}, later=[new]) as arnold,
        guarded(plane),
    ):
        submit("runs", 6)
        comes("runs", "Bound")
        first = plan_in(admin, "runs", namespace, "Bound")
        assert first is not None
        define(plane)
        submit("defined", 2)
        comes("defined", "Bound")
        install(plane)
        arnold.start(new)
        submit("beside", 2)
        comes("beside", "Bound")
        # six nodes are free
        submit("waits", 8)
        comes("waits", "Queued")
        arnold.stop(old)
        wait_until(lambda: arnold.leader() is arnold.replicas[new], "the new version to lead")
        ends("defined", 2)
        comes("waits", "Bound")
        ends("beside", 2)
        submit("after", 2)
        comes("after", "Bound")
        # a rank that is made anew gets its node from the plan that the version before has written
        admin.delete("pods", "runs-3", namespace)
        admin.create(gang("runs", namespace, size=6, parallelism="tp=8,dp=6")[3])
        wait_until(lambda: "runs-3" in bound(admin, namespace), "the rank that was made anew")
        arnold.start(old)
        arnold.stop(new)
        wait_until(lambda: arnold.leader() is arnold.replicas[old], "the version before to lead")
        ends("after", 2)
        submit("back", 2)
        comes("back", "Bound")
        on = bound(admin, namespace)
        assert [on[f"runs-{rank}"] for rank in range(6)] == list(first.nodes)
        last = plan_in(admin, "runs", namespace, "Bound")
        assert last is not None
        same = [rank for rank in range(6) if rank != 3]
        assert [last.pods[rank] for rank in same] == [first.pods[rank] for rank in same], "no pod was made anew"
