"""Arnold on a control plane, as its manifests install it: roles, policies, mutual TLS.

The Deployments alone are not there: their programs run beside the control plane, with the tokens of their service
accounts.  kube-scheduler reaches the replicas through a forwarder, as through a Service.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from base64 import b64encode
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import urllib3

from tests.e2e.harness.certificates import LOOPBACK, KeyPair
from tests.e2e.harness.client import Object, client_context
from tests.e2e.harness.forwarder import Forwarder
from tests.e2e.harness.plane import ControlPlane
from tests.e2e.harness.process import Healthy, Process
from tests.e2e.harness.programs import Command, Say, find_programs, find_release, from_folder
from tests.manifests.rendering import MANIFESTS, SYSTEM, read
from tests.ports import free_port

CRDS = ("crds/gangplans.yaml", "crds/capacityreservations.yaml", "crds/ganghistories.yaml")
INSTALLED = (
    "base/namespace.yaml",
    "base/admission.yaml",
    "base/policies.yaml",
    "base/extender-rbac.yaml",
    "base/scheduler-rbac.yaml",
    "base/flow.yaml",
)
PLAIN = "base/scheduler-config.yaml"
PROGRAM = shutil.which("arnold", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}") or "arnold"
"""The command of this environment."""
OF_A_CHECKOUT = (sys.executable, "-c", "from arnold.main import main; main()")
"""The same with the modules of another folder, which PYTHONPATH names."""
NO_CHECKOUTS: Mapping[int, Path] = MappingProxyType({})


def define(plane: ControlPlane, manifests: Path = MANIFESTS) -> None:
    """Apply the definitions of Arnold's kinds."""
    for file in CRDS:
        plane.define(read(manifests / file))


def install(plane: ControlPlane, manifests: Path = MANIFESTS) -> None:
    """Apply what a cluster's administrator applies once, but for the Deployments.

    :param manifests: of this version or another.
    """
    define(plane, manifests)
    for file in INSTALLED:
        for thing in read(manifests / file):
            plane.admin.apply(thing)


def find_native(say: Say, minor: str | None = None) -> Mapping[str, Command]:
    """How to call each part of a control plane whose kube-scheduler has the plug-in for native groups.

    :param minor: the release, 1.37; ``None`` = that of all tests.
    :raises Unavailable: there is no Go toolchain that could build it.
    :raises RuntimeError: the build failed.
    """
    scheduler = from_folder(MANIFESTS / "native", ".", say, pins=f"v{minor}" if minor else "go")
    programs = find_release(minor, say) if minor else find_programs(say)
    return {**programs, "kube-scheduler": (str(scheduler),)}


@contextmanager
def component(plane: ControlPlane, file: str) -> Iterator[None]:
    """What a component of the manifests adds, applied while the block runs."""
    things = read(f"components/{file}")
    for thing in things:
        plane.admin.apply(thing)
    try:
        yield
    finally:
        for thing in things:
            plane.admin.delete(f"{thing['kind'].lower()}s", thing["metadata"]["name"])


class Arnold:
    """The extender's replicas and the scheduler that asks them; see :func:`running`.

    :param replicas: one or more; the first is asked as long as it is there.
    """

    def __init__(
        self, plane: ControlPlane, service: Forwarder, replicas: Sequence[Process], ports: Sequence[int]
    ) -> None:
        self.plane = plane
        self.service = service
        self.replicas = list(replicas)
        self.ports = list(ports)
        self._caller = plane.certificates.client("arnold-scheduler")

    @property
    def extender(self) -> Process:
        """The only replica, or the first."""
        return self.replicas[0]

    def webhook(self, configuration: Object) -> Object:
        """A webhook configuration of the components for old API servers, at home here."""
        authority = b64encode(self.plane.certificates.authority.read_bytes()).decode()
        (webhook,) = configuration["webhooks"]
        path = webhook["clientConfig"]["service"]["path"]
        here = {"url": f"https://{LOOPBACK}:{self.service.port}{path}", "caBundle": authority}
        return {**configuration, "webhooks": [{**webhook, "clientConfig": here}]}

    @property
    def scheduler(self) -> Process:
        """The scheduler that asks."""
        return self.plane.guest("arnold-scheduler")

    def start(self, replica: int) -> None:
        """Start a replica that was to start later, or that was stopped, and ask it after the others."""
        self.plane.add(self.replicas[replica])
        if self.ports[replica] not in self.service.targets:
            self.service.targets.append(self.ports[replica])

    def stop(self, replica: int) -> None:
        """End a replica, as a Deployment does: it is asked no more, and lets go of what it leads."""
        self.forget(self.replicas[replica])
        self.plane.remove(self.replicas[replica].name)

    def forget(self, replica: Process) -> None:
        """Ask a replica no more, as a Service does once it is not ready."""
        self.service.targets.remove(self.ports[self.replicas.index(replica)])
        self.service.cut()

    def leader(self) -> Process | None:
        """The replica that holds the Lease, if it runs."""
        lease = self.plane.admin.find("leases", "arnold-extender", SYSTEM)
        holder = lease["spec"].get("holderIdentity") if lease else None
        return next((it for it in self.replicas if it.alive and holder and it.name in holder), None)

    def ask(self, verb: str, body: Any, *, replica: int = 0) -> tuple[int, Any]:
        """Ask a replica as kube-scheduler does: POST with its certificate.

        :param body: bytes, or what is sent as JSON.
        :return: HTTP status, and the answer: decoded where it is JSON, else text.
        """
        return self.call("POST", verb, body, caller=self._caller, replica=replica)

    def call(
        self, method: str, path: str, body: Any = None, *, caller: KeyPair | None, replica: int = 0
    ) -> tuple[int, Any]:
        """Send a replica anything.

        :param caller: whose certificate to show; ``None`` = none.
        :raises urllib3.exceptions.HTTPError: the replica hangs up.
        """
        context = client_context(self.plane.certificates.authority, caller)
        with urllib3.PoolManager(ssl_context=context) as pool:
            answer = pool.request(
                method,
                f"https://{LOOPBACK}:{self.ports[replica]}/{path}",
                body=body if body is None or isinstance(body, bytes) else json.dumps(body).encode(),
                headers={"Content-Type": "application/json"},
                retries=False,
                timeout=30.0,
            )
            text = answer.data.decode(errors="replace")
            is_json = answer.headers.get("Content-Type", "").startswith("application/json")
            return answer.status, json.loads(text) if is_json else text


