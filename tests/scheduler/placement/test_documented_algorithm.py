"""The algorithm that docs/how-to/write-an-algorithm.md shows places a job."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from scheduler.algorithm_run import run
from scheduler.job import Job, Parallelism
from scheduler.placement.types import Limits
from tests.page_blocks import blocks_of
from topology.generate import minipods

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "write-an-algorithm.md"


def test_the_algorithm_of_the_page_works() -> None:
    """It fills the smallest pool first: the three nodes of the minipod in which one of four is in use."""
    (code,) = [block.text for block in blocks_of(PAGE.read_text(encoding="utf-8")) if block.language == "python"]
    names: dict[str, Any] = {}
    exec(code, names)
    cluster = minipods(minipods=3, nodes=12).with_busy([0])
    outcome = run(names["algorithm"](), cluster, Job("small", Parallelism(tp=8, dp=2, pp=2)), Limits(seconds=60.0))
    assert outcome.proposal.nodes is not None
    assert set(np.ravel(outcome.proposal.nodes)[:3]) == {1, 2, 3}
    assert outcome.status == "feasible"
