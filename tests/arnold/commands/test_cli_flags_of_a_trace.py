"""From the trace of a real job to another placement: the whole way, with the commands that a user types.

The trace is AR of the what-if artifact (arXiv 2505.05713): 64 GPUs, dp 4 x pp 4 x tp 4, with one worker that was slowed
on purpose.  It is no part of the project; ``ARNOLD_DATA`` says where the public data sets lie.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Arnold = Callable[..., Any]

CLUSTER = "node,minipod\n" + "".join(f"n{i:02},mp{i // 8}\n" for i in range(16))
JOB = "name: ar\nparallelism: {tp: 4, pp: 4, dp: 4}\n"


@pytest.fixture
def trace() -> list[Path]:
    """The trace and its sizes, as arguments."""
    folder = os.environ.get("ARNOLD_DATA")
    if folder is None:
        pytest.skip("ARNOLD_DATA is not set: the public data sets are not part of the project")
    files = [Path(folder) / "straggler" / name for name in ("trace-AR.parquet", "meta-AR.yaml")]
    if not all(file.exists() for file in files):
        pytest.skip(f"{folder} has no straggler/trace-AR.parquet")
    return files


def test_a_real_straggler_moves_the_next_job_and_is_the_reason(
    arnold: Arnold, trace: list[Path], tmp_path: Path
) -> None:
    """Placed, traced, judged, recorded, placed again: the slow worker's node is avoided, and every text says why."""
    cluster, job, first = tmp_path / "cluster.csv", tmp_path / "job.yaml", tmp_path / "first.json"
    cluster.write_text(CLUSTER)
    job.write_text(JOB)
    instance = ["--cluster", cluster, "--job", job]
    assert arnold("place", *instance, "--output", first).code == 0
    before = json.loads(first.read_text())
    # 2 x 4 cells of two dp ranks each: whole in one minipod of eight nodes
    assert before["spread"] == {"dp": 1, "pp": 1}
    # the slow worker is dp 0 / stage 0, so its node is the cell (0, 0)
    (culprit,) = [cell["node"] for cell in before["assignment"] if (cell["dp"], cell["pp"]) == (0, 0)]

    found, store = tmp_path / "found.json", tmp_path / "flags.jsonl"
    judged = arnold(
        "stragglers", trace[0], "--meta", trace[1], "--node-map", first, "--flags-out", found, "--json"
    ).json
    assert judged["cause"] == "worker"
    assert [flag["node"] for flag in judged["flags"]] == [culprit]
    recorded = arnold("flags", "record", "--store", store, found, "--json").json
    assert [(event["event"], event["node"]) for event in recorded["events"]] == [("raised", culprit)]

    # the other minipod is as good and whole: the job moves there, at no cost in spread
    after = arnold("place", *instance, "--flags", store, "--json").json
    assert after["avoided"] == [culprit]
    assert culprit not in {cell["node"] for cell in after["assignment"]}
    assert {cell["node"] for cell in after["assignment"]} != {cell["node"] for cell in before["assignment"]}
    assert after["spread"] == {"dp": 1, "pp": 1}

    # with that minipod half in use, avoiding costs spread; explain weighs the two by predicted step time
    busy = tmp_path / "busy.txt"
    busy.write_text("n[00-03]\n" if culprit >= "n08" else "n[08-11]\n")
    crowded = [*instance, "--busy", busy, "--flags", store]
    explained = arnold("explain", *crowded, "--json").json
    avoid, use = explained["options"]
    assert (avoid["chosen"], use["chosen"]) == (True, False)
    assert avoid["spread"] == {"dp": 2, "pp": 1}
    # one more minipod for DP, at what the default record was measured to lose by it
    assert avoid["step_time"] == pytest.approx(1 + 0.3 * 0.018 / 0.7)
    assert (use["spread"], use["used"]) == ({"dp": 1, "pp": 1}, [culprit])
    assert use["step_time"] == pytest.approx(judged["flags"][0]["slowdown"])
    assert explained["flags"][0]["evidence"] == judged["flags"][0]["evidence"]
    text = " ".join(arnold("explain", *crowded, "-v").out.split())
    assert f"{culprit}: straggler, " in text
    assert " ".join(judged["flags"][0]["evidence"].split()) in text
    assert arnold("flags", "why", culprit, "--store", store, "--json").json["avoided"]
