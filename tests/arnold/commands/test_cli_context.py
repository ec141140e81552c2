"""The context: `.arnold.yaml` says the cluster once, for all commands; the command line wins, and nothing is silent."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arnold.commands.command_table import arnold as root
from arnold.options.cluster_options import ClusterFiles
from arnold.options.context import NAME, OPTIONS, context_text, read_context
from arnold.options.field_options import FieldOption
from tests.arnold.commands.conftest import write_cluster
from tests.arnold.commands.test_cli_repeated_options import leaves
from tests.facts import says

Arnold = Callable[..., Any]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with two clusters of four nodes in two minipods, a job of two, a list of nodes in use, and two folders."""
    write_cluster(tmp_path / "cluster.csv", [f"n{i},mp{i // 2},r{i},8,8," for i in range(4)])
    write_cluster(tmp_path / "other.csv", [f"m{i},mp{i // 2},r{i},8,8," for i in range(4)])
    (tmp_path / "job.yaml").write_text("name: pair\nparallelism: {tp: 8, dp: 2}\nalpha: 0.5\n")
    (tmp_path / "busy.txt").write_text("n0\n")
    (tmp_path / "deep" / "er").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("ARNOLD_CONTEXT", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def nodes(ran: Any) -> set[str]:
    """The nodes of a placement."""
    return {cell["node"] for cell in ran.json["assignment"]}


def test_the_job_alone_is_the_whole_command(folder: Path, arnold: Arnold) -> None:
    """After `arnold use` the cluster need not be named: n0 is in use, so the pair is in the second minipod.

    What the context gave is a note of the answer, in text and JSON, and a line of -v.
    """
    assert arnold("place", "job.yaml").code == 2
    assert arnold("use", "cluster.csv", "--busy", "busy.txt").code == 0
    ran = arnold("place", "job.yaml", "--json")
    assert (ran.code, nodes(ran)) == (0, {"n2", "n3"})
    assert says(ran.json["notes"], NAME, "--cluster cluster.csv", "--busy busy.txt")
    text = arnold("place", "job.yaml", "-v")
    assert says(text.out, NAME, "--cluster cluster.csv", "--busy busy.txt")
    assert says(text.err, NAME, "--cluster cluster.csv")


def test_without_a_context_nothing_is_another(folder: Path, arnold: Arnold) -> None:
    """The job as an argument is the job of --job, and an option is as with a context that says it."""
    given = ("--cluster", "cluster.csv", "--busy", "busy.txt", "--json")
    plain = arnold("place", "--job", "job.yaml", *given).json
    assert {**arnold("place", "job.yaml", *given).json, "solve_seconds": 0, "run_seconds": 0} == {
        **plain,
        "solve_seconds": 0,
        "run_seconds": 0,
    }
    arnold("use", "cluster.csv", "--busy", "busy.txt")
    ran = arnold("place", "job.yaml", "--json").json
    assert ran["assignment"] == plain["assignment"]
    assert [note for note in ran["notes"] if NAME not in note] == plain["notes"]


def test_the_command_line_wins(folder: Path, arnold: Arnold) -> None:
    """An option of the command line replaces that of the file, the cluster too; the others stay, and are said."""
    arnold("use", "cluster.csv", "--busy", "busy.txt")
    (folder / "none.txt").write_text("")
    ran = arnold("place", "job.yaml", "--busy", "none.txt", "--json")
    assert nodes(ran) == {"n0", "n1"}
    assert says(ran.json["notes"], "--cluster cluster.csv")
    assert not says(ran.json["notes"], "--busy busy.txt")
    both = arnold("place", "job.yaml", "--cluster", "other.csv", "--busy", "none.txt", "--json")
    assert nodes(both) == {"m0", "m1"}
    assert not says(both.json["notes"], NAME)
    # a list of another cluster is no list of this one, and never silently passed over
    assert says(arnold("place", "job.yaml", "--cluster", "other.csv").err, "busy.txt", "n0")


def test_the_nearest_file_counts_with_names_from_where_it_stands(
    folder: Path, arnold: Arnold, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two folders below it counts too, and its files are found; a nearer one counts instead; none above the home."""
    arnold("use", "cluster.csv", "--busy", "busy.txt")
    monkeypatch.chdir(folder / "deep" / "er")
    assert nodes(arnold("place", "../../job.yaml", "--json")) == {"n2", "n3"}
    (folder / "deep" / NAME).write_text("cluster: ../other.csv\n")
    assert nodes(arnold("place", "../../job.yaml", "--json")) == {"m0", "m1"}
    (folder / "deep" / NAME).unlink()
    monkeypatch.setenv("HOME", str(folder / "deep"))
    assert arnold("place", "../../job.yaml").code == 2


def test_the_variable_names_another_or_none(folder: Path, arnold: Arnold, monkeypatch: pytest.MonkeyPatch) -> None:
    """ARNOLD_CONTEXT is a file, whatever lies around; one that is not there is an error; empty, there is no context."""
    arnold("use", "cluster.csv")
    (folder / "deep" / "prod.yaml").write_text("cluster: ../other.csv\n")
    for value, code, expected in (("deep/prod.yaml", 0, "m0"), ("gone.yaml", 2, "no such file"), ("", 2, "--cluster")):
        monkeypatch.setenv("ARNOLD_CONTEXT", value)
        ran = arnold("place", "job.yaml", "--json")
        assert (ran.code, expected in ran.out) == (code, True)


@pytest.mark.parametrize(
    ("text", "line", "facts"),
    [
        ("cluster: cluster.csv\nlevls: a,b\n", 2, ["levls", "levels"]),
        ("cluster: cluster.csv\ngpus-per-node: 8\n", 2, ["gpus-per-node", "gpus_per_node"]),
        ("cluster: gone.csv\n", 1, ["gone.csv", "no file"]),
        ("cluster: cluster.csv\nbusy: [busy.txt, gone.txt]\n", 2, ["gone.txt", "no file"]),
        ("cluster: cluster.csv\ngpus_per_node: many\n", 2, ["gpus_per_node", "many"]),
        ("cluster: cluster.csv\nunlisted: perhaps\n", 2, ["unlisted", "perhaps", "free"]),
        ("cluster: cluster.csv\n\nat: yesterday\n", 3, ["--at", "yesterday", "time zone"]),
        ("exclude: 'n[0'\ncluster: cluster.csv\n", 1, ["--exclude", "n[0"]),
        ("cluster: [cluster.csv, other.csv]\n", 1, ["cluster", "one value"]),
        ("cluster: cluster.csv\nlevels: []\n", 2, ["levels", "empty"]),
        ("cluster: []\n", 1, ["cluster", "one value"]),
        ("cluster: cluster.csv\npartition:\n", 2, ["partition"]),
        ("cluster: cluster.csv\npartition: {a: b}\n", 2, ["partition"]),
        ("- cluster.csv\n", 1, ["keys with values"]),
        ("cluster: cluster.csv\ncluster: other.csv\n", 2, ["twice"]),
    ],
)
def test_what_is_wrong_is_said_with_its_line(
    folder: Path, arnold: Arnold, text: str, line: int, facts: list[str]
) -> None:
    """Unknown keys, with the one that was meant; files that are not there; values that the option would refuse."""
    (folder / NAME).write_text(text)
    ran = arnold("place", "job.yaml")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"Error: {NAME}:{line}: ")
    assert all(fact in ran.err for fact in facts)
    assert "To fix: " in ran.err


@pytest.mark.parametrize("key", ["busy", "flags", "tolerate", "exclude", "domains"])
def test_an_empty_list_says_none(folder: Path, arnold: Arnold, key: str) -> None:
    """Of what is none where the key is left out: no list is laid over the cluster, and none is said to be."""
    (folder / NAME).write_text(f"cluster: cluster.csv\n{key}: []\n")
    ran = arnold("place", "job.yaml", "--json")
    assert (ran.code, nodes(ran)) == (0, {"n0", "n1"})
    assert not says(ran.json["notes"], NAME, f"--{key}")
    assert arnold("use", "--json").json["options"] == {"cluster": "cluster.csv"}


def test_a_file_that_the_command_line_replaces_need_not_be_there(folder: Path, arnold: Arnold) -> None:
    """Only what is taken from the file is looked at."""
    (folder / NAME).write_text("cluster: gone.csv\n")
    assert arnold("place", "job.yaml", "--cluster", "cluster.csv").code == 0


@pytest.mark.parametrize(
    "text", ["cluster: slurm:\n", "cluster: slurm:   # of the site\n", "cluster: 'slurm:'\n", "cluster: kube:\n"]
)
def test_a_live_cluster_is_written_as_on_the_command_line(folder: Path, text: str) -> None:
    """YAML alone would take the colon at the end for a key without a value."""
    (folder / NAME).write_text(text)
    assert read_context(folder / NAME).values["cluster"] in ("slurm:", "kube:")


def test_use_shows_replaces_and_clears(folder: Path, arnold: Arnold, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is written is shown, here and below; --clear removes the file of the working directory and no other."""
    assert says(arnold("use").out, "no .arnold.yaml")
    assert arnold("use", "--json").json == {"file": None, "options": {}}
    arnold("use", "cluster.csv", "--busy", "busy.txt", "--gpus-per-node", "8", "--levels", "a,b")
    options = {"cluster": "cluster.csv", "busy": ["busy.txt"], "gpus_per_node": "8", "levels": "a,b"}
    assert arnold("use", "--json").json == {"file": NAME, "options": options}
    assert says(arnold("use", "slurm:", "--partition", "gpu").out, "--cluster slurm:", "--partition gpu")
    monkeypatch.chdir(folder / "deep")
    assert says(arnold("use").out, str(folder / NAME), "--cluster slurm:")
    assert says(arnold("use", "--clear").err, NAME, str(folder / NAME))
    monkeypatch.chdir(folder)
    assert arnold("use", "--clear").code == 0
    assert not (folder / NAME).exists()
    assert arnold("use", "--clear").code == 2
    assert says(arnold("use", "gone.csv").err, "gone.csv")
    assert not (folder / NAME).exists()


def test_commands_of_one_file_and_of_several_take_it_too(folder: Path, arnold: Arnold) -> None:
    """`topology show` has the cluster as its argument, `explain` and `repair` as an option: one context for all."""
    arnold("use", "cluster.csv", "--busy", "busy.txt")
    assert says(arnold("topology", "validate").out, "cluster.csv", "4 nodes")
    assert says(arnold("topology", "validate", "other.csv", "--busy", "/dev/null").out, "other.csv")
    assert arnold("explain", "job.yaml").code == 0
    assert arnold("place", "job.yaml", "--output", "placed.json").code == 0
    ran = arnold("repair", "--placement", "placed.json", "--lost", "n2", "--json")
    assert [move["target"] for move in ran.json["moves"]] == ["n1"]


def test_every_command_that_requires_a_cluster_takes_it(folder: Path, arnold: Arnold) -> None:
    """With a context no such command misses its cluster: what it says is missing is something else, or nothing."""
    arnold("use", "cluster.csv")
    asked = []
    for words, command in leaves(root):
        if any(one.name in ("cluster", "clusters") and one.required for one in command.params):
            asked.append(words[-1])
            ran = arnold(*words)
            assert "'--cluster'" not in ran.err, words
            assert "'FILE'" not in ran.err, words
            own = {one.name for one in command.params if isinstance(one, FieldOption) and one.record is ClusterFiles}
            assert own <= {*OPTIONS}
    assert {"place", "explain", "compare", "repair", "defragment", "simulate", "show", "backups"} <= {*asked}


TEXT = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), min_size=1, max_size=12)


@given(
    values=st.fixed_dictionaries({}, optional={"partition": TEXT, "gpu_type": TEXT, "tolerate": st.tuples(TEXT, TEXT)})
)
def test_what_is_written_is_read_again(values: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> None:
    """Whatever the words are, with quotes, colons and signs of YAML in them."""
    if not values:
        return
    file = tmp_path_factory.mktemp("context") / NAME
    file.write_text(context_text(values), encoding="utf-8")
    assert read_context(file).values == values


@pytest.mark.parametrize(
    ("asked", "same"), [(["help"], ["--help"]), (["help", "place"], ["place", "--help"]), (["version"], ["--version"])]
)
def test_help_and_version_are_words_too(arnold: Arnold, asked: list[str], same: list[str]) -> None:
    """`arnold help place` is `arnold place --help`, `arnold version` and `-V` are `--version`."""
    assert (arnold(*asked).code, arnold(*asked).out) == (0, arnold(*same).out)
    assert arnold("-V").out == arnold("--version").out
    assert says(arnold("help", "plaec").err, "did you mean 'place'")
