"""Why a placement cannot be better, what slow nodes cost, why a job does not fit, and what would help.

Of jobs that were placed: each cheaper pair of spreads, with what rules it out; and what it costs to avoid slow nodes,
and to use them, both solved whatever the job says.  Of jobs that were not: the smallest changes that would make it fit,
each verified by solving the changed instance; one that was not settled within its time is not suggested.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise, product
from math import inf
from typing import Any, Literal

import numpy as np

from ground.errors import InvalidJob
from ground.quantities import decimal, one_of, plural
from ground.records import AtLeastOne, JsonRecord, record_of
from scheduler.algorithm_run import fits, run
from scheduler.grid import filling
from scheduler.job import FAMILIES, Job
from scheduler.job_on_cluster import within_the_tree
from scheduler.objective import TOLERANCE, Evaluation, Spread, objective_of, slowest_in_use, step_time
from scheduler.outcome import Outcome
from scheduler.placement import admission
from scheduler.placement.types import Limits, Pair, PlacementAlgorithm, Refutation, Status
from topology.cluster import Cluster, IntArray, Level, count_nodes
from topology.flags import HEALTHY
from topology.taints import Toleration

LONGEST = 3  # Kinds of domains that a sentence names


class CheaperPair(JsonRecord):
    """A pair of spreads that would cost less than the placement found."""

    dp: AtLeastOne
    """DP spread S."""
    pp: AtLeastOne
    """PP spread R."""
    objective: float
    """What it would cost, with the least that soft constraints can add."""
    refuted: Spread | None
    """The pair that was refuted, at least as large in both, and rules this one out with it, where slow nodes have a
    price on nodes no slower than were admitted; null = not settled."""
    refuted_by: str | None
    """The bound or search that refuted it."""
    sentence: str | None
    """The reason in words."""
    maximal: bool
    """No other cheaper pair is at least as large in both: ruling out these rules out all."""


def left_over(cluster: Cluster, job: Job) -> tuple[str, ...]:
    """Return which usable nodes no placement can use, and why: a sentence for each level at which something is held."""
    sentences = []
    job = within_the_tree(cluster, job)
    usable = admission.admissible(cluster, job)
    room = admission.capacity_by_level(cluster, job, usable)
    held = {cluster.level_index(hold.level) for hold in job.holds_on(cluster)}
    for depth in sorted(held, reverse=True):
        level, size = cluster.levels[depth], admission.blocks_at(cluster, job, depth).size
        have = count_nodes(level, usable)
        if not (over := have - room[depth]).any():
            continue
        kinds = {hold.family for hold in job.holds_on(cluster) if cluster.level_index(hold.level) >= depth}
        named = " and ".join(family.upper() for family in FAMILIES if family in kinds)
        kinds_of_domain = Counter(zip(over[over > 0].tolist(), have[over > 0].tolist(), strict=True))
        listed = [
            f"{left} of {all_} in each of {count}" for (left, all_), count in kinds_of_domain.most_common(LONGEST)
        ]
        more = ["others elsewhere"] if len(kinds_of_domain) > LONGEST else []
        sentences.append(
            f"{named} groups take {size} nodes of one {one_of(level.name)} at a time: of the "
            f"{plural(len(level), level.name)}, {int(over.sum()):,} usable nodes are left over "
            f"({', '.join([*listed, *more])})"
        )
    return tuple(sentences)


def cheaper_pairs(cluster: Cluster, job: Job, outcome: Outcome) -> tuple[CheaperPair, ...]:
    """Return every pair (S, R) that would cost less than the outcome's placement, dearest first.

    A pair refuted in the outcome's proposal rules out every pair that is as small in both.  Where the placement is
    proved optimal, its bound rules out the rest: what a pair would cost counts the least that soft terms can add.
    """
    if outcome.objective is None:
        return ()
    refutations = sorted(outcome.proposal.refutations, key=lambda refutation: refutation.pair)
    domains = len(cluster.level(job.level))
    most_dp, most_pp = (min(job.grid.groups[family].largest, domains) for family in ("dp", "pp"))
    every = product(range(1, most_dp + 1), range(1, most_pp + 1))
    costs = {pair: objective_of(job, *pair, job.least_soft) for pair in every}
    costs = {pair: cost for pair, cost in costs.items() if cost < outcome.objective - TOLERANCE}
    # those that no other one exceeds in both
    maximal: list[Pair] = []
    for pair in sorted(costs, reverse=True):
        if not maximal or pair[1] > maximal[-1][1]:
            maximal.append(pair)
    # up to which slowdown nodes were admitted for the placement; infinite = nothing was left out for that
    widest = max((option.slowest for option in outcome.proposal.prices), default=inf)
    admitted = next((option.slowest for option in outcome.proposal.prices if option.chosen), inf)
    admitted = inf if admitted == widest else admitted
    bound, pairs = outcome.bound_up_to(admitted), []
    for pair, cost in costs.items():
        # the refuted pair closest above this one; else the certified bound
        refutation = next((refutation for refutation in refutations if refutation.covers(*pair)), None)
        if refutation is None and bound is not None and cost < bound - TOLERANCE:
            sentence = f"no placement can have an objective below {bound:.4g}, all terms counted"
            refutation = Refutation(pair, "bound", sentence)
        if refutation is None:
            pairs.append(CheaperPair(*pair, cost, None, None, None, pair in maximal))
            continue
        sentence = refutation.sentence
        if admitted < inf:
            on = "nodes that are not slow" if admitted == HEALTHY else f"nodes up to {admitted:.4g} times slower"
            sentence += f" (on {on})"
        pairs.append(CheaperPair(*pair, cost, Spread(*refutation.pair), refutation.by, sentence, pair in maximal))
    return tuple(sorted(pairs, key=lambda pair: (-pair.objective, pair.dp)))


@dataclass(frozen=True, slots=True)
class WhyNot:
    """A pair of spreads that would cost less than the placement found, and why it cannot be had."""

    pair: CheaperPair
    with_it: tuple[CheaperPair, ...]
    """Smaller pairs that are ruled out with it, or open as it is; each stands with one pair only."""

    @property
    def sentence(self) -> str:
        """The reason in words."""
        refuted = self.pair.refuted
        if refuted is None:
            return "open: not settled within the time; a longer --time-limit may help"
        if refuted == Spread(self.pair.dp, self.pair.pp):
            return str(self.pair.sentence)
        return f"not even ({refuted.dp}, {refuted.pp}) can be had: {self.pair.sentence}"

    @property
    def line(self) -> str:
        """The pair, what it would cost, and the reason."""
        return f"({self.pair.dp}, {self.pair.pp}) at {decimal(self.pair.objective)}: {self.sentence}"

    @property
    def rest(self) -> str:
        """What holds for the smaller pairs."""
        return f"ruled out with ({self.pair.dp}, {self.pair.pp})" if self.pair.refuted else "open as well"


def why_not(pairs: Sequence[CheaperPair]) -> list[WhyNot]:
    """Return every cheaper pair (given dearest first) with the reason: first those that none exceeds, by DP spread."""
    first = sorted((pair for pair in pairs if pair.maximal), key=lambda pair: pair.dp)
    heads: dict[CheaperPair, list[CheaperPair]] = {pair: [] for pair in first}
    for pair in pairs:
        if pair in heads:
            continue
        above = [head for head in heads if head.dp >= pair.dp and head.pp >= pair.pp]
        settled = [head for head in above if head.refuted is not None]
        if settled or pair.refuted is None:
            heads[[*settled, *above][0]].append(pair)
        else:
            heads[pair] = []
    return [WhyNot(pair, tuple(rest)) for pair, rest in heads.items()]


class TypeBinding(JsonRecord):
    """What binds on nodes of one type of GPU, or of several where the job may mix them."""

    gpu_types: tuple[str, ...]
    """The types; empty text = nodes of which no type is said."""
    sentence: str
    """Why the job has no placement there, or the dearest pair of spreads that would cost less and what rules it out."""


def what_binds(cluster: Cluster, outcome: Outcome) -> tuple[TypeBinding, ...]:
    """Return what binds for each choice of types that was compared; empty where there was nothing to choose."""
    bindings = []
    for job, there in outcome.by_type:
        heads = why_not(cheaper_pairs(cluster, job, there))
        if there.evaluation is None:
            sentence = there.reason
        elif not heads:
            sentence = "nothing can be cheaper: every group touches one domain"
        else:
            dearest = max(heads, key=lambda head: head.pair.objective)
            sentence = f"{dearest.line} ({len(heads) - 1:,} more)" if len(heads) > 1 else dearest.line
        bindings.append(TypeBinding(admission.types_of(cluster, job), sentence))
    return tuple(bindings)


Way = Literal["avoid", "some", "use"]
"""``avoid``: no slow node.  ``use``: any, as if they were healthy, and of equal spreads the fewest.  ``some``: only
those up to a slowdown, where that is better than either."""


SAME = 5e-4  # Predicted step times closer than this are the same to people
WORDS = {"avoid": "avoid all slow nodes", "some": "use the less slow ones", "use": "use slow nodes freely"}


class AvoidanceOption(JsonRecord, kw_only=True):
    """One way to treat slow nodes, solved."""

    way: Way
    """avoid: no slow node; use: any, as if they were healthy; some: only those up to a slowdown, where the job's own
    placement is neither."""
    chosen: bool
    """Whether the job's placement is this one."""
    status: Status
    """Status of the exact solver; infeasible when the job does not fit this way."""
    spread: Spread | None
    """Spread of the placement; null = there is none."""
    objective: float | None
    """Its objective."""
    bound: float | None
    """No placement of this way has a smaller one."""
    step_time: float | None
    """Predicted step time, 1 = no spread and no slow node."""
    slowest: float | None
    """Slowdown of the slowest node in use, 1 = none is slow."""
    used: tuple[str, ...]
    """Flagged nodes in use."""
    left_out: tuple[str, ...]
    """Flagged nodes that could be used and are not."""
    sentence: str
    """The option in words."""


