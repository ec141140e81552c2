"""What a hunter knows of a job beside what its files say: its cluster, where its ranks run, its degrees."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from ground.files import Source
from health.collectives.flagging import read_node_table
from health.look.evidence import Seat
from health.whatif.trace import JobSizes, read_metadata
from scheduler.job import MEGATRON_ORDER
from scheduler.job_files.placement_file import load_names
from topology.cluster import Cluster

PLACEMENT, NODE_MAP, DEGREES = "placement", "node-map", "degrees"
KINDS: tuple[tuple[str, re.Pattern[bytes]], ...] = (
    (PLACEMENT, re.compile(rb'\A\s*\{(?=.*"assignment")', re.DOTALL)),
    (NODE_MAP, re.compile(rb"\A(?:\xef\xbb\xbf)?(?:rank|host),node\s*$", re.MULTILINE | re.IGNORECASE)),
    (DEGREES, re.compile(rb"\A(?=.*^dp_size:)(?=.*^pp_size:)", re.MULTILINE | re.DOTALL)),
)
"""Files that say such, and how they are known."""
_TOKEN = re.compile(r"[-_.@]")
LONGEST_NAME = 8  # Parts between separators of the name of a node


@dataclass(frozen=True)
class InHand:
    """What is known; everything may be missing."""

    cluster: Cluster | None = None
    sizes: JobSizes | None = None
    seats: Mapping[int, Seat] = field(default_factory=dict)  # by rank
    hosts: Mapping[str, str] = field(default_factory=dict)  # as the files call it -> node

    def node(self, name: str) -> str:
        """Return a node as the cluster calls it: with its domain, or without; itself where the cluster has neither."""
        if self.cluster is None or name in self.cluster.index_of or name[:1].isdigit():
            return name
        short = name.partition(".")[0]
        return short if short in self.cluster.index_of else self._whole.get(short, name)

    def node_in(self, text: str) -> str | None:
        """Return the only node of the cluster that part of a file's name is; ``None`` = none, or several."""
        if self.cluster is None:
            return None
        cuts = [0, *(match.end() for match in _TOKEN.finditer(text)), len(text) + 1]
        spans = (text[a : b - 1] for i, a in enumerate(cuts) for b in cuts[i + 1 : i + 1 + LONGEST_NAME])
        found = {span for span in spans if span in self.cluster.index_of}
        # of n1 and n1.dc2 the longer
        found -= {one for one in found for other in found if one != other and one in other}
        return found.pop() if len(found) == 1 else None

    @cached_property
    def _whole(self) -> Mapping[str, str]:
        """Names with a domain, by those without it."""
        names = self.cluster.names if self.cluster is not None else ()
        return {name.partition(".")[0]: name for name in names if "." in name}


def read_in_hand(files: Mapping[str, Source], cluster: Cluster | None = None) -> InHand:
    """Return what files say, by their kind in :data:`KINDS`; metadata outdo a placement, and so does a map.

    :raises ArnoldError: a file cannot be used.
    """
    sizes, seats, hosts = None, dict[int, Seat](), dict[str, str]()
    if (source := files.get(PLACEMENT)) is not None:
        saved = load_names(source)
        per_node, ranks = saved.job.gpus_per_node, saved.job.parallelism.gpus
        seats = {k: Seat(k, ranks, saved.names[k // per_node], k % per_node, None) for k in range(ranks)}
        degrees = saved.job.parallelism
        if degrees.order == MEGATRON_ORDER:  # in which profiles are read
            sizes = JobSizes(
                dp=degrees.dp, pp=degrees.pp, tp=degrees.tp, dsp=degrees.cp, world=degrees.gpus, source=source.name
            )
    if (source := files.get(NODE_MAP)) is not None:
        key, table = read_node_table(source)
        if key == "host":
            hosts = table
        else:
            seats = {int(rank): Seat(int(rank), len(table), node, None, None) for rank, node in table.items()}
    if (source := files.get(DEGREES)) is not None:
        sizes = read_metadata(source)
    return InHand(cluster, sizes, seats, hosts)
