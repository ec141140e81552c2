"""The profiles of a job, one file a rank: read one after the other, and checked to be of one job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ground.errors import TraceFormatError
from health.whatif.converters.arrivals import ArrivalOrder, breakdown_of
from health.whatif.converters.degrees import check_layout
from health.whatif.converters.op_trace_output import Op
from health.whatif.converters.profile import Profile, read_profile
from health.whatif.converters.rank_ops import RankOps
from health.whatif.step_findings import StepBreakdown
from health.whatif.trace import RankLayout

NAMED = 8  # Most ranks or steps that a sentence names


class RankFiles:
    """What the files of a job hold, read one after the other.

    :param guessed: nobody said the layout, so that files may refute it.
    """

    def __init__(self, layout: RankLayout, *, guessed: bool = False) -> None:
        self.layout, self._guessed = layout, guessed
        self.ops: list[Op] = []
        self.host_timed: Counter[str] = Counter()
        self.arrivals = ArrivalOrder()
        self.breakdown: list[StepBreakdown] = []
        self.absent: list[int] = []  # workers of which no file is there, by their rank
        self.turning, self.on_cpu = False, True
        self._ranks: dict[int, str] = {}
        self._assumed: Counter[str] = Counter()
        self._skipped = self._repaired = 0
        self._origin: int | None = None

    def take(self, path: str) -> None:
        """Read one file."""
        layout = self.layout
        profile = read_profile(path, layout)
        if profile.rank in self._ranks:
            raise TraceFormatError(
                f"is of rank {profile.rank}, as {self._ranks[profile.rank]} is", where=path, fix="give one file a rank"
            )
        self._ranks[profile.rank] = path
        if profile.world_size not in (None, layout.world_size):
            raise TraceFormatError(
                f"is of a job of {profile.world_size} ranks, but the metadata describes {layout.world_size}",
                where=profile.name,
                fix="give the metadata of this job",
            )
        check_layout(layout, profile.evidence, where=profile.name, guessed=self._guessed)
        self._check_stages(profile)
        self._origin = profile.epoch_ns if self._origin is None else self._origin
        plain = layout.pp * layout.tp * layout.dsp == 1
        shift = (profile.epoch_ns - self._origin) * 1e-9
        rank = RankOps(profile, plain=plain, staged=layout.pp > 1, shift=shift)
        ops = list(rank.ops())
        self.arrivals.add(rank)
        if not layout.is_representative(profile.rank):
            self._skipped += 1
            return
        self.breakdown.append(breakdown_of(rank))
        self.ops += ops
        self.host_timed += rank.host_timed
        self.on_cpu &= profile.on_cpu and not len(profile.launch)
        self._repaired += profile.repaired
        self._assumed.update(rank.notes)

    def _check_stages(self, profile: Profile) -> None:
        """Make sure that the stages that ranges name are those of the rank; see whether the model turns round."""
        layout = self.layout
        stage = layout.worker(profile.rank)[1]
        for part in sorted({each.meaning.part for each in profile.ranges} - {-1}):
            chunk, place = divmod(part, layout.pp)
            if chunk >= layout.vpp:
                raise TraceFormatError(
                    f"names stage {part} of the model, and pp_size {layout.pp} x vpp_size {layout.vpp} makes "
                    f"{layout.pp * layout.vpp}",
                    where=profile.name,
                    fix="give pp_size, and as vpp_size how many stages a rank has",
                )
            if place != stage and (chunk % 2 == 0 or place != layout.pp - 1 - stage):
                raise TraceFormatError(
                    f"names stage {part} of the model, which is not on rank {profile.rank} with pp_size {layout.pp} "
                    f"and dp_size {layout.dp}",
                    where=profile.name,
                    fix="give the sizes of this job; ranks are numbered in Megatron's order, tp, cp, dp, pp",
                )
            self.turning |= place != stage

    def check(self) -> None:
        """Make sure that enough workers have files: without a pipeline any one, with one all stages of some rank."""
        layout = self.layout
        self.absent = [rank for rank in layout.representatives() if rank not in self._ranks]
        if not self.absent:
            return
        partial = {layout.worker(rank)[0] for rank in self.absent}
        whole = {dp for dp in range(layout.dp) if dp not in partial}
        if not whole:
            raise TraceFormatError(
                f"{len(self.absent)} of {layout.dp * layout.pp} workers have no file: rank {few(self.absent)}",
                where="FILES",
                fix="profile one rank of every tensor-parallel group (Megatron: --profile-ranks) and give all files",
            )
        self.ops = [op for op in self.ops if layout.worker(op.rank)[0] in whole]

    def notes(self) -> list[str]:
        """Return what to know about the files."""
        notes = []
        if self.absent:
            count = self.layout.dp * self.layout.pp
            notes.append(f"{len(self.absent)} of {count} workers have no file and are not judged: {few(self.absent)}")
        if self._skipped:
            notes.append(f"{self._skipped} files of ranks that share a worker with another were left out")
        if self._repaired:
            notes.append(f"{self._repaired} empty fields in the JSON were filled")
        return notes + list(self._assumed)


def few(numbers: Sequence[int]) -> str:
    """Return the first of many numbers, and that there are more."""
    return ", ".join(map(str, numbers[:NAMED])) + (", ..." if len(numbers) > NAMED else "")
