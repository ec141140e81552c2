"""The verdict on a certificate: what it claims, recounted from the cluster and the job.

Nothing is believed but arithmetic.  The placement is weighed by the evaluator, each part of the question is counted
anew, each refutation is recounted, and what would be better than the answer must be ruled out by those that hold.
"""

from __future__ import annotations

from math import inf
from time import perf_counter

import numpy as np

from ground.errors import InvalidPlacement
from ground.quantities import decimal
from scheduler.certificates.certificate import Certificate
from scheduler.job import Job
from scheduler.objective import TOLERANCE, Evaluation, evaluate, slowest_in_use
from scheduler.verification.counted_grid import counted_out
from scheduler.verification.question_choices import node_choices, sizes_on
from scheduler.verification.recounted_parts import RecountedPart, SolverCheck, nodes_in_words, recounted_parts
from scheduler.verification.rivals import Rivals
from scheduler.verification.verification import CheckedPair, Verdict, Verification
from topology.cluster import Cluster
from topology.flags import HEALTHY


def verify(certificate: Certificate, cluster: Cluster, job: Job, *, solve: SolverCheck | None = None) -> Verification:
    """Check a certificate against a cluster and a job.

    :param solve: decides the pairs that only a search can; ``None`` = these are not told.
    :raises UnknownName: the job names a level that the cluster does not have.
    """
    begun = perf_counter()
    cluster = cluster.tolerating(job.tolerations)
    faults = _other_question(certificate, cluster, job)
    untold: list[str] = []
    worth: Evaluation | None = None
    parts: tuple[RecountedPart, ...] = ()
    bound: float | None = None
    if not faults:
        worth, faults = _placement(certificate, cluster, job)
    if not faults:
        parts = recounted_parts(certificate, cluster, job, solve)
        faults = [fault for one in parts for fault in _faults(one)]
    if not faults and worth is None:
        untold = _not_counted_out(cluster, job)
    elif not faults and worth is not None:
        left = Rivals(certificate, cluster, job, worth, parts).left()
        faults = [one.fault for one in left if one.fault]
        untold = [one.untold for one in left if one.untold]
        bound = None if faults else min([one.bound for one in left], default=worth.objective)
    verdict: Verdict = "not verified" if faults else "cannot be told" if untold else "verified"
    return Verification(
        job=certificate.job,
        verdict=verdict,
        sentence=_sentence(certificate, verdict, [*faults, *untold], cluster=cluster),
        status=certificate.status,
        objective=None if worth is None else worth.objective,
        bound=bound,
        checked=_checked(parts),
        faults=tuple(faults),
        untold=tuple(untold),
        seconds=perf_counter() - begun,
    )


def _other_question(certificate: Certificate, cluster: Cluster, job: Job) -> list[str]:
    """Return where the certificate is about something else than was asked."""
    asked = {"alpha": job.alpha, "level": cluster.level(job.level).name, "avoid": job.avoid}
    claimed = {"alpha": certificate.alpha, "level": certificate.level, "avoid": certificate.avoid}
    return [
        f"it is about {what} {claimed[what]}, and the job says {found}"
        for what, found in asked.items()
        if claimed[what] != found
    ]


