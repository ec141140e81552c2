"""True and false for numbers in the files of the simulator and the scheduler: none is read as 1 or 0."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ground.documents import Document, load_document
from ground.errors import InvalidInput
from ground.files import Source
from scheduler.job_files.job_file import JobDocument
from simulator.data_plan import DataPlan
from simulator.power_file import PowerSettings
from simulator.startup_settings import StartUpSettings
from simulator.workload import WorkloadSpec
from tests.facts import saying

FILES = {
    JobDocument: "{parallelism: {tp: 8, dp: 2}, alpha: 0.3, microbatches: 4, levels: {rack: 1}, images: {train: 18}}",
    PowerSettings: "{watts: {idle: 100}, band: [0.1, 20], cap_watts: 1000, caps: {a: 1}, jobs: {j: {step_seconds: 1}}}",
    WorkloadSpec: "{workload: kalos, days: 7, seed: 1, load: 0.5, gpus: 64, announce: {gpus: 8, seconds: 60}}",
    DataPlan: (
        "{data_sets: {a: {samples: 9, encoded_bytes: 2, prepared_bytes: 3, demand: 4, augmented: 5, decoded: 6,"
        " encoded: 7, miss: 8}}, cache: {bytes: 4, encoded: 1.0}}"
    ),
    StartUpSettings: (Path(__file__).parents[2] / "examples" / "startup.yaml").read_text(encoding="utf-8"),
}


def numbers(data: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The path of each number of a file."""
    if isinstance(data, dict | list):
        for key, value in data.items() if isinstance(data, dict) else enumerate(data):
            yield from numbers(value, (*path, key))
    elif isinstance(data, int | float) and not isinstance(data, bool):
        yield path


@pytest.mark.parametrize("shape", FILES, ids=lambda shape: shape.__name__)
def test_no_number_of_a_file_may_be_true(shape: type) -> None:
    """Each number of a good file in turn: the error names it, and says that true is no number."""
    document = load_document(Source("f", FILES[shape]))
    document.parse(shape)
    found = list(numbers(document.data))
    assert found
    for *inside, last in found:
        data = copy.deepcopy(document.data)
        part = data
        for key in inside:
            part = part[key]
        part[last] = True
        with pytest.raises(InvalidInput, match=saying("not True")) as caught:
            Document(document.source, data, lambda _: 1).parse(shape)
        assert str(last) in caught.value.message
