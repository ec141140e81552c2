"""`arnold simulate --startup`: the answer in all its forms, and what is no start-up."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from arnold.commands.run import run
from tests.facts import says

EXAMPLE = Path(__file__).parents[3] / "examples" / "startup.yaml"
JOBS = "job_id,submit_time,duration,gpus,nodes,user\na,0,3600,16,2,ann\nb,1,3600,16,2,ann\n"
CLUSTER = "node,rack,gpus\n" + "".join(f"n{i},r{i // 2},8\n" for i in range(4))


def simulate(folder: Path, text: str, *arguments: str) -> int:
    """Run two gangs with a start-up file."""
    (folder / "c.csv").write_text(CLUSTER)
    (folder / "t.csv").write_text(JOBS)
    (folder / "s.yaml").write_text(text)
    files = ["--cluster", str(folder / "c.csv"), "--trace", str(folder / "t.csv"), "--startup", str(folder / "s.yaml")]
    return run(["simulate", *files, *arguments])


def test_the_share_lost_is_told_everywhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Text, JSON, rows of jobs and page; the second gang shares the registry, so that it takes no less."""
    outputs = ["--jobs-out", str(tmp_path / "j.jsonl"), "--html", str(tmp_path / "p.html")]
    assert simulate(tmp_path, EXAMPLE.read_text(), *outputs, "--json") == 0
    first, of_size = json.loads(capsys.readouterr().out)["startup"]
    assert (first["size"], first["starts"], of_size["size"]) == ("all sizes", 2, "9 to 64")
    assert 0 < first["all_three"] <= first["lost"] == first["none"] < 1
    rows = [json.loads(line) for line in (tmp_path / "j.jsonl").read_text().splitlines()]
    assert first["seconds"] == pytest.approx(sum(row["startup_seconds"] for row in rows) / 2)
    assert says((tmp_path / "p.html").read_text(), "GPU time held", "start-up")
    assert simulate(tmp_path, EXAMPLE.read_text()) == 0
    assert says(" ".join(capsys.readouterr().out.split()), "GPU time held", "start-up")


@pytest.mark.parametrize(
    ("change", "said", "where"),
    [
        (("size_gb: 18", "size_gb: -1"), "greater than or equal to 0", (5, "correct image.size_gb")),
        (
            ("store_gb_per_second: 10", "store_gb_per_second: 0"),
            "greater than or equal to 0.000001",
            (10, "correct image.store_gb_per_"),
        ),
        (("hot_share", "hot_shore"), "unknown key 'image.hot_shore'", (12, "did you mean 'hot_share'?")),
        (("sigma: 0.9", "sigma: .nan"), "finite number", (15, "correct environment.sigma")),
        (("shared_gb: 10", "shared_gb: 19"), "more than the whole image", (4, "correct image")),
    ],
)
def test_what_is_no_start_up_is_said_with_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: tuple[str, str], said: str, where: tuple[int, str]
) -> None:
    """Exit 2, what is wrong, file and line, and what to do."""
    assert simulate(tmp_path, EXAMPLE.read_text().replace(*change), "--json") == 2
    error = json.loads(capsys.readouterr().out)["error"]
    line, fix = where
    assert said in error["message"]
    assert error["where"] == f"{tmp_path / 's.yaml'}:{line}"
    assert fix in error["fix"]


def test_a_restart_is_said_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--restart` and `--startup` say the same thing in two ways; without nodes there is nothing to start on."""
    text = EXAMPLE.read_text()
    assert simulate(tmp_path, text, "--failures", "rsc-1", "--restart", "requeue", "--json") == 2
    assert json.loads(capsys.readouterr().out)["error"]["where"] == "--restart"
    # also if it is what it would be without --startup
    assert simulate(tmp_path, text, "--failures", "rsc-1", "--restart", "300", "--json") == 2
    assert json.loads(capsys.readouterr().out)["error"]["where"] == "--restart"
    assert simulate(tmp_path, text, "--algorithm", "none", "--json") == 2
    assert json.loads(capsys.readouterr().out)["error"]["where"] == "--startup"


@pytest.mark.parametrize("other", ["--trace", "--power"])
def test_standard_input_is_read_once(other: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Start-up and another file cannot both come from it."""
    files = {"--cluster": __file__, "--trace": __file__, "--startup": "-", other: "-"}
    assert run(["simulate", *(word for pair in files.items() for word in pair), "--json"]) == 2
    assert "both read standard input" in json.loads(capsys.readouterr().out)["error"]["message"]


def test_who_is_stopped_at_a_rounds_end_starts_up_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Gangs on all nodes take turns.  They end also where a start takes a whole round and more, or going on does; what
    `--resume-seconds` says is in the start-up already, and means nothing without rounds: both are refused.
    """
    jobs = JOBS.replace(",16,2,ann", ",32,4,ann").replace("user\n", "user,model\n").replace("ann\n", "ann,llm\n")
    (tmp_path / "cluster.csv").write_text(CLUSTER.replace("gpus\n", "gpus,gpu_type\n").replace(",8\n", ",8,H100\n"))
    (tmp_path / "jobs.csv").write_text(jobs)
    (tmp_path / "fast.csv").write_text("model,gpus,gpu_type,throughput\nllm,32,H100,1\n")
    (tmp_path / "slow.yaml").write_text(EXAMPLE.read_text().replace("fixed_seconds: 120", "fixed_seconds: 400"))
    files = ["--cluster", "cluster.csv", "--trace", "jobs.csv", "--throughputs", "fast.csv"]
    said = ["simulate", *(str(tmp_path / word) if word.endswith(".csv") else word for word in files), "--json"]
    for more in (["--startup", str(EXAMPLE)], ["--startup", str(tmp_path / "slow.yaml")], ["--resume-seconds", "360"]):
        assert run([*said, "--policy", "gavel", *more]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["completed"] == found["jobs"]
        assert found["startup"] is None or found["startup"][0]["starts"] > 2
    twice = ["--policy", "gavel", "--startup", str(EXAMPLE)]
    for more, why in ((twice, "is said by --startup"), ([], "no policy of this run stops jobs at the end of a round")):
        assert run([*said, *more, "--resume-seconds", "0"]) == 2
        error = json.loads(capsys.readouterr().out)["error"]
        assert (error["where"], why in error["message"]) == ("--resume-seconds", True)
