"""Other people's traces as op traces, as far as they carry what the analysis needs, and what they do not carry.

Two sources: Kineto (PyTorch profiler) Chrome traces, one file a rank, and Megatron-LM's timers as logged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from health.whatif.converters.op_trace_output import Conversion
from health.whatif.trace import RankLayout
from topology.errors import InvalidInput, TraceFormatError

Source = Literal["kineto", "megatron-timers"]


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
        with open_text(paths[0]) as text:
            start = text.read(4096).lstrip()
        if not start:
            raise TraceFormatError("is empty", where=paths[0], fix="give a profiler trace or a log")
        source = "kineto" if start.startswith(("{", "[")) else "megatron-timers"
    if source == "kineto":
        return convert_kineto(paths, layout, align_clocks=align_clocks, progress=progress)
    if len(paths) > 1:
        raise InvalidInput("a job has one log of timers", where=paths[1], fix="give the log of the rank that prints it")
    progress(paths[0])
    with open_text(paths[0]) as text:
        return convert_timers(paths[0], text, layout, microbatches=microbatches)
