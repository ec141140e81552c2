"""Names of types of GPU in an annotation or a cell: all that a cluster may call them, and clear errors for the rest."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ground.errors import InvalidJob
from scheduler.type_names import read_type_names
from tests.case_counts import examples
from tests.facts import saying

NAMES = st.text(min_size=1, max_size=8).filter(str.isprintable)


@given(st.lists(NAMES, min_size=1, max_size=4, unique=True))
@examples(200)
def test_a_list_holds_any_name(names: list[str]) -> None:
    """In JSON as it is written, in YAML with single quotes, in which one stands for two."""
    assert read_type_names(json.dumps(names)) == tuple(names)
    assert read_type_names(f"[{', '.join(_quoted(name) for name in names)}]") == tuple(names)


def _quoted(name: str) -> str:
    return "'" + name.replace("'", "''") + "'"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("4090", ("4090",)),
        ("'H100', \"H200\"", ("H100", "H200")),
        ("NVIDIA H100 80GB HBM3,NVIDIA A100", ("NVIDIA H100 80GB HBM3", "NVIDIA A100")),
        ('["H100, 80 GB", "any"]', ("H100, 80 GB", "any")),
        ("any", None),
    ],
)
def test_names_as_people_write_them(text: str, names: tuple[str, ...] | None) -> None:
    """Between commas a name needs no quotes, a number may be one, and any is a name only in a list."""
    assert read_type_names(text) == names


@pytest.mark.parametrize(
    "text",
    [
        "",
        ",",
        "[]",
        "[H100",
        "H100]",
        "[H100, 4090]",
        "[[H100]]",
        "[&a H100]",
        "{H100: 1}",
        "'H100, H200",
        '[""]',
        "a\tb",
    ],
)
def test_what_is_no_list_of_names_is_refused(text: str) -> None:
    """With what to write; nothing is cut at a comma that stands inside quotes."""
    with pytest.raises(InvalidJob, match=saying("types of GPU")) as error:
        read_type_names(text)
    assert "like H200,H100" in error.value.fix
