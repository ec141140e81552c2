"""What is known of a job's affinity: what it says, else what its model gives, else the default; and models by name.

The one rule for job files, gangs on Kubernetes, replays and questions of capacity.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ground.errors import InvalidJob, did_you_mean
from scheduler.affinity import RECORDS, Gains, Model, Record, affinity
from scheduler.affinity import microbatches as microbatches_of
from scheduler.job import DEFAULT_ALPHA, DEFAULT_SPREAD_COST, Parallelism

_VOCAB = 103_168  # of InternLM

NAMED_MODELS: Mapping[str, Model] = {
    "llm-7b": Model(hidden=4096, layers=32, vocab=_VOCAB, sequence_length=2048),
    "llm-20b": Model(hidden=5120, layers=60, vocab=_VOCAB, sequence_length=4096),
    "llm-123b": Model(hidden=10240, layers=96, vocab=_VOCAB, sequence_length=4096),
    **{record.name: record.model for record in RECORDS},
}
"""Models that a job may name instead of describing its own: those of synthetic workloads, and those that were measured.

Sizes of the first three are those of the Acme paper (7B and 123B; NSDI 2024, section 4) and of InternLM (20B); width
and depth of the 123B model are inferred from its parameters (12 * layers * hidden^2 + vocabulary).
"""


def named_model(name: str) -> Model:
    """Return the model of that name.

    :raises InvalidJob: no model is called that.
    """
    if name not in NAMED_MODELS:
        fix = (
            f"{did_you_mean(name[:80], NAMED_MODELS)}describe it (hidden, layers, vocab, sequence_length), or name one "
        )
        fix += f"of {', '.join(NAMED_MODELS)}"
        raise InvalidJob(f"no model is called {name[:80]!r}", where="model", fix=fix)
    return NAMED_MODELS[name]


@dataclass(frozen=True, slots=True)
class JobAffinity:
    """Alpha, what one unit of the objective costs, and the microbatches of a step."""

    alpha: float
    spread_cost: float  # share of the step time
    microbatches: int | None  # None = not known
    # where alpha is from, as a sentence for the user; empty where the job says it and nothing else was measured
    reason: str = ""


def job_affinity(
    parallelism: Parallelism,
    *,
    alpha: float | None = None,
    model: Model | None = None,
    microbatches: int | None = None,
    records: Sequence[Gains] = (),
) -> JobAffinity:
    """Return what a job says, what its model gives where it says nothing, or the default.

    :param records: own measurements: kinds of jobs beside the built-in ones, or one for all jobs.
    :raises InvalidJob: the model's global batch does not divide into microbatches.
    """
    if microbatches is None and model is not None:
        microbatches = microbatches_of(model, parallelism)
    of_kinds = [one for one in records if isinstance(one, Record)]
    of_all = next((one for one in records if not isinstance(one, Record)), None)
    if of_all is not None:
        found, cost = of_all.alpha, of_all.spread_cost
        reason = f"alpha {found:.2g} as measured: {of_all.name} ({of_all.said})"
    elif model is not None:
        derived = affinity(model, parallelism, (*of_kinds, *RECORDS))
        found, cost, reason = derived.alpha, derived.record.spread_cost, derived.reason
    else:
        found, cost = DEFAULT_ALPHA, DEFAULT_SPREAD_COST
        reason = f"alpha {DEFAULT_ALPHA} by default: the job gives neither alpha nor model"
    if alpha is None:
        return JobAffinity(found, cost, microbatches, reason)
    return JobAffinity(alpha, cost, microbatches, f"alpha {alpha:.2g} as asked, not {reason}" if records else "")
