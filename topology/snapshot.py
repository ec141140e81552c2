"""A cluster as it stood at one instant, in one file that every command takes as its cluster.

The file holds what the cluster's own tools printed, unread, each text under the name that errors call it by, with the
time and with the options that say how to read them.  So an old snapshot is read as well as a new one, and a job may ask
of it (``--partition``, ``--time``, ``--reservation``) what it may ask of the live cluster.  Times that Slurm prints are
local ones: the file says of which offset from UTC.

A version counts up when the format changes so that older programs would misread it; a file of a newer one is refused.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta, timezone
from typing import Annotated, ClassVar, Literal, Self

from annotated_types import Interval
from pydantic import BaseModel, ConfigDict, NonNegativeInt

from ground.documents import load_document
from ground.errors import InvalidInput
from ground.files import Source
from ground.formats import FileFormat, recognise
from ground.quantities import DAY
from ground.records import AwareTime
from topology.node_gpus import SharedGpus
from topology.readers.reading import TOPOLOGY_READERS, Reading, Unpacked
from topology.slurm_snapshot import Unlisted

VERSION = 1


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Text(_Strict):
    """What a tool printed, or what stood in a file."""

    name: str
    """The command or file, as errors call it."""
    text: str
    """As it is."""
    numbered: bool = True
    """Whether a reader can look at its lines; those of an answer to Arnold are seen by nobody."""

    @classmethod
    def of(cls, sources: Iterable[Source]) -> list[Self]:
        """Return what stands in sources."""
        return [cls(name=source.name, text=source.text, numbered=source.numbered) for source in sources]


class ReadWith(_Strict):
    """Options that say how to read the cluster; null or left out = not given."""

    levels: list[str] | None = None
    level_names: list[str] | None = None
    domains: dict[str, str] | None = None
    gpus_per_node: int | None = None
    gpu_type: str | None = None
    gpu_resource: str | None = None
    shared_gpus: SharedGpus | None = None
    unlisted: Unlisted | None = None


class SnapshotFile(_Strict):
    """The file."""

    arnold: Literal["snapshot"] = "snapshot"
    """What it is."""
    version: NonNegativeInt = VERSION
    """Version of the format."""
    time: AwareTime
    """When the cluster was so, ISO 8601 with an offset; counts as now unless `--at` says another time."""
    utc_offset: Annotated[int, Interval(gt=-DAY, lt=DAY)]
    """Seconds by which local times in the texts are ahead of UTC."""
    source: str
    """What the cluster was called: slurm:, kube:CONTEXT or a file."""
    format: str | None = None
    """Format of the topology; null = recognised by its content."""
    read_with: ReadWith = ReadWith()
    """How to read it."""
    cluster: Text
    """The topology."""
    lists: list[Text] = []
    """Lists of nodes in use, or what Slurm says of nodes, partitions, reservations and planned starts."""
    running: list[Text] | None = None
    """Jobs that run, in any format of running jobs; null = nobody said which do."""
    jobs_in_cluster: bool = False
    """Whether the text of the topology has jobs that run, too: pods."""
    flags: list[Text] = []
    """Flags of nodes."""

    def unpacked(self, name: str) -> Unpacked:
        """Return what is in it; ``name``: what the file is called; empty = it is no file yet."""
        above = f"{name}, " if name else ""

        def sources(texts: Iterable[Text]) -> tuple[Source, ...]:
            return tuple(Source(f"{above}{text.name}", text.text, text.numbered) for text in texts)

        (cluster,) = sources([self.cluster])
        return Unpacked(
            cluster=cluster,
            format=self.format,
            lists=sources(self.lists),
            running=None if self.running is None else (*[cluster] * self.jobs_in_cluster, *sources(self.running)),
            flags=sources(self.flags),
            options={option: value for option, value in self.read_with.model_dump().items() if value is not None},
            time=self.time.astimezone(UTC),
            local=timezone(timedelta(seconds=self.utc_offset)),
        )

    def text(self) -> str:
        """Return the file as JSON, a text a line."""
        return self.model_dump_json(exclude_none=True, indent=1) + "\n"


class ClusterSnapshot:
    """Reader of snapshots."""

    format: ClassVar = FileFormat(
        "snapshot",
        source="A cluster as it stood at one instant",
        export="`arnold snapshot --cluster slurm: -o snapshot.json`",
        read="topology, states of nodes, jobs that run, reservations, flags, the time, how to read all that",
        left_out="",
        marks=("arnold", "snapshot", "version"),
    )
    chooses_levels: ClassVar = True

    def likeness(self, head: bytes) -> float:
        """Return whether it says first that it is one."""
        return float(head[:200].translate(None, b" \t\r\n").removeprefix(b"\xef\xbb\xbf").startswith(_MARK))

    def read(self, source: Source, *, levels: Sequence[str] | None, now: datetime) -> Reading:
        """Read the topology in it alone; with all that lies over it :func:`~topology.load.load_topology` reads it."""
        topology = self.unpack(source).cluster
        return recognise(TOPOLOGY_READERS, topology).read(topology, levels=levels, now=now)

    def unpack(self, source: Source) -> Unpacked:
        """Return what is in it; raise as :func:`read_file`."""
        return read_file(source).unpacked(source.name)


_MARK = b'{"arnold":"snapshot"'


def read_file(source: Source) -> SnapshotFile:
    """Return a snapshot as it stands in its file.

    :raises InvalidInput: it is damaged, or of a version that is not known yet.
    """
    document = load_document(source)
    version = document.data.get("version") if isinstance(document.data, dict) else None
    if isinstance(version, int) and version > VERSION:
        newer = f"this is version {version} of a snapshot, and {VERSION} is the newest that is known"
        fix = "use the version of Arnold that wrote it, or a later one"
        raise InvalidInput(newer, where=document.where("version"), fix=fix)
    return document.parse(SnapshotFile)
