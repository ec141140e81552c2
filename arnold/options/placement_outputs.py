"""What `arnold place` and `arnold repair` save a placement to: JSON, and the files that launchers read.

Sources:

- Slurm: srun(1) and sbatch(1), https://slurm.schedmd.com/srun.html.  ``--distribution=arbitrary`` lays tasks out in the
  order of the file that ``SLURM_HOSTFILE`` names, one host a line, and cannot be combined with ``--nodes`` on the same
  command line; ``--nodelist`` takes a hostlist and forgets its order.
- Open MPI: mpirun(1), "Rankfiles", https://docs.open-mpi.org/en/main/man-openmpi/man1/mpirun.1.html: a line
  ``rank N=HOST slot=CORES`` for each process.
- torchrun: https://docs.pytorch.org/docs/stable/elastic/run.html and the help of ``torch.distributed.run``:
  ``--node-rank``, ``--master-addr`` and ``--master-port`` are heeded by the static rendezvous alone; the rendezvous
  ``c10d`` chooses ranks by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, cast, get_args

from arnold.console.output import to_json
from arnold.options.shared_options import ALGORITHM_HELP, PAGE_HELP
from ground.errors import InvalidInput, did_you_mean
from ground.quantities import plural
from scheduler.job import Job

if TYPE_CHECKING:
    from arnold.documents.place_answer import PlaceDocument
    from arnold.documents.repair_answer import RepairDocument

LauncherFormat = Literal["hostfile", "rankfile", "nodelist", "slurm", "torchrun", "mpi"]

MASTER_PORT = 29_500  # The default of torchrun; the node of rank 0 is the job's alone, so nothing else takes it


@dataclass(frozen=True, slots=True)
class LaunchOrder:
    """The nodes of a job by node rank, and how many GPUs of each it takes.

    :raises InvalidInput: a name of a node cannot stand in these files.
    """

    nodes: Sequence[str]  # names, in order of node rank
    gpus_per_node: int
    ranks: int  # GPUs of the job: processes that train
    asked: Mapping[str, str] = field(default_factory=dict)  # option of sbatch -> its value: what the nodes are free for

    def __post_init__(self) -> None:
        # not at the top: the help of commands needs the names of the formats, and no arrays
        from topology.node_names import check_name

        for name in self.nodes:
            check_name(name, what="files for launchers")

    @property
    def hostlist(self) -> str:
        """Which nodes, not in which order."""
        from topology.node_names import fold_hostlist

        return fold_hostlist(self.nodes)

    def ranks_on(self, node_rank: int) -> range:
        """Return the global ranks of the GPUs of a node, which follow each other."""
        first = node_rank * self.gpus_per_node
        return range(first, min(first + self.gpus_per_node, self.ranks))

    def hostfile(self) -> str:
        """Return one node a line."""
        return "\n".join([*self.nodes, ""])

    def nodelist(self) -> str:
        """Return a hostlist on one line, for ``--nodelist``: which nodes, not in which order."""
        return self.hostlist + "\n"

    def slurm(self) -> str:
        """Return a batch script; its lines can be put in another.

        The delimiter of the list of nodes has spaces, which no name of a node has.
        """
        nodes = len(self.nodes)
        asked = "".join(f"#SBATCH --{option}={quote(value)}\n" for option, value in self.asked.items())
        return f"""\