def weigh(
    cluster: Cluster, job: Job, outcome: Outcome, *, solver: PlacementAlgorithm, limits: Limits
) -> tuple[AvoidanceOption, ...]:
    """Weigh the ways to treat slow nodes: to avoid them, to use them, and the job's own where it is neither.

    :returns: nothing where no node that the job could use is slow.
    """
    slow = np.flatnonzero(admission.admissible(cluster, job.replace(avoid="ignore")) & (cluster.slowdown > HEALTHY))
    if not slow.size:
        return ()

    def solved(avoid: Literal["strict", "ignore"]) -> Outcome:
        limits.say({"strict": "what if slow nodes are avoided?", "ignore": "what if they are used?"}[avoid])
        return run(solver, cluster, job.replace(avoid=avoid), limits)

    def option(way: Way, answer: Outcome) -> AvoidanceOption:
        chosen = answer is outcome
        evaluation = answer.evaluation
        used = () if evaluation is None else evaluation.flagged
        slowest = time = None
        sentence = f"{WORDS[way]}: {answer.verdict}"
        if evaluation is not None:
            slowest = slowest_in_use(cluster, evaluation)
            time = step_time(job.replace(avoid="price"), objective=evaluation.objective, slowest=slowest)
            in_use = f"{len(used)} in use, up to {slowest:.4g} times slower" if used else "none in use"
            proved = "" if answer.status == "optimal" else f" (not proved best, gap {answer.gap:.1%})"
            sentence = (
                f"{WORDS[way]}: predicted step time {time:.3f} x ideal, DP spread {evaluation.dp}, "
                f"PP spread {evaluation.pp}, objective {decimal(evaluation.objective)}{proved}; {in_use}"
                f"{', chosen' if chosen else ''}"
            )
        return record_of(
            AvoidanceOption,
            answer,
            way=way,
            chosen=chosen,
            step_time=time,
            slowest=slowest,
            used=tuple(cluster.names[i] for i in used),
            left_out=tuple(cluster.names[i] for i in sorted(set(slow.tolist()) - {*used})),
            sentence=sentence,
        )

    own = _way_of(cluster, job, outcome)
    ways: dict[Way, Callable[[], Outcome]] = {"avoid": lambda: solved("strict"), "use": lambda: solved("ignore")}
    if own == "some":
        ways = {"avoid": ways["avoid"], "some": lambda: outcome, "use": ways["use"]}
    return tuple(option(way, outcome if way == own else solve()) for way, solve in ways.items())


