"""The client against a server on loopback that answers as it is told."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from extender.cluster_api.client import (
    NODES,
    PODS,
    Busy,
    ClusterApi,
    Conflict,
    Gone,
    InvalidKubeconfig,
    LongAnswer,
    NotFound,
    Refused,
    Resource,
    Unreachable,
)
from extender.cluster_api.connect import find_cluster
from extender.cluster_api.flow import FlowControl
from ground.errors import ArnoldError
from tests.facts import saying

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Server:
    """An API server of one handler; remembers what it was asked."""

    def __init__(self, handler: Handler) -> None:
        self.asked: list[tuple[str, str, dict[str, str], bytes]] = []
        self._handler = handler
        self.url = ""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Any request."""
        self.asked.append((request.method, request.path_qs, dict(request.headers), await request.read()))
        return await self._handler(request)


@asynccontextmanager
async def serving(handler: Handler) -> AsyncIterator[tuple[Server, ClusterApi]]:
    """A server and a client of it, while the block runs."""
    from kubernetes.aio.client import Configuration

    server = Server(handler)
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", server.handle)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    server.url = f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}"  # type: ignore[union-attr]
    configuration = Configuration(host=server.url)
    configuration.api_key["BearerToken"] = "Bearer secret"
    try:
        async with ClusterApi(configuration, flow=FlowControl(rate=1000, burst=10, parallel=4)) as api:
            yield server, api
    finally:
        await runner.cleanup()


def always(status: int, body: Any = None, **headers: str) -> Handler:
    """The same answer to everything."""

    async def handler(_: web.Request) -> web.StreamResponse:
        return web.Response(status=status, body=json.dumps(body or {}).encode(), headers=headers)

    return handler


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    """Run a scenario."""
    asyncio.run(asyncio.wait_for(scenario(), 20))


def test_what_is_sent() -> None:
    """Verbs, paths, bodies, kinds of patches and the token are those of the Kubernetes API."""

    async def scenario() -> None:
        async with serving(always(200)) as (server, api):
            await api.get(NODES, "n1")
            await api.page(PODS, limit=7, token="next")
            await api.create(PODS, {"metadata": {}}, namespace="ns")
            await api.replace(PODS, "p", {"status": {}}, namespace="ns", subresource="status")
            await api.patch(PODS, "p", [{"op": "test", "path": "/x", "value": 1}], kind="json-patch", namespace="ns")
            await api.patch(NODES, "n1", {"metadata": {}}, kind="merge-patch")
            await api.delete(PODS, "p", namespace="ns", uid="u")
            lane = api.lane(rate=10, parallel=1)
            await lane.create(PODS, {}, namespace="ns")
        assert [(method, path) for method, path, _, _ in server.asked] == [
            ("GET", "/api/v1/nodes/n1"),
            ("GET", "/api/v1/pods?limit=7&continue=next"),
            ("POST", "/api/v1/namespaces/ns/pods"),
            ("PUT", "/api/v1/namespaces/ns/pods/p/status"),
            ("PATCH", "/api/v1/namespaces/ns/pods/p"),
            ("PATCH", "/api/v1/nodes/n1"),
            ("DELETE", "/api/v1/namespaces/ns/pods/p"),
            ("POST", "/api/v1/namespaces/ns/pods"),
        ]
        kinds = [headers["Content-Type"] for _, _, headers, _ in server.asked[4:6]]
        assert kinds == ["application/json-patch+json", "application/merge-patch+json"]
        assert json.loads(server.asked[6][3])["preconditions"] == {"uid": "u"}
        assert {headers["Authorization"] for _, _, headers, _ in server.asked} == {"Bearer secret"}

    run(scenario)


def test_versions_are_those_that_the_server_has() -> None:
    """The first version of a group that has the kind is asked, whatever it is called; none = there is no such kind."""
    kinds = {"v1": ["priorityclasses"], "v1beta3": ["podgroups", "podgroups/status"], "v1alpha9": ["podgroups"]}

    async def handler(request: web.Request) -> web.StreamResponse:
        if request.path == "/apis/scheduling.k8s.io":
            return web.json_response({"kind": "APIGroup", "versions": [{"version": version} for version in kinds]})
        *_, group, version = request.path.split("/")
        if group != "scheduling.k8s.io":
            return web.json_response({"kind": "Status", "message": "not found"}, status=404)
        return web.json_response({"resources": [{"name": name} for name in kinds[version]]})

    async def scenario() -> None:
        async with serving(handler) as (server, api):
            found = await api.served(Resource("scheduling.k8s.io", "", "podgroups", "PodGroup"))
            assert found.path() == "/apis/scheduling.k8s.io/v1beta3/podgroups"
            assert len(server.asked) == 3
            assert await api.served(PODS) is PODS
            assert len(server.asked) == 3
            for missing in (("scheduling.k8s.io", "workloads", "Workload"), ("ray.io", "rayclusters", "RayCluster")):
                group, plural, kind = missing
                with pytest.raises(NotFound):
                    await api.served(Resource(group, "", plural, kind))
        async with serving(always(200, {"versions": 7})) as (_, api):
            with pytest.raises(Refused, match="502"):
                await api.served(Resource("ray.io", "", "rayclusters", "RayCluster"))

    run(scenario)


