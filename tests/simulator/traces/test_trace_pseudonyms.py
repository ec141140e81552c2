"""Traces without names: the same name the same pseudonym, everything else byte for byte."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given

from ground.errors import TraceFormatError
from ground.files import Source
from simulator.job_record import JobRecord
from simulator.traces import read_trace
from simulator.traces.pseudonyms import Pseudonyms, anonymised, still_named
from tests.case_counts import examples
from tests.facts import saying
from tests.simulator.traces.trace_samples import ACME, HELIOS, PHILLY_LOG, SACCT, SACCT_JSON, SPOT2026, SWF, damaged


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
    with pytest.raises(TraceFormatError, match=saying("no users, groups or jobs")):
        made(text)


SLURM_RECORD = """{"account": "PRIV", "association": {"account": "PRIV", "cluster": "c", "user": "PRIV", "id": 771771},
"comment": {"administrator": "PRIV", "job": "PRIV", "system": "PRIV"}, "container": "PRIV", "extra": "PRIV",
"group": "PRIV", "job_id": 7, "kill_request_user": "PRIV", "mcs": {"label": "PRIV"}, "name": "PRIV",
"reservation": {"id": 0, "name": "PRIV_1", "requested": "PRIV_1,PRIV_2"}, "script": "PRIV", "stdin": "PRIV",
"stdin_expanded": "PRIV", "stdout": "PRIV", "stdout_expanded": "PRIV", "stderr": "PRIV", "stderr_expanded": "PRIV",
"submit_line": "PRIV", "user": "PRIV", "wckey": {"wckey": "*PRIV", "flags": []}, "working_directory": "/PRIV",
"tres": {"allocated": [{"type": "gres", "name": "gpu:h100", "count": 8}]}, "time": {"user": {"seconds": 5}},
"nodes": "n1", "partition": "p", "qos": "normal", "steps": [{"kill_request_user": 771771, "submit_line": "PRIV",
"step": {"id": "7.0", "name": "PRIV", "stdin": "PRIV", "stdout": "PRIV", "stderr": "PRIV", "stdin_expanded": "PRIV",
"stdout_expanded": "PRIV", "stderr_expanded": "PRIV"}, "tres": {"allocated": [{"type": "fs", "name": "disk"}]}}]}"""
"""Every key of data_parser/v0.0.43 to v0.0.46 (parsers.c, JOB and STEP) that may hold a name, and some that may not."""

QUEUE_RECORD = """{"account": "PRIV", "admin_comment": "PRIV", "comment": "PRIV", "command": "PRIV", "job_id": 7,
"current_working_directory": "PRIV", "group_id": 771771, "group_name": "PRIV", "mail_user": "PRIV", "mcs_label": "PRIV",
"name": "PRIV", "resv_name": "PRIV", "standard_error": "PRIV", "standard_input": "PRIV", "standard_output": "PRIV",
"system_comment": "PRIV", "user_id": 771771, "user_name": "PRIV", "wckey": "PRIV", "partition": "p"}"""
"""The same of ``squeue --json``, which users take for that of sacct."""


@pytest.mark.parametrize("record", [SLURM_RECORD, QUEUE_RECORD])
def test_no_key_of_slurm_keeps_a_name(record: str) -> None:
    """Wherever a name may stand it does not stay; numbers stay numbers, and what is no name stays."""
    meta = '{"client": {"user": "PRIV", "group": "PRIV"}, "command": ["sacct", "-u", "PRIV"]}'
    errors = '[{"description": "no user PRIV", "error_number": 1}]'
    text = made(f'{{"jobs": [{record}], "meta": {meta}, "errors": {errors}, "warnings": {errors}}}')
    assert "PRIV" not in text
    assert "771771" not in text
    old, new = json.loads(record), json.loads(text)["jobs"][0]
    kept = {"job_id", "tres", "time", "nodes", "partition", "qos"} & set(old)
    assert {key: new[key] for key in kept} == {key: old[key] for key in kept}


@pytest.mark.parametrize("key", ["user", "user_name", "uid", "owner", "job_name", "account"])
@pytest.mark.parametrize("value", ['"PRIV"', "771771"])
def test_json_lines_know_the_columns_of_tables(key: str, value: str) -> None:
    """Also a number where a name stands."""
    text = made(f'{{"job_id": "a", "{key}": {value}, "submit_time": 1.5, "gpus": 8}}\n' * 2)
    assert "PRIV" not in text
    assert "771771" not in text
    assert [json.loads(line)["submit_time"] for line in text.splitlines()] == [1.5, 1.5]


def test_columns_of_sacct_that_repeat_names() -> None:
    """Labels of security and reservations are called after users; an association is a user by number."""
    columns = "JobID|McsLabel|Reservation|ReqReservation|AssocID|WCKey|AdminComment|SubmitLine|User"
    text = made(f"{columns}\n1|PRIV|PRIV_1|PRIV_2|771771|PRIV|PRIV|sbatch PRIV|PRIV\n")
    assert "PRIV" not in text
    assert "771771" not in text


@pytest.mark.parametrize(
    "text",
    [
        "JobID|User|SubmitLine\n1|ada|sbatch --wrap=x\npython PRIV.py\n",  # sacct prints lines of a command as they are
        "JobID|JobName|User\n1|a|b|PRIV\n",
        "user|gpus\nada|8\n",
        "job_id,job_name,user\n1,a,b,PRIV\n",
        "job_id,user,job_name\n1,ada\n",
    ],
)
def test_rows_whose_names_may_stand_anywhere_are_refused(text: str) -> None:
    """Rather than a file with a name in it, an error that says where and what to do."""
    with pytest.raises(TraceFormatError, match=r"name might stay|names no users"):
        made(text)


def test_a_bar_in_the_last_name_before_a_bar() -> None:
    """With --parsable each line ends with a bar; the name of the job before it may hold one."""
    assert made("JobID|User|JobName|\n1|ada|train|PRIV|\n").endswith(made("JobName\ntrain|PRIV").split("\n")[1] + "|\n")


@pytest.mark.parametrize("state", ["CANCELLED by PRIV", '"CANCELLED by PRIV"'])
def test_who_cancelled_in_a_csv(state: str) -> None:
    """What sacct prints, put into a CSV: the same pseudonym as the user's, quotes stay."""
    text = made(f"job_id,user,state\n1,PRIV,{state}\n")
    user = text.splitlines()[1].split(",")[1]
    assert text.splitlines()[1].split(",")[2] == state.replace("PRIV", user)


def test_names_below_a_user() -> None:
    """Objects and lists where others have a text; the seconds of ``time.user`` are none of a user."""
    text = made('[{"user": {"name": "PRIV", "uid": 771771}, "groups": ["PRIV", 5], "time": {"user": {"seconds": 5}}}]')
    assert "PRIV" not in text
    assert "771771" not in text
    assert json.loads(text)[0]["time"] == {"user": {"seconds": 5}}


def test_what_is_kept_may_be_called_after_somebody() -> None:
    """Accounts in partitions, users in ids of jobs; not what merely has the same letters, nor numbers."""
    pseudonyms = Pseudonyms(b"k")
    columns = "job_id,user,account,uid,partition,qos\n"
    text = anonymised(
        Source("f", columns + "ada-1,ada,def-ben,7,def-ben_gpu,7\nx,eve.l,never,8,evening,eve.l\n"), pseudonyms
    )
    assert still_named(text, pseudonyms) == ["ada", "def-ben", "eve.l"]
