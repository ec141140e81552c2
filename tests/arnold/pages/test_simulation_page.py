"""The page of a replay: whole, without network, and alive in a real browser."""

from __future__ import annotations

import json
import re
import zlib
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from html import unescape
from typing import Any

import numpy as np
import pytest

from arnold.options.simulate_options import PAGE_BUCKETS
from arnold.pages.charts import line_chart
from arnold.pages.replay_page import OTHERS, chosen_jobs, frames, simulation_page
from simulator.history import RunHistory
from simulator.hooks import Incident
from simulator.results import run_summary, time_series, waits_by_size
from simulator.sheet import Chart, Series
from tests.browser import Shown, View, show
from tests.facts import says
from tests.markup import tags
from tests.simulator.clusters import racks
from tests.simulator.replays import KeepsHalf, Twice, random_records, replayed
from topology.drawing.layout import layout

in_browser = pytest.mark.xdist_group("simulation page")  # which one worker opens, all views at once


def words(html: str) -> str:
    """Text without tags, scripts and styles."""
    bare = re.sub(r"<(script|style).*?</\1>", " ", html, flags=re.S)
    return unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", bare)))


def data(html: str) -> Any:
    """What the script of the page is given."""
    found = re.search(r'<script id="data" type="application/json">(.*?)</script>', html, re.S)
    assert found is not None
    return json.loads(found[1])


def unpacked(text: str) -> bytes:
    """As the script unpacks it."""
    return zlib.decompress(b64decode(text))


@cache
def page(*, others: tuple[int, ...] = (), **changes: Any) -> tuple[str, RunHistory]:
    """A run with a queue, failures, gangs on several racks and slow ones among them, and its page.

    :param others: nodes that are in use all along.
    """
    events = [Incident(300.0, "down", 3), Incident(900.0, "up", 3)]
    settings: dict[str, Any] = {"incidents": events, "recovery": KeepsHalf(), "pace": Twice()} | changes
    made, past = replayed(random_records(3), racks(8).with_busy(others), **settings)
    noted = replace(made, trace=replace(made.trace, notes=("<b>a note</b>",)))
    return simulation_page(past, run_summary(past), noted, time_series(past, most=PAGE_BUCKETS)), past


def test_the_page_is_whole_and_needs_no_network() -> None:
    """Well-formed, nothing is fetched from anywhere, and its policy forbids it; notes are text, not markup."""
    html, _ = page()
    assert tags(html)
    assert "default-src 'none'" in unescape(html)
    assert not re.search(r"(?:src|href)\s*=|url\(|@import|https?://", html)
    assert "&lt;b&gt;a note" in html


def test_same_run_same_text() -> None:
    """Nothing of the page depends on when it is made."""
    assert page()[0] == page.__wrapped__()[0]


def test_every_question_has_its_figure() -> None:
    """Use, queue, fragmentation, spread and its cost, failures and ETTR: a chart each."""
    html, _ = page()
    charts = {attrs["data-chart"] for tag, attrs in tags(html) if tag == "svg" and "data-chart" in attrs}
    assert charts == {"use", "queue", "asked", "fragmentation", "spread", "lost", "failures", "away", "ettr"}
    assert charts == set(data(html)["charts"])
    assert "Nothing failed" not in html
    assert 'class="chart waits"' in html


def test_what_was_not_simulated_is_said() -> None:
    """Without failures and cost of communication the page says that there are none, instead of empty charts."""
    html, _ = page(incidents=(), recovery=None, pace=None)
    assert "no failures were asked for" in html
    assert says(html, "slowed none of them")
    assert 'data-chart="ettr"' not in html


def test_the_map_is_the_history() -> None:
    """Unpacked, the owners and shares of the map are those of the frames, square by square."""
    html, past = page()
    found, plan = frames(past), layout(racks(8))
    table = unpacked(data(html)["map"]["cells"])
    count = found.owner.size
    owner = np.cumsum(np.frombuffer(table, "<i4", count).reshape(found.owner.shape), axis=0)
    share = np.frombuffer(table, np.uint8, count, 4 * count).reshape(found.share.shape)
    assert (owner == found.owner[:, plan.nodes]).all()
    assert (share == found.share[:, plan.nodes]).all()
    assert len([1 for tag, attrs in tags(html) if tag == "rect" and str(attrs.get("class")).startswith("n ")]) == 8


def test_nodes_that_others_use_are_not_idle() -> None:
    """A node that the cluster file has in use is drawn so at every instant, and is in the legend, as no other is."""
    _, past = replayed(random_records(4), racks(5).with_busy([4]))
    assert (frames(past, 20).share == OTHERS).any(axis=0).tolist() == [False] * 4 + [True]
    assert "in use by others" in words(page(others=(2,))[0])
    assert "in use by others" not in words(page()[0])


def test_frames_show_the_largest_job_of_a_node() -> None:
    """At each instant a node's owner is one of the jobs on it with most GPUs in all, and its share adds them up."""
    _, past = replayed(random_records(4), racks(4))
    found = frames(past, 50)
    attempts = past.attempts
    for row, time in enumerate(found.times.tolist()):
        for node in range(4):
            on = [
                i
                for i in range(len(attempts))
                if attempts.begin[i] <= time < attempts.end[i]
                and node in attempts.places[attempts.first[i] : attempts.first[i + 1]]
            ]
            used = sum(float(attempts.each[i]) for i in on)
            assert found.share[row, node] == int(np.ceil(100 * used / 8 - 1e-6))
            if not on:
                assert found.owner[row, node] == 0
                continue
            owner = past.jobs[found.jobs[found.owner[row, node] - 1]]
            assert owner.record.gpus == max(past.jobs[attempts.job[i]].record.gpus for i in on)


