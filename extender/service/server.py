"""The process of ``arnold extender serve``: cache, election, controller and HTTP server in one event loop.

One process: the cache is in its memory.  It starts without an API server and waits for it; it ends on SIGTERM, in this
order: no new requests, requests under way are answered, patches under way are finished, the Lease is released.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from time import monotonic
from typing import Any

import uvicorn
from starlette.applications import Starlette

from extender.cluster_api.client import ClusterApi
from extender.cluster_api.credentials import Credentials, find_cluster
from extender.cluster_api.election import Election
from extender.cluster_api.events import EventRecorder
from extender.cluster_api.flow import FlowControl
from extender.cluster_api.reflector import Reflector
from extender.cluster_cache import ClusterCache
from extender.controller.api_writer import Writer
from extender.controller.dependencies import Dependencies
from extender.controller.gang_controller import GangController
from extender.controller.object_store import Stores
from extender.controller.pacing import Timeouts
from extender.controller.reservation_controller import ReservationController
from extender.extender_metrics import Metrics
from extender.service.announcements import (
    follow_definitions,
    log_topology,
    look_at_definitions,
    passed_over,
    report_faults,
)
from extender.service.app import BodyReader, HttpApplication
from extender.service.connection import MOST_STRANGERS, Connection, RotatingContext, Strangers, tls_files
from extender.service.logs import set_up_logs
from extender.service.reflectors import Readiness, make_reflectors
from extender.service.settings import (
    Address,
    ServeOptions,
    live_policy,
    parse_address,
    parse_gpu_classes,
    parse_levels,
    parse_power_caps,
)
from ground.errors import InvalidInput
from scheduler.placement.cpsat import load_solver
from scheduler.placement.types import Limits
from topology.kubernetes.labels import parse_domains

logger = logging.getLogger(__name__)

KEEP_ALIVE_SECONDS = 120  # longer than Go clients keep an idle connection (90 s): they never meet a closed one
MOST_CONNECTIONS = 1_000  # connections and requests at once of clients that may ask; kube-scheduler needs a handful
YOUNG_OBJECTS = 20_000  # before a round of the collector; a thousand writes under way are more than Python's 700
SWITCH_SECONDS = 0.001  # the solver's thread lets the event loop in; Python's 5 ms would delay every answer


def serve(settings: ServeOptions) -> None:
    """Run until SIGTERM or Ctrl-C, or raise ``ArnoldError``: kubeconfig, certificates or address are unusable."""
    process = _Process(settings)
    set_up_logs(level=settings.log_level, form=settings.log_format)
    sys.setswitchinterval(SWITCH_SECONDS)
    # On Python's own event loop: where the API server resets connections, uvloop 0.23 closes descriptors that belong to
    # other connections by then, and aborts.
    asyncio.run(process.run())


class _Process:
    def __init__(self, settings: ServeOptions) -> None:
        self.settings = settings
        self.bind = parse_address(settings.bind)
        domains = parse_domains(settings.domains) if settings.domains else {}
        classes = parse_gpu_classes(settings.gpu_classes)
        caps, levels = parse_power_caps(settings.power_caps, domains), parse_levels(settings.levels)
        self.state = ClusterCache(levels, domains=domains, gpu_classes=classes, power_caps=caps)
        files = tls_files(self.bind, certificate=settings.tls_cert, key=settings.tls_key, client_ca=settings.client_ca)
        self.tls = None if files is None else RotatingContext(files)
        self.policy = live_policy(settings.queue)

    async def run(self) -> None:
        credentials = await find_cluster(self.settings.kubeconfig)
        listener = listen(self.bind)
        flow = FlowControl(rate=self.settings.rate, burst=round(self.settings.rate), parallel=self.settings.parallel)
        async with ClusterApi(credentials.configuration, flow=flow) as api:
            logger.info("cluster %s, as %s says", api.server, credentials.source)
            await self._run(api, credentials, listener)

    async def _run(self, api: ClusterApi, credentials: Credentials, listener: socket.socket) -> None:
        settings, state = self.settings, self.state
        stores, changed = Stores(state), asyncio.Event()
        events = EventRecorder(api.lane(rate=50, parallel=2), instance=settings.identity)
        election = self._election(api, changed)
        reflectors = make_reflectors(api, stores, changed=changed.set, sharing=self.policy.sharing)
        readiness = Readiness(reflectors, clock=monotonic)
        metrics = Metrics(
            plans=state.plans.values,
            leads=election.leads,
            reservations=state.reservations.values,
            passed_over=lambda: sum(map(len, passed_over(state).values())),
        )
        for_plans = api.lane(rate=200, parallel=8)
        writer = Writer(
            state=state, stores=stores, for_pods=api, for_plans=for_plans, leads=election.leads, metrics=metrics
        )
        shared = Dependencies(
            state=state,
            writer=writer,
            events=events,
            metrics=metrics,
            policy=self.policy,
            limits=Limits(seconds=settings.time_limit, workers=settings.workers, told="placement"),
            terms=Timeouts(bind=timedelta(seconds=settings.bind_timeout), lost=timedelta(seconds=settings.lost_after)),
            leads=election.leads,
            synced=readiness.synced,
        )
        controller = GangController(shared, changed)
        application = HttpApplication(
            state=state,
            metrics=metrics,
            now=shared.now,
            unready=readiness.reasons,
            lacks=lambda: state.definitions.sentences,
            policy=self.policy,
            bodies=BodyReader(settings.body_limit),
            mutual_tls=self.tls is not None,
        )
        await look_at_definitions(state, api)
        tasks = self._started(shared, reflectors, credentials)
        tasks.start("definitions", follow_definitions(state, api, changed=changed.set))
        tasks.start("election", election.run())
        tasks.start("controller", controller.run())
        tasks.start("reservations", ReservationController(shared).run())
        try:
            await self._serve(web_server(self.settings, self.tls, application.app()), listener)
        finally:
            tasks.stop("controller", "reservations")
            with suppress(TimeoutError):
                async with asyncio.timeout(settings.drain_timeout):
                    await controller.drain()
            tasks.stop("election")
            await election.release()
            tasks.stop()
        tasks.check()

    def _election(self, api: ClusterApi, changed: asyncio.Event) -> Election:
        settings = self.settings
        return Election(
            api.lane(rate=50, parallel=2),
            name=settings.lease_name,
            namespace=settings.lease_namespace,
            identity=settings.identity,
            changed=changed.set,
        )

    def _started(
        self, shared: Dependencies, reflectors: Sequence[Reflector[Any]], credentials: Credentials
    ) -> BackgroundTasks:
        """Start what every replica does, whether it leads or not."""
        tasks, state, events = BackgroundTasks(), self.state, shared.events
        for reflector in reflectors:
            tasks.start(str(reflector.resource), reflector.run())
        tasks.start("events", events.run())
        tasks.start("topology", log_topology(state, ready=shared.synced))
        tasks.start("faults", report_faults(state, events, leads=shared.leads))
        tasks.start("warm-up", _warm_up(shared.synced))
        if self.tls is not None:
            tasks.start("certificates", self.tls.watch())
        if credentials.keep is not None:
            tasks.start("credentials", credentials.keep())
        return tasks

    async def _serve(self, server: uvicorn.Server, listener: socket.socket) -> None:
        """Answer until a signal comes.

        Uvicorn raises the signal again at its end; the process must not die of it, as work is left to do.
        """
        host, port = listener.getsockname()[:2]
        scheme = "https" if self.tls is not None else "http"
        logger.info("listening on %s://%s:%d", scheme, f"[{host}]" if ":" in host else host, port)
        before = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            await server.serve(sockets=[listener])
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        logger.info("no more requests; finishing what is under way")


def listen(bind: Address) -> socket.socket:
    """Return the listening socket, or raise ``InvalidInput``: the address is taken, or not of this machine."""
    try:
        found = socket.getaddrinfo(bind.host, bind.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, address = found[0]
        listener = socket.create_server(address[:2], family=family, backlog=1024)
    except OSError as error:
        fix = "choose a free port of an address of this machine"
        raise InvalidInput(f"cannot listen on {bind}: {error.strerror or error}", where="--bind", fix=fix) from error
    # Inherited by connections. asyncio leaves it off, as Python says of no protocol that it were TCP: the second piece
    # of an answer would wait for the client's delayed acknowledgement, 40 ms.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


async def _warm_up(synced: Callable[[], bool]) -> None:
    """Load the solver, and take the objects of a cluster just listed out of the collector's rounds; never return.

    The first gang that needs the solver would wait for it, as would all that are asked meanwhile.
    A round over those of 5,000 nodes takes a tenth of a second, in which nobody is answered, and gangs cause several.
    They hold no cycles: all but cycles is freed as before.
    """
    await asyncio.to_thread(load_solver)
    while not synced():
        await asyncio.sleep(1.0)
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS)
    await asyncio.Event().wait()


def web_server(settings: ServeOptions, tls: RotatingContext | None, app: Starlette) -> uvicorn.Server:
    """Return the server of an application, with our limits; ``tls`` none = plain HTTP, on loopback addresses."""

    class Limited(Connection):
        arrive_seconds = settings.arrive_seconds
        strangers = Strangers()

    return uvicorn.Server(
        uvicorn.Config(
            app,
            http=Limited,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            date_header=False,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            # Uvicorn counts requests of both kinds of clients.
            limit_concurrency=MOST_CONNECTIONS + MOST_STRANGERS,
            timeout_graceful_shutdown=max(1, round(settings.drain_timeout)),
            ssl_context_factory=None if tls is None else lambda *_: tls.context,
        )
    )


class BackgroundTasks:
    """Tasks that run as long as the process does.

    One that ends is a fault, and the process must not go on half alive: it ends as on SIGTERM, to be started again, and
    :meth:`check` raises what happened.
    """

    def __init__(self) -> None:
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._fault: BaseException | None = None

    def start(self, name: str, work: Awaitable[None]) -> None:
        """Start a task."""
        self._tasks[name] = asyncio.create_task(self._run(name, work), name=name)

    def stop(self, *names: str) -> None:
        """Stop some tasks, or all."""
        for name in names or tuple(self._tasks):
            self._tasks[name].cancel()

    def check(self) -> None:
        """Raise the fault that ended the process, if it was one."""
        if self._fault is not None:
            raise self._fault

    async def _run(self, name: str, work: Awaitable[None]) -> None:
        try:
            await work
        except Exception as error:
            logger.exception("the task %s failed: ending, to be started again", name)
            self._fault = error
        else:
            self._fault = RuntimeError(f"the task {name} ended")
        signal.raise_signal(signal.SIGTERM)
