"""The process of ``arnold extender serve``: cache, election, controller and HTTP server in one event loop.

One process: the cache is in its memory.  It starts without an API server and waits for it; it ends on SIGTERM, in this
order: no new requests, requests under way are answered, patches under way are finished, the Lease is released.

Beside them it follows the kinds of objects that fill the cache, knows whether that can be trusted, and tells operators
and users once what they should know of the cluster.  Logs are one JSON object a line, with the gang and the pod that it
is about (``extra={"gang": "train/llm", "pod": "llm-0"}``: every extra becomes a key); text on a terminal.
"""

import asyncio
import gc
import logging
import signal
import sys
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from time import monotonic
from typing import Any

import msgspec

from extender.cluster_api.client import NAMESPACES, PODS, ClusterApi, ClusterError
from extender.cluster_api.connect import find_cluster
from extender.cluster_api.election import Election
from extender.cluster_api.events import EventRecorder, Regarding
from extender.cluster_api.flow import FlowControl
from extender.cluster_api.reflector import Reflector
from extender.cluster_cache import ClusterCache
from extender.controller.loop import GangController
from extender.controller.pacing import Timeouts
from extender.controller.reservations import ReservationController
from extender.controller.store import Dependencies, Stores, Writer
from extender.extender_metrics import Metrics
from extender.kubernetes_names import FAIR_SHARE_WEIGHT, GANG, GANG_SIZE, GATE, PARALLELISM, SCHEDULER
from extender.plans.definitions import OPENAPI, read_definitions
from extender.queue_views import wanted_nodes
from extender.service.followed_cluster import make_reflectors
from extender.service.settings import (
    LogFormat,
    ServeOptions,
    parse_address,
    parse_gpu_classes,
    parse_levels,
    parse_power_caps,
)
from extender.service.web import (
    MOST_CONNECTIONS,
    BodyReader,
    HttpApplication,
    RotatingContext,
    Strangers,
    listen,
    serve_until_signal,
    tls_files,
    web_server,
)
from extender.service.webhook import MOST_BYTES
from extender.texts import clip
from ground.errors import InvalidInput
from ground.quantities import plural
from scheduler.placement.cpsat import load_solver
from scheduler.placement.types import Limits
from scheduler.queue.policy import live_policy
from topology.kubernetes.labels import parse_domains
from topology.kubernetes.pods import Pod

logger = logging.getLogger(__name__)

SWITCH_SECONDS = 0.001  # the solver's thread lets the event loop in; Python's 5 ms would delay every answer
YOUNG_OBJECTS = 20_000  # before a round of the collector; a thousand writes under way are more than Python's 700
STALE_SECONDS = 60.0  # a kind whose list and watch have failed for so long is out of date
LOOK_SECONDS = 5.0  # how often the cluster is looked at for news
DEFINITIONS_SECONDS = 10.0  # how often the definitions of our kinds are read: some 30 kB
# Bytes of a message, and of each key beside it, in one line of the log; traces of faults of ours are written whole.
LONGEST_MESSAGE, LONGEST_EXTRA = 4096, 512


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
        settings, state = self.settings, self.state
        credentials = await find_cluster(settings.kubeconfig)
        listener = listen(self.bind)
        flow = FlowControl(rate=settings.rate, burst=round(settings.rate), parallel=settings.parallel)
        async with ClusterApi(credentials.configuration, flow=flow) as api:
            logger.info("cluster %s, as %s says", api.server, credentials.source)
            stores, changed = Stores(state), asyncio.Event()
            events = EventRecorder(api.lane(rate=50, parallel=2), instance=settings.identity)
            election = Election(
                api.lane(rate=50, parallel=2),
                name=settings.lease_name,
                namespace=settings.lease_namespace,
                identity=settings.identity,
                changed=changed.set,
            )
            reflectors = make_reflectors(
                api, stores, changed=changed.set, sharing=self.policy.sharing, evicts=settings.preemption == "on"
            )
            readiness = Readiness(reflectors, clock=monotonic)
            metrics = Metrics(
                plans=state.plans.values,
                leads=election.leads,
                reservations=state.reservations.values,
                passed_over=lambda: sum(map(len, passed_over(state).values())),
                free_nodes=lambda: state.fleet.whole_free_nodes(datetime.now(UTC)) if readiness.synced() else 0,
                ready=lambda: not readiness.reasons(),
                wanted_nodes=partial(wanted_nodes, state),
            )
            for_plans = api.lane(rate=200, parallel=8)
            writer = Writer(
                state=state, stores=stores, for_pods=api, for_plans=for_plans, leads=election.leads, metrics=metrics,
                evicts=settings.preemption == "on",
            )  # fmt: skip
            bind, lost = timedelta(seconds=settings.bind_timeout), timedelta(seconds=settings.lost_after)
            shared = Dependencies(
                state=state,
                writer=writer,
                events=events,
                metrics=metrics,
                policy=self.policy,
                limits=Limits(seconds=settings.time_limit, workers=settings.workers, told="placement"),
                terms=Timeouts(bind=bind, lost=lost),
                preemption=settings.preemption,
                preemptions_per_hour=settings.preemptions_per_hour,
                leads=election.leads,
                synced=readiness.synced,
            )
            controller = GangController(shared, changed)
            application = HttpApplication(
                state=state,
                metrics=metrics,
                now=election.leader_time,
                unready=readiness.reasons,
                lacks=lambda: state.definitions.sentences,
                policy=self.policy,
                bodies=BodyReader(settings.body_limit),
                mutual_tls=self.tls is not None,
                pods=BodyReader(MOST_BYTES, cure="make the pod smaller") if settings.webhook else None,
            )
            await look_at_definitions(state, api)
            tasks = BackgroundTasks()
            # what every replica does, whether it leads or not
            for reflector in reflectors:
                tasks.start(str(reflector.resource), reflector.run())
            tasks.start("events", events.run())
            tasks.start("topology", log_topology(state, ready=shared.synced))
            tasks.start("faults", report_faults(state, events, leads=shared.leads))
            tasks.start("warm-up", warm_up(shared.synced))
            if self.tls is not None:
                tasks.start("certificates", self.tls.watch())
            if credentials.renew_token is not None:
                tasks.start("credentials", credentials.renew_token())
            tasks.start("definitions", follow_definitions(state, api, changed=changed.set))
            # what the leader does
            tasks.start("election", election.run())
            tasks.start("controller", controller.run())
            tasks.start("reservations", ReservationController(shared).run())
            try:
                host, port = listener.getsockname()[:2]
                scheme = "https" if self.tls is not None else "http"
                logger.info("listening on %s://%s:%d", scheme, f"[{host}]" if ":" in host else host, port)
                server = web_server(
                    application.app(),
                    tls=self.tls,
                    arrive=settings.arrive_seconds,
                    drain=settings.drain_timeout,
                    without_certificate=Strangers(MOST_CONNECTIONS, stay=True) if settings.webhook else None,
                )
                await serve_until_signal(server, listener)
                logger.info("no more requests; finishing what is under way")
            finally:
                tasks.stop("controller", "reservations")
                with suppress(TimeoutError):
                    async with asyncio.timeout(settings.drain_timeout):
                        await controller.drain()
                tasks.stop("election")
                await election.release()
                tasks.stop()
            tasks.check()


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


