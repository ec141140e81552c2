"""A Kubernetes control plane on the loopback address: etcd, API server, scheduler, controllers; KWOK plays the nodes.

Real programs with RBAC on; only the machines are not there.  Every part can be stopped, killed and started again, and
comes back with the same address and the same state.  Left out, so that tests are quick and say themselves what happens:

- the admission plug-in ServiceAccount: pods need no token, and new namespaces no controller before they take pods;
- the node life-cycle controller, and the taint not-ready that new nodes have until it takes it off: nodes have no
  heartbeats, and a test that wants one to fail writes what that controller would write.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping
from functools import cached_property, partial
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.e2e.harness.certificates import LOOPBACK, Certificates, KeyPair, write_kubeconfig
from tests.e2e.harness.client import Client, Object, home_of
from tests.e2e.harness.pods import NATIVE_GROUPS
from tests.e2e.harness.process import Healthy, Process
from tests.e2e.harness.programs import Command
from tests.e2e.harness.waiting import wait_until
from tests.ports import free_port

CONTROLLERS = (
    "garbage-collector-controller",
    "job-controller",
    "namespace-controller",
    "persistentvolume-binder-controller",
    "pod-garbage-collector-controller",
    "resourceclaim-controller",
    "statefulset-controller",
)
STAGES = Path(__file__).with_name("stages.yaml")


class ControlPlane:
    """One control plane.

    :param programs: how to call each part, see :func:`tests.e2e.harness.programs.find_programs`.
    :param kwok: the program that plays kubelets; ``None`` = bound pods stay Pending.
    :param folder: for certificates, data and logs; must not exist yet.
    :param speaks_as: the version of Kubernetes that the programs speak as, 1.33; ``None`` = their own.
    :param young: feature that is off by default -> version of its API, which the API server alone knows; the native
        PodGroup of 1.36 where nothing is said.
    """

    def __init__(
        self,
        programs: Mapping[str, Command],
        folder: Path,
        *,
        kwok: Path | None = None,
        speaks_as: str | None = None,
        young: Mapping[str, str] = NATIVE_GROUPS,
    ) -> None:
        folder.mkdir(parents=True)
        self.folder = folder
        self._programs = programs
        self._kwok = kwok
        self._speaks_as = {"emulated-version": speaks_as} if speaks_as is not None else {}
        self._young = young
        self.certificates = Certificates(folder / "certificates")
        self._kubeconfigs: dict[str, Path] = {}
        self._clients: dict[str, Client] = {}
        self._guests: dict[str, Process] = {}
        self._etcd_port, self.api_port = free_port(), free_port()
        self.server = f"https://{LOOPBACK}:{self.api_port}"

    def __enter__(self) -> ControlPlane:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start all parts; returns when they are ready."""
        self.etcd.start(wait=False)
        self.api_server.start()
        for part in self._followers:
            part.start(wait=False)
        for part in self._followers:
            part.wait_ready()

    def stop(self) -> None:
        """Stop all parts and forget their data."""
        for part in (*self._guests.values(), *self._followers, self.api_server, self.etcd):
            part.kill()
        for client in self._clients.values():
            client.close()
        shutil.rmtree(self.folder / "etcd", ignore_errors=True)

    def sweep(self) -> None:
        """Have all parts running again, and nothing left of a test: nothing that it added, no jobs, pods or nodes."""
        for name in list(self._guests):
            self._guests.pop(name).kill()
        self.revive()
        for resource in ("jobs", "statefulsets", "pods", "nodes", "resourceslices", "deviceclasses"):
            self.admin.delete_all(resource)
        wait_until(lambda: not self.admin.all("pods"), "all pods to go")

    def revive(self) -> list[str]:
        """Start again whatever has ended, as a kubelet would, and return the names."""
        ended = [it for it in (self.etcd, self.api_server, *self._followers, *self._guests.values()) if not it.alive]
        for part in ended:
            part.start()
        return [part.name for part in ended]

    def define(self, definitions: Iterable[Mapping[str, Any]]) -> None:
        """Define kinds of resources, and wait until the API server serves them."""
        for definition in definitions:
            made = self.admin.apply(dict(definition))
            wait_until(partial(self._established, made), f"the kind {made['metadata']['name']}")

    def _established(self, definition: Mapping[str, Any]) -> bool:
        found = self.admin.request("GET", f"{home_of(definition)}/{definition['metadata']['name']}")
        conditions = found["status"].get("conditions") or []
        return any(it["type"] == "Established" and it["status"] == "True" for it in conditions)

    @property
    def _followers(self) -> list[Process]:
        return [self.scheduler, self.controller_manager, *([self.kwok] if self._kwok else [])]

    # Who talks to it

    def kubeconfig(self, user: str = "admin", group: str | None = None) -> Path:
        """A kubeconfig file for a user with a client certificate; ``admin`` may do anything."""
        if user not in self._kubeconfigs:
            group = "system:masters" if user == "admin" else group
            pair = self.certificates.client(user, group)
            file = self.folder / f"{user.replace(':', '-')}.kubeconfig"
            self._kubeconfigs[user] = write_kubeconfig(file, self.server, self.certificates.authority, pair)
            self._clients[user] = self._client(pair)
        return self._kubeconfigs[user]

    def client(self, user: str = "admin") -> Client:
        """A client for a user."""
        self.kubeconfig(user)
        return self._clients[user]

    @property
    def admin(self) -> Client:
        """A client that may do anything."""
        return self.client()

    def service_account(self, name: str, namespace: str, *, port: int | None = None) -> Path:
        """A kubeconfig file with the own token of a service account, as its pod would have it.

        :param port: of a forwarder to the API server; ``None`` = the API server's own.
        """
        port = port or self.api_port
        where = f"api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": 7200},
        }
        token: str = self.admin.request("POST", where, request)["status"]["token"]
        user = f"{namespace}-{name}"
        self._clients[user] = self._client(token)
        file = self.folder / f"{user}-{port}.kubeconfig"
        return write_kubeconfig(file, f"https://{LOOPBACK}:{port}", self.certificates.authority, token)

    def service_account_client(self, name: str, namespace: str) -> Client:
        """A client with the own token of a service account."""
        self.service_account(name, namespace)
        return self._clients[f"{namespace}-{name}"]

    def _client(self, identity: KeyPair | str) -> Client:
        return Client(self.server, authority=self.certificates.authority, identity=identity)

    # Its parts

    @cached_property
    def etcd(self) -> Process:
        """The store; without fsync, as the machine outlives the test."""
        clients, peers = f"http://{LOOPBACK}:{self._etcd_port}", f"http://{LOOPBACK}:{free_port()}"
        return self._process(
            "etcd",
            {
                "data-dir": self.folder / "etcd",
                "unsafe-no-fsync": "true",
                "listen-client-urls": clients,
                "advertise-client-urls": clients,
                "listen-peer-urls": peers,
                "initial-advertise-peer-urls": peers,
                "initial-cluster": f"default={peers}",
            },
            health=f"{clients}/health",
        )

    @cached_property
    def api_server(self) -> Process:
        """The API server: client certificates, service account tokens, RBAC."""
        serving, accounts = self.certificates.server("kube-apiserver"), self.certificates.server("service-accounts")
        flags = {
            "etcd-servers": f"http://{LOOPBACK}:{self._etcd_port}",
            "bind-address": LOOPBACK,
            "secure-port": self.api_port,
            "tls-cert-file": serving.certificate,
            "tls-private-key-file": serving.key,
            "client-ca-file": self.certificates.authority,
            "service-account-issuer": "https://kubernetes.default.svc",
            "service-account-key-file": accounts.key,
            "service-account-signing-key-file": accounts.key,
            "service-cluster-ip-range": "10.0.0.0/24",
            "authorization-mode": "RBAC",
            "endpoint-reconciler-type": "none",
            "disable-admission-plugins": "ServiceAccount,TaintNodesByCondition",
            "feature-gates": ",".join(f"{feature}=true" for feature in self._young),
            "runtime-config": ",".join(f"{version}=true" for version in self._young.values()),
            **self._speaks_as,
        }
        command = [*self._programs["kube-apiserver"], *_flags(flags)]
        return Process("kube-apiserver", command, log=self._log("kube-apiserver"), ready=self.admin.ready)

    @cached_property
    def scheduler(self) -> Process:
        """The scheduler that every cluster has."""
        return self._scheduler("kube-scheduler", {})

    def add_scheduler(self, name: str, configuration: Mapping[str, Any]) -> Process:
        """One more scheduler, started.

        :param configuration: of a KubeSchedulerConfiguration; the connection to the API server is added.
        """
        return self.add(self._scheduler(name, configuration))

    def add(self, process: Process) -> Process:
        """Start a program that ends with the test."""
        self._guests[process.name] = process
        process.start()
        return process

    def guest(self, name: str) -> Process:
        """A program that was added."""
        return self._guests[name]

    def runs(self, name: str) -> bool:
        """Whether a program of that name was added, and not removed."""
        return name in self._guests

    def remove(self, name: str) -> None:
        """Stop a program that was added."""
        self._guests.pop(name).stop()

    @cached_property
    def controller_manager(self) -> Process:
        """The controllers that make pods of jobs, and clean up."""
        flags = {
            "kubeconfig": self.kubeconfig("system:kube-controller-manager"),
            "controllers": ",".join(CONTROLLERS),
            "leader-elect": "false",
            "use-service-account-credentials": "true",
            "kube-api-qps": 1000,
            "kube-api-burst": 1000,
            **self._speaks_as,
        }
        return self._with_healthz("kube-controller-manager", "kube-controller-manager", flags)

    @cached_property
    def kwok(self) -> Process:
        """Plays the kubelets of all nodes: bound pods run, deleted pods go."""
        assert self._kwok is not None, "this control plane was made without KWOK"
        port = free_port()
        flags = {
            "kubeconfig": self.kubeconfig("kwok", "system:masters"),
            "config": STAGES,
            "manage-all-nodes": "true",
            "node-lease-duration-seconds": 0,
            "server-address": f"{LOOPBACK}:{port}",
        }
        command = [str(self._kwok), *_flags(flags)]
        return Process("kwok", command, log=self._log("kwok"), ready=Healthy(f"http://{LOOPBACK}:{port}/healthz"))

    def _scheduler(self, name: str, configuration: Mapping[str, Any]) -> Process:
        """A kube-scheduler without a lease, so that one that was killed works as soon as it is back."""
        user = self.kubeconfig("system:kube-scheduler")
        document: dict[str, Any] = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": False},
            "clientConnection": {"kubeconfig": str(user), "qps": 1000, "burst": 1000},
        }
        file = self.folder / f"{name}.configuration"
        file.write_text(json.dumps({**document, **configuration}), encoding="utf-8")
        return self._with_healthz("kube-scheduler", name, {"config": file, **self._speaks_as})

    def _with_healthz(self, part: str, name: str, flags: Mapping[str, object]) -> Process:
        port = free_port()
        serving = {"secure-port": port, "bind-address": LOOPBACK, "cert-dir": self.folder / f"{name}-certificates"}
        return self._process(part, {**flags, **serving}, health=f"https://{LOOPBACK}:{port}/healthz", name=name)

    def _process(self, part: str, flags: Mapping[str, object], *, health: str, name: str = "") -> Process:
        command = [*self._programs[part], *_flags(flags)]
        return Process(name or part, command, log=self._log(name or part), ready=Healthy(health))

    def _log(self, name: str) -> Path:
        return self.folder / f"{name}.log"


def stand_in(group: str, version: str, kind: str) -> Object:
    """The definition of a kind of which no controller runs here."""
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    served = {"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": anything}}
    names = {"kind": kind, "plural": f"{kind.lower()}s"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        # a group of k8s.io says whether it was approved; these stand in for those that were
        "metadata": {
            "name": f"{names['plural']}.{group}",
            "annotations": {"api-approved.kubernetes.io": "unapproved, for tests"},
        },
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [served]},
    }


def _flags(flags: Mapping[str, object]) -> list[str]:
    return [f"--{name}={value}" for name, value in flags.items()]
