"""The page of a placement: it shows what the evaluator and the proposals say, in one file, the same each time."""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from html import unescape
from typing import Any

import numpy as np
import pytest

from arnold.pages.placement_page import placement_page
from ground.errors import InvalidInput
from scheduler.algorithm_run import judge
from scheduler.job import FAMILIES, Count, Job, Parallelism
from scheduler.objective import step_time
from scheduler.outcome import Outcome
from scheduler.placement.types import ParetoPoint, PriceOption, Proposal, Refutation
from tests.browser import Shown, View, show
from tests.facts import says
from tests.markup import tags
from topology.build import build_cluster
from topology.cluster import Cluster, Node
from topology.drawing.page_kit import colour_ramp
from topology.flags import NodeFlag
from topology.generate import fragment, hpn_segments, minipods

in_browser = pytest.mark.xdist_group("placement page")  # which one worker opens, all views at once

JOB = Job("llm", Parallelism(tp=8, pp=2, dp=8), alpha=0.25)
"""8 rows, 2 stages: 16 nodes."""


def four_minipods() -> Cluster:
    """Four minipods of 8 nodes; n09 is slow, n17 faulty, n25 and n26 in use."""
    cluster = minipods(minipods=4, nodes=32, rack_nodes=4).with_busy([24, 25])
    return cluster.with_flags(
        [NodeFlag("n09", "straggler", slowdown=1.3), NodeFlag("n17", "faulty", slowdown=float("inf"))]
    )


def by_stage() -> Proposal:
    """Stage 0 on mp1, stage 1 on mp2: S = 1, R = 2, which costs 0.25 + 0.75 * 2 = 1.75.  Proved."""
    return Proposal(
        np.arange(16, dtype=np.int32).reshape(2, 8).T.copy(),
        lower_bound=1.75,
        step_time_bound=step_time(JOB, objective=1.75, slowest=1.3),
        pareto=(ParetoPoint(1, 2, proved=True), ParetoPoint(6, 1, proved=False)),
        refutations=(
            Refutation((1, 1), "edges", "one minipod has 8 nodes and the job 16 cells"),
            Refutation((4, 1), "product", "a minipod < holds 4 rows"),
            Refutation((4, 1), "coverage", "found later"),
        ),
        prices=(PriceOption(1.3, 1.75, 1.75, 1.04, chosen=True, sentence="n09 is worth its slowness"),),
        solve_seconds=0.0123,
        notes=("n09 is used although slow",),
    )


def scattered() -> Proposal:
    """Rows on two minipods each, every second one turned round: S = 4, R = 2, which costs 0.25 * 4 + 1.5 = 2.5."""
    free = [0, 8, 9, 1, 2, 10, 11, 3, 18, 26, 27, 19, 20, 28, 29, 21]
    return Proposal(np.array(free, dtype=np.int32).reshape(8, 2), solve_seconds=2.5)


def in_columns() -> Proposal:
    """Stage 0 on mp1 and mp2, stage 1 on mp3 and mp4, with the slow node in use: S = 2, R = 2, which costs 2.0."""
    free = [0, 18, 1, 19, 2, 20, 3, 21, 8, 26, 9, 27, 10, 28, 11, 29]
    return Proposal(np.array(free, dtype=np.int32).reshape(8, 2), complete=False, solve_seconds=5.2)


@pytest.fixture(scope="module")
def outcomes() -> list[Outcome]:
    """A proved placement, a worse one, two algorithms without, and one that its limit stopped."""
    cluster = four_minipods()
    return [
        judge("exact", cluster, JOB, by_stage()),
        judge("scatter", cluster, JOB, scattered()),
        judge("whole-domain", cluster, JOB, Proposal(None, infeasible="no minipod has 16 nodes")),
        replace(judge("slowpoke", cluster, JOB, Proposal(None, complete=False, solve_seconds=60.0)), stopped_at=60.0),
        replace(judge("halfway", cluster, JOB, in_columns()), stopped_at=5.0),
    ]


@pytest.fixture(scope="module")
def page(outcomes: list[Outcome]) -> str:
    """The page of these outcomes."""
    return placement_page(four_minipods(), JOB, outcomes, title="Sixteen nodes")


