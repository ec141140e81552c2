"""Characterisation files: kinds of jobs, or one measurement for all jobs."""

from __future__ import annotations

import json

import pytest

from ground.errors import InvalidInput
from ground.files import Source
from ground.records import json_data
from scheduler.affinity import RECORDS, Gains, job_affinity
from scheduler.job import Parallelism
from scheduler.job_files.job_file import load_job
from scheduler.job_files.records_file import RecordsDocument, load_records, records_document
from tests.facts import says

OURS = Gains("ours", dp_gain=1.0, pp_gain=3.0, published="measured", dp_band=(0.5, 1.5), pp_band=(2.5, 3.5))
GRID = Parallelism(tp=8, dp=6, pp=2)
OF_ALL = "records: [{name: ours, dp_gain: 1, pp_gain: 3}"


@pytest.mark.parametrize("record", [OURS, *(record for record in RECORDS)], ids=lambda record: record.name)
def test_what_is_written_is_read_back(record: Gains) -> None:
    """Every field of a measurement, of all jobs and of a kind, but for what was inferred of a published one."""
    written = Source("own.json", json.dumps(json_data(RecordsDocument, records_document(record))))
    (found,) = load_records(written)
    assert found == (record.__class__(**{name: getattr(record, name) for name in fields_of(record)}))


def fields_of(record: Gains) -> list[str]:
    """The fields that a file has."""
    return [name for name in record.__dataclass_fields__ if name != "inferred"]


def test_a_measurement_without_model_is_of_all_jobs() -> None:
    """With a model or without; the reason names it, with its bands."""
    for model in (None, RECORDS[0].model):
        known = job_affinity(GRID, model=model, records=[OURS])
        assert (known.alpha, known.spread_cost) == (0.25, 0.04)
        assert says(known.reason, "alpha 0.25", "measured", "ours", "+1 % (0.5 to 1.5)", "+3 % (2.5 to 3.5)")


def test_an_alpha_that_is_asked_for_wins_and_is_said() -> None:
    """What spread costs stays as measured."""
    known = job_affinity(GRID, alpha=0.5, records=[OURS])
    assert (known.alpha, known.spread_cost) == (0.5, 0.04)
    assert says(known.reason, "alpha 0.5 as asked", "alpha 0.25", "measured", "ours")


def test_a_job_file_gets_alpha_and_what_spread_costs() -> None:
    """By the file of a measurement; a spread_cost in the job wins."""
    records = load_records(Source("own.yaml", OF_ALL + "]"))
    text = "parallelism: {tp: 8, dp: 6, pp: 2}\n"
    job = load_job(Source("job.yaml", text), records=records)
    assert (job.job.alpha, job.job.spread_cost) == (0.25, 0.04)
    assert any("as measured: ours" in note for note in job.notes)
    assert load_job(Source("job.yaml", text + "spread_cost: 0.5"), records=records).job.spread_cost == 0.5


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (OF_ALL + ", {name: b, dp_gain: 1, pp_gain: 1}]", "'ours' has no model and so is of all jobs"),
        (
            "records: [{name: a, parallelism: {pp: 2}, dp_gain: 1, pp_gain: 3}]",
            "give model and parallelism, or neither",
        ),
        (OF_ALL.replace("pp_gain: 3", "pp_gain: .nan") + "]", "pp_gain"),
        (OF_ALL.replace("pp_gain: 3", "pp_gain: -3") + "]", "pp_gain"),
        (OF_ALL.replace("}", ", dp_band: [1]}") + "]", "dp_band"),
        (OF_ALL.replace("}", ", dp_band: [.nan, 1]}") + "]", "dp_band"),
        (OF_ALL.replace("}", ", dp_band: [2, 1]}") + "]", "dp_band goes up"),
    ],
)
def test_mistakes_are_refused(text: str, problem: str) -> None:
    """With the file and the line."""
    with pytest.raises(InvalidInput) as caught:
        load_records(Source("own.yaml", text))
    assert problem in f"{caught.value.message} {caught.value.fix}"
    assert caught.value.where.startswith("own.yaml:1")
