"""The live page in a browser, on a cluster where gangs wait, run, fail and end, and whose API server dies."""

from __future__ import annotations

import os
import urllib.request
from pathlib import Path

from tests.e2e.harness.arnold import PROGRAM, running
from tests.e2e.harness.client import Object
from tests.e2e.harness.invariants import guarded
from tests.e2e.harness.nodes import level_labels, make_real
from tests.e2e.harness.plane import ControlPlane
from tests.e2e.harness.plans import plan_in
from tests.e2e.harness.pods import gang
from tests.e2e.harness.process import Process
from tests.e2e.harness.waiting import wait_until
from tests.e2e.test_reservations import reservation
from tests.live_browser import LiveBrowser, live_browser
from tests.ports import free_port
from topology.generate import generate

READER = "reader"
PICTURES = os.environ.get("ARNOLD_PICTURES")  # a folder in which whoever wants to look at the page finds it


def answers(address: str) -> bool:
    """Whether the page's server is there."""
    try:
        with urllib.request.urlopen(address, timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def rows(browser: LiveBrowser, table: str) -> dict[str, list[str]]:
    """The texts of the cells of a table, by the first of each row."""
    lines = f"[...document.querySelector('[data-table={table}]').tBodies[0].rows]"
    return {
        row[0]: row[1:] for row in browser.script(f"{lines}.map((row) => [...row.cells].map((of) => of.textContent))")
    }


def may_look(plane: ControlPlane) -> None:
    """Let a user list and watch what the page shows, and do nothing else."""
    rules = [
        {"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["list", "watch"]},
        {
            "apiGroups": ["arnold.dev"],
            "resources": ["gangplans", "capacityreservations"],
            "verbs": ["list", "watch"],
        },
    ]
    group = "rbac.authorization.k8s.io"
    about: Object = {"apiVersion": f"{group}/v1", "metadata": {"name": READER}}
    plane.admin.apply({**about, "kind": "ClusterRole", "rules": rules})
    who = {"kind": "User", "name": READER, "apiGroup": group}
    role = {"kind": "ClusterRole", "name": READER, "apiGroup": group}
    plane.admin.apply({**about, "kind": "ClusterRoleBinding", "subjects": [who], "roleRef": role})


def test_the_page_follows_gangs_through_all_that_happens(
    arnold_plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    """Eight nodes in two minipods.  A gang of six runs, one of four waits with its reason, one that contradicts itself
    is invalid; a node is flagged, room is announced.  The API server dies: what was seen is shown as that, and when it
    is back the page follows again: the first gang ends, and the second has its nodes.  The reader may only list and
    watch.
    """
    plane = arnold_plane
    cluster = generate("minipods", minipods=2, nodes=8)
    make_real(plane.admin, cluster)
    may_look(plane)
    levels = level_labels(cluster)
    address = f"http://127.0.0.1:{(port := free_port())}/"
    words = ["kube", "page", "--bind", f"127.0.0.1:{port}", "--levels", ",".join(levels)]
    page = Process(
        "arnold-page",
        [PROGRAM, *words, "--kubeconfig", str(plane.kubeconfig(READER))],
        log=plane.folder / "arnold-page.log",
        ready=lambda: answers(address),
    )
    with running(plane, levels=levels), guarded(plane), live_browser(tmp_path) as browser:
        plane.add(page)
        browser.open(address)
        wait_until(lambda: browser.text("#state") == "Live", "the page to be live")
        assert browser.script("squares.length") == 8
        first, second, broken = (f"{namespace}/{name}" for name in ("first", "second", "broken"))
        plane.admin.create_all(gang("first", namespace, size=6, parallelism="tp=8,dp=6"))
        wait_until(lambda: rows(browser, "placed").get(first, [""])[0] == "Bound", "the first gang to run")
        plane.admin.create_all(gang("second", namespace, size=4, parallelism="tp=8,dp=4"))
        plane.admin.create_all(gang("broken", namespace, size=2, parallelism="tp=8,dp=3"))
        phases = {second: "Queued", broken: "Invalid"}
        wait_until(
            lambda: {name: row[0] for name, row in rows(browser, "waiting").items()} == phases, "two gangs to wait"
        )
        waiting = rows(browser, "waiting")
        assert all(len(waiting[name][1]) > 10 for name in (second, broken))  # each says why
        mine = rows(browser, "placed")[first]
        assert mine[1:3] == ["6/6", "48"]
        assert mine[3] == "2/1"  # of eight nodes in two minipods six lie in both
        assert browser.script("squares.filter((square) => square.style.fill !== '').length") == 6
        plane.admin.patch("nodes", cluster.names[0], {"metadata": {"annotations": {"arnold.dev/slowdown": "1.4"}}})
        wait_until(lambda: cluster.names[0] in rows(browser, "flags"), "the flag to be shown")
        plane.admin.create(reservation("large", namespace))
        wait_until(lambda: f"{namespace}/large" in rows(browser, "reservations"), "the reservation to be shown")
        for width in (1280, 400):
            for dark in (False, True):
                browser.open(address, width=width, dark=dark)
                wait_until(lambda: browser.text("#state") == "Live", "the page to be live")
                assert browser.script("document.documentElement.scrollWidth <= innerWidth")
                if PICTURES:
                    name = f"live-{width}-{'dark' if dark else 'light'}.png"
                    (Path(PICTURES) / name).write_bytes(browser.picture())
        plane.api_server.kill()
        wait_until(lambda: browser.text("#state").startswith("Not known now"), "the loss to be told")
        assert browser.text("#seen").startswith("last seen at")
        assert set(rows(browser, "placed")) == {first}
        plane.revive()
        wait_until(lambda: browser.text("#state") == "Live", "the page to be live again")
        for rank in range(6):
            plane.admin.delete("pods", f"first-{rank}", namespace)
        wait_until(lambda: rows(browser, "placed").get(second, [""])[0] == "Bound", "the second gang to run")
        assert plan_in(plane.admin, "second", namespace, "Bound")
        assert first not in rows(browser, "placed")
        assert page.stop() == 0
        wait_until(lambda: "lost its server" in browser.text("#state"), "the page to tell that its server is gone")
