"""A plain HTTPS client of the API server: JSON objects as they are, and many requests at once.

The product has its own client; what checks the product does not share it.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlencode

import msgspec
import urllib3

from tests.e2e.harness.certificates import KeyPair

Object = dict[str, Any]
"""A Kubernetes object, as JSON has it."""

T = TypeVar("T")
R = TypeVar("R")

JSON = "application/json"
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"

_HOME = {
    "nodes": "api/v1",
    "namespaces": "api/v1",
    "pods": "api/v1",
    "events": "api/v1",
    "serviceaccounts": "api/v1",
    "jobs": "apis/batch/v1",
    "statefulsets": "apis/apps/v1",
    "leaderworkersets": "apis/leaderworkerset.x-k8s.io/v1",
    "jobsets": "apis/jobset.x-k8s.io/v1alpha2",
    **dict.fromkeys(
        ("workloads", "localqueues", "clusterqueues", "resourceflavors", "topologies"), "apis/kueue.x-k8s.io/v1beta2"
    ),
    **dict.fromkeys(("podgroups", "queues"), "apis/scheduling.volcano.sh/v1beta1"),
    "hypernodes": "apis/topology.volcano.sh/v1alpha1",
    "resourceslices": "apis/resource.k8s.io/v1",
    "deviceclasses": "apis/resource.k8s.io/v1",
    "resourceclaims": "apis/resource.k8s.io/v1",
    "clusterroles": "apis/rbac.authorization.k8s.io/v1",
    "clusterrolebindings": "apis/rbac.authorization.k8s.io/v1",
    "poddisruptionbudgets": "apis/policy/v1",
    "leases": "apis/coordination.k8s.io/v1",
    "gangplans": "apis/arnold.dev/v1alpha1",
    "capacityreservations": "apis/arnold.dev/v1alpha1",
    "ganghistories": "apis/arnold.dev/v1alpha1",
}
"""Where each resource lives that tests read by name."""

_PATIENT = urllib3.Retry(
    total=None, connect=120, read=5, status=50, backoff_factor=0.05, backoff_max=0.5, status_forcelist=(429, 503)
)
"""An API server that starts again, or asks for patience, is asked again."""


class ClosingSocket(ssl.SSLSocket):
    """A TLS socket that closes itself when nobody has it any more.

    CPython leaves one open whose other end, such as a program that is killed, reset it before the handshake
    (python/cpython issue 113280).
    """

    def __del__(self) -> None:
        self.close()


def client_context(authority: Path, pair: KeyPair | None = None) -> ssl.SSLContext:
    """TLS to servers of an authority, with a client certificate or without."""
    context = ssl.create_default_context(cafile=str(authority))
    context.sslsocket_class = ClosingSocket
    if pair is not None:
        context.load_cert_chain(str(pair.certificate), str(pair.key))
    return context


class ApiError(Exception):
    """The API server refused."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason


