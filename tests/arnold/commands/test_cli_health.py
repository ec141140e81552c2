"""`arnold health peers`, `watch` and `order` through the front door."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from arnold.documents.store_answers import WatchDocument
from ground.records import read_json
from health.peers.verdict import PeersVerdict
from tests.facts import says
from tests.health.peers.fake_prometheus import machines, serving
from tests.health.peers.made import values
from tests.health.peers.metric_samples import dcgm, smi
from topology.flag_sources import read_flags

Arnold = Callable[..., Any]


def write_csv(path: Path, **metrics: np.ndarray) -> Path:
    """Metrics as a table with a sample a row."""
    lines = ["time,machine,metric,value"]
    for name, grid in metrics.items():
        lines += [f"{t},n{m:02d},{name},{grid[m, t]:.3f}" for m in range(len(grid)) for t in range(grid.shape[1])]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def faulty(tmp_path: Path) -> Path:
    """Twelve machines, of which n03 idles from second 100 on."""
    made = values(seconds=400)
    made[3, 100:] *= 0.1
    return write_csv(tmp_path / "metrics.csv", cpu_usage=made, gpu_power_draw=values(1, seconds=400))


def test_the_verdict_comes_first_in_words(arnold: Arnold, faulty: Path) -> None:
    """The first line says who and why; a table follows."""
    ran = arnold("health", "peers", faulty)
    assert ran.code == 0
    assert ran.out.splitlines()[0].startswith("n03 is faulty: CPU usage 5")
    assert "of its 11 peers" in ran.out.splitlines()[0]


def test_several_files_are_one_recording_and_one_scrape_is_shown(arnold: Arnold, tmp_path: Path) -> None:
    """CSV of nvidia-smi of each host is compared; of a scrape there is neither a table nor a flag."""
    for host in range(5):
        (tmp_path / f"n{host}.csv").write_text(smi(host, 300))
    ran = arnold("health", "peers", *sorted(tmp_path.glob("n*.csv")))
    assert ran.out.splitlines()[0].startswith("n2 is faulty: GPU duty cycle 2")
    (tmp_path / "scrape.prom").write_text(dcgm())
    shown = arnold("health", "peers", tmp_path / "scrape.prom")
    verdict, note = shown.out.splitlines()[:2]
    assert shown.code == 0
    assert says(verdict, "one moment", "5 machines", "n2 in GPU duty cycle")
    assert says(note, "Note:", "one scrape", "/api/v1/query_range")


def test_json_follows_its_schema_and_flags_can_be_used(arnold: Arnold, faulty: Path, tmp_path: Path) -> None:
    """The document is what the schema says, and the flags of --flags-out are read by `place --flags`."""
    out = tmp_path / "flags.json"
    document = arnold("health", "peers", faulty, "--json", "--flags-out", out).json
    assert read_json(PeersVerdict, document).flags[0].kind == "faulty"
    assert [metric["metric"] for metric in document["metrics"]] == ["cpu_usage", "gpu_power_draw"]
    (flag,) = read_flags(out)
    assert (flag.node, flag.kind, flag.source) == ("n03", "faulty", "peers")
    schema = arnold("schema", "health", "peers").json
    assert set(schema["properties"]) == set(document)


def test_the_page_shows_the_curve_that_convicts(arnold: Arnold, faulty: Path, tmp_path: Path) -> None:
    """n03's power beside its peers', with the moment of the alert; a healthy job has no curve."""
    page = tmp_path / "peers.html"
    arnold("health", "peers", faulty, "--html", page)
    text = page.read_text()
    assert says(text, "n03: CPU usage", "its peers", "alert")
    assert text.count("<svg") >= 1
    file = write_csv(tmp_path / "m.csv", cpu_usage=values(seconds=300))
    arnold("health", "peers", file, "--html", page)
    assert "its peers" not in page.read_text()


def test_a_healthy_job_writes_an_empty_flag_file(arnold: Arnold, tmp_path: Path) -> None:
    """No node is flagged, and the file says exactly that."""
    file = write_csv(tmp_path / "m.csv", cpu_usage=values(seconds=300))
    ran = arnold("health", "peers", file, "--flags-out", tmp_path / "flags.json")
    assert ran.out.startswith("no machine of 12 stands out")
    assert read_flags(tmp_path / "flags.json") == []


def test_a_machine_that_stood_out_too_briefly_is_not_said_to_have_done_so_for_longer(
    arnold: Arnold, tmp_path: Path
) -> None:
    """n03 is slow for 54 s, and 60 s make an alert; both are counted in windows, a second apart.

    The windows of 8 s at either end look beyond those 54 s: from the first sample of the first to the last of the last
    passes 6 s more than there are windows, which read as "for 62 s, alert after 60 s", and no alert.
    """
    made = values(seconds=400)
    made[3, 100:154] *= 3.0
    file = write_csv(tmp_path / "m.csv", step_time=made)
    (stretch,) = arnold("health", "peers", file, "--json").json["metrics"][0]["stretches"]
    assert stretch["alert"] is None
    assert stretch["end"] - stretch["start"] > 60
    said = arnold("health", "peers", file).out
    assert f" {stretch['end'] - stretch['start'] - 6:.0f} s " in said
    assert stretch["end"] - stretch["start"] - 6 < 60


def test_options_decide(arnold: Arnold, faulty: Path) -> None:
    """Only some machines, a longer continuity: each does what it says; all metrics are looked at."""
    assert arnold("health", "peers", faulty, "--only", "n[04-11]", "--json").json["flags"] == []
    assert len(arnold("health", "peers", faulty, "--json").json["metrics"]) == 2
    assert arnold("health", "peers", faulty, "--continuity", "350", "--json").json["flags"] == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--threshold", "nan"], "--threshold"),
        (["--threshold", "-1"], "--threshold"),
        (["--continuity", "inf"], "--continuity"),
        (["--window-samples", "1"], "--window-samples"),
        (["--only", "n[1-"], "--only"),
        (["--machine-column", "host"], "'host'"),
    ],
)
def test_bad_options(arnold: Arnold, faulty: Path, options: list[str], words: str) -> None:
    """Exit 2 and a message with the option in it."""
    ran = arnold("health", "peers", faulty, *options)
    assert ran.code == 2
    assert words in ran.err


def test_bad_file_leaves_no_flags(arnold: Arnold, faulty: Path, tmp_path: Path) -> None:
    """One bad row: exit 2 with its line, and no flag file; with --lenient it is left out and counted."""
    lines = faulty.read_text().splitlines()
    lines[9] = "8,n00,cpu_usage,much"
    faulty.write_text("\n".join(lines) + "\n")
    ran = arnold("health", "peers", faulty, "--flags-out", tmp_path / "flags.json", "--json")
    assert ran.code == 2
    assert ran.json["error"]["where"].endswith("metrics.csv:10")
    assert not (tmp_path / "flags.json").exists()
    lenient = arnold("health", "peers", faulty, "--lenient", "--json").json
    assert lenient["flags"][0]["node"] == "n03"
    assert any("1 samples without a value" in note for note in lenient["notes"])


def test_watch_once(arnold: Arnold, tmp_path: Path) -> None:
    """One round over a server: a line of JSON as the schema says, and the flags."""
    out = tmp_path / "flags.json"
    with serving(machines(broken="n2")) as prometheus:
        ran = arnold(
            "health", "watch", "--prometheus", prometheus.url, "--query", "cpu_usage=cpu",
            "--span", 300, "--once", "--json", "--flags-out", out,
        )  # fmt: skip
    (line,) = ran.out.splitlines()
    document = read_json(WatchDocument, json.loads(line))
    assert ran.code == 0
    assert [flag.node for flag in document.flags] == ["n2"]
    assert [flag.node for flag in read_flags(out)] == ["n2"]
    assert set(arnold("schema", "health", "watch").json["properties"]) == set(json.loads(line))


def test_watch_once_without_a_server(arnold: Arnold, tmp_path: Path) -> None:
    """Nobody answers: exit 2, an error, no flags."""
    out = tmp_path / "flags.json"
    ran = arnold("health", "watch", "--prometheus", "http://127.0.0.1:9", "--once", "--json", "--flags-out", out)
    assert ran.code == 2
    assert ran.json["error"]["kind"] == "EndpointAway"
    assert not out.exists()


WATCH_CPU = ["--query", "cpu_usage=cpu", "--span", "300", "--once"]
"""One round over one metric."""


def test_watch_records_in_a_flag_store(arnold: Arnold, tmp_path: Path) -> None:
    """An alert is a finding: n2 is raised, found again is renewed, and one healthy round does not clear it."""
    store = tmp_path / "flags.db"
    told = []
    for broken in ("n2", "n2", None):
        with serving(machines(broken=broken)) as prometheus:
            ran = arnold("health", "watch", "--prometheus", prometheus.url, *WATCH_CPU, "--json", "--store", store)
        told.append(read_json(WatchDocument, json.loads(ran.out)).recorded)
    assert all(one is not None for one in told)
    assert [[(event.event, event.node, event.source) for event in one.events] for one in told if one] == [
        [("raised", "n2", "peers")],
        [("renewed", "n2", "peers")],
        [],
    ]
    (held,) = arnold("flags", "show", "--store", store, "--json").json["nodes"]
    assert (held["node"], held["kind"]) == ("n2", "faulty")
    assert [flag.node for flag in read_flags(store)] == ["n2"]
    assert "CPU usage" in arnold("flags", "why", "n2", "--store", store).out


def test_the_rules_of_the_store_decide(arnold: Arnold, tmp_path: Path) -> None:
    """Two findings are asked for before a slow node is flagged: the first round notes n2, the second raises it."""
    store, rules = tmp_path / "flags.db", tmp_path / "rules.yaml"
    rules.write_text("sources:\n  peers: {raise_after: 2}\n")
    assert arnold("flags", "record", "--store", store, "--rules", rules).code == 0
    said = []
    for _ in range(2):
        with serving(machines(broken="n2", factor=3.0)) as prometheus:
            options = ["--query", "step_time=step", "--span", "300", "--once", "--store", store]
            said.append(arnold("health", "watch", "--prometheus", prometheus.url, *options).out)
    assert said[0].strip().endswith("noted n2 in the store")
    assert said[1].strip().endswith("raised n2 in the store")


def test_an_episode_that_is_over_is_a_finding_too(arnold: Arnold, tmp_path: Path) -> None:
    """n2's steps were slow for two of five minutes and are well again: a straggler, for as long as the store says."""
    store = tmp_path / "flags.db"
    with serving(machines(broken="n2", factor=3.0, until=120.0)) as prometheus:
        options = ["--query", "step_time=step", "--span", "300", "--once", "--store", store]
        assert arnold("health", "watch", "--prometheus", prometheus.url, *options).code == 0
    (held,) = arnold("flags", "show", "--store", store, "--json").json["nodes"]
    assert (held["node"], held["kind"]) == ("n2", "straggler")