def _way_of(cluster: Cluster, job: Job, outcome: Outcome) -> Way | None:
    """Return how the outcome treats slow nodes; ``None`` where it is a mere refusal, which tells of no way."""
    if job.avoid == "strict":
        return "avoid"
    if job.avoid == "ignore":
        return "use"
    if outcome.evaluation is None:
        return None
    if not outcome.evaluation.flagged:
        return "avoid"
    widest = max((price.slowest for price in outcome.proposal.prices), default=HEALTHY)
    return "use" if slowest_in_use(cluster, outcome.evaluation) >= widest else "some"


def comparison(options: Sequence[AvoidanceOption]) -> str:
    """Say what avoiding slow nodes costs or gains against using them; empty when either cannot be had."""
    times = {option.way: option.step_time for option in options}
    avoid, use = times.get("avoid"), times.get("use")
    if avoid is None or use is None:
        return ""
    if abs(avoid - use) < SAME:
        return "With slow nodes and without them the predicted step time is the same."
    if avoid < use:
        return f"Using slow nodes makes steps {use / avoid - 1:.1%} longer than avoiding them."
    return f"Avoiding slow nodes makes steps {avoid / use - 1:.1%} longer than using them."


RemedyKind = Literal[
    "smaller-dp",
    "smaller-ep",
    "free-nodes",
    "admit-flagged",
    "tolerate-taint",
    "admit-shared",
    "drop-constraint",
    "broader-tp-level",
    "other-node-size",
]
Constraint = Literal["nodes", "hold", "unknown"]