def _placement(certificate: Certificate, cluster: Cluster, job: Job) -> tuple[Evaluation | None, list[str]]:
    """Return what the placement is worth, ``None`` = there is none, and what is wrong with what is said of it."""
    own = certificate
    if own.status == "infeasible":
        some = own.nodes or own.spread is not None or own.objective is not None or own.bound is not None
        return None, ["it claims that there is no placement, and has one"] if some else []
    if own.spread is None or own.objective is None or own.bound is None:
        return None, ["it claims that there is a placement, and does not say what it is worth"]
    try:
        worth = _weighed(certificate, cluster, job)
    except InvalidPlacement as error:
        return None, [f"its placement is none: {error.message}"]
    faults = []
    if worth.spread != own.spread:
        said = f"({own.spread.dp}, {own.spread.pp})"
        faults.append(f"its placement has the pair ({worth.dp}, {worth.pp}), and it says {said}")
    if abs(worth.objective - own.objective) > TOLERANCE:
        faults.append(f"its placement has the objective {worth.objective:.9g}, and it says {own.objective:.9g}")
    # where slow nodes have a price the shortest step is claimed, which need not have the least objective
    priced = job.avoid == "price" and bool((cluster.slowdown[cluster.idle] > HEALTHY).any())
    least = worth.objective if own.status == "optimal" and not priced else -inf
    if not least - TOLERANCE <= own.bound <= worth.objective + TOLERANCE:
        faults.append(f"its bound of {own.bound:.9g} does not go with the status {own.status}")
    if own.slowest is not None and own.slowest < slowest_in_use(cluster, worth) and job.avoid == "price":
        faults.append(f"its bound is about nodes up to {own.slowest:g} x slow, and its placement uses slower ones")
    return worth, faults


def _weighed(certificate: Certificate, cluster: Cluster, job: Job) -> Evaluation:
    """Return what the evaluator says of the placement; raise InvalidPlacement where it is none."""
    names = certificate.nodes
    if not names or len({len(row) for row in names}) > 1:
        raise InvalidPlacement("its rows are not equally long")
    if strangers := [name for row in names for name in row if name not in cluster.index_of]:
        raise InvalidPlacement(f"the cluster has no node {strangers[0]!r}")
    nodes = np.array([[cluster.index_of[name] for name in row] for row in names], dtype=np.int32)
    if job.node_sizes:
        # the job leaves the size of its nodes to their type
        kind, size = cluster.gpu_types[cluster.gpu_type_of[nodes[0, 0]]], int(cluster.gpus[nodes[0, 0]])
        if size not in sizes_on(job, kind):
            raise InvalidPlacement(f"the job does not go on nodes of {size} GPUs of the type {kind!r}")
        job = job.replace(gpus_per_node=size, node_sizes=())
    return evaluate(cluster, job, nodes)


def _faults(one: RecountedPart) -> list[str]:
    if one.fault:
        return [one.fault]
    claimed = zip(one.part.refuted, one.pairs, strict=False)
    return [
        f"({claim.dp}, {claim.pp}) is not refuted by {claim.by}: {found.sentence}"
        for claim, (_, found) in claimed
        if found.told == "fails"
    ]


def _not_counted_out(cluster: Cluster, job: Job) -> list[str]:
    """Return why it is not plain that there is no placement; empty = counting shows it, whatever the nodes."""
    for choice in node_choices(cluster, job):
        slowest = choice.slowdowns(cluster)[-1]
        if not counted_out(cluster, choice.job, choice.nodes(cluster, slowest)):
            return ["counting alone does not show that there is no placement"]
    return []


def _checked(parts: tuple[RecountedPart, ...]) -> tuple[CheckedPair, ...]:
    return tuple(
        CheckedPair(
            nodes_in_words(one.part, alone=len(parts) == 1),
            claim.dp,
            claim.pp,
            claim.by,
            found.told,
            found.sentence,
        )
        for one in parts
        for claim, (_, found) in zip(one.part.refuted, one.pairs, strict=False)
    )


def _sentence(certificate: Certificate, verdict: Verdict, reasons: list[str], *, cluster: Cluster) -> str:
    """Return the verdict in words."""
    if reasons:
        more = f" ({len(reasons) - 1} more)" if len(reasons) > 1 else ""
        return f"{verdict}: {reasons[0]}{more}"
    if certificate.status == "infeasible":
        return "verified: there is no placement"
    if certificate.status == "optimal":
        return "verified: no placement is better"
    where = ""
    slow = inf if certificate.slowest is None else certificate.slowest
    if certificate.avoid == "price" and (cluster.slowdown[cluster.idle] > slow).any():
        where = " on healthy nodes" if slow == HEALTHY else f" on nodes up to {slow:g} x slow"
    return f"verified: no placement{where} has an objective below {decimal(certificate.bound or 0.0)}"
