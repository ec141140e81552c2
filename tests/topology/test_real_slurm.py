"""Slurm itself reads what is written for it: slurmctld shows the tree or the blocks that the cluster has.

``make launchers`` runs these tests, ``make test`` does not.  They need ``slurmctld`` and ``slurm-client`` of Debian or
Ubuntu; those of blocks a Slurm of 24.05 or later, and those of blocks without nodes one of 26.05.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic, sleep

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ground.files import Source
from tests.case_counts import examples
from tests.real_slurm import DEADLINE, Install, real_slurm
from topology.build import build_cluster
from topology.cluster import Cluster, Node
from topology.node_names import fold_hostlist, outgrows_slurm
from topology.readers.slurm import SlurmConf
from topology.writers import TOPOLOGY_WRITERS

pytestmark = [pytest.mark.launchers, pytest.mark.xdist_group("launchers")]

BLOCKS_SINCE, EMPTY_BLOCKS_SINCE = (24, 5), (26, 5)


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A folder with a short name, as names of sockets are short."""
    with tempfile.TemporaryDirectory(prefix="slurm") as name:
        yield Path(name)


def shown(install: Install, folder: Path, topology: str, nodes: Sequence[str]) -> Cluster:
    """The cluster that Slurm says it has after reading a topology.conf; the log where slurmctld ends instead."""
    here = Path(tempfile.mkdtemp(dir=folder))
    with real_slurm(install, here, nodes, topology, gpus=0, slurmd=False) as slurm:
        end = monotonic() + DEADLINE
        while True:
            asked = slurm.tried("scontrol", "show", "topology")
            if asked.returncode == 0 and "Name=" in asked.stdout:
                source = Source("scontrol", asked.stdout)
                return SlurmConf().read(source, levels=None, now=datetime.now(UTC)).cluster
            ended = slurm.controller.poll() is not None or monotonic() > end
            assert not ended, (topology, (here / "log").read_text(errors="replace")[-2000:])
            sleep(0.05)


def own_paths(cluster: Cluster) -> dict[str, tuple[str, ...]]:
    """The named switches above each node, from broad to close."""
    columns = [level.own_names() for level in cluster.levels]
    return {name: tuple(filter(None, path)) for name, *path in zip(cluster.names, *columns, strict=True)}


LONG = "fab20000000000000000001"  # ends in a number of more than 64 bits

ODD_NAMES = {
    "long numbers": [("f", LONG), ("f", f"{LONG}_"), ("g", "fab20000000000000000002"), ("g", "9" * 30)],
    "the largest number": [
        ("f", "s18446744073709551614"),
        ("f", "s18446744073709551615"),
        ("g", "s1844674407370955161"),
    ],
    "digits in one run": [("f", "s1111111111111111111"), ("f", "s1111111111111111112")],
    "zeros": [("f", "s1"), ("f", "s01"), ("g", "s001"), ("g", f"s{'0' * 30}1"), ("g", f"s{'0' * 30}2")],
    "words behind numbers": [("f", "r1-a"), ("f", "r2-a"), ("g", "r1.site"), ("g", "r2.site"), ("h", "1x2y")],
    "numbers alone": [("1", "7"), ("1", "8"), ("2", "9")],
    "signs": [("a:1", "b/2"), ("a:1", "-c"), ("+d", "e|f"), ("+d", "g;h"), ("DEFAULT", "ALL")],
    "long names": [("x" * 64, "y" * 65), ("x" * 64, "z" * 300)],
    "one name at two levels": [("1", "1"), ("2", "3"), ("3", "2")],
    "uneven": [("a", "r1"), ("a", ""), ("", "r2"), ("", "")],
}


@pytest.mark.parametrize("paths", ODD_NAMES.values(), ids=ODD_NAMES)
def test_slurm_reads_the_tree_that_was_written(install: Install, folder: Path, paths: list[tuple[str, str]]) -> None:
    """Names that Slurm's hostlists could take for others: it starts, and each node is below the switches written."""
    rows = [Node(f"n{i}-x", ("all", *path), 8, 8) for i, path in enumerate(paths)]
    text = TOPOLOGY_WRITERS.load("slurm-conf").write(build_cluster(["top", "pod", "rack"], rows)).text
    written = SlurmConf().read(Source("written", text), levels=None, now=datetime.now(UTC)).cluster
    assert own_paths(shown(install, folder, text, written.names)) == own_paths(written)


words = st.sampled_from(["", "r", "a-1-", "0"])
numbers = st.integers(0, 12) | st.integers(2**64 - 3, 2**64 + 3) | st.integers(0, 2**70)
names = st.builds(
    lambda word, number, width, end: f"{word}{number:0{width}}{end}",
    words,
    numbers,
    st.integers(0, 25),
    st.sampled_from(["", "", "-x", ".site"]),
)


