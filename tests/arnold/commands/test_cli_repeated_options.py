"""An option given twice: merged where it is a list, refused where it is one value; none is lost silently."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from arnold.commands.command_table import arnold as root

Arnold = Callable[..., Any]

# A service, and commands that print what programs of Slurm print.
WITHOUT_JSON = {
    *(("slurm", name) for name in ("serve", "submit", "order", "flags", "page")),
    *(("extender", "serve"), ("kube", "page")),
}


def leaves(group: click.Group, *path: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command below a group that is no group itself, with the words that call it."""
    context = click.Context(group)
    for name in group.list_commands(context):
        member = group.get_command(context, name)
        assert member is not None
        if isinstance(member, click.Group):
            yield from leaves(member, *path, name)
        else:
            yield (*path, name), member


def written(option: click.Option) -> list[str]:
    """An option on the command line, with a value of its type if it takes one."""
    name = option.opts[-1] if option.opts[-1].startswith("--") else option.opts[0]
    if option.is_flag:
        return [name]
    return [name, option.type.choices[0] if isinstance(option.type, click.Choice) else "1"]


@pytest.mark.parametrize(("words", "command"), list(leaves(root)), ids=str)
def test_a_second_value_is_never_lost(arnold: Arnold, words: tuple[str, ...], command: click.Command) -> None:
    """One value given twice is exit 2 and says so, also as JSON.  Lists and plain flags may repeat: nothing is lost."""
    repeated = list[str]()
    for option in command.params:
        if not isinstance(option, click.Option):
            continue
        line = [*words, *written(option), *written(option)]
        name = "/".join([option.opts[0], *option.secondary_opts])
        if not option.multiple and not (option.is_flag and not option.secondary_opts):
            ran = arnold(*line)
            assert (ran.code, ran.out) == (2, ""), line
            assert f"{name} is given twice" in ran.err
            assert "To fix: " in ran.err
            if words not in WITHOUT_JSON:
                assert arnold(*line, "--json").json["error"]["message"] == f"{name} is given twice"
        else:
            repeated += line[len(words) :]
    # --help ends the run before anything is read: the line itself is what is tried here
    assert arnold(*words, *repeated, "--help").code == 0, repeated


def test_there_are_commands_to_try() -> None:
    """The walk finds the commands of both packages, those inside groups too."""
    found = {" ".join(words) for words, _ in leaves(root)}
    assert {"place", "topology convert", "flags record", "extender serve", "simulate", "capacity grow"} <= found


def test_each_spelling_counts(arnold: Arnold) -> None:
    """`--seed=1 --seed 2` is twice as well; a pair of opposite flags is one option."""
    assert "--seed is given twice" in arnold("place", "--seed=1", "--seed", "2").err
    assert "--lenient/--strict is given twice" in arnold("simulate", "--lenient", "--strict").err


def test_busy_files_are_merged(arnold: Arnold, cluster_file: Path, tmp_path: Path) -> None:
    """Nodes of both files are in use, in either order: with 2 more of the 7 nodes in use, that much less is free."""
    one, two = tmp_path / "one.txt", tmp_path / "two.txt"
    one.write_text("n0\n")
    two.write_text("n1\n")

    def free(*args: object) -> int:
        return int(arnold("topology", "validate", cluster_file, *args, "--json").json["cluster"]["free"])

    everything = free()
    assert free("--busy", one) == everything - 1
    assert free("--busy", one, "--busy", two) == free("--busy", two, "--busy", one) == everything - 2


def test_flag_files_are_merged(arnold: Arnold, cluster_file: Path, tmp_path: Path) -> None:
    """Of two flags for one node the slower counts, whichever file has it: the rule within one file."""
    mild, bad = tmp_path / "mild.yaml", tmp_path / "bad.yaml"
    mild.write_text("- {node: n0, kind: straggler, slowdown: 1.1}\n- {node: n1, kind: straggler, slowdown: 1.7}\n")
    bad.write_text("- {node: n0, kind: straggler, slowdown: 1.5}\n- {node: n1, kind: straggler, slowdown: 1.2}\n")
    for files in ((mild, bad), (bad, mild)):
        given = [word for file in files for word in ("--flags", file)]
        csv = arnold("topology", "convert", cluster_file, "--to", "csv", *given).out.splitlines()
        slowdown = {row.split(",")[0]: row.split(",")[-1] for row in csv[1:]}
        assert (slowdown["n0"], slowdown["n1"]) == ("1.5", "1.7")


@pytest.mark.parametrize(
    "words",
    [
        ["topology", "validate", "CLUSTER", "--busy", "-", "--busy", "-"],
        ["simulate", "--cluster", "CLUSTER", "--trace", "-", "--merge", "-"],
        ["simulate", "--cluster", "-", "--trace", "-"],
        ["simulate", "--cluster", "-", "--cluster", "-", "--trace", "CLUSTER"],
        ["flags", "record", "-", "--rules", "-", "--store", "flags.db"],
        ["repair", "--cluster", "CLUSTER", "--placement", "-", "--lost", "@-"],
    ],
)
def test_standard_input_once_for_all_files_of_a_command(arnold: Arnold, cluster_file: Path, words: list[str]) -> None:
    """Two files cannot both be read from it, whichever options name them."""
    ran = arnold(*(cluster_file if word == "CLUSTER" else word for word in words))
    assert ran.code == 2
    assert "both read standard input" in ran.err


def test_lost_nodes_are_merged(arnold: Arnold, cluster_file: Path, job_file: Path, tmp_path: Path) -> None:
    """Two lists are one; a node that both name is lost once."""
    saved = tmp_path / "placement.json"
    arnold("place", "--cluster", cluster_file, "--job", job_file, "--output", saved)
    used = sorted(cell["node"] for cell in json.loads(saved.read_text())["assignment"])
    repair = ("repair", "--cluster", cluster_file, "--placement", saved, "--json")
    one = arnold(*repair, "--lost", f"{used[0]},{used[1]}").json
    two = arnold(*repair, "--lost", used[0], "--lost", f"{used[1]},{used[0]}").json
    assert one["lost"] == two["lost"] == used[:2]
    assert len(two["moves"]) == 2
    listed = tmp_path / "lost.txt"
    listed.write_text(f"# gone\n{used[0]}  # by hand\n\n{used[1]},{used[0]}\n")
    assert arnold(*repair, "--lost", f"@{listed}", "--lost", used[0]).json["lost"] == used[:2]
    listed.write_text(f"{used[0]}\nn99\n")
    assert arnold(*repair, "--lost", f"@{listed}").json["error"]["where"] == f"{listed}:2"


def test_an_empty_list_on_standard_input(arnold: Arnold, cluster_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What `squeue` prints on an idle cluster: nothing more is in use, and nothing is wrong."""
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"")))
    before = arnold("topology", "validate", cluster_file, "--json").json["cluster"]
    ran = arnold("topology", "validate", cluster_file, "--busy", "-", "--json")
    assert (ran.code, ran.json["cluster"]["free"]) == (0, before["free"])
