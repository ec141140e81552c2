"""`arnold health look` and `pairs` through the front door: contracts of JSON, exit codes, files that cannot be read."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from benchmarks.evidence.pasted_texts import PASTED
from benchmarks.evidence.tested_pairs import csv, measure, tree
from health.pairs.measured import pair_jobs
from tests.facts import says
from tests.health.collectives.made_dumps import SHAPES, dumps

Arnold = Callable[..., Any]


@pytest.fixture
def crash(tmp_path: Path) -> Path:
    """A folder with two texts that agree on GPU 1 of node07, and one of a healthy node."""
    folder = tmp_path / "crash"
    folder.mkdir()
    (folder / "dmesg-node07.txt").write_text(PASTED["xid-dmesg"].text)
    (folder / "smi-node07.txt").write_text(PASTED["smi-row"].text.replace("1D:00.0", "1C:00.0", 1))
    (folder / "diag-node08.txt").write_text(PASTED["diag-3-passes"].text)
    return folder


def test_the_document_has_files_suspects_and_what_is_next(arnold: Arnold, crash: Path) -> None:
    """Every file is said, each suspect has its lines, and the exit code says that somebody is suspected."""
    ran = arnold("health", "look", crash, "--json")
    assert ran.code == 1
    assert [(file["name"], file["kind"], file["read"]) for file in ran.json["files"]] == [
        ("diag-node08.txt", "dcgmi-diag", True),
        ("dmesg-node07.txt", "kernel-log", True),
        ("smi-node07.txt", "nvidia-smi-q", True),
    ]
    first = ran.json["suspects"][0]
    assert (first["node"], first["rank"], first["gpu"], first["sure"]) == ("node07", None, 1, "certain")
    assert first["why"][0]["lines"] == [2]
    assert {suspect["node"] for suspect in ran.json["suspects"]} == {"node07"}


def test_who_is_suspected_can_be_flagged(arnold: Arnold, crash: Path, tmp_path: Path) -> None:
    """--flags-out writes nodes that hardware convicts; the text says how."""
    flags = tmp_path / "flags.json"
    ran = arnold("health", "look", crash, "--flags-out", flags, "--yes")
    assert [flag["node"] for flag in json.loads(flags.read_text())["flags"]] == ["node07"]
    assert says(ran.out, "--flags-out", "node07")


def test_a_page_says_the_same(arnold: Arnold, crash: Path, tmp_path: Path) -> None:
    """--html saves the answer."""
    arnold("health", "look", crash, "--html", tmp_path / "look.html")
    assert "node07" in (tmp_path / "look.html").read_text()


def test_nothing_crashes_and_what_is_not_read_is_said(arnold: Arnold, tmp_path: Path) -> None:
    """Binary, cut off, packed, of odd encodings, empty, endless: each file has its line, and texts among them count."""
    text = PASTED["xid-syslog"].text
    folder = tmp_path / "odd"
    folder.mkdir()
    packed = gzip.compress(text.encode() + os.urandom(50_000))
    files = {
        "binary.dat": bytes(range(256)) * 40,
        "cut.log.gz": packed[: len(packed) // 2],
        "deep.json": b'{"DCGM Diagnostic": ' + b'{"a":' * 5_000,
        "empty.txt": b"",
        "line.log": b"NCCL rank " * 200_000,
        "latin.log": b"caf\xe9\n" + text.encode(),
        "pickle": b"\x80\x04\x95abc",
        "wide.log": text.encode("utf-16"),
    }
    for name, content in files.items():
        (folder / name).write_bytes(content)
    (folder / "loop").symlink_to(folder)
    ran = arnold("health", "look", folder, "--json")
    assert ran.code == 1
    looked = {file["name"]: file for file in ran.json["files"]}
    assert set(looked) >= set(files)
    assert {name for name, file in looked.items() if file["kind"] == "kernel-log"} == {
        "cut.log.gz",
        "latin.log",
        "wide.log",
    }
    assert says(looked["pickle"]["note"], "pickle", "not read", "arnold health collectives --converter")
    assert {(suspect["node"], suspect["gpu"]) for suspect in ran.json["suspects"]} == {("gpu2", "0000:1c:00")}


def test_a_dump_with_a_zero_byte_is_not_read(arnold: Arnold, tmp_path: Path) -> None:
    """Known by how it begins, it holds no text: that is said of it, alone in its folder or beside a good one."""
    first, second = (source.text for source in dumps("absent", SHAPES["events"])[:2])
    (tmp_path / "rank_0.json").write_text(first + "\0")
    (alone,) = arnold("health", "look", tmp_path, "--json").json["files"]
    assert (alone["kind"], alone["read"]) == ("flight-recorder", False)
    assert says(alone["note"], "zero byte")
    (tmp_path / "rank_1.json").write_text(second)
    both = arnold("health", "look", tmp_path, "--json").json["files"]
    assert {says(file["note"], "rank_0.json", "zero byte") for file in both} == {True}


def test_a_folder_that_is_none(arnold: Arnold, tmp_path: Path) -> None:
    """A file, a missing folder and an empty one are errors that say so."""
    (tmp_path / "file").write_text("x")
    (tmp_path / "hollow").mkdir()
    for name in ("file", "missing", "hollow"):
        ran = arnold("health", "look", tmp_path / name, "--json")
        assert ran.code == 2
        assert ran.json["error"]["where"] == str(tmp_path / name)


def test_pairs_are_planned_measured_and_read(arnold: Arnold, tmp_path: Path) -> None:
    """The plan of 128 nodes, what it measures with one slow uplink, and its name; then nothing is left to test."""
    cluster = tree(8, 16)
    file, measured = tmp_path / "cluster.csv", tmp_path / "pairs.csv"
    file.write_text(csv(8, 16))
    plan = arnold("health", "pairs", "plan", "--cluster", file, "--output", tmp_path / "pairs.slurm", "--json")
    rounds = plan.json["rounds"]
    assert (plan.code, len(rounds), len(rounds[0])) == (0, 3, 64)
    assert (tmp_path / "pairs.slurm").read_text().count("\ntest_pair n") == 3 * 64
    rows = measure(cluster, rounds, {("link", "d3"): 1.5}, np.random.default_rng(0))
    measured.write_text("node_a,node_b,busbw_gbs\n" + "".join(f"{a},{b},{bandwidth:.2f}\n" for a, b, bandwidth in rows))
    read = arnold("health", "pairs", "read", measured, "--cluster", file, "--json")
    assert read.code == 1
    assert [(place["node"], place["link"], place["domain"], place["sure"]) for place in read.json["suspects"]] == [
        (None, "d3 - the core", None, "certain")
    ]
    more = tmp_path / "more.slurm"
    following = arnold("health", "pairs", "plan", "--cluster", file, "--results", measured, "--output", more, "--json")
    assert (following.json["rounds"], more.exists()) == ([], False)  # sbatch would refuse a script of no nodes
    assert says(" ".join(following.json["notes"]), "more.slurm")


def test_pairs_are_tested_by_jobs(arnold: Arnold, tmp_path: Path) -> None:
    """A Job holds the GPUs of each node, and meets its partners in the order of the rounds."""
    file, manifest = tmp_path / "cluster.csv", tmp_path / "pairs.yaml"
    file.write_text(csv(4, 4))
    rounds = arnold("health", "pairs", "plan", "--cluster", file, "--output", manifest, "--json").json["rounds"]
    service, script, *jobs = yaml.safe_load(manifest.read_text())["items"]
    assert [service["kind"], script["kind"], *{job["kind"] for job in jobs}] == ["Service", "ConfigMap", "Job"]
    planned = {}
    for job in jobs:
        pod = job["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        env = {variable["name"]: variable["value"] for variable in container["env"]}
        planned[env["NODE"]] = env["PAIRS"].split()
        assert container["resources"]["limits"] == {"nvidia.com/gpu": int(env["GPUS"])}
        assert (pod["hostname"], pod["subdomain"]) == (env["NODE"], service["metadata"]["name"])
    wanted = {
        node: [f"{k}:{':'.join(pair)}" for k, pairs in enumerate(rounds) for pair in pairs if node in pair]
        for node in planned
    }
    assert planned == wanted
    assert len({job["metadata"]["name"] for job in jobs}) == 16


def test_both_ends_of_a_pair_meet_at_one_port(tmp_path: Path) -> None:
    """Three nodes: one of them has nobody in each round, and its tests are later ones of its partners."""
    rounds = [[("a", "b")], [("a", "c")], [("b", "c")]]
    _, script, *jobs = yaml.safe_load(pair_jobs(rounds, 8))["items"]
    (tmp_path / "rounds.sh").write_text(script["data"]["rounds.sh"])
    torchrun = tmp_path / "torchrun"
    torchrun.write_text('#!/bin/sh\necho "$@" >> "$ASKED"\necho 48.5\n')
    torchrun.chmod(0o755)
    met, said = defaultdict[str, set[str]](set), ""
    for job in jobs:
        (container,) = job["spec"]["template"]["spec"]["containers"]
        own = {variable["name"]: variable["value"] for variable in container["env"]}
        asked = tmp_path / own["NODE"]
        environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "ASKED": str(asked), **own}
        command = ["sh", str(tmp_path / "rounds.sh")]
        said += subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
        for test, line in zip(own["PAIRS"].split(), asked.read_text().splitlines(), strict=True):
            words = line.split()
            where = {name: words[words.index(f"--{name}") + 1] for name in ("master-addr", "master-port", "node-rank")}
            met[test].add(f"{where['master-addr']}:{where['master-port']}")
            assert where["node-rank"] == str(int(test.endswith(own["NODE"])))
    assert met == {
        "0:a:b": {"a.arnold-pairs:29500"},
        "1:a:c": {"a.arnold-pairs:29501"},
        "2:b:c": {"b.arnold-pairs:29502"},
    }
    assert sorted(said.splitlines()) == ["pair,a,b,48.5", "pair,a,c,48.5", "pair,b,c,48.5"]


def test_pairs_of_which_no_test_ran_are_no_verdict(arnold: Arnold, tmp_path: Path) -> None:
    """0 is a test that failed: where all did, as where there is none, nobody is called well."""
    (tmp_path / "cluster.csv").write_text(csv(2, 2))
    for rows in ("", "n0000,n0001,0\nn0002,n0003,0\n"):
        (tmp_path / "pairs.csv").write_text(f"node_a,node_b,busbw_gbs\n{rows}")
        ran = arnold("health", "pairs", "read", tmp_path / "pairs.csv", "--cluster", tmp_path / "cluster.csv", "--json")
        assert ran.code == 2
        assert says(ran.json["error"]["message"], "no test")


def test_one_pair_has_none_to_compare_with(arnold: Arnold, tmp_path: Path) -> None:
    """Slow is what is slower than others: of one pair nothing is said, of two that agree it is."""
    (tmp_path / "cluster.csv").write_text(csv(2, 2))
    for rows, told in (("n0000,n0001,40\n", False), ("n0000,n0001,40\nn0002,n0003,40\n", True)):
        (tmp_path / "pairs.csv").write_text(f"node_a,node_b,busbw_gbs\n{rows}")
        ran = arnold("health", "pairs", "read", tmp_path / "pairs.csv", "--cluster", tmp_path / "cluster.csv", "--json")
        assert says(ran.json["verdict"], "cannot be told") != told


def test_nodes_of_pairs_are_found_in_other_spellings(arnold: Arnold, tmp_path: Path) -> None:
    """In capitals and with a domain, as hosts call themselves, in the results and among suspects."""
    (tmp_path / "cluster.csv").write_text(csv(2, 4))
    (tmp_path / "pairs.csv").write_text("node_a,node_b,busbw_gbs\nN0000,n0001.lan,30\nn0002,n0003,390\n")
    ran = arnold("health", "pairs", "read", tmp_path / "pairs.csv", "--cluster", tmp_path / "cluster.csv", "--json")
    assert {place["node"] for place in ran.json["suspects"]} == {"n0000", "n0001"}
    plan = arnold("health", "pairs", "plan", "--suspects", "N0000", "--cluster", tmp_path / "cluster.csv", "--json")
    assert {pairs[0][0] for pairs in plan.json["rounds"]} == {"n0000"}


def test_bad_pairs(arnold: Arnold, tmp_path: Path) -> None:
    """A node that the cluster does not have, and a bandwidth that is none, are errors at their line."""
    (tmp_path / "cluster.csv").write_text(csv(2, 2))
    for row in ("n0000,n9999,40", "n0000,n0001,fast", "n0000,n0000,40", "n0000,n0001,-1"):
        (tmp_path / "pairs.csv").write_text(f"node_a,node_b,busbw_gbs\n{row}\n")
        ran = arnold("health", "pairs", "read", tmp_path / "pairs.csv", "--cluster", tmp_path / "cluster.csv", "--json")
        assert ran.code == 2
        assert ran.json["error"]["where"].endswith("pairs.csv:2")