def test_counted_gpus_have_no_map() -> None:
    """Without nodes the page says so, and the rest is there."""
    html, _ = page(algorithm="none", incidents=(), recovery=None, pace=None)
    assert "there is no map" in html
    assert 'data-chart="use"' in html
    assert 'id="slider"' not in html


def test_of_many_jobs_the_table_has_some_and_says_so() -> None:
    """Half for those that waited longest, half for those with most GPU time."""
    _, past = replayed(random_records(11, 80))
    chosen = chosen_jobs(past.jobs, 10)
    assert len(chosen) == 10
    keys = {job.key for job in chosen}
    longest = sorted(past.jobs, key=lambda job: job.submitted - job.first_start)[:5]
    most = max(past.jobs, key=lambda job: job.units * job.record.duration)
    assert keys >= {job.key for job in longest} | {most.key}


def test_waits_are_told_by_size() -> None:
    """Each class has its jobs; together they are all that started."""
    _, past = replayed(random_records(12))
    rows = [one for one in waits_by_size(past.jobs) if one is not None]
    assert sum(row.jobs for row in rows) == 60
    assert [row.name for row in rows] == ["1 GPU or less", "2 to 8 GPUs", "9 to 64 GPUs"]


def test_a_chart_breaks_where_there_is_no_value() -> None:
    """NaN interrupts the line: two pieces, each begins with a move; heights that stay are drawn once."""
    line = Series("l", [(0.0, 1.0), (1.0, 1.0), (2.0, None), (3.0, 2.0), (4.0, None)], shape="step")
    chart = Chart("t", "", "", [line], floor=0.0, key="k")
    line = re.search(r'class="line l0" d="([^"]*)"', line_chart(chart))
    assert line is not None
    assert line[1].count("M") == 2
    assert line[1].count("H") == 2


SEARCH = """
  const slide = inside.getElementById("slider");
  slide.value = slide.max;
  slide.dispatchEvent(new Event("input"));
  inside.querySelector("[data-mode=job]").click();
  const search = inside.getElementById("search");
  search.value = "JOB-17";
  search.dispatchEvent(new Event("input"));
"""
BROKEN = '<html><body><div style="width:900px">wide</div><script>nobody.knows()</script></body></html>'


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Shown]:
    """The page on two screens, after a search, and a page that is broken."""
    html, _ = page()
    views = {
        "1280": View(html, 1280),
        "broken": View(BROKEN, 400),
        "400": View(html, 400),
        "searched": View(html, 1280, SEARCH),
    }
    return dict(zip(views, show([*views.values()], tmp_path_factory.mktemp("browser")), strict=True))


def test_a_domain_says_how_many_nodes_it_has_and_nothing_of_an_instant() -> None:
    """What is in use changes from instant to instant, and the drawing is one for all."""
    boxes = re.findall(r'<rect class="box[^>]*data-tip="([^"]*)"', page()[0])
    assert boxes
    assert all(re.fullmatch(r"\w+ \w+\n\d+ nodes(?:\nGPUs: .*)?", box) for box in boxes), boxes


@in_browser
@pytest.mark.parametrize("width", [1280, 400])
def test_a_browser_shows_it(shown: Mapping[str, Shown], width: int) -> None:
    """The map is painted, jobs are listed, nothing is on the console, and the page is no wider than the window."""
    screen, (_, past) = shown[str(width)], page()
    assert screen.said == []
    assert 'data-map="drawn"' in screen.dom
    assert 'data-jobs="listed"' in screen.dom
    assert len(re.findall(r'<td class="name">', screen.dom)) == len(past.jobs)
    assert re.search(r'class="n (?:idle )?s\d"|class="n s\d', screen.dom)
    assert screen.width <= width


@in_browser
def test_slider_colours_and_search_answer(shown: Mapping[str, Shown]) -> None:
    """At the last instant the map has the squares of the last frame; a search for one job leaves its row."""
    searched, last = shown["searched"], frames(page()[1])
    assert searched.said == []
    assert re.findall(r'<td class="name">(.*?)</td>', searched.dom) == ["job-17"]
    assert searched.dom.count("fill: oklch(") == np.count_nonzero(last.owner[-1])
    assert len(re.findall(r'class="n idle"', searched.dom)) == np.count_nonzero(last.owner[-1] == 0)
    label = re.search(r'<output id="time-label"[^>]*>(.*?)<', searched.dom)
    assert label is not None
    minutes, seconds = divmod(int(last.times[-1]), 60)
    assert label[1] == f"00:{minutes:02d}:{seconds:02d}"


@in_browser
def test_the_browser_would_notice(shown: Mapping[str, Shown]) -> None:
    """A script that fails is heard, and what does not fit the screen is measured: the tests above can fail."""
    broken = shown["broken"]
    assert "nobody is not defined" in "".join(broken.said)
    assert broken.width >= 900
