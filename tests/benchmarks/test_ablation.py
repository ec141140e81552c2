"""The ablation: what a run says of its stages, which questions are searched again, and realistic clusters."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from benchmarks.ablation import NEVER_OFF, Ablation, Run, StageRun, search, stage_names, weigh
from benchmarks.realistic import STAGES, draw_question, take_tightest
from scheduler.placement.exact import schedule
from scheduler.placement.exact.problem import GridProblem

BANDS = GridProblem(3, 3, (4, 4, 2))
"""Three rows of three on (4, 4, 2): counting fills (2, 3), and bands build (2, 2)."""


def test_a_stage_that_is_off_does_not_run() -> None:
    """Each stage is noted where its turn came, and none that is off; with all but the first off nothing is proved."""
    whole = search(BANDS, 0.5, limit=1.0, seed=0, off=())
    bare = search(BANDS, 0.5, limit=1.0, seed=0, off=stage_names())
    assert [run.name for run in bare["stages"]] == [NEVER_OFF]  # type: ignore[attr-defined]
    assert whole["proved"]
    assert len(whole["stages"]) > 1  # type: ignore[arg-type]
    assert whole["bound"] >= bare["bound"]  # type: ignore[operator]


def test_the_limit_is_counted_from_the_start_of_the_search() -> None:
    """No stage begins a tenth of a counted second after the limit, on a grid whose skeletons take hours."""
    grid = GridProblem(87, 8, (31,) * 30)  # number 839 of seed 1
    off = [stage for stage in stage_names() if stage not in ("apply_product", "build_quick_tabu", "decide_skeletons")]
    cut = search(grid, 0.3, limit=0.2, seed=1, off=off)
    assert not cut["proved"]
    assert 0.2 <= cut["work"] < 0.7  # type: ignore[operator]  # one slice of a skeleton is up to a quarter of a second


def test_only_what_a_stage_touched_is_searched_again(tmp_path: Path) -> None:
    """Runs stand in a file; a second look reads them, and without a stage there are runs for what it changed alone."""
    ablation = Ablation(("small",), 40, 1.0, tmp_path)
    whole = ablation.collect("small")
    changed = {number for number, run in whole.items() if run.touched_by(("build_quick_tabu",))}
    worth = weigh(ablation, "small", ("build_quick_tabu",), sample=1000)
    (file,) = tmp_path.iterdir()
    text = file.read_text()
    assert 0 < worth.touched == worth.sampled == len(changed) < 40
    assert text.count("\n") == 40 + len(changed)
    assert ablation.collect("small") == whole
    assert file.read_text() == text


def test_time_that_others_lacked_counts_where_the_answer_is_open() -> None:
    """A stage that found nothing touches an open question from a tenth of the limit on, and no proved one."""
    idle = StageRun("idle", work=1.0, seconds=1.0, refuted=0, built=0, told=False)
    fields = {"family": "small", "number": 0, "off": (), "limit": 10.0, "pair": (2, 2), "cost": 2.0, "bound": 1.0}
    left_open = Run(**fields, proved=False, work=10.0, seconds=9.0, stages=(idle,))  # type: ignore[arg-type]
    proved = Run(**fields, proved=True, work=2.0, seconds=9.0, stages=(idle,))  # type: ignore[arg-type]
    assert left_open.touched_by(["idle"])
    assert not proved.touched_by(["idle"])
    assert not left_open.touched_by(["another"])


def test_stages_are_those_of_the_search() -> None:
    """All but the one that gives the first placement, in order, each name once."""
    names = [stage.__name__ for stage in schedule.STAGES]
    assert names == [NEVER_OFF, *stage_names()]
    assert max(Counter(names).values()) == 1


@pytest.mark.parametrize("number", range(20))
def test_realistic_jobs_fit(number: int) -> None:
    """The job fits on the free nodes, with the stages of its setting, and no domain has more nodes than it has."""
    question = draw_question(number, seed=1)
    assert question == draw_question(number, seed=1)
    assert question.columns == STAGES[question.setting]
    assert 2 * question.columns <= question.rows * question.columns <= sum(question.free)
    assert max(question.free) <= question.domain_nodes


def test_packing_takes_the_tightest_domain_then_the_roomiest() -> None:
    """Three go to the domain of three, not of four; five more to the domain of four, and the last to that of two."""
    free = [2, 4, 3]
    assert take_tightest(free, 3) == [(2, 3)]
    assert take_tightest(free, 5) == [(1, 4), (0, 1)]
    assert free == [1, 0, 0]