class Client:
    """Talks to one API server as one user.

    :param identity: a client certificate, a bearer token, or nobody.
    :param threads: requests that :meth:`each` makes at once.
    """

    def __init__(self, server: str, *, authority: Path, identity: KeyPair | str | None, threads: int = 16) -> None:
        pair = identity if isinstance(identity, KeyPair) else None
        self._server = server
        self._headers = {"User-Agent": "tests"}
        if isinstance(identity, str):
            self._headers["Authorization"] = f"Bearer {identity}"
        self._pool = urllib3.PoolManager(
            maxsize=2 * threads,
            headers=self._headers,
            ssl_context=client_context(authority, pair),
            timeout=urllib3.Timeout(connect=5.0, read=60.0),
        )
        self._threads = ThreadPoolExecutor(threads)
        self.warnings: list[str] = []
        """What the server warned of in its last answer."""

    def close(self) -> None:
        """Close all connections."""
        self._threads.shutdown()
        self._pool.clear()

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = JSON,
        accept: str = JSON,
        patient: bool = True,
    ) -> Any:
        """One request.

        :param path: below the server's address, with its query.
        :param patient: try again while the server is away.
        :raises ApiError: the server refused.
        """
        answer = self._pool.request(
            method,
            f"{self._server}/{path}",
            body=None if body is None else msgspec.json.encode(body),
            headers=self._headers | {"Content-Type": content_type, "Accept": accept},
            retries=_PATIENT if patient else False,
        )
        self.warnings = answer.headers.getlist("Warning")
        if answer.status >= 300:
            raise _refusal(answer)
        return (
            msgspec.json.decode(answer.data) if answer.headers.get("Content-Type", "").startswith(JSON) else answer.data
        )

    def ready(self) -> bool:
        """Whether the API server is there and says so."""
        try:
            self.request("GET", "readyz", patient=False)
        except (urllib3.exceptions.HTTPError, ApiError):
            return False
        return True

    def get(self, resource: str, name: str, namespace: str | None = None) -> Object:
        """One object.

        :raises ApiError: 404 when there is none.
        """
        found: Object = self.request("GET", f"{path(resource, namespace)}/{name}")
        return found

    def find(self, resource: str, name: str, namespace: str | None = None) -> Object | None:
        """One object, if there is one."""
        try:
            return self.get(resource, name, namespace)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def all(self, resource: str, namespace: str | None = None, **selectors: str) -> list[Object]:
        """All objects of a kind, in one namespace or in all.

        :param selectors: ``labelSelector``, ``fieldSelector``.
        """
        query = f"?{urlencode(selectors)}" if selectors else ""
        found: list[Object] = self.request("GET", path(resource, namespace) + query)["items"]
        return found

    def table(self, resource: str, namespace: str) -> Object:
        """What ``kubectl get`` prints of the objects of a kind: columns and rows."""
        found: Object = self.request("GET", path(resource, namespace), accept=f"{JSON};as=Table;v=v1;g=meta.k8s.io")
        return found

    def create(self, thing: Object) -> Object:
        """Create an object where its own kind and namespace say."""
        made: Object = self.request("POST", home_of(thing), thing)
        return made

    def apply(self, thing: Object, *, query: str = "") -> Object:
        """Create or change an object (server-side apply)."""
        where = f"{home_of(thing)}/{thing['metadata']['name']}?fieldManager=tests&force=true{query}"
        made: Object = self.request("PATCH", where, thing, content_type=APPLY)
        return made

    def patch(
        self, resource: str, name: str, change: Any, namespace: str | None = None, *, subresource: str = ""
    ) -> Object:
        """Change an object: a list is a JSON patch, a mapping is merged."""
        kind = JSON_PATCH if isinstance(change, list) else MERGE
        where = f"{path(resource, namespace)}/{name}{subresource and '/' + subresource}"
        made: Object = self.request("PATCH", where, change, content_type=kind)
        return made

    def delete(self, resource: str, name: str, namespace: str | None = None, *, grace: int = 0) -> None:
        """Delete an object, and what it made; one that is gone already is fine.

        :param grace: seconds that a pod may take.
        """
        try:
            options = {"gracePeriodSeconds": grace, "propagationPolicy": "Background"}
            self.request("DELETE", f"{path(resource, namespace)}/{name}", options)
        except ApiError as error:
            if error.status != 404:
                raise

    def delete_all(self, resource: str, namespace: str | None = None) -> None:
        """Delete all objects of a kind, at once; of very many, what a request left is deleted by the next."""
        options = {"gracePeriodSeconds": 0, "propagationPolicy": "Background"}
        for where in {thing["metadata"].get("namespace") for thing in self.all(resource, namespace)}:
            while True:
                try:
                    self.request("DELETE", path(resource, where), options)
                    break
                except ApiError as refusal:
                    if refusal.status != HTTPStatus.GATEWAY_TIMEOUT:
                        raise

    def each(self, do: Callable[[T], R], things: Iterable[T]) -> list[R]:
        """Do something with each thing, many at once; the answers in order."""
        return list(self._threads.map(do, things))

    def create_all(self, things: Iterable[Object]) -> list[Object]:
        """Create objects, many at once."""
        return self.each(self.create, things)


def create_missing(client: Client, things: Iterable[Object]) -> None:
    """Create objects, many at once; one that is there already stays, as after a request without an answer."""

    def create(thing: Object) -> None:
        try:
            client.create(thing)
        except ApiError as error:
            if error.status != HTTPStatus.CONFLICT:
                raise

    client.each(create, things)


def path(resource: str, namespace: str | None = None) -> str:
    """Where the objects of a resource are."""
    inside = f"namespaces/{namespace}/" if namespace else ""
    return f"{_HOME[resource]}/{inside}{resource}"


def home_of(thing: Mapping[str, Any]) -> str:
    """Where objects of this one's kind are made."""
    version, kind = thing["apiVersion"], thing["kind"].lower()
    plural = f"{kind[:-1]}ies" if kind.endswith("y") else f"{kind}es" if kind.endswith("s") else f"{kind}s"
    namespace = thing["metadata"].get("namespace")
    inside = f"namespaces/{namespace}/" if namespace else ""
    return f"{'apis' if '/' in version else 'api'}/{version}/{inside}{plural}"


def _refusal(answer: urllib3.BaseHTTPResponse) -> ApiError:
    try:
        status = msgspec.json.decode(answer.data)
        return ApiError(answer.status, status.get("reason", ""), status.get("message", ""))
    except (msgspec.DecodeError, AttributeError):
        return ApiError(answer.status, answer.reason or "", answer.data.decode(errors="replace")[:500])
