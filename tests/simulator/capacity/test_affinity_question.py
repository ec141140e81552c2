"""Alpha of the jobs of a question: given, else by what they train, else the default, exactly as a job file has it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from ground.errors import InvalidInput
from ground.files import Source
from scheduler.job import DEFAULT_ALPHA
from scheduler.job_files.job_file import load_job
from simulator.capacity.cluster_question import AffinityQuestion
from simulator.capacity.fragmentation import FragmentationQuestion
from simulator.capacity.grow import GrowQuestion
from simulator.capacity.minipods import MinipodsQuestion
from tests.facts import says

DENSE, EXPERTS = "24B dense on H800", "24B MoE on H800"
SHAPE = {"hidden": 2560, "layers": 28, "vocab": 64_000, "sequence_length": 4096, "global_batch": 7}
MODELS = [DENSE, EXPERTS, "llm-7b", json.dumps(SHAPE), "hidden: 8192\nlayers: 4\nvocab: 9\nsequence_length: 64"]

Ask = Callable[..., AffinityQuestion[Any]]
QUESTIONS: list[Ask] = [
    lambda **given: MinipodsQuestion(nodes=32, sizes=(8,), jobs=("8x2x4",), seeds=1, algorithms=("best-fit",), **given),
    lambda **given: FragmentationQuestion(made="2x8", shapes=("8x2",), shares=(0.9,), **given),
    lambda **given: GrowQuestion(made="2x8", shapes=("8x2",), more=(1,), days=0.02, **given),
]


def by_job_file(rows: int, model: str | None) -> float:
    """The alpha of the job file of so many replicas of two stages; a batch for one size is no batch for all."""
    trained = {} if model is None else {"model": json.loads(model) if model.startswith("{") else model}
    if isinstance(shape := trained.get("model"), dict):
        trained = {"model": {key: value for key, value in shape.items() if key != "global_batch"}}
    file = {"parallelism": {"tp": 8, "dp": rows, "pp": 2}, **trained}
    return load_job(Source("job.yaml", json.dumps(file))).job.alpha


@pytest.mark.parametrize("ask", QUESTIONS)
@pytest.mark.parametrize("model", [None, *MODELS[:-1]])
def test_alpha_is_that_of_a_job_file(ask: Ask, model: str | None) -> None:
    """The answer has it, for all jobs and for each, and an assumption says where it is from."""
    answer = ask(model=model).answer()
    expected = by_job_file(4, model)
    assert answer.alpha == expected
    assert alphas(answer) == {expected}
    said = "by default: neither --alpha nor --model" if model is None else "from the nearest record"
    assert said in " ".join(answer.assumptions)


@pytest.mark.parametrize("ask", QUESTIONS)
def test_alpha_wins_over_the_model(ask: Ask) -> None:
    """As in a job file; then nothing has to be said about where it is from."""
    answer = ask(alpha=0.7, model=DENSE).answer()
    assert (answer.alpha, alphas(answer)) == (0.7, {0.7})
    assert not any("nearest record" in line or "by default: neither" in line for line in answer.assumptions)


def alphas(answer: Any) -> set[float]:
    """The alphas of the jobs of an answer, each of which has its own."""
    if hasattr(answer, "jobs") and not isinstance(answer.jobs, int):
        return {job.alpha for job in answer.jobs}
    if hasattr(answer, "rows"):
        return {shape.alpha for row in answer.rows for shape in row.shapes}
    return {size.alpha for shape in answer.shapes for size in shape.sizes}


def test_jobs_may_differ() -> None:
    """Without pipeline stages there are only DP groups: alpha 1, whatever the model; of two stages it is 0 for this."""
    answer = FragmentationQuestion(made="2x8", shapes=("8x1", "8x2"), shares=(0.9,), model=DENSE).answer()
    assert answer.alpha is None
    assert [size.alpha for shape in answer.shapes for size in shape.sizes] == [1.0, 0.0]
    said = " ".join(answer.assumptions)
    assert "with each job's own alpha" in said
    assert says(answer.assumptions, "shape 8x1", "alpha 1", "without pipeline stages")
    assert says(answer.assumptions, "shape 8x2", "alpha 0", "nearest record", "24B dense on H800")


def test_a_model_as_people_write_it() -> None:
    """YAML over several lines."""
    question = FragmentationQuestion(made="2x8", shapes=("8x2",), model=MODELS[-1])
    assert question.trained is not None
    assert question.trained.hidden == 8192


@pytest.mark.parametrize("ask", QUESTIONS)
@pytest.mark.parametrize(
    ("model", "words", "fix"),
    [
        ("llm-7", "no model is called 'llm-7'", "did you mean"),
        ("{hiden: 8}", "unknown key 'hiden'", "did you mean 'hidden'"),
        (" ", "no model is called ''", "name one of llm-7b"),
        ("[1]", "keys with values are expected", "correct"),
        ("9" * 5000, "has a number of thousands of digits", "that fits"),
    ],
)
def test_a_model_that_is_none_is_refused(ask: Ask, model: str, words: str, fix: str) -> None:
    """Before anything is computed."""
    with pytest.raises(InvalidInput, match=words) as error:
        ask(model=model)
    assert (error.value.where, fix in error.value.fix) == ("--model", True)


def test_the_default_is_the_one_number() -> None:
    """Scripts that say nothing have it too."""
    question = MinipodsQuestion(nodes=32, sizes=(8,), jobs=("8x2x4",))
    assert question.affinity(*question.sized_jobs[0]).alpha == DEFAULT_ALPHA
