"""The process of ``arnold extender serve``: cache, election, controller and HTTP server in one event loop.

One process: the cache is in its memory.  It starts without an API server and waits for it; it ends on SIGTERM, in this
order: no new requests, requests under way are answered, patches under way are finished, the Lease is released.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from time import monotonic
from typing import Any

import uvicorn

from extender.cluster_api import (
    NODES,
    PODS,
    ClusterApi,
    Credentials,
    Election,
    EventRecorder,
    FlowControl,
    HttpApi,
    Reflector,
    find_cluster,
)
from extender.controller import (
    GANGPLANS,
    RESERVATIONS,
    Controller,
    NodeSink,
    OwnerSink,
    PlanSink,
    PodSink,
    ReservationSink,
    Reserver,
    Terms,
    Touched,
    Writer,
    decode_own_plan,
)
from extender.objects import decode_node, decode_owner, decode_pod
from extender.reservations import decode_reservation
from extender.service.app import Backend, create_app
from extender.service.background import Background
from extender.service.connection import MOST_STRANGERS, Connection, Strangers
from extender.service.intake import Intake
from extender.service.kinds import OWNERS
from extender.service.live import live_policy
from extender.service.logs import set_up_logs
from extender.service.metrics import Metrics
from extender.service.readiness import Readiness
from extender.service.settings import Settings
from extender.service.strays import tell_strays
from extender.service.tls import RotatingContext
from extender.service.topology import tell_topology
from extender.state import State
from scheduler.placement.types import Limits
from topology.errors import InvalidInput

logger = logging.getLogger(__name__)

KEEP_ALIVE_SECONDS = 120
"""An idle connection is kept for longer than Go clients keep theirs (90 s), so that they never meet a closed one."""

MOST_CONNECTIONS = 1_000
"""Connections and requests at once of clients that may ask; kube-scheduler needs a handful."""

SWITCH_SECONDS = 0.001
"""The solver's thread lets the event loop in after so long; Python's default of 5 ms would delay every answer."""


def serve(settings: Settings) -> None:
    """Run until SIGTERM or Ctrl-C.

    :raises ArnoldError: kubeconfig, certificates or address are unusable.
    """
    set_up_logs(level=settings.log_level, form=settings.log_format)
    sys.setswitchinterval(SWITCH_SECONDS)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(_Process(settings).run())


class _Process:
    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.tls = None if settings.tls is None else RotatingContext(settings.tls)
        self.policy = live_policy(settings.queue)
        self.state = State(settings.levels)

    async def run(self) -> None:
        credentials = await find_cluster(self.settings.kubeconfig)
        listener = _listen(self.settings)
        flow = FlowControl(rate=self.settings.rate, burst=round(self.settings.rate), parallel=self.settings.parallel)
        async with HttpApi(credentials.configuration, flow=flow) as api:
            logger.info("cluster %s, as %s says", api.server, credentials.source)
            await self._run(api, credentials, listener)

    async def _run(self, api: HttpApi, credentials: Credentials, listener: socket.socket) -> None:
        settings, state = self.settings, self.state
        touched = Touched(state)
        pods, plans, reservations = PodSink(state, touched), PlanSink(state, touched), ReservationSink(state)
        changed = asyncio.Event()
        events = EventRecorder(api.lane(rate=50, parallel=2), instance=settings.identity)
        election = Election(
            api.lane(rate=50, parallel=2),
            name=settings.lease_name,
            namespace=settings.lease_namespace,
            identity=settings.identity,
            changed=changed.set,
        )
        reflectors = self._reflectors(api, touched, pods, plans, reservations, changed=changed.set)
        readiness = Readiness(reflectors, clock=monotonic)
        metrics = Metrics(plans=state.plans.values, leads=lambda: election.held, reservations=state.reservations.values)
        writer = Writer(
            state,
            for_pods=api,
            for_plans=api.lane(rate=200, parallel=8),
            pods=pods,
            plans=plans,
            reservations=reservations,
            leads=lambda: election.held,
            telemetry=metrics,
        )
        solver, limits = asyncio.Lock(), Limits(seconds=settings.solve_seconds, workers=settings.workers)
        terms = Terms.of_seconds(bind=settings.bind_seconds, lost=settings.lost_seconds)
        controller = Controller(
            state,
            touched,
            changed,
            writer,
            events=events,
            telemetry=metrics,
            leads=lambda: election.held,
            ready=lambda: readiness.synced,
            terms=terms,
            limits=limits,
            policy=self.policy,
            solver=solver,
            now=lambda: datetime.now(UTC),
        )
        reserver = Reserver(
            state,
            writer,
            events,
            telemetry=metrics,
            policy=self.policy,
            limits=limits,
            solver=solver,
            lost_after=terms.lost,
            leads=lambda: election.held,
            ready=lambda: readiness.synced,
            now=lambda: datetime.now(UTC),
        )
        backend = Backend(state, metrics, now=lambda: datetime.now(UTC), unready=readiness.reasons, policy=self.policy)
        server = self._server(backend)
        background = Background()
        for reflector in reflectors:
            background.start(str(reflector.resource), reflector.run())
        background.start("events", events.run())
        background.start("topology", tell_topology(state.fleet, ready=lambda: readiness.synced))
        background.start("strays", tell_strays(state, events, leads=lambda: election.held))
        if self.tls is not None:
            background.start("certificates", self.tls.watch())
        if credentials.keep is not None:
            background.start("credentials", credentials.keep())
        background.start("election", election.run())
        background.start("controller", controller.run())
        background.start("reservations", reserver.run())
        try:
            await self._serve(server, listener)
        finally:
            background.stop("controller", "reservations")
            with suppress(TimeoutError):
                async with asyncio.timeout(settings.drain_seconds):
                    await controller.drain()
            background.stop("election")
            await election.release()
            background.stop()
        background.check()

    def _reflectors(
        self,
        api: ClusterApi,
        touched: Touched,
        pods: PodSink,
        plans: PlanSink,
        reservations: ReservationSink,
        *,
        changed: Callable[[], None],
    ) -> list[Reflector[Any]]:
        state = self.state
        return [
            Reflector(api, NODES, decode=decode_node, sink=NodeSink(state, touched), changed=changed),
            *(
                Reflector(
                    api, kind, decode=decode_owner, sink=OwnerSink(state, touched), changed=changed, optional=True
                )
                for kind in OWNERS
            ),
            Reflector(api, PODS, decode=decode_pod, sink=pods, changed=changed),
            Reflector(api, GANGPLANS, decode=decode_own_plan, sink=plans, changed=changed),
            Reflector(api, RESERVATIONS, decode=decode_reservation, sink=reservations, changed=changed, optional=True),
        ]

    def _server(self, backend: Backend) -> uvicorn.Server:
        settings = self.settings

        class Limited(Connection):
            arrive_seconds = settings.arrive_seconds
            strangers = Strangers()

        app = create_app(backend, Intake(settings.body_limit), mutual_tls=self.tls is not None)
        tls = self.tls
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
                timeout_graceful_shutdown=max(1, round(settings.drain_seconds)),
                ssl_context_factory=None if tls is None else lambda *_: tls.context,
            )
        )

    async def _serve(self, server: uvicorn.Server, listener: socket.socket) -> None:
        """Answer until a signal comes.

        Uvicorn raises the signal again when it has shut down; what is left to do then is ours, so nobody dies of it.
        """
        host, port = listener.getsockname()[:2]
        scheme = "https" if self.tls is not None else "http"
        logger.info("listening on %s://%s:%d", scheme, f"[{host}]" if ":" in host else host, port)
        before = {number: signal.signal(number, _nothing) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            await server.serve(sockets=[listener])
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        logger.info("no more requests; finishing what is under way")


def _listen(settings: Settings) -> socket.socket:
    """The listening socket.

    :raises InvalidInput: the address is taken, or not of this machine.
    """
    bind = settings.bind
    try:
        found = socket.getaddrinfo(bind.host, bind.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, address = found[0]
        return socket.create_server(address[:2], family=family, backlog=1024)
    except OSError as error:
        raise InvalidInput(
            f"cannot listen on {bind}: {error.strerror or error}",
            where="--bind",
            fix="choose a free port of an address of this machine",
        ) from error


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def _nothing(*_: object) -> None:
    """Of a signal that was seen already."""
