"""Questions whose jobs are placed with an affinity: given, or by what they train, as a job file says it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

from ground.errors import InvalidInput, InvalidJob
from ground.records import Share
from scheduler.job import DEFAULT_ALPHA
from scheduler.job_files.own_records import OwnRecords
from simulator.capacity.capacity_question import A, CapacityQuestion

if TYPE_CHECKING:
    from scheduler.affinity import Model
    from scheduler.job_affinity import JobAffinity
    from simulator.capacity.job_shape import JobShape

SizedShape: TypeAlias = "tuple[JobShape, int]"  # Shape and PP groups of a job


@dataclass(frozen=True, kw_only=True)
class AffinityQuestion(OwnRecords, CapacityQuestion[A]):
    """A question about jobs that are placed to be fast."""

    alpha: Share | None = field(
        default=None, metadata={"metavar": "SHARE", "default": f"by --model, else {DEFAULT_ALPHA:g}"}
    )
    """DP affinity of the job, 0 to 1; the PP affinity is 1 minus this."""
    model: str | None = field(default=None, metadata={"metavar": "NAME|YAML"})
    """Model that the jobs train, for their alpha: its name or shape, as in a job file."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.trained, self.measured

    @cached_property
    def trained(self) -> Model | None:
        """The shape of what the jobs train.

        :raises InvalidInput: the model is neither a name that is known nor a shape.
        """
        if self.model is None:
            return None
        # not at the top: it takes pydantic, which the help can do without
        from scheduler.job_files.job_file import read_model

        try:
            # How many microbatches there are depends on the size, and a batch divides into few of those that are tried.
            return replace(read_model(self.model), global_batch=None)
        except InvalidJob as error:
            raise InvalidInput(error.message, where="--model", fix=error.fix) from None

    def affinity(self, shape: JobShape, rows: int) -> JobAffinity:
        """Return the affinity of a job, by the rule that job files have."""
        from scheduler.job_affinity import job_affinity

        return job_affinity(shape.job(rows).parallelism, alpha=self.alpha, model=self.trained, records=self.measured)

    def alpha_of_all(self, jobs: Iterable[SizedShape]) -> float | None:
        """Return the alpha that all jobs have; ``None`` where they differ, or there are none."""
        found = {self.affinity(shape, rows).alpha for shape, rows in jobs}
        return found.pop() if len(found) == 1 else None

    def where_alpha_is_from(self, jobs: Iterable[SizedShape]) -> Iterator[str]:
        """Yield a sentence for each reason why jobs have their alpha; none where it is given."""
        shapes: dict[str, dict[str, None]] = {}
        for shape, rows in jobs:
            shapes.setdefault(self.affinity(shape, rows).reason, {})[shape.name] = None
        for reason, names in shapes.items():
            if reason and self.model is None and self.records is None:
                yield f"Alpha is {DEFAULT_ALPHA:g} by default: neither --alpha nor --model is given."
            elif reason:
                yield f"Jobs of shape {', '.join(names)}: {reason}."


def spelled(alpha: float | None) -> str:
    """Return an alpha in words: ``alpha 0.3``; of jobs that differ, that each has its own."""
    return "each job's own alpha" if alpha is None else f"alpha {alpha:g}"
