"""YAML and JSON from untrusted hands."""

import math
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field

from ground.documents import Document, load_document
from ground.errors import ArnoldError, InvalidInput, InvalidJob, TooLarge
from ground.files import Source, decode_source
from tests.case_counts import examples


def load(text: str) -> Document:
    """The document of a text called f."""
    return load_document(Source("f", text))


class Part(BaseModel):
    """Some nested keys."""

    model_config = ConfigDict(extra="forbid")
    tp: int = 1
    pp: int = Field(1, ge=1)


class Whole(BaseModel):
    """Some keys of every kind."""

    model_config = ConfigDict(extra="forbid")
    name: str
    alpha: float | None = Field(None, ge=0, le=1, allow_inf_nan=False)
    pairs: tuple[int, ...] = Field((1, 2), min_length=2, max_length=3)
    part: Part | None = None
    parts: list[Part] = []


def test_yaml_is_read_by_the_core_schema() -> None:
    """YAML 1.2, section 10.3: ``no`` is a word, ``1e-3`` a number, a quoted number text."""
    document = load(
        "a: [1, -2, 0x1F, 0o17, x]\nb: {c: no, d: 1e-3, e: .inf, f: '8', g: , h: true, i: 2026-11-21, 1: k}"
    )
    assert document.data == {
        "a": [1, -2, 31, 15, "x"],
        "b": {"c": "no", "d": 0.001, "e": math.inf, "f": "8", "g": None, "h": True, "i": "2026-11-21", "1": "k"},
    }


@pytest.mark.parametrize(
    "text",
    [
        "a: 1\nb:\n  c:\n    - x\n    - d: 2\n",
        '{"a": 1,\n "b":\n {"c": [\n"x",\n{"d": 2}]}}',
        '{a: 1,\n b: \n {c: [\n"x",\n{"d": 2}]}}',
    ],
    ids=["yaml", "json", "flow"],
)
def test_every_path_has_its_line(text: str) -> None:
    """In block YAML, JSON and flow YAML alike; a path that leads nowhere gives its last known piece."""
    document = load(text)
    assert document.data == {"a": 1, "b": {"c": ["x", {"d": 2}]}}
    assert document.where("b") == "f:2"
    assert document.where("b", "c") == "f:3"
    assert document.where("b", "c", 1, "d") == document.where("b", "c", 1) == "f:5"
    assert document.where("b", "c", 0) == document.where("b", "c", 0, "nothing", 7) == "f:4"
    assert document.where() == document.where("nothing") == "f:1"


@pytest.mark.parametrize(
    ("text", "complaint", "where"),
    [
        ("a: &x 1\nb: *x", "anchor, &x", "f:1"),
        ("a: 1\nb: *x", "alias", "f:2"),
        ("a: 1\nb: !!python/object/apply:os.system [ls]", "tag", "f:2"),
        ("a: 1\nb: !!python/name:os.system", "tag", "f:2"),
        ("a: !!int x", "tag", "f:1"),
        ("a: 1\n---\nb: 2", "several documents", "f:2"),
        ("a: 1\nb:\n  c: 2\n  c: 3", r"key 'c' twice \(first in line 3\)", "f:4"),
        ('{"a": [1, {"b": 1,\n"c": 2,\n"b": 3}]}', "key 'b' twice", "f:3"),
        ("? [a]\n: 1", "as a key", "f:1"),
        ("a: b: c", "not YAML", "f:1"),
        ("a: [1,\n  2", "not YAML", "f:2"),
        ('{"a": 1,\n "b": "x', "truncated", "f:2"),
        ('{"a": 1,\n "b": [1, 2', "truncated", "f:2"),
        ('{"a": 1,\n "b": yes}', "not JSON", "f:2"),
        ("# nothing\n", "no data", "f"),
        ("\a", "not YAML", "f"),
        ("a: " + "1" * 5000, "thousands of digits", "f:1"),
        ('{"a": ' + "1" * 5000 + "}", "thousands of digits", "f:1"),
        ("- " * 100_000, "deep", "f:1"),
        ("[a, " * 100_000, "deep", "f:1"),
        ("[" * 100_000, "deep", "f"),
        ('{"a":' * 100_000, "deep", "f"),
    ],
)
def test_broken_or_hostile_text_is_refused(text: str, complaint: str, where: str) -> None:
    """Bombs, tags, doubles and truncation end at once in one message that says where."""
    with pytest.raises(InvalidInput, match=complaint) as caught:
        load(text)
    assert caught.value.where == where
    assert caught.value.fix


def test_core_tags_are_harmless() -> None:
    """``!!str`` only says what a plain scalar is."""
    assert load("a: !!str 1\nb: !!int 2\nc: !!map {}").data == {"a": "1", "b": 2, "c": {}}


def test_yaml_of_many_megabytes_is_too_large() -> None:
    """YAML would take minutes to parse; the error names the format that does not."""
    with pytest.raises(TooLarge, match="larger than the 16 MB") as caught:
        load("a: " + "x" * (17 * 2**20))
    assert "JSON" in caught.value.fix