def test_a_round_that_cannot_be_judged_changes_no_store(arnold: Arnold, tmp_path: Path) -> None:
    """Nobody answers: nothing is flagged, and nothing that was flagged is cleared."""
    store = tmp_path / "flags.db"
    with serving(machines(broken="n2")) as prometheus:
        arnold("health", "watch", "--prometheus", prometheus.url, *WATCH_CPU, "--store", store)
    before = store.read_bytes()
    ran = arnold("health", "watch", "--prometheus", "http://127.0.0.1:9", "--once", "--json", "--store", store)
    assert ran.code == 2
    assert ran.json["error"]["kind"] == "EndpointAway"
    assert store.read_bytes() == before


def test_a_store_that_cannot_be_written_to_is_told_first(arnold: Arnold, tmp_path: Path) -> None:
    """No such folder, and a file that is no store: exit 2 with the place, and the server is not asked."""
    other = tmp_path / "notes.txt"
    other.write_text("this is not a flag store\n")
    with serving(machines()) as prometheus:
        for store in (tmp_path / "none" / "flags.db", other):
            ran = arnold("health", "watch", "--prometheus", prometheus.url, *WATCH_CPU, "--store", store, "--json")
            assert ran.code == 2
            assert str(store) in ran.json["error"]["where"]
        assert prometheus.asked == []
    assert other.read_text() == "this is not a flag store\n"


