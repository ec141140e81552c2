"""Gangs that kube-scheduler, Kueue, Volcano and Arnold place on one real control plane, in turn.

Each case is a cluster in use in a fragmented way and one gang that fits into it.  Every program is the peer's own,
built from its module, and is asked in each mode that it has for topology; its pods are bound for real, and where they
are is weighed by the one evaluator.  Peers number ranks in one way alone, so theirs are weighed in both: consecutive
ranks along a PP group and along a DP group.  Of a peer's modes the best counts.  Beside stands what our copy of each
rule (``scheduler/placement/schedulers``) says of the same state.

Without kubelets a bound pod is a pod with a node, and a gang that is gone leaves nothing behind.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter, sleep

import numpy as np

from benchmarks.kubernetes.stage import clear, new_namespace, say, stage
from benchmarks.report import section, table
from ground.errors import ArnoldError
from scheduler.algorithm_run import run
from scheduler.job import Job, Parallelism
from scheduler.objective import Evaluation, evaluate
from scheduler.placement.heuristic import Heuristic
from scheduler.placement.types import ALGORITHMS, Limits
from tests.e2e.harness import arnold, peers
from tests.e2e.harness.client import Object
from tests.e2e.harness.nodes import TENANTS, level_labels, make_real
from tests.e2e.harness.plane import ControlPlane
from tests.e2e.harness.pods import gang, indexed_job
from tests.e2e.harness.waiting import wait_until
from topology.cluster import Cluster, IntArray
from topology.generate import fragment, generate

SIZES = {24: (96, 4), 64: (240, 8), 128: (480, 8)}
"""Nodes of the gang -> nodes of the cluster, stages of the pipeline; minipods of 24, racks of 4."""
STATES = ((0.3, 1), (0.5, 2), (0.5, 3), (0.65, 4))
"""Share of the nodes in use, and the seed by which they are: the four cases of a size."""
ALPHA = 0.5
QUIET = 12.0  # seconds without a new binding after which a gang counts as refused; Kueue decides in two
LONGEST = 120.0
GROUP = "bench.example.com/group"
JOB = "gang"


@dataclass(frozen=True, slots=True)
class Case:
    """A cluster in use, and the gang that is to run on it."""

    cluster: Cluster
    job: Job

    @property
    def name(self) -> str:
        """What the table calls it."""
        free = sum(self.cluster.idle)
        return f"{self.size} of {free} free, {len(self.cluster)} nodes"

    @property
    def minipod(self) -> str:
        """The label of the job's level."""
        return level_labels(self.cluster)[0]

    @property
    def size(self) -> int:
        """Pods of the gang."""
        return self.job.grid.cells

    def worth(self, nodes: Sequence[str]) -> tuple[Evaluation, int]:
        """Return what a gang on nodes, in the order of its pods, is worth in the better numbering, and its hops out."""
        index = np.array([self.cluster.index_of[name] for name in nodes], dtype=np.int32)
        rows, columns = self.job.grid.node_rank.shape
        numberings = (index.reshape(rows, columns), index.reshape(columns, rows).T)
        return min((self.weighed(cells) for cells in numberings), key=lambda weighed: weighed[0].objective)

    def weighed(self, cells: IntArray) -> tuple[Evaluation, int]:
        """Return what cells are worth, and how many hops leave the busiest domain.

        Hops go to the next of a DP group, the last one's to the first, and to the next stage of a PP group.

        :param cells: shape [rows, columns], the node of each.
        """
        domain = self.cluster.level(self.job.level).domain_of[cells]
        hops = [(domain, np.roll(domain, -1, axis=0)), (domain[:, :-1], domain[:, 1:])]
        leaving = [np.concatenate([since[since != until], until[since != until]]) for since, until in hops]
        return evaluate(self.cluster, self.job, cells), int(np.bincount(np.concatenate(leaving), minlength=1).max())


