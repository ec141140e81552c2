"""Making the certificate of an outcome: what was refuted, as few pairs as are needed, with their witnesses."""

from collections.abc import Sequence
from math import inf

import numpy as np

from ground.errors import ArnoldError
from ground.records import record_of
from scheduler.certificates.certificate import (
    VERSION,
    Certificate,
    CertifiedGrid,
    CertifiedPart,
    CloserClaim,
    CloserClaims,
    RefutedPair,
)
from scheduler.job import Job
from scheduler.outcome import Instance, Outcome
from scheduler.placement.admission import types_of
from scheduler.placement.types import Refutation
from topology.flags import HEALTHY

# Kinds that are recounted without a search, the quickest first
QUICK = ("edges", "product", "coverage", "rectangles", "patterns")
# Kinds that say more of a grid than counting whole groups and the product of spreads
WITH_MORE = (*QUICK[2:], "components", "shapes", "pieces", "skeleton")


class NothingToCertify(ArnoldError):
    """The outcome claims nothing: no placement was found, and none was shown not to exist."""

    exit_code = 4


def certificate_of(instance: Instance, outcome: Outcome) -> Certificate:
    """Return the certificate of an outcome; raise NothingToCertify: neither a placement nor a proof that none is."""
    status, worth = outcome.status, outcome.evaluation
    if status not in ("optimal", "feasible", "infeasible"):
        fix = "give the solver more time: --time-limit"
        raise NothingToCertify(f"there is nothing to certify: {outcome.verdict}", where="--certificate", fix=fix)
    cluster, job, proposal = instance.cluster, instance.settled(outcome).job, outcome.proposal
    # every part of the question; where there is only one, just with what its answer needs
    proofs = [(of, proof) for of, there in outcome.by_type or ((job, outcome),) for proof in there.proposal.proofs]
    needed = outcome.bound if len(proofs) == 1 and not job.soft and outcome.bound is not None else inf
    parts = []
    for of_types, proof in proofs:
        refuted = fewest_needed(proof.refutations, of_types, needed)
        part = record_of(
            CertifiedPart,
            proof,
            gpu_types=types_of(cluster, of_types),
            gpus_per_node=of_types.gpus_per_node,
            slowest=None if proof.slowest == inf else proof.slowest,
            refuted=tuple(RefutedPair(*pair.pair, pair.by, pair.witness) for pair in refuted),
        )
        parts.append(part)
    named = [] if worth is None or proposal.nodes is None else proposal.nodes.tolist()
    return record_of(
        Certificate,
        outcome,
        job,
        version=VERSION,
        job=job.name,
        level=cluster.level(job.level).name,
        # the bound is of all nodes that the job may have
        slowest=HEALTHY if job.avoid == "strict" else None,
        nodes=tuple(tuple(cluster.names[i] for i in row) for row in named),
        parts=tuple(parts),
        closer=_closer_claims(instance, outcome),
    )


def _closer_claims(instance: Instance, outcome: Outcome) -> CloserClaims | None:
    """Return what is claimed of EP spread and closer levels, of the types that were chosen up to the slowdown that was
    admitted, with the pairs that are needed; ``None`` = nothing is.
    """
    worth, cluster = outcome.evaluation, instance.cluster
    job, there = next(
        (
            (of_types, compared)
            for option, (of_types, compared) in zip(outcome.types, outcome.by_type, strict=False)
            if option.chosen
        ),
        (instance.settled(outcome).job, outcome),
    )
    if worth is None or not (worth.closer or worth.experts) or not there.proposal.proofs:
        return None
    slowest = there.proposal.proofs[0].slowest
    grids: dict[CertifiedGrid, None] = {}
    for proof in there.proposal.closer_proofs:
        # what is ruled out by counting whole groups and the product needs no witness
        refutations = [pair for pair in proof.refutations if pair.by in WITH_MORE]
        needed = fewest_needed(refutations, job, worth.closer.get(proof.level, 0.0))
        if not needed:
            continue
        cells = proof.rows * proof.columns
        grid = record_of(
            CertifiedGrid,
            proof,
            capacities=tuple(min(capacity, cells) for capacity in proof.capacities[:cells]),
            refuted=tuple(RefutedPair(*pair.pair, pair.by, pair.witness) for pair in needed),
        )
        grids[grid] = None
    experts = outcome.ep
    return CloserClaims(
        gpu_types=types_of(cluster, job),
        gpus_per_node=job.gpus_per_node,
        slowest=None if slowest == inf else slowest,
        ep=experts.spread if experts is not None and experts.proved else None,
        levels=tuple(CloserClaim(level, of.dp, of.pp, of.proved) for level, of in outcome.closer.items()),
        grids=tuple(grids),
    )


def fewest_needed(refutations: Sequence[Refutation], job: Job, needed: float) -> list[Refutation]:
    """Return refutations that rule out together what all of them do, the quickest to recount first.

    :param needed: of the pairs that cost less than this by Eq. 2; the others may be left open.
    """
    if not refutations:
        return []
    most = np.array([refutation.pair for refutation in refutations]).max(axis=0)
    s, r = np.arange(1, most[0] + 1)[:, None], np.arange(1, most[1] + 1)[None, :]
    # not yet ruled out, and to be
    wanted = job.alpha * s + job.beta * r < needed
    kept = []
    work = {by: rank for rank, by in enumerate((*QUICK, None, "skeleton"))}
    for refutation in sorted(
        refutations, key=lambda by: (work.get(by.by, len(QUICK)), -by.pair[0] * by.pair[1], by.pair)
    ):
        inside = wanted[: refutation.pair[0], : refutation.pair[1]]
        if inside.any():
            kept.append(refutation)
            inside[:] = False
    return kept
