"""The topology of the Lingjun data set."""

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ground.errors import InvalidInput
from ground.files import Source
from topology.load import load_topology
from topology.readers.alibaba import Lingjun
from topology.readers.reading import Reading

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


def read(text: str) -> Reading:
    """Read a text called f."""
    return Lingjun().read(Source("f", text), levels=None, now=NOW)


def test_access_switches_are_pairs() -> None:
    """S1 below P1 and S1 below P2 are two switches."""
    cluster = read("ip,DSW,PSW,ASW\na,G1,P1,S1\nb,G1,P2,S1\nc,G1,P1,S1\n").cluster
    assert [level.name for level in cluster.levels] == ["dsw", "psw", "asw"]
    assert [node.path for node in cluster] == [("G1", "P1", "P1/S1"), ("G1", "P2", "P2/S1"), ("G1", "P1", "P1/S1")]
    assert {node.gpus for node in cluster} == {8}


def test_other_columns_are_refused() -> None:
    """The format is exactly that of the data set."""
    with pytest.raises(InvalidInput, match="the columns are"):
        read("ip,PSW,ASW\na,P1,S1\n")


def test_the_public_file() -> None:
    """847 hosts, one DSW, 3 PSW and 119 pairs of PSW and ASW: counted with sort -u over the columns of the file."""
    folder = os.environ.get("ARNOLD_DATA")
    if not folder:
        pytest.skip("ARNOLD_DATA is not set: the public data set is not part of the project")
    topology = load_topology(Path(folder) / "lingjun2023" / "topo.csv")
    assert topology.format == "lingjun"
    assert len(topology.cluster) == 847
    assert [len(level) for level in topology.cluster.levels] == [1, 3, 119]