@dataclass(frozen=True, slots=True)
class Placed:
    """What became of a gang: its objective, spreads and hops; ``None`` = refused.

    :param seconds: from the first create of the gang's own objects to the last binding, or to giving up.
    """

    worth: tuple[Evaluation, int] | None
    seconds: float


Gang = Callable[[ControlPlane, Case, str], list[Object]]
"""Sets up what a gang needs in a namespace before it comes, and returns the objects that it is."""


@dataclass(frozen=True)
class Mode:
    """One way in which a peer is asked.

    :param program: the peer, and after a comma how it is set up where that differs.
    :param rule: our copy of it, empty = there is none.
    """

    program: str
    name: str
    rule: str
    gang: Gang

    @property
    def peer(self) -> str:
        """Whose mode it is."""
        return self.program.partition(",")[0]


@contextmanager
def _kube_scheduler(plane: ControlPlane) -> Iterator[None]:
    """The scheduler and the controllers that every cluster has."""
    plane.scheduler.start()
    plane.controller_manager.start()
    try:
        yield
    finally:
        plane.controller_manager.stop()
        plane.scheduler.stop()


def _plain(_: ControlPlane, case: Case, space: str) -> list[Object]:
    return _pods(case, space, "default-scheduler")


def _pods(case: Case, space: str, scheduler: str) -> list[Object]:
    """Return the pods of a gang for another scheduler: with Arnold's label its admission policy would gate them."""
    pods = gang(JOB, space, size=case.size, gated=False)
    for pod in pods:
        pod["spec"]["schedulerName"] = scheduler
        pod["metadata"]["labels"] = {"app": JOB}
    return pods


# Kueue


@contextmanager
def _kueue(plane: ControlPlane, **gates: bool) -> Iterator[None]:
    settings = peers.KUEUE.settings
    kueue = replace(peers.KUEUE, settings={**settings, "featureGates": settings["featureGates"] | gates})
    with _kube_scheduler(plane), peers.running(kueue, plane, say):
        yield


