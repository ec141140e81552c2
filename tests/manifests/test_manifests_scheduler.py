"""The second kube-scheduler, run with the configuration and the service account that the manifests give it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.harness.client import Object
from tests.e2e.harness.nodes import node
from tests.e2e.harness.plane import ControlPlane
from tests.e2e.harness.pods import bound, pod
from tests.e2e.harness.process import Process
from tests.e2e.harness.waiting import wait_until
from tests.manifests.rendering import SYSTEM, pick

TLS = "/etc/arnold/tls"


@pytest.fixture(scope="module")
def arnold(plane: ControlPlane, rendered: list[Object]) -> Iterator[Process]:
    """The scheduler ``arnold`` with its own token; the extender that it asks is away."""
    text: str = pick(rendered, "ConfigMap", "arnold-scheduler-config")["data"]["config.yaml"]
    identity = plane.certificates.client("arnold-scheduler")
    for name, file in (
        ("ca.crt", plane.certificates.authority),
        ("tls.crt", identity.certificate),
        ("tls.key", identity.key),
    ):
        text = text.replace(f"{TLS}/{name}", str(file))
    configuration: dict[str, Any] = yaml.safe_load(text)
    user = plane.service_account("arnold-scheduler", SYSTEM)
    configuration["clientConnection"]["kubeconfig"] = str(user)
    plane.admin.create(node("idle"))
    yield plane.add_scheduler("arnold", configuration)
    plane.remove("arnold")
    plane.admin.delete("nodes", "idle")


def test_scheduler_leads_with_its_own_rights(plane: ControlPlane, arnold: Process) -> None:
    """Its role lets it take its Lease, in Arnold's namespace under its own name, and read all that it follows."""
    lease = wait_until(lambda: plane.admin.find("leases", "arnold-scheduler", SYSTEM), "the scheduler to lead")
    assert lease["spec"]["holderIdentity"]

    def log() -> str:
        return Path(arnold.log).read_text(encoding="utf-8")

    wait_until(lambda: "Successfully acquired lease" in log(), "the scheduler to say so")
    assert [line for line in log().splitlines() if "forbidden" in line] == []


def test_pods_wait_for_the_extender(plane: ControlPlane, arnold: Process) -> None:
    """The extender is away; pods wait and are told whom they wait for, also one that asks for no GPUs in its
    containers: it might claim them.
    """
    for name, gpus in (("cpu", 0), ("gpu", 8)):
        plane.admin.create(pod(name, "default", gpus=gpus, scheduler="arnold"))

    def told(name: str) -> list[str]:
        events = plane.admin.all("events", "default", fieldSelector=f"involvedObject.name={name}")
        return [event["message"] for event in events if "arnold-extender.arnold-system.svc/filter" in event["message"]]

    for name in ("cpu", "gpu"):
        assert wait_until(partial(told, name), "the pod to be told")
    assert bound(plane.admin, "default").keys().isdisjoint({"cpu", "gpu"})