@pytest.mark.parametrize("options", [["--query", "cpu"], ["--query", "=up"], ["--every", "0"], ["--prometheus", "x"]])
def test_bad_watch_options(arnold: Arnold, options: list[str]) -> None:
    """Exit 2 before anything is asked."""
    assert arnold("health", "watch", "--prometheus", "http://127.0.0.1:9", "--once", *options).code == 2


def test_sigterm_ends_a_watch() -> None:
    """Between rounds a watch ends at once and well; until then it printed one document a line."""
    code = "import sys; from arnold.commands.run import run; sys.exit(run(sys.argv[1:]))"
    with serving(machines()) as prometheus:
        command = [sys.executable, "-c", code, "health", "watch", "--prometheus", prometheus.url]
        options = ["--query", "cpu_usage=cpu", "--span", "60", "--every", "0.2", "--json"]
        root = Path(__file__).parents[3]
        process = subprocess.Popen(
            [*command, *options],
            stdout=subprocess.PIPE,
            text=True,
            cwd=root,
            env=os.environ | {"PYTHONPATH": str(root)},
        )
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(2)]
        process.send_signal(signal.SIGTERM)
        rest, _ = process.communicate(timeout=30)
    assert process.returncode == 0
    assert all(json.loads(line)["error"] is None for line in [*lines, *rest.splitlines()])
