"""What holds for every command: exit codes, one JSON document, errors that help, an instant --help."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arnold.commands.capacity import QUESTIONS
from arnold.console.output import as_written

Arnold = Callable[..., Any]

HEAVY = {"numpy", "pydantic", "rich", "yaml", "ortools", "matplotlib", "networkx", "jinja2", "ClusterShell"}


def test_help_imports_nothing_heavy() -> None:
    """`arnold --help` must feel instant: click alone is imported, no library that takes its time."""
    code = "import sys; from arnold.commands.run import run; run(['--help']); print(*sys.modules, sep='\\n')"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "place" in out
    assert not HEAVY & {name.partition(".")[0] for name in out.splitlines()}


SIX_NODES = """node,minipod,rack,gpus,free_gpus
n01,mp1,r1,8,8
n02,mp2,r3,8,8
n03,mp1,r1,8,8
n04,mp2,r3,8,8
n05,mp1,r2,8,0
n06,mp2,r4,8,8
"""


def test_a_small_place_imports_what_it_uses(tmp_path: Path) -> None:
    """The tutorial's job is decided by counting: no solver, no pandas, no pydantic, no reader of another format, and of
    the program nothing that other commands compute with.
    """
    (tmp_path / "cluster.csv").write_text(SIX_NODES)
    (tmp_path / "job.yaml").write_text("name: small\nparallelism: {tp: 8, dp: 2, pp: 2}\nalpha: 0.7\n")
    code = """
import sys
from arnold.commands.run import run
code = run(["place", "--cluster", "cluster.csv", "--job", "job.yaml"])
print(*sys.modules, sep="\\n")
sys.exit(code)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert "proved optimal: DP spread 1, PP spread 2, objective 1.3" in done.stdout
    modules = {*done.stdout.splitlines()}
    assert not {"ortools", "pandas", "pydantic", "pyarrow", "msgspec", "matplotlib", "networkx", "jinja2"} & modules
    assert {name for name in modules if name.startswith("topology.readers.")} == {
        "topology.readers.reading",
        "topology.readers.cluster_csv",
    }
    assert not {name for name in modules if name.startswith(("scheduler.several.", "topology.kubernetes", "health."))}


HEALTH = ["health peers", "health watch", "health collectives"]
COMPUTING = [
    "place",
    "explain",
    "compare",
    "repair",
    "stragglers",
    "study table1",
    "flags export",
    *HEALTH,
    "extender serve",
]
SIMULATING = ["simulate", "study generations", *(f"capacity {question}" for question in QUESTIONS)]


