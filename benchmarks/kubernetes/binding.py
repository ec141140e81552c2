"""A gang on its nodes: from its last pod's creation to its last binding, against kube-scheduler and bare requests.

All of it on the same control plane, in turn, with all pods there before the clock starts:

- *kube-scheduler alone*: the program and configuration of the manifests without the extender, on the same pods without
  gates; it stands still (SIGSTOP) while they are made.  Once it looks at every node, as it must for the extender, and
  once at a sample, as it does by default.
- *bare requests*: what releases the gang, and what binds it, one write of each pod more each time, sent to the API
  server by 16 threads with the tokens of extender and scheduler, so that the same roles and admission policies are
  weighed; no scheduler runs.  The differences are what each write costs at least.
- *Arnold*: everything from recognising the gang to the last binding.

Likewise a native PodGroup by the plug-in of ``manifests/native``, on one control plane with a gang that has gates.

Beside the clock, which knows nothing of what else the machine does, stands the processor time of each program: of API
server and etcd from the last create on, of Arnold's own programs from the first, as they look at pods as these come.
"""

import os
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, islice, pairwise
from statistics import median
from time import perf_counter

import yaml

from benchmarks.kubernetes.processor_time import ProcessorTime
from benchmarks.kubernetes.stage import Bindings, clear, new_namespace, say, warm_arnold
from benchmarks.report import Promise, promises, section, table
from extender.controller.actions import release_mark, release_patch
from extender.gangs.types import GangKey
from extender.objects import decode_pod
from tests.e2e.harness.client import Object, path
from tests.e2e.harness.plane import ControlPlane
from tests.e2e.harness.pods import gang, native_group, pod
from tests.manifests.rendering import MANIFESTS, SYSTEM, read
from topology.cluster import Cluster
from topology.kubernetes.pods import Pod

STAGES = 8
AGAINST_SCHEDULER = 1.3
AGAINST_BARE = 0.8
OWN_TIME = 0.35
ALL_TIME = 0.8
EXTENDER_MS = 1.0  # a pod
FIRST_SECONDS = 0.3
SAMPLES = {"kube-scheduler alone, every node": 100, "kube-scheduler alone, its default sample": 0}
EVERY_NODE, SAMPLING = SAMPLES
NOMINATIONS, PATCHES = "nominations alone", "nominations and gates alone"
BARE = "nominations, gates and bindings alone"
WRITES = {NOMINATIONS: 1, PATCHES: 2, BARE: 3}  # of a pod
ARNOLD = "Arnold: plan, release, verify, bind"
GATED, NATIVE = "gates and nominations", "native PodGroup, by the plug-in"
NATIVE_RATE = 1.5  # Times the pods a second of gates and nominations
ALONE = "alone"  # Name of the scheduler that runs alone
PROGRAMS = ("API server", "etcd", "scheduler", "extender", "client")  # The client is what sends bare requests


@dataclass(frozen=True, slots=True)
class BindingRun:
    """One gang on its nodes, once, in one of the ways."""

    rate: float  # Pods a second
    first: float  # Seconds from the last create to the first binding
    spent: Mapping[str, float]  # Program -> milliseconds of processor time a pod

    @property
    def own(self) -> float:
        """Milliseconds of what is no part of every cluster, or takes the place of its scheduler."""
        return self.spent.get("scheduler", 0.0) + self.spent.get("extender", 0.0)

    @property
    def all(self) -> float:
        """Milliseconds of all programs."""
        return sum(self.spent.values())


@dataclass(frozen=True, slots=True)
class BindingRuns:
    """Of each way one run for each round."""

    nodes: int
    gang: int
    runs: Mapping[str, Sequence[BindingRun]]

    def median(self, way: str, what: Callable[[BindingRun], float]) -> float:
        """Return the median of a figure over the runs of a way."""
        return median(map(what, self.runs[way]))


def measure(plane: ControlPlane, cluster: Cluster, *, size: int, rounds: int) -> BindingRuns:
    """All of them in turn, so many times."""
    space = new_namespace(plane, "binding")
    ways: dict[str, Callable[[], BindingRun]] = {
        way: lambda sample=sample: _scheduler_alone(plane, space, size, sample=sample)  # type: ignore[misc]
        for way, sample in SAMPLES.items()
    }
    ways |= {
        way: lambda writes=writes: _bare(plane, cluster, space, size, writes=writes)  # type: ignore[misc]
        for way, writes in WRITES.items()
    }
    ways[ARNOLD] = lambda: _arnold(plane, cluster, space, size)
    return BindingRuns(len(cluster), size, _in_turn(ways, rounds))


def measure_native(plane: ControlPlane, cluster: Cluster, *, size: int, rounds: int) -> BindingRuns:
    """Both paths in turn, so many times, on a control plane whose kube-scheduler has the plug-in."""
    # a PodGroup that was deleted stays until a controller, which is stopped here, has looked at it
    space, groups = new_namespace(plane, "native"), (f"group-{number}" for number in count())
    ways = {
        GATED: lambda: _arnold(plane, cluster, space, size),
        NATIVE: lambda: _arnold(plane, cluster, space, size, group=next(groups)),
    }
    return BindingRuns(len(cluster), size, _in_turn(ways, rounds))


