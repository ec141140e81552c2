"""Drawings as files: the same bytes every time, one file that needs nothing else, nothing half written."""

import json
import re
import subprocess
import sys
from html import unescape
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from ground.errors import InvalidInput
from topology.build import build_cluster
from topology.cluster import Cluster, Node, State, count_states, node_states
from topology.drawing import FORMATS, draw_cluster, drawing
from topology.drawing.layout import DETAIL
from topology.drawing.page_kit import tones
from topology.flags import NodeFlag
from topology.generate import flag_some, fragment, minipods


@pytest.fixture(scope="module")
def cluster() -> Cluster:
    """60 nodes in 3 minipods, half of them busy, five flagged."""
    return flag_some(fragment(minipods(minipods=3, nodes=60), 0.5, seed=1), 5, seed=1)


def page_data(page: str) -> dict[str, list[str]]:
    """What the script of a page knows."""
    found = re.search(r'<script id="data" type="application/json">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    data: dict[str, list[str]] = json.loads(found.group(1))
    return data


@pytest.mark.parametrize("kind", FORMATS)
def test_same_cluster_same_bytes(cluster: Cluster, kind: str) -> None:
    """No time, no random id, no version gets into a drawing."""
    assert drawing(cluster, kind, title="Test") == drawing(cluster.replace(), kind, title="Test")


@pytest.mark.parametrize(("kind", "start"), [("svg", b"<?xml"), ("png", b"\x89PNG"), ("html", b"<!DOCTYPE html>")])
def test_the_suffix_says_the_format(cluster: Cluster, tmp_path: Path, kind: str, start: bytes) -> None:
    """Each suffix, in capitals too, gives a file of that format."""
    for name in (f"cluster.{kind}", f"CLUSTER.{kind.upper()}"):
        draw_cluster(cluster, tmp_path / name)
        assert (tmp_path / name).read_bytes().startswith(start)


def test_another_suffix_is_refused(cluster: Cluster, tmp_path: Path) -> None:
    """The error names the suffixes that can be drawn, and nothing is written."""
    with pytest.raises(InvalidInput) as refusal:
        draw_cluster(cluster, tmp_path / "cluster.pdf")
    assert ".svg, .png, .html" in refusal.value.fix
    assert not list(tmp_path.iterdir())


def test_a_place_that_cannot_be_written_to_is_an_error(cluster: Cluster, tmp_path: Path) -> None:
    """A folder that does not exist: an error that says so, no file."""
    with pytest.raises(InvalidInput, match="cannot be written"):
        draw_cluster(cluster, tmp_path / "nowhere" / "cluster.html")


def test_the_picture_is_valid_xml(cluster: Cluster) -> None:
    """The SVG file parses, and its size follows the layout."""
    root = ElementTree.fromstring(drawing(cluster, "svg"))
    assert root.tag.endswith("svg")


def test_the_page_holds_every_node_with_its_state(cluster: Cluster) -> None:
    """One square a node, its class the node's state, the legend's counts those of the cluster."""
    page = drawing(cluster, "html").decode()
    kinds = re.findall(r'<rect class="n (\w+)"', page)
    counts = count_states(node_states(cluster))
    assert [kinds.count(state.name.lower()) for state in State] == list(counts)
    assert sorted(page_data(page)["names"]) == sorted(cluster.names)
    for state in State:
        shown = f"<b>{counts[state]}</b> {state.label}" in page
        assert shown == (counts[state] > 0)


def test_the_tooltip_says_the_type_of_gpu() -> None:
    """Of a node the page knows its type, of a domain how many nodes of each; nothing where nothing is said."""
    nodes = [Node(f"n{i}", ("r",), 8, 8, gpu_type=name) for i, name in enumerate(["H100", "<A100>", "H100", ""])]
    page = drawing(build_cluster(["rack"], nodes), "html", title="Test").decode()
    assert (page_data(page)["types"], page_data(page)["type"]) == (["H100", "<A100>", ""], [0, 1, 0, 2])
    assert "GPUs: 2 of H100, 1 of &lt;A100&gt;" in page
    assert "<A100>" not in page
    untyped = build_cluster(["rack"], [Node("n0", ("r",), 8, 8)])
    assert "GPUs: " not in drawing(untyped, "html", title="Test").decode()


def test_the_page_needs_no_network(cluster: Cluster) -> None:
    """No address, no import, and a policy that forbids fetching anything."""
    page = drawing(cluster, "html").decode()
    assert not re.findall(r"(?:src|href)\s*=|@import|url\(|https?://", page)
    assert "default-src 'none'" in unescape(page)


def test_names_cannot_break_out_of_the_page() -> None:
    """Names come from files: markup in them is text on the page, in attributes and in the script's data."""
    nasty = '</script><script>alert("1")</script>'
    rows = [Node(nasty, (f'{nasty}"&', "r1"), 8, 8), Node("n1", ("p2", "r2"), 8, 8), Node("n2", ("p2", "r2"), 8, 8)]
    flagged = build_cluster(["pod", "rack"], rows).with_flags(
        [NodeFlag(nasty, "faulty", slowdown=float("inf"), evidence=nasty)]
    )
    page = drawing(flagged, "html", title=nasty).decode()
    assert "<script>alert" not in page
    assert page_data(page)["names"][0] == nasty
    assert b"<script" not in drawing(flagged, "svg", title=nasty)


@pytest.mark.parametrize("name", ["-->", "a--b", "机架一", "é" * 200, "🙂"])
def test_any_printable_name_can_be_drawn(name: str) -> None:
    """Ends of comments, letters that the picture's font lacks, long names: drawn without a warning, as valid XML."""
    named = build_cluster(["pod"], [Node(f"n{i}", (name,), 8, 8) for i in range(12)])
    ElementTree.fromstring(drawing(named, "svg", title=name))
    assert name in unescape(drawing(named, "html", title=name).decode())


def test_a_dollar_in_a_name_is_a_dollar() -> None:
    """Plotting libraries read mathematics between dollar signs; a half-open one must not stop a drawing."""
    rows = [Node(f"n{i}", ("$x^{", "r1"), 8, 8) for i in range(4)]
    assert drawing(build_cluster(["pod", "rack"], rows), "png", title="$\\frac{").startswith(b"\x89PNG")


def test_large_clusters_stay_small_files() -> None:
    """12,500 nodes, each drawn: the page stays below 2 MB; 30,000 nodes as 500 bars below half a megabyte."""
    assert len(drawing(minipods(minipods=50, nodes=12_500), "html")) < 2_000_000
    assert len(drawing(minipods(minipods=500, nodes=30_000), "html")) < 500_000


def test_the_door_is_closed_until_somebody_knocks() -> None:
    """Importing the package imports no plotting and no templates, and drawing never touches pyplot's global state."""
    program = (
        "import sys, topology.drawing as d, topology.generate as g, topology.summary\n"
        "print([m for m in ('matplotlib', 'jinja2', 'networkx') if m in sys.modules])\n"
        "d.drawing(g.minipods(minipods=1, nodes=3), 'png')\n"
        "print('matplotlib.pyplot' in sys.modules)\n"
    )
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert output.stdout.split("\n")[:2] == ["[]", "False"]


def of_types(cluster: Cluster, *names: str) -> Cluster:
    """The cluster with nodes of these types of GPU by turns."""
    return cluster.replace(gpu_types=names, gpu_type_of=np.arange(len(cluster), dtype=np.int32) % np.int32(len(names)))


@pytest.mark.parametrize(("nodes", "drawn"), [(60, 20), (DETAIL + 600, 3)])
def test_pictures_tell_types_of_gpu_apart(nodes: int, drawn: int) -> None:
    """Each node has a strip that says its type, each bar of merged nodes one for each type in it, and the legend too.

    Of 60 nodes by turns of two types and of none that is said, 20 are of each.
    """
    many = minipods(minipods=3, nodes=nodes)
    picture = drawing(of_types(many, "H100", "H200", ""), "svg").decode()
    for colour in tones(2):
        found = picture.count(f"fill: {colour}")
        assert found == drawn + 1 if nodes < DETAIL else found > drawn
    for alike in (many, of_types(many, "H100")):
        assert not any(colour in drawing(alike, "svg").decode() for colour in tones(2))