def test_help_of_a_command_computes_nothing() -> None:
    """The options are read from dataclasses whose modules import numpy only where they compute.

    Nor does any help need to know what is installed.  One program asks for all, and says after which what was loaded.
    """
    names = COMPUTING + SIMULATING
    code = f"""
import sys
from arnold.commands.run import run
for name in {names!r}:
    run([*name.split(), "--help"])
    loaded = {HEAVY!r} & {{module.partition(".")[0] for module in sys.modules}}
    print("LOADED", name, *sorted(loaded | {{"importlib.metadata"}} & set(sys.modules)))
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert [name for name in names if f"Usage: arnold {name}" not in out] == []
    assert [line for line in out.splitlines() if line.startswith("LOADED")] == [f"LOADED {name}" for name in names]


def test_every_command_of_the_table_explains_itself(arnold: Arnold) -> None:
    """Each command in the table can be imported, and its help has examples."""
    from arnold.commands.command_table import COMMANDS

    for name in COMMANDS:
        ran = arnold(name, "--help")
        assert ran.code == 0, name
        assert "Usage: arnold" in ran.out


@pytest.mark.parametrize("args", [(), ("--version",)])
def test_without_arguments_and_version(arnold: Arnold, args: Sequence[str]) -> None:
    """Bare `arnold` shows its help and is a usage error; --version is not."""
    ran = arnold(*args)
    assert ran.code == (0 if args else 2)
    assert ("arnold 0" in ran.out) if args else ("Start:" in ran.err)


@pytest.mark.parametrize(
    ("args", "kind", "hint"),
    [
        (["plaec"], "UnknownName", "did you mean 'place'"),
        (["place", "--clutser", "x"], "UsageError", "--cluster"),
        (["place"], "UsageError", "--cluster"),
        (["place", "--cluster", "c", "--job", "j", "--alpha", "much"], "UsageError", "--alpha"),
        (["place", "--cluster", "c", "--job", "j", "--alpha", "nan"], "UsageError", "--alpha"),
        (["place", "--cluster", "c", "--job", "j", "--time-limit", "0"], "UsageError", "--time-limit"),
        (["place", "--cluster", "c", "--job", "j", "--time-limit", "inf"], "UsageError", "--time-limit"),
        (["place", "--cluster", "c", "--job", "j", "--avoid", "maybe"], "UsageError", "strict"),
        (["place", "--cluster", "c", "--job", "j", "--algorithm", "exat"], "UnknownName", "did you mean 'exact'"),
        (["place", "--cluster", "-", "--job", "-"], "InvalidInput", "standard input"),
        (["place", "--cluster", "nowhere.csv", "--job", "nowhere.yaml"], "InvalidInput", "no such file"),
        (
            ["compare", "--cluster", "c", "--job", "j", "--algorithm", "exact,frist"],
            "UnknownName",
            "did you mean 'first'",
        ),
        (["schema", "plaec"], "UnknownName", "did you mean 'place'"),
    ],
)
@pytest.mark.usefixtures("fakes")
def test_usage_errors(arnold: Arnold, args: Sequence[str], kind: str, hint: str) -> None:
    """Exit 2 with the remedy on stderr and nothing on stdout; with --json one document on stdout and nothing else."""
    text, as_json = arnold(*args), arnold(*args, "--json")
    assert (text.code, text.out) == (2, "")
    assert text.err.startswith("Error: ")
    assert hint in text.err
    assert "Traceback" not in text.err
    if args[0] != "schema":
        assert (as_json.code, as_json.err) == (2, "")
        assert as_json.json["error"]["kind"] == kind
        assert set(as_json.json["error"]) == {"kind", "message", "where", "fix"}


@pytest.mark.usefixtures("fakes")
def test_a_bug_is_one_line_and_the_traceback_on_demand(
    arnold: Arnold, cluster_file: Path, job_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unexpected exception asks to be reported (exit 1); ARNOLD_DEBUG=1 adds the traceback."""
    args = ["place", "--cluster", cluster_file, "--job", job_file, "--algorithm", "crash"]
    ran = arnold(*args)
    assert ran.code == 1
    assert "ZeroDivisionError: oops" in ran.err
    assert "report this" in ran.err
    assert "Traceback" not in ran.err
    monkeypatch.setenv("ARNOLD_DEBUG", "1")
    assert "Traceback" in arnold(*args).err


@pytest.mark.usefixtures("fakes")
def test_control_c_ends_quietly(arnold: Arnold, cluster_file: Path, job_file: Path) -> None:
    """Exit 130 without a traceback."""
    ran = arnold("place", "--cluster", cluster_file, "--job", job_file, "--algorithm", "interrupted")
    assert (ran.code, ran.out, ran.err) == (130, "", "\nInterrupted.\n")


DEAF = """
import hashlib
import signal
from arnold.console.interrupts import watch_for_interrupts

signal.signal(signal.SIGINT, signal.default_int_handler)
watch_for_interrupts()
while True:
    try:
        print("busy", flush=True)
        hashlib.pbkdf2_hmac("sha256", b"", b"", 2**31 - 1)
    except KeyboardInterrupt:
        pass
"""


def test_control_c_ends_even_a_solver_that_does_not_listen() -> None:
    """While the main thread is busy outside Python, hashing for an hour, and deaf, Ctrl-C still ends it with 130.

    The program takes SIGINT as at a terminal, whatever the tests were started with: a background job ignores it.
    """
    command = [sys.executable, "-c", DEAF]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        try:
            assert running.stdout is not None
            assert running.stdout.readline() == "busy\n"
            running.send_signal(signal.SIGINT)
            _, err = running.communicate(timeout=60)
        finally:
            running.kill()
    assert (running.returncode, err) == (130, "\nInterrupted.\n")


