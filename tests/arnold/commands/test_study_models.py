"""A study of `arnold simulate` with the files of models: a row is what `arnold simulate` answers with the same file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.arnold.commands.test_cli_simulate_data import DATA
from tests.arnold.commands.test_cli_simulate_startup import EXAMPLE
from tests.facts import says

Arnold = Callable[..., Any]

MODELS = {
    "--startup": EXAMPLE.read_text(),
    "--data": DATA.replace("demand: 10", "demand: 100"),
    # four idle nodes draw 4 kW, each that computes 9 more: one gang of two fits
    "--power": "level: rack\ncap_watts: 24000\ntypes:\n  H100: {idle: 1000, compute: 10000}\n",
}


@pytest.fixture
def files(tmp_path: Path) -> list[object]:
    """Two gangs of eight GPUs, which read data, on a rack of four nodes, and the same in two clusters."""
    rows = [f"n{i},mp0,r0,8,8,H100" for i in range(4)]
    header = "node,minipod,rack,gpus,free_gpus,gpu_type"
    (tmp_path / "jobs.csv").write_text(
        "job_id,submit_time,duration,gpus,user,data_sets\n"
        + "".join(f"{name},0,1000,16,ann,web:10000\n" for name in "ab")
    )
    (tmp_path / "one.csv").write_text("\n".join([header, *rows]) + "\n")
    return ["--trace", tmp_path / "jobs.csv", "--cluster", tmp_path / "one.csv"]


@pytest.mark.parametrize("option", [*MODELS])
def test_a_row_is_what_a_replay_with_the_file_gives(
    option: str, files: list[object], arnold: Arnold, tmp_path: Path
) -> None:
    """Mean completion time and makespan, and they are not those without the file."""
    model = tmp_path / "model.yaml"
    model.write_text(MODELS[option])
    alone = arnold("simulate", *files, option, model, "--json").json
    (row,) = arnold("simulate", *files, option, model, "--seeds", "1", "--json").json["groups"]
    assert row["metrics"]["makespan_seconds"]["mean"] == pytest.approx(alone["makespan_seconds"])
    assert row["metrics"]["jct_mean"]["mean"] == pytest.approx(alone["jct_seconds"]["mean"])
    assert alone["jct_seconds"]["mean"] > arnold("simulate", *files, "--json").json["jct_seconds"]["mean"]


def test_models_fit_all_clusters_and_have_nodes(files: list[object], arnold: Arnold, tmp_path: Path) -> None:
    """A level that the second cluster has not is refused with its line, and a study that counts GPUs before any run."""
    model = tmp_path / "model.yaml"
    model.write_text(MODELS["--data"])
    (tmp_path / "two.csv").write_text((tmp_path / "one.csv").read_text().replace("rack", "row"))
    wrong = arnold("simulate", *files, "--cluster", tmp_path / "two.csv", "--data", model)
    assert (wrong.code, says(wrong.err, "no level 'rack'")) == (2, True)
    counted = arnold("simulate", *files, "--data", model, "--algorithm", "exact,none")
    assert (counted.code, says(counted.err, "only counts GPUs")) == (2, True)