def test_a_busy_server_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """429 says that the request was not looked at: asked again, and given up after a while; 503 is for the caller."""
    monkeypatch.setattr("extender.cluster_api.client.uniform", lambda *_: 0.1)  # a tenth of the pauses

    async def scenario() -> None:
        async with serving(always(429)) as (server, api):
            with pytest.raises(Busy):
                await api.get(NODES, "n")
            assert len(server.asked) == 4
        async with serving(always(503)) as (server, api):
            with pytest.raises(Busy):
                await api.create(PODS, {}, namespace="ns")
            assert len(server.asked) == 1

    run(scenario)


@pytest.mark.parametrize(("asked", "pauses"), [("3600", [10, 10, 10]), ("1", [1, 1, 1]), ("\u00b2", [0.2, 0.4, 0.8])])
def test_how_long_a_busy_server_is_waited_for(
    asked: str, pauses: Sequence[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As long as it says, in seconds, and at most ten: a proxy may say an hour, for which nothing would be written."""
    waited = list[float]()

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    monkeypatch.setattr("extender.cluster_api.client.uniform", lambda *_: 1.0)

    async def scenario() -> None:
        async with serving(always(429, **{"Retry-After": asked})) as (_, api):
            monkeypatch.setattr("extender.cluster_api.client.asyncio.sleep", sleep)
            with pytest.raises(Busy):
                await api.get(NODES, "n")
            monkeypatch.undo()
        assert waited == pauses

    run(scenario)


def test_an_answer_that_is_too_large_is_not_read() -> None:
    """A page may have so many bytes as were asked for; one with more is given up."""

    async def scenario() -> None:
        async with serving(always(200, {"items": ["x" * 100_000]})) as (_, api):
            assert len(await api.page(PODS, most_bytes=200_000)) > 100_000
            with pytest.raises(LongAnswer, match="more than 50,000 bytes"):
                await api.page(PODS, most_bytes=50_000)

    run(scenario)


def test_refusals_say_why() -> None:
    """The server's reason and a remedy reach the user."""

    async def scenario() -> None:
        forbidden = {"kind": "Status", "message": "pods is forbidden", "reason": "Forbidden"}
        async with serving(always(403, forbidden)) as (_, api):
            with pytest.raises(Refused, match="pods is forbidden") as error:
                await api.page(PODS)
            assert (error.value.status, error.value.reason) == (403, "Forbidden")
            assert "To fix: " in str(error.value)
        async with serving(always(409)) as (_, api):
            with pytest.raises(Conflict):
                await api.create(PODS, {}, namespace="ns")

    run(scenario)


def test_a_watch_in_pieces() -> None:
    """Lines are whole however the network cuts them; several that come together are handed over together."""

    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for piece in (b'{"a": 1}\n{"b"', b": 2}\n", b"\n" + b'{"c": "' + b"x" * 3_000_000, b'"}\n{"unfinished'):
            await response.write(piece)
            await asyncio.sleep(0.02)
        return response

    async def scenario() -> None:
        async with serving(handler) as (server, api):
            lines = [line async for some in api.watch(PODS, version="7") for line in some]
        assert [len(line) for line in lines] == [8, 8, 3_000_009]
        assert "resourceVersion=7" in server.asked[0][1]
        assert "allowWatchBookmarks=true" in server.asked[0][1]

    run(scenario)


def test_a_silent_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    """A watch without a word may be dead: it ends, without an error, and is started again by whoever reads it."""
    monkeypatch.setattr("extender.cluster_api.client.SILENCE_SECONDS", 0.05)

    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b'{"a": 1}\n')
        await asyncio.sleep(0.3)
        return response

    async def scenario() -> None:
        async with serving(handler) as (_, api):
            lines = [line async for some in api.watch(PODS, version="7") for line in some]
        assert lines == [b'{"a": 1}']

    run(scenario)


def test_a_watch_says_when_it_is_open() -> None:
    """Before the first change, however long that takes: the server has said yes."""
    heard = asyncio.Event()

    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await heard.wait()
        await response.write(b'{"a": 1}\n')
        return response

    async def scenario() -> None:
        came = []
        async with serving(handler) as (_, api):
            async for lines in api.watch(PODS, version="7"):
                came.append(list(lines))
                heard.set()
        assert came == [[], [b'{"a": 1}']]

    run(scenario)


def test_a_watch_that_is_refused() -> None:
    """410 before the first line: history is gone."""

    async def scenario() -> None:
        async with serving(always(410)) as (_, api):
            with pytest.raises(Gone):
                async for _ in api.watch(PODS, version="1"):
                    pass

    run(scenario)


def test_a_server_that_is_away() -> None:
    """Nobody listens, or hangs up in the middle: one clear error that names the server."""

    async def handler(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.close()
        return web.Response()

    async def scenario() -> None:
        async with serving(handler) as (server, api):
            with pytest.raises(Unreachable) as error:
                await api.create(PODS, {}, namespace="ns")
            assert server.url in str(error.value)
        from kubernetes.aio.client import Configuration

        nobody = Configuration(host="http://127.0.0.1:9")
        async with ClusterApi(nobody, flow=FlowControl(rate=1, burst=1, parallel=1)) as api:
            with pytest.raises(Unreachable, match=saying("To fix:", "http://127.0.0.1:9")):
                await api.get(NODES, "n")

    run(scenario)


def test_a_certificate_that_is_not_trusted(tmp_path: Path) -> None:
    """A server of another CA: said as what it is."""
    import ssl

    import trustme
    from kubernetes.aio.client import Configuration

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    trusted = tmp_path / "ca.crt"
    trustme.CA().cert_pem.write_to_path(str(trusted))

    async def scenario() -> None:
        server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0, ssl=context)
        configuration = Configuration(host=f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        configuration.ssl_ca_cert = str(trusted)
        async with ClusterApi(configuration, flow=FlowControl(rate=1, burst=1, parallel=1)) as api:
            with pytest.raises(Unreachable, match=saying("trust")):
                await api.get(NODES, "n")
        server.close()

    run(scenario)


def kubeconfig(folder: Path, **user: Any) -> Path:
    """A kubeconfig of one cluster and one user."""
    file = folder / "config"
    file.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:6443"}}],
                "users": [{"name": "u", "user": user}],
                "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                "current-context": "x",
            }
        ),
        encoding="utf-8",
    )
    return file