def test_a_background_job_goes_on_ignoring_control_c() -> None:
    """A program that was started to ignore SIGINT, as by ``nohup`` or a shell's ``&``, is not interrupted."""
    program = (
        "import os, signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN);"
        "from arnold.console import interrupts; interrupts.GRACE = 0.1; interrupts.watch_for_interrupts();"
        "os.kill(os.getpid(), signal.SIGINT); time.sleep(interrupts.GRACE + 0.5); print('still here')"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout == "still here\n"


def test_other_packages_add_commands(arnold: Arnold, monkeypatch: pytest.MonkeyPatch) -> None:
    """An entry point of the group `arnold.commands` names a table of commands: listed, called, suggested."""
    rows = {"hello": ("arnold.commands.schema:command", "Say hello.")}
    point = SimpleNamespace(name="greetings", load=lambda: rows)
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [point] if group == "arnold.commands" else [])
    assert "Say hello." in arnold("--help").out
    assert arnold("hello", "error").code == 0
    assert "did you mean 'hello'" in arnold("helo").err


def test_other_packages_describe_their_files(arnold: Arnold, monkeypatch: pytest.MonkeyPatch) -> None:
    """An entry point of the group `arnold.files` names a table of files: `arnold schema` lists and prints them."""
    rows = {"greeting": "arnold.console.output:ErrorDocument"}
    point = SimpleNamespace(name="greetings", load=lambda: rows)
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [point] if group == "arnold.files" else [])
    assert {"place", "topology show", "error", "job", "greeting"} <= set(arnold("schema").out.splitlines())
    assert arnold("schema", "greeting").json["title"] == "ErrorDocument"


@pytest.mark.parametrize("name", ["place", "compare", "explain", "error", "job", "records"])
def test_schemas_describe_every_field(arnold: Arnold, name: str) -> None:
    """Each schema is JSON, refuses unknown keys and describes every field of every object, of output and of files."""
    schema = arnold("schema", name).json
    objects = [shape for shape in [schema, *schema.get("$defs", {}).values()] if shape.get("type") == "object"]
    assert objects
    assert all(shape["additionalProperties"] is False for shape in objects)
    fields = [(shape["title"], key, field) for shape in objects for key, field in shape["properties"].items()]
    assert [(title, key) for title, key, field in fields if not field.get("description")] == []


@pytest.mark.usefixtures("fakes")
def test_json_lines_are_short(arnold: Arnold, cluster_file: Path, job_file: Path) -> None:
    """The document reads well: a row of the assignment stands on one line."""
    ran = arnold("place", "--cluster", cluster_file, "--job", job_file, "--algorithm", "first", "--json")
    line = next(line for line in ran.out.splitlines() if '"node_rank": 1' in line)
    assert json.loads(line.strip().rstrip(","))["node_rank"] == 1


@pytest.mark.usefixtures("fakes")
def test_progress_goes_to_a_terminal_only(
    arnold: Arnold, cluster_file: Path, job_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a terminal stderr stays empty; the bar goes to stderr when that is one."""
    args = ["compare", "--cluster", cluster_file, "--job", job_file, "--algorithm", "first", "--json"]
    assert arnold(*args).err == ""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    ran = arnold(*args)
    assert "Comparing" in ran.err
    assert ran.json["results"]


@pytest.mark.usefixtures("fakes")
def test_no_partial_output_file(arnold: Arnold, cluster_file: Path, job_file: Path, tmp_path: Path) -> None:
    """A placement that was not found leaves no file behind, and a folder that does not exist is an error."""
    out = tmp_path / "placement.json"
    args = ["place", "--cluster", cluster_file, "--job", job_file, "--output"]
    assert arnold(*args, out, "--algorithm", "late").code == 4
    assert not out.exists()
    ran = arnold(*args, tmp_path / "no" / "folder.json", "--algorithm", "first", "--json")
    assert (ran.code, ran.json["error"]["kind"]) == (2, "InvalidInput")


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_as_people_write_them(number: float) -> None:
    """12 significant digits, and at least 6 decimals: within 5e-12 of it, or 5e-7; rounded twice is the same."""
    written = as_written({"a": [number]})["a"][0]
    assert written == pytest.approx(number, rel=5e-12, abs=5e-7 if abs(number) >= 1e6 else 0)
    assert as_written(written) == written


@pytest.mark.parametrize(
    ("number", "written"),
    [
        (1.5999999999999999, "1.6"),
        (0.1 + 0.2, "0.3"),
        (1 / 3, "0.333333333333"),
        (1763388000.123456, "1763388000.123456"),
    ],
)
def test_numbers_of_answers(number: float, written: str) -> None:
    """What floats make of decimals is gone; an instant keeps its microseconds."""
    assert json.dumps(as_written(number)) == written