class Remedy(JsonRecord, kw_only=True):
    """A change that makes the job fit, verified by solving the changed instance."""

    kind: RemedyKind
    """smaller-dp, smaller-ep, free-nodes, admit-flagged, tolerate-taint, admit-shared, drop-constraint,
    broader-tp-level or other-node-size.
    """
    sentence: str
    """What to do."""
    spread: Spread
    """Spread of the placement that the change allows."""
    objective: float
    """Objective of the same."""
    dp: int | None
    """The smaller data parallelism, for smaller-dp."""
    free: tuple[str, ...]
    """Nodes to free, for free-nodes."""


class Misfit(JsonRecord):
    """Why the job does not fit."""

    constraint: Constraint
    """What binds: nodes (too few), hold (a hard constraint although there are enough nodes), unknown."""
    reason: str
    """What binds, in words."""
    would_fit_if_empty: bool | None
    """Whether the job would fit if no GPU of the cluster were in use; null = not settled in time."""
    changes: tuple[Remedy, ...]
    """Smallest changes that would help, each of them alone."""


def diagnose(cluster: Cluster, job: Job, outcome: Outcome, *, solver: PlacementAlgorithm, limits: Limits) -> Misfit:
    """Return why the job does not fit, and what would help; the outcome is the solver's, infeasible."""

    def solved(on: Cluster, changed: Job) -> Evaluation | None:
        return None if admission.shortage(on, changed) else run(solver, on, changed, limits).evaluation

    too_few = admission.shortage(cluster, job)
    binding: Constraint = "nodes" if too_few else "hold" if job.holds_groups else "unknown"
    return Misfit(
        constraint=binding,
        reason=too_few or outcome.reason,
        would_fit_if_empty=fits(cluster.emptied(), job, solver=solver, limits=limits),
        changes=tuple(_remedies(cluster, job, solved, solver, limits)),
    )


