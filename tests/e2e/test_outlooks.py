"""What a gang that waits may hope for, in its GangPlan and by `kubectl arnold`, on a real control plane."""

from __future__ import annotations

import re
from functools import partial

from tests.e2e.harness.arnold import running
from tests.e2e.harness.invariants import guarded
from tests.e2e.harness.nodes import level_labels, make_real
from tests.e2e.harness.plane import ControlPlane
from tests.e2e.harness.plans import plan_in
from tests.e2e.harness.pods import gang, priority_class
from tests.e2e.harness.waiting import wait_until
from tests.e2e.test_live_reading import answer, plug_in
from topology.generate import generate


def test_a_gang_that_waits_hears_when_it_starts_and_instead_of_whom(arnold_plane: ControlPlane, namespace: str) -> None:
    """Two minipods of four nodes: a has one for an hour at most, b, which may be stopped, the other for nobody knows
    how long, and c of a higher priority waits for four.  Its plan says that it starts within the hour when a ends, or
    now without b; `kubectl arnold` says the same of it, how well a lies, and what the GPUs of each minipod do.
    """
    plane = arnold_plane
    cluster = generate("minipods", minipods=2, nodes=8)
    make_real(plane.admin, cluster)
    plane.admin.apply(priority_class("urgent", 1000))
    levels = level_labels(cluster)
    hints = {
        "a": {"arnold.dev/expected-duration": "1h"},
        "b": {"arnold.dev/preemptible": "true"},
    }
    with running(plane, levels=levels), guarded(plane):
        for name, annotations in hints.items():
            plane.admin.create_all(gang(name, namespace, size=4, annotations=annotations))
            wait_until(partial(plan_in, plane.admin, name, namespace, "Bound"), f"gang {name} to be on its nodes")
        plane.admin.create_all(gang("c", namespace, size=4, priority="urgent"))

        def told() -> str | None:
            plan = plan_in(plane.admin, "c", namespace, "Queued")
            return plan.message if plan is not None and "starts in" in plan.message else None

        message = wait_until(told, "the gang to hear when it starts", seconds=60.0)
        here = ("--levels", ",".join(levels))
        when = answer(plane, *plug_in(), "explain", f"{namespace}/c", *here, "--when")
        stop = answer(plane, *plug_in(), "explain", f"{namespace}/c", *here, "--stop", "--priority", "1000")
        scored = answer(plane, *plug_in(), "score", "--nodes", f"{namespace}/a", *here)
        top = answer(plane, *plug_in(), "top", *here)
    span = re.search(r"; starts in (\d+) to (\d+) min when gang a ends; ", message)
    assert span is not None, message
    assert 0 < int(span[1]) < int(span[2]) <= 60
    assert "stopping gang b (4 nodes, priority 0) would start it now\nTo fix:" in message
    assert when["after"] == [f"{namespace}/a"]
    assert when["start"]["p10"] < when["start"]["p90"]
    assert [job["name"] for job in stop["stop"]] == [f"{namespace}/b"]
    assert (stop["status"], stop["below_priority"]) == ("optimal", 1000.0)
    assert scored["objective"] == 1.0
    domains = [domain for domain in top["domains"] if domain["level"] == levels[0]]
    assert [(domain["gpus"], domain["free"], domain["in_use"]) for domain in domains] == [(32, 0, 32)] * 2
    assert sorted(domain["gangs"] for domain in domains) == [[f"{namespace}/a"], [f"{namespace}/b"]]