@contextmanager
def running(
    plane: ControlPlane,
    *,
    levels: Sequence[str],
    replicas: int = 1,
    options: Sequence[str] = (),
    networks: Mapping[int, Forwarder] | None = None,
    forwarded: bool = True,
    checkouts: Mapping[int, Path] = NO_CHECKOUTS,
    later: Collection[int] = (),
    scheduler: Object | None = None,
) -> Iterator[Arnold]:
    """Run Arnold; it ends with the block.

    :param levels: node labels from broad to close.
    :param options: more of ``arnold extender serve``.
    :param networks: replica -> how it reaches the API server, where not directly.
    :param checkouts: replica -> folder of the version that it runs, where not this one.
    :param later: replicas that the test starts, by :meth:`Arnold.start`.
    :param forwarded: have the scheduler ask through a forwarder, as through a Service; else it asks the first replica.
    :param scheduler: its KubeSchedulerConfiguration; ``None`` = that of base.
    """
    ports = [free_port() for _ in range(replicas)]
    networks = networks or {}
    pair = plane.certificates.server("arnold-extender")
    processes = []
    for number, port in enumerate(ports):
        through = networks[number].port if number in networks else plane.api_port
        kubeconfig = plane.service_account("arnold-extender", SYSTEM, port=through)
        command = [
            *([PROGRAM] if number not in checkouts else OF_A_CHECKOUT),
            "extender",
            "serve",
            f"--kubeconfig={kubeconfig}",
            f"--bind={LOOPBACK}:{port}",
            f"--levels={','.join(levels)}",
            f"--tls-cert={pair.certificate}",
            f"--tls-key={pair.key}",
            f"--client-ca={plane.certificates.authority}",
            *options,
        ]
        name = f"arnold-extender-{number}"
        environment = {"POD_NAME": name, "POD_NAMESPACE": SYSTEM}
        environment |= {"PYTHONPATH": str(checkouts[number])} if number in checkouts else {}
        ready = Healthy(f"https://{LOOPBACK}:{port}/readyz")
        processes.append(Process(name, command, log=plane.folder / f"{name}.log", ready=ready, environment=environment))
    with Forwarder(ports) as service:
        arnold = Arnold(plane, service, processes, ports)
        for number, process in enumerate(processes):
            if number not in later:
                plane.add(process)
        asked = service.port if forwarded else ports[0]
        plane.add_scheduler("arnold-scheduler", _at_home(plane, asked, scheduler or read(PLAIN)[0]))
        try:
            yield arnold
        finally:
            for name in ("arnold-scheduler", *(process.name for process in processes)):
                if plane.runs(name):
                    plane.remove(name)
            plane.admin.delete_all("gangplans")
            plane.admin.delete_all("capacityreservations")
            plane.admin.delete_all("ganghistories")
            plane.admin.delete("leases", "arnold-extender", SYSTEM)


def _at_home(plane: ControlPlane, port: int, configuration: Object) -> Object:
    """The configuration of a scheduler that runs here and asks at a port."""
    pair = plane.certificates.client("arnold-scheduler")
    (extender,) = configuration["extenders"]
    extender["urlPrefix"] = f"https://{LOOPBACK}:{port}"
    extender["tlsConfig"] = {
        "caFile": str(plane.certificates.authority),
        "certFile": str(pair.certificate),
        "keyFile": str(pair.key),
    }
    configuration["clientConnection"]["kubeconfig"] = str(plane.service_account("arnold-scheduler", SYSTEM))
    configuration["leaderElection"] = {"leaderElect": False}
    return configuration
