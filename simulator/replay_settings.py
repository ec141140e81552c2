"""What decides in a replay: options of ``arnold simulate``, read without the engine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, get_args

from annotated_types import Gt

from simulator.failures.cluster_failures import FailureSettings
from simulator.job_record import JobRecord, ShareBy
from topology.errors import InvalidInput, did_you_mean
from topology.field_types import Seed

if TYPE_CHECKING:
    from scheduler.queue.queue_policy import QueuePolicy

COUNT_ONLY = "none"  # The algorithm that places nothing: GPUs are counted
NO_COST = "none"  # The model of communication under which jobs run as long as the trace says, but for slow nodes


@dataclass(frozen=True)
class QueueSettings:
    """Which job is next: options of every command that replays jobs under one policy."""

    policy: str = field(default="fifo", metadata={"metavar": "NAME"})
    """Which job is tried next, and which may pass others."""
    weights: tuple[str, ...] = field(default=(), kw_only=True, metadata={"metavar": "NAME=W,..", "separator": ","})
    """Weights of namespaces under fair-share; 1 where not said."""
    share_by: ShareBy = field(default="queue", kw_only=True)
    """What of a job names its namespace under fair-share."""

    def __post_init__(self) -> None:
        """Refuse, by :class:`InvalidInput`, what are no weights."""
        self.weight_of  # noqa: B018

    @property
    def weight_of(self) -> Mapping[str, float]:
        """The weights by namespace."""
        from scheduler.queue.fair_share import read_weights

        return read_weights(self.weights, where="--weights")

    def check_sharing(self, policies: Iterable[QueuePolicy], records: Sequence[JobRecord]) -> None:
        """Refuse, by :class:`InvalidInput`, weights that no policy heeds or no job has, and jobs that name nothing.

        :param records: all that there are, before any are left out.
        """
        if not any(policy.sharing for policy in policies):
            if self.weights:
                raise InvalidInput("no policy of this run shares", where="--weights", fix="choose --policy fair-share")
            return
        names = {getattr(record, self.share_by) for record in records} - {""}
        if not names:
            others = [by for by in get_args(ShareBy) if any(getattr(record, by) for record in records)]
            named = " or ".join(f"--share-by {by}" for by in others)
            fix = f"choose {named}" if others else "name the queue of each job in the trace, or choose another policy"
            raise InvalidInput(f"no job of the trace names its {self.share_by}", where="fair-share", fix=fix)
        if unknown := [name for name in self.weight_of if name not in names]:
            some = ", ".join(name[:40] for name in sorted(names)[:5]) + (", ..." if len(names) > 5 else "")
            fix = f"{did_you_mean(unknown[0], names)}give the {self.share_by} of a job: {some}"
            raise InvalidInput(f"no job has the {self.share_by} {unknown[0][:40]!r}", where="--weights", fix=fix)


@dataclass(frozen=True)
class ReplaySettings(QueueSettings):
    """What decides in a replay, and what it knows: options of ``arnold simulate``."""

    algorithm: str = field(default="exact", metadata={"metavar": "NAME"})
    """Where gangs go; none = GPUs are counted, no nodes."""
    placement_seconds: Annotated[float, Gt(0)] = field(
        default=1.0, metadata={"option": "--time-limit", "metavar": "SECONDS"}
    )
    """Seconds of counted work for each placement; then the best so far."""
    predictor: str = field(default="oracle", metadata={"metavar": "NAME"})
    """What the scheduler is told of run times: oracle, estimate, history, boosting."""
    cost: str = field(default=NO_COST, metadata={"metavar": "NAME"})
    """What spread costs jobs: none = nothing, spread, alpha-beta, hierarchical, flows. Slow nodes cost the same in all
    of them."""
    level: str | None = field(default=None, metadata={"metavar": "NAME", "default": "broadest with several"})
    """Level whose domains spread counts."""
    seed: Seed = field(default=0, metadata={"metavar": "N"})
    """Same seed, same run."""
    failures: FailureSettings | None = field(default=None, metadata={"option": False})
    """What goes wrong; ``None`` = nothing."""

    def __post_init__(self) -> None:
        """Refuse, by :class:`InvalidInput`, what are no weights, and nodes asked for where GPUs are only counted."""
        super().__post_init__()
        if self.algorithm != COUNT_ONLY:
            return
        fix = "choose an --algorithm that places"
        if self.failures is not None:
            raise InvalidInput("nodes fail, and this run only counts GPUs", where="--failures", fix=fix)
        if self.cost != NO_COST:
            asked = f"{self.cost!r} asks where jobs lie, and without placement they lie nowhere"
            raise InvalidInput(asked, where="--cost", fix=f"{fix}, or --cost none")
