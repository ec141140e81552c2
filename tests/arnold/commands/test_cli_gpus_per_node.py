"""How many GPUs nodes have, where the cluster file does not say it: told, read from Slurm's list, or assumed aloud."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest

from arnold.commands.command_table import arnold as root
from tests.facts import says

Arnold = Callable[..., Any]

BLOCKS = "BlockName=b1 Nodes=t[1-4]\nBlockName=b2 Nodes=t[5-8]\n"
FILES = {
    "slurm-conf": BLOCKS,
    "slurm-yaml": "- topology: t\n  tree:\n    switches:\n    - {switch: s, nodes: 't[1-8]'}\n",
    "topograph": json.dumps({"instances": [{"id": f"t{i}", "network_layers": ["s"]} for i in range(1, 9)]}),
    "lingjun": "ip,DSW,PSW,ASW\n" + "".join(f"t{i},d,p,a\n" for i in range(1, 9)),
    "csv": "node,rack\n" + "".join(f"t{i},r\n" for i in range(1, 9)),
}


@pytest.fixture
def trays(tmp_path: Path) -> Path:
    """Two blocks of four trays, which have 4 GPUs; Slurm's file does not say so."""
    path = tmp_path / "topology.conf"
    path.write_text(BLOCKS)
    return path


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """Four trays of 4 GPUs."""
    path = tmp_path / "job.yaml"
    path.write_text("name: j\ngpus_per_node: 4\nparallelism: {tp: 4, dp: 2, pp: 2}\nalpha: 0.5\n")
    return path


@pytest.mark.parametrize("form", FILES)
def test_every_format_without_gpus(arnold: Arnold, tmp_path: Path, form: str) -> None:
    """Eight are assumed, with a note; --gpus-per-node says otherwise, without one."""
    file = tmp_path / "cluster"
    file.write_text(FILES[form])
    assumed = arnold("topology", "validate", file, "--json").json
    assert assumed["format"] == form
    assert any("8 GPUs a node assumed (8 nodes)" in note for note in assumed["notes"])
    told = arnold("topology", "validate", file, "--gpus-per-node", 4, "--json").json
    assert not any("assumed" in note for note in told["notes"])
    csv = arnold("topology", "convert", file, "--gpus-per-node", 4, "--to", "csv").out.splitlines()
    assert {row.split(",")[-3] for row in csv[1:]} == {"4"}


COMMANDS = {
    "place": ["--job", "job"],
    "explain": ["--job", "job"],
    "compare": ["--job", "job", "--algorithm", "gpu-packing"],
    "simulate": ["--trace", "trace"],
    "capacity fragmentation": ["--shape", "8x1"],
}


@pytest.mark.parametrize("json_or_text", [["--json"], []])
@pytest.mark.parametrize("command", COMMANDS)
def test_what_is_assumed_is_said_on_standard_error(
    arnold: Arnold, tmp_path: Path, command: str, json_or_text: list[str]
) -> None:
    """By every command that takes a cluster, once, with and without --json; nothing is once the number is given."""
    (tmp_path / "job").write_text("parallelism: {tp: 4, dp: 2}\n")
    (tmp_path / "trace").write_text("job_id,submit_time,duration,gpus\na,0,60,8\n")
    file = tmp_path / "cluster"
    file.write_text(next(iter(FILES.values())))
    options = [tmp_path / word if (tmp_path / word).exists() else word for word in COMMANDS[command]]
    run = (*command.split(), "--cluster", file, *options, *json_or_text)
    assert arnold(*run).err.count("8 GPUs a node assumed (8 nodes)") == 1
    told = ["--gpus-per-node", 8 if "8x1" in options else 4]
    assert "assumed" not in arnold(*run, *told).err


@pytest.mark.parametrize("words", [["validate"], ["show"], ["convert", "--to", "csv"]])
@pytest.mark.parametrize("json_or_text", [["--json"], []])
def test_what_is_assumed_of_a_file_alone(
    arnold: Arnold, tmp_path: Path, words: list[str], json_or_text: list[str]
) -> None:
    """The commands that look at a cluster file say so, too."""
    file = tmp_path / "cluster"
    file.write_text(next(iter(FILES.values())))
    ran = arnold("topology", words[0], file, *words[1:], *json_or_text)
    assert ran.err.count("8 GPUs a node assumed (8 nodes)") == 1


