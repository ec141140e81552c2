"""Other people's traces as op traces, as far as they carry what the analysis needs, and what they do not carry.

Profilers come with every accelerator and framework, so what reads their files is a plug-in, one format each.
"""

from collections.abc import Sequence
from typing import Protocol

from ground.errors import TraceFormatError
from ground.files import open_stream
from ground.formats import Format, FormatGroup, recognise
from ground.plugins import noted
from health.whatif.conversion import Conversion, ConversionSettings
from health.whatif.trace import JobSizes, RankLayout


class ProfileReader(Format, Protocol):
    """Reads one format of profiles; an entry point in the group ``arnold.profile_readers``."""

    def sizes(self, paths: Sequence[str]) -> JobSizes:
        """Return the sizes of a job as its files say them.

        :raises TraceFormatError: they do not say them; the fix names ``--meta`` and the degrees that they propose.
        """

    def read(self, paths: Sequence[str], layout: RankLayout, settings: ConversionSettings) -> Conversion:
        """Convert the files of one job.

        :raises TraceFormatError: a file is not of this format, damaged, or of another job than the layout says.
        """


PROFILE_READERS: FormatGroup[ProfileReader] = FormatGroup(
    "arnold.profile_readers", kind="op-traces", option="--from", error=TraceFormatError
)
"""All formats that can be converted."""


def reader_of(paths: Sequence[str], source: str | None = None) -> ProfileReader:
    """Return what reads the files of one job: the reader of a format by its name, or of what the first file is."""
    if source is not None:
        return PROFILE_READERS.load(source)
    with open_stream(paths[0], error=TraceFormatError) as stream:
        return recognise(PROFILE_READERS, stream)


def sizes_of(paths: Sequence[str], *, source: str | None = None) -> JobSizes:
    """Return the sizes of a job as its files say them; raise an error where they do not."""
    with noted(f"reading {paths[0]}"):
        return reader_of(paths, source).sizes(paths)


def convert(
    paths: Sequence[str], layout: RankLayout, settings: ConversionSettings | None = None, *, source: str | None = None
) -> Conversion:
    """Convert the files of one job; ``source`` is the name of their format, ``None`` = told by the first file."""
    with noted(f"reading {paths[0]}"):
        return reader_of(paths, source).read(paths, layout, settings or ConversionSettings())
