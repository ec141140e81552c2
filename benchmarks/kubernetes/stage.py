"""A real control plane for measurements: etcd, API server, and a cluster of node objects with tenants.

The cluster's own scheduler and controllers are stopped, and so is what plays kubelets: they would share the machine's
few cores with what is measured.  Without kubelets a bound pod is a pod with a node.
"""

import json
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.client import HTTPException, HTTPResponse, HTTPSConnection
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from types import TracebackType
from typing import Self

from tests.e2e.harness.arnold import Arnold, find_native, install, running
from tests.e2e.harness.certificates import LOOPBACK
from tests.e2e.harness.client import Object, client_context
from tests.e2e.harness.nodes import level_labels, make_real, namespace
from tests.e2e.harness.plane import ControlPlane
from tests.e2e.harness.pods import bound, gang
from tests.e2e.harness.programs import find_kwok, find_programs
from tests.e2e.harness.waiting import wait_until
from tests.manifests.rendering import read
from topology.cluster import Cluster
from topology.generate import fragment, generate

NODES_OF_MINIPOD = 100
BUSY_SHARE = 0.3
METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"


def say(message: str) -> None:
    """Tell what waits how it goes."""
    print(message, file=sys.stderr, flush=True)


def measured_cluster(nodes: int) -> Cluster:
    """Minipods of 100 nodes, 30 % of them busy in a fragmented way."""
    return fragment(generate("minipods", minipods=max(2, nodes // NODES_OF_MINIPOD), nodes=nodes), BUSY_SHARE, seed=1)


@contextmanager
def stage(cluster: Cluster, *, kubelets: bool = False, native: bool = False) -> Iterator[ControlPlane]:
    """A control plane with that cluster and Arnold's manifests, on which nothing of Arnold runs yet.

    :param kubelets: whether ``plane.kwok`` can be started, which plays them.
    :param native: whether kube-scheduler has the plug-in for native groups, which a profile turns on.
    """
    programs, kwok = (find_native if native else find_programs)(say), find_kwok(say) if kubelets else None
    with TemporaryDirectory() as folder, ControlPlane(programs, Path(folder) / "plane", kwok=kwok) as plane:
        install(plane)
        for thing in read("components/native/rbac.yaml") if native else ():
            plane.admin.apply(thing)
        plane.scheduler.stop()
        plane.controller_manager.stop()
        if kubelets:
            plane.kwok.stop()
        make_real(plane.admin, cluster)
        yield plane


@contextmanager
def warm_arnold(
    plane: ControlPlane, cluster: Cluster, space: str, *, replicas: int = 1, scheduler: Object | None = None
) -> Iterator[Arnold]:
    """Arnold as its manifests start it, after a first small gang: solver loaded, connections open.

    With one replica nothing stands between scheduler and extender, as a Service takes no time of any process either.

    :param scheduler: its KubeSchedulerConfiguration; ``None`` = that of base.
    """
    levels, forwarded = level_labels(cluster), replicas > 1
    with running(plane, levels=levels, replicas=replicas, forwarded=forwarded, scheduler=scheduler) as arnold:
        pods = gang("warm-up", space, size=8, parallelism="tp=8,pp=2,dp=4")
        plane.admin.create_all(pods)
        wait_until(lambda: len(bound(plane.admin, space)) == len(pods), "the first gang on its nodes", seconds=120.0)
        clear(plane, space)
        wait_until(lambda: not plane.admin.all("gangplans", space), "the first gang's plan to go")
        yield arnold


def new_namespace(plane: ControlPlane, name: str) -> str:
    """A namespace, made."""
    plane.admin.apply(namespace(name))
    return name


def clear(plane: ControlPlane, space: str) -> None:
    """Delete all pods of a namespace, and wait until they are gone."""
    plane.admin.delete_all("pods", space)
    wait_until(lambda: not plane.admin.all("pods", space, limit="1"), "all pods to go")


def gangs_of(number: int, space: str, *, size: int, stages: Sequence[int], first: int = 0) -> Iterator[list[Object]]:
    """Gangs ``gang-FIRST``, ...: the pods of each.

    :param stages: of one gang after the other, again and again.
    """
    for i in range(first, first + number):
        deep = stages[i % len(stages)]
        parallelism = f"tp=8,pp={deep},dp={size // deep}"
        yield gang(f"gang-{i:06d}", space, size=size, parallelism=parallelism)


class Watch:
    """Lines of a watch with the moment at which each came, read in a thread while the block lasts.

    An API server without time to spare ends watches; they are taken up where they ended.

    :param path: what to watch, with a query.
    :param accept: the form of the objects.
    """

    def __init__(self, plane: ControlPlane, path: str, *, accept: str = METADATA) -> None:
        pair = plane.certificates.client("benchmark", "system:masters")
        self._connection = HTTPSConnection(
            LOOPBACK, plane.api_port, context=client_context(plane.certificates.authority, pair), timeout=600.0
        )
        self._path, self._accept = path, accept
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._answer: HTTPResponse
        self._over = False
        self._last = b""
        self.lines: list[tuple[float, bytes]] = []

    def __enter__(self) -> Self:
        self._open(self._path)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over = True
        if self._connection.sock is not None:
            self._connection.sock.shutdown(2)
        self._thread.join(10.0)
        self._connection.close()

    def take(self) -> list[tuple[float, bytes]]:
        """Return the lines so far, and forget them."""
        found = self.lines[:]
        del self.lines[: len(found)]
        return found

    def _open(self, path: str) -> None:
        self._connection.request("GET", f"/{path}", headers={"Accept": self._accept})
        self._answer = self._connection.getresponse()
        assert self._answer.status == 200, self._answer.read()

    def _read(self) -> None:
        try:
            while not self._over:
                while line := self._answer.readline():
                    self.lines.append((perf_counter(), line))
                    self._last = line
                if not self._over:
                    self._open(f"{self._path}{self._since()}")
        except (OSError, ValueError, HTTPException):
            return

    def _since(self) -> str:
        """The part of a query that asks only for what came after the last line."""
        if not self._last:
            return ""
        version = json.loads(self._last)["object"]["metadata"]["resourceVersion"]
        return f"&resourceVersion={version}"


class Bindings(Watch):
    """The pods of a namespace as they get nodes: each comes once as ADDED to a watch of pods with a node."""

    def __init__(self, plane: ControlPlane, space: str) -> None:
        super().__init__(plane, f"api/v1/namespaces/{space}/pods?watch=true&fieldSelector=spec.nodeName!%3D")

    def moment(self, count: int, *, seconds: float = 300.0) -> float:
        """When the pod of that number got its node, on the performance counter."""
        wait_until(lambda: len(self._added()) >= count, f"{count} pods on nodes", seconds=seconds, every=0.25)
        return self._added()[count - 1]

    def _added(self) -> list[float]:
        return [moment for moment, line in list(self.lines) if line.startswith(b'{"type":"ADDED"')]
