"""What an answer claims as proved and its certificate does not show: proved by the solver, not to be checked."""

from scheduler.objective import TOLERANCE, trivial_bound
from scheduler.outcome import Instance, Outcome


def unchecked_claims(instance: Instance, outcome: Outcome) -> dict[str, str]:
    """Return what an outcome claims as proved and its certificate does not show: the claim and a sentence.

    :returns: `objective` for what decides, `ep` for the EP spread, else the name of a closer level.
    """
    if outcome.status not in ("optimal", "feasible", "infeasible"):
        return {}
    if outcome.status == "infeasible" and outcome.algorithm != "exact":
        return {}  # its rule admits none, which is not claimed of all placements
    job, worth = instance.job, outcome.evaluation
    at_once = worth is not None and outcome.bound is not None and outcome.bound <= trivial_bound(job) + TOLERANCE
    closer = [of for of in outcome.closer.values() if of.proved]
    experts = outcome.ep is not None and outcome.ep.proved and outcome.ep.spread > 1
    if at_once and not experts and all((of.dp, of.pp) == (1, 1) for of in closer):
        # every group touches one domain at least
        return {}
    from scheduler.certificates.certificate_writer import certificate_of
    from scheduler.verification.verdict import not_shown

    return not_shown(certificate_of(instance, outcome), instance.cluster, job)
