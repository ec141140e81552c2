"""Everything of the manifests at work: the programs with the arguments, rights and certificates that pods would have.

An example is applied as it stands.  Replaced is what a pod has and a process has not: paths of mounted files, the
address to listen on, and that of the Service, whose name the certificate still has to bear.
"""

from __future__ import annotations

import base64
import zlib
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.harness.arnold import PROGRAM
from tests.e2e.harness.certificates import LOOPBACK
from tests.e2e.harness.client import Client, Object
from tests.e2e.harness.nodes import level_labels, namespace, nodes_of
from tests.e2e.harness.plane import ControlPlane
from tests.e2e.harness.process import Healthy, Process
from tests.e2e.harness.waiting import wait_until
from tests.manifests.certificates_job import NAMES, contents, run_job
from tests.manifests.rendering import SYSTEM, pick, pod_template, read
from tests.ports import free_port
from topology.generate import generate
from topology.node_gpus import GPU_CLASSES

NAMESPACE = "together"
INDEX = "batch.kubernetes.io/job-completion-index"
HOST = "arnold-extender.arnold-system.svc"
CLUSTER = generate("minipods", minipods=8, nodes=112)
"""14 nodes a minipod: a gang of 96 needs 7 of the 8 at least."""


@pytest.fixture(scope="module")
def secrets(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the Job of the self-signed overlay made, as pods mount it: a folder for each Secret."""
    run_job(plane)
    folder = tmp_path_factory.mktemp("secrets")
    for name in NAMES:
        (folder / name).mkdir()
        for key, text in contents(plane.admin, name).items():
            (folder / name / key).write_bytes(b64decode(text))
    return folder


@pytest.fixture(scope="module")
def arnold(plane: ControlPlane, rendered: list[Object], secrets: Path) -> Iterator[ControlPlane]:
    """The control plane with nodes, the controllers of Jobs, and the programs of both Deployments."""
    plane.admin.create_all(nodes_of(CLUSTER))
    plane.add(plane.controller_manager)
    extender, port = _extender(plane, rendered, secrets)
    plane.add(extender)
    plane.add_scheduler("arnold-scheduler", _scheduler(plane, rendered, secrets, port))
    yield plane
    for name in ("arnold-scheduler", "arnold-extender", "kube-controller-manager"):
        plane.remove(name)


def _extender(plane: ControlPlane, rendered: list[Object], secrets: Path) -> tuple[Process, int]:
    """The extender with the arguments of its Deployment."""
    (container,) = pod_template(pick(rendered, "Deployment", "arnold-extender"))["spec"]["containers"]
    port = free_port()
    replaced = {
        "0.0.0.0:8443": f"{LOOPBACK}:{port}",
        "/etc/arnold/tls": str(secrets / "arnold-extender-tls"),
        "$(LEVELS)": ",".join(level_labels(CLUSTER)),
        "$(DOMAINS)": "",
        "$(GPU_CLASSES)": ",".join(GPU_CLASSES),
        "$(QUEUE)": "priority-age",
    }
    command = [PROGRAM, *(_replace(argument, replaced) for argument in container["args"])]
    command.append(f"--kubeconfig={plane.service_account('arnold-extender', SYSTEM)}")
    ready = Healthy(f"https://{LOOPBACK}:{port}{container['readinessProbe']['httpGet']['path']}")
    environment = {"POD_NAME": "arnold-extender-0", "POD_NAMESPACE": SYSTEM}
    assert set(environment) | {"LEVELS", "DOMAINS", "GPU_CLASSES", "QUEUE"} == {
        variable["name"] for variable in container["env"]
    }
    log = plane.folder / "arnold-extender.log"
    return Process("arnold-extender", command, log=log, ready=ready, environment=environment), port


def _scheduler(plane: ControlPlane, rendered: list[Object], secrets: Path, port: int) -> dict[str, Any]:
    """The scheduler's configuration, which verifies that the extender's certificate bears the Service's name."""
    text = pick(rendered, "ConfigMap", "arnold-scheduler-config")["data"]["config.yaml"]
    here = {"/etc/arnold/tls": str(secrets / "arnold-scheduler-tls"), f"https://{HOST}": f"https://{LOOPBACK}:{port}"}
    configuration: dict[str, Any] = yaml.safe_load(_replace(text, here))
    configuration["clientConnection"]["kubeconfig"] = str(plane.service_account("arnold-scheduler", SYSTEM))
    (extender,) = configuration["extenders"]
    extender["tlsConfig"]["serverName"] = HOST
    return configuration


def _replace(text: str, replaced: dict[str, str]) -> str:
    for old, new in replaced.items():
        text = text.replace(old, new)
    return text


def test_example_lands_whole_on_its_plan(arnold: ControlPlane) -> None:
    """The Indexed Job of 96 pods, applied as it stands: policy, controller, plan, release, scheduler, verification."""
    arnold.admin.create(namespace(NAMESPACE))
    for thing in read("examples/indexed-job.yaml"):
        thing["metadata"]["namespace"] = NAMESPACE
        arnold.admin.apply(thing)
    plan = wait_until(lambda: _bound_plan(arnold.admin), "the gang to be bound", seconds=120.0)
    packed = plan["status"]["assignment"]["nodes"]
    nodes = zlib.decompress(base64.b64decode(packed)).decode().split("\n")
    pods = arnold.admin.all("pods", NAMESPACE)
    where = {int(thing["metadata"]["labels"][INDEX]): thing["spec"]["nodeName"] for thing in pods}
    assert where == dict(enumerate(nodes))
    assert plan["status"]["gap"] == 0.0
    # Each of the 8 stages of 12 fits one of the 8 minipods of 14: S = 1, R = 8, 0.3 * 1 + 0.7 * 8 = 5.9 can be had.
    assert plan["status"]["objective"] <= 5.9
    assert plan["status"]["summary"]["pods"] == "96/96"
    assert _refusals(arnold) == []


def _refusals(arnold: ControlPlane) -> list[str]:
    """What RBAC or a policy refused, as the logs of both programs say."""
    logs = [
        Path(arnold.guest(name).log).read_text(encoding="utf-8") for name in ("arnold-extender", "arnold-scheduler")
    ]
    assert all(logs)
    lines = (line for log in logs for line in log.splitlines())
    return [line for line in lines if "forbidden" in line.lower() or "denied request" in line]


def _bound_plan(client: Client) -> Object | None:
    plan = client.find("gangplans", "llm", NAMESPACE)
    return plan if plan is not None and plan.get("status", {}).get("phase") == "Bound" else None
