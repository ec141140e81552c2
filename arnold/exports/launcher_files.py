"""A placement as the files that launchers read: Slurm, Open MPI, torchrun; a table of formats.

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
from shlex import quote
from types import MappingProxyType
from typing import Literal

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


def _hostfile(order: LaunchOrder) -> str:
    """Return one node a line."""
    return "".join(f"{name}\n" for name in order.nodes)


def _nodelist(order: LaunchOrder) -> str:
    """Return a hostlist on one line, for ``--nodelist``: which nodes, not in which order."""
    return order.hostlist + "\n"


def _slurm(order: LaunchOrder) -> str:
    """Return a batch script; its lines can be put in another.

    The delimiter of the list of nodes has spaces, which no name of a node has.
    """
    nodes = len(order.nodes)
    asked = "".join(f"#SBATCH --{option}={quote(value)}\n" for option, value in order.asked.items())
    return f"""\
#!/bin/bash
# To start one task a GPU:   sbatch THIS_FILE COMMAND
# To start one task a node:  sbatch --ntasks={nodes} --ntasks-per-node=1 THIS_FILE COMMAND
#SBATCH --nodelist={order.hostlist}
#SBATCH --nodes={nodes}
#SBATCH --ntasks={order.ranks}
#SBATCH --ntasks-per-node={order.gpus_per_node}
#SBATCH --gpus-per-node={order.gpus_per_node}
{asked}
# Slurm sorts the nodes of a job by name; here they are in order of ranks, a line for each task.
export SLURM_HOSTFILE=$(mktemp)
awk -v tasks="$SLURM_NTASKS_PER_NODE" '{{ for (i = 0; i < tasks; i++) print }}' > "$SLURM_HOSTFILE" << 'END OF NODES'
{_hostfile(order)}END OF NODES
srun --distribution=arbitrary --ntasks="$SLURM_NTASKS" "$@"
"""


def _torchrun(order: LaunchOrder) -> str:
    """Return a line for each node: its name, and the command that is run there, up to the training script."""
    common = (
        f"--nnodes={len(order.nodes)} --rdzv-backend=static "
        f"--master-addr={quote(order.nodes[0])} --master-port={MASTER_PORT}"
    )
    return "".join(
        f"{quote(name)} torchrun {common} --nproc-per-node={len(order.ranks_on(rank))} --node-rank={rank}\n"
        for rank, name in enumerate(order.nodes)
    )


def _rankfile(order: LaunchOrder) -> str:
    """Return a rankfile of Open MPI with one process a node."""
    return "".join(f"rank {rank}={name} slot=0:*\n" for rank, name in enumerate(order.nodes))


def _mpi(order: LaunchOrder) -> str:
    """Return a rankfile of Open MPI with one process a GPU, each on a core of its own."""
    return "".join(
        f"rank {rank}={name} slot={slot}\n"
        for node_rank, name in enumerate(order.nodes)
        for slot, rank in enumerate(order.ranks_on(node_rank))
    )


LAUNCHER_FILES: Mapping[LauncherFormat, Callable[[LaunchOrder], str]] = MappingProxyType(
    {
        "hostfile": _hostfile,
        "rankfile": _rankfile,
        "nodelist": _nodelist,
        "slurm": _slurm,
        "torchrun": _torchrun,
        "mpi": _mpi,
    }
)
"""Format -> text of its file."""