#!/bin/bash
# To start one task a GPU:   sbatch THIS_FILE COMMAND
# To start one task a node:  sbatch --ntasks={nodes} --ntasks-per-node=1 THIS_FILE COMMAND
#SBATCH --nodelist={self.hostlist}
#SBATCH --nodes={nodes}
#SBATCH --ntasks={self.ranks}
#SBATCH --ntasks-per-node={self.gpus_per_node}
#SBATCH --gpus-per-node={self.gpus_per_node}
{asked}
# Slurm sorts the nodes of a job by name; here they are in order of ranks, a line for each task.
export SLURM_HOSTFILE=$(mktemp)
awk -v tasks="$SLURM_NTASKS_PER_NODE" '{{ for (i = 0; i < tasks; i++) print }}' > "$SLURM_HOSTFILE" << 'END OF NODES'
{self.hostfile()}END OF NODES
srun --distribution=arbitrary --ntasks="$SLURM_NTASKS" "$@"
"""

    def torchrun(self) -> str:
        """Return a line for each node: its name, and the command that is run there, up to the training script."""
        common = (
            f"--nnodes={len(self.nodes)} --rdzv-backend=static "
            f"--master-addr={quote(self.nodes[0])} --master-port={MASTER_PORT}"
        )
        return "".join(
            f"{quote(name)} torchrun {common} --nproc-per-node={len(self.ranks_on(rank))} --node-rank={rank}\n"
            for rank, name in enumerate(self.nodes)
        )

    def rankfile(self) -> str:
        """Return a rankfile of Open MPI with one process a node."""
        return "".join(f"rank {rank}={name} slot=0:*\n" for rank, name in enumerate(self.nodes))

    def mpi(self) -> str:
        """Return a rankfile of Open MPI with one process a GPU, each on a core of its own."""
        return "".join(
            f"rank {rank}={name} slot={slot}\n"
            for node_rank, name in enumerate(self.nodes)
            for slot, rank in enumerate(self.ranks_on(node_rank))
        )


LAUNCHER_FILES: Mapping[LauncherFormat, Callable[[LaunchOrder], str]] = MappingProxyType(
    {kind: getattr(LaunchOrder, kind) for kind in get_args(LauncherFormat)}
)
"""Format -> the method of its name, which makes the text of its file."""

RankOrder = Literal["free", "slurm"]
PlacementFormat = Literal["json", LauncherFormat]
ENDS: dict[str, PlacementFormat] = {
    **{cast("PlacementFormat", kind): kind for kind in get_args(PlacementFormat)},
    "sbatch": "slurm",
    "sh": "slurm",
}
"""What the name of a file may end in -> format."""


@dataclass(frozen=True, slots=True)
class PlacementOutputs:
    """Files that a placement is saved to, and their formats."""

    output: tuple[str, ...] = field(default=(), metadata={"file": "result"})
    """Save the placement, as JSON for `arnold repair` or in the format of a launcher."""
    output_format: tuple[PlacementFormat, ...] = field(
        default=(), metadata={"default": "what the name of the file ends in; json without an end"}
    )
    """Format of the --output of the same number, one for each or none."""

    def formats(self) -> Mapping[str, PlacementFormat]:
        """Return file -> format, in order.

        :raises InvalidInput: there are not as many formats as files, or the end of a name says none.
        """
        if self.output_format and len(self.output_format) != len(self.output):
            given = f"{plural(len(self.output_format), 'format')} for {plural(len(self.output), 'file')}"
            fix = "give each --output FILE its own --output-format, in the same order"
            raise InvalidInput(given, where="--output-format", fix=fix)
        if self.output_format:
            return dict(zip(self.output, self.output_format, strict=True))
        formats: dict[str, PlacementFormat] = {}
        for file in self.output:
            # job.hostfile or just hostfile
            name = Path(file).name.lower()
            end = name.rpartition(".")[2]
            if end not in ENDS and "." in name:
                ends = ", ".join(f".{end}" for end in ENDS)
                fix = f"{did_you_mean(end, ENDS)}end the name in one of {ends}, or say --output-format"
                raise InvalidInput(f"'.{end}' says no format of a placement", where=file, fix=fix)
            formats[file] = ENDS.get(end, "json")
        return formats

    def texts(self, document: PlaceDocument | RepairDocument, job: Job, *, asked: Mapping[str, str]) -> dict[str, str]:
        """Return file -> what stands in it.

        :param document: what the JSON is, with a placement in it.
        :param asked: option of sbatch -> its value, as it was asked which nodes are free.
        :raises InvalidInput: a name cannot stand in a file of its format.
        """
        texts: dict[str, str] = {}
        for file, kind in self.formats().items():
            if kind == "json":
                texts[file] = to_json(document) + "\n"
                continue
            nodes = [cell.node for cell in document.assignment]
            try:
                texts[file] = LAUNCHER_FILES[kind](LaunchOrder(nodes, job.gpus_per_node, job.parallelism.gpus, asked))
            except InvalidInput as error:
                error.where = file
                raise
        return texts


@dataclass(frozen=True, slots=True)
class PlaceOptions(PlacementOutputs):
    """What `arnold place` is asked beside the cluster and the jobs: by which algorithm, and what it writes."""

    algorithm: str = field(default="exact", metadata={"metavar": "NAME", "help": ALGORITHM_HELP})
    rank_order: RankOrder = "free"
    """Ranks as is best (free), or in the order of the names of the nodes, as Slurm numbers them."""
    certificate: str | None = field(default=None, metadata={"file": "result"})
    """Save what proves the answer, JSON, for `arnold verify`."""
    html: str | None = field(default=None, metadata={"file": "result", "help": PAGE_HELP})
