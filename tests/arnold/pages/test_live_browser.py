"""The live page in a real browser: it follows the cluster, shows hostile names as text, and tells when it is lost."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from arnold.pages.live_page import ClusterPage, LiveGang
from extender.service.page_server import LOOPBACK, page_application
from extender.service.settings import parse_address
from extender.service.web import listen, web_server
from tests.arnold.pages.test_live_page import HOSTILE, Source
from tests.axe import THEMES, WIDTHS, axe_script
from tests.live_browser import LiveBrowser, live_browser

pytestmark = pytest.mark.xdist_group("live page")  # one browser at a time


@contextmanager
def served(source: Source) -> Iterator[tuple[str, Callable[[], None]]]:
    """The address of the page of a cluster while the block runs, and what ends its server."""
    listener = listen(parse_address("127.0.0.1:0"))
    page = ClusterPage(source)
    server = web_server(page_application(page, LOOPBACK, ending=lambda: server.should_exit))

    async def run() -> None:
        following = asyncio.create_task(page.follow())
        await server.serve(sockets=[listener])
        following.cancel()

    thread = threading.Thread(target=asyncio.run, args=(run(),))
    thread.start()

    def end() -> None:
        server.should_exit = True
        thread.join()
        listener.close()

    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/", end
    finally:
        end()


def soon(condition: Callable[[], object], what: str) -> None:
    """Wait for what the page is to show; raise AssertionError where it does not."""
    deadline = time.monotonic() + 60.0
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.1)


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch) -> Source:
    """A cluster that is seen, and looked at often."""
    monkeypatch.setattr("arnold.pages.live_page.LOOK_SECONDS", 0.05)
    source = Source()
    source.seen, source.lost = time.time(), ""
    return source


def rows(browser: LiveBrowser, table: str) -> list[list[str]]:
    """The texts of the cells of a table, of the rows in order."""
    lines = f"[...document.querySelector('[data-table={table}]').tBodies[0].rows]"
    return list(browser.script(f"{lines}.map((line) => [...line.cells].map((cell) => cell.textContent))"))


def test_it_follows_the_cluster_through_its_loss(source: Source, tmp_path: Path) -> None:
    """A gang that waits gets nodes, another comes; names are text; a lost cluster and a lost server are told with the
    time, and both come back by themselves or are never shown as live.
    """
    with served(source) as (address, end), live_browser(tmp_path) as browser:
        browser.open(address)
        soon(lambda: browser.text("#state") == "Live", "the page to be live")
        assert [row[0] for row in rows(browser, "placed")] == ["team/llm"]
        assert [row[:3] for row in rows(browser, "waiting")] == [[f"team/{HOSTILE}", "Queued", "needs 8 nodes"]]
        colours = "squares.map((square) => square.style.fill !== '')"
        assert browser.script(colours) == [True, True, *[False] * 6]
        # the one that waited has the third node, and the first gang has ended
        name = source.cluster.names[6]
        got = LiveGang(name=f"team/{HOSTILE}", phase="Bound", gpus=64, placed=True)
        source.now, source.changes = replace(source.now, gangs=[got], holders={name: got.name}), 1
        soon(lambda: [row[0] for row in rows(browser, "placed")] == [f"team/{HOSTILE}"], "the gang to have its node")
        assert rows(browser, "waiting") == []
        assert browser.script(colours) == [*[False] * 6, True, False]
        browser.script("document.querySelector('[data-table=placed] button').click()")
        assert browser.script("squares.map((square) => square.classList.contains('lit')).indexOf(true)") == 6
        source.lost = "the API server does not answer"
        soon(lambda: "does not answer" in browser.text("#state"), "the loss to be told")
        assert browser.text("#seen").startswith("last seen at")
        source.lost = ""
        soon(lambda: browser.text("#state") == "Live", "the cluster to be back")
        end()
        browser.script("heard -= SILENT - 1000")  # that much of the silence has passed
        soon(lambda: "lost its server" in browser.text("#state"), "the page to tell that it has no server")
        assert browser.text("#seen").startswith("last seen at")
        assert not [fault for fault in browser.faults if "ERR_" not in fault]  # but for connections that are refused


def test_a_node_that_comes_is_drawn(source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page loads itself again, once, with the theme that its reader chose."""
    monkeypatch.setattr("arnold.pages.live_page.REDRAW_SECONDS", 0.0)
    with served(source) as (address, _), live_browser(tmp_path) as browser:
        browser.open(address)
        soon(lambda: browser.text("#state") == "Live", "the page to be live")
        browser.script("document.getElementById('theme').click()")
        count = "document.querySelectorAll('svg.cluster .n').length"
        source.now, source.changes = replace(source.now, cluster=source.cluster.subset(np.arange(3))), 1
        soon(lambda: browser.script(count) == 3 and browser.text("#state") == "Live", "the other drawing")
        assert browser.script("document.documentElement.dataset.theme") == "dark"


@pytest.mark.accessibility
def test_nothing_keeps_anybody_from_reading_it(source: Source, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """No rule of axe-core is broken and nothing has to be pushed from side to side, at both widths in both themes."""
    axe = axe_script(request.config.cache.mkdir("axe-core"))
    seen = []
    with served(source) as (address, _), live_browser(tmp_path) as browser:
        for width in WIDTHS:
            for theme in THEMES:
                browser.open(address, width=width, dark=theme == "dark")
                soon(lambda: browser.text("#state") == "Live", "the page to be live")
                browser.script(axe)
                violations = browser.script("axe.run().then((all) => JSON.stringify(all.violations))")
                seen += [(width, theme, rule["id"], rule["nodes"]) for rule in json.loads(violations)]
                assert browser.script("document.documentElement.scrollWidth <= innerWidth")
    assert seen == []
