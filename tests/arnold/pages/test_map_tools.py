"""What stands with the map of a placement: the nodes by rank, and how the map is made larger."""

import re

import numpy as np
import pytest

from arnold.pages.placement_page import placement_page
from scheduler.algorithm_run import judge
from scheduler.job import Job, Parallelism
from scheduler.placement.types import Proposal
from tests.browser import Shown, View, show
from topology.generate import minipods

pytestmark = pytest.mark.xdist_group("map tools")  # the page is opened once, by one worker

JOB = Job("llm", Parallelism(tp=8, pp=2, dp=3))
CLUSTER = minipods(minipods=2, nodes=16, rack_nodes=4)


@pytest.fixture(scope="module")
def page() -> str:
    """Two placements of six nodes: on the first ones in order, and on the last ones; each has rank 0 on its first."""
    first = np.arange(6, dtype=np.int32).reshape(3, 2)
    runs = [judge("first", CLUSTER, JOB, Proposal(first)), judge("last", CLUSTER, JOB, Proposal(15 - first))]
    return placement_page(CLUSTER, JOB, runs)


CHOOSE = """
  inside.querySelector("#ranks").open = true;
  const select = inside.getElementById("run");
  select.value = "1";
  select.dispatchEvent(new Event("change"));
"""


PINCH = """
  const view = inside.defaultView;
  const map = inside.querySelector("svg.cluster");
  const width = () => map.getBoundingClientRect().width;
  const share = (x) => (x - map.getBoundingClientRect().left) / width();
  const own = width();
  const touch = (kind, apart) => map.dispatchEvent(new view.TouchEvent(kind, {
    bubbles: true, cancelable: true,
    touches: [-1, 1].map((side, identifier) => new view.Touch({
      identifier, target: map, clientX: 150 + side * apart / 2, clientY: 300,
    })),
  }));
  const before = share(150);
  touch("touchstart", 50);
  touch("touchmove", 150);
  const pinched = width() / own;
  const moved = Math.abs(share(150) - before);
  const smaller = [...inside.querySelectorAll(".zoom button")].find((one) => one.textContent === "Smaller");
  for (let i = 0; i < 5; i += 1) smaller.click();
  inside.documentElement.dataset.zoom = [pinched, moved < 0.01, width() / own].join(" ");
"""


@pytest.fixture(scope="module")
def shown(page: str, tmp_path_factory: pytest.TempPathFactory) -> Shown:
    """On a telephone, after the other algorithm was chosen and the map pinched."""
    (shown,) = show([View(page, 400, f"{{{CHOOSE}}}{{{PINCH}}}")], tmp_path_factory.mktemp("browser"))
    return shown


def rows_of(dom: str) -> list[list[str]]:
    """Cells of the table of nodes by rank."""
    body = re.findall(r'<table class="ranks">.*?<tbody>(.*?)</tbody>', dom, re.S)[0]
    return [re.findall(r"<t[hd][^>]*>([^<]*)<", row) for row in body.split("</tr>")[:-1]]


def test_nodes_by_rank_follow_the_algorithm(shown: Shown) -> None:
    """A row for each rank with its node, its domains and its cell; the headers name the levels."""
    assert shown.said == []
    assert re.findall(r'data-column="\w+">([^<]*)<', shown.dom) == [
        "node rank",
        "node",
        "minipod / rack",
        "row (dp)",
        "stage (pp)",
    ]
    columns = JOB.grid.node_rank  # the rank of each cell, [rows, columns]
    expected = {
        int(columns[row, column]): [CLUSTER.names[10 + 2 * row + column], str(row), str(column)]
        for row in range(3)
        for column in range(2)
    }
    found = rows_of(shown.dom)
    assert [int(row[0]) for row in found] == list(range(6))
    assert [[row[1], row[3], row[4]] for row in found] == [expected[rank] for rank in range(6)]
    assert {row[2] for row in found} == {"mp2 / r3", "mp2 / r4"}


def test_two_fingers_and_buttons_make_the_map_larger(shown: Shown) -> None:
    """Fingers three times as far apart: three times as large, with what is between them at its place; never smaller
    than it was.  The page itself does not get wider.
    """
    assert 'data-zoom="3 true 1"' in shown.dom
    assert shown.width <= 400


def test_what_is_cut_says_so(shown: Shown) -> None:
    """The table of algorithms goes on beyond its frame, which the keyboard reaches then; that of spreads does not."""
    frame = r'class="scroll( cut)?"( tabindex="0"[^>]*)?>\s*<table class="(algorithms|narrow-cells)"'
    found = {table: (cut, bool(reached)) for cut, reached, table in re.findall(frame, shown.dom)}
    assert found == {"algorithms": (" cut", True), "narrow-cells": ("", False)}


def test_the_footer_names_the_level(page: str) -> None:
    """As what spread counts."""
    assert "spread = minipods that the widest group touches" in page
