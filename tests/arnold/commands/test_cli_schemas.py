"""`arnold schema` knows what the simulator prints, and the files that it lets users write."""

from __future__ import annotations

import json
from typing import Any

import pytest

from arnold.commands.run import run

QUESTIONS = ["minipods", "spares", "reserve", "fragmentation", "grow", "power", "cache"]
STUDIES = ["study", "study generations"]
WRITTEN = ["workload", "startup", "power", "data"]
NAMES = ["simulate", *STUDIES, "calibrate", *WRITTEN, *(f"capacity {question}" for question in QUESTIONS)]


def printed(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    """What a command line that goes well prints."""
    capsys.readouterr()
    assert run(["schema", *args]) == 0
    return capsys.readouterr().out


def test_all_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a name, all names are printed, one a line."""
    assert set(NAMES) <= set(printed(capsys).splitlines())


def test_what_several_jobs_print_is_described_as_what_one_prints(capsys: pytest.CaptureFixture[str]) -> None:
    """Records of both have one description, a faulty node's slowdown of null too, and no key that is always there may
    be missing; nothing in a schema is no JSON, as infinity.
    """
    read = {
        name: json.loads(printed(capsys, name), parse_constant=pytest.fail)
        for name in ("place", "jobs", "study", "error")
    }
    one, several = read["place"]["$defs"], read["jobs"]["$defs"]
    assert several.keys() >= one.keys()
    assert {name: several[name] for name in one} == one
    assert {"type": "null"} in several["NodeFlag"]["properties"]["slowdown"]["anyOf"]
    assert all(schema["required"] == list(schema["properties"]) for schema in read.values())


@pytest.mark.parametrize("name", NAMES)
def test_every_field_is_described(capsys: pytest.CaptureFixture[str], name: str) -> None:
    """Each schema refuses unknown keys and says of each key what it is."""
    schema = json.loads(printed(capsys, *name.split()))
    objects: list[dict[str, Any]] = [
        shape for shape in [schema, *schema.get("$defs", {}).values()] if shape.get("type") == "object"
    ]
    assert objects
    assert all(shape["additionalProperties"] is False for shape in objects)
    bare = {
        (shape["title"], key)
        for shape in objects
        for key, field in shape["properties"].items()
        if "description" not in field
    }
    assert bare == set()
