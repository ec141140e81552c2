"""Traces without names: the same name the same pseudonym, everything else byte for byte."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given

from simulator.job_record import JobRecord
from simulator.traces import read_trace
from simulator.traces.pseudonyms import Pseudonyms, anonymised
from tests.case_counts import examples
from tests.simulator.traces.trace_samples import ACME, HELIOS, PHILLY_LOG, SACCT, SACCT_JSON, SPOT2026, SWF, damaged
from topology.errors import TraceFormatError
from topology.files import Source


def made(text: str, key: bytes = b"secret") -> str:
    """The text with pseudonyms."""
    return anonymised(Source("f", text), Pseudonyms(key))


def facts(folder: Path, text: str) -> list[JobRecord]:
    """The jobs without what becomes a pseudonym, which may be an id."""
    (folder / "t").write_text(text, encoding="utf-8")
    records = read_trace(folder / "t", lenient=True).records
    kept = [(one.submit, one.duration, one.gpus, one.queue, one.status, one.waited) for one in records]
    return [JobRecord("", b, c, d, queue=e, status=f, waited=g) for b, c, d, e, f, g in kept]


@pytest.mark.parametrize("text", [SACCT, SACCT_JSON, PHILLY_LOG, HELIOS, ACME, SPOT2026])
def test_jobs_stay_what_they_were(text: str, tmp_path: Path) -> None:
    """Read again, all that is no name is the same; the same key gives the same text, another key another."""
    assert facts(tmp_path, made(text)) == facts(tmp_path, text)
    assert made(text) == made(text) != made(text, b"other")


def test_only_cells_of_names_change() -> None:
    """Of sacct's columns the user, the account, the name of the job, and who cancelled it."""
    before = [line.split("|") for line in SACCT.splitlines()]
    after = [line.split("|") for line in made(SACCT).splitlines()]
    assert after[0] == before[0]
    names = before[0]
    differing = {
        names[min(i, len(names) - 1)]
        for old, new in zip(before, after, strict=True)
        for i in range(len(names) - 1)
        if old[i] != new[i]
    }
    assert differing == {"User", "Account", "State"}
    users = {(old[1], new[1]) for old, new in zip(before[1:], after[1:], strict=True)}
    assert len(users) == len({old for old, _ in users}) == 3  # ada, ben, and none of a step
    assert after[3][10].startswith("CANCELLED by ")
    assert "1004" not in after[3][10]
    assert made(SACCT).count("train") == 0


def test_exports_one_after_the_other() -> None:
    """The second header stays a header."""
    assert made(SACCT + SACCT) == made(SACCT) * 2


def test_a_number_stays_a_number() -> None:
    """Ids of users and groups; the one that cancelled a job is the user of that id."""
    text = "JobID|UID|State\n1|1004|CANCELLED by 1004\n2|1005|COMPLETED\n"
    first, second = (line.split("|") for line in made(text).splitlines()[1:])
    assert first[1].isdecimal()
    assert first[2] == f"CANCELLED by {first[1]}"
    assert second[1] not in ("1005", first[1])


def test_json_keeps_its_layout() -> None:
    """Only strings change, on the same lines; names of resources and the user who asked are told apart."""
    text = made(SACCT_JSON)
    assert len(text.splitlines()) == len(SACCT_JSON.splitlines())
    old, new = json.loads(SACCT_JSON), json.loads(text)
    assert new["jobs"][0]["user"] == new["meta"]["client"]["user"] != "ada"
    assert new["jobs"][0]["tres"] == old["jobs"][0]["tres"]
    assert new["jobs"][0]["steps"][0]["step"]["id"] == "7.batch"
    assert "ada" not in text
    assert "vision" not in text


def test_csv_keeps_quotes_and_lines() -> None:
    """Quoted cells, commas and lines in them, Windows ends, spaces behind a comma, nothing at the end."""
    text = 'job_id,user,job_name,gpus\r\na,"ada, the first","two\nlines",8\r\nb, ben ,,"1"'
    out = made(text)
    pieces = out.split("user-")
    assert [piece[12:] for piece in pieces[1:]] == [f'","{out.split(chr(34))[3]}",8\r\nb, ', ' ,,"1"']
    assert out.startswith('job_id,user,job_name,gpus\r\na,"user-')
    assert made('user\n"ada"\nada\n').split("\n")[1].strip('"') == made('user\n"ada"\nada\n').split("\n")[2]


@pytest.mark.parametrize("text", [SACCT, SACCT_JSON, PHILLY_LOG, HELIOS])
def test_damaged_files(text: str) -> None:
    """A text or an error of ours, whatever stands there."""

    @examples(60)
    @given(damaged(text.encode()).map(lambda data: data.decode(errors="replace")))
    def check(damaged_text: str) -> None:
        with suppress(TraceFormatError):
            assert made(damaged_text)

    check()


@pytest.mark.parametrize("text", [SWF, "job_id,submit_time,duration,gpus\na,0,1,1\n", '{"a": 1}', "a|b\n1|2\n"])
def test_nothing_to_replace_is_told(text: str) -> None:
    """Else a user would give a file away in the belief that names were taken out."""
    with pytest.raises(TraceFormatError, match="names no users, groups or jobs"):
        made(text)
