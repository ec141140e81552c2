"""The degrees of parallelism of a job, as its own files say them, and whether a layout agrees with what they hold.

A profile says which process groups its rank is in (``distributedInfo.pg_config``, and of NCCL the arguments of
kernels).  Their descriptions tell what a group is for, their sizes the degrees.  Where a dimension of the job is not
described nothing is guessed: a wrong layout takes the victim of a slow stage for the slow rank, so the files are
refused with what the groups propose.  Megatron-LM's log says the degrees in a line of its own.

Whatever says the degrees, ranks are numbered in Megatron's order, and groups that show another one are refused.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import Any, NamedTuple

from ground.errors import TraceFormatError, few
from health.whatif.converters.chrome_json import open_text
from health.whatif.converters.names import described_family
from health.whatif.trace import LARGEST, JobSizes, RankLayout

HEAD = 65_536  # Characters in which a profile says what it is; PyTorch writes what it knows of the job there
MOST_HEAD = 64 * HEAD  # Characters that the groups of a large job may take
_DISTRIBUTED = re.compile(r'"distributedInfo"\s*:\s*(?=\{)')
_MEGATRON = re.compile(
    r"using world size: (?P<world>\d{1,7}), data-parallel[- ]size: (?P<dp>\d{1,7}),"
    r"(?:.*?context-parallel size: (?P<dsp>\d{1,7}))?"
    r".*?tensor-model-parallel size: (?P<tp>\d{1,7}),.*?pipeline-model-parallel size: (?P<pp>\d{1,7})"
)
_VIRTUAL = re.compile(r"\bvirtual_pipeline_model_parallel_size \.+ (\d{1,7})\b")
_DIMENSIONS = ("tp", "cp", "dp", "pp")  # Families of groups that are degrees, in the order in which ranks are numbered


class ProcessGroup(NamedTuple):
    """A process group, as a profile records it."""

    description: str
    ranks: tuple[int, ...]  # global ranks, ascending

    @property
    def words(self) -> str:
        """The group for a sentence."""
        return f"{self.description or 'a group'} (ranks {few(self.ranks)})"


@dataclass(frozen=True, slots=True)
class JobEvidence:
    """What the profile of one rank shows of its job beside what it computes."""

    groups: tuple[ProcessGroup, ...] = ()  # smaller than the job, of two ranks or more
    hops: tuple[int, ...] = ()  # distances in ranks of transfers between two ranks; 0 = not recorded
    parts: int = 0  # stages of the model that ranges name, counted over all chunks: the largest and one; 0 = none


def groups_of(info: Mapping[str, Any]) -> Iterable[ProcessGroup]:
    """Yield the groups in ``distributedInfo`` that are smaller than the job and no rank alone, and larger ones that say
    that they are no replicas; odd entries are none.
    """
    world, listed = info.get("world_size"), info.get("pg_config")
    for entry in listed if isinstance(listed, list) else ():
        ranks = entry.get("ranks") if isinstance(entry, dict) else None
        if not isinstance(ranks, list) or not all(type(rank) is int and rank >= 0 for rank in ranks):
            continue
        description = str(entry.get("pg_desc", ""))
        if len(ranks) > 1 and (len(ranks) != world or described_family(description) in ("tp", "cp", "pp")):
            yield ProcessGroup(description, tuple(sorted(ranks)))


def degrees_of_profiles(paths: Sequence[str]) -> JobSizes:
    """Return the sizes of a job as its profiles say them; a job without smaller groups has data-parallel ranks alone.

    :raises TraceFormatError: there are smaller groups, and they do not describe every dimension of the job.
    """
    ranks, where = len(paths), paths[0]
    groups: dict[ProcessGroup, None] = {}
    for path in paths:
        info = _distributed_info(path)
        world, rank = (value if type(value := info.get(key)) is int else -1 for key in ("world_size", "rank"))
        ranks = max(ranks, world, rank + 1)
        if not groups:
            where = path
        groups |= dict.fromkeys(groups_of(info))
    if not groups:
        return JobSizes(dp=min(ranks, LARGEST), pp=1, world=min(ranks, LARGEST))
    sizes = _described(groups, ranks)
    if sizes is None:
        names = "; ".join(group.words for group in list(groups)[:3])
        raise unknown_degrees(
            f"is of a job with process groups that are smaller than its {ranks} ranks, and do not describe all of its "
            f"parallelism: {names}",
            where=where,
            world=ranks,
            evidence=JobEvidence(tuple(groups)),
        )
    return sizes


def degrees_of_log(path: str) -> JobSizes | None:
    """Return the sizes that Megatron-LM prints at the beginning of its log; ``None`` = it does not say them."""
    virtual, degrees = 1, None
    with open_text(path) as text:
        for line in text:
            if match := _VIRTUAL.search(line):
                virtual = int(match[1])
            if match := _MEGATRON.search(line):
                degrees = {name: int(value) for name, value in match.groupdict(default="1").items()}
            if "times across ranks (ms):" in line:
                break
    if degrees is None or prod(degrees[name] for name in ("dp", "dsp", "tp", "pp")) != degrees["world"]:
        return None
    dp, pp, tp, dsp = (degrees[name] for name in ("dp", "pp", "tp", "dsp"))
    return JobSizes(dp=dp, pp=pp, tp=tp, dsp=dsp, vpp=virtual, world=degrees["world"])


def _distributed_info(path: str) -> Mapping[str, Any]:
    """Return what PyTorch wrote of the job at the beginning of a profile; empty = nothing."""
    with open_text(path) as text:
        head = text.read(HEAD)
        if (begin := _DISTRIBUTED.search(head)) is None:
            return {}
        while True:
            try:
                info, _ = json.JSONDecoder().raw_decode(head, begin.end())
            except (ValueError, RecursionError):
                more = text.read(len(head)) if len(head) < MOST_HEAD else ""
                if not more:
                    return {}  # a file that is broken is refused where it is read
                head += more
            else:
                return info if isinstance(info, dict) else {}


def _described(groups: Iterable[ProcessGroup], world: int) -> JobSizes | None:
    """Return the sizes by the descriptions of groups; ``None`` = some dimension of the job has none."""
    of_family: dict[str, set[int]] = {}
    for group in groups:
        of_family.setdefault(described_family(group.description), set()).add(len(group.ranks))
    tp, cp, pp = (max(of_family.get(family, {1})) for family in ("tp", "cp", "pp"))
    dp, rest = divmod(world, tp * cp * pp)
    # data-parallel groups of a mesh may be parts of all replicas, and may span context parallelism
    replicas = {1} | of_family.get("dp", set())
    spanned = {size * other for size in replicas for other in replicas}
    # groups that say they are replicas, and are not all of them, leave a dimension that nothing describes
    alone = tp * cp * pp == 1 and "dp" not in of_family and are_alike(groups, world)
    if rest or not (alone or spanned & {dp, dp * cp}):
        return None
    return JobSizes(dp=dp, pp=pp, tp=tp, dsp=cp, world=world)


def are_alike(groups: Iterable[ProcessGroup], world: int) -> bool:
    """Return whether groups that do not say what for are at most one partition of the ranks: of replicas, then, as a
    second dimension would need groups of its own.
    """
    shapes = {
        (len(group.ranks), *{after - before for before, after in pairwise(group.ranks)})
        for group in groups
        if not described_family(group.description)
    }
    if len(shapes) != 1:
        return not shapes
    (shape,) = shapes
    return len(shape) == 2 and world % shape[0] == 0


def unknown_degrees(message: str, *, where: str, world: int, evidence: JobEvidence) -> TraceFormatError:
    """Return the error of a job whose degrees are not known, with those that its groups and transfers propose."""
    # degrees by name that the evidence makes likely
    sizes = _described(evidence.groups, world) if evidence.groups else None
    if sizes is not None:
        given = {"dp": sizes.dp, "pp": sizes.pp, "tp": sizes.tp, "dsp": sizes.dsp}
    else:
        # groups by their stride, from neighbours to ranks far apart: a pipeline has the last place, replicas the next
        strides = {group.ranks[1] - group.ranks[0]: len(group.ranks) for group in evidence.groups}
        of_known = [size for stride, size in sorted(strides.items()) if size > 1 and world % (stride * size) == 0]
        hop = min((hop for hop in evidence.hops if hop), default=0)
        if not of_known and hop and world % hop == 0:
            of_known = [hop, world // hop]
        names = ["dp", "pp"] if evidence.hops or evidence.parts else ["tp", "dp"]
        if len(of_known) > 2:
            names = ["tp", "dp", "pp"]
        given = {"dp": 1, "pp": 1} | dict(zip(names, of_known, strict=False))
        if prod(given.values()) != world:
            given = {"dp": 1, "pp": world} if evidence.hops or evidence.parts else {"dp": world, "pp": 1}
    if evidence.parts > given["pp"] > 1:
        given["vpp"] = -(-evidence.parts // given["pp"])
    given = {name: size for name, size in given.items() if size > 1 or name in ("dp", "pp")}
    lines = ", ".join(f"{name}_size: {size}" for name, size in given.items())
    doubt = "" if _described(evidence.groups, world) else ", if ranks vary in the order tp, dp, pp"
    fix = f"write the degrees of the job, by these {lines}{doubt}, into a file and add --meta FILE"
    return TraceFormatError(message, where=where, fix=fix)


def check_layout(layout: RankLayout, evidence: JobEvidence, *, where: str, guessed: bool) -> None:
    """Make sure that what a rank's profile shows of the job is what its layout says.

    :param guessed: nobody said the degrees, so that transfers between ranks and groups of unknown purpose refute a
        layout of data-parallel ranks alone.
    :raises TraceFormatError: it is not.
    """
    world = layout.world_size
    for group in evidence.groups:
        described = described_family(group.description)
        if group.ranks[-1] >= world or len(group.ranks) >= world:
            continue
        actual = layout.family(group.ranks)
        agrees = described == actual or (described == "cp" and actual == "dp")
        if described in _DIMENSIONS and not agrees:
            fix = "give the sizes of this job; ranks are numbered in Megatron's order, tp, cp, dp, pp"
            degrees = f"dp_size {layout.dp}, pp_size {layout.pp}, tp_size {layout.tp}"
            problem = f"has the group {group.words}, which with {degrees} is none of {described}"
            raise TraceFormatError(problem, where=where, fix=fix)
    if not guessed:
        return
    if layout.pp > 1:
        if evidence.parts > layout.pp * layout.vpp:
            problem = f"names stage {evidence.parts - 1} of the model, more than a stage for each of {layout.pp} ranks"
            raise unknown_degrees(problem, where=where, world=world, evidence=evidence)
        return
    problem = ""
    if layout.tp * layout.dsp == 1 and not are_alike(evidence.groups, world):
        names = "; ".join(group.words for group in evidence.groups[:3])
        problem = f"has process groups that are smaller than the job and do not say what for: {names}"
    if evidence.hops or evidence.parts:
        what = "sends between ranks" if evidence.hops else "passes of a pipeline's stages"
        problem = f"has {what}, so that its ranks are no replicas of one another alone"
    if problem:
        raise unknown_degrees(problem, where=where, world=world, evidence=evidence)