def data_of(page: str) -> dict[str, Any]:
    """What the script of the page knows."""
    found = re.search(r'<script id="data" type="application/json">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    data: dict[str, Any] = json.loads(found.group(1))
    return data


def text_of(page: str) -> str:
    """The page without markup, script, style and what is hidden, as one line."""
    bare = re.sub(r'<(script|style).*?</\1>|<span [^>]*hidden(="")?>[^<]*</span>|<[^>]+>', " ", page, flags=re.DOTALL)
    return re.sub(r"\s+", " ", unescape(bare))


def test_the_markup_is_balanced(page: str) -> None:
    """Every element that is opened is closed, in order."""
    assert tags(page)


def test_same_input_same_page(outcomes: list[Outcome], page: str) -> None:
    """No time, no random id: the same text again."""
    assert placement_page(four_minipods(), JOB, outcomes, title="Sixteen nodes") == page


def test_the_page_needs_no_network(page: str) -> None:
    """No address, no import, and a policy that forbids fetching anything."""
    assert not re.findall(r"(?:src|href)\s*=|@import|url\(|https?://", page)
    assert "default-src 'none'" in unescape(page)


def test_cells_are_drawn_where_the_placement_says(outcomes: list[Outcome], page: str) -> None:
    """Each of the 32 squares has the class of the stage on its node; others are open or busy; flags are marked."""
    names = data_of(page)["names"]
    kinds = dict(zip(names, re.findall(r'<rect class="n ([\w ]+)"', page), strict=True))
    assert all(kinds[f"n{i:02d}"] == "placed s0" for i in range(1, 9))
    assert all(kinds[f"n{i:02d}"] == "placed s1" for i in range(9, 17))
    assert [name for name, kind in kinds.items() if kind == "busy"] == ["n25", "n26"]
    assert list(kinds.values()).count("open") == 14
    assert page.count('class="mark slowed"') == page.count('class="mark dead"') == 1


def test_every_placement_can_be_drawn(outcomes: list[Outcome], page: str) -> None:
    """The data holds both placements cell by cell, with the node ranks and domains that the evaluator uses."""
    cluster, data = four_minipods(), data_of(page)
    assert [run["name"] for run in data["runs"]] == ["exact", "scatter", "halfway"]
    for run, outcome in zip(data["runs"], [outcomes[0], outcomes[1], outcomes[4]], strict=True):
        assert outcome.proposal.nodes is not None
        assert outcome.evaluation is not None
        nodes = [cluster.index(data["names"][square]) for square in run["cells"]]
        assert nodes == outcome.proposal.nodes.ravel().tolist()
        domains = [data["domains"][data["domain"][square]] for square in run["cells"]]
        assert {name: domains.count(name) for name in set(domains)} == dict(outcome.evaluation.domains)
    assert data["rank"] == JOB.grid.node_rank.ravel().tolist()
    assert (data["rows"], data["columns"]) == (8, 2)
    assert data["colours"]["stage"] == list(colour_ramp(2))


def test_boxes_count_the_cells_of_each_placement(page: str) -> None:
    """Beside mp1 stands 8 of 8 for the first placement, 4 of 8 for the second."""
    first, second, _ = (run["notes"] for run in data_of(page)["runs"])
    assert first["0"] == "8/8"
    assert second["0"] == "4/8"
    assert re.search(r'<text class="note" data-frame="0"[^>]*>8/8</text>', page)


def test_the_grid_shows_the_spread(page: str) -> None:
    """16 cells, row by row, coloured by minipod: stage 0 in one colour, stage 1 in another, both named."""
    colours = re.findall(r'<rect class="g"[^>]*fill="(#\w+)"/>', page)
    assert len(colours) == 16
    assert len(set(colours[0::2])) == len(set(colours[1::2])) == 1
    assert colours[0] != colours[1]
    assert re.findall(r'<text class="tag"[^>]*>(\w+)</text>', page)[:2] == ["mp1", "mp2"]


def cells_of(page: str) -> list[tuple[int, float, float]]:
    """Block, x and y of each cell of the job's grid, in the order in which they are drawn."""
    blocks = re.findall(r'<svg class="grid".*?</svg>', page, re.DOTALL)
    return [
        (i, float(x), float(y))
        for i, block in enumerate(blocks)
        for x, y in re.findall(r'<rect class="g" x="([\d.]+)" y="([\d.]+)"', block)
    ]


@pytest.mark.parametrize(("rows", "columns"), [(1, 8), (1, 1), (8, 2), (150, 8), (46, 8), (8, 64), (400, 8)])
def test_rows_of_the_job_are_rows_of_the_drawing(rows: int, columns: int) -> None:
    """Cells of a PP group stand side by side on one line, those of a DP group below each other; what does not fit below
    each other goes on in the next block, and no block is higher than a screen.

    Minipods have 250 nodes, and there are as many as the job fills, two at least: with one the spread counts racks.
    """
    count = max(2, -(-rows * columns // 250))
    cluster, job = minipods(minipods=count, nodes=250 * count), Job("llm", Parallelism(tp=8, pp=columns, dp=rows))
    nodes = np.arange(rows * columns, dtype=np.int32).reshape(rows, columns)
    page = placement_page(cluster, job, [judge("in-order", cluster, job, Proposal(nodes))])
    cells = np.array(cells_of(page)).reshape(rows, columns, 3)
    block, x, y = cells[..., 0], cells[..., 1], cells[..., 2]
    assert (y == y[:, :1]).all()
    assert (block == block[:, :1]).all()
    assert (x == x[:1]).all()
    assert (np.diff(x, axis=1) > 0).all()
    further = np.diff(block[:, 0]) > 0
    assert (np.diff(y[:, 0])[~further] > 0).all()
    assert (np.diff(y[:, 0])[further] < 0).all()
    assert y.max() < 700
    assert (block.max() > 0) == (rows > 40)
    said = "row numbers at the left" if rows > 1 else "each column one stage (DP group). Colours in a row: PP spread."
    assert says(text_of(page), "one pipeline (PP group)")
    assert said in text_of(page)


def test_the_verdict_says_what_was_proved(page: str) -> None:
    """Cheaper than (1, 2) at 1.75 are (3, 1) at 1.5, (2, 1) at 1.25 and (1, 1): all below (3, 1), which is refuted."""
    text = text_of(page)
    assert says(text, "16 nodes on 2 minipods", "at most 1 minipod", "at most 2 minipods")
    assert says(text, "Proved optimal", "3 cheaper pairs")


def reasons_of(page: str) -> list[list[str]]:
    """Cells of the table of cheaper pairs."""
    body = page.split('class="reasons"')[1].partition("</table>")[0].partition("<tbody>")[2]
    return [
        [text_of(cell).strip() for cell in re.findall(r"<t[hd].*?</t[hd]>", row)] for row in body.split("</tr>")[:-1]
    ]


def test_every_cheaper_pair_stands_there_with_what_rules_it_out(page: str) -> None:
    """As many rows as the verdict counts, (1, 1) among them, and none for (4, 1), which costs as much as was found: it
    is named where it rules out (3, 1).  Of two reasons for one pair the first is kept; markup in a reason is text.
    """
    assert reasons_of(page) == [
        ["(3, 1)", "1.5", "product : not even (4, 1) can be had: a minipod < holds 4 rows"],
        ["(2, 1)", "1.25", "ruled out with (3, 1)"],
        ["(1, 1)", "1.0", "ruled out with (3, 1)"],
    ]
    assert "found later" not in page


def test_what_is_open_is_said_to_be_open() -> None:
    """Only (1, 1) is refuted: the others that would cost less than (4, 2) at 2.5 stand there as open; without any
    refutation there is no table, but how many pairs would be cheaper.
    """
    cluster = four_minipods()
    known = Proposal(scattered().nodes, refutations=(Refutation((1, 1), "edges", "16 cells"),))
    page = placement_page(cluster, JOB, [judge("exact", cluster, JOB, known)])
    pair, objective, reason = reasons_of(page)[0]
    assert (pair, objective) == ("(3, 2)", "2.25")
    assert says(reason, "open", "--time-limit")
    assert ["(1, 1)", "1.0", "edges : 16 cells"] in reasons_of(page)
    # S up to 4 domains and R up to 2 stages, without (4, 2) itself
    assert len(reasons_of(page)) == 7
    text = text_of(placement_page(cluster, JOB, [judge("scatter", cluster, JOB, scattered())]))
    assert says(text, "7 pairs", "scatter's 2.5", "none of them")


def test_the_comparison_is_sorted_by_worth(page: str) -> None:
    """Best first, failures last with their reason; bars in proportion; the gap only where a bound is vouched for."""
    rows = [text_of(row) for row in re.findall(r"<tr.*?</tr>", page.split('class="algorithms"')[1], re.DOTALL)[1:6]]
    assert rows[0].split() == ["exact", "1.75", "1.00x", "1", "2", "proved", "optimal", "0", "12.3", "ms"]
    assert rows[1].split() == ["halfway", "2.0", "1.14x", "2", "2", "stopped", "at", "5", "s", "5.2", "s"]
    assert rows[2].split() == ["scatter", "2.5", "1.43x", "4", "2", "feasible", "2.5", "s"]
    assert "no minipod has 16 nodes infeasible" in rows[3]
    assert says(rows[4], "time ran out", "stopped at 60 s")
    assert "the algorithm's own rule admits no placement" in text_of(page)
    assert "width:100.0%" in page
    assert "width:70.0%" in page


def test_the_chart_shows_front_and_others(page: str) -> None:
    """A proved point, an unproved one, dots for the others, the shade, and a ring for each placement: one is seen."""
    chart = page.split('<svg class="chart front"')[1].partition("</svg>")[0]
    assert chart.count('class="point proved"') == chart.count('class="point unproved"') == 1
    assert (chart.count('class="other"'), chart.count('class="impossible"')) == (2, 1)
    assert re.findall(r'data-ring="(\d)"( hidden)?', chart) == [("0", ""), ("1", " hidden"), ("2", " hidden")]
    assert re.findall(r">(\(\d, \d\)|scatter|halfway)<", chart) == ["(1, 2)", "(6, 1)", "scatter", "halfway"]


def test_slow_nodes_and_notes_are_told(page: str) -> None:
    """How slowness was weighed, what the run has to say, and how many flagged nodes were kept out of the job."""
    text = text_of(page)
    assert "up to 1.3x 1.75 1.040 x ideal chosen" in text
    assert "n09 is used although slow" in text
    assert "1 flagged node avoided 1 of 2 used" in text


def test_a_gap_is_said_plainly() -> None:
    """Without a proof the verdict gives the bound and how much lower the best could be: (2.5 - 2) / 2.5 = 20 %."""
    cluster = four_minipods()
    proposal = Proposal(scattered().nodes, lower_bound=2.0)
    text = text_of(placement_page(cluster, JOB, [judge("exact", cluster, JOB, proposal)]))
    assert says(text, "objective below 2.0", "20.0% lower")
    assert "Proved" not in text


def test_a_job_that_does_not_fit_still_has_a_page() -> None:
    """The reason, the cluster without cells, the refusal in the table; no chart of nothing, no script for no cells."""
    cluster = four_minipods()
    page = placement_page(cluster, JOB, [judge("exact", cluster, JOB, Proposal(None, infeasible="16 nodes are many"))])
    assert "No placement: 16 nodes are many." in text_of(page)
    assert "16 nodes are many infeasible" in text_of(page)
    assert 'class="n placed' not in page
    assert '<svg class="chart front"' not in page
    assert "data-mode" not in page.split("</style>")[1]


CHOOSE = """
  const seen = (part) => {
    const box = inside.querySelector(part).getBoundingClientRect();
    return box.top >= 0 && box.top < inside.defaultView.innerHeight / 2;
  };
  const button = [...inside.querySelectorAll("tr[data-run] button")].find((one) => one.textContent === "halfway");
  button.focus();
  const before = seen("#on-cluster");
  button.click();
  const parts = ["#on-cluster", ".facts", "#verdict"].map(seen);
  inside.documentElement.dataset.seen = [before, ...parts, inside.activeElement.id].join(" ");
"""
"""What Enter on the button of an algorithm does, and what is seen then."""


@pytest.fixture(scope="module")
def shown(page: str, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Shown]:
    """The page on two screens, before and after an algorithm was chosen, and the page of a single placement."""
    single = placement_page(four_minipods(), JOB, [judge("exact", four_minipods(), JOB, by_stage())])
    views = {
        "1280": View(page, 1280),
        "400": View(page, 400),
        "1280, chosen": View(page, 1280, CHOOSE),
        "400, chosen": View(page, 400, CHOOSE),
        "single": View(single, 1280),
    }
    return dict(zip(views, show([*views.values()], tmp_path_factory.mktemp("browser")), strict=True))


@in_browser
def test_choosing_an_algorithm_changes_all_that_is_said_of_a_placement(shown: Mapping[str, Shown]) -> None:
    """Tiles, sentence, spread at every level, ring, map and names follow; map, tiles and sentence come into sight, and
    the keyboard goes on with the list of algorithms.
    """
    chosen = shown["1280, chosen"]
    assert chosen.said == []
    text = text_of(chosen.dom)
    assert "2.0 objective 0.25 x 2 + 0.75 x 2; nothing below 1.75 2 DP spread" in text
    assert re.search(r'<span class="seal" hidden="">proved', chosen.dom)
    assert "5.2 s to solve halfway" in text
    said = "16 nodes on 4 minipods: a DP group touches at most 2 minipods, a PP group at most 2 minipods."
    assert says(text, said, "Stopped at 5 s", "Objective 2.0", "1.14 times that of exact (1.75, proved optimal)")
    outcome = judge("halfway", four_minipods(), JOB, in_columns())
    assert outcome.evaluation is not None
    expected = [outcome.evaluation.by_level[level][family] for level in ("minipod", "rack") for family in FAMILIES]
    assert [int(number) for number in re.findall(r"data-spread=\"\">(\d+)<", chosen.dom)] == expected
    assert re.findall(r'data-ring="(\d)"( hidden)?', chosen.dom) == [("0", " hidden"), ("1", " hidden"), ("2", "")]
    assert set(re.findall(r'class="run-name">(\w+)<', chosen.dom)) == {"halfway"}
    pressed = re.findall(r'class="link" aria-pressed="(\w+)">(\w+)<', chosen.dom)
    assert [name for on, name in pressed if on == "true"] == ["halfway"]
    assert 'data-seen="false true true true run"' in chosen.dom


@in_browser
def test_on_a_telephone_the_map_comes_into_sight(shown: Mapping[str, Shown]) -> None:
    """There is no room for tiles and map: the map counts."""
    assert 'data-seen="false true false false run"' in shown["400, chosen"].dom


@in_browser
def test_a_single_placement_offers_no_choice(shown: Mapping[str, Shown]) -> None:
    """There is nothing to choose from, and nothing goes wrong without the list of algorithms."""
    single = shown["single"]
    assert single.said == []
    assert "data-run=" not in single.dom
    assert 'id="run"' not in single.dom
    assert "1.75 proved objective" in text_of(single.dom)


def test_a_long_list_of_cheaper_pairs_says_how_many_are_left_out() -> None:
    """60 x 12 cells spread over all of 50 minipods leave 50 x 12 - 1 cheaper pairs; 400 are listed, 199 counted."""
    cluster, job = minipods(minipods=50, nodes=1_600), Job("wide", Parallelism(tp=8, pp=12, dp=60), alpha=0.5)
    # the next row and the next column are on the next minipod: rows touch 12 of them, columns all 50
    row, column = np.indices((60, 12))
    nodes = ((row + column) % 50 * 32 + row // 50 * 12 + column).astype(np.int32)
    outcome = judge("apart", cluster, job, Proposal(nodes, refutations=(Refutation((1, 1), "edges", "720 cells"),)))
    assert outcome.evaluation is not None
    assert (outcome.evaluation.dp, outcome.evaluation.pp) == (50, 12)
    page = placement_page(cluster, job, [outcome])
    assert len(reasons_of(page)) == 400
    assert says(text_of(page), "199 more", "arnold explain --json")


def test_without_scripts_the_page_is_about_the_first(page: str) -> None:
    """All that the script exchanges stands there for the first placement."""
    bare = re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
    text = text_of(bare)
    assert "1.75 proved objective 0.25 x 1 + 0.75 x 2; proved: nothing is lower" in text
    assert "12.3 ms to solve exact" in text
    assert re.findall(r"data-spread>(\d)<", bare)[3:5] == ["1", "2"]


@in_browser
@pytest.mark.parametrize("width", [1280, 400])
def test_a_browser_shows_it(shown: Mapping[str, Shown], width: int) -> None:
    """Nothing is on the console, the page is no wider than the screen, what is wider scrolls within and can be reached
    with the keyboard, and the tooltip, which is empty, is not read out.
    """
    screen = shown[str(width)]
    assert screen.said == []
    assert screen.width <= width
    reached = re.findall(r'class="scroll cut" tabindex="0" role="group" aria-label="([^"]+)"', screen.dom)
    assert ("Every algorithm on this job" in reached) == (width == 400)
    assert '<div id="tip" aria-hidden="true"' in screen.dom


def test_tables_have_no_empty_headers(page: str) -> None:
    """A column without a name says nothing to a screen reader."""
    assert not re.findall(r"<th[^>]*></th>", page)


def test_no_outcome_no_page() -> None:
    """A page about nothing is refused."""
    with pytest.raises(InvalidInput, match="at least one outcome"):
        placement_page(four_minipods(), JOB, [])


def test_names_cannot_break_out_of_the_page() -> None:
    """Node, domain, job and algorithm names and reasons are text everywhere."""
    nasty = "</script><script>alert('1')</script>"
    rows = [Node(f"{nasty}{i}", (f"{nasty}{i // 2}",), 8, 8) for i in range(4)]
    cluster, job = build_cluster(["pod"], rows), JOB.replace(name=nasty, parallelism=Parallelism(tp=8, pp=2, dp=2))
    found = judge(nasty, cluster, job, Proposal(np.arange(4, dtype=np.int32).reshape(2, 2), notes=(nasty,)))
    failed = judge(nasty, cluster, job, Proposal(None, infeasible=nasty))
    page = placement_page(cluster, job, [found, failed], title=nasty)
    assert "<script>alert" not in page
    assert data_of(page)["runs"][0]["name"] == nasty


def test_soft_terms_are_told_apart() -> None:
    """Half a point for each rack a DP group touches (two): 1.75 becomes 2.75, and the sum is spelled out."""
    cluster, job = four_minipods(), JOB.replace(counts=(Count("dp", "rack", 0.5),))
    text = text_of(placement_page(cluster, job, [judge("exact", cluster, job, by_stage())]))
    assert "2.75 objective 0.25 x 1 + 0.75 x 2 + 1.0 of soft terms" in text


@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_one_sided_objectives_have_a_page(alpha: float) -> None:
    """Alpha 0 or 1 leaves one spread without weight: no division by zero in the line of equal cost."""
    cluster, job = four_minipods(), JOB.replace(alpha=alpha)
    assert "Sixteen" in placement_page(cluster, job, [judge("exact", cluster, job, scattered())], title="Sixteen")


def test_many_stages_share_one_key() -> None:
    """64 stages: one gradient from the first to the last instead of 64 entries, and lines without names."""
    cluster, job = hpn_segments(), Job("deep", Parallelism(tp=8, pp=64, dp=8))
    nodes = np.arange(512, dtype=np.int32).reshape(8, 64)
    page = placement_page(cluster, job, [judge("rows", cluster, job, Proposal(nodes))])
    assert "stage 0 to 63" in text_of(page)
    assert page.count('class="g"') == 512


def test_the_paper_scale_and_beyond_stay_small_files() -> None:
    """2,046 nodes: below 500 kB.  12,500 nodes and 12,480 cells: below 3 MB.  20,000 nodes as bars: no cell drawn."""
    for count, nodes, rows, limit in (
        (22, 2_046, 150, 500_000),
        (50, 12_500, 1_560, 3_000_000),
        (80, 20_000, 1_560, 300_000),
    ):
        cluster = minipods(minipods=count, nodes=nodes)
        job = Job("llm", Parallelism(tp=8, pp=8, dp=rows))
        placed = Proposal(np.arange(rows * 8, dtype=np.int32).reshape(rows, 8))
        page = placement_page(cluster, job, [judge("in-order", cluster, job, placed)])
        assert len(page) < limit
        assert (page.count('class="n placed') == rows * 8) == (nodes < 15_000)


def test_partly_busy_nodes_are_told_apart() -> None:
    """A node with some free GPUs is neither free nor busy, and the key says how many there are."""
    cluster = fragment(minipods(minipods=4, nodes=64), 0.5, seed=1)
    free = np.flatnonzero(cluster.idle)[:16].astype(np.int32).reshape(8, 2)
    page = placement_page(cluster, JOB, [judge("first", cluster, JOB, Proposal(free))])
    partly = int(((cluster.free_gpus > 0) & (cluster.free_gpus < cluster.gpus)).sum())
    assert page.count('class="n partly"') == partly > 0
    assert f"<b>{partly}</b> partly busy" in page


@pytest.mark.parametrize(
    ("degrees", "words"),
    [
        ({"tp": 16, "dp": 2}, "A TP group is 2 rows of a column"),
        ({"tp": 4, "dp": 3, "pp": 2}, "Each line is a node, in the order of ranks"),
        ({"tp": 8, "dp": 4}, "each column one stage (DP group)"),
    ],
)
def test_what_rows_and_columns_are(degrees: dict[str, int], words: str) -> None:
    """TP groups of two nodes, stages that begin inside nodes, and the usual grid."""
    cluster, job = minipods(minipods=1, nodes=4), Job("job", Parallelism(**degrees))
    nodes = np.arange(job.grid.cells, dtype=np.int32).reshape(job.grid.rows, job.grid.columns)
    page = placement_page(cluster, job, [judge("exact", cluster, job, Proposal(nodes))])
    assert words in page