@examples(25)
@given(st.lists(st.tuples(names, names), min_size=1, max_size=8, unique=True))
def test_slurm_reads_any_names(install: Install, folder: Path, paths: list[tuple[str, str]]) -> None:
    """As above, of names put together at random; racks have the name of their pod, as a rack lies in one."""
    rows = [Node(f"n{i}", ("all", f"p{pod}", f"{pod}/{rack}"), 8, 8) for i, (pod, rack) in enumerate(paths)]
    text = TOPOLOGY_WRITERS.load("slurm-conf").write(build_cluster(["top", "pod", "rack"], rows)).text
    written = SlurmConf().read(Source("written", text), levels=None, now=datetime.now(UTC)).cluster
    assert own_paths(shown(install, folder, text, written.names)) == own_paths(written)


@examples(40)
@given(
    st.lists(names, min_size=1, max_size=9, unique=True)
    .map(lambda listed: [name for name in listed if not outgrows_slurm(name)])
    .filter(bool)
)
def test_slurm_unfolds_what_is_folded(install: Install, folder: Path, listed: list[str]) -> None:
    """The names of a hostlist, asked of scontrol; zeros, large numbers and words behind them among them."""
    if install.root is not None:
        pytest.skip("scontrol is asked of this machine's Slurm alone, as it needs no controller")
    conf = folder / "client.conf"
    conf.write_text("ClusterName=made\nSlurmctldHost=localhost(127.0.0.1)\nAuthType=auth/none\n", encoding="utf-8")
    command = ["scontrol", "show", "hostnames", fold_hostlist(listed)]
    environment = os.environ | {"SLURM_CONF": str(conf)}
    asked = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert sorted(asked.stdout.split()) == sorted(listed)


def members(cluster: Cluster) -> set[frozenset[str]]:
    """The nodes of each base block, whatever it is called."""
    level = cluster.levels[-1]
    return {frozenset(cluster.names[i] for i in (level.domain_of == k).nonzero()[0]) for k in range(len(level))}


BLOCKS: dict[str, Callable[[], Cluster]] = {
    "of a tree": lambda: build_cluster(
        ["pod", "rack"], [Node(f"n{i}", (f"p{i // 8}", f"r{i // 2}"), 8, 8) for i in range(16)]
    ),
    "long numbers": lambda: build_cluster(
        ["pod", "rack"], [Node(f"n{i}", ("p", f"fab2000000000000000000{i // 2}"), 8, 8) for i in range(6)]
    ),
    # the last group is not complete
    "of NVLink": lambda: build_cluster(
        ["accelerator", "leaf"], [Node(f"n{i}", (f"nvl{i // 4}", f"l{i}"), 4, 4) for i in range(12)]
    ),
}


@pytest.mark.parametrize("make", BLOCKS.values(), ids=BLOCKS)
def test_slurm_reads_the_blocks_that_were_written(install: Install, folder: Path, make: Callable[[], Cluster]) -> None:
    """Base blocks and their nodes; sizes that Slurm would refuse end it."""
    if install.numbers < BLOCKS_SINCE:
        pytest.skip("no Slurm of 24.05 or later, which has blocks")
    text = TOPOLOGY_WRITERS.load("slurm-block").write(make()).text
    written = SlurmConf().read(Source("written", text), levels=None, now=datetime.now(UTC)).cluster
    read = shown(install, folder, text, written.names)
    assert members(read) == members(written)
    assert read.blocks is not None
    assert written.blocks is not None
    assert read.blocks.names == written.blocks.names


def test_slurm_reads_blocks_without_nodes(install: Install, folder: Path) -> None:
    """Two pods of three racks: the first is filled up, so that Slurm joins its four blocks and then the others."""
    if install.numbers < EMPTY_BLOCKS_SINCE:
        pytest.skip("no Slurm of 26.05 or later, which takes blocks without nodes")
    rows = [Node(f"n{i}", (f"p{i // 6}", f"r{i // 2}"), 8, 8) for i in range(12)]
    text = TOPOLOGY_WRITERS.load("slurm-block").write(build_cluster(["pod", "rack"], rows)).text
    assert "BlockName=empty\n" in text
    read = shown(install, folder, text, [row.name for row in rows])
    pods = {frozenset(row.name for row in rows if row.path[0] == pod) for pod in ("p0", "p1")}
    level = read.levels[0]
    assert {frozenset(read.names[i] for i in (level.domain_of == k).nonzero()[0]) for k in range(len(level))} == pods
