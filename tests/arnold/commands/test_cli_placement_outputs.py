"""`--output` and `--output-format` of `arnold place` and `arnold repair`: which file gets which format."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.facts import says

Arnold = Callable[..., Any]


@pytest.fixture
def place(arnold: Arnold, fakes: None, cluster_file: Path, job_file: Path) -> Arnold:
    """Run `arnold place` on the small instance: first fit takes n0, n1 / n2, n4; by node rank n0, n2, n1, n4."""
    return lambda *args: arnold("place", "--cluster", cluster_file, "--job", job_file, "--algorithm", "first", *args)


def test_each_output_has_its_own_format(place: Arnold, tmp_path: Path) -> None:
    """Formats belong to files by their order, whatever the files are called."""
    one, two, three = tmp_path / "one.json", tmp_path / "two", tmp_path / "three.txt"
    ran = place(
        *("--output", one, "--output-format", "hostfile"),
        *("--output", two, "--output", three, "--output-format", "json", "--output-format", "nodelist"),
        "--json",
    )
    assert ran.code == 0
    assert one.read_text() == "n0\nn2\nn1\nn4\n"
    assert json.loads(two.read_text()) == ran.json
    assert three.read_text() == "n[0-2,4]\n"


@pytest.mark.parametrize(
    ("name", "begins"),
    [
        ("job.hostfile", "n0\nn2\n"),
        ("hostfile", "n0\nn2\n"),
        ("job.Nodelist", "n[0-2,4]\n"),
        ("job.slurm", "#!/bin/bash\n"),
        ("job.torchrun", "n0 torchrun "),
        ("job.rankfile", "rank 0=n0 slot="),
        ("job.mpi", "rank 0=n0 slot="),
        ("job.json", "{"),
        ("placement", "{"),
        ("job.sbatch", "#!/bin/bash\n"),
        ("job.SH", "#!/bin/bash\n"),
        (".slurm", "#!/bin/bash\n"),
    ],
)
def test_without_formats_the_name_says_it(place: Arnold, tmp_path: Path, name: str, begins: str) -> None:
    """A name that ends in a format, or is one, has it, batch scripts by their usual ends; without an end it is JSON."""
    assert place("--output", tmp_path / name).code == 0
    assert (tmp_path / name).read_text().startswith(begins)


@pytest.mark.parametrize(
    ("name", "meant"), [("job.slrum", ".slurm"), ("nodes.txt", ".hostfile"), ("placed.yaml", ".json")]
)
def test_an_end_that_says_no_format_is_asked_about(place: Arnold, tmp_path: Path, name: str, meant: str) -> None:
    """Exit 2 with all ends there are, and nothing written; with --output-format any name will do."""
    ran = place("--output", tmp_path / name)
    assert ran.code == 2
    assert meant in ran.err
    assert ".sbatch" in ran.err
    assert not (tmp_path / name).exists()
    assert place("--output", tmp_path / name, "--output-format", "nodelist").code == 0


def test_files_are_in_order_of_node_rank(place: Arnold, tmp_path: Path) -> None:
    """All formats agree with `assignment` of the JSON, with 8 processes a node where there is one a GPU."""
    kinds = ("hostfile", "rankfile", "mpi", "torchrun")
    said = place("--json", *(word for kind in kinds for word in ("--output", tmp_path / kind))).json
    nodes = [cell["node"] for cell in sorted(said["assignment"], key=lambda cell: cell["node_rank"])]
    lines = {kind: (tmp_path / kind).read_text().splitlines() for kind in kinds}
    assert lines["hostfile"] == nodes
    assert [line.split()[1] for line in lines["rankfile"]] == [f"{rank}={node}" for rank, node in enumerate(nodes)]
    assert [line.split()[1] for line in lines["mpi"]] == [f"{rank}={nodes[rank // 8]}" for rank in range(32)]
    assert [(line.split()[0], line.split("=")[-1]) for line in lines["torchrun"]] == [
        (node, str(rank)) for rank, node in enumerate(nodes)
    ]


def test_repair_writes_the_same_formats(place: Arnold, arnold: Arnold, cluster_file: Path, tmp_path: Path) -> None:
    """The new placement for `arnold repair` and for a launcher at once: cells that stay keep their line."""
    saved, hosts, again = tmp_path / "placement.json", tmp_path / "new.hostfile", tmp_path / "new.json"
    place("--output", saved)
    ran = arnold(
        *("repair", "--cluster", cluster_file, "--placement", saved, "--lost", "n4", "--json"),
        *("--output", hosts, "--output", again),
    )
    assert hosts.read_text().splitlines() == [cell["node"] for cell in ran.json["assignment"]]
    assert hosts.read_text().splitlines()[:3] == ["n0", "n2", "n1"]
    assert json.loads(again.read_text()) == ran.json


@pytest.mark.parametrize("command", ["place", "repair"])
@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ((1, 2), "2 formats for 1 file"),
        ((2, 1), "1 format for 2 files"),
        ((0, 1), "1 format for 0 files"),
        ((3, 2), "2 formats for 3 files"),
    ],
)
def test_numbers_that_differ(arnold: Arnold, tmp_path: Path, command: str, counts: tuple[int, int], words: str) -> None:
    """No guess which file is meant: exit 2 before anything is read, nothing is written."""
    files, formats = counts
    given = [word for i in range(files) for word in ("--output", tmp_path / f"file{i}")]
    given += [word for _ in range(formats) for word in ("--output-format", "slurm")]
    inputs = {"place": ["--job", "none"], "repair": ["--placement", "none", "--lost", "n1"]}[command]
    ran = arnold(command, "--cluster", "none", *inputs, *given, "--json")
    error = ran.json["error"]
    assert (ran.code, error["message"], error["where"]) == (2, words, "--output-format")
    assert "its own --output-format" in error["fix"]
    assert list(tmp_path.iterdir()) == []


def test_two_results_in_one_file(place: Arnold, tmp_path: Path) -> None:
    """The second would replace the first, be it a placement or the page."""
    file = tmp_path / "file"
    for other in (("--output", f"{tmp_path}/./file"), ("--html", file)):
        ran = place("--output", file, *other)
        assert ran.code == 2
        assert says(ran.err, "one file")
        assert not file.exists()


def test_an_unknown_format_names_those_there_are(place: Arnold, tmp_path: Path) -> None:
    """Exit 2, with all formats."""
    ran = place("--output", tmp_path / "file", "--output-format", "pbs")
    assert ran.code == 2
    assert says(ran.err, "'pbs'", "'json'", "'hostfile'", "'rankfile'", "'nodelist'", "'slurm'", "'torchrun'", "'mpi'")


def test_a_name_that_no_launcher_takes(arnold: Arnold, fakes: None, job_file: Path, tmp_path: Path) -> None:
    """JSON carries any name; of a hostfile the error says the file and the name, and no file is written at all."""
    cluster = tmp_path / "odd.csv"
    cluster.write_text("node,rack,gpus\n" + "".join(f"gpu node {i},r{i // 2},8\n" for i in range(4)))
    saved, hosts = tmp_path / "placement.json", tmp_path / "hostfile"
    args = ("place", "--cluster", cluster, "--job", job_file, "--algorithm", "first", "--output", saved, "--json")
    error = arnold(*args, "--output", hosts).json["error"]
    assert error["where"] == str(hosts)
    assert says(error["message"], "'gpu node 0'", "launchers")
    assert not saved.exists()
    assert arnold(*args).code == 0
    assert saved.exists()


def test_without_a_placement_nothing_is_written(
    arnold: Arnold, fakes: None, cluster_file: Path, job_file: Path, tmp_path: Path
) -> None:
    """A file from before stays as it was."""
    hosts = tmp_path / "hostfile"
    hosts.write_text("old\n")
    args = ("place", "--cluster", cluster_file, "--job", job_file, "--algorithm", "sure", "--output", hosts)
    assert arnold(*args).code == 3
    assert hosts.read_text() == "old\n"


def test_a_result_never_replaces_an_input(arnold: Arnold, cluster_file: Path, job_file: Path, tmp_path: Path) -> None:
    """Job, cluster or flags, by whatever path or link: exit 2 with the option that reads it, nothing is computed."""
    flags, link = tmp_path / "flags.yaml", tmp_path / "link.json"
    flags.write_text("flags: []\n")
    link.symlink_to(job_file)
    inputs = ("--cluster", cluster_file, "--job", job_file, "--flags", flags)
    before = {one: one.read_bytes() for one in tmp_path.iterdir()}
    for option, read in (("--job", job_file), ("--cluster", cluster_file), ("--flags", flags), ("--job", link)):
        for result in ("--output", "--html"):
            # the algorithm does not exist, which is found out later
            ran = arnold("place", *inputs, "--algorithm", "none", result, read)
            assert ran.code == 2
            assert says(ran.err, "Error:", str(read), option, "To fix:", "another file")
    ran = arnold("place", *inputs, "--output", f"{tmp_path}/./{job_file.name}", "--json")
    assert (ran.code, ran.json["error"]["message"]) == (2, "is read as --job")
    assert {one: one.read_bytes() for one in tmp_path.iterdir()} == before


def test_results_of_several_jobs_never_replace_an_input(arnold: Arnold, cluster_file: Path, tmp_path: Path) -> None:
    """The name of a file is known once those of the jobs are."""
    jobs = [tmp_path / "a.yaml", tmp_path / "b.yaml"]
    for job in jobs:
        job.write_text(f"name: {job.stem}\nparallelism: {{tp: 8, dp: 1, pp: 2}}\n")
    named = [word for job in jobs for word in ("--job", job)]
    ran = arnold(
        "place", "--cluster", cluster_file, *named, "--output", tmp_path / "{job}.yaml", "--output-format", "json"
    )
    assert (ran.code, "a.yaml: is read as --job" in ran.err) == (2, True)
    ran = arnold("place", "--cluster", cluster_file, *named, "--output", f"{tmp_path}/{{job}}.json")
    assert (ran.code, ran.err) == (0, "")
    assert jobs[0].read_text().startswith("name: a")
