"""Files for launchers say the placement: which nodes, in which order, how many processes on each."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arnold.options.placement_outputs import LAUNCHER_FILES, LauncherFormat, LaunchOrder
from ground.errors import InvalidInput
from tests.facts import saying
from topology.node_names import expand_hostlist

NODES = ("n03", "n01", "gpu-a", "n02")
"""Names whose order is not that of the alphabet, and one without a number."""

ORDER = LaunchOrder(NODES, gpus_per_node=2, ranks=8)

NAMES = st.lists(
    st.from_regex(r"[a-z]{1,3}[0-9]{0,3}(-[a-z]{1,2}[0-9]?)?", fullmatch=True), min_size=1, max_size=12, unique=True
)


def text_of(kind: LauncherFormat, order: LaunchOrder = ORDER) -> str:
    """The file of one format."""
    return LAUNCHER_FILES[kind](order)


def test_the_table_has_every_format() -> None:
    """Each word that the option takes has a function, and no other."""
    assert set(LAUNCHER_FILES) == set(get_args(LauncherFormat))


def test_hostfile_is_one_node_a_line_in_rank_order() -> None:
    """Nothing else stands in it: Slurm, Open MPI and scripts read it as it is."""
    assert text_of("hostfile") == "n03\nn01\ngpu-a\nn02\n"


def test_nodelist_is_a_hostlist() -> None:
    """One line, folded, as `--nodelist` of sbatch takes it."""
    assert text_of("nodelist") == "gpu-a,n[01-03]\n"


@given(NAMES, st.integers(1, 8))
def test_every_format_names_every_node_as_often_as_it_has_processes(names: list[str], gpus: int) -> None:
    """Whatever the names: order, number of processes and ranks can be read back from each file."""
    order = LaunchOrder(names, gpus, gpus * len(names))
    assert sorted(expand_hostlist(text_of("nodelist", order).strip())) == sorted(names)
    assert text_of("hostfile", order).splitlines() == names
    assert [rank_and_node(line) for line in text_of("rankfile", order).splitlines()] == list(enumerate(names))
    each = [name for name in names for _ in range(gpus)]
    assert [rank_and_node(line) for line in text_of("mpi", order).splitlines()] == list(enumerate(each))
    assert [line.split()[0] for line in text_of("torchrun", order).splitlines()] == names


def rank_and_node(line: str) -> tuple[int, str]:
    """What a line `rank N=HOST slot=CORES` says."""
    rank, _, slot = line.removeprefix("rank ").partition(" ")
    number, _, node = rank.partition("=")
    assert slot.startswith("slot=")
    return int(number), node


def options_of(line: str) -> dict[str, str]:
    """Options of one line for torchrun, after the name of the node and of the program."""
    _, program, *options = shlex.split(line)
    assert program == "torchrun"
    return dict(option.removeprefix("--").split("=") for option in options)


def test_torchrun_counts_the_nodes_and_meets_on_the_first() -> None:
    """A line a node: all agree on the number of nodes and on the node of rank 0; each has its own rank.

    The options are those of the help of torch.distributed.run; without the static rendezvous --node-rank is not heeded.
    """
    lines = text_of("torchrun").splitlines()
    assert [line.split()[0] for line in lines] == list(NODES)
    for rank, line in enumerate(lines):
        assert options_of(line) == {
            "nnodes": "4",
            "nproc-per-node": "2",
            "rdzv-backend": "static",
            "master-addr": "n03",
            "master-port": "29500",
            "node-rank": str(rank),
        }


def test_slurm_asks_for_the_nodes_and_lays_out_tasks_in_rank_order() -> None:
    """What sbatch reads stands above the first command; below it are the nodes in order, and the one srun."""
    text = text_of("slurm")
    head, _, rest = text.partition("\n\n")
    asked = [line.removeprefix("#SBATCH ") for line in head.splitlines() if line.startswith("#SBATCH ")]
    assert asked == [
        "--nodelist=gpu-a,n[01-03]",
        "--nodes=4",
        "--ntasks=8",
        "--ntasks-per-node=2",
        "--gpus-per-node=2",
    ]
    assert all(line.startswith("#") for line in head.splitlines())
    assert "\nn03\nn01\ngpu-a\nn02\nEND OF NODES\n" in rest
    assert "export SLURM_HOSTFILE=" in rest
    assert rest.splitlines()[-1].startswith("srun --distribution=arbitrary ")
    # srun refuses --nodes beside the arbitrary distribution
    assert "--nodes" not in rest


def test_slurm_is_asked_for_what_the_nodes_are_free_for() -> None:
    """Partition, features, reservation and time stand in the script as they were asked; signs of a shell are quoted."""
    asked = {"partition": "batch", "constraint": "h100&ib", "time": "1-12"}
    lines = text_of("slurm", replace(ORDER, asked=asked)).splitlines()
    assert [line for line in lines if line.startswith("#SBATCH")][-3:] == [
        "#SBATCH --partition=batch",
        "#SBATCH --constraint='h100&ib'",
        "#SBATCH --time=1-12",
    ]


def test_a_node_that_is_filled_in_part_has_fewer_processes() -> None:
    """Five GPUs on nodes of two: the third node starts one process."""
    order = LaunchOrder(NODES[:3], gpus_per_node=2, ranks=5)
    assert [len(order.ranks_on(rank)) for rank in range(3)] == [2, 2, 1]
    assert len(text_of("mpi", order).splitlines()) == 5
    assert [options_of(line)["nproc-per-node"] for line in text_of("torchrun", order).splitlines()] == ["2", "2", "1"]
    assert "#SBATCH --ntasks=5\n" in text_of("slurm", order)


@pytest.mark.parametrize("name", ["gpu node 1", "n1\nn2", "n1,n2", "n=1", "n[1]", "", "n#1", "$(reboot)"])
def test_a_name_that_cannot_stand_in_these_files_is_refused(name: str) -> None:
    """A space or a sign of hostlists would be read as something else."""
    with pytest.raises(InvalidInput, match=saying("launchers")):
        LaunchOrder(("n1", name), gpus_per_node=8, ranks=16)


@pytest.mark.parametrize("name", ["n1;reboot", "n1`reboot`", "$HOME", "a|b", "a>b", "~root"])
def test_a_name_is_never_run(name: str) -> None:
    """Signs of the shell are quoted where a shell reads the line."""
    order: Any = LaunchOrder((name, "n2"), gpus_per_node=1, ranks=2)
    words = shlex.split(text_of("torchrun", order).splitlines()[0], posix=True)
    assert words[0] == name
    assert f"--master-addr={name}" in words
    # in a here-document with a quoted delimiter the shell reads nothing
    assert "<< 'END OF NODES'" in text_of("slurm", order)
