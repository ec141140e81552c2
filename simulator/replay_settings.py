"""What decides in a replay: options of ``arnold simulate``, read without the engine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, get_args

from annotated_types import Ge, Gt

from ground.errors import InvalidInput, did_you_mean, few
from ground.records import Seed, check_fields
from scheduler.affinity import Gains
from simulator.data_plan import DataPlan
from simulator.failures.cluster_failures import FailureSettings
from simulator.failures.rates import Restart
from simulator.job_record import JobRecord, ShareBy
from simulator.power_file import PowerSettings
from simulator.startup_settings import StartUpSettings
from simulator.throughputs import Throughputs
from topology.flags import FAULTY, NodeFlag

if TYPE_CHECKING:
    from scheduler.queue.policy import QueuePolicy

COUNT_ONLY = "none"  # The algorithm that places nothing: GPUs are counted
NO_COST = "none"  # The model of communication under which place has no effect, but for slow nodes

RESUME = 30.0  # Seconds until a job works again that was stopped at the end of a round, where nothing says it


@dataclass(frozen=True)
class QueueSettings:
    """Which job is next: options of every command that replays jobs under one policy."""

    policy: str = field(default="fifo", metadata={"metavar": "NAME[,..]"})
    """Queue policy, such as fifo, fifo-backfill, priority-age, fair-share or arnold; in replays also gavel or hadar."""
    weights: tuple[str, ...] = field(
        default=(),
        kw_only=True,
        metadata={"option": "--share-weights", "metavar": "NAME=NUMBER,..", "separator": ",", "default": "1 for each"},
    )
    """Weights of namespaces under the policy fair-share."""
    share_by: ShareBy = field(default="queue", kw_only=True)
    """Key of a job that names its namespace under the policy fair-share."""

    def __post_init__(self) -> None:
        """Refuse, by :class:`InvalidInput`, what no field may hold, and what are no weights."""
        check_fields(self)
        self.weight_of  # noqa: B018

    @property
    def weight_of(self) -> Mapping[str, float]:
        """The weights by namespace."""
        from scheduler.queue.fair_share import read_weights

        return read_weights(self.weights, where="--share-weights")

    def check_policies(self, policies: Iterable[QueuePolicy], records: Sequence[JobRecord]) -> None:
        """Refuse, by :class:`InvalidInput`, weights that no policy heeds or no job has, and jobs that name nothing.

        :param records: all that there are, before any are left out.
        """
        if not any(policy.sharing for policy in policies):
            if self.weights:
                fix = "choose --policy fair-share"
                raise InvalidInput("no policy of this run shares", where="--share-weights", fix=fix)
            return
        names = {getattr(record, self.share_by) for record in records} - {""}
        if not names:
            others = [by for by in get_args(ShareBy) if any(getattr(record, by) for record in records)]
            named = " or ".join(f"--share-by {by}" for by in others)
            fix = f"choose {named}" if others else "name the queue of each job in the trace, or choose another policy"
            raise InvalidInput(f"no job of the trace names its {self.share_by}", where="fair-share", fix=fix)
        if unknown := [name for name in self.weight_of if name not in names]:
            some = few(name[:40] for name in sorted(names))
            fix = f"{did_you_mean(unknown[0], names)}give the {self.share_by} of a job: {some}"
            raise InvalidInput(f"no job has the {self.share_by} {unknown[0][:40]!r}", where="--share-weights", fix=fix)


@dataclass(frozen=True)
class ReplaySettings(QueueSettings):
    """What decides in a replay, and what it knows: options of ``arnold simulate``."""

    algorithm: str = field(default="exact", metadata={"metavar": "NAME[,..]"})
    """Placement algorithm, one that `arnold compare --list` names; none counts GPUs and places nothing."""
    placement_seconds: Annotated[float, Gt(0)] = field(
        default=1.0, metadata={"option": "--time-limit", "metavar": "SECONDS"}
    )
    """Seconds for each placement; then the best so far counts."""
    predictor: str = field(default="oracle", metadata={"metavar": "NAME"})
    """What the scheduler knows of run times: oracle (all), estimate, history or boosting."""
    cost: str | None = field(
        default=None,
        metadata={"option": "--cost-model", "metavar": "NAME", "default": "anchored where jobs have places"},
    )
    """Model of what spread costs jobs: anchored, spread, alpha-beta, hierarchical or flows; none where it costs
    nothing."""
    level: str | None = field(default=None, metadata={"metavar": "NAME", "default": "broadest with several"})
    """Level of the cluster whose domains spread counts."""
    seed: Seed = field(default=0, metadata={"metavar": "N"})
    """Seed of all that is drawn: same seed, same answer, where no clock ends a search."""
    records: tuple[Gains, ...] = field(default=(), metadata={"option": False})
    """Own measurements of what spread costs jobs."""
    resume_seconds: Annotated[float, Ge(0)] | None = field(
        default=None, metadata={"metavar": "SECONDS", "default": f"{RESUME:g}"}
    )
    """Seconds from the start of a job that a queue policy in rounds had stopped until it works again."""
    throughputs: Throughputs | None = field(default=None, metadata={"option": False})
    """How fast jobs are on types of GPU; ``None`` = as fast on each."""
    failures: FailureSettings | None = field(default=None, metadata={"option": False})
    """What goes wrong; ``None`` = nothing."""
    flags: tuple[NodeFlag, ...] = field(default=(), metadata={"option": False})
    """Slow and faulty nodes besides those of the cluster, each from its ``since`` to its ``until``."""
    data: DataPlan | None = field(default=None, metadata={"option": False})
    """The data sets that jobs read, and caches for them; ``None`` = no job waits for data."""
    startup: StartUpSettings | None = field(default=None, metadata={"option": False})
    """What gangs wait for before they work; ``None`` = nothing."""
    epoch: float | None = field(default=None, metadata={"option": False})
    """Seconds since 1970 UTC at second 0 of the trace's clock; ``None`` = as its dates say."""
    power: PowerSettings | None = field(default=None, metadata={"option": False})
    """What nodes draw, and what power domains may; ``None`` = nothing is told of power."""

    def __post_init__(self) -> None:
        """Refuse, by :class:`InvalidInput`, what are no weights, nodes asked for where GPUs are only counted, and one
        thing said twice.
        """
        super().__post_init__()
        if self.startup is not None and self.resume_seconds is not None:
            problem = "what a job that was stopped waits for is said by --startup"
            raise InvalidInput(problem, where="--resume-seconds", fix="leave out --resume-seconds, or --startup")
        if self.algorithm != COUNT_ONLY:
            return
        fix = "choose an --algorithm that places"
        if faulty := [flag.node for flag in self.flags if flag.slowdown == FAULTY and (flag.since or flag.until)]:
            problem = f"{faulty[0]} is faulty for a time, and this run only counts GPUs"
            raise InvalidInput(problem, where="--flags", fix=fix)
        of_nodes = {
            "failures": "nodes fail", "power": "power is of nodes", "data": "jobs read near caches",
            "startup": "nodes keep images",
        }  # fmt: skip
        for name, words in of_nodes.items():
            if getattr(self, name) is not None:
                raise InvalidInput(f"{words}, and this run only counts GPUs", where=f"--{name}", fix=fix)
        if self.cost not in (None, NO_COST):
            asked = f"{self.cost!r} asks where jobs lie, and without placement they lie nowhere"
            raise InvalidInput(asked, where="--cost-model", fix=f"{fix}, or --cost-model none")

    @property
    def failing(self) -> FailureSettings | None:
        """What goes wrong: where starts take their time, so do those after a failure."""
        if self.failures is None or self.startup is None:
            return self.failures
        return replace(self.failures, restart=Restart(kind="start-up"))

    def check_policies(self, policies: Iterable[QueuePolicy], records: Sequence[JobRecord]) -> None:
        """Refuse, by :class:`InvalidInput`, what no policy heeds besides: seconds after the end of a round."""
        policies = list(policies)
        super().check_policies(policies, records)
        if self.resume_seconds is not None and all(policy.round_seconds is None for policy in policies):
            problem = "no policy of this run stops jobs at the end of a round"
            fix = "leave it out, or choose --policy gavel or hadar"
            raise InvalidInput(problem, where="--resume-seconds", fix=fix)

    @property
    def resume_delay(self) -> float:
        """Seconds until a job that was stopped at the end of a round works again, besides its start-up."""
        if self.startup is not None:
            return 0.0
        return RESUME if self.resume_seconds is None else self.resume_seconds

    @property
    def cost_model(self) -> str:
        """The name of the model of communication of the run: as asked, else ``anchored`` where jobs have places.

        What a run, its documents and the fingerprint of a study go by; ``cost`` itself says only whether one was asked
        for, which is an error where jobs have no places.
        """
        if self.cost is not None:
            return self.cost
        return NO_COST if self.algorithm == COUNT_ONLY else "anchored"
