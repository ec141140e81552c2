"""Controllers of other projects that make pods of their own kinds, built from their Go modules and run beside ours."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
import urllib3
import yaml

from tests.e2e.harness.certificates import LOOPBACK
from tests.e2e.harness.client import ApiError, Object, client_context, home_of
from tests.e2e.harness.nodes import GPU
from tests.e2e.harness.plane import ControlPlane
from tests.e2e.harness.process import Healthy, Process
from tests.e2e.harness.programs import Unavailable, Unfetched, from_folder, module_folder
from tests.e2e.harness.waiting import wait_until
from tests.ports import free_port

MODULES = Path(__file__).parents[1] / "peers"
"""A folder for each peer: a module that pins its program as a tool."""


@dataclass(frozen=True, slots=True)
class Peer:
    """A project with a controller, its kinds and its webhooks.

    :param package: its main package.
    :param resources: what its kinds are called in the API, those that come to nothing first.
    :param kinds: file of the resource definition, or a folder of such, below the module's folder.
    :param webhooks: file of the webhook configurations, below the module's folder.
    :param configuration: API version of its configuration file.
    :param settings: of that file, beside those that all have.
    :param container: a folder that the program looks into and that only its container has; the one with its
        certificates, in the folder where it runs, stands in for it.
    """

    name: str
    module: str
    version: str
    package: str
    resources: tuple[str, ...]
    kinds: str
    webhooks: str
    configuration: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    container: str = ""


JOBSET = Peer(
    "jobset",
    module="sigs.k8s.io/jobset",
    version="v0.12.0",
    package="sigs.k8s.io/jobset",
    resources=("jobsets",),
    kinds="config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml",
    webhooks="config/components/webhook/manifests.yaml",
    configuration="config.jobset.x-k8s.io/v1alpha1",
)
LEADER_WORKER_SET = Peer(
    "lws",
    module="sigs.k8s.io/lws",
    version="v0.9.0",
    package="sigs.k8s.io/lws/cmd",
    resources=("leaderworkersets",),
    kinds="config/crd/bases/leaderworkerset.x-k8s.io_leaderworkersets.yaml",
    webhooks="config/webhook/manifests.yaml",
    configuration="config.lws.x-k8s.io/v1alpha1",
)
KUEUE = Peer(
    "kueue",
    module="sigs.k8s.io/kueue",
    version="v0.17.0",
    package="sigs.k8s.io/kueue/cmd/kueue",
    resources=("workloads", "localqueues", "clusterqueues", "resourceflavors", "topologies"),
    kinds="config/components/crd/bases",
    webhooks="config/components/webhook/manifests.yaml",
    configuration="config.kueue.x-k8s.io/v1beta2",
    settings={
        "featureGates": {"VisibilityOnDemand": False},  # a server with its certificates at a fixed place
        "integrations": {"frameworks": ["batch/job", "pod"]},
    },
    container="/etc/kueue/metrics/certs",
)


@contextmanager
def running(peer: Peer, plane: ControlPlane, say: Callable[[str], None]) -> Iterator[Process]:
    """Run a peer's controller with its kinds and webhooks in place; all are gone afterwards.

    The test is skipped where its modules cannot be had.
    """
    try:
        folder = module_folder(peer.module, peer.version)
        program = from_folder(MODULES / peer.name, peer.package, say)
    except (Unavailable, Unfetched) as reason:
        pytest.skip(f"{peer.name} cannot be had: {reason}")
    certificates = serving_certificate(plane, peer.name, plane.folder / f"{peer.name}-certificates")
    if peer.container:
        program = looking_into(certificates.name, peer.container, program, plane.folder / peer.name)
    define(plane, folder / peer.kinds)
    webhook_port, health_port = free_port(), free_port()
    settings = _configuration(
        peer, plane, certificates=certificates, webhook_port=webhook_port, health_port=health_port
    )
    process = Process(
        peer.name,
        [str(program), f"--config={settings}"],
        log=plane.folder / f"{peer.name}.log",
        ready=Healthy(f"http://{LOOPBACK}:{health_port}/readyz"),
        environment={"KUBECONFIG": str(plane.kubeconfig(peer.name, "system:masters"))},
        folder=plane.folder,
    )
    webhooks = [_on_loopback(it, peer, plane, webhook_port) for it in _documents(folder / peer.webhooks)]
    plane.add(process)
    try:
        urls = [webhook["clientConfig"]["url"] for it in webhooks for webhook in it["webhooks"]]
        wait_until(lambda: all(_answers(url, plane.certificates.authority) for url in urls), f"{peer.name}'s webhooks")
        # what fills objects in first: a controller that checks one that is not filled in may break
        for configuration in sorted(webhooks, key=lambda it: it["kind"]):
            plane.admin.apply(configuration)
            if configuration["kind"] == "MutatingWebhookConfiguration":
                _wait_for_mutations(plane)
        yield process
    finally:
        for resource in peer.resources:
            plane.admin.delete_all(resource)
        for configuration in webhooks:
            plane.admin.request("DELETE", f"{home_of(configuration)}/{configuration['metadata']['name']}")
        plane.remove(peer.name)


def looking_into(own: str, container: str, program: Path, copy: Path) -> Path:
    """The copy of a program that looks into a folder of ours instead of one that only its container has.

    :param own: below the folder where it runs; no longer than the name of the container's.
    """
    code = program.read_bytes()
    assert code.count(container.encode()) == 1
    copy.write_bytes(code.replace(container.encode(), own.ljust(len(container), "/").encode()))
    copy.chmod(0o755)
    return copy


VOLCANO = ("volcano.sh/volcano", "v1.14.1")


def kueue_queue(labels: Sequence[str], namespace: str, *, gpus: int, tas: bool) -> list[Object]:
    """The queue ``team`` of a namespace with so many GPUs.

    :param labels: of the levels of the network, from broad to close.
    :param tas: whether Kueue chooses hosts by them.
    """
    levels = [{"nodeLabel": label} for label in (*labels, "kubernetes.io/hostname")]
    flavor: Object = {"topologyName": "network", "nodeLabels": {"kubernetes.io/os": "linux"}} if tas else {}
    quota = [{"name": GPU, "nominalQuota": gpus}, {"name": "cpu", "nominalQuota": 1_000_000}]
    group = {"coveredResources": [GPU, "cpu"], "flavors": [{"name": "gpus", "resources": quota}]}
    things: list[tuple[str, Object, Object]] = [
        ("Topology", {"name": "network"}, {"levels": levels}),
        ("ResourceFlavor", {"name": "gpus"}, flavor),
        ("ClusterQueue", {"name": "all"}, {"namespaceSelector": {}, "resourceGroups": [group]}),
        ("LocalQueue", {"name": "team", "namespace": namespace}, {"clusterQueue": "all"}),
    ]
    api = "kueue.x-k8s.io/v1beta2"
    return [{"apiVersion": api, "kind": kind, "metadata": about, "spec": spec} for kind, about, spec in things]


@contextmanager
def volcano(plane: ControlPlane, configuration: str, say: Callable[[str], None]) -> Iterator[Process]:
    """Run Volcano's scheduler with its kinds in place, and without its controllers.

    :param configuration: its actions and plug-ins, YAML.
    :raises Unavailable: no Go toolchain; Unfetched: its modules cannot be had.
    """
    folder, program = module_folder(*VOLCANO), from_folder(MODULES / "volcano", f"{VOLCANO[0]}/cmd/scheduler", say)
    define(plane, folder / "config/crd/volcano/bases")
    # alone in its folder: whatever changes there, its log too, has it read again
    file, port = plane.folder / "volcano" / "scheduler.conf", free_port()
    file.parent.mkdir(exist_ok=True)
    file.write_text(configuration, encoding="utf-8")
    command = [
        str(program),
        f"--kubeconfig={plane.kubeconfig('volcano', 'system:masters')}",
        f"--scheduler-conf={file}",
        "--leader-elect=false",
        "--cache-dumper=false",
        "--enable-healthz",
        f"--healthz-address={LOOPBACK}:{port}",
        f"--listen-address={LOOPBACK}:{free_port()}",
        "--kube-api-qps=1000",
        "--kube-api-burst=1000",
    ]
    healthy = Healthy(f"http://{LOOPBACK}:{port}/healthz")
    process = Process("volcano", command, log=plane.folder / "volcano.log", ready=healthy, folder=plane.folder)
    plane.add(process)
    for queue in wait_until(lambda: plane.admin.all("queues"), "Volcano's queues"):  # its controller opens them
        plane.admin.patch("queues", queue["metadata"]["name"], {"status": {"state": "Open"}}, subresource="status")
    try:
        yield process
    finally:
        for resource in ("podgroups", "hypernodes"):
            plane.admin.delete_all(resource)
        plane.remove("volcano")


def _configuration(peer: Peer, plane: ControlPlane, *, certificates: Path, webhook_port: int, health_port: int) -> Path:
    file = plane.folder / f"{peer.name}.configuration"
    document = {
        "apiVersion": peer.configuration,
        "kind": "Configuration",
        "internalCertManagement": {"enable": False},
        "leaderElection": {"leaderElect": False},
        "health": {"healthProbeBindAddress": f"{LOOPBACK}:{health_port}"},
        "metrics": {"bindAddress": "0"},
        "webhook": {"host": LOOPBACK, "port": webhook_port, "certDir": str(certificates)},
        **peer.settings,
    }
    file.write_text(json.dumps(document), encoding="utf-8")
    return file


def define(plane: ControlPlane, kinds: Path) -> None:
    """Have a plane know the kinds of a file of definitions, or of a folder of such."""
    for file in sorted(kinds.iterdir()) if kinds.is_dir() else [kinds]:
        if file.name != "kustomization.yaml":
            plane.define(_documents(file))


def serving_certificate(plane: ControlPlane, name: str, folder: Path) -> Path:
    """The folder, with the certificate of a controller under the names that it looks for."""
    folder.mkdir(parents=True, exist_ok=True)
    pair = plane.certificates.server(name)
    (folder / "tls.crt").write_bytes(pair.certificate.read_bytes())
    (folder / "tls.key").write_bytes(pair.key.read_bytes())
    return folder


def _on_loopback(configuration: Object, peer: Peer, plane: ControlPlane, port: int) -> Object:
    """Webhooks that are called at an address, as there is no network of services here."""
    authority = base64.b64encode(plane.certificates.authority.read_bytes()).decode()
    configuration["metadata"]["name"] = f"{peer.name}-{configuration['metadata']['name']}"
    for webhook in configuration["webhooks"]:
        path = webhook["clientConfig"]["service"]["path"]
        webhook["clientConfig"] = {"url": f"https://{LOOPBACK}:{port}{path}", "caBundle": authority}
    return configuration


def _answers(url: str, authority: Path) -> bool:
    """Whether a webhook is served: a controller calls itself ready before it listens and has registered them all."""
    with urllib3.PoolManager(ssl_context=client_context(authority)) as pool:
        try:
            return pool.request("POST", url, body=b"{}", retries=False).status != HTTPStatus.NOT_FOUND
        except urllib3.exceptions.HTTPError:
            return False


def _wait_for_mutations(plane: ControlPlane) -> None:
    """Wait until the API server asks every mutating webhook that was applied before.

    It takes them up later, in the order in which they were written: one is written here that nobody serves, and taken
    away again once it is missed.
    """
    name = "asked-up-to-here.example.com"
    labels = {"probe": name}
    configuration = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "probe", "labels": labels}}
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
    webhook = {
        "name": name,
        "clientConfig": {"url": f"https://{LOOPBACK}:{free_port()}/"},
        "rules": [rule],
        "objectSelector": {"matchLabels": labels},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    kind = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration"}
    written = {**kind, "metadata": {"name": name}, "webhooks": [webhook]}
    plane.admin.apply(written)

    def asked() -> bool:
        try:
            plane.admin.request("POST", "api/v1/namespaces/default/configmaps?dryRun=All", configuration, patient=False)
        except ApiError as refusal:
            return name in str(refusal)
        return False

    wait_until(asked, "the API server's list of mutating webhooks")
    plane.admin.request("DELETE", f"{home_of(written)}/{name}")


def _documents(file: Path) -> list[Object]:
    return [it for it in yaml.safe_load_all(file.read_text(encoding="utf-8")) if it]