@pytest.mark.parametrize("form", FILES)
def test_every_format_without_types(arnold: Arnold, tmp_path: Path, form: str) -> None:
    """No type is assumed; --gpu-type says it, and the CSV keeps it."""
    file = tmp_path / "cluster"
    file.write_text(FILES[form])
    assert arnold("topology", "validate", file, "--json").json["cluster"]["gpu_types"] == {}
    assert arnold("topology", "validate", file, "--gpu-type", "H100", "--json").json["cluster"]["gpu_types"] == {
        "H100": 8
    }
    csv = arnold("topology", "convert", file, "--gpu-type", "H100", "--to", "csv").out.splitlines()
    assert {row.split(",")[-1] for row in csv} == {"gpu_type", "H100"}
    assert "GPUs: H100 on 8 nodes" in arnold("topology", "show", file, "--gpu-type", "H100").out


@pytest.mark.parametrize("text", ["node,rack,gpus\nt1,r,8\n", "node,rack,free_gpus\nt1,r,8\n"])
def test_a_file_that_says_it_is_not_overruled(arnold: Arnold, tmp_path: Path, text: str) -> None:
    """Two answers to one question are refused, as --levels is."""
    file = tmp_path / "cluster.csv"
    file.write_text(text)
    ran = arnold("topology", "validate", file, "--gpus-per-node", 4)
    assert ran.code == 2
    assert says(ran.err, "cluster.csv", "how many GPUs")
    assert not arnold("topology", "validate", file, "--json").json["notes"]


@pytest.mark.parametrize("number", [0, -1, 5000])
def test_impossible_numbers_are_refused(arnold: Arnold, trays: Path, number: int) -> None:
    """A node has at least one GPU and at most 4,096."""
    assert arnold("topology", "validate", trays, "--gpus-per-node", number).code == 2


def test_advice_does_not_build_on_an_assumption(arnold: Arnold, trays: Path, job: Path) -> None:
    """A job of 4 GPUs a node on nodes of which nothing is known: that 8 was assumed, and what to say if it is 4."""
    ran = arnold("explain", "--cluster", trays, "--job", job)
    assert ran.code == 3
    text = " ".join(ran.out.split())
    assert says(text, "--gpus-per-node 4")
    assert says(text, "8, which is assumed")
    assert arnold("place", "--cluster", trays, "--job", job, "--gpus-per-node", 4).code == 0


def test_the_list_of_nodes_says_it(arnold: Arnold, trays: Path, job: Path, tmp_path: Path) -> None:
    """With Gres in the recipe nothing else is needed."""
    nodes = tmp_path / "nodes.txt"
    nodes.write_text("".join(f"t{i} idle gpu:gb200:4(S:0-1)\n" for i in range(1, 9)))
    ran = arnold("place", "--cluster", trays, "--job", job, "--busy", nodes, "--json")
    assert (ran.code, ran.json["status"]) == (0, "optimal")
    assert says(ran.json["notes"], "GPUs", "list of nodes")
    assert not any("assumed" in note for note in ran.json["notes"])


def test_every_command_with_a_cluster_file_takes_it() -> None:
    """Wherever --cluster is a file in any format, and more of it counts than names and levels (`look`, `flags record`);
    a report reads snapshots, which hold how they were read, `watch` a live cluster, and `flags show --capacity` counts
    GPUs as the file has them.
    """

    def leaves(group: click.Group) -> list[click.Command]:
        context = click.Context(group)
        found: list[click.Command] = []
        for name in group.list_commands(context):
            member = group.get_command(context, name)
            assert member is not None
            found += leaves(member) if isinstance(member, click.Group) else [member]
        return found

    with_cluster = [
        command for command in leaves(root) if any("--cluster" in parameter.opts for parameter in command.params)
    ]
    assert len(with_cluster) >= 10
    of_names = ("look", "record", "report", "watch")
    for command in (command for command in with_cluster if command.name not in of_names):
        if any("--capacity" in parameter.opts for parameter in command.params):
            continue
        for option in ("--gpus-per-node", "--gpu-type"):
            assert any(option in parameter.opts for parameter in command.params), (command.name, option)