@pytest.mark.parametrize(
    ("text", "complaint", "where", "fix"),
    [
        ("name: x\nalhpa: 1", "unknown key 'alhpa'", "f:2", "did you mean 'alpha'?"),
        ("name: x\nparts:\n- tp: 1\n- tp: 1\n  ppp: 2", r"unknown key 'parts\[1\].ppp'", "f:5", "did you mean 'pp'?"),
        ('{"name": "x",\n"part": {\n"ttp": 2}}', "unknown key 'part.ttp'", "f:3", "did you mean 'tp'?"),
        ("alpha: 1", "key 'name' is missing", "f:1", "add 'name'"),
        ("name: x\nalpha: 2", "alpha: .*less than or equal to 1, not 2", "f:2", "correct alpha"),
        ("name: x\nalpha: .nan", "alpha: .*finite", "f:2", "correct alpha"),
        ("name: x\nalpha: lots", "alpha: .*number.*not 'lots'", "f:2", "correct alpha"),
        ("name: 7", "name must be text, not 7", "f:1", "quotes"),
        ("name: x\npart: 3", "part: keys with values are expected here, not 3", "f:2", "correct part"),
        ("name: x\npairs: [1]", "pairs: at least 2 entries are expected here, not 1", "f:2", "correct pairs"),
        ("name: x\npairs: [1, 2, 3, 4]", "pairs: at most 3 entries are expected here, not 4", "f:2", "correct pairs"),
        ("name: x\npairs: 1", "pairs: input should be a valid list, not 1", "f:2", "correct pairs"),
        (
            "- x",
            "keys with values are expected here, not a list",
            "f:1",
            "correct the file, or give another; it is read as YAML",
        ),
        ("name: x\npart:\n  pp: 0\nalpha: 2", r"1 more after this one", "f:3", "correct part.pp"),
    ],
)
def test_data_of_another_shape_are_refused_with_their_line(text: str, complaint: str, where: str, fix: str) -> None:
    """What pydantic finds is said in our words; of several problems, the first in the file."""
    with pytest.raises(InvalidJob, match=complaint) as caught:
        load(text).parse(Whole, error=InvalidJob)
    assert caught.value.where == where
    assert fix in caught.value.fix


def test_data_of_the_right_shape_become_a_model() -> None:
    """A model, or a list of them."""
    assert load("name: x\npart: {tp: 8}").parse(Whole) == Whole(name="x", part=Part(tp=8))
    assert load("- tp: 8").parse(list[Part]) == [Part(tp=8)]


json_like = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@examples(40)
@given(st.lists(json_like) | st.dictionaries(st.text(), json_like))
def test_json_survives_with_every_line(data: Any) -> None:
    """Any JSON written one entry a line comes back, and every path's line holds its key or value."""
    import json

    text = json.dumps(data, indent=1)
    document = load(text)
    assert document.data == data
    lines = text.splitlines()

    def walk(value: Any, path: tuple[str | int, ...]) -> None:
        if path:
            line = lines[int(document.where(*path).rsplit(":", 1)[1]) - 1]
            if isinstance(path[-1], str):
                assert line.strip().startswith(json.dumps(path[-1]))
        for key, inner in (
            value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else []
        ):
            walk(inner, (*path, key))

    walk(data, ())


@examples(150)
@given(st.binary() | st.text().map(str.encode) | st.text(alphabet="[]{}:,-?&*!|>'\"#% \nab1").map(str.encode))
def test_no_bytes_break_the_reader(data: bytes) -> None:
    """Whatever is thrown at it, only an ArnoldError comes out."""
    with suppress(ArnoldError):
        document = load_document(decode_source("f", data))
        document.where("a", 0, "b")
        document.parse(Whole)


class Numbers(BaseModel):
    """Numbers in all places, and what may be a truth value."""

    whole: int = 1
    share: float | None = None
    band: tuple[float, float] = (0.0, 1.0)
    caps: dict[str, float] = {}
    parts: list[Part] = []
    switch: bool = False
    either: bool | int = 0
    name: str | bool = ""


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("\nwhole: true", "f:2: whole: input should be a valid integer, not True"),
        ("share: false", "f:1: share: input should be a valid number, not False"),
        ("band: [0.1, true]", "f:1: band[1]: input should be a valid number, not True"),
        ("caps:\n  a: 1\n  b: true", "f:3: caps.b: input should be a valid number, not True"),
        ("parts: [{tp: true}]", "f:1: parts[0].tp: input should be a valid integer, not True"),
    ],
)
def test_truth_is_no_number(text: str, complaint: str) -> None:
    """It is 1 to Python, and to pydantic where it is not strict: true watts would be one watt."""
    with pytest.raises(InvalidInput) as caught:
        load(text).parse(Numbers)
    assert f"{caught.value.where}: {caught.value.message}" == complaint
    assert caught.value.fix.startswith("correct ")


def test_truth_stays_where_it_may_be() -> None:
    """A switch, and what is either."""
    assert load("{switch: true, either: true, name: false}").parse(Numbers) == Numbers(
        switch=True, either=True, name=False
    )