def found(file: Path | None, context: str | None = None) -> Any:
    """The credentials that are found."""
    return asyncio.run(find_cluster(None if file is None else str(file), context=context))


def test_a_kubeconfig_with_a_token(tmp_path: Path) -> None:
    """Server and token are those of the current context; nothing needs to be renewed."""
    credentials = found(kubeconfig(tmp_path, token="secret"))
    assert credentials.configuration.host == "https://127.0.0.1:6443"
    assert credentials.configuration.api_key["BearerToken"] == "Bearer secret"
    assert credentials.renew_token is None


def test_a_kubeconfig_with_a_plugin(tmp_path: Path) -> None:
    """A program gives the token, and is asked again when it runs out."""
    answer = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": "t"}}
    user = {"exec": {"apiVersion": answer["apiVersion"], "command": "echo", "args": [json.dumps(answer)]}}
    credentials = found(kubeconfig(tmp_path, **user))
    assert credentials.configuration.api_key["BearerToken"] == "Bearer t"
    assert credentials.renew_token is not None


@pytest.mark.parametrize(
    ("user", "said"),
    [
        ({"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "false"}}, "exec"),
        ({"client-certificate": "missing.crt", "client-key": "missing.key"}, "missing.crt"),
        ({"client-certificate-data": "x", "client-key-data": "y"}, "cannot be used"),
        (
            {
                "client-certificate-data": base64.b64encode(b"no PEM").decode(),
                "client-key-data": base64.b64encode(b"nor this").decode(),
            },
            "not PEM",
        ),
    ],
)
def test_users_that_cannot_be_used(tmp_path: Path, user: dict[str, Any], said: str) -> None:
    """What a user lacks is told before the first request."""
    with pytest.raises(InvalidKubeconfig, match=said):
        found(kubeconfig(tmp_path, **user))


def test_contexts_that_are_not_there(tmp_path: Path) -> None:
    """A context of another file."""
    with pytest.raises(InvalidKubeconfig, match="nowhere"):
        found(kubeconfig(tmp_path, token="t"), context="nowhere")


def test_nothing_to_go_by(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No file, no variable, no pod: says what to give."""
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(InvalidKubeconfig, match="there is no file") as error:
        found(None)
    assert "--kubeconfig" in error.value.fix


def test_a_pod_without_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a pod whose service account is not mounted."""
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    with pytest.raises(ArnoldError, match="automountServiceAccountToken"):
        found(None)


def test_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests go by way of the proxy that the kubeconfig names, or else the environment; the path has a prefix."""
    from kubernetes.aio.client import Configuration

    async def scenario() -> None:
        async with serving(always(200)) as (proxy, _):

            async def ask(configuration: Configuration) -> None:
                async with ClusterApi(configuration, flow=FlowControl(rate=1, burst=1, parallel=1)) as api:
                    await api.get(NODES, "n")

            await ask(Configuration(host="http://cluster.invalid/k8s", proxy=proxy.url))
            monkeypatch.setenv("HTTP_PROXY", proxy.url)
            await ask(Configuration(host="http://cluster.invalid/k8s/"))
        assert [path for _, path, _, _ in proxy.asked] == ["/k8s/api/v1/nodes/n"] * 2

    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    run(scenario)
