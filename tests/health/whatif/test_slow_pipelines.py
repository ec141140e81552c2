"""Profiles of real pipelines of four processes, one of which is slow: that one is named, or the files are refused.

Recorded by examples/slow/slow.py with PyTorch 2.15 over gloo on a machine that was busy with other things, two stages
of two replicas, backward passes of three times the usual length; ranges that the converter does not read are taken out.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from tests.conftest import Arnold
from tests.facts import says

RUNS = Path(__file__).with_name("slow_pipelines.json.gz")
SLOW = {
    "gpipe_backward_2": (0, 1),
    "1f1b_backward_2": (0, 1),
    "interleaved_backward_0": (0, 0),
    "dualpipe_backward_2": (0, 1),
}
"""(dp rank, stage) of the slow rank; rank = 2 * stage + dp rank."""


@pytest.mark.parametrize("told", [False, True], ids=["by the groups", "with --meta"])
@pytest.mark.parametrize("name", SLOW)
def test_the_slow_rank_is_named_and_nobody_else(arnold: Arnold, tmp_path: Path, name: str, told: bool) -> None:
    """Groups of a mesh say the degrees; only the number of virtual stages has to be told."""
    profiles = json.loads(gzip.decompress(RUNS.read_bytes()))[name]
    files = [tmp_path / f"rank-{rank}.json" for rank in range(len(profiles))]
    for file, profile in zip(files, profiles, strict=True):
        file.write_text(json.dumps(profile))
    chunks = 2 if name.startswith(("interleaved", "dualpipe")) else 1
    meta = tmp_path / "degrees.yaml"
    meta.write_text(f"dp_size: 2\npp_size: 2\nvpp_size: {chunks}\n")
    out = tmp_path / "trace"
    ran = arnold("health", "op-trace", *files, "--save", out, *(("--meta", meta) if told else ()))
    if chunks > 1 and not told:
        assert ran.code == 2
        assert says(ran.err, "pp_size: 2", "vpp_size: 2")
        return
    assert ran.code == 0
    document = arnold("stragglers", out / "trace.parquet", "--meta", out / "meta.yaml", "--json").json
    assert [(worker["dp"], worker["stage"]) for worker in document["slow_workers"]] == [SLOW[name]]
    # three times as long backward, which is two thirds of a pass; waits of the machine are in both
    assert 1.5 < document["slow_workers"][0]["factor"] < 2.34