Solved = Callable[[Cluster, Job], Evaluation | None]
"""What the placement of a changed instance is worth, if there is one."""


def _remedies(
    cluster: Cluster, job: Job, solved: Solved, solver: PlacementAlgorithm, limits: Limits
) -> Iterator[Remedy]:
    limits.say("does it fit with slow nodes?")
    if job.avoid == "strict" and (worth := solved(cluster, job.replace(avoid="price"))) is not None:
        sentence = f"Admit slow nodes (avoid: price): {len(worth.flagged)} of them would be used"
        yield _remedy("admit-flagged", sentence, worth)
    limits.say("does it fit with taints tolerated?")
    yield from _tolerate_taints(cluster, job, solved)
    limits.say("does it fit with GPUs that are shared?")
    if cluster.sharing and (worth := solved(cluster.without_sharing(), job)) is not None:
        ways = " or ".join(sorted({*cluster.sharing.values()}))
        sentence = f"Hand out whole GPUs instead of shared ones ({ways}) on {len(cluster.sharing)} nodes"
        yield _remedy("admit-shared", f"{sentence}, and count them with --shared-gpus whole", worth)
    limits.say("does it fit with fewer constraints?")
    for hold in job.holds:
        others = tuple(other for other in job.holds if other != hold)
        if (worth := solved(cluster, job.replace(holds=others))) is not None:
            sentence = (
                f"Drop the constraint that every {hold.family.upper()} group stays in one {hold.level}, or make it "
                f"soft: a group would touch up to {worth.by_level[hold.level][hold.family]}"
            )
            yield _remedy("drop-constraint", sentence, worth)
    limits.say("does it fit with TP groups farther apart?")
    if job.nodes_of_tp > 1:
        # the closest broader level whose domains have room for TP groups of several nodes
        held, counted = cluster.level_index(job.holds_on(cluster)[-1].level), cluster.level_index(job.level)
        for level in reversed(cluster.levels[counted:held]):
            if (worth := solved(cluster, job.replace(tp_level=level.name))) is not None:
                touched = worth.by_level[cluster.levels[held].name]["tp"]
                sentence = (
                    f"Let a TP group of {job.nodes_of_tp} nodes leave its {cluster.levels[held].name} (tp_level: "
                    f"{level.name}): it would touch up to {touched}"
                )
                yield _remedy("broader-tp-level", sentence, worth)
                break
    limits.say("does it fit with nodes freed?")
    freed, worth = enough_to_free(cluster, job, solver=solver, limits=limits)
    if worth is not None:
        sentence = f"Free {len(freed)} of the nodes in use: {shares(cluster, job, freed)}"
        yield _remedy("free-nodes", sentence, worth, free=tuple(cluster.names[i] for i in freed))
    limits.say("does it fit with a smaller dp?")
    own = job.parallelism
    most = int(admission.admissible(cluster, job).sum()) * job.gpus_per_node * own.dp // own.gpus
    # what holds a job holds it with fewer replicas, so bisection finds it; without holds the largest that has nodes
    # enough fits
    smaller = _smaller(job, "dp", range(min(own.dp - 1, most), 0, -1))
    if (found := _largest(cluster, smaller, solved, bisect=job.holds_groups)) is not None:
        dp, worth = found[0].parallelism.dp, found[1]
        yield _remedy("smaller-dp", f"Lower dp from {own.dp} to {dp}", worth, dp=dp)
    limits.say("does it fit with a smaller ep?")
    if any(hold.family == "ep" for hold in job.holds):
        smaller = _smaller(job, "ep", [ep for ep in range(own.ep // 2, 0, -1) if own.ep % ep == 0])
        if (found := _largest(cluster, smaller, solved)) is not None:
            ep, worth = found[0].parallelism.ep, found[1]
            sentence = f"Lower ep from {own.ep} to {ep}, with {own.ep // ep} times as many experts on each GPU"
            yield _remedy("smaller-ep", sentence, worth)
    limits.say("does it fit on nodes of another size?")
    # where the cluster has mostly those
    sizes = Counter(int(size) for size in cluster.gpus[cluster.idle] if size != job.gpus_per_node)
    for size, _ in sizes.most_common(2):
        try:
            job.parallelism.shape(size)
        except InvalidJob:
            continue
        if (worth := solved(cluster, job.replace(gpus_per_node=size))) is not None:
            nodes = f"Use the nodes of {size} GPUs (gpus_per_node: {size}"
            if cluster.gpus_assumed:
                nodes += (
                    f"), if they have {size}, which is assumed: the cluster file does not say it (--gpus-per-node "
                    f"{job.gpus_per_node} if they have {job.gpus_per_node}"
                )
            yield _remedy("other-node-size", f"{nodes})", worth)


def _remedy(
    kind: RemedyKind, sentence: str, worth: Evaluation, *, dp: int | None = None, free: tuple[str, ...] = ()
) -> Remedy:
    """Return a change, its sentence ended with what the placement is worth."""
    sentence += f"; then DP spread {worth.dp}, PP spread {worth.pp}."
    return Remedy(kind=kind, sentence=sentence, spread=worth.spread, objective=worth.objective, dp=dp, free=free)


def _tolerate_taints(cluster: Cluster, job: Job, solved: Solved) -> Iterator[Remedy]:
    """Yield each taint that it would be enough to tolerate; where none is, all of them together."""
    taints = admission.repelling_taints(cluster, job)
    enough = False
    for some in [*((taint,) for taint in taints), *([taints] if len(taints) > 1 else [])]:
        if enough and len(some) > 1:
            return
        more = (Toleration(taint.key, "Equal", taint.value or "", taint.effect) for taint in some)
        changed = job.replace(tolerations=(*job.tolerations, *more))
        if (worth := solved(cluster, changed)) is not None:
            enough = True
            names = [*dict.fromkeys(map(str, some))]
            options = " ".join(f"--tolerate {name}" for name in names)
            opened = int((admission.admissible(cluster, changed) & ~admission.admissible(cluster, job)).sum())
            whose = f"the taint{'s' * (len(names) > 1)} {', '.join(names)}"
            sentence = f"Tolerate {whose} ({options}), which would admit {plural(opened, 'more node')}"
            yield _remedy("tolerate-taint", sentence, worth)


def _smaller(job: Job, degree: Literal["dp", "ep"], values: Iterable[int]) -> list[Job]:
    """Return the job with each of some degrees that can be, and that fills nodes as its own does."""
    evenly, jobs = not filling(job.parallelism.dense, job.gpus_per_node), []
    for value in values:
        changes: dict[str, Any] = {degree: value}
        try:
            smaller = job.replace(parallelism=replace(job.parallelism, **changes))
            if filling(smaller.parallelism.dense, job.gpus_per_node) and evenly:
                continue
            smaller.grid.tied([hold.family for hold in job.holds])
        except InvalidJob:
            continue
        jobs.append(smaller)
    return jobs


def _largest(
    cluster: Cluster, jobs: Sequence[Job], solved: Solved, *, bisect: bool = False
) -> tuple[Job, Evaluation] | None:
    """Return the first of some jobs that fits, and its worth; ``bisect``: those behind one that fits do too."""
    found, low, high = None, 0, len(jobs)
    while low < high:
        middle = (low + high) // 2 if bisect else low
        if (worth := solved(cluster, jobs[middle])) is None:
            low = middle + 1
        else:
            found, high = (jobs[middle], worth), middle
    return found


def shares(cluster: Cluster, job: Job, nodes: IntArray) -> str:
    """Return how many of some nodes lie in each domain that matters to a job: ``8 in mp01, 4 in mp02``."""
    level = cluster.level(_freeing_levels(cluster, job)[0])
    counts = count_nodes(level, np.isin(np.arange(len(cluster)), nodes))
    return ", ".join(f"{counts[k]} in {level.domains[k]}" for k in np.argsort(-counts, kind="stable") if counts[k])


def _freeing_levels(cluster: Cluster, job: Job) -> list[str]:
    """Return the levels at which groups are held, the closest first; where none is, that whose domains count."""
    held = {hold.level for hold in job.holds_on(cluster)} or {cluster.level(job.level).name}
    return sorted(held, key=[level.name for level in (*cluster.second_levels, *cluster.levels)].index, reverse=True)


def nodes_to_free(cluster: Cluster, job: Job) -> IntArray:
    """Return nodes in use that would make room once they are free, as few as possible, in the domains that need fewest.

    A domain hosts ``floor(free / g)`` blocks of g cells, one cell without hard constraints, and nodes are taken where
    the next block is cheapest; of equal ones where most nodes are free already, so that large domains become whole.
    Blocks of a broader level are made of those of the closer, where groups are held at several; where also at second
    hierarchies, first what these need.

    All of the type of GPU and the size that needs fewest, unless the job may mix types of one size; and where nothing
    joins the trunks of the cluster, all in the one that needs fewest.

    :returns: indices of nodes; empty when no choice helps.
    """
    nowhere = np.zeros(0, dtype=np.int32)
    if (job.node_sizes or not job.mix_types) and len(jobs := admission.choices(cluster, job)) > 1:
        of_types = [nodes_to_free(cluster, of_type) for of_type in jobs]
        return min((nodes for nodes in of_types if len(nodes)), key=len, default=nowhere)
    if (trunks := cluster.trunks) is None:
        return _nodes_to_free(cluster, job)
    job = job.replace(level=cluster.level(job.level).name)
    parts = [np.flatnonzero(trunks.domain_of == k).astype(np.int32) for k in range(len(trunks))]
    in_trunks = [part[_nodes_to_free(cluster.subset(part), job)] for part in parts]
    return min((nodes for nodes in in_trunks if len(nodes)), key=len, default=nowhere)


def _nodes_to_free(cluster: Cluster, job: Job) -> IntArray:
    beside = admission.room_beside(cluster, job, admission.admissible(cluster, job))
    # groups of one node ask nothing there
    wanted = [([(cluster.level(asked.level), asked.size)], asked.wanted) for asked in beside if asked.size > 1]
    inside = within_the_tree(cluster, job)
    blocks = {
        name: admission.blocks_at(cluster, inside, cluster.level_index(name))
        for name in _freeing_levels(cluster, inside)
    }
    broadest = [*blocks.values()][-1]
    sizes = [(cluster.level(name), of_level.size) for name, of_level in blocks.items()]
    wanted.append((sizes, broadest.rows * broadest.columns))
    freed: list[int] = []
    for sizes, count in wanted:
        if (more := _freed_at(sizes, count, cluster, job)) is None:
            return np.zeros(0, dtype=np.int32)
        freed += more
        cluster = _with_free(cluster, more)
    return np.array(freed, dtype=np.int32)


def _with_free(cluster: Cluster, nodes: Sequence[int]) -> Cluster:
    """Return the cluster once all GPUs of some nodes are free."""
    free_gpus = cluster.free_gpus.copy()
    free_gpus[nodes] = cluster.gpus[nodes]
    return cluster.replace(free_gpus=free_gpus)


def enough_to_free(
    cluster: Cluster, job: Job, *, solver: PlacementAlgorithm, limits: Limits
) -> tuple[IntArray, Evaluation | None]:
    """Return the nodes to free, and what the placement is worth that the solver then finds; ``None`` = there is none.

    Where domains cross that groups are held in, none of them tells what it needs: then those in use of a placement
    that has few of them.
    """
    freed = nodes_to_free(cluster, job)
    worth = run(solver, _with_free(cluster, freed.tolist()), job, limits).evaluation if len(freed) else None
    if worth is None and any(cluster.level(hold.level) in cluster.second_levels for hold in job.holds):
        in_use = admission.admissible(cluster.emptied(), job) & ~admission.admissible(cluster, job)
        emptied = _with_free(cluster, np.flatnonzero(in_use).tolist())
        nodes = run(solver, emptied, job, limits, costs=in_use.astype(np.float64)).proposal.nodes
        if nodes is not None:
            freed = np.intersect1d(nodes, np.flatnonzero(in_use)).astype(np.int32)
            worth = run(solver, _with_free(cluster, freed.tolist()), job, limits).evaluation
    return freed, worth


FreeingStep = tuple[int, int, tuple[tuple[int, int], ...]]
"""A block that a domain can host: what it takes, then a number that is less where more is free, and how many nodes are
to be freed in which closest domains."""


def _joined_steps(steps: Sequence[FreeingStep], each: int) -> list[FreeingStep]:
    """Return blocks of so many blocks each, the cheapest first; what is left over makes none."""
    joined: list[FreeingStep] = []
    for first in range(0, len(steps) - each + 1, each):
        costs, most_free, takes = zip(*steps[first : first + each], strict=True)
        joined.append((sum(costs), min(most_free), tuple(chain(*takes))))
    return joined


def _freed_at(sizes: Sequence[tuple[Level, int]], count: int, cluster: Cluster, job: Job) -> list[int] | None:
    """Return the nodes to free for so many blocks; ``None`` = all in use would not do.

    :param sizes: levels, the closest first, and the cells of a block in one domain of each: those of a broader level
        are made of whole ones of the closer.
    """
    admitted = admission.admissible(cluster, job)
    freeable = admission.admissible(cluster.emptied(), job) & ~admitted
    level, size = sizes[0]
    free, room = count_nodes(level, admitted), count_nodes(level, freeable)
    steps: dict[int, list[FreeingStep]] = {}  # of each domain, the cheapest first
    for k, (have, more) in enumerate(zip(free.tolist(), room.tolist(), strict=True)):
        further = (have + more) // size - have // size
        costs = [0] * (have // size) + [size - have % size, *[size] * (further - 1)][:further]
        steps[k] = [(cost, -have, ((k, cost),)) for cost in costs]
    for (closer, smaller), (broader, larger) in pairwise(sizes):
        some_node = np.zeros(len(closer), dtype=np.int32)
        some_node[closer.domain_of] = np.arange(len(cluster))
        parts: dict[int, list[FreeingStep]] = defaultdict(list)
        for k, of_domain in steps.items():
            parts[int(broader.domain_of[some_node[k]])] += of_domain
        steps = {k: _joined_steps(sorted(of_domain), larger // smaller) for k, of_domain in parts.items()}
    cheapest = sorted(chain.from_iterable(steps.values()))[:count]
    if len(cheapest) < count:
        return None
    left = np.zeros_like(free)
    for _, _, takes in cheapest:
        for k, cost in takes:
            left[k] += cost
    # of each domain the nodes with most GPUs free already: they disturb fewest jobs
    chosen: list[int] = []
    candidates = np.flatnonzero(freeable)
    for node in candidates[np.argsort(-cluster.free_gpus[candidates], kind="stable")]:
        if left[level.domain_of[node]] > 0:
            left[level.domain_of[node]] -= 1
            chosen.append(int(node))
    return chosen
