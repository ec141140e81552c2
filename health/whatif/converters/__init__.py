"""Other people's traces as op traces, as far as they carry what the analysis needs, and what they do not carry.

Two sources: Kineto (PyTorch profiler) Chrome traces, one file a rank, and Megatron-LM's timers as logged.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Literal

from ground.errors import InvalidInput, TraceFormatError
from ground.formats import FileFormat
from health.whatif.conversion import Conversion
from health.whatif.trace import JobSizes, RankLayout

Source = Literal["kineto", "megatron-timers"]
_HEAD = 1_000  # Characters in which a file shows what it is
_PROFILE = re.compile(r"\s*(\{|\[\s*[{\]])")  # An object, or a list of events: a log may begin with [default0]:


def formats() -> tuple[FileFormat, ...]:
    """Return what users should know of the op trace and of each format that is converted to it."""
    from health.whatif import trace
    from health.whatif.converters import kineto, timers

    return trace.FORMAT, kineto.FORMAT, timers.FORMAT


def kind_of(path: str) -> Source:
    """Return what a file is, by its beginning: gzip or JSON is Kineto, other text a log."""
    start = _head(path)
    if not start.strip():
        raise TraceFormatError("is empty", where=path, fix="give a profiler trace or a log")
    return "kineto" if _PROFILE.match(start) else "megatron-timers"


def sizes_of(paths: Sequence[str], *, source: Source | None = None) -> JobSizes:
    """Return the sizes of a job as its files say them; of profiles that say no groups, data-parallel ranks alone.

    :raises TraceFormatError: they do not say them; the fix has the degrees that they propose.
    """
    from health.whatif.converters.degrees import degrees_of_log, degrees_of_profiles

    if (source or kind_of(paths[0])) == "kineto":
        return degrees_of_profiles(paths)
    sizes = degrees_of_log(paths[0])
    if sizes is None:
        fix = "add --meta FILE with the lines dp_size: N, pp_size: N, tp_size: N, or keep the beginning of the log"
        wrong = "does not say the degrees of the job: it lacks the line `using world size: ...`"
        raise TraceFormatError(wrong, where=paths[0], fix=fix)
    return sizes


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
    guessed: bool = False,
    progress: Callable[[str], None] = lambda _: None,
) -> Conversion:
    """Convert the files of one job.

    :param source: None = told by the first file: gzip or JSON is Kineto, other text a log.
    :param microbatches: of a step, for logs that do not say it.
    :param align_clocks: for Kineto: make the barrier at the end of a step end at once on all ranks.
    :param guessed: the layout is that of :func:`sizes_of`, so that profiles may refute it.
    """
    from health.whatif.converters.chrome_json import open_text
    from health.whatif.converters.kineto import convert_kineto
    from health.whatif.converters.timers import convert_timers

    if (source or kind_of(paths[0])) == "kineto":
        return convert_kineto(paths, layout, align_clocks=align_clocks, guessed=guessed, progress=progress)
    if len(paths) > 1:
        raise InvalidInput("a job has one log of timers", where=paths[1], fix="give the log of the rank that prints it")
    progress(paths[0])
    with open_text(paths[0]) as text:
        return convert_timers(paths[0], text, layout, microbatches=microbatches)