def _in_turn(ways: Mapping[str, Callable[[], BindingRun]], rounds: int) -> dict[str, list[BindingRun]]:
    runs: dict[str, list[BindingRun]] = {way: [] for way in ways}
    for number in range(1, rounds + 1):
        for way, run in ways.items():
            runs[way].append(this := run())
            spent = ", ".join(f"{name} {ms:.2f}" for name, ms in this.spent.items())
            say(f"binding, round {number}, {way}: {this.rate:.0f}/s, first after {this.first:.2f} s; ms a pod: {spent}")
    return runs


def report(found: BindingRuns) -> str:
    """Medians and their ratios."""
    first, floors = found.median(ARNOLD, lambda run: run.first), [found.median(way, _server_ms) for way in WRITES]
    each = [f"{ms:.2f}" for ms in (floors[0], *(after - before for before, after in pairwise(floors)))]
    return section(
        f"A gang of {found.gang:,} on {found.nodes:,} nodes, last create to last bind",
        _table(found),
        f"{len(found.runs[ARNOLD])} rounds in turn; milliseconds of processor time a pod, medians. Arnold's first "
        f"pod is on its node {first:.2f} s after the last create; that is recognising, solving, writing the plan. "
        f"Of a pod's three writes the API server and etcd spend {each[0]} ms on the nomination, {each[1]} on the gate "
        f"and {each[2]} on the binding, whoever sends them.",
        promises(*_promises(found)),
    )


def report_native(found: BindingRuns) -> str:
    """Both paths, and how many times faster one is."""
    times = found.median(NATIVE, lambda run: run.rate) / found.median(GATED, lambda run: run.rate)
    spent = found.median(NATIVE, lambda run: run.all) / found.median(GATED, lambda run: run.all)
    return section(
        f"A gang of {found.gang:,} on {found.nodes:,} nodes, by gates or as a native PodGroup",
        _table(found),
        f"{len(found.runs[NATIVE])} rounds in turn. All programs spend {spent:.2f} of the processor time.",
        promises(
            (f"at least {NATIVE_RATE:g} times the pods a second", f"{times:.2f} times", times >= NATIVE_RATE),
        ),
    )


def _table(found: BindingRuns) -> str:
    rows = []
    for way, runs in found.runs.items():
        rates = [run.rate for run in runs]
        times = [median(run.spent[name] for run in runs) if name in runs[0].spent else None for name in PROGRAMS]
        shown = ["-" if ms is None else f"{ms:.2f}" for ms in (*times, found.median(way, lambda run: run.all))]
        rows.append([way, f"{median(rates):.0f}", f"{min(rates):.0f}", f"{max(rates):.0f}", *shown])
    return table(["", "pods/s, median", "least", "most", *(f"{name} ms" for name in PROGRAMS), "all ms"], rows)


def _server_ms(run: BindingRun) -> float:
    return run.spent["API server"] + run.spent["etcd"]


def _promises(found: BindingRuns) -> list[Promise]:
    def ratio(what: Callable[[BindingRun], float], way: str) -> float:
        return found.median(ARNOLD, what) / found.median(way, what)

    faster = max(SAMPLES, key=lambda way: found.median(way, lambda run: run.rate))
    cheaper = min(SAMPLES, key=lambda way: found.median(way, lambda run: run.own))
    rate, bare = ratio(lambda run: run.rate, faster), ratio(lambda run: run.rate, BARE)
    own, all_ = ratio(lambda run: run.own, cheaper), ratio(lambda run: run.all, cheaper)
    extender, first = (
        found.median(ARNOLD, lambda run: run.spent["extender"]),
        found.median(ARNOLD, lambda run: run.first),
    )
    return [
        (
            f"at least {AGAINST_SCHEDULER:g} times the pods a second of kube-scheduler alone",
            f"{rate:.2f} times the faster, {ratio(lambda run: run.rate, EVERY_NODE):.2f} times that of every node",
            rate >= AGAINST_SCHEDULER,
        ),
        (f"at least {AGAINST_BARE:g} times the bare requests", f"{bare:.2f} times", bare >= AGAINST_BARE),
        (
            f"processor time of scheduler and extender: at most {OWN_TIME:g} of kube-scheduler's alone",
            f"{own:.2f} of the cheaper, {ratio(lambda run: run.own, EVERY_NODE):.2f} of that of every node",
            own <= OWN_TIME,
        ),
        (
            f"of all programs: at most {ALL_TIME:g} of those with kube-scheduler alone",
            f"{all_:.2f} of the cheaper, {ratio(lambda run: run.all, EVERY_NODE):.2f} of that of every node",
            all_ <= ALL_TIME,
        ),
        (f"the extender spends at most {EXTENDER_MS:g} ms a pod", f"{extender:.2f} ms", extender <= EXTENDER_MS),
        (f"first pod at most {FIRST_SECONDS:g} s after the last create", f"{first:.2f} s", first <= FIRST_SECONDS),
    ]