def _by_kueue(**wishes: Callable[[Case], str]) -> Gang:
    """Return what makes a Job with wishes about topology: annotation without its prefix -> its value."""

    def make(plane: ControlPlane, case: Case, space: str) -> list[Object]:
        for thing in peers.kueue_queue(level_labels(case.cluster), space, gpus=1_000_000, tas=True):
            plane.admin.apply(thing)
        job = indexed_job(JOB, space, size=case.size, parallelism=None)
        job["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "team"}
        job["spec"]["suspend"] = True
        about: Object = job["spec"]["template"]["metadata"]
        about["labels"] = {}
        notes = {f"kueue.x-k8s.io/podset-{name.replace('_', '-')}": wish(case) for name, wish in wishes.items()}
        about["annotations"] = notes
        return [job]

    return make


def _minipod(case: Case) -> str:
    return case.minipod


# Volcano

ACTIONS = """actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - name: predicates
  - name: proportion
  - name: nodeorder
  - name: binpack
  - name: network-topology-aware
    arguments:
      weight: 10
      hypernode.binpack.resources: nvidia.com/gpu
      hypernode.binpack.resources.nvidia.com/gpu: 10
"""
"""As Volcano's guide to network topology has it, bin packing by GPUs."""


def _hyper_nodes(plane: ControlPlane, cluster: Cluster, *, racks: bool) -> None:
    """Make domains HyperNodes, tier 1 the closest, below one of the whole cluster.

    :param racks: whether racks are a tier of their own, below minipods.
    """
    levels = list(zip(cluster.levels, level_labels(cluster), strict=True))[:: -1 if racks else 1]
    below: list[tuple[str, int]] = []  # HyperNodes of the tier before, each with the domain that it is part of
    for tier, (level, label) in enumerate(levels if racks else levels[:1], 1):
        made = [
            (f"tier{tier}-{domain}", int(parent)) for domain, parent in zip(level.domains, level.parent_of, strict=True)
        ]
        for number, (name, _) in enumerate(made):
            inside = [{"exactMatch": {"name": part}} for part, domain in below if domain == number]
            nodes = {"labelMatch": {"matchLabels": {label: level.domains[number]}}}
            plane.admin.apply(_hyper_node(name, tier, inside or [nodes], of="HyperNode" if inside else "Node"))
        below = made
    everything = [{"exactMatch": {"name": part}} for part, _ in below]
    plane.admin.apply(_hyper_node("cluster", len(levels[: 2 if racks else 1]) + 1, everything, of="HyperNode"))


def _hyper_node(name: str, tier: int, selectors: Sequence[Object], *, of: str) -> Object:
    members = [{"type": of, "selector": selector} for selector in selectors]
    about = {"apiVersion": "topology.volcano.sh/v1alpha1", "kind": "HyperNode", "metadata": {"name": name}}
    return {**about, "spec": {"tier": tier, "members": members}}


def _by_volcano(*, mode: str, groups: Callable[[Case], int] | None = None) -> Gang:
    """Return what makes the pods of a pod group.

    :param groups: nodes of each part of consecutive ranks that is held to a minipod; ``None`` = no parts.
    """

    def make(plane: ControlPlane, case: Case, space: str) -> list[Object]:
        whole = mode == "hard" and groups is None
        _hyper_nodes(plane, case.cluster, racks=not whole)
        spec: Object = {"minMember": case.size}
        hard = {"mode": "hard", "highestTierAllowed": 2}  # the cluster, or with racks the minipod
        if groups is None:
            spec["networkTopology"] = hard if whole else {"mode": mode}
        else:
            each = groups(case)
            policy: Object = {"subGroupSize": each, "minSubGroups": case.size // each, "matchLabelKeys": [GROUP]}
            policy["labelSelector"] = {"matchLabels": {"app": JOB}}
            spec["subGroupPolicy"] = [{"name": "parts", "networkTopology": hard, **policy}]
        group = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "spec": spec}
        plane.admin.create(group | {"metadata": {"name": JOB, "namespace": space}})
        sleep(2.0)  # Volcano reads HyperNodes by a queue of its own
        pods = _pods(case, space, "volcano")
        for rank, pod in enumerate(pods):
            if groups is not None:
                pod["metadata"]["labels"][GROUP] = f"part-{rank // groups(case)}"
            pod["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": JOB}
        return pods

    return make


# Arnold


def _by_arnold(_: ControlPlane, case: Case, space: str) -> list[Object]:
    work = case.job.parallelism
    parallelism = f"tp={work.tp},pp={work.pp},dp={work.dp}"
    notes = {"arnold.dev/alpha": f"{ALPHA:g}"}
    return gang(JOB, space, size=case.size, parallelism=parallelism, annotations=notes)


LEVELS = level_labels(generate("minipods", minipods=2, nodes=8))
PROGRAMS: Mapping[str, Callable[[ControlPlane], AbstractContextManager[object]]] = {
    "kube-scheduler": _kube_scheduler,
    "Kueue": _kueue,
    # on by itself: with it v0.17 refuses slices of the level that a job prefers
    "Kueue, balanced": partial(_kueue, TASBalancedPlacement=True),
    "Volcano": partial(peers.volcano, configuration=ACTIONS, say=say),
    "Arnold": partial(arnold.running, levels=LEVELS, forwarded=False),
}
PEERS = ("kube-scheduler", "Kueue", "Volcano", "Arnold")
LEFT = {"Kueue": ("jobs", "workloads"), "Volcano": ("podgroups", "hypernodes"), "Arnold": ("gangplans",)}
"""What a gang leaves beside its pods."""


def _stages(case: Case) -> int:
    return case.job.grid.columns


def _replicas(case: Case) -> int:
    return case.job.grid.rows


MODES = (
    Mode("kube-scheduler", "alone", "kube-scheduler", _plain),
    Mode("Kueue", "required", "kueue-required", _by_kueue(required_topology=_minipod)),
    Mode("Kueue", "preferred", "kueue-preferred", _by_kueue(preferred_topology=_minipod)),
    Mode("Kueue, balanced", "preferred", "kueue-balanced", _by_kueue(preferred_topology=_minipod)),
    Mode(
        "Kueue",
        "slices of a PP group",
        "kueue-slice-p",
        _by_kueue(
            preferred_topology=_minipod, slice_required_topology=_minipod, slice_size=lambda case: str(_stages(case))
        ),
    ),
    Mode(
        "Kueue",
        "slices of a DP group",
        "kueue-slice-d",
        _by_kueue(
            preferred_topology=_minipod, slice_required_topology=_minipod, slice_size=lambda case: str(_replicas(case))
        ),
    ),
    Mode("Volcano", "hard", "volcano-hard", _by_volcano(mode="hard")),
    Mode("Volcano", "soft", "volcano-soft", _by_volcano(mode="soft")),
    Mode("Volcano", "parts of a PP group", "volcano-partition-p", _by_volcano(mode="hard", groups=_stages)),
    Mode("Volcano", "parts of a DP group", "volcano-partition-d", _by_volcano(mode="hard", groups=_replicas)),
    Mode("Arnold", "", "exact", _by_arnold),
)


def cases() -> list[Case]:
    """Return the twelve cases."""
    return [
        Case(
            fragment(generate("minipods", minipods=nodes // 24, nodes=nodes // 24 * 24, rack_nodes=4), busy, seed),
            Job(JOB, Parallelism(tp=8, pp=stages, dp=size // stages), alpha=ALPHA),
        )
        for size, (nodes, stages) in SIZES.items()
        for busy, seed in STATES
    ]


def measure(chosen: Sequence[Case]) -> list[dict[Mode, Placed]]:
    """Return what became of each case in each mode; peers go in turn, on a control plane each."""
    found: list[dict[Mode, Placed]] = [{} for _ in chosen]
    for program, run_program in PROGRAMS.items():
        with stage(generate("minipods", minipods=2, nodes=8)) as plane, run_program(plane):
            for number, (case, placed) in enumerate(zip(chosen, found, strict=True), 1):
                _remake(plane, case.cluster)
                for mode in MODES:
                    if mode.program == program:
                        placed[mode] = _placed(plane, case, mode)
                        outcome = placed[mode].worth
                        told = f"{outcome[0].objective:g}" if outcome else "refused"
                        say(f"case {number}, {case.name}: {program} {mode.name}: {told}, {placed[mode].seconds:.1f} s")
    return found


def _remake(plane: ControlPlane, cluster: Cluster) -> None:
    """Put a cluster in the place of the one before."""
    plane.admin.delete_all("pods", TENANTS)
    wait_until(lambda: not plane.admin.all("pods", TENANTS, limit="1"), "all tenants to go")
    plane.admin.delete_all("nodes")
    make_real(plane.admin, cluster)


def _placed(plane: ControlPlane, case: Case, mode: Mode) -> Placed:
    space = new_namespace(plane, "peers")
    things = mode.gang(plane, case, space)
    begin = last = perf_counter()
    plane.admin.create_all(things)
    bound: list[Object] = []
    while len(bound) < case.size and perf_counter() - last < QUIET and perf_counter() - begin < LONGEST:
        sleep(0.25)
        before, bound = len(bound), [it for it in plane.admin.all("pods", space) if it["spec"].get("nodeName")]
        if len(bound) > before:
            last = perf_counter()
    seconds = perf_counter() - begin
    worth = None
    if len(bound) == case.size:
        nodes = [it["spec"]["nodeName"] for it in sorted(bound, key=_rank)]
        cells = np.array([case.cluster.index_of[node] for node in nodes], dtype=np.int32)[case.job.grid.node_rank]
        worth = case.weighed(cells) if mode.peer == "Arnold" else case.worth(nodes)
    for resource in LEFT.get(mode.peer, ()):
        plane.admin.delete_all(resource)
    clear(plane, space)
    return Placed(worth, seconds)


def _rank(pod: Object) -> int:
    index = pod["metadata"].get("annotations", {}).get("batch.kubernetes.io/job-completion-index")
    return int(index if index is not None else pod["metadata"]["name"].rpartition("-")[2])


def report(chosen: Sequence[Case], found: Sequence[Mapping[Mode, Placed]]) -> str:
    """Return the tables: each case by peer, what our copies of the rules say, and the modes."""
    by_case = []
    for case, placed in zip(chosen, found, strict=True):
        row: list[object] = [case.name]
        for peer in PEERS:
            best, mode = _best(placed, peer)
            if best.worth is None:
                row.append("refused")
                continue
            evaluation, hops = best.worth
            by = f", {mode.name}" if mode.name and peer != "kube-scheduler" else ""
            row.append(f"{evaluation.dp}, {evaluation.pp}: {hops} hops, {best.seconds:.1f} s{by}")
        by_case.append(row)
    totals: list[object] = [f"sum at alpha {ALPHA:g}; refused"]
    for peer in PEERS:
        bests = [_best(placed, peer)[0].worth for placed in found]
        worths = [worth[0].objective for worth in bests if worth is not None]
        totals.append(f"{sum(worths):g}; {len(bests) - len(worths)}")
    by_mode = []
    for mode in MODES:
        both = [(placed[mode].worth, by_rule(mode.rule, case)) for case, placed in zip(chosen, found, strict=True)]
        same = sum(rule == (None if real is None else real[0].objective) for real, rule in both)
        real_ones = [real[0].objective for real, rule in both if real is not None and rule is not None]
        rules = [rule for real, rule in both if real is not None and rule is not None]
        refused = [sum(worth is None for worth in column) for column in zip(*both, strict=True)]
        seconds = [placed[mode].seconds for placed in found if placed[mode].worth is not None]
        took = f"{np.median(seconds):.1f}" if seconds else "-"
        by_mode.append(
            [f"{mode.program} {mode.name}".strip(), *refused, f"{sum(real_ones):g}", f"{sum(rules):g}", same, took]
        )
    header = ["Mode", "refused", "by our rule", "sum of objectives", "by our rule", "equal", "seconds, median"]
    return section(
        "Gangs on one control plane: S, R by the better numbering, hops out of the busiest minipod, seconds to bound",
        table(["Gang", *PEERS], [*by_case, totals]),
        table(header, by_mode),
    )


def _best(placed: Mapping[Mode, Placed], peer: str) -> tuple[Placed, Mode]:
    """Return what became of a gang in the best mode of a peer, and that mode."""

    def key(mode: Mode) -> tuple[float, float]:
        worth = placed[mode].worth
        return (np.inf if worth is None else worth[0].objective), placed[mode].seconds

    best = min((mode for mode in placed if mode.peer == peer), key=key)
    return placed[best], best


def by_rule(rule: str, case: Case) -> float | None:
    """Return the objective that our copy of a rule comes to; ``None`` = it refuses."""
    algorithm = ALGORITHMS.load(rule)
    try:
        nodes = run(algorithm, case.cluster, case.job, Limits(workers=1)).proposal.nodes
    except ArnoldError:
        return None
    if nodes is None:
        return None
    if not isinstance(algorithm, Heuristic):
        return case.weighed(nodes)[0].objective
    # in the order in which the rule numbers its pods, as those of a peer come
    flat = nodes.ravel()[np.argsort(algorithm.rank_of_cell(case.job.grid), axis=None)]
    return case.worth([case.cluster.names[i] for i in flat])[0].objective