async def warm_up(synced: Callable[[], bool]) -> None:
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


class Readiness:
    """What probes ask, and every answer before it is given."""

    def __init__(self, reflectors: Sequence[Reflector[Any]], *, clock: Callable[[], float]) -> None:
        self._reflectors = tuple(reflectors)
        self._clock = clock
        self._failing_since: dict[Reflector[Any], float] = {}

    def synced(self) -> bool:
        """Return whether every kind has been listed once."""
        return all(reflector.synced for reflector in self._reflectors)

    def reasons(self) -> list[str]:
        """Return why the cache cannot be trusted, one sentence each; empty = it can."""
        reasons = []
        now = self._clock()
        for reflector in self._reflectors:
            name = reflector.resource.plural
            if (problem := reflector.problem) is None:
                self._failing_since.pop(reflector, None)
            since = now if problem is None else self._failing_since.setdefault(reflector, now)
            why = "" if problem is None else f": {problem.message}"
            if not reflector.synced:
                reasons.append(f"{name} are not listed yet{why}")
            elif now - since >= STALE_SECONDS:
                reasons.append(f"{name} may be out of date{why}")
        return reasons


async def log_topology(state: ClusterCache, *, ready: Callable[[], bool]) -> None:
    """Log what is worth knowing of nodes and namespaces once they are listed, each time that it changes, for ever."""
    fleet = state.fleet
    before: dict[str, str] = {}
    while True:
        if ready():
            news = {"levels": fleet.table.sentence}
            for problem in (*fleet.problems, *state.claimed.problems):
                where = f"node {problem.node}: " if problem.node else ""
                news[f"{problem.reason} {problem.node}"] = f"{where}{problem.message}\nTo fix: {problem.fix}"
            for namespace, error in state.weights.unreadable:
                name = namespace.metadata.name
                news[f"BadWeight {name}"] = f"namespace {name}: {_no_weight(error)}"
            for about, sentence in news.items():
                if before.get(about) != sentence:
                    logger.log(logging.INFO if about == "levels" else logging.WARNING, "%s", sentence)
            for about in before.keys() - news.keys():
                logger.info("mended: %s", before[about])
            before = news
        await asyncio.sleep(LOOK_SECONDS)


