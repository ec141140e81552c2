"""Other people's traces as op traces, as far as they carry what the analysis needs, and what they do not carry.

Two sources: Kineto (PyTorch profiler) Chrome traces, one file a rank, and Megatron-LM's timers as logged.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Literal

from health.whatif.converters.op_trace_output import Conversion
from health.whatif.trace import LARGEST, JobSizes, RankLayout
from topology.errors import InvalidInput, TraceFormatError
from topology.file_format import FileFormat

Source = Literal["kineto", "megatron-timers"]
_HEAD = 65_536  # Characters in which a profile says what it is, and PyTorch how many ranks the job has
_PROFILE = re.compile(r"\s*(\{|\[\s*[{\]])")  # An object, or a list of events: a log may begin with [default0]:
_DISTRIBUTED = re.compile(r'"distributedInfo"\s*:\s*\{[^{}\[\]]*')
_WORLD = re.compile(r'"world_size"\s*:\s*(\d{1,7})\b')
_RANK = re.compile(r'"rank"\s*:\s*(\d{1,7})\b')


def formats() -> tuple[FileFormat, ...]:
    """Return what users should know of the op trace and of each format that is converted to it."""
    from health.whatif import op_columns
    from health.whatif.converters import kineto, timers

    return op_columns.FORMAT, kineto.FORMAT, timers.FORMAT


def data_parallel_sizes(paths: Sequence[str]) -> JobSizes:
    """Return the sizes of a job of data-parallel ranks only: as many as its profiles say, at least one a file."""
    ranks = len(paths)
    for path in paths:
        if said := _DISTRIBUTED.search(_head(path)):
            world, rank = _WORLD.search(said[0]), _RANK.search(said[0])
            ranks = max(ranks, int(world[1]) if world else 1, int(rank[1]) + 1 if rank else 1)
    return JobSizes(dp=min(ranks, LARGEST), pp=1, world=min(ranks, LARGEST))


def _head(path: str) -> str:
    from health.whatif.converters.chrome_json import open_text

    with open_text(path) as text:
        return text.read(_HEAD)


def convert(
    paths: Sequence[str],
    layout: RankLayout,
    *,
    source: Source | None = None,
    microbatches: int | None = None,
    align_clocks: bool = False,
    progress: Callable[[str], None] = lambda _: None,
) -> Conversion:
    """Convert the files of one job.

    :param source: None = told by the first file: gzip or JSON is Kineto, other text a log.
    :param microbatches: of a step, for logs that do not say it.
    :param align_clocks: for Kineto: make the barrier at the end of a step end at once on all ranks.
    """
    from health.whatif.converters.chrome_json import open_text
    from health.whatif.converters.kineto import convert_kineto
    from health.whatif.converters.timers import convert_timers

    if source is None:
        start = _head(paths[0])
        if not start.strip():
            raise TraceFormatError("is empty", where=paths[0], fix="give a profiler trace or a log")
        source = "kineto" if _PROFILE.match(start) else "megatron-timers"
    if source == "kineto":
        return convert_kineto(paths, layout, align_clocks=align_clocks, progress=progress)
    if len(paths) > 1:
        raise InvalidInput("a job has one log of timers", where=paths[1], fix="give the log of the rank that prints it")
    progress(paths[0])
    with open_text(paths[0]) as text:
        return convert_timers(paths[0], text, layout, microbatches=microbatches)
