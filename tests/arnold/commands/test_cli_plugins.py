"""Commands of other packages: found through entry points, and never in the way of the others."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.facts import says

ENTRY_POINTS = """\
[arnold.commands]
broken = broken_commands:COMMANDS

[arnold.files]
broken = broken_commands:FILES

[arnold.placement]
broken = broken_commands:Algorithm
"""


def install(folder: Path, package: str, entry_points: str) -> None:
    """Leave in a folder what an installed package leaves there."""
    metadata = folder / f"{package}-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text(entry_points)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder with what an installed package leaves whose module cannot be imported."""
    install(tmp_path, "broken", ENTRY_POINTS)
    (tmp_path / "broken_commands.py").write_text("import absent_library\n")
    return tmp_path


def run_arnold(site: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command line with that package besides what is installed."""
    code = "import sys; from arnold.commands.run import run; sys.exit(run(sys.argv[1:]))"
    path = os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("arguments", [["--help"], ["schema"]], ids=" ".join)
def test_package_that_cannot_be_imported_leaves_the_others(site: Path, arguments: list[str]) -> None:
    """The list of commands, and that of schemas, has all others; what is left out and why is said once, on stderr."""
    done = run_arnold(site, *arguments)
    assert done.returncode == 0, done.stderr
    assert "place" in done.stdout
    assert "simulate" in done.stdout
    (line,) = [line for line in done.stderr.splitlines() if "arnold.commands" in line]
    assert says(line, "Warning:", "broken (arnold.commands)", "left out", "ModuleNotFoundError", "'absent_library'")


def test_its_own_command_is_not_there(site: Path) -> None:
    """Whoever calls it reads why, and gets the exit code of a wrong command line."""
    done = run_arnold(site, "broken")
    assert done.returncode == 2
    assert "is left out: ModuleNotFoundError" in done.stderr
    assert "there is no command 'broken'" in done.stderr


READER = '''
from ground.formats import FileFormat


class RackList:
    """Names of racks, one a line."""

    format = FileFormat("rack-list", "an inventory", "made by hand", "racks", "")
    chooses_levels = False

    def likeness(self, head):
        return float(head.startswith(b"# racks"))

    def read(self, source, *, levels, now):
        for line in source.lines():
            rack, nodes = line.split()
'''


def test_plugin_that_fails_is_named(tmp_path: Path) -> None:
    """A reader of another package that stumbles over the user's file is to blame, with its line and the file.

    It is the last line of the module: ``# racks`` has two words, ``hello`` one.
    """
    install(tmp_path, "inventory", "[arnold.topology_readers]\nrack-list = inventory_racks:RackList\n")
    (tmp_path / "inventory_racks.py").write_text(READER)
    (tmp_path / "racks.txt").write_text("# racks\nhello\n")
    done = run_arnold(tmp_path, "topology", "show", str(tmp_path / "racks.txt"), "--json")
    assert done.returncode == 1
    error = json.loads(done.stdout)["error"]
    assert error["where"] == f"{tmp_path / 'inventory_racks.py'}:{len(READER.splitlines())}"
    for words in ("rack-list", "inventory", "ValueError", "racks.txt"):
        assert words in error["message"]
    assert "inventory" in error["fix"]
    assert "bug" not in error["fix"]


PROFILER = '''
import json

from ground.formats import FileFormat
from health.whatif.conversion import Conversion, Op
from health.whatif.trace import JobSizes


class Spans:
    """A vendor's profile: the spans of all ranks in a list."""

    format = FileFormat("spans", "the profiler of a vendor", "spans --all", "passes", "", marks=("vendor",))

    def likeness(self, head):
        return float(b'"vendor"' in head)

    def sizes(self, paths):
        ranks = {span["rank"] for span in self._spans(paths)}
        return JobSizes(dp=len(ranks), pp=1)

    def read(self, paths, layout, settings):
        ops = [Op(span["rank"], 0, span["op"], *span["at"], 0, 0) for span in self._spans(paths)]
        return Conversion(self.format.name, ops, (), ("read by the vendor",))

    def _spans(self, paths):
        return [span for path in paths for span in json.loads(open(path).read())["spans"]]
'''
OTHER_READERS = """
from ground.formats import FileFormat
from health.collectives.diagnosis import Diagnosis
from health.peers.streams import MetricRecording, samples_of


class Calls:
    format = FileFormat("calls", "an in-house log", "log", "calls", "")

    def likeness(self, head):
        return float(head.startswith(b"calls"))

    def read(self, sources, *, settings, lenient):
        return Diagnosis((), (), "healthy", notes=(f"{len(sources)} files of calls",))


class Levels:
    format = FileFormat("levels", "an in-house agent", "agent", "levels", "")

    def likeness(self, head):
        return float(head.startswith(b"levels"))

    def read(self, content, *, columns, lenient, several):
        import numpy as np

        names = content.data.decode().split()[1:]
        part = (names, np.arange(len(names)), np.zeros(len(names)), np.ones(len(names)))
        return MetricRecording({"level": samples_of("level", [part])}, False, content.name)
"""


def test_profile_of_a_vendor_is_read(tmp_path: Path) -> None:
    """A format in one module of another package is recognised, converted, listed, and analysed as any other.

    Its two ranks do 1 s of forward and 2 s of backward work each, so that there is nothing to lose to stragglers.
    """
    install(tmp_path, "vendor", "[arnold.profile_readers]\nspans = vendor_spans:Spans\n")
    (tmp_path / "vendor_spans.py").write_text(PROFILER)
    spans = [
        {"rank": rank, "op": op, "at": at}
        for rank in (0, 1)
        for op, at in (("forward-compute", (0.0, 1.0)), ("backward-compute", (1.0, 3.0)))
    ]
    (tmp_path / "profile").write_text(json.dumps({"vendor": 1, "spans": spans}))
    out = tmp_path / "trace"
    for named in ((), ("--from", "spans")):
        converted = run_arnold(
            tmp_path, "health", "op-trace", str(tmp_path / "profile"), "--save", str(out), "--json", *named
        )
        assert converted.returncode == 0, converted.stdout
        document = json.loads(converted.stdout)
        assert document["recovered"] == {"forward-compute": 2, "backward-compute": 2}
        assert "read by the vendor" in document["notes"]
    analysed = run_arnold(tmp_path, "stragglers", str(out / "trace.parquet"), "--json")
    assert json.loads(analysed.stdout)["cause"] == "none"
    listed = json.loads(run_arnold(tmp_path, "formats", "op-traces", "--json").stdout)
    assert [format["name"] for format in listed["kinds"][0]["formats"]] == [
        "kineto",
        "megatron-timers",
        "op-trace",
        "spans",
    ]
    unknown = run_arnold(
        tmp_path, "health", "op-trace", str(tmp_path / "profile"), "--save", str(out), "--from", "span", "--json"
    )
    error = json.loads(unknown.stdout)["error"]
    assert (unknown.returncode, error["where"]) == (2, "--from")
    assert "spans" in error["fix"]


def test_records_of_collectives_and_metrics_come_from_elsewhere_too(tmp_path: Path) -> None:
    """Both kinds of files have groups of their own; a file that looks like two formats asks for the option."""
    groups = "[arnold.collectives_readers]\ncalls = other_readers:Calls\n"
    groups += "[arnold.metric_readers]\nlevels = other_readers:Levels\nsame = other_readers:Levels\n"
    install(tmp_path, "other", groups)
    (tmp_path / "other_readers.py").write_text(OTHER_READERS)
    (tmp_path / "log").write_text("calls of rank 0\n")
    (tmp_path / "agent").write_text("levels n1 n2 n3 n4\n")
    found = json.loads(run_arnold(tmp_path, "health", "collectives", str(tmp_path / "log"), "--json").stdout)
    assert (found["format"], found["status"]) == ("calls", "healthy")
    assert "1 files of calls" in found["notes"]
    both = json.loads(run_arnold(tmp_path, "health", "peers", str(tmp_path / "agent"), "--json").stdout)
    assert "at once" in both["error"]["message"]
    assert "--format" in both["error"]["fix"]
    said = run_arnold(tmp_path, "health", "peers", str(tmp_path / "agent"), "--format", "levels", "--json")
    assert json.loads(said.stdout)["machines"] == 4


def test_reader_that_cannot_be_imported_is_not_in_the_way(tmp_path: Path) -> None:
    """Files of other formats are read as if it were not there; it is named once, and where it is asked for."""
    install(tmp_path, "inventory", "[arnold.topology_readers]\nrack-list = absent_racks:RackList\n")
    cluster = tmp_path / "cluster.csv"
    cluster.write_text("node,rack\nn1,r1\nn2,r2\n")
    done = run_arnold(tmp_path, "topology", "validate", str(cluster))
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("rack-list") == 1
    asked = run_arnold(tmp_path, "topology", "validate", str(cluster), "--format", "rack-list")
    assert asked.returncode == 1
    assert says(asked.stderr, "rack-list", "inventory", "ModuleNotFoundError")


def place(site: Path, *more: str) -> subprocess.CompletedProcess[str]:
    """Place a job with soft terms, for which quick rules are asked, on a small cluster."""
    rows = [f"n{i},m{i // 8},r{i // 4}" for i in range(24)]
    (site / "cluster.csv").write_text("\n".join(["node,minipod,rack", *rows, ""]))
    (site / "job.yaml").write_text("parallelism: {tp: 8, dp: 4, pp: 4}\nlevels: {rack: 0.1}\n")
    return run_arnold(site, "place", "--cluster", str(site / "cluster.csv"), "--job", str(site / "job.yaml"), *more)


def test_algorithms_that_cannot_be_used_are_not_in_the_way(site: Path) -> None:
    """For a job with soft terms quick rules are asked: those of the house, and not what is offered besides.

    One module cannot be imported; one package takes our names, which is said once of the algorithm that is asked for;
    and two offer the same name: which is meant is not guessed, both packages are named where it is asked for.
    """
    install(site, "taker", "[arnold.placement]\nexact = absent:Algorithm\nbest-fit = absent:Algorithm\n")
    for package in ("one", "other"):
        install(site, package, "[arnold.placement]\nmine = absent:Algorithm\n")
    done = place(site)
    assert done.returncode == 0, done.stderr
    assert "proved optimal" in done.stdout
    lines = [line for line in done.stderr.splitlines() if line.startswith("exact ")]
    (line,) = lines
    assert says(line, "exact of taker (arnold.placement)", "left out", "arnold-scheduler")
    refused = place(site, "--algorithm", "mine")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert says(refused.stderr, "one and other", "'mine' (arnold.placement)")
    assert says(refused.stderr, "To fix:", "uninstall all but one")
