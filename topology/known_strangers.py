"""What people give for a cluster or a list of nodes and that is neither: what it is, and what to give instead.

A text that no reader knows is often the answer to a similar question: the table of ``sinfo`` for a topology, the table
of ``kubectl get nodes`` for its JSON.  Its first lines tell it, and an error then names the command to run.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

_HEAD = 65_536  # Characters of a text that are looked at
_SLURM = "for the topology give `scontrol show topology`, or without one `scontrol show nodes`"
_SLURM_STATES = 'for which nodes are free give `sinfo -N -h -o "%N %t %G"`'
_KUBERNETES = "give `kubectl get nodes,pods -A -o json`"
_FABRIC = "for the fabric give `ibnetdiscover`"
_TABLE = "write a CSV with the columns node,rack,gpus"
_NAMES = "write a node or hostlist a line"


@dataclass(frozen=True)
class Stranger:
    """A kind of text."""

    what: str  # what it is, as in "is ..."
    mark: str  # regular expression of a line that each has
    cluster: str = ""  # what to give for a cluster; empty = it may be one
    nodes: str = _SLURM_STATES  # what to give for a list of nodes; empty = it may be one

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The mark, at the beginning of a line."""
        return re.compile(rf"^{self.mark}", re.MULTILINE)


STRANGERS = (
    Stranger(
        "a table of sinfo, which has states and no topology",
        r"(?:PARTITION +AVAIL|NODELIST +NODES +PARTITION|\S+\*? +(?:up|down|drain|inact) +\S+ +\d+ +\w+\S* +\S+$)",
        f"{_SLURM}, and this with --busy",
        nodes="",
    ),
    Stranger("a table of squeue, which has jobs; nodes that are down run none", r" *JOBID +PARTITION ", _SLURM),
    Stranger(
        "a table of sacct, which has jobs",
        r"(?:JobID +|JobID\||JobIDRaw\|)",
        f"{_SLURM}; what sacct prints is a --trace",
    ),
    Stranger(
        "a slurm.conf, which has no topology and no states",
        r"(?:NodeName|ClusterName|SlurmctldHost|PartitionName)=",
        f"{_SLURM}, or the topology.conf beside it",
    ),
    Stranger(
        "a table of `kubectl get nodes`, without labels and GPUs", r"NAME +STATUS +ROLES ", _KUBERNETES, _KUBERNETES
    ),
    Stranger("a table of kubectl's pods", r"(?:NAMESPACE +)?NAME +READY +STATUS ", _KUBERNETES, _KUBERNETES),
    Stranger("a table of `kubectl top nodes`", r"NAME +CPU\(cores\) ", _KUBERNETES, _KUBERNETES),
    Stranger("the text of `kubectl describe`", r"Name: +\S+\n(?:Roles|Namespace|Labels): ", _KUBERNETES, _KUBERNETES),
    Stranger(
        "what nvidia-smi says of one machine",
        r"(?:.*\bNVIDIA-SMI\b|[ \t]+(?:\x1b\[4m)?GPU0[ \t])",
        f"{_SLURM}; or {_TABLE}",
    ),
    Stranger("what ibstat says of one machine", r"CA '\w+'", _FABRIC),
    Stranger("a list of ibswitches, ibhosts or iblinkinfo", r"(?:(?:Switch|Ca)\t: 0x|(?:CA|Switch): )", _FABRIC),
    Stranger("what pbsnodes says", r" +(?:Mom|ntype|resources_available\.\w+) = ", _TABLE, _NAMES),
    Stranger("a table of LSF's bhosts", r"HOST_NAME +STATUS ", _TABLE, _NAMES),
    Stranger("a web page", r"[ \t]*<(?:!DOCTYPE html|html)\b", "save the text that the page shows", _NAMES),
    Stranger("a job file", r"parallelism:", "give it with --job, and the cluster with --cluster", _NAMES),
    Stranger("a table with commas and without states", r"[^,\s]+,(?:[^,\s]*,)*(?:\(null\)|gpu:\w+)", _SLURM),
)
"""In the order in which they are looked for."""


def stranger_fault(text: str, *, nodes: bool) -> tuple[str, str] | None:
    """Return what a text is and what to give instead; ``None`` = it is no such text.

    :param nodes: whether a list of nodes is wanted; else a cluster.
    """
    head = text[:_HEAD]
    for stranger in STRANGERS:
        fix = stranger.nodes if nodes else stranger.cluster
        if fix and stranger.pattern.search(head):
            return f"is {stranger.what}", fix
    return None