def _parallelism(size: int) -> str:
    return f"tp=8,pp={STAGES},dp={size // STAGES}"


def _cluster_programs(plane: ControlPlane) -> dict[str, int]:
    return {"API server": plane.api_server.pid, "etcd": plane.etcd.pid}


def _spent(size: int, *clocks: ProcessorTime) -> dict[str, float]:
    """Return milliseconds a pod, once what is still under way is done."""
    return {name: 1000.0 * seconds / size for clock in clocks for name, seconds in clock.settled().items()}


def _scheduler_alone(plane: ControlPlane, space: str, size: int, *, sample: int) -> BindingRun:
    """Have kube-scheduler bind pods that are all there."""
    text = (MANIFESTS / "base/scheduler-config.yaml").read_text(encoding="utf-8")
    shipped: Object = yaml.safe_load(text)
    connection = shipped["clientConnection"] | {"kubeconfig": str(plane.kubeconfig("system:kube-scheduler"))}
    scheduler = plane.add_scheduler(
        ALONE,
        {"clientConnection": connection, "percentageOfNodesToScore": sample, "profiles": [{"schedulerName": ALONE}]},
    )
    try:
        with Bindings(plane, space) as bindings:
            plane.admin.create(pod("warm-up", space, scheduler=ALONE))
            bindings.moment(1)
            plane.admin.delete("pods", "warm-up", space)
            os.kill(scheduler.pid, signal.SIGSTOP)
            pods = gang("gang", space, size=size, parallelism=_parallelism(size), gated=False)
            for thing in pods:
                thing["spec"]["schedulerName"] = ALONE
            plane.admin.create_all(pods)
            used = ProcessorTime(_cluster_programs(plane) | {"scheduler": scheduler.pid})
            start = perf_counter()
            os.kill(scheduler.pid, signal.SIGCONT)
            seconds = bindings.moment(size + 1) - start
            return BindingRun(size / seconds, bindings.moment(2) - start, _spent(size, used))
    finally:
        plane.remove(ALONE)
        clear(plane, space)


def _bare(plane: ControlPlane, cluster: Cluster, space: str, size: int, *, writes: int) -> BindingRun:
    """Send the first one, two or all three writes of each pod: its nomination, the end of its gate, its binding."""
    releases = plane.service_account_client("arnold-extender", SYSTEM)
    binds = plane.service_account_client("arnold-scheduler", SYSTEM)
    plane.admin.create(pod("warm-up", space))
    for client in (releases, binds):
        client.each(lambda _, client=client: client.all("pods", space), range(64))  # type: ignore[misc]
    made = plane.admin.create_all(gang("gang", space, size=size, parallelism=_parallelism(size)))
    free = islice((node.name for node in cluster if node.free_gpus == node.gpus), size)
    things = [decode_pod(thing) for thing in made]
    mark = release_mark(GangKey(space, "gang"), size)

    def send(change: tuple[Pod, str]) -> float:
        name, node = change[0].name, change[1]
        nominated = releases.patch("pods", name, {"status": {"nominatedNodeName": node}}, space, subresource="status")
        if writes > 1:
            version = nominated["metadata"]["resourceVersion"]
            releases.patch("pods", name, release_patch(change[0], node, mark, version=version), space)
        if writes > 2:
            target = {"apiVersion": "v1", "kind": "Node", "name": node}
            document = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
            binds.request("POST", f"{path('pods', space)}/{name}/binding", document)
        return perf_counter()

    used = ProcessorTime(_cluster_programs(plane) | {"client": os.getpid()})
    start = perf_counter()
    ended = releases.each(send, zip(things, free, strict=True))
    run = BindingRun(size / (max(ended) - start), min(ended) - start, _spent(size, used))
    clear(plane, space)
    return run


def _arnold(plane: ControlPlane, cluster: Cluster, space: str, size: int, *, group: str = "") -> BindingRun:
    """Have Arnold plan a gang, and its scheduler bind it.

    :param group: name of a PodGroup whose pods have no gate, for the scheduler's plug-in; empty = they have gates.
    """
    notes = {"arnold.dev/parallelism": _parallelism(size)}
    if group:
        _, *pods = things = native_group(group, space, size=size)
        for thing in pods:
            thing["metadata"]["annotations"] = notes
            del thing["spec"]["schedulingGates"]
    else:
        things = gang("gang", space, size=size, annotations=notes)
    scheduler = read("components/native/scheduler-config.yaml")[0] if group else None
    with warm_arnold(plane, cluster, space, scheduler=scheduler) as arnold, Bindings(plane, space) as bindings:
        own = ProcessorTime({"scheduler": arnold.scheduler.pid, "extender": arnold.extender.pid})
        plane.admin.create_all(things)
        used = ProcessorTime(_cluster_programs(plane))
        start = perf_counter()
        seconds = bindings.moment(size) - start
        run = BindingRun(size / seconds, bindings.moment(1) - start, _spent(size, used, own))
        clear(plane, space)
        return run
