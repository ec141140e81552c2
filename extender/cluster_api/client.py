"""The API server over HTTPS, with the settings and credentials of the official client, and what can go wrong there.

Objects cross this line as JSON, decoded where the few fields that matter are known.  The client library's generated
models know every field of every kind: a pod of 3 kB takes 0.5 ms and 64 kB in them, 15 microseconds and 3 kB in the
structs of :mod:`extender.objects`; and the library's informer builds on them, in threads.  Requests are given to
aiohttp, as the library does: its own way there takes a fifth of our time for a patch.  Its exceptions never leave this
package.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import dataclass, replace
from random import uniform
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar
from urllib.parse import quote
from urllib.request import getproxies

import msgspec

from extender import kubernetes_names as names
from extender.cluster_api.flow import FlowControl
from extender.texts import clip
from ground.errors import ArnoldError, InvalidInput

if TYPE_CHECKING:
    from aiohttp import ClientResponse, ClientSession, ClientTimeout
    from kubernetes.aio.client import Configuration
    from yarl import URL

_Document = TypeVar("_Document")

LONGEST_REASON = 1024  # bytes of what the API server says that are repeated; it may quote the object that it refuses


class InvalidKubeconfig(InvalidInput):
    """A kubeconfig that cannot be used, or no way to find a cluster at all."""


class ClusterError(ArnoldError):
    """The cluster did not do what was asked."""


class Unreachable(ClusterError):
    """The API server did not answer: away, refusing connections, or showing a certificate that we do not trust."""


class LongAnswer(ClusterError):
    """The API server answered with more than is read at once: ask for less."""


class Refused(ClusterError):
    """The API server said no, for a reason of one word, to be asked again after some seconds; 0 = it did not say."""

    def __init__(
        self, message: str, *, status: int, reason: str, retry_after: float = 0.0, where: str = "", fix: str = ""
    ) -> None:
        super().__init__(message, where=where, fix=fix)
        self.status, self.reason, self.retry_after = status, reason, retry_after


class NotFound(Refused):
    """There is no such object, or no such kind."""


class Conflict(Refused):
    """The object was written since we read it, or exists already."""


class Gone(Refused):
    """The version that a list or watch asked for is forgotten: list again."""


class PatchFailed(Refused):
    """A ``test`` of a JSON patch did not hold, or the patch leads to an object that cannot be."""


class Busy(Refused):
    """The API server has too much to do, or is starting or stopping: ask again later."""


class _Status(msgspec.Struct):
    """The Status object in which the API server says why not."""

    message: str | None = ""
    reason: str | None = ""
    code: int = 0


_KINDS: dict[int, type[Refused]] = {404: NotFound, 409: Conflict, 410: Gone, 422: PatchFailed}
_KINDS |= dict.fromkeys((429, 500, 502, 503, 504), Busy)

_FIXES = {
    401: "check the user, token or certificate of the kubeconfig; a token may have run out",
    403: "grant the role that manifests/ gives to arnold, or use a kubeconfig that may do it",
    404: "check the name; if a whole kind is unknown, apply the CRDs: kubectl apply -k manifests/",
}


def refusal(status: int | None, body: bytes, *, where: str, retry_after: float = 0.0) -> Refused:
    """Return the error for an answer that is none of 2xx.

    :param status: HTTP status; ``None`` = the body says it.
    :param body: a Status object, or whatever something between us and the API server wrote.
    """
    try:
        answer = msgspec.json.decode(body, type=_Status)
    except (msgspec.DecodeError, UnicodeDecodeError):
        answer = _Status(message=body[:200].decode("utf-8", "replace").strip())
    status = answer.code or 500 if status is None else status
    message = clip(answer.message or "", LONGEST_REASON) or f"HTTP {status} without a reason"
    kind, fix = _KINDS.get(status, Refused), _FIXES.get(status, "")
    message = f"the API server answered {status}: {message}"
    return kind(message, status=status, reason=answer.reason or "", retry_after=retry_after, where=where, fix=fix)


class _Version(msgspec.Struct):
    version: str


class _Group(msgspec.Struct):
    """The versions of an API group, newest of the most settled first."""

    versions: list[_Version]


class _Named(msgspec.Struct):
    name: str


class _Kinds(msgspec.Struct):
    """The kinds of a version of a group, by their plurals, and their parts (``podgroups/status``)."""

    resources: list[_Named]


def read_as(body: bytes, kind: type[_Document], where: str) -> _Document:
    """Return what an answer says, or raise ``Refused``: it is not the JSON that was expected."""
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise refusal(502, body[:200], where=where) from error


class Lines:
    """Collects chunks and gives back complete lines; an object of a watch may be a megabyte, over many chunks."""

    def __init__(self) -> None:
        self._rest: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """Add a chunk, and return the lines that it completes, without their ends and without empty ones."""
        end = chunk.rfind(b"\n")
        if end < 0:
            self._rest.append(chunk)
            return []
        whole = b"".join([*self._rest, chunk[:end]])
        self._rest = [chunk[end + 1 :]]
        return [line for line in whole.split(b"\n") if line]


Document = dict[str, Any]  # An object to be written, as it stands in JSON


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind of object; the group of core kinds is empty, the plural is the name in paths: ``pods``.

    An empty version is whichever the API server serves, which :meth:`ClusterApi.served` finds out.
    """

    group: str
    version: str
    plural: str
    kind: str

    def __str__(self) -> str:
        return "/".join(part for part in (self.group, self.version, self.plural) if part)

    def path(self, *, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Return the path of the collection (of one namespace or of all), of an object or of a part of it."""
        parts = ["apis", self.group, self.version] if self.group else ["api", self.version]
        if namespace:
            parts += ["namespaces", namespace]
        parts += [part for part in (self.plural, name, subresource) if part]
        return "/" + "/".join(quote(part, safe="") for part in parts)

    def named(self, name: str, namespace: str = "") -> str:
        """Return an object as people write it: ``Pod train/worker-0``."""
        return f"{self.kind} {namespace}/{name}" if namespace else f"{self.kind} {name}"


PODS = Resource("", "v1", "pods", "Pod")
NODES = Resource("", "v1", "nodes", "Node")
NAMESPACES = Resource("", "v1", "namespaces", "Namespace")
BUDGETS = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
EVENTS = Resource("events.k8s.io", "v1", "events", "Event")
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")
GANGPLANS = Resource(names.GROUP, names.VERSION, names.PLURAL, names.KIND)
HISTORIES = Resource(names.GROUP, names.VERSION, names.HISTORY_PLURAL, names.HISTORY_KIND)
RESERVATIONS = Resource(names.GROUP, names.VERSION, names.RESERVATION_PLURAL, names.RESERVATION_KIND)

ALLOCATION = (
    Resource("resource.k8s.io", "v1", "resourceslices", "ResourceSlice"),
    Resource("resource.k8s.io", "v1", "deviceclasses", "DeviceClass"),
    Resource("resource.k8s.io", "v1", "resourceclaimtemplates", "ResourceClaimTemplate"),
    Resource("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim"),
)
"""GPUs of dynamic resource allocation; Kubernetes has them in this version since 1.34."""


ANSWER_SECONDS = 30.0  # longest time for one answer; the API server gives up on its own after 60
WATCH_SECONDS = (240.0, 360.0)  # the server ends a watch in between: those of many clients do not end at once
SILENCE_SECONDS = 90.0
"""A watch without a word for so long may be dead, and is ended.  The server sends bookmarks every minute, though not of
kinds of which it has seen nothing happen."""

READ_BYTES = 2**21  # of an answer that are held before they are read: an object of a watch may have a megabyte
ATTEMPTS = 4  # tries of a request that the server is too busy to look at
MOST_PAUSE = 10.0  # seconds between them, whatever it asks for: meanwhile a write holds its turn

PatchKind = Literal["json-patch", "merge-patch", "strategic-merge-patch"]
"""RFC 6902 (a list of operations), RFC 7386 (a piece of the object), or that with lists merged by key, as Kubernetes
does with its own kinds."""


class ClusterApi:
    """What can be asked of a cluster; every method raises ``Unreachable`` or a kind of ``Refused``.

    Use it as an asynchronous context manager, in the event loop that it is to live in.  Reads are few and not bounded.
    """

    def __init__(self, configuration: Configuration, *, flow: FlowControl, context: str = "") -> None:
        self.context = context  # of the kubeconfig; empty = there is none
        self.server = str(configuration.host)  # its address
        self._configuration = configuration
        # Compressing lists costs the API server more time than the bytes cost a network inside a cluster.
        self._headers = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "arnold"}
        self._flow = flow
        self._session: ClientSession
        self._address: URL

    async def __aenter__(self) -> Self:
        from aiohttp import ClientSession, DummyCookieJar, TCPConnector
        from kubernetes.aio.client.rest import RESTClientObject
        from yarl import URL

        self._address = URL(self.server)
        self._session = ClientSession(
            connector=TCPConnector(ssl=RESTClientObject(self._configuration).ssl_context),
            cookie_jar=DummyCookieJar(),
            proxy=self._configuration.proxy,
            read_bufsize=READ_BYTES,
            # Else each request looks for proxies and a .netrc file again, in a thread.
            trust_env=bool(getproxies()),
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    def lane(self, *, rate: float, parallel: int) -> ClusterApi:
        """Return the same connections with turns of their own, so that what is urgent does not wait for much else."""
        other = copy(self)
        other._flow = FlowControl(rate=rate, burst=max(1, round(rate)), parallel=parallel)
        return other

    async def get(self, resource: Resource, name: str, *, namespace: str = "") -> bytes:
        """Return one object."""
        return await self._ask("GET", resource.path(namespace=namespace, name=name))

    async def read(self, path: str) -> bytes:
        """Return what is not an object: a document of the API server about itself."""
        return await self._ask("GET", path)

    async def served(self, resource: Resource) -> Resource:
        """Return a kind in a version that is served, the one that the API server names first where it says none."""
        if resource.version:
            return resource
        where = f"/apis/{resource.group}"
        for group_version in read_as(await self._ask("GET", where), _Group, where).versions:
            where = f"/apis/{resource.group}/{group_version.version}"
            kinds = read_as(await self._ask("GET", where), _Kinds, where).resources
            if any(kind.name == resource.plural for kind in kinds):
                return replace(resource, version=group_version.version)
        raise NotFound(f"no version of {resource.group} has {resource.plural}", status=404, reason="NotFound")

    async def page(
        self, resource: Resource, *, limit: int = 500, token: str = "", most_bytes: int | None = None
    ) -> bytes:
        """Return a page of the list of all objects.

        :param token: ``metadata.continue`` of the page before; empty = the first page.
        :raises Gone: its snapshot is forgotten by now.
        :raises LongAnswer: it has more than ``most_bytes``.
        """
        query = {"limit": str(limit)} | ({"continue": token} if token else {})
        return await self._ask("GET", resource.path(), query=query, most_bytes=most_bytes)

    async def watch(self, resource: Resource, *, version: str) -> AsyncGenerator[Sequence[bytes]]:
        """Yield changes as lists of JSON objects with ``type`` and ``object``, until the server ends it, in minutes.

        The first list is empty and comes as soon as the watch is open: where nothing changes no other may come.  Who
        stops before the end closes it.
        """
        from aiohttp import ClientTimeout, ServerTimeoutError

        path = resource.path()
        seconds = uniform(*WATCH_SECONDS)
        query = {"watch": "true", "allowWatchBookmarks": "true", "resourceVersion": version}
        query["timeoutSeconds"] = f"{seconds:.0f}"
        patience = ClientTimeout(total=seconds + ANSWER_SECONDS, sock_connect=ANSWER_SECONDS, sock_read=SILENCE_SECONDS)
        response = await self._send("GET", path, query=query, timeout=patience)
        lines = Lines()
        try:
            # Silence ends a watch as the server would: it is no error.
            with self._reaching(), suppress(ServerTimeoutError):
                if response.status != 200:
                    raise refusal(response.status, await response.read(), where=f"watching {path}")
                yield ()
                async for chunk in response.content.iter_any():
                    if complete := lines.feed(chunk):
                        yield complete
        finally:
            response.close()

    async def create(self, resource: Resource, document: Document, *, namespace: str = "") -> bytes:
        """Make an object, and return it, or raise ``Conflict``: it exists."""
        return await self._write("POST", resource.path(namespace=namespace), body=document)

    async def evict(self, name: str, *, namespace: str, uid: str, dry_run: bool = False) -> None:
        """Evict a pod of this UID, or see whether that could be, or raise ``Busy``: a disruption budget forbids it."""
        options = {"preconditions": {"uid": uid}, "dryRun": ["All"] if dry_run else []}
        about = {"name": name, "namespace": namespace}
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": about, "deleteOptions": options}
        await self._write("POST", PODS.path(namespace=namespace, name=name, subresource="eviction"), body=body)

    async def replace(
        self, resource: Resource, name: str, document: Document, *, namespace: str = "", subresource: str = ""
    ) -> bytes:
        """Write an object, or its ``status``, and return it, or raise ``Conflict``: its version has changed."""
        path = resource.path(namespace=namespace, name=name, subresource=subresource)
        return await self._write("PUT", path, body=document)

    async def patch(
        self,
        resource: Resource,
        name: str,
        change: list[Document] | Document,
        *,
        kind: PatchKind,
        namespace: str = "",
        subresource: str = "",
    ) -> bytes:
        """Change some fields of an object, and return it, or raise ``PatchFailed``: a ``test`` does not hold."""
        path = resource.path(namespace=namespace, name=name, subresource=subresource)
        return await self._write("PATCH", path, body=change, content_type=f"application/{kind}+json")

    async def delete(self, resource: Resource, name: str, *, namespace: str = "", uid: str = "") -> None:
        """Delete an object, of this UID if one is given, or raise ``Conflict``: it is another of the same name."""
        options: Document = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if uid:
            options["preconditions"] = {"uid": uid}
        await self._write("DELETE", resource.path(namespace=namespace, name=name), body=options)

    async def _write(self, method: str, path: str, **sent: Any) -> bytes:
        async with self._flow.turn():
            return await self._ask(method, path, **sent)

    async def _ask(self, method: str, path: str, **sent: Any) -> bytes:
        """Ask, and ask again while the server says that it did not look at the request."""
        for attempt in range(1, ATTEMPTS):
            try:
                return await self._ask_once(method, path, **sent)
            except Busy as error:
                if error.status != 429:
                    raise
                pause = max(min(error.retry_after, MOST_PAUSE), 0.1 * 2**attempt)
                await asyncio.sleep(pause * uniform(1, 1.2))
        return await self._ask_once(method, path, **sent)

    async def _ask_once(self, method: str, path: str, *, most_bytes: int | None = None, **sent: Any) -> bytes:
        from aiohttp import ClientTimeout

        response = await self._send(method, path, timeout=ClientTimeout(total=ANSWER_SECONDS), **sent)
        with self._reaching():
            chunks, size = list[bytes](), 0
            async for chunk in response.content.iter_any():
                chunks.append(chunk)
                size += len(chunk)
                if most_bytes is not None and size > most_bytes:
                    response.close()
                    raise LongAnswer(f"an answer of more than {most_bytes:,} bytes", where=f"{method} {path}")
            answer = b"".join(chunks)
        if 200 <= response.status < 300:
            return answer
        seconds = response.headers.get("Retry-After", "")
        retry_after = float(seconds) if seconds.isdecimal() else 0.0
        raise refusal(response.status, answer, where=f"{method} {path}", retry_after=retry_after)

    async def _send(
        self,
        method: str,
        path: str,
        *,
        timeout: ClientTimeout,
        query: dict[str, str] | None = None,
        body: list[Document] | Document | None = None,
        content_type: str = "application/json",
    ) -> ClientResponse:
        """Send a request; the answer's head has arrived and its body has not."""
        headers = {**self._headers, "Content-Type": content_type}
        if token := await self._configuration.get_api_key_with_prefix("BearerToken", "authorization"):
            headers["Authorization"] = token
        url = self._address.with_path(self._address.raw_path.rstrip("/") + path, encoded=True)
        with self._reaching():
            return await self._session.request(
                method,
                url if query is None else url.with_query(query),
                data=None if body is None else msgspec.json.encode(body),
                headers=headers,
                timeout=timeout,
                server_hostname=self._configuration.tls_server_name,
            )

    @contextmanager
    def _reaching(self) -> Iterator[None]:
        """Turn the errors of the connection into those of the house."""
        from aiohttp import ClientError

        try:
            yield
        except (ClientError, TimeoutError, OSError) as error:
            cause = getattr(error, "certificate_error", error)
            if isinstance(cause, ssl.SSLError):
                fix = "check certificate-authority and client-certificate of the kubeconfig"
                message = f"the API server and we do not trust one another: {cause}"
                raise Unreachable(message, where=self.server, fix=fix) from error
            why = str(error) or type(error).__name__
            if isinstance(error, TimeoutError):
                why = f"no answer within {ANSWER_SECONDS:g} s"
            fix = "check that it runs and that the address in the kubeconfig is right"
            raise Unreachable(f"the API server does not answer: {why}", where=self.server, fix=fix) from error