async def report_faults(state: ClusterCache, events: EventRecorder, *, leads: Callable[[], bool]) -> None:
    """Post an event about each orphan, a pod of each gang that is passed over, and each namespace with a weight that is
    none, for ever, from the leader; the recorder does not repeat itself.
    """
    while True:
        for pod, why in orphans(state) if leads() else ():
            regarding = Regarding(PODS, pod.namespace, pod.name, pod.uid)
            events.say(regarding, reason="NoGang", note=f"waits behind the gate {GATE} for ever: {why}", kind="Warning")
        for gang, pods in passed_over(state).items() if leads() else ():
            pod = min(pods, key=lambda pod: pod.name)
            scheduler = clip(pod.spec.scheduler_name or "none")
            note = (
                f"gang {clip(gang)} is not planned: {plural(len(pods), 'pod')} of it have no gate {GATE}, and "
                f"{scheduler} places each alone. To fix: write schedulerName: {SCHEDULER} and that scheduling gate "
                "into the pod template, or install the admission policies of Arnold's manifests (before Kubernetes "
                f"1.36: the component before-1.36), or take the label {GANG} off"
            )
            regarding = Regarding(PODS, pod.namespace, pod.name, pod.uid)
            events.say(regarding, reason="PassedOver", note=note, kind="Warning")
        for namespace, error in state.weights.unreadable if leads() else ():
            regarding = Regarding(NAMESPACES, "", namespace.metadata.name, namespace.metadata.uid)
            events.say(regarding, reason="BadWeight", note=_no_weight(error), kind="Warning")
        await asyncio.sleep(LOOK_SECONDS)


def passed_over(state: ClusterCache) -> dict[str, list[Pod]]:
    """Return the pods with GPUs that say they are of a gang, and which another scheduler places one by one, by gang.

    Where no admission policy adds gate and scheduler, as on an API server that knows none, a label alone does nothing.
    """
    gangs = defaultdict[str, list[Pod]](list)
    for pod in state.pods.values():
        says = GANG in pod.labels or GANG_SIZE in pod.annotations or PARALLELISM in pod.annotations
        if not says or pod.spec.scheduler_name == SCHEDULER or pod.gated_by(GATE) or pod.terminal or pod.leaving:
            continue
        if pod.readable_gpus:
            maker = pod.name if pod.owner is None else pod.owner.name
            gangs[f"{pod.namespace}/{pod.labels.get(GANG) or maker}"].append(pod)
    return gangs


def orphans(state: ClusterCache) -> Iterator[tuple[Pod, str]]:
    """Yield the pods behind our gate that no plan will ever release, as they belong to no gang: with the reason."""
    for uid, pod in state.pods.items():
        if pod.gated_by(GATE) and not pod.leaving and state.member(uid) is None:
            why = f"it belongs to no gang that needs GPUs. To fix: name one in the label {GANG}"
            if (scheduler := clip(pod.spec.scheduler_name or "none")) != SCHEDULER:
                why = f"its scheduler is {scheduler}. To fix: set schedulerName: {SCHEDULER}"
            yield pod, f"{why}, or take the gate off"


def _no_weight(error: InvalidInput) -> str:
    return f"{FAIR_SHARE_WEIGHT}: {error.message}, so it counts as 1\nTo fix: {error.fix}"


async def look_at_definitions(state: ClusterCache, api: ClusterApi) -> None:
    """Read which of our fields the cluster keeps; where that cannot be read, what was known of it stands."""
    try:
        definitions = read_definitions(await api.read(OPENAPI))
    except (ClusterError, InvalidInput) as error:
        # without our kinds there is no such document: that they cannot be listed is said louder
        logger.debug("the definitions of our kinds cannot be read: %s", error)
        return
    if definitions != state.definitions:
        for sentence in definitions.sentences or ["the definitions in the cluster have all fields"]:
            logger.log(logging.WARNING if definitions.lacking else logging.INFO, "%s", sentence)
    state.definitions = definitions


async def follow_definitions(state: ClusterCache, api: ClusterApi, *, changed: Callable[[], None]) -> None:
    """Read now and then which of our fields the cluster keeps, for ever, as definitions are replaced under us."""
    while True:
        await asyncio.sleep(DEFINITIONS_SECONDS)
        before = state.definitions
        await look_at_definitions(state, api)
        if state.definitions != before:
            state.changed()
            changed()


def set_up_logs(*, level: str, form: LogFormat) -> None:
    """Send all logs of this process to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    text = TextLines("%(asctime)s %(levelname)-7s %(name)s: %(message)s")
    handler.setFormatter(JsonLines() if form == "json" else text)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for noisy in ("uvicorn.error", "aiohttp", "asyncio"):
        logging.getLogger(noisy).setLevel(max(logging.WARNING, root.level))


class JsonLines(logging.Formatter):
    """A record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        fields: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": clip(record.getMessage(), LONGEST_MESSAGE),
        }
        fields |= _extras(record)
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return msgspec.json.encode(fields, enc_hook=str).decode()


class TextLines(logging.Formatter):
    """A record for people, its extras behind it."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line = super().format(record)
        extras = [f"{key}={value}" for key, value in _extras(record).items()]
        return f"{line}  [{' '.join(extras)}]" if extras else line

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        """Return the line without its trace."""
        record.message = clip(record.message, LONGEST_MESSAGE)
        return super().formatMessage(record)


def _extras(record: logging.LogRecord) -> dict[str, object]:
    """Return what was said beside the message."""
    extras = ((key, value) for key, value in vars(record).items() if key not in _OWN)
    return {key: clip(value, LONGEST_EXTRA) if isinstance(value, str) else value for key, value in extras}


_OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}
